#include "oracle.h"

#include <errno.h>
#include <stdlib.h>

#include "backing.h"
#include "pattern.h"

enum { TOUCHED = 1, RESIDENT = 2 };

int oracle_open(struct oracle *oracle, uint64_t frames, uint64_t unit_bytes, uint64_t interval_ns)
{
	*oracle = (struct oracle) {
		.frames = frames,
		.unit_frames = unit_bytes >> PAGE_SHIFT,
		.interval_ns = interval_ns,
	};
	oracle->units = calloc((size_t)(frames / oracle->unit_frames + 1), 1);
	oracle->granules = calloc((size_t)(frames / GRANULE_FRAMES + 1), sizeof(*oracle->granules));
	if (oracle->units && oracle->granules)
		return 0;
	oracle_close(oracle);
	return -ENOMEM;
}

void oracle_close(struct oracle *oracle)
{
	free(oracle->units);
	free(oracle->granules);
	oracle->units = NULL;
	oracle->granules = NULL;
}

/* Returns the granule if by now it was time. */
static void look(struct oracle *oracle, uint64_t now_ns, uint64_t number)
{
	struct oracle_granule *granule = &oracle->granules[number];
	uint64_t units = GRANULE_FRAMES / oracle->unit_frames;

	if (granule->live > 0 || granule->resident == 0 || now_ns - granule->free_since < oracle->interval_ns)
		return;
	for (uint64_t unit = number * units; unit < (number + 1) * units; unit++)
		oracle->units[unit] &= TOUCHED;
	oracle->resident_bytes -= granule->resident * oracle->unit_frames * PAGE_BYTES;
	granule->resident = 0;
}

void oracle_advance(struct oracle *oracle, uint64_t now_ns)
{
	for (uint64_t number = 0; number < oracle->frames / GRANULE_FRAMES; number++)
		look(oracle, now_ns, number);
}

void oracle_alloc(struct oracle *oracle, uint64_t now_ns, uint64_t frame, uint32_t order)
{
	uint64_t unit_bytes = oracle->unit_frames * PAGE_BYTES;

	for (uint64_t at = frame; at < frame + (UINT64_C(1) << order); at++) {
		struct oracle_granule *granule = &oracle->granules[at / GRANULE_FRAMES];
		uint8_t *unit = &oracle->units[at / oracle->unit_frames];

		if (granule->live == 0)
			look(oracle, now_ns, at / GRANULE_FRAMES);
		granule->live++;
		if (!(*unit & TOUCHED))
			oracle->never_bytes += unit_bytes;
		if (!(*unit & RESIDENT)) {
			oracle->resident_bytes += unit_bytes;
			granule->resident++;
		}
		*unit = TOUCHED | RESIDENT;
	}
}

void oracle_free(struct oracle *oracle, uint64_t now_ns, uint64_t frame, uint32_t order)
{
	for (uint64_t at = frame; at < frame + (UINT64_C(1) << order); at++) {
		struct oracle_granule *granule = &oracle->granules[at / GRANULE_FRAMES];

		if (--granule->live == 0)
			granule->free_since = now_ns;
	}
}
