#include "discard/merge.h"

#include <errno.h>
#include <stddef.h>

static uint64_t end(const struct pagehint_run *run)
{
	return run->frame + run->frames;
}

/* Heap sort: in place and O(n log n) for any input; libc's qsort may allocate. */
static void sift(uint32_t *order, const struct pagehint_run *runs, uint32_t root, uint32_t n)
{
	uint32_t moving = order[root];
	for (;;) {
		uint32_t child = 2 * root + 1;
		if (child >= n)
			break;
		if (child + 1 < n && runs[order[child + 1]].frame > runs[order[child]].frame)
			child++;
		if (runs[order[child]].frame <= runs[moving].frame)
			break;
		order[root] = order[child];
		root = child;
	}
	order[root] = moving;
}

static void sort(uint32_t *order, const struct pagehint_run *runs, uint32_t n)
{
	for (uint32_t i = n / 2; i-- > 0;)
		sift(order, runs, i, n);
	for (uint32_t i = n; i-- > 1;) {
		uint32_t largest = order[0];
		order[0] = order[i];
		order[i] = largest;
		sift(order, runs, 0, i);
	}
}

static int is_ascending(const uint32_t *order, const struct pagehint_run *runs, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (runs[order[i - 1]].frame > runs[order[i]].frame)
			return 0;
	return 1;
}

int ph_merge_sort(struct ph_merge *merge, const struct pagehint_run *runs, uint32_t n)
{
	merge->n = n;
	merge->taken = 0;
	merge->merged_n = 0;
	for (uint32_t i = 0; i < n; i++)
		if (merge->part[i] != PH_MERGE_LEFT_OUT)
			merge->order[merge->taken++] = i;
	if (!is_ascending(merge->order, runs, merge->taken))
		sort(merge->order, runs, merge->taken);
	for (uint32_t i = 1; i < merge->taken; i++)
		if (end(&runs[merge->order[i - 1]]) > runs[merge->order[i]].frame)
			return -EINVAL;
	return 0;
}

void ph_merge_join(struct ph_merge *merge, const struct pagehint_run *runs, ph_merge_limit limit, void *ctx)
{
	struct pagehint_run *last = NULL;
	uint64_t stop = 0; /* the limit of `last`, asked for once it has a neighbour */
	int asked = 0;
	merge->merged_n = 0;
	for (uint32_t i = 0; i < merge->taken; i++) {
		const struct pagehint_run *run = &runs[merge->order[i]];
		int joins = last != NULL && end(last) == run->frame;
		if (joins && limit != NULL) {
			if (!asked)
				stop = limit(ctx, last->frame);
			asked = 1;
			joins = end(run) <= stop;
		}
		if (joins) {
			last->frames += run->frames;
		} else {
			last = &merge->merged[merge->merged_n++];
			*last = *run;
			asked = 0;
		}
		merge->part[merge->order[i]] = merge->merged_n - 1;
	}
}

void ph_merge_deal(const struct ph_merge *merge, const struct pagehint_run *runs, uint32_t frame_shift,
		   struct pagehint_outcome *got, struct pagehint_outcome *outcomes)
{
	for (uint32_t i = 0; i < merge->taken; i++) {
		uint32_t run = merge->order[i];
		outcomes[run] = ph_outcome_take(&got[merge->part[run]], runs[run].frames << frame_shift);
	}
}
