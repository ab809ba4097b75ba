/*
 * node: allocations that go from node to node, and frees that find their zone.
 */
#include "alloc/node.h"

#include <errno.h>

#include "alloc/ops.h"
#include "base/opts.h"

#define ROUNDS 2u /* in which every node is asked, before a refusal says that it cannot tell */

/* What an allocation wants, and what it has got; the part that differs is one call on one zone. */
struct ask {
	int (*from)(struct ask *ask, struct pagehint_zone *zone);
	uint64_t frames;
	uint32_t order;
	uint32_t n; /* blocks, or room for runs */
	uint64_t *ret_frames;
	struct pagehint_run *runs;
	uint32_t got; /* blocks, or runs */
};

static int ask_block(struct ask *a, struct pagehint_zone *zone)
{
	int r = pagehint_zone_alloc(zone, a->order, a->ret_frames);
	a->got = r == 0;
	return r;
}

static int ask_batch(struct ask *a, struct pagehint_zone *zone)
{
	uint32_t got = 0;
	int r = pagehint_zone_alloc_batch(zone, a->order, a->n - a->got, a->ret_frames + a->got, &got);
	a->got += got;
	return r;
}

static int ask_runs(struct ask *a, struct pagehint_zone *zone)
{
	return pagehint_zone_alloc_runs(zone, a->frames, a->runs, a->n, &a->got);
}

static void count_served(struct pagehint_nodes *nodes, uint32_t home, uint32_t by, uint64_t n)
{
	if (n == 0)
		return;
	if (by == home) {
		atomic_fetch_add_explicit(&nodes->node[home].local, n, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&nodes->node[home].fallback, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&nodes->node[by].foreign, n, memory_order_relaxed);
}

/* Frames ever put into the zones that are asked: a sum that only grows. */
static uint64_t put_into(const struct pagehint_nodes *nodes, const uint16_t *order, uint32_t n)
{
	uint64_t sum = 0, put, taken;
	for (uint32_t i = 0; i < n; i++) {
		ph_zone_counts(nodes->node[order[i]].zone, &put, &taken);
		sum += put;
	}
	return sum;
}

/* Every node once. Returns 0, -ENOSPC when each of them said so, -EAGAIN, or what is wrong with the call. */
static int ask_each(struct pagehint_nodes *nodes, const uint16_t *order, uint32_t n, struct ask *ask)
{
	int result = -ENOSPC;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t before = ask->got;
		int r = ask->from(ask, nodes->node[order[i]].zone);
		/* a call of alloc_runs is one allocation */
		count_served(nodes, order[0], order[i], ask->runs != NULL ? r == 0 : ask->got - before);
		if (r == 0 || (r != -ENOSPC && r != -EAGAIN))
			return r;
		if (r == -EAGAIN)
			result = r;
	}
	return result;
}

/*
 * Each node says -ENOSPC of its own moment. That all of them were full at one and the same moment is only known if nothing has
 * come in from before the first was asked until the last had answered. Not so for runs: there a node that has too little takes
 * it and puts it back.
 */
static int ask_all(struct pagehint_nodes *nodes, uint32_t home, uint32_t flags, struct ask *ask)
{
	if (home >= nodes->n)
		return -ERANGE;
	if (flags & ~PAGEHINT_NODE_STRICT)
		return -EINVAL;
	const uint16_t *order = ph_node_order(nodes, home);
	uint32_t n = flags & PAGEHINT_NODE_STRICT ? 1 : nodes->n;
	int r = ask_each(nodes, order, n, ask);
	for (uint32_t i = 0; r == -ENOSPC && n > 1 && ask->runs == NULL; i++) {
		uint64_t before = put_into(nodes, order, n);
		r = ask_each(nodes, order, n, ask);
		if (r != -ENOSPC || put_into(nodes, order, n) == before)
			break;
		if (i == ROUNDS)
			r = -EAGAIN;
	}
	if (r < 0)
		atomic_fetch_add_explicit(&nodes->node[home].failed, 1, memory_order_relaxed);
	return r;
}

int pagehint_node_alloc(struct pagehint_nodes *nodes, uint32_t node, uint32_t order, uint32_t flags,
			uint64_t *ret_frame)
{
	struct ask ask = { .from = ask_block, .order = order, .n = 1, .ret_frames = ret_frame };
	return order > PAGEHINT_ORDER_MAX ? -EINVAL : ask_all(nodes, node, flags, &ask);
}

int pagehint_node_alloc_batch(struct pagehint_nodes *nodes, uint32_t node, uint32_t order, uint32_t flags, uint32_t n,
			      uint64_t *ret_frames, uint32_t *ret_n)
{
	struct ask ask = { .from = ask_batch, .order = order, .n = n, .ret_frames = ret_frames };
	if (order > PAGEHINT_ORDER_MAX)
		return -EINVAL;
	int r = ask_all(nodes, node, flags, &ask);
	if (r == 0 || r == -ENOSPC || r == -EAGAIN)
		*ret_n = ask.got;
	return r;
}

int pagehint_node_alloc_runs(struct pagehint_nodes *nodes, uint32_t node, uint64_t frames, uint32_t flags,
			     struct pagehint_run *runs, uint32_t max_runs, uint32_t *ret_runs)
{
	struct ask ask = { .from = ask_runs, .frames = frames, .n = max_runs, .runs = runs };
	if (frames == 0 || max_runs == 0)
		return -EINVAL;
	int r = ask_all(nodes, node, flags, &ask);
	if (r == 0)
		*ret_runs = ask.got;
	return r;
}

int pagehint_node_of(const struct pagehint_nodes *nodes, uint64_t frame, uint32_t *ret_node)
{
	for (uint32_t i = 0; i < nodes->n; i++) {
		const struct pagehint_zone *zone = nodes->node[i].zone;
		int64_t slot = ph_zone_slot(zone, frame);
		if (slot >= 0 && ph_zone_is_present(zone, (uint32_t)slot, ph_zone_offset(frame))) {
			*ret_node = i;
			return 0;
		}
	}
	return -ERANGE;
}

int pagehint_node_free(struct pagehint_nodes *nodes, uint64_t frame, uint32_t order)
{
	uint32_t node;
	int r = pagehint_node_of(nodes, frame, &node);
	return r < 0 ? r : pagehint_zone_free(nodes->node[node].zone, frame, order);
}

int pagehint_node_free_batch(struct pagehint_nodes *nodes, uint32_t order, uint32_t n, const uint64_t *frames,
			     uint32_t *ret_done)
{
	uint32_t done = 0;
	int r = 0;
	while (r == 0 && done < n) {
		uint32_t node, other, same = 1, freed = 0;
		r = pagehint_node_of(nodes, frames[done], &node);
		if (r < 0)
			break;
		while (done + same < n && pagehint_node_of(nodes, frames[done + same], &other) == 0 && other == node)
			same++;
		r = pagehint_zone_free_batch(nodes->node[node].zone, order, same, frames + done, &freed);
		done += freed;
	}
	if (ret_done != NULL)
		*ret_done = done;
	return r;
}

int pagehint_node_free_runs(struct pagehint_nodes *nodes, const struct pagehint_run *runs, uint32_t n,
			    uint32_t *ret_done)
{
	uint32_t done = 0, node;
	int r = 0;
	for (; r == 0 && done < n; done += r == 0) {
		r = pagehint_node_of(nodes, runs[done].frame, &node);
		if (r == 0)
			r = pagehint_zone_free_runs(nodes->node[node].zone, &runs[done], 1, NULL);
	}
	if (ret_done != NULL)
		*ret_done = done;
	return r;
}

int pagehint_node_fallbacks(const struct pagehint_nodes *nodes, uint32_t node, uint32_t *ret_order, uint32_t room)
{
	if (node >= nodes->n)
		return -ERANGE;
	if (room < nodes->n)
		return -EINVAL;
	for (uint32_t i = 0; i < nodes->n; i++)
		ret_order[i] = ph_node_order(nodes, node)[i];
	return 0;
}

int pagehint_node_stats(const struct pagehint_nodes *nodes, uint32_t node, struct pagehint_node_stats *stats)
{
	if (node >= nodes->n)
		return -ERANGE;
	const struct ph_node *at = &nodes->node[node];
	struct pagehint_node_stats s = {
		.local = atomic_load(&at->local),
		.fallback = atomic_load(&at->fallback),
		.foreign = atomic_load(&at->foreign),
		.failed = atomic_load(&at->failed),
	};
	return PH_OPTS_OUT(stats, s);
}
