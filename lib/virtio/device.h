/*
 * device: what a balloon device is made of, for the files of this engine; the inside of pagehint/device.h and device_control.h.
 *
 * The problem: everything the guest writes is a lie until checked, and a request may have to wait half-way (for the budget, the
 * rate, a backend without room, a discard that has not ended). Why this shape: each queue remembers the request it is walking
 * (a cursor into its chain) and those whose discards are in flight, oldest first; requests are acknowledged in that order only.
 * So where a ring stood before its oldest unacknowledged request is all a saved state needs of it.
 *
 *	device.c        life of the handle           device_life.c   features, status, reset
 *	device_queue.c  start, stop, kick, step      device_serve.c  from the ring and back to it
 *	device_walk.c   a chain's bytes and ranges, checked against the map
 *	device_inflate.c, device_report.c, device_deflate.c, device_hints.c, device_stats_queue.c: what a queue does
 *	device_discard.c  from pieces to runs to the backend, and what it answers
 *	device_config.c, device_target.c, device_counters.c, device_explain.c, device_save.c, device_load.c
 *
 * Not here: rings (ring_device.h). Owns: one allocation with everything in it. Called from: one thread a handle.
 * Invariants: a request is completed once, and only when all its discards have ended; a broken or resetting device touches no
 * ring; nothing is discarded that was not wholly in one unpinned region of memory when it was looked up.
 */
#ifndef PH_VIRTIO_DEVICE_H
#define PH_VIRTIO_DEVICE_H

#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/gate.h>

#include "memory/map.h"
#include "virtio/device_hint.h"
#include "virtio/device_progress.h"
#include "virtio/device_rate.h"
#include "virtio/device_sample.h"
#include "virtio/partial.h"
#include "virtio/pieces.h"
#include "virtio/ring_device.h"

#define PH_DEVICE_REQUESTS 16u /* with the device at once, on one queue */
#define PH_DEVICE_PIECES 4096u /* of one batch */
#define PH_DEVICE_PFNS 1024u   /* read at once */
/* a batch of this many pages goes down although its request has more: 1 GiB */
#define PH_DEVICE_BATCH_PAGES (UINT64_C(1) << 18)
#define PH_DEVICE_POLL_NS UINT64_C(50000) /* after a submit; doubled while nothing ends, up to: */
#define PH_DEVICE_POLL_MOST_NS UINT64_C(5000000)

/* a request that was popped and is not acknowledged */
struct ph_request {
	uint64_t ticket;
	uint64_t bytes; /* that its discards are about */
	uint64_t gone;  /* of them, really discarded */
	struct ph_ring_position before;
	uint32_t batches;  /* in flight */
	uint32_t finished; /* all of it was handed down */
};

/* why a queue did not come to its end */
enum {
	PH_WAIT_NONE = 0,     /* it did; the guest kicks when there is more */
	PH_WAIT_BUDGET = 1,   /* the next step goes on */
	PH_WAIT_TIME = 2,     /* not before when_ns: rate or hold-back */
	PH_WAIT_BACKEND = 3,  /* it has no room */
	PH_WAIT_REQUESTS = 4, /* the oldest requests have to end first */
};

struct ph_device_queue {
	struct ph_ring_device ring;
	void *memory;   /* the ring's */
	uint32_t index; /* on the wire */
	uint32_t running;
	uint32_t stopping; /* nothing new is taken */
	uint32_t wait;     /* PH_WAIT_* */
	uint64_t when_ns;

	struct ph_request request[PH_DEVICE_REQUESTS]; /* a ring of n from first on */
	uint32_t first;
	uint32_t n;

	/* the newest request, while it is being walked */
	struct ph_chain chain;
	uint32_t walking;
	uint32_t segment;   /* of the chain */
	uint64_t offset;    /* in it */
	uint32_t checked;   /* its buffers are all in memory */
	uint32_t collected; /* its last byte was looked at */
	uint32_t inhibited; /* the gate was closed for a part of it; counted once */
	struct ph_pieces pieces;
	struct pagehint_run *runs; /* what of them goes to the backend */
	uint32_t n_runs;
	uint32_t sent;

	struct ph_ring_position resume; /* where it was stopped, or the saved state says */
	uint32_t has_resume;
};

/* the region that was looked up last; good for one call */
struct ph_place {
	uint64_t id;      /* 0 = none */
	uint64_t page;    /* first, of 4 KiB */
	uint64_t pages;   /* how many */
	uint64_t base;    /* where `page` is in the numbers by which larger pages align */
	uint64_t granule; /* the least that frees anything [pages] */
	uint64_t host;    /* a host page [pages] */
	uint32_t drop;    /* PAGEHINT_DEVICE_DROP_* for everything in it, or PAGEHINT_DEVICE_DROP_COUNT */
	uint32_t reserved;
};

struct pagehint_device {
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_gate *gate;
	struct pagehint_device_hooks hooks;
	struct pagehint_device_knobs knobs;
	struct ph_guest_memory memory;
	uint64_t offered;
	uint64_t negotiated;
	uint64_t stale_ns;
	uint64_t now_ns;
	uint32_t features_set; /* the last set_features succeeded */
	uint32_t numbering;
	uint32_t flags;
	uint32_t queue_size;
	uint32_t budget;
	uint32_t status;
	uint32_t resetting;
	uint32_t broken;
	uint32_t inside;
	uint32_t frame_pages_shift; /* log2 of the 4 KiB pages of a frame */
	uint32_t async;
	uint32_t max_runs;

	uint32_t events;     /* not told yet */
	uint32_t interrupts; /* the same */
	uint32_t batches;    /* in flight */
	uint32_t poison;
	uint32_t actual; /* as the guest wrote it, before it saturates */
	uint32_t unused;
	uint64_t poll_ns; /* when to look whether one ended */
	uint64_t poll_gap_ns;
	uint64_t report_ns; /* the hold-back ends */
	uint64_t ask_ns;    /* statistics are asked for */

	uint64_t log_ns; /* the window of log lines */
	uint32_t log_lines;
	uint32_t stats_held;   /* the statistics buffer is with us */
	uint32_t stats_repeat; /* the next one was read before */
	uint32_t reserved;

	struct ph_device_rate rate;
	struct ph_progress progress;
	struct ph_sample sample;
	struct ph_hint hint;
	struct ph_partial partial;
	struct ph_place place;
	struct ph_device_queue queue[PAGEHINT_BALLOON_Q_COUNT]; /* by role */
	struct pagehint_outcome *outcomes;                      /* max_runs of them, asynchronous only */
	uint8_t *scratch;                                       /* 4 * PH_DEVICE_PFNS bytes of a list */
	struct pagehint_device_stats counts;
};

/* Enters the handle: 0; -EDEADLK from its own callback; -ENODEV in a fork; -EINVAL NULL. */
int ph_device_begin(struct pagehint_device *device);
void ph_device_end(struct pagehint_device *device);

#define PH_DROP(device, why, amount) ((device)->counts.dropped[PAGEHINT_DEVICE_DROP_##why] += (amount))

static inline int ph_device_has(const struct pagehint_device *device, uint64_t feature)
{
	return (device->negotiated & feature) != 0;
}

/* The guest's memory, as the map has it now [4 KiB pages]. */
uint64_t ph_device_memory_pages(const struct pagehint_device *device);
__attribute__((format(printf, 3, 4))) void ph_device_log(struct pagehint_device *device, uint32_t level,
							 const char *format, ...);
/* The guest broke the rules beyond repair. */
void ph_device_break(struct pagehint_device *device, uint32_t role, const char *why);
/* Time goes on, never back. */
void ph_device_clock(struct pagehint_device *device, uint64_t now_ns);

/* device_life: what a reset leaves, once nothing is in flight */
void ph_device_forget(struct pagehint_device *device);

/* device_serve: as much of a queue as the budget, the rate and the backend allow */
void ph_device_serve(struct pagehint_device *device, uint32_t role);
/* Acknowledges what is finished, in order, and shows the guest. */
void ph_device_acknowledge(struct pagehint_device *device, uint32_t role);
int ph_device_may_serve(const struct pagehint_device *device, const struct ph_device_queue *q);

/*
 * device_walk. All return 0; -ERANGE not in the guest's memory, and the device is to be broken.
 * find: the place of a page, cached. read: the next bytes of the device-readable part, fewer at its end.
 * range: a buffer lies in device->place whole (returns 0), or not in one region but in memory (1: straddles).
 */
int ph_device_find(struct pagehint_device *device, uint64_t page);
int ph_device_read(struct pagehint_device *device, struct ph_device_queue *q, void *to, uint32_t bytes,
		   uint32_t *ret_got);
int ph_device_range(struct pagehint_device *device, const struct ph_segment *segment, uint32_t *budget);
/*
 * Counts what a queue of lists does not want: device-writable buffers, and bytes that make no entry of `unit` bytes; and looks
 * whether every buffer is in memory, before the first is read.
 */
int ph_device_check_list(struct pagehint_device *device, const struct ph_chain *chain, uint32_t unit, uint32_t *budget);

/*
 * What the queues do with the request they walk. Return 0: its end was reached (q->collected); -EAGAIN: the budget is used up, or
 * the pieces are full; -ERANGE: break.
 */
int ph_device_collect_inflate(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget);
int ph_device_collect_report(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget);
int ph_device_collect_deflate(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget);
int ph_device_collect_hint(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget);
int ph_device_collect_stats(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget);

/* Pages of a list of PFNs, one after the other, until budget, list or room ends; `take` gets those that are in memory. */
int ph_device_walk_pfns(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget,
			void (*take)(struct pagehint_device *device, struct ph_device_queue *q, uint64_t page));

/* device_discard. settle: pieces become runs. send: runs go down; -EAGAIN no room below. reap: what has ended. */
void ph_device_settle(struct pagehint_device *device, uint32_t role);
int ph_device_send(struct pagehint_device *device, uint32_t role);
void ph_device_reap(struct pagehint_device *device);
/* Deflated pages become present. */
void ph_device_populate(struct pagehint_device *device, struct ph_device_queue *q);
/* The larger page that a page is a part of; 0 = it is whole in the region, -1 = it is not. */
int ph_device_larger(const struct ph_place *place, uint64_t page, struct ph_partial_page *ret_larger);

/* device_queue */
void ph_device_queue_halt(struct ph_device_queue *q);
/* Where it would start again: before the oldest request that was not acknowledged. */
struct ph_ring_position ph_device_queue_stand(const struct ph_device_queue *q);
struct ph_device_queue *ph_device_queue_at(struct pagehint_device *device, uint32_t index, uint32_t *ret_role);
/* Returns 0; -EAGAIN it has none of the guest's buffers. */
int ph_device_ask(struct pagehint_device *device);

#endif
