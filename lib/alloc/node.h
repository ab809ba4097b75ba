/*
 * node: a set of zones as it lies in memory: whom to ask in which order, and what came of it.
 *
 * Owns: the layout, the order, the counts. Called from: any thread.
 * Invariants: row `home` of the order is a permutation of all nodes that begins with `home`; nothing but the counts changes
 * after init.
 */
#ifndef PH_ALLOC_NODE_H
#define PH_ALLOC_NODE_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/node.h>

struct ph_node {
	_Alignas(64) struct pagehint_zone *zone; /* a line each: homes do not meet in their counts */
	_Atomic uint64_t local;
	_Atomic uint64_t fallback;
	_Atomic uint64_t foreign;
	_Atomic uint64_t failed;
};

struct pagehint_nodes {
	uint64_t bytes;
	uint32_t n;
	uint32_t from_new;     /* made by pagehint_node_new: destroy unmaps it */
	struct ph_node node[]; /* n of them, then uint16_t[n][n]: the order */
};

static inline const uint16_t *ph_node_order(const struct pagehint_nodes *nodes, uint32_t home)
{
	return (const uint16_t *)(const void *)&nodes->node[nodes->n] + (uint64_t)home * nodes->n;
}

#endif
