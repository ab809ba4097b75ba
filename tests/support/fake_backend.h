/*
 * fake_backend: an ops table that records every call and answers as told; synchronous or asynchronous.
 *
 * The world around it is a fake too: one log of words says in which order hooks and ops were called.
 */
#ifndef TESTS_SUPPORT_FAKE_BACKEND_H
#define TESTS_SUPPORT_FAKE_BACKEND_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/gate.h>

#include "discard/backend.h"
#include "discard/result.h"

#define FAKE_RUNS 4096

struct fake {
	struct pagehint_backend *backend;
	char log[8192]; /* "before 5+1;discard 5+1;after 5+1;" */
	/* what the last calls were */
	uint32_t discards, submits, populates, destroyed;
	uint32_t flags;
	struct pagehint_run seen[FAKE_RUNS];
	uint32_t seen_n;
	uint64_t cookie[64]; /* of the batches submitted, oldest first */
	struct pagehint_run batch[64][64];
	uint32_t batch_n[64];
	/* how to answer */
	int result;
	uint32_t short_by, over_by; /* *ret_done = n - short_by + over_by */
	void (*answer)(struct fake *fake, uint32_t i, const struct pagehint_run *run, struct pagehint_outcome *outcome);
	void (*inside)(struct fake *fake); /* runs within discard, populate or submit */
	uint64_t refuse_frame;             /* before_discard says no to the run that starts here */
	int populate_refuses_at;           /* after_populate fails for this run, counted from 0; -1 = never */
	uint64_t region_frames;            /* size of the regions for extent; 0 = no extent op */
	/* the system */
	int64_t pid, now;
	/* the hooks' memory */
	uint32_t lines, traces, populated;
	char last_line[256];
	char last_trace[32];
	uint32_t trace_runs;
	struct pagehint_outcome trace_sum;
	struct pagehint_outcome after[FAKE_RUNS];
	uint32_t after_n;
};

static inline void fake_note(struct fake *f, const char *word, const struct pagehint_run *run)
{
	size_t n = strlen(f->log);
	if (n + 64 < sizeof(f->log))
		snprintf(f->log + n, sizeof(f->log) - n, "%s %u+%u;", word, (unsigned)run->frame,
			 (unsigned)run->frames);
}

static inline int fake_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			       struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct fake *f = ctx;
	uint32_t done = n - f->short_by;
	f->discards++;
	f->flags = flags;
	for (uint32_t i = 0; i < n; i++) {
		fake_note(f, "discard", &runs[i]);
		if (f->seen_n < FAKE_RUNS)
			f->seen[f->seen_n++] = runs[i];
	}
	for (uint32_t i = 0; i < done; i++) {
		if (f->answer != NULL)
			f->answer(f, i, &runs[i], &outcomes[i]);
		else
			ph_outcome_freed(&outcomes[i], runs[i].frames << ph_backend_frame_shift(f->backend));
	}
	if (f->inside != NULL)
		f->inside(f);
	*ret_done = done + f->over_by;
	return f->result;
}

static inline int fake_submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	struct fake *f = ctx;
	if (f->result < 0)
		return f->result;
	assert_true(n <= 64 && f->submits < 64);
	f->flags = flags;
	f->cookie[f->submits] = cookie;
	f->batch_n[f->submits] = n;
	memcpy(f->batch[f->submits], runs, n * sizeof(*runs));
	f->submits++;
	for (uint32_t i = 0; i < n; i++)
		fake_note(f, "submit", &runs[i]);
	if (f->inside != NULL)
		f->inside(f);
	return 0;
}

/* Gives the newest first, so that a caller who expects order is wrong. */
static inline int fake_reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie,
			    uint32_t *ret_n)
{
	struct fake *f = ctx;
	if (f->result < 0)
		return f->result;
	if (f->submits == 0)
		return -EAGAIN;
	uint32_t last = --f->submits, n = f->batch_n[last];
	assert_true(max >= n);
	for (uint32_t i = 0; i + f->short_by < n; i++) {
		if (f->answer != NULL)
			f->answer(f, i, &f->batch[last][i], &outcomes[i]);
		else
			ph_outcome_freed(&outcomes[i], f->batch[last][i].frames << ph_backend_frame_shift(f->backend));
	}
	*ret_cookie = f->cookie[last];
	*ret_n = n - f->short_by + f->over_by;
	return 0;
}

static inline int fake_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	struct fake *f = ctx;
	f->populates++;
	for (uint32_t i = 0; i < n - f->short_by; i++)
		fake_note(f, "populate", &runs[i]);
	if (f->inside != NULL)
		f->inside(f);
	*ret_done = n - f->short_by + f->over_by;
	return f->result;
}

static inline int fake_extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least)
{
	struct fake *f = ctx;
	if (frame >= 1000000)
		return -ERANGE;
	*ret_frames = f->region_frames - frame % f->region_frames;
	*ret_least = 1;
	return 0;
}

static inline void fake_explain(void *ctx, const struct pagehint_sink *sink)
{
	(void)ctx;
	sink->line(sink->ctx, "the fake has nothing to say");
}

static inline void fake_destroy(void *ctx)
{
	struct fake *f = ctx;
	f->destroyed++;
}

static inline int hook_before(void *ctx, const struct pagehint_run *run)
{
	struct fake *f = ctx;
	fake_note(f, "before", run);
	return run->frame == f->refuse_frame ? -EPERM : 0;
}

static inline void hook_after(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *outcome)
{
	struct fake *f = ctx;
	fake_note(f, "after", run);
	if (f->after_n < FAKE_RUNS)
		f->after[f->after_n++] = *outcome;
}

static inline int hook_populated(void *ctx, const struct pagehint_run *run)
{
	struct fake *f = ctx;
	fake_note(f, "mapped", run);
	return (int)f->populated++ == f->populate_refuses_at ? -EFAULT : 0;
}

static inline void hook_log(void *ctx, uint32_t level, const char *text)
{
	struct fake *f = ctx;
	(void)level;
	f->lines++;
	snprintf(f->last_line, sizeof(f->last_line), "%s", text);
}

static inline void hook_trace(void *ctx, const char *what, uint32_t runs, const struct pagehint_outcome *sum)
{
	struct fake *f = ctx;
	f->traces++;
	f->trace_runs = runs;
	f->trace_sum = *sum;
	snprintf(f->last_trace, sizeof(f->last_trace), "%s", what);
}

static inline int64_t fake_getpid(void *ctx)
{
	return ((struct fake *)ctx)->pid;
}

static inline int64_t fake_clock(void *ctx)
{
	return ((struct fake *)ctx)->now;
}

/* The handle keeps a pointer to the system table. */
struct fake_world {
	struct fake fake;
	struct ph_sys sys;
	struct pagehint_hooks hooks;
	struct pagehint_backend_ops ops;
	struct pagehint_backend_opts opts;
};

/* Fills in everything; the test changes what it wants before fake_open. */
static inline void fake_setup(struct fake_world *w)
{
	memset(w, 0, sizeof(*w));
	w->fake.pid = 100;
	w->fake.refuse_frame = UINT64_MAX;
	w->fake.populate_refuses_at = -1;
	w->sys.ctx = &w->fake;
	w->sys.getpid = fake_getpid;
	w->sys.clock_ns = fake_clock;
	w->hooks = (struct pagehint_hooks) {
		.struct_size = sizeof(w->hooks),
		.ctx = &w->fake,
		.before_discard = hook_before,
		.after_discard = hook_after,
		.after_populate = hook_populated,
		.log = hook_log,
		.trace = hook_trace,
	};
	w->ops = (struct pagehint_backend_ops) {
		.struct_size = sizeof(w->ops),
		.name = "fake",
		.discard = fake_discard,
		.populate = fake_populate,
		.explain = fake_explain,
		.destroy = fake_destroy,
	};
	w->opts = (struct pagehint_backend_opts) { .struct_size = sizeof(w->opts), .hooks = &w->hooks };
}

static inline struct pagehint_backend *fake_open(struct fake_world *w)
{
	if (w->fake.region_frames != 0)
		w->ops.extent = fake_extent;
	if ((w->ops.caps & PAGEHINT_BACKEND_ASYNC) != 0) {
		w->ops.submit = fake_submit;
		w->ops.reap = fake_reap;
	}
	assert_int_equal(ph_backend_new_with(&w->ops, &w->fake, &w->opts, &w->sys, &w->fake.backend), 0);
	return w->fake.backend;
}

static inline void fake_close(struct fake_world *w)
{
	assert_int_equal(pagehint_backend_free(w->fake.backend), 0);
	assert_int_equal(w->fake.destroyed, 1);
}

static inline void assert_adds_up(const struct pagehint_outcome *o, uint64_t asked)
{
	assert_int_equal(o->asked, asked);
	assert_int_equal(o->freed + o->absent + o->accepted + o->kept + o->lazy + o->failed, asked);
}

#endif
