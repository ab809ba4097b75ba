/*
 * chance: the numbers of a model test, from a seed that can be had again, and a condition that names it when it is not so.
 * The including file has `m.seed` and `m.round`. The fuzzer, whose input says both, defines REQUIRE and rnd itself before it includes this.
 */
#ifndef TESTS_SUPPORT_CHANCE_H
#define TESTS_SUPPORT_CHANCE_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef REQUIRE
#define REQUIRE(cond)                                                                                           \
	do {                                                                                                    \
		if (!(cond)) {                                                                                  \
			printf("%s:%d: %s is not so (seed %" PRIu64 ", round %u)\n", __FILE__, __LINE__, #cond, \
			       m.seed, m.round);                                                                \
			exit(1);                                                                                \
		}                                                                                               \
	} while (0)

static uint64_t state;
static inline uint64_t rnd(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % n;
}
#endif

#endif
