/*
 * Random operations on a zone against an oracle of one byte a frame.
 * Usage: model-zone [seed [rounds]]; the seed is printed, so that any failure can be had again.
 */
#include "support/rounds.h"
#include "zone_ops.h"

static void run(uint64_t seed, unsigned rounds, uint32_t flags, uint32_t granule)
{
	memset(&m, 0, sizeof(m));
	m.seed = seed;
	state = seed * 2654435761u + 88172645463325252u;
	zone_open(flags, granule);
	for (m.round = 0; m.round < rounds; m.round++) {
		/* phases that fill and phases that empty */
		zone_op(rnd(100), (m.round / 2000) % 2);
		if (m.round % 1000 == 999) {
			settle();
			check_granules();
		}
	}
	zone_close();
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261130;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)rounds_scaled(12000);
	const struct {
		uint32_t flags, granule;
	} kinds[] = {
		{ 0, 9 },
		{ PAGEHINT_ZONE_STRICT, 9 },
		{ PAGEHINT_ZONE_UNTRACKED, 9 },
		{ PAGEHINT_ZONE_LADDER, 9 },
		{ PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, 10 },
		{ 0, 4 },
		{ PAGEHINT_ZONE_STRICT, 1 },
		{ 0, 14 },
		{ 0, 18 },
		{ PAGEHINT_ZONE_LADDER, 6 },
	};
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		printf("seed %" PRIu64 " flags %u granule order %u\n", seed + i, kinds[i].flags, kinds[i].granule);
		fflush(stdout);
		run(seed + i, rounds, kinds[i].flags, kinds[i].granule);
	}
	return 0;
}
