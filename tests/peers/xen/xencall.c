/* The way through libxencall: memory comes and goes as through privcmd, and what goes is wiped through libxenforeignmemory. */
#include <errno.h>
#include <string.h>

#include <pagehint/xencall.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"

#define FRAMES 2100u
#define SECRET 0x5a

static uint64_t frames[4096];

static int give_up_a_secret(struct pagehint_xen *x, uint32_t domid)
{
	const struct pagehint_run run = { FIRST, FRAMES }, part = { FIRST, 64 }, more = { FIRST + 4096, 4096 };
	struct pagehint_xen_stats stats = { .struct_size = sizeof(stats) };
	struct pagehint_outcome outcome;
	uint64_t current = 0, maximum = 0;
	CHECK(pagehint_xen_populate(x, &run, 1, 0, &outcome, NULL) == 0 && outcome.accepted == (uint64_t)FRAMES << 12);
	CHECK(pagehint_xen_reservation(x, &current, &maximum) == 0 && current == FRAMES);
	CHECK(domain_frames(domid) == FRAMES && maximum == 32 * MIB_FRAMES);
	for (uint32_t i = 0; i < 4096; i++)
		frames[i] = FIRST + i;
	void *at = domain_map(domid, frames, 64);
	CHECK(at != NULL);
	memset(at, SECRET, 64 * 4096);
	domain_unmap(at, 64);
	CHECK(pagehint_xen_reclaim(x, &part, 1, &outcome, NULL) == 0 && outcome.freed == 64 << 12);
	CHECK(domain_frames(domid) == FRAMES - 64);
	CHECK(pagehint_xen_populate(x, &more, 1, 0, NULL, NULL) == 0);
	for (uint32_t i = 0; i < 4096; i++)
		frames[i] = more.frame + i;
	CHECK(domain_count(domid, frames, 4096, SECRET) == 0);
	CHECK(pagehint_xen_stats(x, &stats) == 0 && stats.scrubbed == 64);
	return 0;
}

int case_xencall(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts) };
	struct pagehint_xen *x = NULL;
	opts.domid = domain_make(1, 32);
	CHECK(opts.domid != 0);
	CHECK(pagehint_xencall_open(&opts, &x) == 0);
	CHECK(give_up_a_secret(x, opts.domid) == 0);
	CHECK(domain_destroy(opts.domid) == 0);
	uint64_t current = 0;
	CHECK(pagehint_xen_reservation(x, &current, NULL) == -ENODEV);
	return pagehint_xen_free(x);
}
