/*
 * The program that is Domain-0's whole userspace: runs the cases that its words name, and says `passed CASE` or `failed CASE`
 * of each; the last line says how many there were.
 */
#include <stdio.h>
#include <string.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "populate_pvh", case_populate_pvh },
	{ "populate_pv", case_populate_pv },
	{ "limit", case_limit },
	{ "holes", case_holes },
	{ "mapped", case_mapped },
	{ "gone", case_gone },
	{ "scrub", case_scrub },
	{ "reporter", case_reporter },
	{ "xencall", case_xencall },
	{ "self", case_self },
	{ "own", case_own },
	{ "target", case_target },
	{ "examples", case_examples },
	{ "measure", case_measure },
};

int main(int argc, char **argv)
{
	int ran = 0, bad = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (host_open() < 0) {
		printf("libxenctrl does not reach the hypervisor\n");
		return 1;
	}
	for (int a = 1; a < argc; a++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			if (strcmp(argv[a], cases[i].name) != 0)
				continue;
			int r = cases[i].run();
			printf("%s %s\n", r == 0 ? "passed" : "failed", cases[i].name);
			ran++;
			bad += r != 0;
		}
	printf("cases: %d of %d ran, %d failed\n", ran, argc - 1, bad);
	return ran == argc - 1 && bad == 0 ? 0 : 1;
}
