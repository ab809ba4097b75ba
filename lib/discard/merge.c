#include "discard/merge.h"

#include <errno.h>
#include <stddef.h>

#include "base/bits.h"

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
	uint64_t stop = 0, least = 1; /* of `last`, asked for once it has a neighbour */
	int asked = 0;
	merge->merged_n = 0;
	for (uint32_t i = 0; i < merge->taken; i++) {
		const struct pagehint_run *run = &runs[merge->order[i]];
		int joins = last != NULL && end(last) == run->frame;
		if (joins && limit != NULL) {
			if (!asked)
				stop = limit(ctx, last->frame, &least);
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

/* What of a merged run lies in whole blocks of the least size that frees anything: all but its edges. */
struct inner {
	uint64_t from, to; /* frames; equal when there is no whole block */
};

static struct inner inner_of(const struct pagehint_run *merged, ph_merge_limit limit, void *ctx)
{
	uint64_t least = 1;
	if (limit != NULL)
		(void)limit(ctx, merged->frame, &least);
	uint64_t from = ph_round_up(merged->frame, least), to = ph_round_down(end(merged), least);
	return from < to ? (struct inner) { from, to } : (struct inner) { merged->frame, merged->frame };
}

static uint64_t frames_inside(const struct pagehint_run *run, const struct inner *inner)
{
	uint64_t from = run->frame > inner->from ? run->frame : inner->from;
	uint64_t to = end(run) < inner->to ? end(run) : inner->to;
	return from < to ? to - from : 0;
}

/* Was what was kept exactly the edges? Then it is known which parts it belongs to. */
static int kept_the_edges(const struct pagehint_outcome *got, const struct pagehint_run *merged,
			  const struct inner *inner, uint32_t frame_shift)
{
	uint64_t edges = merged->frames - (inner->to - inner->from);
	return got->kept != 0 && got->kept_why == PAGEHINT_WHY_ALIGNMENT && got->kept == edges << frame_shift;
}

static struct pagehint_outcome take_by_place(struct pagehint_outcome *got, uint64_t inside, uint64_t edge)
{
	uint64_t kept = got->kept;
	got->kept = 0;
	struct pagehint_outcome part = ph_outcome_take(got, inside);
	got->kept = kept - edge;
	got->asked -= edge;
	ph_outcome_kept(&part, edge, PAGEHINT_WHY_ALIGNMENT);
	return part;
}

void ph_merge_deal(const struct ph_merge *merge, const struct pagehint_run *runs, uint32_t frame_shift,
		   ph_merge_limit limit, void *ctx, struct pagehint_outcome *got, struct pagehint_outcome *outcomes)
{
	struct inner inner = { 0, 0 };
	int by_place = 0;
	for (uint32_t i = 0; i < merge->taken; i++) {
		uint32_t run = merge->order[i], m = merge->part[run];
		if (i == 0 || merge->part[merge->order[i - 1]] != m) {
			by_place = got[m].kept != 0 && got[m].kept_why == PAGEHINT_WHY_ALIGNMENT;
			if (by_place) {
				inner = inner_of(&merge->merged[m], limit, ctx);
				by_place = kept_the_edges(&got[m], &merge->merged[m], &inner, frame_shift);
			}
		}
		uint64_t inside = by_place ? frames_inside(&runs[run], &inner) : runs[run].frames;
		outcomes[run] = by_place ? take_by_place(&got[m], inside << frame_shift,
							 (runs[run].frames - inside) << frame_shift)
					 : ph_outcome_take(&got[m], inside << frame_shift);
	}
}
