#include "pattern.h"

#define WORDS (PAGE_BYTES / 8)
#define STRIDE UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t pattern_seed(uint64_t frame, uint64_t id, uint64_t generation)
{
	return mix(mix(frame * STRIDE + 1) + mix(id * STRIDE + 2) + generation) | 1;
}

void pattern_write(void *page, uint64_t seed)
{
	uint64_t *words = page;

	for (unsigned i = 0; i < WORDS; i++)
		words[i] = seed + i * STRIDE;
}

int pattern_is(const void *page, uint64_t seed)
{
	const uint64_t *words = page;
	uint64_t wrong = 0;

	for (unsigned i = 0; i < WORDS; i++)
		wrong |= words[i] ^ (seed + i * STRIDE);
	return wrong == 0;
}

int page_is_zero(const void *page)
{
	const uint64_t *words = page;
	uint64_t set = 0;

	for (unsigned i = 0; i < WORDS; i++)
		set |= words[i];
	return set == 0;
}

void page_touch(void *page)
{
	static volatile uint64_t nothing; /* a plain 0 lets clang turn this into a load */

	__atomic_fetch_or((uint64_t *)page, nothing, __ATOMIC_RELAXED);
}
