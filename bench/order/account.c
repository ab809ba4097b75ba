#include "account.h"

#include <stdlib.h>

#define HELD 1u
#define GIVEN 2u /* back, and not handed out since */
#define EVER 4u

int account_open(struct account *a, uint64_t frames, uint32_t order)
{
	*a = (struct account) { .frames = frames, .unit = UINT64_C(1) << order, .until_ns = UINT64_MAX };
	a->bits = calloc((size_t)frames, 1);
	return a->bits != NULL ? 0 : -1;
}

void account_close(struct account *a)
{
	free(a->bits);
	a->bits = NULL;
}

void account_advance(struct account *a, uint64_t now_ns)
{
	if (now_ns > a->until_ns)
		now_ns = a->until_ns;
	if (now_ns <= a->now_ns)
		return;
	double seconds = (double)(now_ns - a->now_ns) / 1e9;
	a->unreturned += (double)(a->held - a->live) * seconds;
	a->never += (double)(a->ever - a->live) * seconds;
	a->now_ns = now_ns;
}

void account_alloc(struct account *a, uint64_t now_ns, uint64_t frame, uint32_t order)
{
	account_advance(a, now_ns);
	for (uint64_t f = frame; f < frame + (UINT64_C(1) << order); f++) {
		a->held += (a->bits[f] & HELD) == 0;
		a->ever += (a->bits[f] & EVER) == 0;
		a->refaults += (a->bits[f] & GIVEN) != 0;
		a->bits[f] = HELD | EVER;
	}
	a->live += UINT64_C(1) << order;
}

void account_free(struct account *a, uint64_t now_ns, uint32_t order)
{
	account_advance(a, now_ns);
	a->live -= UINT64_C(1) << order;
}

static void discard_unit(struct account *a, uint64_t frame, uint64_t frames)
{
	uint64_t again = 0;
	for (uint64_t f = frame; f < frame + frames; f++) {
		again += (a->bits[f] & GIVEN) != 0;
		a->returned += (a->bits[f] & HELD) != 0;
		a->held -= (a->bits[f] & HELD) != 0;
		a->bits[f] = (uint8_t)((a->bits[f] & EVER) | GIVEN);
	}
	a->resent += again;
	if (again == frames)
		a->rereported += frames;
}

void account_discard(struct account *a, uint64_t now_ns, uint64_t frame, uint64_t frames)
{
	account_advance(a, now_ns);
	for (uint64_t at = frame, end = frame + frames; at < end;) {
		uint64_t stop = (at / a->unit + 1) * a->unit;
		if (stop > end)
			stop = end;
		discard_unit(a, at, stop - at);
		at = stop;
	}
}
