/*
 * node_set.h: a few zones that share a span, each with frames of its own, and a set of nodes over them.
 */
#ifndef TEST_SUPPORT_NODE_SET_H
#define TEST_SUPPORT_NODE_SET_H

#include "support/zone_rest.h"

#include <pagehint/node.h>

#define NODES 3u

struct node_set {
	struct pagehint_zone *zone[NODES];
	struct pagehint_nodes *nodes;
};

/* nodes in a row: 0 - 1 - 2 */
static const uint8_t node_distances[NODES * NODES] = { 10, 20, 30, 20, 10, 20, 30, 20, 10 };

/*
 * Node i has `frames` frames at `apart` * i of one span; they may share a section. `distances` may be NULL.
 */
static inline struct node_set node_set_make(uint64_t frames, uint64_t apart, uint32_t flags, const uint8_t *distances)
{
	struct node_set s;
	uint64_t span = (apart * NODES + SECTION - 1) / SECTION;
	for (uint32_t i = 0; i < NODES; i++) {
		s.zone[i] = zone_empty(span, span, flags, 9);
		assert_int_equal(pagehint_zone_add(s.zone[i], i * apart, frames), 0);
	}
	const struct pagehint_node_opts opts = {
		.struct_size = sizeof(opts), .zones = s.zone, .distances = distances, .nodes = NODES
	};
	assert_int_equal(pagehint_node_new(&opts, &s.nodes), 0);
	return s;
}

static inline struct pagehint_node_stats node_stats_of(const struct node_set *s, uint32_t node)
{
	struct pagehint_node_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_node_stats(s->nodes, node, &stats), 0);
	return stats;
}

/* everything was given back */
static inline void node_set_gone_home(struct node_set *s)
{
	pagehint_node_destroy(s->nodes);
	for (uint32_t i = 0; i < NODES; i++)
		zone_gone_home(s->zone[i]);
}

#endif
