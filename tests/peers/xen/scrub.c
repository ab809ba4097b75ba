/* Does another domain see what a living one gave up? Without wiping yes, or the test would show nothing; with it no. */
#include <string.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"

#define SECRET 0xa5
#define GIVEN 64u
#define TAKEN 4096u

static uint64_t frames[TAKEN];

static uint32_t seen(uint32_t flags)
{
	const struct pagehint_run given = { FIRST, GIVEN }, taken = { FIRST, TAKEN };
	struct subject giver, taker; /* both are there before: making a domain takes frames, too */
	struct pagehint_outcome outcome;
	for (uint32_t i = 0; i < TAKEN; i++)
		frames[i] = FIRST + i;
	if (subject_open(&taker, 1, 32, flags | PAGEHINT_XEN_NO_2M, KNOWS) != 0 ||
	    subject_open(&giver, 1, 32, flags, KNOWS) != 0)
		return UINT32_MAX;
	if (pagehint_xen_populate(giver.xen, &given, 1, 0, NULL, NULL) < 0)
		return UINT32_MAX;
	void *at = domain_map(giver.domid, frames, GIVEN);
	if (at == NULL)
		return UINT32_MAX;
	memset(at, SECRET, (size_t)GIVEN * 4096);
	domain_unmap(at, GIVEN);
	if (pagehint_xen_reclaim(giver.xen, &given, 1, &outcome, NULL) < 0 || outcome.freed != (uint64_t)GIVEN << 12)
		return UINT32_MAX;
	if (pagehint_xen_populate(taker.xen, &taken, 1, 0, NULL, NULL) < 0)
		return UINT32_MAX;
	uint32_t found = domain_count(taker.domid, frames, TAKEN, SECRET);
	return subject_close(&giver) != 0 || subject_close(&taker) != 0 ? UINT32_MAX : found;
}

int case_scrub(void)
{
	uint32_t without = seen(PAGEHINT_XEN_NO_SCRUB), with = seen(0);
	printf("scrub: another domain sees %u of %u frames without it, %u with it\n", without, GIVEN, with);
	CHECK(without > 0 && without <= GIVEN);
	CHECK(with == 0);
	return 0;
}
