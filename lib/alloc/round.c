/*
 * round: one section: what to take of it, discarding it, and what becomes of it then; see reclaimer.h.
 *
 * `stale | touched` says what was used since its last discard (sets.h); in a shared zone the host alone clears them, and only
 * while the granule is its own.
 */
#include <string.h>

#include "alloc/granules.h"
#include "alloc/harvest.h"
#include "alloc/reclaimer.h"
#include "alloc/sets.h"

static uint64_t used_of(const struct pagehint_zone *z, uint32_t slot, uint32_t i)
{
	return atomic_load(&ph_sets_stale(z, slot)[i]) | atomic_load(&ph_sets_touched(z, slot)[i]);
}

static void want(struct ph_host *h, uint32_t slot, uint32_t how)
{
	const struct pagehint_zone *z = h->z;
	const uint64_t *mine = ph_host_mine(h, slot);
	uint64_t all = ph_low_mask(ph_host_granules(z));
	for (uint32_t i = 0; i < z->granule_words; i++) {
		uint64_t v = all & ~mine[i] & ~h->tried[i];
		if (how != PH_ROUND_HOLD)
			v &= used_of(z, slot, i);
		if (how == PH_ROUND_AGED)
			v &= atomic_load(&ph_sets_aged(z, slot)[i]) & ~atomic_load(&ph_sets_touched(z, slot)[i]);
		h->want[i] = v;
	}
}

static int is_gone(const struct pagehint_outcome *o)
{
	return o->kept == 0 && o->lazy == 0 && o->failed == 0;
}

static int discard_runs(struct pagehint_reclaimer *r, uint32_t slot, uint64_t base, uint32_t n, uint64_t *ret_granules)
{
	struct pagehint_zone *z = r->host.z;
	struct pagehint_outcome sum = { 0 };
	uint32_t done = 0, g = z->granule_order;
	int error = pagehint_backend_discard(r->backend, r->runs, n, 0, r->outcomes, &sum, &done);
	for (uint32_t i = 0; i < done && i < n; i++) {
		if (!is_gone(&r->outcomes[i]))
			continue;
		ph_sets_unused(z, slot, (uint32_t)((r->runs[i].frame - base) >> g), (uint32_t)(r->runs[i].frames >> g));
		*ret_granules += r->runs[i].frames >> g;
	}
	r->stats.discards += n;
	r->stats.discarded += sum.freed + sum.absent + sum.accepted;
	r->stats.kept += sum.kept + sum.lazy;
	r->stats.failed += sum.failed;
	return error;
}

/* Discards these granules of a slot, adjacent ones as one run. They are ours. */
static int discard(struct pagehint_reclaimer *r, uint32_t slot, const uint64_t *granules, uint64_t *ret_granules)
{
	struct pagehint_zone *z = r->host.z;
	uint32_t g = z->granule_order, n = 0;
	int first_error = 0, error;
	uint64_t base = (r->host.number[slot] - 1) << PH_SECTION_SHIFT; /* ours, not what the state says now */
	for (uint32_t i = 0; i < z->granule_words; i++) {
		for (uint64_t v = granules[i]; v != 0;) {
			uint32_t first = ph_ctz(v), length = ph_run_length(v, first);
			uint64_t frame = base + ((uint64_t)(i * 64 + first) << g);
			v &= ~ph_mask(first, length);
			if (n != 0 && r->runs[n - 1].frame + r->runs[n - 1].frames == frame) {
				r->runs[n - 1].frames += (uint64_t)length << g;
				continue;
			}
			if (n == PH_ROUND_RUNS) {
				error = discard_runs(r, slot, base, n, ret_granules);
				first_error = first_error != 0 ? first_error : error;
				n = 0;
			}
			r->runs[n++] = (struct pagehint_run) { frame, (uint64_t)length << g };
		}
	}
	error = n != 0 ? discard_runs(r, slot, base, n, ret_granules) : 0;
	return first_error != 0 ? first_error : error;
}

/* Of what was taken for good, what was used goes. */
static int discard_used(struct pagehint_reclaimer *r, uint32_t slot, uint64_t *granules)
{
	uint64_t gone = 0, untouched = 0;
	if (!(r->flags & PAGEHINT_RECLAIMER_DISTRUST)) {
		for (uint32_t i = 0; i < r->host.z->granule_words; i++) {
			uint64_t unused = granules[i] == 0 ? 0 : granules[i] & ~used_of(r->host.z, slot, i);
			untouched += unused != 0 ? ph_popcount(unused) : 0;
			granules[i] &= ~unused;
		}
	}
	r->stats.untouched += untouched * ph_granule_bytes(r->host.z);
	return discard(r, slot, granules, &gone);
}

static void add_tried(struct ph_host *h)
{
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		h->tried[i] |= h->got[i];
}

/* What a look leaves behind: see sets.h. What this look took is young again. */
static void write_look(struct ph_host *h, uint32_t slot)
{
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		ph_reap_write_look(h->z, slot, i, ph_low_mask(ph_host_granules(h->z)), h->tried[i]);
}

int ph_round_slot(struct pagehint_reclaimer *r, uint32_t slot, uint32_t how, uint64_t most, uint64_t *ret_done)
{
	struct ph_host *h = &r->host;
	int first_error = 0, error;
	uint64_t done = 0, tried = 0;
	memset(h->tried, 0, h->z->granule_words * sizeof(uint64_t));
	while (tried < most) {
		uint64_t at_once = how == PH_ROUND_HOLD || most - tried < r->max_away ? most - tried : r->max_away;
		want(h, slot, how);
		uint32_t n = ph_host_take(
			h, slot, at_once < ph_host_granules(h->z) ? (uint32_t)at_once : ph_host_granules(h->z));
		if (n == 0)
			break;
		tried += n;
		add_tried(h);
		if (how == PH_ROUND_HOLD) {
			ph_host_keep(h, n);
			error = discard_used(r, slot, h->got);
			done += n;
		} else {
			error = discard(r, slot, h->got, &done);
			ph_host_release(h, slot, h->got, &h->away);
		}
		first_error = first_error != 0 ? first_error : error;
	}
	if (how == PH_ROUND_AGED)
		write_look(h, slot);
	r->stats.looked++;
	*ret_done += done;
	return first_error;
}

int ph_round_again(struct pagehint_reclaimer *r)
{
	struct ph_host *h = &r->host;
	int first_error = 0;
	for (uint32_t slot = 0; slot < h->top; slot++) {
		if (h->count[slot] == 0)
			continue;
		memcpy(h->got, ph_host_mine(h, slot), h->z->granule_words * sizeof(uint64_t));
		uint64_t untouched = r->stats.untouched;
		int error = discard_used(r, slot, h->got);
		r->stats.untouched = untouched;
		first_error = first_error != 0 ? first_error : error;
	}
	return first_error;
}
