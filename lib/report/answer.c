/* the way back: submit -> reap -> release */
#include <errno.h>

#include "base/bits.h"
#include "report/cycle.h"

static uint64_t bytes_of(const struct ph_cycle *cycle, uint64_t frames)
{
	return frames << cycle->frame_shift;
}

static void count_why(struct ph_cycle *cycle, uint32_t why, uint64_t bytes)
{
	if (bytes == 0)
		return;
	if (why >= PAGEHINT_WHY_COUNT)
		why = PAGEHINT_WHY_NONE;
	cycle->counts.kept_by[why] = ph_pace_later(cycle->counts.kept_by[why], bytes);
	cycle->counts.kept_at_look[why] = cycle->counts.looks + 1;
}

/* `kept`: bytes of the run that were not given back; all of them unless it is reported. */
static void release(struct ph_cycle *cycle, const struct pagehint_run *run, uint32_t how, uint64_t kept)
{
	cycle->counts.reported += bytes_of(cycle, run->frames) - kept;
	cycle->counts.kept += kept;
	cycle->origin->ops.release(cycle->origin->ctx, run, how);
}

static void release_kept(struct ph_cycle *cycle, const struct pagehint_run *run)
{
	release(cycle, run, PAGEHINT_RELEASE_KEPT, bytes_of(cycle, run->frames));
}

/* Gives a whole batch back unreported. The slot is closed first: a release must never see it in flight as well. */
static void give_up(struct ph_cycle *cycle, struct ph_batch *batch, uint32_t why, int error)
{
	count_why(cycle, why, bytes_of(cycle, batch->frames));
	if (error != 0) {
		cycle->counts.failed += bytes_of(cycle, batch->frames);
		cycle->counts.error = error;
	}
	ph_queue_close(&cycle->queue, batch);
	for (uint32_t i = 0; i < batch->n; i++)
		release_kept(cycle, &batch->runs[i]);
}

static void back_off(struct ph_cycle *cycle, uint64_t now_ns, int gained)
{
	ph_pace_failed(cycle->pace, now_ns, gained);
	cycle->counts.backoffs++;
}

static uint32_t why_refused(int error)
{
	switch (error) {
	case -ENODEV:
		return PAGEHINT_WHY_GONE;
	case -EDEADLK:
		return PAGEHINT_WHY_REENTRY;
	case -EAGAIN:
	case -EBUSY:
		return PAGEHINT_WHY_NOT_TRIED;
	default:
		return PAGEHINT_WHY_SYSCALL;
	}
}

void ph_cycle_submit(struct ph_cycle *cycle, uint64_t now_ns)
{
	struct ph_batch *batch = cycle->filled;
	cycle->filled = NULL;
	if (batch == NULL)
		return;
	if (batch->n == 0) {
		ph_queue_close(&cycle->queue, batch);
		return;
	}
	if (cycle->origin->ops.depart != NULL)
		cycle->origin->ops.depart(cycle->origin->ctx, batch->frames);
	ph_queue_launch(&cycle->queue, batch, now_ns);
	int err = pagehint_backend_submit(cycle->backend, batch->runs, batch->n, cycle->flags, batch->cookie);
	if (err == 0) {
		cycle->counts.batches++;
		cycle->counts.runs += batch->n;
		return;
	}
	ph_pace_refund(cycle->pace, bytes_of(cycle, batch->frames));
	uint32_t others = cycle->queue.in_flight - 1;
	/* Full is no failure while answers are to come: from now on no more than it took is taken from the origin. */
	if (err == -EAGAIN && others > 0)
		cycle->room = others;
	else
		back_off(cycle, now_ns, 0);
	give_up(cycle, batch, why_refused(err), err == -EAGAIN ? 0 : err);
}

/* A region or the gate said no: asking again in this look would isolate for nothing. */
static void mute(struct ph_cycle *cycle, const struct pagehint_run *run, uint32_t why)
{
	uint64_t frames = 0, least, end;
	if (why == PAGEHINT_WHY_INHIBITED) {
		cycle->muted_to = UINT64_MAX;
		return;
	}
	if (why != PAGEHINT_WHY_PINNED && why != PAGEHINT_WHY_CANNOT && why != PAGEHINT_WHY_UFFD)
		return;
	if (pagehint_backend_extent(cycle->backend, run->frame, &frames, &least) != 0)
		return;
	end = ph_sum_fits(run->frame, frames) ? run->frame + frames : UINT64_MAX;
	if (run->frame <= cycle->look.cursor && cycle->look.cursor < end && end > cycle->muted_to)
		cycle->muted_to = end;
}

/* Everything was given back that can be: what is kept of the run is so because of where it lies, and would be again. */
static int is_done(const struct pagehint_outcome *o, uint64_t bytes)
{
	int stays = o->kept_why == PAGEHINT_WHY_ALIGNMENT || o->kept_why == PAGEHINT_WHY_PAGE_CACHE;
	return o->failed == 0 && (o->kept == 0 || (o->kept < bytes && stays));
}

/* Wholly kept, and it would be again. What is pinned or behind a closed gate is waited for, and asked about again soon. */
static int is_in_vain(const struct pagehint_outcome *o, uint64_t bytes)
{
	return o->kept == bytes && o->kept_why != PAGEHINT_WHY_INHIBITED && o->kept_why != PAGEHINT_WHY_PINNED &&
	       o->kept_why != PAGEHINT_WHY_NOT_TRIED;
}

/* what the runs of a batch came to */
struct sum {
	uint64_t failed;   /* bytes */
	uint64_t from, to; /* frames: hull of what was in vain */
	uint32_t why;      /* of the last in vain; PAGEHINT_WHY_NONE = nothing was */
	uint32_t gained;   /* something was given back */
};

static void add_in_vain(struct sum *sum, const struct pagehint_run *run, uint32_t why)
{
	uint64_t end = run->frame + run->frames;
	sum->from = sum->why == PAGEHINT_WHY_NONE || run->frame < sum->from ? run->frame : sum->from;
	sum->to = end > sum->to ? end : sum->to;
	sum->why = why;
}

/* What a run came to; o is NULL when the answer does not tell. That the classes of an outcome add up is the backend handle's
 * care. */
static void settle(struct ph_cycle *cycle, const struct pagehint_run *run, const struct pagehint_outcome *o,
		   struct sum *sum)
{
	uint64_t bytes = bytes_of(cycle, run->frames);
	if (o == NULL) {
		count_why(cycle, PAGEHINT_WHY_BACKEND_LIED, bytes);
		sum->failed += bytes;
		release_kept(cycle, run);
		return;
	}
	count_why(cycle, o->kept_why, o->kept);
	count_why(cycle, o->failed_why, o->failed);
	if (o->kept == bytes)
		mute(cycle, run, o->kept_why);
	if (is_in_vain(o, bytes))
		add_in_vain(sum, run, o->kept_why);
	if (o->kept + o->failed < bytes)
		sum->gained = 1;
	if (o->failed != 0 && o->error != 0)
		cycle->counts.error = o->error;
	sum->failed += o->failed;
	if (is_done(o, bytes))
		release(cycle, run, PAGEHINT_RELEASE_REPORTED, o->kept);
	else
		release_kept(cycle, run);
}

/*
 * Tells the origin what reads as zero now. Runs may have been merged into one call, of which the promise only holds when all of it
 * was freed: so the whole batch must have been.
 */
static void tell_zeroed(const struct ph_cycle *cycle, const struct ph_batch *batch, uint32_t n)
{
	const struct pagehint_origin_ops *ops = &cycle->origin->ops;
	if (ops->zeroed == NULL || n < batch->n ||
	    !(pagehint_backend_caps(cycle->backend) & PAGEHINT_BACKEND_READS_ZERO))
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct pagehint_outcome *o = &cycle->outcomes[i];
		if (o->kept != 0 || o->lazy != 0 || o->failed != 0 ||
		    o->freed + o->absent + o->accepted != bytes_of(cycle, batch->runs[i].frames))
			return;
	}
	for (uint32_t i = 0; i < n; i++)
		ops->zeroed(cycle->origin->ctx, &batch->runs[i]);
}

static void answered(struct ph_cycle *cycle, struct ph_batch *batch, uint32_t n, uint64_t now_ns)
{
	struct sum sum = { 0, 0, 0, PAGEHINT_WHY_NONE, 0 };
	ph_queue_close(&cycle->queue, batch);
	tell_zeroed(cycle, batch, n);
	for (uint32_t i = 0; i < batch->n; i++)
		settle(cycle, &batch->runs[i], i < n ? &cycle->outcomes[i] : NULL, &sum);
	cycle->counts.failed += sum.failed;
	if (sum.failed != 0)
		back_off(cycle, now_ns, (int)sum.gained);
	else if (sum.gained)
		ph_pace_succeeded(cycle->pace);
	else if (sum.why != PAGEHINT_WHY_NONE)
		cycle->counts.backoffs +=
			(uint64_t)ph_futile_note(&cycle->futile, cycle->pace, now_ns, sum.from, sum.to, sum.why);
}

/* The other side is gone: nobody will answer, and nobody is left who could discard. */
static uint32_t all_gone(struct ph_cycle *cycle, uint64_t now_ns)
{
	uint32_t ended = 0;
	for (struct ph_batch *batch; (batch = ph_queue_oldest(&cycle->queue)) != NULL; ended++)
		give_up(cycle, batch, PAGEHINT_WHY_GONE, -ENODEV);
	if (ended != 0)
		back_off(cycle, now_ns, 0);
	cycle->given_up += ended;
	return ended;
}

/* An answer to nothing that is in flight: of a batch that was given up, or made up. */
static void stray(struct ph_cycle *cycle)
{
	cycle->counts.strays++;
	cycle->given_up -= cycle->given_up > 0;
}

uint32_t ph_cycle_reap(struct ph_cycle *cycle, uint64_t now_ns)
{
	uint32_t ended = 0;
	/* A backend that makes answers up must not keep us here: twice the room is more than an honest one can have. What was given
	 * up is asked for, too: a backend with an answer that nobody takes has room for no other, and cannot be freed. */
	for (uint32_t i = 0; cycle->queue.in_flight + cycle->given_up > 0 && i < 2 * cycle->queue.n_slots; i++) {
		uint64_t cookie = 0;
		uint32_t n = 0;
		int err = pagehint_backend_reap(cycle->backend, cycle->queue.max_runs, cycle->outcomes, &cookie, &n);
		if (err == -EAGAIN)
			break;
		if (err == -ENODEV)
			return ended + all_gone(cycle, now_ns);
		if (err != 0) {
			cycle->counts.error = err;
			break;
		}
		struct ph_batch *batch = ph_queue_find(&cycle->queue, cookie);
		if (batch == NULL) {
			stray(cycle);
			continue;
		}
		answered(cycle, batch, n, now_ns);
		ended++;
	}
	return ended;
}
