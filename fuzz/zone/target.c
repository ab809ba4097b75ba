/*
 * A script of what allocators and the reporter do to a zone, beside the oracle of the model tests: the same operations, and the input
 * is the chance. The first byte says what kind of zone it is.
 */
#include "input.h"

/* few frames, so that most of the time is not spent on looking at them; on both sides of the end of a section */
#define SECTIONS 2u
#define FIRST (PAGEHINT_SECTION_FRAMES - UINT64_C(4096))
#define FRAMES (PAGEHINT_SECTION_FRAMES + UINT64_C(4096))
#define REQUIRE SURE

static struct input in;

/* below n, from as many bytes as n has */
static inline uint64_t rnd(uint64_t n)
{
	return take(&in, n <= 256 ? 1 : n <= 65536 ? 2 : n <= UINT64_C(1) << 32 ? 4 : 8) % n;
}

#include "model/zone_ops.h"

#define OPERATIONS 400u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct {
		uint32_t flags, granule;
	} kinds[] = {
		{ 0, 9 },
		{ PAGEHINT_ZONE_STRICT, 9 },
		{ PAGEHINT_ZONE_UNTRACKED, 9 },
		{ PAGEHINT_ZONE_LADDER, 9 },
		{ PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, 10 },
		{ 0, 4 },
		{ PAGEHINT_ZONE_STRICT, 1 },
		{ PAGEHINT_ZONE_SCRUB, 14 },
		{ PAGEHINT_ZONE_SHARED, 18 },
		{ PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_SCRUB | PAGEHINT_ZONE_STRICT, 6 },
	};
	memset(&m, 0, sizeof(m));
	in = (struct input) { data, bytes };
	uint64_t kind = rnd(sizeof(kinds) / sizeof(*kinds)), how = rnd(256);
	zone_open(kinds[kind].flags, kinds[kind].granule);
	for (m.round = 0; m.round < OPERATIONS && in.left != 0; m.round++)
		zone_op(rnd(100), (how & 1) != 0);
	if ((how & 6) == 0) { /* looks at every word; it is done once more when all has gone back */
		settle();
		check_granules();
	}
	zone_close();
	return 0;
}
