/*
 * pager: what a pager is made of, for the files of this room: pager.c (life, figures), region.c (adding, finding),
 * flight.c (fetches), install.c (the kernel's part), resolve.c (a page, whoever asks), event.c (messages), inline.c,
 * ensure.c, fill.c, record.c, removed.c (what goes away), fail.c (what does not come), watch.c (what does not move), export.c.
 *
 * Invariants: regions are only ever added, so a region below regions_n stays as it is; a shard's table of parked faults is
 * touched by the one thread inside it; a flight belongs to whoever moved its state word last.
 */
#ifndef PH_PAGER_PAGER_H
#define PH_PAGER_PAGER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <pagehint/pager.h>
#include <pagehint/run.h>

#include "base/sys.h"
#include "pager/source.h"
#include "pager/state.h"
#include "pager/uffd.h"

#define PH_BUFFER_BYTES (UINT64_C(2) << 20)
#define PH_WINDOW_MAX 512u /* pages around a fault, and in a flight */
#define PH_MESSAGES 64u    /* a read */
#define PH_PARKED 1024u    /* faults a shard keeps */
#define PH_STREAMS 8u
#define PH_INLINE_STREAMS 32u

/* A region. Set up by add, constant from then on but for the states. */
struct ph_range {
	uint64_t frame;
	uint64_t addr;
	uint64_t bytes;
	uint64_t host_bytes; /* of the mapping's pages */
	uint64_t page_bytes; /* what has a state: the larger of that and a frame */
	uint64_t offset;     /* in the source */
	uint64_t stripe;     /* bytes of a shard in turn */
	uint32_t page_shift;
	uint32_t flags;   /* PAGEHINT_PAGER_MINOR .. */
	uint32_t backing; /* PAGEHINT_BACKING_* */
	uint32_t can;     /* PH_UFFD_CAN_* */
	struct pagehint_source *source;
	struct ph_states states;
	void *own; /* memory of the states when it is ours, with its size */
	uint64_t own_bytes;
	_Atomic uintptr_t wanted; /* a bit a page (uint64_t words): what is worth bringing ahead; 0 = all */
};

struct ph_parked {
	uint64_t page;
	uint64_t due; /* not before */
	uint32_t region;
	uint32_t how; /* UFFD_PAGEFAULT_FLAG_* */
	uint32_t tries;
	uint32_t reserved;
};

/* Faults that follow each other: the next is expected at `next`. */
struct ph_stream {
	uint64_t next;
	uint32_t region;
	uint32_t window;
};

struct ph_shard {
	_Alignas(64) int fd;
	uint32_t parked_n;
	uint32_t stream_at;
	_Atomic uint32_t inside;  /* a thread is in step */
	_Atomic uint32_t epoch;   /* changes when the shard was taken from a thread that did not move */
	_Atomic uint64_t stepped; /* now of the last step */
	_Atomic uint64_t waiting; /* 1 + when the watch first saw something unread; 0 = nothing */
	struct ph_stream streams[PH_STREAMS];
	struct uffd_msg messages[PH_MESSAGES];
	struct ph_parked *parked; /* [PH_PARKED + PH_MESSAGES] */
};

/* A fetch under way. use = generation << 3 | one of these */
enum {
	PH_FLIGHT_FREE = 0,
	PH_FLIGHT_FETCHING = 1,   /* somebody is in the source's fetch */
	PH_FLIGHT_WAITING = 2,    /* fetch has returned: it will be delivered */
	PH_FLIGHT_INSTALLING = 3, /* there is an answer */
	PH_FLIGHT_REVOKED = 4,    /* its pages are nobody's concern any more; who is in fetch still has the buffer */
};

struct ph_flight {
	_Atomic uint64_t use;
	_Atomic uint64_t since;
	_Atomic uint64_t first;
	_Atomic uint64_t pages;
	_Atomic uint32_t region;
	uint32_t reserved;
	void *buffer;
};

#define PH_PAGER_COUNTERS (sizeof(struct pagehint_pager_stats) / sizeof(uint64_t))

struct pagehint_pager {
	const struct ph_sys *sys;
	int64_t pid;
	struct pagehint_map *map;
	uint32_t (*failed)(void *ctx, const struct pagehint_pager_failure *failure);
	void *ctx;
	uint32_t frame_shift;
	uint32_t flags;
	uint32_t shards_n;
	uint32_t regions_max;
	uint32_t around_min;
	uint32_t around_max;
	uint32_t flights_n;
	uint32_t record_max;
	uint64_t stripe_bytes;
	uint64_t timeout_ns;
	uint64_t fill_rate;
	_Atomic uint32_t regions_n;
	_Atomic uint32_t demand; /* faults being resolved now: fill gives way */
	_Atomic uint32_t filling;
	_Atomic uint64_t now; /* the latest time that anybody told */
	struct ph_range *regions;
	struct ph_shard *shards;
	struct ph_flight *flights;
	void *buffers; /* one mapping, aligned to 2 MiB from buffers_at on */
	uint64_t buffers_bytes;
	const void *zeros;                           /* 2 MiB that are never written */
	_Atomic uint64_t streams[PH_INLINE_STREAMS]; /* of threads that resolve for themselves: inline.c */
	/* recording, and what was recorded by another */
	_Atomic uint64_t *record; /* 1 + (frame << 10 | frames - 1); 0 = being written */
	_Atomic uint64_t record_n;
	struct pagehint_run *prefetch;
	uint64_t prefetch_n;
	uint64_t prefetch_at;
	/* fill; whoever holds `filling` */
	uint64_t fill_next; /* not before */
	_Atomic uint64_t counters[PH_PAGER_COUNTERS];
};

#define PH_PAGER_COUNT(p, member, n)                                                                                \
	atomic_fetch_add_explicit(&(p)->counters[offsetof(struct pagehint_pager_stats, member) / sizeof(uint64_t)], \
				  (uint64_t)(n), memory_order_relaxed)

/* pager.c */
int ph_pager_new_with(const struct pagehint_pager_opts *opts, const struct ph_sys *sys,
		      struct pagehint_pager **ret_pager);
int ph_pager_is_owner(const struct pagehint_pager *p); /* not a fork */

/* region.c */
struct ph_range *ph_range_at(struct pagehint_pager *p, uint64_t addr);
struct ph_range *ph_range_of_frame(struct pagehint_pager *p, uint64_t frame);
uint32_t ph_range_index(const struct pagehint_pager *p, const struct ph_range *g);
uint32_t ph_range_shard(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page);
int ph_range_fd(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page);
/* pages [*first, *end) around `page` that one userfaultfd serves */
void ph_range_stripe(const struct ph_range *g, uint64_t page, uint64_t *first, uint64_t *end);
uint64_t ph_range_pages(const struct ph_range *g);
uint64_t ph_range_frame(const struct pagehint_pager *p, const struct ph_range *g, uint64_t page);
/* pages that hold frames [frame, frame + frames) of this region */
void ph_range_span(const struct pagehint_pager *p, const struct ph_range *g, uint64_t frame, uint64_t frames,
		   uint64_t *first, uint64_t *end);
void ph_range_wake(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t n);

#endif
