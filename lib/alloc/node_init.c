/*
 * node_init: a set of nodes in somebody's memory, and the order in which each asks the others.
 */
#include <errno.h>
#include <string.h>

#include "alloc/node.h"
#include "base/bits.h"
#include "base/opts.h"
#include "base/sys.h"

/* the options, checked; *ret_bytes: the state they need */
static int plan(const struct pagehint_node_opts *opts, struct pagehint_node_opts *o, uint64_t *ret_bytes)
{
	int r = opts == NULL ? -EINVAL : PH_OPTS_IN(*o, opts);
	if (r < 0)
		return r;
	if (o->nodes == 0 || o->nodes > PAGEHINT_NODES_MAX || o->zones == NULL || o->flags != 0)
		return -EINVAL;
	for (uint32_t i = 0; i < o->nodes; i++) {
		if (o->zones[i] == NULL)
			return -EINVAL;
		for (uint32_t j = 0; j < i; j++)
			if (o->zones[j] == o->zones[i])
				return -EINVAL;
	}
	*ret_bytes = sizeof(struct pagehint_nodes) + o->nodes * sizeof(struct ph_node) +
		     ph_round_up((uint64_t)o->nodes * o->nodes * sizeof(uint16_t), 64);
	return 0;
}

/* is node a to be asked before node b? Both are `n` nodes in a circle, seen from home. */
static int comes_before(const struct pagehint_node_opts *o, uint32_t home, uint32_t a, uint32_t b)
{
	uint32_t from_a = (a + o->nodes - home) % o->nodes, from_b = (b + o->nodes - home) % o->nodes;
	if (o->distances != NULL && from_a != 0 && from_b != 0) {
		uint8_t to_a = o->distances[(uint64_t)home * o->nodes + a];
		uint8_t to_b = o->distances[(uint64_t)home * o->nodes + b];
		if (to_a != to_b)
			return to_a < to_b;
	}
	return from_a < from_b;
}

static void sort_row(const struct pagehint_node_opts *o, uint32_t home, uint16_t *row)
{
	for (uint32_t i = 0; i < o->nodes; i++) {
		uint32_t at = i;
		for (; at > 0 && comes_before(o, home, i, row[at - 1]); at--)
			row[at] = row[at - 1];
		row[at] = (uint16_t)i;
	}
}

int pagehint_node_size(const struct pagehint_node_opts *opts, uint64_t *ret_bytes)
{
	struct pagehint_node_opts o;
	return plan(opts, &o, ret_bytes);
}

int pagehint_node_init(void *mem, uint64_t bytes, const struct pagehint_node_opts *opts,
		       struct pagehint_nodes **ret_nodes)
{
	struct pagehint_node_opts o;
	uint64_t needed;
	int r = plan(opts, &o, &needed);
	if (r < 0)
		return r;
	if (mem == NULL || (uintptr_t)mem % 64 != 0 || bytes < needed)
		return -EINVAL;
	struct pagehint_nodes *nodes = mem;
	memset(mem, 0, (size_t)needed);
	nodes->bytes = needed;
	nodes->n = o.nodes;
	for (uint32_t i = 0; i < o.nodes; i++) {
		nodes->node[i].zone = o.zones[i];
		sort_row(&o, i, (uint16_t *)(void *)&nodes->node[o.nodes] + (uint64_t)i * o.nodes);
	}
	*ret_nodes = nodes;
	return 0;
}

int pagehint_node_new(const struct pagehint_node_opts *opts, struct pagehint_nodes **ret_nodes)
{
	uint64_t bytes;
	int r = pagehint_node_size(opts, &bytes);
	if (r < 0)
		return r;
	void *mem = ph_sys_real.map_memory(ph_sys_real.ctx, (size_t)bytes);
	if (mem == NULL)
		return -ENOMEM;
	r = pagehint_node_init(mem, bytes, opts, ret_nodes);
	if (r < 0)
		ph_sys_real.unmap_memory(ph_sys_real.ctx, mem, (size_t)bytes);
	else
		(*ret_nodes)->from_new = 1;
	return r;
}

void pagehint_node_destroy(struct pagehint_nodes *nodes)
{
	if (nodes != NULL && nodes->from_new)
		ph_sys_real.unmap_memory(ph_sys_real.ctx, nodes, (size_t)nodes->bytes);
}
