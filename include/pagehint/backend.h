/*
 * backend.h: a backend gives runs of frames back to the layer below, and fetches them again.
 *
 * The problem: which call frees memory depends on what backs it, callers must not be told "success" when nothing was freed,
 * and one call per range is many times slower than a batch. Why this shape: one ops table, batches only, an outcome for
 * every run. Built-in backends (host.h) come through the same door as an embedder's own. The handle around the table checks
 * what the table returns, asks the inhibit gate, calls the embedder's hooks in a fixed order, and counts.
 *
 * Order for every run of a discard:  gate -> before_discard -> ops.discard -> after_discard.
 * Order for every run of a populate: ops.populate -> after_populate. (So VFIO unmaps before, and maps after.)
 * after_discard follows for every run that before_discard let pass, whatever became of it, and for no other.
 *
 * Adjacent runs of a batch are merged for the call below (never across the end of a region, as ops.extent has it), and the
 * outcome of a merged run is dealt out to its parts in address order, class by class: freed, accepted, absent, lazy, kept,
 * failed. So the sums of every part and of the batch are exact; what was kept for
 * its alignment is told of the runs whose edges it is; of any other mixed outcome, which is rare, no place is known.
 */
#ifndef PAGEHINT_BACKEND_H
#define PAGEHINT_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/outcome.h>
#include <pagehint/run.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_backend;
struct pagehint_gate;

/* flags of a discard */
#define PAGEHINT_DISCARD_PROBE 1u /* probe residency before the call, so that freed and absent are told apart */
/*
 * What cannot be freed must read as zero afterwards (may write to the memory). Exceptions: what may not be touched (inhibited,
 * pinned, refused by a hook, device), what failed, and pages of a private file that were never written (kept: page cache).
 */
#define PAGEHINT_DISCARD_ZERO 2u

/* caps of a backend */
#define PAGEHINT_BACKEND_ASYNC 1u /* has submit and reap instead of discard */
/* whatever it freed or accepted reads as zero when touched again; of runs that were merged into one call, once all of it was */
#define PAGEHINT_BACKEND_READS_ZERO 2u

/**
 * struct pagehint_backend_ops - what an implementation supplies; copied by pagehint_backend_new, fixed for life
 *
 * Called with no lock held, one call at a time for a handle. NULL = not supported, where optional.
 * discard:  required unless ASYNC. Fills outcomes[0..n); *ret_done = runs dealt with, also on failure. Returns 0 or -errno.
 * submit:   required if ASYNC. Takes a whole batch or nothing (-EAGAIN: no room). Runs are copied by the callee if kept.
 * reap:     required if ASYNC. One finished batch: its cookie and outcomes (max entries at the most, as many as it had
 *           runs), in any order; -EAGAIN: none finished.
 * populate: optional. Makes memory present again; *ret_done = runs done, also on failure.
 * extent:   optional. How many frames from `frame` on lie in the same region, and the least size that frees anything there
 *           [bytes]. -ERANGE: no region has this frame.
 * explain:  optional. Says what stands in the way of memory going back.
 * destroy:  optional. Called once, by pagehint_backend_free.
 */
struct pagehint_backend_ops {
	size_t struct_size;
	const char *name;
	uint32_t caps;
	uint32_t max_runs; /* runs it takes in one call; 0 = any number (it gets 1024, and never more than 16384) */
	int (*discard)(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		       struct pagehint_outcome *outcomes, uint32_t *ret_done);
	int (*submit)(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie);
	int (*reap)(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n);
	int (*populate)(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done);
	int (*extent)(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes);
	void (*explain)(void *ctx, const struct pagehint_sink *sink);
	void (*destroy)(void *ctx);
};

/* levels of a log line */
#define PAGEHINT_LOG_ERROR 0u
#define PAGEHINT_LOG_WARN 1u
#define PAGEHINT_LOG_INFO 2u

/**
 * struct pagehint_hooks - the embedder's callbacks around discards; every member is optional
 *
 * before_discard: unmap the run from devices or a second mapping; not 0 = keep the run (HOOK_REFUSED).
 * after_discard:  the run's outcome; maps again where an embedder must.
 * after_populate: memory is present; map it for devices. Not 0 = the populate of this run fails with it.
 * log:            at most 10 lines a second a handle; the next line says how many were dropped.
 * trace:          every batch: name ("discard", "populate"), runs, its summed outcome (of a populate: accepted = present,
 *                 failed = not). May be called often.
 */
struct pagehint_hooks {
	size_t struct_size;
	void *ctx;
	int (*before_discard)(void *ctx, const struct pagehint_run *run);
	void (*after_discard)(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *outcome);
	int (*after_populate)(void *ctx, const struct pagehint_run *run);
	void (*log)(void *ctx, uint32_t level, const char *text);
	void (*trace)(void *ctx, const char *what, uint32_t runs, const struct pagehint_outcome *sum);
};

/** struct pagehint_backend_opts - how the handle treats what goes through it. NULL = all defaults. */
struct pagehint_backend_opts {
	size_t struct_size;
	struct pagehint_gate *gate;         /* borrowed, must outlive the handle; NULL = never inhibited */
	const struct pagehint_hooks *hooks; /* copied; NULL = none */
	uint32_t frame_shift;               /* 0 = 12 */
	uint32_t flags;                     /* must be 0 */
};

/** struct pagehint_backend_stats - sums since creation; bytes unless said */
struct pagehint_backend_stats {
	uint64_t struct_size;
	uint64_t calls; /* batches that reached the ops table */
	uint64_t runs;  /* runs in them */
	uint64_t asked;
	uint64_t freed;
	uint64_t absent;
	uint64_t accepted;
	uint64_t kept;
	uint64_t lazy;
	uint64_t failed;
	uint64_t populated;
	uint64_t in_flight; /* runs submitted, not yet reaped */
	uint64_t log_dropped;
	uint64_t kept_by[PAGEHINT_WHY_COUNT];
	uint64_t failed_by[PAGEHINT_WHY_COUNT];
};

/**
 * pagehint_backend_new - wraps an ops table into a handle
 * @ops:         copied; its functions and ctx must live as long as the handle
 * @ctx:         handed to every op; owned by the handle from now on (destroy), left alone when this call fails
 * @opts:        NULL for defaults
 * @ret_backend: the handle
 *
 * Return: 0; -EINVAL a required op is missing, unknown caps or flags, or frame_shift out of 12..30; -E2BIG unknown non-zero
 * tail; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_new(const struct pagehint_backend_ops *ops, void *ctx,
							  const struct pagehint_backend_opts *opts,
							  struct pagehint_backend **ret_backend);

/**
 * pagehint_backend_free - destroys the handle and, through ops.destroy, the implementation
 * @backend: NULL is allowed; nothing may be in flight
 *
 * In a fork of the process that made the handle it frees the child's copy, whatever the parent has in flight.
 * Return: 0; -EBUSY runs are in flight or were not reaped, or it is called from a callback (nothing is changed).
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API int pagehint_backend_free(struct pagehint_backend *backend);

/**
 * pagehint_backend_discard - gives runs back now and says what became of each
 * @backend:  a synchronous backend
 * @runs:     array of n; adjacent runs are merged into one call below
 * @n:        how many [runs]; 0 is allowed
 * @flags:    PAGEHINT_DISCARD_*
 * @outcomes: array of n, or NULL
 * @ret_sum:  sum over all runs, or NULL; written also on failure
 * @ret_done: runs dealt with (all but those failed: not tried), or NULL; written also on failure
 *
 * More than pagehint_backend_max_runs go down in several calls. Never touches a byte outside the runs. A run that the
 * gate, a hook or the backing keeps is not an error: its outcome says so.
 * Return: 0; -EINVAL runs NULL with n > 0, a run empty or wrapping, runs that overlap (looked for among those that go down
 * in one call), unknown flags: nothing was done; -EOPNOTSUPP the backend is asynchronous; -EIO the backend stopped early
 * without an error (failed: not tried), or its answer cannot be true (failed: backend lied);
 * -EDEADLK called from one of the backend's own callbacks; -EBUSY another thread is inside the backend; -ENODEV the
 * process is a fork of the one that made it; else the first error of the backend (outcomes tell which run).
 * Thread: one-per-handle.   Cost: O(n log n), syscalls per maximal run.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_discard(struct pagehint_backend *backend,
							      const struct pagehint_run *runs, uint32_t n,
							      uint32_t flags, struct pagehint_outcome *outcomes,
							      struct pagehint_outcome *ret_sum, uint32_t *ret_done);

/**
 * pagehint_backend_submit - starts a discard; the same for synchronous and asynchronous backends
 * @backend: any backend
 * @runs:    array of n; copied when kept beyond the call
 * @n:       how many, 1 .. pagehint_backend_max_runs [runs]
 * @flags:   PAGEHINT_DISCARD_*
 * @cookie:  comes back from pagehint_backend_reap
 *
 * A synchronous backend does the work here and holds the outcome of this one batch until it is reaped. Runs that the gate
 * or a hook keeps are reaped as kept.
 * Errors of a synchronous backend are in the outcomes. An asynchronous one has room for 64 batches of 1024 runs (fewer when
 * max_runs is larger, at least 4).
 * Return: 0; -EAGAIN no room until something is reaped; -EINVAL; -EDEADLK; -EBUSY; -ENODEV as for discard; else what
 * ops.submit gave: nothing was taken, and after_discard said so to the hooks.
 * Thread: one-per-handle.   Cost: O(n log n).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_submit(struct pagehint_backend *backend,
							     const struct pagehint_run *runs, uint32_t n,
							     uint32_t flags, uint64_t cookie);

/**
 * pagehint_backend_reap - takes one finished batch, never waits
 * @backend:    any backend
 * @max:        room in outcomes; at least the n of the batch [outcomes]
 * @outcomes:   array of max, filled in the order of the runs as submitted
 * @ret_cookie: the cookie of submit
 * @ret_n:      how many outcomes were filled
 *
 * Return: 0; -EAGAIN nothing has finished; -EINVAL max is too small or a pointer NULL (nothing is lost); -EDEADLK; -EBUSY;
 * -ENODEV; -EIO the backend named a batch that was never submitted; else what ops.reap gave.
 * Thread: one-per-handle.   Cost: O(n).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_reap(struct pagehint_backend *backend, uint32_t max,
							   struct pagehint_outcome *outcomes, uint64_t *ret_cookie,
							   uint32_t *ret_n);

/**
 * pagehint_backend_populate - makes runs present again, before use by something that cannot fault
 * @backend:  a backend with populate
 * @runs:     array of n
 * @n:        how many [runs]
 * @ret_done: runs done, or NULL; written also on failure
 *
 * Return: 0; -EOPNOTSUPP the backend has no populate; -ENOMEM the layer below has none; -EINVAL; -EDEADLK; -EBUSY; -ENODEV;
 * -EIO the backend stopped early without an error, its answer cannot be true, or after_populate returned a positive value;
 * else the first error of the backend or of after_populate.
 * Thread: one-per-handle.   Cost: O(n), syscalls per run, page faults for what was absent.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_populate(struct pagehint_backend *backend,
							       const struct pagehint_run *runs, uint32_t n,
							       uint32_t *ret_done);

/**
 * pagehint_backend_extent - how far one run may reach from a frame, and the least size that frees anything there
 * @backend:         any backend
 * @frame:           frame number
 * @ret_frames:      frames from `frame` to the end of its region; UINT64_MAX - frame when the backend has no regions
 * @ret_least_bytes: at least one frame [bytes]
 *
 * Return: 0; -ERANGE no region has this frame.
 * Thread: any.   Cost: O(log regions), no syscall.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_extent(struct pagehint_backend *backend, uint64_t frame,
							     uint64_t *ret_frames, uint64_t *ret_least_bytes);

/** pagehint_backend_max_runs - the largest batch submit takes [runs]. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_backend_max_runs(const struct pagehint_backend *backend);

/** pagehint_backend_name - ops.name; valid while the handle lives. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API const char *pagehint_backend_name(const struct pagehint_backend *backend);

/** pagehint_backend_caps - ops.caps (PAGEHINT_BACKEND_*). Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_backend_caps(const struct pagehint_backend *backend);

/**
 * pagehint_backend_stats - reads the counters
 * @backend: any backend
 * @stats:   struct_size set by the caller; the rest is written
 *
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: any (a consistent snapshot only while nobody discards).   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_backend_stats(const struct pagehint_backend *backend,
							    struct pagehint_backend_stats *stats);

/**
 * pagehint_backend_explain - says, line by line, what stands between a discard and freed memory
 * @backend: any backend
 * @sink:    receives the lines
 *
 * Thread: one-per-handle.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API void pagehint_backend_explain(struct pagehint_backend *backend, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
