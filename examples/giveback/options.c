#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "backing.h"

static const char help[] =
	"usage: giveback [OPTION...]\n"
	"\n"
	"Replays a recorded trace of page allocations over real memory of each kind, gives back what stays free,\n"
	"and shows what left the host. By default the trace is a kernel build of 25 s.\n"
	"\n"
	"  --trace FILE        another trace: a packed one, or what perf prints for your own workload:\n"
	"                        perf record -e kmem:mm_page_alloc -e kmem:mm_page_free -a -- WORKLOAD\n"
	"                        perf script -F time,event,trace > FILE\n"
	"  --backing LIST      only these, by commas: anon,thp,memfd,hugetlb,file\n"
	"  --reserve-hugetlb   as root: reserve the huge pages that hugetlb needs, and give them up at the end\n"
	"  --quick             the first part of the trace, without the comparison of speeds\n"
	"  --json FILE         figures and samples (build/demo.json)\n"
	"  --picture FILE      memory over trace time (build/demo.svg)\n"
	"  --help              this\n"
	"\n"
	"The last line is 'demo: ok', or the lines before say which figure missed its bound; the exit code follows "
	"it.\n"
	"Memory that this machine does not have is named there, too. The bounds on what comes back are for the build;\n"
	"with another trace only what must hold for any is judged: no page lost, and freed is what left the host.\n";

static int parse_backings(const char *list, uint32_t *ret_backings)
{
	uint32_t backings = 0;

	while (*list) {
		size_t length = strcspn(list, ",");
		uint32_t kind = 0;

		while (kind < BACKINGS &&
		       (strlen(backing_name(kind)) != length || memcmp(list, backing_name(kind), length) != 0))
			kind++;
		if (kind == BACKINGS) {
			fprintf(stderr, "giveback: '%.*s' is no backing; there are anon, thp, memfd, hugetlb, file\n",
				(int)length, list);
			return -EINVAL;
		}
		backings |= 1u << kind;
		list += length + (list[length] == ',');
	}
	if (!backings) {
		fprintf(stderr, "giveback: --backing names none\n");
		return -EINVAL;
	}
	*ret_backings = backings;
	return 0;
}

int options_parse(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{ "trace", required_argument, NULL, 't' }, { "backing", required_argument, NULL, 'b' },
		{ "json", required_argument, NULL, 'j' },  { "picture", required_argument, NULL, 'p' },
		{ "quick", no_argument, NULL, 'q' },       { "reserve-hugetlb", no_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },        { NULL, 0, NULL, 0 },
	};
	int rc = 0;

	*options = (struct options) {
		.json = "build/demo.json",
		.picture = "build/demo.svg",
		.backings = (1u << BACKINGS) - 1,
	};
	for (int c; !rc && (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		if (c == 't')
			options->trace = optarg;
		else if (c == 'b')
			rc = parse_backings(optarg, &options->backings);
		else if (c == 'j')
			options->json = optarg;
		else if (c == 'p')
			options->picture = optarg;
		else if (c == 'q')
			options->is_quick = 1;
		else if (c == 'r')
			options->reserves_hugetlb = 1;
		else if (c == 'h')
			return fputs(help, stdout), 1;
		else
			rc = -EINVAL;
	}
	if (!rc && optind < argc) {
		fprintf(stderr, "giveback: what is '%s'? (--help)\n", argv[optind]);
		rc = -EINVAL;
	}
	return rc;
}
