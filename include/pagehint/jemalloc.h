/*
 * jemalloc.h: a jemalloc arena whose memory is frames of a zone; in a library of its own, libpagehint-jemalloc.
 *
 * The problem: a process gives memory back by madvise(2) page by page when its heap's timers fire, and the layers below hear
 * of each piece alone; or it never hears of it, when the heap's memory is guest memory or shared. Why this shape: jemalloc
 * takes its extents through hooks. Ours take frames from a zone and give them back to it; from there the reporter takes them in
 * big runs, like all free memory. So the heap's decay becomes a report.
 *
 *   mallocx, dallocx -> jemalloc's arena -> extent hooks -> zone ==free bitmap==> reporter -> backend
 *
 * What a hook does:
 *   alloc         frames of the zone, zeroed only if jemalloc asks for zeroes; a given address is always refused
 *   dalloc        the frames are free in the zone: the only way in which a heap gives memory away
 *   purge_forced  discards frames that jemalloc keeps, at once, through a backend; success only if all of it reads zero now
 *   purge_lazy    always refuses: nothing below would hear of it
 *   commit        succeeds: frames of a zone are always usable; decommit refuses, for there is nothing that it could save
 *   split, merge  any two neighbours, as long as they lie in one region of the map
 * No hook allocates from a heap, so jemalloc is never re-entered; the backend's hooks must not either.
 *
 * Not here: jemalloc's own knobs (decay, tcache, statistics): use mallctl(3) with the arena's index.
 * Owns: the hooks; the zone, the map and the backend are the embedder's and must outlive the arena.
 * Fork: memory that is shared stays shared, and both processes then have a zone over it: the child must not use the arena.
 * With private memory the child's copy works, and discards nothing (its backend answers -ENODEV).
 * Source: jemalloc 5.3, section "extent_hooks" of its manual.
 */
#ifndef PAGEHINT_JEMALLOC_H
#define PAGEHINT_JEMALLOC_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>

PAGEHINT_BEGIN

struct pagehint_jemalloc;
struct pagehint_zone;
struct pagehint_map;
struct pagehint_backend;

/*
 * Work with jemalloc's opt.retain, too. It keeps what is left of its extents until the arena dies, some KiB of each 2 MiB, and
 * every such rest keeps its granule from being reported. So without this flag an arena wants "retain:false" in malloc_conf.
 */
#define PAGEHINT_JEMALLOC_RETAIN 1u

/** struct pagehint_jemalloc_opts - what an arena stands on; zone and map are required */
struct pagehint_jemalloc_opts {
	uint64_t struct_size;
	struct pagehint_zone *zone;       /* where frames come from; all of them mapped by `map` */
	const struct pagehint_map *map;   /* where frames are in this process, of the zone's size */
	struct pagehint_backend *backend; /* for purge_forced; used by this arena alone; NULL = purge_forced refuses */
	/*
	 * Called, with no lock of ours held, when the zone has nothing for an extent but frames are in caches or at the
	 * reporter (error -EAGAIN), or are gone (-ENOSPC): may step the reporter, drop memory, add a section. 0 = try once more.
	 * Must not allocate from this arena. Any thread. NULL = an extent that is not there is not there.
	 */
	int (*wanted)(void *ctx, uint64_t bytes, int error);
	void *ctx;
	uint32_t flags;    /* PAGEHINT_JEMALLOC_* */
	uint32_t reserved; /* must be 0 */
};

/** struct pagehint_jemalloc_stats - bytes unless said */
struct pagehint_jemalloc_stats {
	uint64_t struct_size;
	uint64_t held;    /* frames that jemalloc has now: its mapped, retained and metadata memory of this arena */
	uint64_t purged;  /* by purge_forced, since creation */
	uint64_t allocs;  /* extents given to jemalloc [extents] */
	uint64_t frees;   /* extents, or parts of them, taken back [calls] */
	uint64_t refused; /* extents that were not to be had [calls] */
	uint64_t purges_refused; /* purge_forced that failed, or was tried while another thread was purging [calls] */
};

/**
 * pagehint_jemalloc_new - an arena over a zone
 * @opts:    zone and map are required
 * @ret_jem: the handle
 *
 * Takes one 2 MiB extent for the arena's own metadata. Allocate with mallocx(n, MALLOCX_ARENA(index) | MALLOCX_TCACHE_NONE), or
 * with a tcache of your own.
 * Return: 0; -EINVAL opts, zone or map NULL, a frame larger than jemalloc's page, unknown flags; -EOPNOTSUPP opt.retain
 * is on, and PAGEHINT_JEMALLOC_RETAIN was not given; -E2BIG unknown non-zero tail; -ENOMEM no metadata, or the zone has no
 * room for the arena's own; else what jemalloc's mallctl gave.
 * Thread: any.   Cost: one arena.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_jemalloc_new(const struct pagehint_jemalloc_opts *opts,
							   struct pagehint_jemalloc **ret_jem);

/** pagehint_jemalloc_arena - the arena's index, for MALLOCX_ARENA and mallctl(3). Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_jemalloc_arena(const struct pagehint_jemalloc *jem);

/**
 * pagehint_jemalloc_stats - what the arena has of the zone
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -EINVAL struct_size below 8.
 * Thread: any; each figure was true at some moment.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_jemalloc_stats(const struct pagehint_jemalloc *jem,
							     struct pagehint_jemalloc_stats *stats);

/**
 * pagehint_jemalloc_free - destroys the arena with everything that is allocated from it; its frames are free in the zone
 * @jem: NULL is allowed. No tcache may hold memory of the arena (flush or destroy them before)
 * Return: 0; -EBUSY threads are bound to the arena (thread.arena), or jemalloc did not give all frames back (nothing of the
 * handle is freed, so that later frees find it).
 * Thread: init-only.   Cost: O(extents).   Since: 0.1
 */
PAGEHINT_API int pagehint_jemalloc_free(struct pagehint_jemalloc *jem);

PAGEHINT_END
#endif
