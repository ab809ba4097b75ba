#include "alloc/reclaimer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc/granules.h"
#include "base/opts.h"
#include "discard/backend.h"

#define INTERVAL_NS UINT64_C(2000000000)
#define MAX_AWAY (UINT64_C(64) << 20)

int ph_reclaimer_new_with(const struct ph_sys *sys, struct pagehint_zone *zone, struct pagehint_backend *backend,
			  const struct pagehint_reclaimer_opts *opts, struct pagehint_reclaimer **ret_reclaimer)
{
	struct pagehint_reclaimer_opts o;
	int error = PH_OPTS_IN(o, opts);
	if (error < 0)
		return error;
	if (zone == NULL || backend == NULL || ret_reclaimer == NULL || !(zone->flags & PAGEHINT_ZONE_SHARED) ||
	    o.flags & ~PAGEHINT_RECLAIMER_DISTRUST || ph_backend_frame_shift(backend) != zone->frame_shift)
		return -EINVAL;
	if (pagehint_backend_caps(backend) & PAGEHINT_BACKEND_ASYNC)
		return -EOPNOTSUPP;
	uint64_t head = ph_round_up(sizeof(struct pagehint_reclaimer), 64), bytes = head + ph_host_bytes(zone);
	struct pagehint_reclaimer *r = bytes > SIZE_MAX ? NULL : sys->map_memory(sys->ctx, (size_t)bytes);
	if (r == NULL)
		return -ENOMEM;
	r->sys = sys;
	ph_host_init(&r->host, zone, (unsigned char *)r + head);
	r->backend = backend;
	r->bytes = bytes;
	r->interval_ns = o.interval_ns != 0 ? o.interval_ns : INTERVAL_NS;
	r->max_away = (o.max_away_bytes != 0 ? o.max_away_bytes : MAX_AWAY) / ph_granule_bytes(zone);
	r->max_away = r->max_away != 0 ? r->max_away : 1;
	r->flags = o.flags;
	r->target = UINT64_MAX;
	r->max_sections = o.max_sections != 0 ? o.max_sections : UINT32_MAX;
	error = ph_host_recover(&r->host);
	if (error < 0) {
		pagehint_reclaimer_free(r);
		return error;
	}
	(void)ph_round_again(r); /* what could not be discarded is in the stats, and stays marked as used */
	*ret_reclaimer = r;
	return 0;
}

int pagehint_reclaimer_new(struct pagehint_zone *zone, struct pagehint_backend *backend,
			   const struct pagehint_reclaimer_opts *opts, struct pagehint_reclaimer **ret_reclaimer)
{
	return ph_reclaimer_new_with(&ph_sys_real, zone, backend, opts, ret_reclaimer);
}

void pagehint_reclaimer_free(struct pagehint_reclaimer *reclaimer)
{
	if (reclaimer != NULL)
		reclaimer->sys->unmap_memory(reclaimer->sys->ctx, reclaimer, (size_t)reclaimer->bytes);
}

/* Round the zone, from the cursor on: 0, -EAGAIN, -ENOSPC, or the backend's first error. */
static int go_round(struct pagehint_reclaimer *r, uint32_t how, uint64_t bytes, uint64_t *ret_bytes)
{
	uint64_t size = ph_granule_bytes(r->host.z), most = bytes / size, done = 0;
	uint32_t slots = ph_round_slots(r->host.z), n = 0;
	int first_error = 0;
	if (r->host.doubts != 0)
		ph_host_settle(&r->host, 0);
	for (; n < slots && n < r->max_sections && done < most; n++) {
		uint32_t slot = r->cursor < slots ? r->cursor : 0;
		int error = ph_round_slot(r, slot, how, most - done, &done);
		first_error = first_error != 0 ? first_error : error;
		if (done < most)
			r->cursor = slot + 1;
	}
	*ret_bytes = done * size;
	if (first_error != 0 || done >= most)
		return first_error;
	return n < slots ? -EAGAIN : -ENOSPC;
}

int pagehint_reclaimer_reclaim(struct pagehint_reclaimer *reclaimer, uint64_t bytes, uint64_t *ret_bytes)
{
	int r = go_round(reclaimer, PH_ROUND_NOW, bytes, ret_bytes);
	reclaimer->stats.reclaimed += *ret_bytes;
	return r;
}

int pagehint_reclaimer_hold(struct pagehint_reclaimer *reclaimer, uint64_t bytes, uint64_t *ret_bytes)
{
	int r = go_round(reclaimer, PH_ROUND_HOLD, bytes, ret_bytes);
	reclaimer->stats.taken += *ret_bytes;
	return r;
}

/* The lowest n granules of mine of a slot, into want. */
static void choose(struct ph_host *h, uint32_t slot, uint64_t n)
{
	const uint64_t *mine = ph_host_mine(h, slot);
	for (uint32_t i = 0; i < h->z->granule_words; i++) {
		uint64_t v = mine[i];
		while (v != 0 && ph_popcount(v) > n)
			v &= ~(UINT64_C(1) << (63 - (uint32_t)__builtin_clzll(v)));
		n -= v != 0 ? ph_popcount(v) : 0;
		h->want[i] = v;
	}
}

int pagehint_reclaimer_give_back(struct pagehint_reclaimer *reclaimer, uint64_t bytes, uint64_t *ret_bytes)
{
	struct ph_host *h = &reclaimer->host;
	uint64_t size = ph_granule_bytes(h->z), most = bytes / size, done = 0;
	if (h->doubts != 0)
		ph_host_settle(h, 0);
	for (uint32_t slot = h->top; slot-- > 0 && done < most;) {
		uint64_t n = h->count[slot] < most - done ? h->count[slot] : most - done;
		if (n == 0)
			continue;
		choose(h, slot, n);
		ph_host_release(h, slot, h->want, &h->held);
		done += n;
	}
	*ret_bytes = done * size;
	reclaimer->stats.returned += *ret_bytes;
	return done < most ? -ENOSPC : 0;
}

void pagehint_reclaimer_set_target(struct pagehint_reclaimer *reclaimer, uint64_t bytes)
{
	reclaimer->target = bytes;
}

/* Towards the target. *ret_more: there is something to do still, and it may be done at once. */
static int approach(struct pagehint_reclaimer *r, int *ret_more)
{
	uint64_t held = r->host.held << r->host.z->frame_shift, size = ph_granule_bytes(r->host.z), got = 0;
	uint64_t most = r->max_away * size, way = held < r->target ? r->target - held : held - r->target;
	uint64_t now = way < most ? way : most;
	*ret_more = 0;
	if (now < size || r->target == UINT64_MAX)
		return 0;
	int error =
		held < r->target ? pagehint_reclaimer_hold(r, now, &got) : pagehint_reclaimer_give_back(r, now, &got);
	*ret_more = got != 0 && way - got >= size;
	return error == -ENOSPC || error == -EAGAIN ? 0 : error;
}

/* A look at some sections, from where the last step stopped; 1 = there are more. */
static int look(struct pagehint_reclaimer *r, int *ret_error)
{
	uint32_t slots = ph_round_slots(r->host.z), n = 0;
	uint64_t left = r->max_away;
	for (; r->look_at < slots && n < r->max_sections && left != 0; n++) {
		uint64_t done = 0;
		/* no limit inside a section, so that each is looked at as a whole: what is away at once is bounded there */
		int error = ph_round_slot(r, r->look_at++, PH_ROUND_AGED, ph_host_granules(r->host.z), &done);
		*ret_error = *ret_error != 0 ? *ret_error : error;
		r->stats.reclaimed += done * ph_granule_bytes(r->host.z);
		left -= done < left ? done : left;
	}
	return r->look_at < slots;
}

int pagehint_reclaimer_step(struct pagehint_reclaimer *reclaimer, uint64_t now_ns, uint64_t *ret_next)
{
	int more, looking = 0, error;
	if (reclaimer->host.doubts != 0)
		ph_host_settle(&reclaimer->host, 0);
	error = approach(reclaimer, &more);
	if (now_ns >= reclaimer->look_due) {
		looking = look(reclaimer, &error);
		if (!looking) {
			reclaimer->look_at = 0;
			reclaimer->look_due = now_ns + reclaimer->interval_ns;
		}
	}
	*ret_next = more || looking ? now_ns : reclaimer->look_due;
	return error;
}

void pagehint_reclaimer_settle(struct pagehint_reclaimer *reclaimer)
{
	ph_host_settle(&reclaimer->host, 1);
}

int pagehint_reclaimer_stats(const struct pagehint_reclaimer *reclaimer, struct pagehint_reclaimer_stats *stats)
{
	struct pagehint_reclaimer_stats s = reclaimer->stats;
	const struct ph_host *h = &reclaimer->host;
	s.held = h->held << h->z->frame_shift;
	s.doubtful = h->doubtful << h->z->frame_shift;
	s.target = reclaimer->target;
	s.lies = h->lies;
	return PH_OPTS_OUT(stats, s);
}

static void say(const struct pagehint_sink *sink, const char *what, uint64_t n, const char *unit)
{
	char text[160];
	snprintf(text, sizeof(text), "reclaimer: %s: %llu %s", what, (unsigned long long)n, unit);
	sink->line(sink->ctx, text);
}

void pagehint_reclaimer_explain(struct pagehint_reclaimer *reclaimer, const struct pagehint_sink *sink)
{
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	if (sink == NULL || sink->line == NULL || pagehint_reclaimer_stats(reclaimer, &s) < 0)
		return;
	say(sink, "held out of the guest's reach", s.held, "bytes");
	if (s.held < s.target && s.target != UINT64_MAX)
		say(sink, "short of the target, for no more is wholly free", s.target - s.held, "bytes");
	if (s.kept != 0)
		say(sink, "discarded, but kept by the backend", s.kept, "bytes");
	if (s.failed != 0)
		say(sink, "failed at the backend", s.failed, "bytes");
	if (s.doubtful != 0)
		say(sink, "perhaps a dead host's, until the guest is at rest", s.doubtful, "bytes");
	if (s.lies != 0)
		say(sink, "the guest's state said what cannot be", s.lies, "times");
	pagehint_backend_explain(reclaimer->backend, sink);
}
