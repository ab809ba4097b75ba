#include "hands.h"

#include <stdlib.h>
#include <string.h>

#define HUGE_WORDS (1u << (HUGE_ORDER - 6))

struct hands {
	uint64_t frames;
	uint64_t held;
	uint64_t wrong;
	uint64_t words[]; /* bit = frame */
};

struct hands *hands_new(uint64_t frames)
{
	struct hands *h = calloc(1, sizeof(*h) + (frames / 64 + HUGE_WORDS) * 8);
	if (h == NULL)
		abort();
	h->frames = frames;
	return h;
}

void hands_free(struct hands *h)
{
	free(h);
}

void hands_hold_run(struct hands *h, uint64_t frame, uint64_t frames)
{
	if (frame >= h->frames || frames > h->frames - frame) {
		h->wrong++;
		return;
	}
	h->held += frames;
	for (uint64_t end = frame + frames; frame < end;) {
		uint64_t here = 64 - frame % 64 < end - frame ? 64 - frame % 64 : end - frame;
		uint64_t mask = (here == 64 ? UINT64_MAX : (UINT64_C(1) << here) - 1) << (frame % 64);
		h->wrong += (uint64_t)__builtin_popcountll(h->words[frame / 64] & mask);
		h->words[frame / 64] |= mask;
		frame += here;
	}
}

void hands_hold(struct hands *h, const struct block *blocks, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (blocks[i].order == NO_BLOCK)
			continue;
		uint64_t frames = UINT64_C(1) << blocks[i].order;
		h->wrong += (blocks[i].frame & (frames - 1)) != 0;
		hands_hold_run(h, blocks[i].frame, frames);
	}
}

uint64_t hands_overlaps(const struct hands *h)
{
	return h->wrong;
}

uint64_t hands_held(const struct hands *h)
{
	return h->held;
}

int hands_touch_huge(const struct hands *h, uint64_t block)
{
	uint64_t any = 0;
	for (unsigned i = 0; i < HUGE_WORDS; i++)
		any |= h->words[block * HUGE_WORDS + i];
	return any != 0;
}

double hands_huge_free_pct(const struct hands *h)
{
	uint64_t blocks = h->frames >> HUGE_ORDER, untouched = 0;
	for (uint64_t i = 0; i < blocks; i++)
		untouched += !hands_touch_huge(h, i);
	return 100.0 * (double)untouched / ((double)(h->frames - h->held) / (1u << HUGE_ORDER));
}
