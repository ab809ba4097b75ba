#include "report/reporter.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/opts.h"
#include "discard/backend.h"

#define SECOND UINT64_C(1000000000)
/*
 * Long enough that an interval gathers what several looks would have asked for one by one: half as many requests for a GiB as
 * the Linux driver with its 2 s from a free to a report, for as much memory not yet back (bench order). Who is in need says so
 * by pressure, and waits for no interval.
 */
#define DEFAULT_INTERVAL (4 * SECOND)
#define DEFAULT_HOLD (10 * SECOND)
#define DEFAULT_STEP_BYTES (UINT64_C(256) << 20)
#define DEFAULT_IN_FLIGHT 2u
#define STEP_WORK 65536u /* words of the origin in one step */
#define POLLS_FIRST 64u  /* the first question comes after 1/64 interval, then the gap doubles up to one interval */
#define KNOWN_FLAGS (PAGEHINT_REPORTER_PSI | PAGEHINT_REPORTER_DISABLED | PAGEHINT_REPORTER_PROBE)

static int take_opts(struct pagehint_reporter_opts *o, const struct pagehint_reporter_opts *opts,
		     const struct pagehint_origin *origin)
{
	int err = PH_OPTS_IN(*o, opts);
	if (err != 0)
		return err;
	if ((o->flags & ~KNOWN_FLAGS) != 0 || o->max_in_flight > PH_QUEUE_SLOTS_MAX ||
	    o->holdback_intervals > PH_PACE_WINDOW_MAX || ((o->flags & PAGEHINT_REPORTER_PSI) != 0 && o->psi_fd < 0))
		return -EINVAL;
	/* who cannot say how much is free cannot leave so much alone */
	if ((o->watermark != 0 || o->holdback_intervals != 0) && origin->ops.get_free == NULL)
		return -EINVAL;
	if (o->interval_ns == 0)
		o->interval_ns = DEFAULT_INTERVAL;
	if (o->max_bytes_per_step == 0)
		o->max_bytes_per_step = DEFAULT_STEP_BYTES;
	if (o->backoff_ns == 0)
		o->backoff_ns = o->interval_ns;
	if (o->pressure_hold_ns == 0)
		o->pressure_hold_ns = DEFAULT_HOLD;
	if (o->max_in_flight == 0)
		o->max_in_flight = DEFAULT_IN_FLIGHT;
	return 0;
}

/* One block: the handle, outcomes and scratch of one batch, the queue. */
static struct pagehint_reporter *allocate(uint32_t slots, uint32_t runs)
{
	size_t head = (size_t)ph_round_up(sizeof(struct pagehint_reporter), 64), queue = ph_queue_size(slots, runs);
	size_t each = sizeof(struct pagehint_outcome) + sizeof(struct pagehint_run);
	if (queue == 0)
		return NULL;
	unsigned char *mem = calloc(1, head + runs * each + queue);
	if (mem == NULL)
		return NULL;
	struct pagehint_reporter *r = (struct pagehint_reporter *)(void *)mem;
	r->cycle.outcomes = (struct pagehint_outcome *)(void *)(mem + head);
	r->cycle.scratch = (struct pagehint_run *)(void *)(r->cycle.outcomes + runs);
	ph_queue_init(&r->cycle.queue, r->cycle.scratch + runs, slots, runs);
	return r;
}

int ph_reporter_new_with(struct pagehint_origin *origin, struct pagehint_backend *backend,
			 const struct pagehint_reporter_opts *opts, const struct ph_sys *sys,
			 struct pagehint_reporter **ret_reporter)
{
	struct pagehint_reporter_opts o;
	if (origin == NULL || backend == NULL || ret_reporter == NULL)
		return -EINVAL;
	int err = take_opts(&o, opts, origin);
	if (err != 0)
		return err;
	if (origin->ops.frame_shift != ph_backend_frame_shift(backend))
		return -EINVAL;
	int64_t owner = sys->getpid(sys->ctx);
	if (owner < 0)
		return (int)owner;
	uint32_t runs = pagehint_backend_max_runs(backend);
	struct pagehint_reporter *r = allocate(o.max_in_flight, runs);
	if (r == NULL)
		return -ENOMEM;
	r->sys = sys;
	r->owner = owner;
	ph_pace_init(&r->pace, o.interval_ns, o.rate, o.watermark, o.holdback_intervals, o.backoff_ns,
		     o.max_bytes_per_step);
	r->cycle.origin = origin;
	r->cycle.backend = backend;
	r->cycle.pace = &r->pace;
	r->cycle.room = o.max_in_flight;
	r->cycle.frame_shift = origin->ops.frame_shift;
	r->cycle.order = origin->ops.order;
	r->cycle.flags = (o.flags & PAGEHINT_REPORTER_PROBE) != 0 ? PAGEHINT_DISCARD_PROBE : 0;
	r->max_bytes = o.max_bytes_per_step;
	r->hold_ns = o.pressure_hold_ns;
	r->psi_fd = (o.flags & PAGEHINT_REPORTER_PSI) != 0 ? o.psi_fd : -1;
	r->bound_ns = ph_pace_bound_ns(&r->pace, 0);
	atomic_init(&r->mail, PH_MAIL_EMPTY);
	atomic_init(&r->on, (o.flags & PAGEHINT_REPORTER_DISABLED) == 0);
	atomic_init(&r->inside, 0);
	*ret_reporter = r;
	return 0;
}

int pagehint_reporter_new(struct pagehint_origin *origin, struct pagehint_backend *backend,
			  const struct pagehint_reporter_opts *opts, struct pagehint_reporter **ret_reporter)
{
	return ph_reporter_new_with(origin, backend, opts, &ph_sys_real, ret_reporter);
}

int pagehint_reporter_free(struct pagehint_reporter *reporter)
{
	if (reporter == NULL)
		return 0;
	/* what was in flight at a fork is the parent's: nobody will answer the child, which may let go of its copy */
	if (reporter->sys->getpid(reporter->sys->ctx) == reporter->owner &&
	    (reporter->cycle.queue.in_flight != 0 || atomic_load(&reporter->inside) != 0))
		return -EBUSY;
	free(reporter);
	return 0;
}

int pagehint_reporter_pressure(struct pagehint_reporter *reporter, uint32_t level, uint64_t hold_ns)
{
	if (reporter == NULL || level > PAGEHINT_PRESSURE_FULL)
		return -EINVAL;
	if (hold_ns > PH_MAIL_EMPTY / 4 - 1)
		hold_ns = PH_MAIL_EMPTY / 4 - 1; /* 146 years */
	atomic_store(&reporter->mail, hold_ns * 4 + level);
	return 0;
}

void pagehint_reporter_enable(struct pagehint_reporter *reporter, uint32_t on)
{
	if (reporter != NULL)
		atomic_store(&reporter->on, on != 0);
}

/* Begins a step or a stop; leave() must follow when it returns 0. */
static int enter(struct pagehint_reporter *r, uint64_t now_ns)
{
	if (r->sys->getpid(r->sys->ctx) != r->owner)
		return -ENODEV;
	if (atomic_exchange(&r->inside, 1) != 0)
		return -EDEADLK;
	if (now_ns > r->now_ns)
		r->now_ns = now_ns;
	r->pace.enabled = atomic_load(&r->on);
	return 0;
}

static void leave(struct pagehint_reporter *r)
{
	atomic_store(&r->inside, 0);
}

/* When to ask again for answers: soon after something went out or came back, ever less often while nothing does. */
static void plan_poll(struct pagehint_reporter *r, int moved)
{
	uint64_t first = r->pace.interval_ns / POLLS_FIRST + 1;
	if (r->cycle.queue.in_flight == 0) {
		r->poll_ns = UINT64_MAX;
	} else if (moved || r->poll_ns == UINT64_MAX) {
		r->poll_gap_ns = first;
		r->poll_ns = ph_pace_later(r->now_ns, first);
	} else if (r->now_ns >= r->poll_ns) {
		int rare = r->poll_gap_ns > r->pace.interval_ns / 2;
		r->poll_gap_ns = rare ? r->pace.interval_ns : 2 * r->poll_gap_ns;
		/* a look asks as well: between two of them nobody is woken for a backend that is silent for so long */
		r->poll_ns = rare && !r->cycle.look.active ? r->next_ns : ph_pace_later(r->now_ns, r->poll_gap_ns);
	}
}

/* Reads what others said and what the host says; returns 1 when the pressure has risen. */
static int read_pressure(struct pagehint_reporter *r)
{
	uint64_t mail = atomic_exchange(&r->mail, PH_MAIL_EMPTY);
	if (mail != PH_MAIL_EMPTY)
		ph_pace_press(&r->pace, r->now_ns, (uint32_t)(mail % 4), mail / 4);
	if (r->psi_fd >= 0) {
		int event = r->sys->poll_pri(r->sys->ctx, r->psi_fd);
		if (event > 0)
			ph_pace_psi(&r->pace, r->now_ns, r->hold_ns);
		r->psi_error = event < 0 ? event : 0;
	}
	const struct pagehint_origin_ops *ops = &r->cycle.origin->ops;
	uint32_t before = r->level;
	r->level = ph_pace_level(&r->pace, r->now_ns);
	r->cycle.order = ph_pace_order(r->level, ops->frame_shift, ops->min_order, ops->order);
	return r->level > before;
}

static void look_on(struct pagehint_reporter *r, uint64_t budget, uint64_t *deadline)
{
	struct ph_allowance allow = {
		.now_ns = r->now_ns,
		.budget = budget != 0 ? budget : r->max_bytes,
		.work = STEP_WORK,
		.literal = budget != 0,
	};
	r->stop = ph_cycle_look(&r->cycle, &allow);
	if (r->stop == PH_STOP_MORE) {
		*deadline = r->now_ns;
	} else if (r->stop == PH_STOP_RATE) {
		*deadline = allow.refill_ns;
	} else if (r->stop == PH_STOP_OVER) {
		const struct ph_tally *tally = &r->cycle.last;
		uint64_t frames = tally->taken + tally->young;
		for (unsigned i = 0; i < PH_GRANT_COUNT; i++)
			frames += tally->could[i];
		r->bound_ns = ph_pace_bound_ns(&r->pace, frames << r->cycle.frame_shift);
		r->next_ns = ph_pace_later(r->now_ns, r->pace.interval_ns);
		*deadline = r->next_ns;
	}
}

int pagehint_reporter_step(struct pagehint_reporter *reporter, uint64_t now_ns, uint64_t budget, uint64_t *ret_deadline)
{
	struct pagehint_reporter *r = reporter;
	if (r == NULL || ret_deadline == NULL)
		return -EINVAL;
	int err = enter(r, now_ns);
	if (err != 0)
		return err;
	uint64_t deadline = UINT64_MAX, sent = r->cycle.counts.batches;
	r->steps++;
	int moved = ph_cycle_reap(&r->cycle, r->now_ns) != 0;
	if (read_pressure(r) || (!r->cycle.look.active && r->now_ns >= r->next_ns))
		ph_cycle_look_begin(&r->cycle, r->now_ns);
	if (r->cycle.look.active)
		look_on(r, budget, &deadline);
	else
		deadline = r->next_ns;
	plan_poll(r, moved || r->cycle.counts.batches != sent);
	leave(r);
	*ret_deadline = deadline < r->poll_ns ? deadline : r->poll_ns;
	return 0;
}

int pagehint_reporter_stop(struct pagehint_reporter *reporter, uint64_t now_ns, uint64_t *ret_deadline)
{
	struct pagehint_reporter *r = reporter;
	if (r == NULL || ret_deadline == NULL)
		return -EINVAL;
	int err = enter(r, now_ns);
	if (err != 0)
		return err;
	atomic_store(&r->on, 0);
	r->pace.enabled = 0;
	int moved = ph_cycle_reap(&r->cycle, r->now_ns) != 0;
	plan_poll(r, moved);
	leave(r);
	if (r->cycle.queue.in_flight == 0)
		return 0;
	*ret_deadline = r->poll_ns;
	return -EAGAIN;
}

int ph_reporter_silent(const struct pagehint_reporter *reporter)
{
	const struct ph_batch *oldest = ph_queue_oldest(&reporter->cycle.queue);
	return oldest != NULL && reporter->now_ns - oldest->sent_ns >= 2 * reporter->pace.interval_ns;
}
