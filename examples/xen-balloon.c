/*
 * Says how much memory this Xen guest has, and asks the kernel's balloon driver for another size: what a guest agent does.
 * The driver works in the background, chooses the pages itself and wipes them.
 *
 * usage: xen-balloon [MIB]
 * exit:  0 done; 1 refused, with the reason; 2 wrong arguments; 77 this is not Xen
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/xen.h>

#define LEAST (UINT64_C(64) << 20) /* a guest with less does not live long */

int main(int argc, char **argv)
{
	uint64_t target = 0, current = 0;
	char *end = NULL;
	unsigned long mib = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
	if (argc > 2 || (argc == 2 && (*end != 0 || mib == 0 || mib > 1ul << 24))) {
		fprintf(stderr, "usage: %s [MIB]\n", argv[0]);
		return 2;
	}
	int r = pagehint_xen_get_target(&target, &current);
	if (r == -ENODEV) {
		printf("not applicable: this is not Xen: there is no balloon driver\n");
		return 77;
	}
	if (r == 0 && argc == 2)
		r = pagehint_xen_set_target((uint64_t)mib << 20, LEAST, UINT64_MAX, &target);
	if (r < 0) {
		fprintf(stderr, "%s\n", strerror(-r));
		return 1;
	}
	printf("has %" PRIu64 " MiB, is to have %" PRIu64 " MiB\n", current >> 20, target >> 20);
	return 0;
}
