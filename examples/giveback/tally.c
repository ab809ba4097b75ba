#include "tally.h"

#include <errno.h>
#include <stdlib.h>

#include <pagehint/run.h>

#include "backing.h"
#include "pattern.h"

int tally_open(struct tally *tally, uint64_t frames)
{
	*tally = (struct tally) { .frames = frames };
	tally->given_back = calloc((size_t)frames, 1);
	return tally->given_back ? 0 : -ENOMEM;
}

void tally_close(struct tally *tally)
{
	free(tally->given_back);
	tally->given_back = NULL;
}

void tally_alloc(struct tally *tally, uint64_t frame, uint32_t order)
{
	for (uint64_t at = frame; at < frame + (UINT64_C(1) << order); at++) {
		if (tally->given_back[at])
			tally->refault += PAGE_BYTES;
		tally->given_back[at] = 0;
	}
}

/* One unit: frames of one granule. It is for nothing when every frame of it was given back before and is so still. */
static void discard_unit(struct tally *tally, uint64_t frame, uint64_t frames)
{
	uint64_t again = 0;

	for (uint64_t at = frame; at < frame + frames; at++) {
		again += tally->given_back[at];
		tally->given_back[at] = 1;
	}
	tally->resent_untouched += again * PAGE_BYTES;
	if (again == frames)
		tally->rereported += frames * PAGE_BYTES;
}

void tally_discard(struct tally *tally, const struct pagehint_run *run)
{
	uint64_t end = run->frame + run->frames;

	for (uint64_t at = run->frame; at < end;) {
		uint64_t stop = (at / GRANULE_FRAMES + 1) * GRANULE_FRAMES;

		if (stop > end)
			stop = end;
		discard_unit(tally, at, stop - at);
		at = stop;
	}
}
