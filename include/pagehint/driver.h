/*
 * driver.h: the driver of a virtio memory balloon: for guest kernels, unikernels and user-space drivers.
 *
 * The problem: everyone who drives a balloon writes the same engine anew: negotiation, the balloon kept at its target, what
 * is free told to the host, all against a device that may be wrong, hostile or dead. Why this shape: one engine over the
 * transport of virtio.h, with the frames behind a small table; it needs no libc, no allocation, no thread and no clock, so it
 * runs freestanding. Nothing waits: requests go out, `step` and `reap` take the answers, and every wait has a deadline.
 *
 *     start .. -EAGAIN .. 0;   step, at its deadline, and after an interrupt;   report, reap;   oom;   reset.
 *
 * Frames that are in the balloon, in a hint run or on their way belong to the driver until it hands them back through
 * ops.give; frames that are reported belong to whoever reports them, until reap says that the batch has ended. A device that
 * lies or dies makes the calls fail with -ENODEV; after pagehint_driver_reset was confirmed everything is handed back, once.
 * Not here: which frames go (struct pagehint_driver_ops; pagehint_driver_zone_ops for a zone), when to report
 * (reporter.h, through pagehint_driver_backend_new), interrupts (the embedder's).
 * Invariants: every frame taken is given back exactly once; `actual` is told to the device whenever it changed; the address
 * of frame f is f << frame_shift as the device sees it.
 * Source: OASIS virtio 1.3, sections 3.1 (initialization) and 5.5 (memory balloon device).
 */
#ifndef PAGEHINT_DRIVER_H
#define PAGEHINT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/backend.h>
#include <pagehint/balloon.h>
#include <pagehint/run.h>
#include <pagehint/sink.h>
#include <pagehint/virtio.h>

PAGEHINT_BEGIN

struct pagehint_driver;
struct pagehint_zone;

/* what frames are wanted for */
#define PAGEHINT_DRIVER_FOR_BALLOON 0u /* given away until the host lets go */
#define PAGEHINT_DRIVER_FOR_HINT 1u    /* only kept still while the host migrates; their content is lost */

/** struct pagehint_driver_stat - one statistic */
struct pagehint_driver_stat {
	uint64_t value;
	uint32_t tag; /* PAGEHINT_BALLOON_STAT_* */
	uint32_t reserved;
};

#define PAGEHINT_DRIVER_STATS_MAX 32u /* statistics told at once */

/**
 * struct pagehint_driver_ops - what the embedder supplies; copied by pagehint_driver_init, every member is optional
 *
 * Called from the driver's own calls, which must not be called back.
 * take:  frames to give to the host: at most `frames`, in at most `max` runs, the best first: whole blocks whose loss
 *        gains the host something before small ones, and before those that hold no memory. 0 and *ret_n >= 1; or -ENOSPC,
 *        -EAGAIN: none now, *ret_n untouched. Without it there is no balloon and no hint.
 * give:  takes back what take gave; runs may be split or joined, never overlap. Cannot fail. Required if take is there.
 * before_inflate: the balloon is about to grow by so many frames: compact or drop caches now, so that there is something
 *        to take. Once each time the target rises above what is held, before the first take.
 * get_stats: fills at most `max` statistics, returns how many. May touch no page for it. Without it there are no statistics.
 */
struct pagehint_driver_ops {
	size_t struct_size;
	int (*take)(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max,
		    uint32_t *ret_n);
	void (*give)(void *ctx, uint32_t what_for, const struct pagehint_run *runs, uint32_t n);
	void (*before_inflate)(void *ctx, uint64_t frames);
	uint32_t (*get_stats)(void *ctx, struct pagehint_driver_stat *stats, uint32_t max);
};

/* flags of a driver */
#define PAGEHINT_DRIVER_POISON 1u   /* free memory holds poison_val and must go on doing so: see below */
#define PAGEHINT_DRIVER_NUMBERED 2u /* numbering is valid; else it is found out by looking which queues there are */

/**
 * struct pagehint_driver_opts - fixed for the life of a driver
 *
 * POISON: with the device's feature the value is told before the device runs; a device keeps reported pages at their value
 * then, so unless it is 0, batches end as not supported and nothing is sent. Without the feature neither reporting nor
 * hints are negotiated, for either may lose the value.
 */
struct pagehint_driver_opts {
	uint64_t struct_size;
	uint64_t features;    /* may be negotiated, of those that the driver knows; 0 = all */
	uint64_t dma_address; /* of `dma`, as the device sees it */
	uint64_t dma_bytes;   /* at least pagehint_driver_size says */
	uint64_t answer_ns;   /* a device that answers nothing for so long is silent; 0 = 10 s */
	uint64_t quiet_ns;    /* no inflating for so long after pagehint_driver_oom; 0 = 10 s */
	uint64_t poll_ns;     /* look at the device so often; 0 = interrupts are told by pagehint_driver_interrupt */
	uint32_t flags;       /* PAGEHINT_DRIVER_* */
	uint32_t frame_shift; /* 2^frame_shift bytes a frame; 0 = 12; 12..22 */
	uint32_t poison_val;
	uint32_t numbering;   /* PAGEHINT_BALLOON_NUMBERING_* */
	uint32_t ring_size;   /* largest ring, a power of two [entries]; 0 = 256; 8..1024 */
	uint32_t max_held;    /* room for the balloon [runs]; 0 = 16384; 64..2^24 */
	uint32_t max_hints;   /* room for a hint run [runs]; 0 = 1024; up to 65536 */
	uint32_t max_batches; /* reports in flight [batches]; 0 = 4; up to 64 */
	uint32_t batch_runs;  /* largest batch [runs]; 0 = 1024; up to 16384 */
	uint32_t oom_frames;  /* first batch of pagehint_driver_oom [frames]; 0 = 256 */
};

/**
 * pagehint_driver_size - how much memory a driver takes
 * @opts:          NULL for defaults
 * @ret_bytes:     for pagehint_driver_init
 * @ret_dma_bytes: to be shared with the device
 * Return: 0; -EINVAL a NULL, or a value out of its bounds; -E2BIG unknown non-zero tail.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_size(const struct pagehint_driver_opts *opts, uint64_t *ret_bytes,
							  uint64_t *ret_dma_bytes);

/**
 * pagehint_driver_init - a driver in the caller's memory; the device is not touched
 * @mem:        64-byte aligned; the caller's, must outlive the driver; may have any content
 * @bytes:      at least pagehint_driver_size
 * @dma:        64-byte aligned memory that the device sees at opts.dma_address; the caller's, must outlive the driver
 * @virtio:     borrowed, used by nobody else
 * @ops:        copied; NULL = none
 * @ctx:        handed to every op
 * @opts:       required
 * @ret_driver: the handle; it is `mem`
 * Return: 0; -EINVAL a NULL, memory misaligned or too small, dma_address not a multiple of 64 or wrapping, take without give,
 * or a value out of its bounds; -E2BIG unknown non-zero tail.
 * Thread: init-only.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_init(void *mem, uint64_t bytes, void *dma,
							  struct pagehint_virtio *virtio,
							  const struct pagehint_driver_ops *ops, void *ctx,
							  const struct pagehint_driver_opts *opts,
							  struct pagehint_driver **ret_driver);

/**
 * pagehint_driver_start - resets the device, negotiates, sets its queues up and starts it
 * @driver: one that is not running
 * @now_ns: monotonic time
 *
 * VERSION_1 is required. ACCESS_PLATFORM is never accepted: addresses are guest-physical. Whatever is offered and unknown is
 * left alone. What a broken device still holds is taken back first, as by pagehint_driver_reset.
 * Return: 0 it runs; -EAGAIN the device has not confirmed the reset: call again; -EALREADY it runs; -ENODEV there is no
 * device, it did not confirm in answer_ns, or what it says of its queues cannot be true; -EOPNOTSUPP it is legacy, or does
 * not take the features (needs ACCESS_PLATFORM).
 * Thread: one-per-handle.   Cost: O(ring_size).   Since: 0.1
 * Source: OASIS virtio 1.3, section 3.1.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_start(struct pagehint_driver *driver, uint64_t now_ns);

/**
 * pagehint_driver_reset - stops the device and takes everything back
 * @driver: any
 * @now_ns: monotonic time
 *
 * Once the device has confirmed, batches in flight end with -ENODEV, and what is in the balloon, in a hint run or on its way
 * is handed to ops.give. Later answers are not looked at. Start may follow.
 * Return: 0 it is off; -EAGAIN not confirmed yet: call again; -ENODEV not confirmed within answer_ns: frames stay with the
 * driver (call again as often as you like). A device that reads as all ones is gone, which confirms.
 * Thread: one-per-handle.   Cost: O(runs held).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_reset(struct pagehint_driver *driver, uint64_t now_ns);

/**
 * pagehint_driver_step - takes answers, moves the balloon towards its target, serves statistics and hints
 * @driver:       a running one
 * @now_ns:       monotonic time; going backwards is treated as standing still
 * @ret_deadline: call again at this time at the latest, and after each interrupt; UINT64_MAX: after an interrupt. Written
 *                also on failure
 * Return: 0; -ENODEV it is not running, the device broke (it lied, or says that it needs a reset), or is silent: nothing was
 * answered for answer_ns (a later answer is still taken, and mends that).
 * Thread: one-per-handle.   Cost: bounded by rings; at most 4096 pages inflated or deflated.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_step(struct pagehint_driver *driver, uint64_t now_ns,
							  uint64_t *ret_deadline);

/**
 * pagehint_driver_interrupt - tells that the device interrupted
 * @driver: any
 * @why:    PAGEHINT_VIRTIO_INTERRUPT_* (MSI-X: both); 0 = ask the transport, as for a shared interrupt line
 * Return: 1 it was this device: step soon; 0 it was not.
 * Thread: any, also an interrupt handler.   Cost: with why 0 one access to the device.   Since: 0.1
 */
PAGEHINT_API int pagehint_driver_interrupt(struct pagehint_driver *driver, uint32_t why);

/**
 * pagehint_driver_report - tells the device that runs are free; nobody may use them until the batch has ended
 * @driver: a running one
 * @runs:   array of n; copied. They do not overlap each other or what is in flight
 * @n:      how many, 1 .. batch_runs [runs]
 * @cookie: comes back from pagehint_driver_reap
 *
 * Goes out in as few requests as the ring takes, with one notification. Without the feature, or under poison, the batch ends at
 * once, with -EOPNOTSUPP.
 * Return: 0; -EAGAIN max_batches are in flight or not reaped; -EINVAL a NULL, n out of bounds, a run empty or above 2^64
 * bytes; -ENODEV not running, broken or silent: nothing was taken.
 * Thread: one-per-handle.   Cost: O(n).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int
pagehint_driver_report(struct pagehint_driver *driver, const struct pagehint_run *runs, uint32_t n, uint64_t cookie);

/**
 * pagehint_driver_reap - takes one batch of reports that has ended
 * @driver:     any
 * @ret_cookie: that of the report
 * @ret_result: 0 the device has acknowledged all of it; -EOPNOTSUPP not sent; -ENODEV the device was reset before it did
 * @ret_runs:   the runs as reported; valid until the next call of report
 * @ret_n:      how many [runs]
 * Return: 0; -EAGAIN none has ended; -EINVAL a NULL.
 * Thread: one-per-handle.   Cost: bounded by the ring.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_reap(struct pagehint_driver *driver, uint64_t *ret_cookie,
							  int32_t *ret_result, const struct pagehint_run **ret_runs,
							  uint32_t *ret_n);

/**
 * pagehint_driver_oom - the guest is out of memory: gives back frames of hint runs, then of the balloon
 * @driver:     a running one
 * @frames:     wanted at least [frames]
 * @now_ns:     monotonic time
 * @ret_frames: handed to ops.give within this call [frames]; written also on -EAGAIN
 *
 * Gives at least oom_frames, twice as many each time it is called again within quiet_ns (to 2^16), as far as rings have
 * room. With MUST_TELL_HOST frames of the balloon come only after the device's answer, from a later step. Nothing is inflated for
 * quiet_ns.
 * Return: 0 so many, or all there was; -EAGAIN more is on its way: step; -EOPNOTSUPP nothing was to be had but from the balloon,
 * and DEFLATE_ON_OOM is not negotiated; -ENODEV not running, broken or silent; -EINVAL frames 0 or a NULL.
 * Thread: one-per-handle.   Cost: O(frames given).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_oom(struct pagehint_driver *driver, uint64_t frames,
							 uint64_t now_ns, uint64_t *ret_frames);

/* what a driver is doing */
#define PAGEHINT_DRIVER_OFF 0u
#define PAGEHINT_DRIVER_RESETTING 1u
#define PAGEHINT_DRIVER_RUNNING 2u
#define PAGEHINT_DRIVER_SILENT 3u /* running, but nothing was answered for answer_ns */
#define PAGEHINT_DRIVER_BROKEN 4u /* until it is reset */

/** struct pagehint_driver_stats - frames unless said; counts since init */
struct pagehint_driver_stats {
	uint64_t struct_size;
	uint64_t features; /* negotiated, as masks */
	uint64_t target;   /* what the device wants */
	uint64_t held;     /* in the balloon */
	uint64_t inflating;
	uint64_t deflating;
	uint64_t hinting; /* kept still by a hint run */
	uint64_t inflated;
	uint64_t deflated;
	uint64_t hinted;
	uint64_t reported;          /* in batches that were acknowledged */
	uint64_t batches;           /* reports taken [batches] */
	uint64_t batches_in_flight; /* [batches] */
	uint64_t requests;          /* put into rings [requests] */
	uint64_t kicks;             /* notifications [numbers] */
	uint64_t stats_told;        /* [numbers] */
	uint64_t ooms;              /* [numbers] */
	uint64_t take_failures;     /* [numbers] */
	uint64_t breaks;            /* the device was found broken [numbers] */
	uint32_t state;             /* PAGEHINT_DRIVER_OFF .. */
	uint32_t numbering;         /* in force */
	uint32_t hint_id;           /* of the latest hint run */
	uint32_t report_ring;       /* entries of the reporting ring; 0 = none */
};

/**
 * pagehint_driver_stats - reads the counters
 * @driver: any
 * @stats:  struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: one-per-handle.   Cost: O(max_batches).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_stats(const struct pagehint_driver *driver,
							   struct pagehint_driver_stats *stats);

/**
 * pagehint_driver_explain - what stands in the way of memory going back: not offered, not acknowledged, poison, silent ..
 * @driver: any
 * @sink:   receives the lines, the first missing link first; NULL, or without a line function: nothing happens
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API void pagehint_driver_explain(const struct pagehint_driver *driver, const struct pagehint_sink *sink);

/**
 * pagehint_driver_backend_new - the reporting queue as an asynchronous backend, for a reporter
 * @driver:      borrowed; must outlive the backend. Keep stepping it
 * @opts:        as for pagehint_backend_new; frame_shift 0 = the driver's, else it must be the driver's
 * @ret_backend: the handle; named "virtio"
 *
 * What the device acknowledged is `accepted`. Without the feature, or under poison: `kept`, it cannot. After a reset: `failed`,
 * gone. Nothing is answered before the device has, or was reset.
 * Return: 0; -EINVAL a NULL, or another frame_shift; -E2BIG; -ENOMEM.
 * Thread: init-only; the backend's calls count as calls of the driver.   Cost: two allocations.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_backend_new(struct pagehint_driver *driver,
								 const struct pagehint_backend_opts *opts,
								 struct pagehint_backend **ret_backend);

/** struct pagehint_driver_zone - a zone that a driver takes frames from; set up by the caller, who keeps it */
struct pagehint_driver_zone {
	struct pagehint_zone *zone; /* borrowed */
	uint64_t keep;              /* frames to leave free, whatever the host wants */
	uint64_t cursor;            /* granule to go on from; start with 0 */
	uint64_t pause;             /* takes until pieces are looked for again; start with 0 */
};

/**
 * pagehint_driver_zone_ops - take and give over a zone; the ctx is a struct pagehint_driver_zone
 * @ret_ops: take and give are set, the rest is zero: add what you have
 *
 * For the balloon it takes, as long as there are any: whole granules that hold memory; pieces of 64 KiB or more of granules
 * that are partly used; whole granules that are reported or fresh (the host gains nothing by those); smaller pieces. A
 * granule is broken only for the rest of what is wanted, when no piece is left; while there are none, pieces are
 * looked for only at each 64th take, or when there is nothing else. For hints: whole granules that hold memory.
 * It reserves frames, so pagehint_zone_add, _remove and _reserve may not run at the same time as calls of the driver.
 * Return: 0; -EINVAL ret_ops NULL.
 * Thread: any.   Cost: O(1); a take: O(granules / 64), with pieces O(frames / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_driver_zone_ops(struct pagehint_driver_ops *ret_ops);

PAGEHINT_END
#endif
