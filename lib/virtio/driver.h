/*
 * driver: the inside of pagehint/driver.h: one balloon, its five queues, and what is on its way through them.
 *
 * The problem: five queues with different duties share one device that may lie at any moment, and no frame may be lost or
 * doubled by it. Why this shape: one struct that every file of the engine sees; a file a duty (driver_balloon.c,
 * driver_report.c, driver_hint.c, driver_statistics.c), each with the same three verbs: serve, answered, reclaim. All
 * queues are served through driver_queue.c, which alone decides that the device is broken.
 * Not here: rings (ring_driver.h), registers (transport.h). Owns: nothing but the caller's memory.
 * Called from: one thread at a time; the two events from any.
 * Invariants: a frame that was taken is in exactly one of: held, an inflate or deflate request, a hint, the embedder's hands;
 * state is PAGEHINT_DRIVER_BROKEN or PAGEHINT_DRIVER_RESETTING whenever the device may still hold what it should not, and only a confirmed
 * reset leads out of there. Freestanding.
 */
#ifndef PH_VIRTIO_DRIVER_H
#define PH_VIRTIO_DRIVER_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/driver.h>

#include "virtio/ring_driver.h"
#include "virtio/transport.h"

#define PH_DRIVER_SMALL_RING 16u /* inflate, deflate, statistics: few requests, large each */
#define PH_DRIVER_PFNS 1024u     /* pages an inflate or deflate request names */
#define PH_DRIVER_PFN_RUNS 64u   /* and the runs they come in */
#define PH_DRIVER_PFN_SLOTS 4u   /* such requests in flight, a direction */
#define PH_DRIVER_TABLE_DESCS 256u
#define PH_DRIVER_TABLES_DESCS 4096u          /* in all indirect tables together */
#define PH_DRIVER_SEGMENT (UINT64_C(1) << 30) /* bytes of one descriptor at the most */
#define PH_DRIVER_REQUEST (UINT64_C(1) << 31) /* bytes of one request at the most */
#define PH_DRIVER_HINT_IDS 4u
#define PH_DRIVER_OOM_MAX 65536u
#define PH_DRIVER_RETRY_NS UINT64_C(1000000000) /* after a take that found nothing; doubled */
#define PH_DRIVER_CONFIG_NS UINT64_C(1000000)   /* after a config space that would not stand still */
#define PH_DRIVER_RETRY_MAX_NS UINT64_C(32000000000)

/* where an area lies, for us and for the device */
struct ph_driver_area {
	unsigned char *here;
	uint64_t addr;
};

struct ph_driver_queue {
	struct ph_ring_driver ring;
	struct ph_driver_area desc, driver, device;
	void *memory;      /* the ring's own */
	uint64_t since_ns; /* the last answer, or when it got something to answer */
	uint32_t most;     /* entries that the areas have room for */
	uint32_t index;    /* on the wire */
	uint32_t is_live;
	uint32_t is_touched; /* something is to be published */
};

/* one list of pages on its way to or from the balloon */
struct ph_pfn_request {
	struct pagehint_run runs[PH_DRIVER_PFN_RUNS];
	uint64_t frames;
	uint32_t n;        /* runs; 0 = free */
	uint32_t is_given; /* deflate: the embedder has the frames already */
};

struct ph_pfn_side {
	struct ph_pfn_request requests[PH_DRIVER_PFN_SLOTS];
	struct ph_driver_area pages; /* PH_DRIVER_PFN_SLOTS lists */
	uint64_t frames;             /* in requests, and not given */
};

/* runs in the balloon; a stack, so that what was taken last, the least worth taking, returns first */
struct ph_held {
	struct pagehint_run *runs;
	uint64_t frames;
	uint32_t n;
	uint32_t room;
};

enum { PH_BATCH_FREE = 0, PH_BATCH_OUT = 1, PH_BATCH_ENDED = 2 };

struct ph_driver_batch {
	struct pagehint_run *runs;
	uint64_t cookie;
	uint64_t serial;   /* in the order they were reported, and then in which they ended */
	uint64_t at_frame; /* of runs[at]: what was put into the ring */
	uint32_t n;
	uint32_t at;       /* runs wholly in the ring */
	uint32_t requests; /* in flight */
	uint32_t state;
	int32_t result;
	uint32_t reserved;
};

enum { PH_HINT_IDLE = 0, PH_HINT_SENDING = 1, PH_HINT_STOPPING = 2, PH_HINT_STOPPED = 3 };

struct ph_hint {
	struct pagehint_run run;
	uint32_t is_out; /* the device has not used it yet */
	uint32_t reserved;
};

struct ph_driver_hints {
	struct ph_hint *list; /* every run of this migration, in the order it was taken */
	struct ph_driver_area ids;
	uint64_t frames;
	uint32_t ids_used; /* bit i: id buffer i is in flight */
	uint32_t n;
	uint32_t room;
	uint32_t phase;
	uint32_t wanted; /* what the device says */
	uint32_t sent;   /* the run whose pages go out; STOP when there is none */
	uint32_t latest; /* the last run there was */
	uint32_t reserved;
};

struct pagehint_driver {
	struct pagehint_virtio *virtio;
	struct pagehint_driver_ops ops;
	void *ctx;
	struct pagehint_driver_opts opts; /* defaults filled in */
	struct ph_driver_queue queues[PAGEHINT_BALLOON_Q_COUNT];
	struct ph_pfn_side inflate, deflate;
	struct ph_held held;
	struct ph_driver_hints hints;
	struct ph_driver_batch *batches;
	struct ph_ring_buffer *buffers; /* of the request that is being made */
	struct ph_driver_area tables;   /* indirect, of the reporting queue */
	struct ph_driver_area stats_entries;
	uint64_t offered;
	uint64_t features; /* negotiated */
	uint64_t now_ns;   /* the latest time told */
	uint64_t reset_ns; /* when a reset was asked for */
	uint64_t quiet_until;
	uint64_t retry_at; /* no take before this */
	uint64_t retry_gap;
	uint64_t poll_at;
	uint64_t config_at;  /* look at the config space again; UINT64_MAX = when it changes */
	uint64_t oom_frames; /* of the next pagehint_driver_oom in a row */
	uint64_t serial;
	uint64_t target;     /* frames */
	const char *trouble; /* why it is off or broken; NULL = nothing is wrong */
	uint32_t state;      /* PAGEHINT_DRIVER_*, but not SILENT */
	uint32_t is_silent;
	uint32_t numbering;
	uint32_t is_growing;    /* before_inflate was called for this growth */
	uint32_t actual_told;   /* pages */
	uint32_t stats_are_out; /* the device has the buffer */
	uint32_t stats_are_started;
	/*
	 * An interrupt that was not looked at yet. Set by any thread, cleared by a step before it looks: so nothing but loads and
	 * stores is needed, and nothing is missed.
	 */
	_Atomic uint32_t queue_event, config_event;
	struct pagehint_driver_stats counts;
};

/* The latest time told; it never falls. */
void ph_driver_clock(struct pagehint_driver *d, uint64_t now_ns);

static inline int ph_driver_has(const struct pagehint_driver *d, uint64_t feature)
{
	return (d->features & feature) != 0;
}

/* pages of 4 KiB in a frame, as a shift */
static inline uint32_t ph_driver_page_shift(const struct pagehint_driver *d)
{
	return d->opts.frame_shift - PAGEHINT_BALLOON_PAGE_SHIFT;
}

/* A time that is `gap_ns` away; for ever stays for ever. */
static inline uint64_t ph_driver_later(uint64_t now_ns, uint64_t gap_ns)
{
	return now_ns > UINT64_MAX - gap_ns ? UINT64_MAX : now_ns + gap_ns;
}

uint32_t ph_driver_frame_shift(const struct pagehint_driver *d);
uint32_t ph_driver_batch_runs(const struct pagehint_driver *d);

/* driver_opts.c: what is 0 is filled in. 0, -EINVAL, -E2BIG. */
int ph_driver_opts(struct pagehint_driver_opts *to, const struct pagehint_driver_opts *from);

/*
 * driver_numbers.c: the index of each queue; UINT32_MAX for one that is not there under this policy. What is not wanted has an
 * index, too, where the policy counts what is offered.
 */
void ph_driver_number(uint32_t policy, uint64_t offered, uint64_t negotiated, uint32_t *ret_index);
/* The policy under which exactly those queues are there that the transport shows; the later of two that are the same. */
uint32_t ph_driver_find_numbering(const struct pagehint_virtio *virtio, uint64_t offered);

/* ---- the duties; serve puts requests into rings, answered takes one back, reclaim takes everything after a reset ---- */

/* driver_balloon.c; returns the time at which to try again, UINT64_MAX when nothing is to be tried */
uint64_t ph_balloon_serve(struct pagehint_driver *d);
void ph_balloon_answered(struct pagehint_driver *d, uint32_t q, uint64_t cookie);
void ph_balloon_reclaim(struct pagehint_driver *d);
/* Puts up to `frames` of the balloon into deflate requests; given at once with is_given. Returns how many. */
uint64_t ph_balloon_shrink(struct pagehint_driver *d, uint64_t frames, uint32_t is_given);
void ph_balloon_tell_actual(struct pagehint_driver *d);

/* driver_report.c */
void ph_report_serve(struct pagehint_driver *d);
void ph_report_answered(struct pagehint_driver *d, uint64_t cookie);
void ph_report_reclaim(struct pagehint_driver *d);

/* driver_hint.c */
uint64_t ph_hint_serve(struct pagehint_driver *d);
void ph_hint_answered(struct pagehint_driver *d, uint64_t cookie);
void ph_hint_reclaim(struct pagehint_driver *d);
/* Hands hinted frames back early, the latest first. Returns how many frames. */
uint64_t ph_hint_shrink(struct pagehint_driver *d, uint64_t frames);

/* driver_statistics.c */
void ph_statistics_serve(struct pagehint_driver *d);
void ph_statistics_answered(struct pagehint_driver *d);

/* driver_start.c: the device has confirmed its reset: 0; -EAGAIN; -ENODEV it did not within answer_ns */
int ph_driver_confirm_reset(struct pagehint_driver *d);

#endif
