/* The guest's backend, which writes down and wipes; and what a test asks of the memory afterwards. */
#include "fakes/guest.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagehint/backend.h>
#include <pagehint/gate.h>

#include "discard/result.h"

/* ---- the backend ---- */

static void look_at(struct guest *g, const struct pagehint_run *run)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	unsigned shift = g->how.frame_shift - 12;
	int there = pagehint_map_lookup(g->map, run->frame, &info) == 0;
	if (!there || run->frame + run->frames > info.frame + info.frames || info.pins != 0)
		g->wrong++;
	assert_true(g->n_runs < GUEST_RUNS);
	g->runs[g->n_runs++] = *run;
	if (there && !g->keeps)
		memset(guest_at(g, run->frame << shift), 0, (run->frames << shift) * 4096);
}

static void answer(const struct guest *g, const struct pagehint_run *run, struct pagehint_outcome *outcome)
{
	uint64_t bytes = run->frames << g->how.frame_shift;
	if (g->keeps)
		ph_outcome_kept(outcome, bytes, PAGEHINT_WHY_CANNOT);
	else
		ph_outcome_freed(outcome, bytes);
}

static int fails(struct guest *g)
{
	g->calls++;
	if (g->inside != NULL)
		g->inside(g);
	return g->fail_at != 0 && g->calls == g->fail_at;
}

static int fake_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct guest *g = ctx;
	(void)flags;
	*ret_done = 0;
	if (fails(g))
		return g->fail_with;
	for (uint32_t i = 0; i < n; i++) {
		look_at(g, &runs[i]);
		answer(g, &runs[i], &outcomes[i]);
	}
	*ret_done = n;
	return 0;
}

static int fake_submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	struct guest *g = ctx;
	(void)flags;
	if (fails(g))
		return g->fail_with;
	if (g->n_batches >= (g->room == 0 ? 64 : g->room))
		return -EAGAIN;
	g->batch[g->n_batches++] = (struct guest_batch) { .cookie = cookie, .n = n, .from = g->n_runs };
	for (uint32_t i = 0; i < n; i++)
		look_at(g, &runs[i]);
	return 0;
}

static int fake_reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n)
{
	struct guest *g = ctx;
	if (g->answers == 0 || g->n_batches == 0)
		return -EAGAIN;
	uint32_t at = g->newest ? g->n_batches - 1 : 0;
	struct guest_batch batch = g->batch[at];
	assert_true(max >= batch.n);
	for (uint32_t i = 0; i < batch.n; i++)
		answer(g, &g->runs[batch.from + i], &outcomes[i]);
	memmove(g->batch + at, g->batch + at + 1, (g->n_batches - at - 1) * sizeof(batch));
	g->n_batches--;
	g->answers--;
	*ret_cookie = batch.cookie;
	*ret_n = batch.n;
	return 0;
}

static int fake_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	struct guest *g = ctx;
	*ret_done = 0;
	if (fails(g))
		return g->fail_with;
	for (uint32_t i = 0; i < n; i++)
		g->populated[g->n_populated++] = runs[i];
	*ret_done = n;
	return 0;
}

static int fake_extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least)
{
	struct guest *g = ctx;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	int r = pagehint_map_lookup(g->map, frame, &info);
	if (r == 0) {
		*ret_frames = info.frame + info.frames - frame;
		*ret_least = info.least_bytes;
	}
	return r;
}

void guest_answer(struct guest *g, uint32_t batches)
{
	g->answers += batches;
}

struct pagehint_backend *guest_make_backend(struct guest *g)
{
	struct pagehint_backend_ops ops = { .struct_size = sizeof(ops),
					    .name = "guest's",
					    .max_runs = g->how.max_runs };
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .frame_shift = g->how.frame_shift };
	struct pagehint_backend *backend = NULL;
	ops.caps = (g->how.async ? PAGEHINT_BACKEND_ASYNC : 0) | (g->how.reads_zero ? PAGEHINT_BACKEND_READS_ZERO : 0);
	ops.discard = fake_discard;
	ops.submit = g->how.async ? fake_submit : NULL;
	ops.reap = g->how.async ? fake_reap : NULL;
	ops.populate = fake_populate;
	ops.extent = g->how.no_extent ? NULL : fake_extent;
	opts.gate = g->how.backend_gate ? g->gate : NULL;
	assert_int_equal(pagehint_backend_new(&ops, g, &opts, &backend), 0);
	return backend;
}

static unsigned char pattern(uint64_t page)
{
	return (unsigned char)(1 + (page * 7 + page / 255) % 255); /* never 0 */
}

/* ---- judging ---- */

void guest_give(struct guest *g, uint64_t page, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		if (page + i >= GUEST_PAGE && page + i < GUEST_PAGE + GUEST_ALL)
			g->given[page + i - GUEST_PAGE] = 1;
}

void guest_refill(struct guest *g)
{
	for (uint64_t p = GUEST_RINGS; p < GUEST_ALL && !g->how.bare; p++)
		if (!g->filled || g->given[p])
			memset(g->memory + p * 4096, pattern(p), 4096);
	memset(g->given, 0, sizeof(g->given));
	g->filled = 1;
	g->n_runs = 0;
	g->n_populated = 0;
	g->n_hinted = 0;
}

static int all_are(const unsigned char *page, unsigned char value)
{
	return page[0] == value && memcmp(page, page + 1, 4095) == 0;
}

int guest_is_wiped(struct guest *g, uint64_t page)
{
	return all_are(guest_at(g, page), 0);
}

void guest_check(struct guest *g)
{
	assert_int_equal(g->wrong, 0);
	assert_int_equal(g->how.bare, 0);
	for (uint64_t p = GUEST_RINGS; p < GUEST_ALL; p++) {
		const unsigned char *page = g->memory + p * 4096;
		if (all_are(page, pattern(p)) || (g->given[p] && all_are(page, 0)))
			continue;
		fail_msg("page 0x%llx is not what it should be", (unsigned long long)(p + GUEST_PAGE));
	}
}

void guest_expect(struct guest *g, const struct pagehint_run *runs, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < g->n_runs; i++) {
		assert_int_equal(g->runs[i].frame, runs[i].frame);
		assert_int_equal(g->runs[i].frames, runs[i].frames);
	}
	assert_int_equal(g->n_runs, n);
}

struct pagehint_device_stats guest_stats(struct guest *g)
{
	struct pagehint_device_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_device_stats(g->device, &stats), 0);
	assert_true(stats.asked ==
		    stats.freed + stats.absent + stats.accepted + stats.kept + stats.lazy + stats.failed);
	return stats;
}

uint64_t guest_dropped(struct guest *g, uint32_t drop)
{
	return guest_stats(g).dropped[drop];
}
