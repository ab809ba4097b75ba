/*
 * node.h: one zone a NUMA node, and where to go when it is full.
 *
 * The problem: memory is near to some CPUs and far from others, and what is near runs out first. Why this shape: each node has
 * a zone of its own (its caches, its reporter, its hotplug stay what they are), and a set of nodes only knows in which order
 * to ask them. The zones number frames alike: they have one span, of which each has other frames, so a frame says by itself
 * whose it is. Spans are sparse: a zone pays for what it has.
 * A thread keeps its cache (cache.h) on the zone of its home, and comes here when that has nothing.
 * Not here: which node a thread is on, and placing memory (mbind); that is the embedder's.
 * Memory: caller-owned (pagehint_node_size, then _init), or _new and _destroy. A set keeps the addresses of its zones, so it
 * belongs to one process.
 */
#ifndef PAGEHINT_NODE_H
#define PAGEHINT_NODE_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>

PAGEHINT_BEGIN

struct pagehint_zone;
struct pagehint_nodes;

#define PAGEHINT_NODES_MAX 1024u

/* flags of an allocation */
#define PAGEHINT_NODE_STRICT 1u /* from the home or not at all */

/** struct pagehint_node_opts - fixed for the life of a set */
struct pagehint_node_opts {
	uint64_t struct_size;
	struct pagehint_zone *const *zones; /* array of `nodes`; borrowed, must outlive the set */
	const uint8_t
		*distances; /* rows of the firmware's SLIT, nodes * nodes; only read by init. NULL: all are as far */
	uint32_t nodes;     /* 1 .. PAGEHINT_NODES_MAX */
	uint32_t flags;     /* must be 0 */
};

/**
 * pagehint_node_size - bytes of state for these options
 * @opts:      required
 * @ret_bytes: size for pagehint_node_init
 * Return: 0; -EINVAL opts, zones or one of the zones NULL, one zone twice, nodes out of its bounds, unknown flags; -E2BIG
 * unknown non-zero tail.
 * Thread: any.   Cost: O(nodes * nodes).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_size(const struct pagehint_node_opts *opts, uint64_t *ret_bytes);

/**
 * pagehint_node_init - a set of nodes in the caller's memory
 * @mem:       64-byte aligned; stays the caller's and must outlive the set
 * @bytes:     at least pagehint_node_size
 * @opts:      as for pagehint_node_size
 * @ret_nodes: the handle; it is `mem`
 *
 * Each node asks itself first, then the others, the nearest first; of those that are as far, the next in a circle of all
 * nodes, so that neighbours of a node that is full do not all go to the same one.
 * Return: 0; -EINVAL as above, or mem misaligned or too small; -E2BIG.
 * Thread: init-only.   Cost: O(nodes^3).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int
pagehint_node_init(void *mem, uint64_t bytes, const struct pagehint_node_opts *opts, struct pagehint_nodes **ret_nodes);

/**
 * pagehint_node_new - size, map memory, init
 * Return: as pagehint_node_init; -ENOMEM.
 * Thread: init-only.   Cost: one mmap.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_new(const struct pagehint_node_opts *opts,
						       struct pagehint_nodes **ret_nodes);

/** pagehint_node_destroy - unmaps what pagehint_node_new made, and leaves the zones alone; NULL is allowed. Thread: init-only.  Cost: one munmap.  Since: 0.1 */
PAGEHINT_API void pagehint_node_destroy(struct pagehint_nodes *nodes);

/**
 * pagehint_node_fallbacks - in which order a node asks
 * @nodes:     the set
 * @node:      the home
 * @ret_order: array of `room`: the home first, then the others
 * @room:      at least as many as there are nodes
 * Return: 0; -ERANGE no such node; -EINVAL room is too small.
 * Thread: any.   Cost: O(nodes).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_fallbacks(const struct pagehint_nodes *nodes, uint32_t node,
							     uint32_t *ret_order, uint32_t room);

/**
 * pagehint_node_alloc - one block, as near to a node as can be
 * @nodes:     the set
 * @node:      the home
 * @order:     0 .. PAGEHINT_ORDER_MAX (18)
 * @flags:     PAGEHINT_NODE_*
 * @ret_frame: first frame
 * Return: 0; -ENOSPC there was a moment at which none of the nodes that may be asked had a block, nor one that may come;
 * -EAGAIN none has one, but one may come; -ERANGE no such node; -EINVAL order, unknown flags.
 * Thread: any.   Cost: pagehint_zone_alloc for each node that is asked, and an atomic.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_alloc(struct pagehint_nodes *nodes, uint32_t node, uint32_t order,
							 uint32_t flags, uint64_t *ret_frame);

/**
 * pagehint_node_alloc_batch - n blocks of one order: what the home has, then what the next has, and so on
 * @nodes:      the set
 * @node:       the home
 * @order:      0 .. PAGEHINT_ORDER_MAX
 * @flags:      PAGEHINT_NODE_*
 * @n:          how many [blocks]
 * @ret_frames: array of n; the first *ret_n are written
 * @ret_n:      blocks allocated; written also on -ENOSPC and -EAGAIN (keep them or free them)
 * Return: 0 all n; else as pagehint_node_alloc.
 * Thread: any.   Cost: pagehint_zone_alloc_batch for each node that is asked.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_alloc_batch(struct pagehint_nodes *nodes, uint32_t node,
							       uint32_t order, uint32_t flags, uint32_t n,
							       uint64_t *ret_frames, uint32_t *ret_n);

/**
 * pagehint_node_alloc_runs - frames in few runs, all of them on one node
 * @nodes:    the set
 * @node:     the home
 * @frames:   how many [frames]
 * @flags:    PAGEHINT_NODE_*
 * @runs:     array of max_runs; undefined on failure
 * @max_runs: room [runs]
 * @ret_runs: entries filled
 * Who wants more than a node has asks several times, for less.
 * Return: 0 all of them; -ENOSPC no node that may be asked has them (or they do not fit max_runs), each at a moment of its
 * own; -EAGAIN, -ERANGE, -EINVAL as pagehint_node_alloc; -EINVAL also frames 0 or max_runs 0. On failure nothing is changed.
 * Thread: any.   Cost: pagehint_zone_alloc_runs for each node that is asked.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_alloc_runs(struct pagehint_nodes *nodes, uint32_t node,
							      uint64_t frames, uint32_t flags,
							      struct pagehint_run *runs, uint32_t max_runs,
							      uint32_t *ret_runs);

/**
 * pagehint_node_of - whose frame is it?
 * @nodes:    the set
 * @frame:    a frame
 * @ret_node: the node in whose zone it is present
 * Return: 0; -ERANGE in none.
 * Thread: any; the answer holds while the frame cannot be removed (it is out, say).   Cost: two loads a node.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_of(const struct pagehint_nodes *nodes, uint64_t frame,
						      uint32_t *ret_node);

/**
 * pagehint_node_free - gives a block back to the zone that it is of
 * Return: as pagehint_zone_free; -ERANGE the frame is in no zone.
 * Thread: any.   Cost: pagehint_node_of and pagehint_zone_free.   Since: 0.1
 */
PAGEHINT_API int pagehint_node_free(struct pagehint_nodes *nodes, uint64_t frame, uint32_t order);

/**
 * pagehint_node_free_batch - n blocks of one order, of whatever nodes
 * @nodes:    the set
 * @order:    0 .. PAGEHINT_ORDER_MAX
 * @n:        how many [blocks]
 * @frames:   array of n
 * @ret_done: blocks freed, or NULL; also on failure: the block at this index is the bad one, the rest was not looked at
 * Return: 0; else as pagehint_node_free for the first block that is refused.
 * Thread: any.   Cost: atomics per word for neighbours in the array.   Since: 0.1
 */
PAGEHINT_API int pagehint_node_free_batch(struct pagehint_nodes *nodes, uint32_t order, uint32_t n,
					  const uint64_t *frames, uint32_t *ret_done);

/**
 * pagehint_node_free_runs - runs of whatever nodes, each of one
 * @nodes:    the set
 * @runs:     array of n
 * @n:        how many [runs]
 * @ret_done: runs freed whole, or NULL; also on failure: the run at this index was refused whole
 * Return: as pagehint_zone_free_runs; -ERANGE also a run of several nodes.
 * Thread: any.   Cost: as pagehint_zone_free_runs.   Since: 0.1
 */
PAGEHINT_API int pagehint_node_free_runs(struct pagehint_nodes *nodes, const struct pagehint_run *runs, uint32_t n,
					 uint32_t *ret_done);

/** struct pagehint_node_stats - what became of what was asked for, since the set was made */
struct pagehint_node_stats {
	uint64_t struct_size;
	uint64_t local;    /* allocations of this home that it served itself [blocks; a call of alloc_runs is one] */
	uint64_t fallback; /* allocations of this home that another node served */
	uint64_t foreign;  /* allocations of other homes that this node served */
	uint64_t failed;   /* calls of this home that got nothing, or less than they asked for [calls] */
};

/**
 * pagehint_node_stats - reads a node's counters
 * @nodes: the set
 * @node:  which
 * @stats: struct_size set by the caller; the rest is written
 * Return: 0; -ERANGE no such node; -EINVAL struct_size below 8.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_node_stats(const struct pagehint_nodes *nodes, uint32_t node,
							 struct pagehint_node_stats *stats);

PAGEHINT_END
#endif
