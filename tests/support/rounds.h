/*
 * rounds: how often a test of many rounds goes round. PAGEHINT_TEST_ROUNDS_PCT scales it, for slow instruments (valgrind)
 * and for long nights.
 */
#ifndef TESTS_SUPPORT_ROUNDS_H
#define TESTS_SUPPORT_ROUNDS_H

#include <stdlib.h>

static inline unsigned long rounds_scaled(unsigned long rounds)
{
	const char *percent = getenv("PAGEHINT_TEST_ROUNDS_PCT");
	unsigned long scaled = percent != NULL ? rounds * strtoul(percent, NULL, 10) / 100 : rounds;
	return scaled != 0 ? scaled : 1;
}

#endif
