#include "discard/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/opts.h"

const char *ph_gate_reason_name(uint32_t reason)
{
	static const char *const names[PAGEHINT_INHIBIT_COUNT] = {
		"post-copy", "snapshot", "pinned", "poison", "confidential", "embedder",
	};
	return reason < PAGEHINT_INHIBIT_COUNT ? names[reason] : "?";
}

int pagehint_gate_new(struct pagehint_gate **ret_gate)
{
	if (ret_gate == NULL)
		return -EINVAL;
	struct pagehint_gate *gate = aligned_alloc(_Alignof(struct pagehint_gate), sizeof(*gate));
	if (gate == NULL)
		return -ENOMEM;
	atomic_init(&gate->in_flight, 0);
	atomic_init(&gate->refused, 0);
	atomic_init(&gate->holders, 0);
	for (uint32_t i = 0; i < PAGEHINT_INHIBIT_COUNT; i++)
		atomic_init(&gate->closed[i], 0);
	*ret_gate = gate;
	return 0;
}

int pagehint_gate_free(struct pagehint_gate *gate)
{
	if (gate != NULL && atomic_load(&gate->in_flight) != 0)
		return -EBUSY;
	free(gate);
	return 0;
}

/*
 * The counts of the reasons are the truth; `holders` only spares an open gate the look at each of them. It is raised after
 * and lowered after the count, so it may be late, and a look at it alone decides nothing but "open".
 */
static uint32_t first_reason(const struct pagehint_gate *gate)
{
	if (atomic_load(&gate->holders) == 0)
		return PAGEHINT_INHIBIT_COUNT;
	for (uint32_t i = 0; i < PAGEHINT_INHIBIT_COUNT; i++)
		if (atomic_load(&gate->closed[i]) != 0)
			return i;
	return PAGEHINT_INHIBIT_COUNT;
}

int pagehint_gate_close(struct pagehint_gate *gate, uint32_t reason, uint64_t *ret_in_flight)
{
	if (reason >= PAGEHINT_INHIBIT_COUNT)
		return -EINVAL;
	atomic_fetch_add(&gate->closed[reason], 1);
	atomic_fetch_add(&gate->holders, 1);
	uint64_t in_flight = atomic_load(&gate->in_flight);
	if (ret_in_flight != NULL)
		*ret_in_flight = in_flight;
	return 0;
}

int pagehint_gate_open(struct pagehint_gate *gate, uint32_t reason)
{
	if (reason >= PAGEHINT_INHIBIT_COUNT)
		return -EINVAL;
	uint64_t n = atomic_load(&gate->closed[reason]);
	do {
		if (n == 0)
			return -EALREADY;
	} while (!atomic_compare_exchange_weak(&gate->closed[reason], &n, n - 1));
	atomic_fetch_sub(&gate->holders, 1);
	return 0;
}

uint64_t pagehint_gate_in_flight(const struct pagehint_gate *gate)
{
	return atomic_load(&gate->in_flight);
}

uint32_t pagehint_gate_closed(const struct pagehint_gate *gate)
{
	uint32_t closed = 0;
	for (uint32_t i = 0; i < PAGEHINT_INHIBIT_COUNT; i++)
		closed |= (uint32_t)(atomic_load(&gate->closed[i]) != 0) << i;
	return closed;
}

static int refuse(struct pagehint_gate *gate, uint32_t reason, uint32_t *ret_reason)
{
	atomic_fetch_add(&gate->refused, 1);
	if (ret_reason != NULL)
		*ret_reason = reason;
	return -EBUSY;
}

int pagehint_gate_enter(struct pagehint_gate *gate, uint32_t *ret_reason)
{
	/* looked at before counting, so that a closed gate drains however often somebody tries */
	uint32_t reason = first_reason(gate);
	if (reason != PAGEHINT_INHIBIT_COUNT)
		return refuse(gate, reason, ret_reason);
	atomic_fetch_add(&gate->in_flight, 1);
	/* looked at after counting: either this sees the reason, or its holder sees this */
	reason = first_reason(gate);
	if (reason == PAGEHINT_INHIBIT_COUNT)
		return 0;
	atomic_fetch_sub(&gate->in_flight, 1);
	return refuse(gate, reason, ret_reason);
}

void pagehint_gate_leave(struct pagehint_gate *gate)
{
	atomic_fetch_sub(&gate->in_flight, 1);
}

int pagehint_gate_stats(const struct pagehint_gate *gate, struct pagehint_gate_stats *stats)
{
	struct pagehint_gate_stats s = { 0 };
	s.in_flight = atomic_load(&gate->in_flight);
	s.refused = atomic_load(&gate->refused);
	for (uint32_t i = 0; i < PAGEHINT_INHIBIT_COUNT; i++)
		s.closed[i] = atomic_load(&gate->closed[i]);
	return PH_OPTS_OUT(stats, s);
}

void pagehint_gate_explain(const struct pagehint_gate *gate, const struct pagehint_sink *sink)
{
	char line[160];
	if (gate == NULL || sink == NULL || sink->line == NULL)
		return;
	for (uint32_t i = 0; i < PAGEHINT_INHIBIT_COUNT; i++) {
		uint64_t n = atomic_load(&gate->closed[i]);
		if (n == 0)
			continue;
		snprintf(line, sizeof(line), "discarding is inhibited: %s, held by %" PRIu64 ", %" PRIu64 " in flight",
			 ph_gate_reason_name(i), n, atomic_load(&gate->in_flight));
		sink->line(sink->ctx, line);
	}
}
