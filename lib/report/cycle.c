#include "report/cycle.h"

#include <errno.h>
#include <string.h>

#include <pagehint/reporter.h>

#define LEAST_WORK 1024u /* words: with less left, an origin may not get over one granule */

/* Free, reported, ... as the origin tells it; zeros where it cannot know. */
static void get_free(const struct ph_cycle *cycle, uint32_t order, struct pagehint_origin_free *ret_free)
{
	memset(ret_free, 0, sizeof(*ret_free));
	ret_free->struct_size = sizeof(*ret_free);
	if (cycle->origin->ops.get_free != NULL)
		cycle->origin->ops.get_free(cycle->origin->ctx, order, ret_free);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void ph_cycle_look_begin(struct ph_cycle *cycle, uint64_t now_ns)
{
	struct pagehint_origin_free now;
	if (cycle->origin->ops.quiesce != NULL)
		cycle->origin->ops.quiesce(cycle->origin->ctx);
	get_free(cycle, cycle->order, &now);
	if (!cycle->begun)
		cycle->reuse_base =
			now.handed_out; /* what was handed out before our time is no re-use of what we gave back */
	ph_pace_reuse(cycle->pace, less(now.handed_out, cycle->reuse_base) << cycle->frame_shift);
	/* a look that pressure began early does not make an interval */
	if (now_ns - cycle->interval_ns >= cycle->pace->interval_ns) {
		ph_pace_interval_over(cycle->pace);
		cycle->reuse_base = now.handed_out;
		cycle->interval_ns = now_ns;
	}
	cycle->handed_out = now.handed_out;
	cycle->begun = 1;
	cycle->muted_to = 0;
	ph_futile_look(&cycle->futile, now_ns);
	if (cycle->room < cycle->queue.n_slots)
		cycle->room++;
	ph_look_begin(&cycle->look);
}

static void look_over(struct ph_cycle *cycle)
{
	struct ph_tally *tally = &cycle->look.tally;
	struct pagehint_origin_free now;
	get_free(cycle, cycle->order, &now);
	tally->free = now.free;
	tally->reported = now.reported;
	tally->hidden = now.hidden;
	tally->below_order = now.below;
	cycle->handed_out = now.handed_out;
	if (tally->least_bytes != 0) {
		uint32_t order = ph_pace_raise(cycle->order, cycle->frame_shift, tally->least_bytes);
		get_free(cycle, order > PH_PACE_MAX_ORDER ? PH_PACE_MAX_ORDER : order, &now);
		tally->below_least = less(now.below, tally->below_order);
	}
	cycle->look.active = 0;
	cycle->last = *tally;
	cycle->counts.looks++;
}

/* How many frames may be isolated in blocks of `block` bytes? PH_GRANT_TAKE or why not; *ret_frames with the former only. */
static uint32_t decide(struct ph_cycle *cycle, const struct ph_allowance *allow, uint64_t block, int futile,
		       uint64_t *ret_frames)
{
	uint64_t unreported = 0, bytes = 0;
	if (ph_pace_keep(cycle->pace, allow->now_ns) != 0) {
		struct pagehint_origin_free now;
		get_free(cycle, cycle->order, &now);
		ph_pace_reuse(cycle->pace, less(now.handed_out, cycle->reuse_base) << cycle->frame_shift);
		unreported = less(now.free, now.reported) << cycle->frame_shift;
	}
	uint32_t answer = ph_pace_grant(cycle->pace, allow->now_ns, block, unreported, &bytes);
	/* nor is the rate waited for where nothing would be taken */
	if (answer == PH_GRANT_TAKE || answer == PH_GRANT_RATE) {
		if (cycle->look.cursor < cycle->muted_to)
			return PH_GRANT_MUTED;
		if (futile)
			return PH_GRANT_FUTILE;
	}
	if (answer == PH_GRANT_TAKE)
		*ret_frames = bytes >> cycle->frame_shift;
	return answer;
}

/* Puts what a harvest isolated into the batch that is being filled. Returns frames. */
static uint64_t fill(struct ph_cycle *cycle, uint32_t n)
{
	uint64_t frames = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct pagehint_run *run = &cycle->scratch[i];
		if (run->frames == 0)
			continue;
		ph_queue_add(cycle->filled, run);
		frames += run->frames;
	}
	cycle->counts.isolated += frames << cycle->frame_shift;
	return frames;
}

static void origin_failed(struct ph_cycle *cycle, int error)
{
	cycle->look.tally.origin_errors++;
	cycle->look.tally.origin_error = error;
}

/* An origin does not say how many words it looked at: one bit a frame, or all it was allowed when that made it stop. */
static void charge(struct ph_allowance *allow, const struct pagehint_harvest *ask, const struct pagehint_harvested *got)
{
	uint64_t words = (got->next - ask->from) / 64 + 1, block = UINT64_C(1) << ask->order;
	if (got->next < ask->to && got->runs < ask->max_runs && got->frames + block <= ask->max_frames)
		words = allow->work;
	allow->work -= words < allow->work ? (uint32_t)words : allow->work;
}

/* One harvest of one window. Isolates at most max_frames when answer is PH_GRANT_TAKE, else only looks. Returns frames. */
static uint64_t harvest(struct ph_cycle *cycle, struct ph_allowance *allow, const struct ph_window *window,
			uint32_t order, uint32_t answer, uint64_t max_frames)
{
	struct ph_tally *tally = &cycle->look.tally;
	struct pagehint_harvested got = { 0, 0, 0, 0, 0 };
	struct pagehint_harvest ask = {
		.from = window->from,
		.to = window->to,
		.max_frames = max_frames,
		.max_runs = cycle->queue.max_runs,
		.order = order,
		.max_work = allow->work,
	};
	if (answer == PH_GRANT_TAKE)
		ask.max_runs -= cycle->filled->n;
	else
		ask.flags |= PAGEHINT_HARVEST_PEEK;
	if (ph_pace_level(cycle->pace, allow->now_ns) == PAGEHINT_PRESSURE_FULL)
		ask.flags |= PAGEHINT_HARVEST_NOW;
	int err = cycle->origin->ops.harvest(cycle->origin->ctx, &ask, cycle->scratch, &got);
	if (err != 0) {
		origin_failed(cycle, err);
		ph_look_advance(&cycle->look, window->to);
		return 0;
	}
	if (got.next <= window->from || got.next > window->to) {
		origin_failed(cycle, -EINVAL); /* it does not get on: whatever is there is passed over in this look */
		got.next = window->to;
	}
	charge(allow, &ask, &got);
	uint64_t frames = 0;
	tally->young += got.young;
	if (answer == PH_GRANT_TAKE) {
		frames = fill(cycle, got.runs < ask.max_runs ? got.runs : ask.max_runs);
		tally->taken += frames;
	} else {
		tally->could[answer] += got.frames;
	}
	ph_look_advance(&cycle->look, got.next);
	return frames;
}

/* The order to ask for in a window: never below the least size that frees there. Above PH_PACE_MAX_ORDER: none will do. */
static uint32_t window_order(struct ph_cycle *cycle, const struct ph_window *window)
{
	uint32_t order = ph_pace_raise(cycle->order, cycle->frame_shift, window->least_bytes);
	if (order > cycle->order && window->least_bytes > cycle->look.tally.least_bytes)
		cycle->look.tally.least_bytes = window->least_bytes;
	return order;
}

/* A batch that is full goes at once: its answer may change what is decided next. */
static void send_if_full(struct ph_cycle *cycle, uint64_t now_ns)
{
	if (cycle->filled == NULL || cycle->filled->n < cycle->queue.max_runs)
		return;
	ph_cycle_submit(cycle, now_ns);
	ph_cycle_reap(cycle, now_ns);
}

/* A batch to fill; 0 when the backend holds all it takes. */
static int open_batch(struct ph_cycle *cycle)
{
	if (cycle->filled == NULL && cycle->queue.in_flight < cycle->room)
		cycle->filled = ph_queue_open(&cycle->queue);
	return cycle->filled != NULL;
}

/* One window: 0, or what to stop for. *spent: bytes isolated in this step so far. */
static uint32_t look_at(struct ph_cycle *cycle, struct ph_allowance *allow, struct ph_window *window, uint64_t *spent)
{
	uint64_t max_frames = UINT64_MAX >> cycle->frame_shift;
	uint32_t order = window_order(cycle, window);
	if (order > PH_PACE_MAX_ORDER) {
		ph_look_advance(&cycle->look, window->to);
		return 0;
	}
	uint64_t block = UINT64_C(1) << (cycle->frame_shift + order);
	send_if_full(cycle, allow->now_ns);
	int futile = ph_futile_cut(&cycle->futile, allow->now_ns, window);
	uint32_t answer = decide(cycle, allow, block, futile, &max_frames);
	if (answer == PH_GRANT_RATE) {
		allow->refill_ns = ph_pace_refill_ns(cycle->pace, allow->now_ns, block);
		return PH_STOP_RATE;
	}
	if (answer == PH_GRANT_TAKE && allow->budget < block) {
		if (*spent != 0)
			return PH_STOP_MORE;
		if (allow->literal)
			answer = PH_GRANT_BUDGET;
		else
			allow->budget = block;
	}
	if (answer == PH_GRANT_TAKE) {
		if (!open_batch(cycle))
			return PH_STOP_ROOM;
		if (max_frames > allow->budget >> cycle->frame_shift)
			max_frames = allow->budget >> cycle->frame_shift;
	}
	uint64_t bytes = harvest(cycle, allow, window, order, answer, max_frames) << cycle->frame_shift;
	ph_pace_spend(cycle->pace, bytes);
	allow->budget -= bytes < allow->budget ? bytes : allow->budget;
	*spent += bytes;
	return 0;
}

uint32_t ph_cycle_look(struct ph_cycle *cycle, struct ph_allowance *allow)
{
	uint32_t stop = PH_STOP_OVER;
	uint64_t spent = 0;
	while (stop == PH_STOP_OVER) {
		struct ph_window window;
		int err = allow->work < LEAST_WORK
				  ? -EAGAIN
				  : ph_look_window(&cycle->look, cycle->origin, cycle->backend, &allow->work, &window);
		if (err == -ENOENT)
			break;
		stop = err != 0 ? (uint32_t)PH_STOP_MORE : look_at(cycle, allow, &window, &spent);
	}
	/* what is filled goes before the counts of a look are taken, so that a synchronous answer is in them */
	ph_cycle_submit(cycle, allow->now_ns);
	ph_cycle_reap(cycle, allow->now_ns);
	if (stop == PH_STOP_OVER)
		look_over(cycle);
	return stop;
}
