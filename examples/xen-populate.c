/*
 * Gives a Xen domain memory from its first frame on, then takes the upper half back: what a toolstack does when it builds a
 * domain, and when it wants some of it again.
 *
 * usage: xen-populate DOMID MIB      in Domain-0; the domain must not have been started
 * exit:  0 done; 1 refused, with the reason; 2 wrong arguments; 77 this is not Xen's Domain-0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/xen.h>

#define FIRST UINT64_C(0x10000) /* what lies below 256 MiB is left to others */

static int give(struct pagehint_xen *xen, uint64_t mib)
{
	const struct pagehint_run all = { FIRST, mib * 256 }, upper = { FIRST + mib * 128, mib * 128 };
	struct pagehint_xen_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_outcome outcome;
	uint64_t current = 0, maximum = 0;
	int r = pagehint_xen_populate(xen, &all, 1, 0, &outcome, NULL);
	if (r < 0) {
		fprintf(stderr, "populate: %s (reason %" PRIu32 "); nothing was done\n", strerror(-r),
			outcome.failed_why);
		return r;
	}
	r = pagehint_xen_reclaim(xen, &upper, 1, &outcome, NULL);
	if (r < 0) {
		fprintf(stderr, "reclaim: %s (reason %" PRIu32 ")\n", strerror(-r), outcome.failed_why);
		return r;
	}
	printf("taken back: %" PRIu64 " KiB freed, %" PRIu64 " KiB kept\n", outcome.freed >> 10, outcome.kept >> 10);
	r = pagehint_xen_reservation(xen, &current, &maximum);
	if (r == 0)
		r = pagehint_xen_stats(xen, &stats);
	if (r == 0)
		printf("the domain has %" PRIu64 " of %" PRIu64 " frames, after %" PRIu64 " hypercalls\n", current,
		       maximum, stats.hypercalls);
	return r;
}

int main(int argc, char **argv)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts) };
	struct pagehint_xen *xen = NULL;
	char *end[2] = { NULL, NULL };
	unsigned long domid = argc == 3 ? strtoul(argv[1], &end[0], 10) : 0;
	unsigned long mib = argc == 3 ? strtoul(argv[2], &end[1], 10) : 0;
	if (argc != 3 || *end[0] != 0 || *end[1] != 0 || domid == 0 || domid > 0x7fef || mib == 0 || mib % 2 != 0 ||
	    mib > 1 << 24) {
		fprintf(stderr, "usage: %s DOMID MIB (an even number)\n", argv[0]);
		return 2;
	}
	opts.domid = (uint32_t)domid;
	int r = pagehint_xen_open(&opts, &xen);
	if (r == -ENODEV || r == -EOPNOTSUPP) {
		printf("not applicable: this is not Xen's Domain-0, or it has no such domain\n");
		return 77;
	}
	if (r < 0) {
		fprintf(stderr, "domain %lu: %s\n", domid, strerror(-r));
		return 1;
	}
	r = give(xen, mib);
	return pagehint_xen_free(xen) < 0 || r < 0 ? 1 : 0;
}
