/* The example programs do on the real hypervisor what they say. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"

static int run(const char *program, const char *argument, const char *more)
{
	int status = 0;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, argument, more, (char *)NULL);
		_exit(127);
	}
	return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

int case_examples(void)
{
	char number[16];
	uint32_t domid = domain_make(1, 72);
	CHECK(domid != 0);
	snprintf(number, sizeof(number), "%u", domid);
	CHECK(run("/bin/xen-populate", number, "64") == 0);
	CHECK(domain_frames(domid) == 32 * MIB_FRAMES); /* it takes half of it back */
	CHECK(run("/bin/xen-populate", number, "100000") == 1);
	CHECK(domain_frames(domid) == 32 * MIB_FRAMES);
	CHECK(domain_destroy(domid) == 0);
	CHECK(run("/bin/xen-balloon", NULL, NULL) == 0);
	CHECK(run("/bin/xen-balloon", "nonsense", NULL) == 2);
	return 0;
}
