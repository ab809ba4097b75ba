/*
 * device_control.h: what the host asks of a balloon device: target and progress, the guest's statistics, free page hint runs,
 * counters, explanation, saved state.
 *
 * The problem: hosts trusted the guest's numbers (an `actual` that underflows, a sample that is hours old), started hint runs in
 * post-copy, waited for drivers that were not there, and kept pointers in saved state. Why this shape: guest numbers saturate,
 * a sample has an age and unknown is a flag, what needs a driver says -ENODEV at once, a state is a checked blob of bytes.
 * Not here: the transport's side of the same handle (device.h).
 * Whatever the guest must be told by these calls is in the work of the next pagehint_device_step: call it afterwards.
 */
#ifndef PAGEHINT_DEVICE_CONTROL_H
#define PAGEHINT_DEVICE_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/balloon.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_device;

/* ---- target and progress ---- */

/**
 * pagehint_device_set_target - how much the balloon shall hold
 * @bytes:     rounded down to 4 KiB pages and clamped to the guest's present memory
 * @ret_bytes: the target after that, or NULL
 * Return: 0 (also while no driver is there: it reads the target when it comes); -EDEADLK; -ENODEV after fork.
 * Thread: one-per-handle.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_set_target(struct pagehint_device *device, uint64_t now_ns,
								uint64_t bytes, uint64_t *ret_bytes);

/* states of progress */
#define PAGEHINT_DEVICE_PROGRESS_REACHED 0u   /* actual is the target */
#define PAGEHINT_DEVICE_PROGRESS_MOVING 1u    /* on its way, however slowly */
#define PAGEHINT_DEVICE_PROGRESS_STALLED 2u   /* not one page nearer for stall_ns: a failure */
#define PAGEHINT_DEVICE_PROGRESS_NO_DRIVER 3u /* nobody is there to follow the target */

/** struct pagehint_device_progress - where the balloon is on its way; 4 KiB pages and ns */
struct pagehint_device_progress {
	uint64_t struct_size;
	uint64_t memory_pages; /* the guest's, as the map has it now */
	uint64_t target_pages;
	uint64_t actual_pages; /* as the driver says, at most memory_pages */
	uint64_t moved_pages;  /* nearer since the target was set */
	uint64_t left_pages;
	uint64_t since_ns; /* the target was set so long ago */
	uint64_t still_ns; /* the last page nearer was so long ago */
	uint64_t eta_ns;   /* left at the pace so far; UINT64_MAX = unknown */
	uint32_t state;    /* PAGEHINT_DEVICE_PROGRESS_* */
	uint32_t reserved;
};

/**
 * pagehint_device_progress - reads it
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: one-per-handle.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_progress(struct pagehint_device *device, uint64_t now_ns,
							      struct pagehint_device_progress *progress);

/* ---- the guest's statistics ---- */

/** struct pagehint_device_sample - the last statistics the guest sent; values are the guest's word, nothing relies on them */
struct pagehint_device_sample {
	uint64_t struct_size;
	uint64_t known;   /* bit t: value[t] is known. Old, or never sent: 0, and the value is 0 and means nothing */
	uint64_t age_ns;  /* of the sample; UINT64_MAX = there is none */
	uint64_t samples; /* since the last reset */
	uint64_t value[PAGEHINT_BALLOON_STAT_COUNT]; /* bytes or counts by PAGEHINT_BALLOON_STAT_* */
};

/**
 * pagehint_device_stats_request - asks the guest for a new sample; it comes with some later kick, or never
 * Return: 0; -EOPNOTSUPP not negotiated; -ENODEV no driver serves the queue; -EAGAIN the guest still owes the last answer;
 * -EDEADLK.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_stats_request(struct pagehint_device *device);

/** pagehint_device_sample - reads the last sample; touches no guest memory. Return: 0; -EINVAL struct_size below 8.
 *  Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_sample(const struct pagehint_device *device, uint64_t now_ns,
							    struct pagehint_device_sample *sample);

/* ---- free page hint runs: start; hinted(..) callbacks; then stop (and start again), or done ---- */

#define PAGEHINT_DEVICE_HINT_STOPPED 0u   /* no run; the guest keeps what it hinted */
#define PAGEHINT_DEVICE_HINT_REQUESTED 1u /* the guest was asked and has not begun */
#define PAGEHINT_DEVICE_HINT_STARTED 2u   /* it hints */
#define PAGEHINT_DEVICE_HINT_DONE 3u      /* the guest may take back what it hinted */

/**
 * pagehint_device_hint_start - asks the guest to hint its free memory, under a new id
 * @ret_id: names the run; or NULL
 * Return: 0; -EOPNOTSUPP not negotiated; -ENODEV no driver serves the queue; -EBUSY a run is on, or the gate is closed for
 * PAGEHINT_INHIBIT_POSTCOPY; -EAGAIN every id was used and the guest has not sent STOP since; -EDEADLK.
 * Thread: one-per-handle.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_hint_start(struct pagehint_device *device, uint32_t *ret_id);

/** pagehint_device_hint_stop - no more hints are wanted; the guest keeps the pages back. Return: 0; -EALREADY no run is on; -EDEADLK;
 *  -ENODEV after fork. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_hint_stop(struct pagehint_device *device);

/** pagehint_device_hint_done - hints served their purpose: the guest takes its pages back. Return: 0; -EALREADY it is so; -EDEADLK;
 *  -ENODEV after fork. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_hint_done(struct pagehint_device *device);

/** pagehint_device_hint_state - PAGEHINT_DEVICE_HINT_*; @ret_id: the current run's, or NULL.
 *  Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_device_hint_state(const struct pagehint_device *device, uint32_t *ret_id);

/* ---- counters ---- */

/* Why something of the guest's was dropped. Values are stable; new ones are appended before PAGEHINT_DEVICE_DROP_COUNT. */
enum {
	PAGEHINT_DEVICE_DROP_BAD_PFN = 0,    /* inflate, deflate: a page outside the guest's memory [pages] */
	PAGEHINT_DEVICE_DROP_BAD_LENGTH = 1, /* bytes at the end of a list that make no entry [requests] */
	PAGEHINT_DEVICE_DROP_READABLE = 2,   /* report: a buffer the device may only read [buffers] */
	PAGEHINT_DEVICE_DROP_WRITABLE = 3,   /* inflate, deflate, statistics: a buffer the device may write [buffers] */
	PAGEHINT_DEVICE_DROP_EMPTY = 4,      /* report, hint: of length 0 [buffers] */
	PAGEHINT_DEVICE_DROP_UNALIGNED = 5,  /* report: not whole host pages [buffers] */
	PAGEHINT_DEVICE_DROP_STRADDLE = 6,   /* report, hint: not in one region [buffers] */
	PAGEHINT_DEVICE_DROP_SMALL = 7,      /* report: below min_report_bytes [buffers] */
	PAGEHINT_DEVICE_DROP_POISON = 8,     /* report: poison_val is not 0 [buffers] */
	PAGEHINT_DEVICE_DROP_PINNED = 9,     /* the region is pinned [buffers or pages] */
	PAGEHINT_DEVICE_DROP_INHIBITED = 10, /* the gate is closed [requests; hint: buffers] */
	PAGEHINT_DEVICE_DROP_DEVICE = 11,    /* not memory but a device [buffers or pages] */
	PAGEHINT_DEVICE_DROP_DUPLICATE = 12, /* named twice in one request [4 KiB pages] */
	PAGEHINT_DEVICE_DROP_STALE_HINT = 13,  /* a hint outside a run [buffers] */
	PAGEHINT_DEVICE_DROP_BAD_ID = 14,      /* an id of a run that nobody asked for [requests] */
	PAGEHINT_DEVICE_DROP_EXTRA_STATS = 15, /* a second statistics buffer [requests] */
	PAGEHINT_DEVICE_DROP_BAD_TAG = 16,     /* statistics: an unknown tag [entries] */
	PAGEHINT_DEVICE_DROP_CONFIG = 17,      /* a write to config space that nothing takes [writes] */
	PAGEHINT_DEVICE_DROP_LATE_POISON =
		18, /* poison_val changed after DRIVER_OK: taken, but against the rules [writes] */
	PAGEHINT_DEVICE_DROP_PARTIAL =
		19, /* inflate: no room to remember a part of a larger host page [blocks forgotten] */
	PAGEHINT_DEVICE_DROP_EDGE = 20,      /* inflate: in a block that the region has only a part of [pages] */
	PAGEHINT_DEVICE_DROP_ADDRESS = 21,   /* a buffer outside the guest's memory: NEEDS_RESET [buffers] */
	PAGEHINT_DEVICE_DROP_RING = 22,      /* a ring that lies: NEEDS_RESET [rings] */
	PAGEHINT_DEVICE_DROP_NOT_READY = 23, /* kicks of a queue that does not run [kicks] */
	PAGEHINT_DEVICE_DROP_COUNT = 24
};

/** struct pagehint_device_stats - since creation; bytes unless said */
struct pagehint_device_stats {
	uint64_t struct_size;
	uint64_t kicks;
	uint64_t popped; /* requests taken from rings (unacknowledged ones again after a stop or load) */
	uint64_t
		completed; /* requests acknowledged; popped - completed are with the device, or were taken back by a stop */
	uint64_t interrupts;    /* asked for */
	uint64_t inflate_pages; /* 4 KiB pages the guest gave, as it says */
	uint64_t deflate_pages; /* and took back */
	uint64_t oom_pages;     /* of deflate_pages: although the target was not below actual */
	uint64_t report_ranges;
	uint64_t report_bytes;
	uint64_t hint_ranges; /* handed to hooks.hinted */
	uint64_t hint_bytes;
	uint64_t samples;
	uint64_t batches; /* discards that went to the backend */
	uint64_t runs;    /* maximal runs in them */
	uint64_t asked;   /* of the backend; what became of it: */
	uint64_t freed;
	uint64_t absent;
	uint64_t accepted;
	uint64_t kept;
	uint64_t lazy;
	uint64_t failed;
	uint64_t populated;
	uint64_t populate_errors;
	uint64_t submit_errors; /* batches the backend refused */
	uint64_t rate_waits;    /* times a queue had to wait for the rate or the hold-back */
	uint64_t resets;
	uint64_t broken; /* times NEEDS_RESET was set */
	uint64_t log_dropped;
	uint64_t in_flight;     /* requests whose discards have not ended */
	uint64_t partial_pages; /* 4 KiB pages inflated whose host page is not whole */
	uint64_t dropped[PAGEHINT_DEVICE_DROP_COUNT];
};

/** pagehint_device_stats - reads the counters. Return: 0; -EINVAL struct_size below 8.
 *  Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_stats(const struct pagehint_device *device,
							   struct pagehint_device_stats *stats);

/** pagehint_device_drop_text - a reason in words; "?" if unknown. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API const char *pagehint_device_drop_text(uint32_t drop);

/** pagehint_device_explain - names the first missing link when memory does not come back, then the others, then the backend's.
 *  Thread: one-per-handle.  Cost: O(regions).  Since: 0.1 */
PAGEHINT_API void pagehint_device_explain(struct pagehint_device *device, const struct pagehint_sink *sink);

/* ---- saved state ---- */

/** pagehint_device_save_bytes - room that pagehint_device_save needs now. Thread: one-per-handle.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_device_save_bytes(const struct pagehint_device *device);

/**
 * pagehint_device_save - writes the state as a blob: versioned, little-endian, without pointers, with a checksum
 * @buffer:  room for `room` bytes
 * @ret_len: how many were written
 *
 * Any state can be saved; the device is not changed and may go on, or be freed. Requests not acknowledged are done again by
 * whoever loads it. Not in it: rings' addresses (the transport starts its queues again, with PAGEHINT_DEVICE_QUEUE_RESUME),
 * knobs, counters.
 * Return: 0; -ENOSPC room is too small; -EINVAL buffer or ret_len NULL; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(partial_blocks).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_save(struct pagehint_device *device, uint64_t now_ns, void *buffer,
							  uint64_t room, uint64_t *ret_len);

/**
 * pagehint_device_load - takes over a saved state; total: any bytes are either a state that can be, or refused
 * @device: fresh or reset, no queue runs; made with a map like the one saved (partial pages of other memory are forgotten)
 * Return: 0; -EINVAL not a whole, intact and sensible state, or its features or numbering are not this device's (nothing is
 * changed); -EBUSY a queue runs or a discard is in flight; -EDEADLK; -ENODEV.
 * Thread: one-per-handle.   Cost: O(length).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_device_load(struct pagehint_device *device, uint64_t now_ns,
							  const void *buffer, uint64_t length);

PAGEHINT_END
#endif
