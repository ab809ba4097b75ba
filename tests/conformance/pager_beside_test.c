/*
 * The pager's backend where its regions end: what lies beside them goes to the inner backend as it is, what lies inside is
 * marked first, and what the inner backend never saw or would not take is as it was before.
 */
#include "support/snapshot.h"

#include <pagehint/backend.h>
#include <pagehint/pager_backend.h>

#define FIRST 16u /* the pager serves frames [FIRST, END) of the memory */
#define END 32u

enum mood { FREES, KEEPS };

/* An inner backend that writes down what it was asked, frame by frame. */
struct witness {
	struct served *s;
	enum mood mood;
	uint64_t refuses;         /* populate fails at this frame */
	uint32_t flags[PAGES];    /* of the last discard of a frame */
	uint32_t discards[PAGES]; /* [times] */
	uint32_t populates[PAGES];
	void (*within)(void);
};

static struct rig {
	struct served s;
	struct witness w;
	struct pagehint_source *source;
	struct pagehint_backend *inner, *backend;
} rig;

static int witness_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
			   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct witness *w = ctx;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = runs[i].frames * PAGE;
		unsigned char *at = w->s->memory + runs[i].frame * PAGE;
		for (uint64_t f = runs[i].frame; f < runs[i].frame + runs[i].frames; f++) {
			w->discards[f]++;
			w->flags[f] = flags;
		}
		if (w->mood == FREES)
			assert_int_equal(madvise(at, bytes, MADV_DONTNEED), 0);
		outcomes[i].asked = bytes;
		*(w->mood == FREES ? &outcomes[i].freed : &outcomes[i].kept) = bytes;
		outcomes[i].kept_why = w->mood == FREES ? PAGEHINT_WHY_NONE : PAGEHINT_WHY_CANNOT;
	}
	*ret_done = n;
	if (w->within != NULL)
		w->within();
	return 0;
}

static int witness_populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	struct witness *w = ctx;
	for (*ret_done = 0; *ret_done < n; ++*ret_done) {
		const struct pagehint_run *run = &runs[*ret_done];
		if (w->refuses >= run->frame && w->refuses < run->frame + run->frames)
			return -ENOMEM;
		for (uint64_t f = run->frame; f < run->frame + run->frames; f++)
			w->populates[f]++;
	}
	return 0;
}

static void witness_explain(void *ctx, const struct pagehint_sink *sink)
{
	(void)ctx;
	sink->line(sink->ctx, "witness: asked");
}

static int set_up(void **state)
{
	const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops),
						  .name = "witness",
						  .discard = witness_discard,
						  .populate = witness_populate,
						  .explain = witness_explain };
	(void)state;
	memset(&rig, 0, sizeof(rig));
	served_memory(&rig.s, BYTES, PAGEHINT_BACKING_ANON);
	memset(rig.s.memory, 0x5a, FIRST * PAGE);
	memset(rig.s.memory + END * PAGE, 0x5a, (PAGES - END) * PAGE);
	served_pager(&rig.s, NULL);
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &rig.source), 0);
	const struct pagehint_pager_region region = { .struct_size = sizeof(region),
						      .frame = FIRST,
						      .frames = END - FIRST,
						      .host_addr = (uintptr_t)rig.s.memory + FIRST * PAGE,
						      .source = rig.source,
						      .backing = PAGEHINT_BACKING_ANON };
	assert_int_equal(pagehint_pager_add(rig.s.pager, &region), 0);
	rig.w = (struct witness) { .s = &rig.s, .refuses = PAGES };
	assert_int_equal(pagehint_backend_new(&ops, &rig.w, NULL, &rig.inner), 0);
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, rig.inner, NULL, &rig.backend), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(pagehint_backend_free(rig.backend), 0);
	assert_int_equal(pagehint_backend_free(rig.inner), 0);
	close_all(&rig.s, rig.source);
	return 0;
}

static uint32_t what_is(uint64_t page)
{
	struct pagehint_page_run run;
	uint32_t n = 0;
	assert_int_equal(pagehint_pager_export(rig.s.pager, page, &run, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(run.frame, page);
	return run.what;
}

static int is_inside(uint64_t f)
{
	return f >= FIRST && f < END;
}

/* frames [from, to) count once, the others not at all */
static void asked_once(const uint32_t *times, uint64_t from, uint64_t to)
{
	for (uint64_t f = 0; f < PAGES; f++)
		assert_int_equal(times[f], f >= from && f < to);
}

static void test_a_run_over_both_edges(void **state)
{
	(void)state;
	const struct pagehint_run run = { 8, 32 };
	struct pagehint_outcome o, sum;
	assert_int_equal(pagehint_pager_ensure(rig.s.pager, FIRST, END - FIRST, NULL), 0);
	assert_int_equal(pagehint_backend_discard(rig.backend, &run, 1, 0, &o, &sum, NULL), 0);
	assert_int_equal(o.asked, 32 * PAGE);
	assert_int_equal(o.freed, 32 * PAGE);
	assert_int_equal(sum.freed, 32 * PAGE);
	asked_once(rig.w.discards, 8, 40);
	for (uint64_t f = FIRST; f < END; f++)
		assert_int_equal(what_is(f), PAGEHINT_PAGE_REMOVED);
	served_start(&rig.s);
	for (uint64_t f = 0; f < PAGES; f++)
		assert_true(page_is(rig.s.memory, f, f >= 8 && f < 40 ? 0 : UINT64_C(0x5a5a5a5a5a5a5a5a)));
	served_stop(&rig.s);
}

/* Zeroing is asked of the inner backend beside the region; inside the pager does it, for it knows what may be touched. */
static void test_zeroes_beside_and_inside(void **state)
{
	(void)state;
	const struct pagehint_run run = { 8, 32 };
	struct pagehint_outcome o;
	rig.w.mood = KEEPS;
	assert_int_equal(pagehint_pager_ensure(rig.s.pager, FIRST, END - FIRST, NULL), 0);
	assert_int_equal(pagehint_backend_discard(rig.backend, &run, 1, PAGEHINT_DISCARD_ZERO, &o, NULL, NULL), 0);
	assert_int_equal(o.kept, 32 * PAGE);
	asked_once(rig.w.discards, 8, 40);
	for (uint64_t f = 8; f < 40; f++) {
		assert_int_equal(rig.w.flags[f], is_inside(f) ? 0 : PAGEHINT_DISCARD_ZERO);
		assert_true(page_is(rig.s.memory, f, is_inside(f) ? 0 : UINT64_C(0x5a5a5a5a5a5a5a5a)));
	}
}

static void discard_within(void)
{
	const struct pagehint_run run = { 8, 32 };
	struct pagehint_outcome o;
	rig.w.within = NULL;
	assert_int_equal(pagehint_backend_discard(rig.backend, &run, 1, 0, &o, NULL, NULL), -EDEADLK);
	assert_int_equal(o.kept, 32 * PAGE);
	assert_int_equal(o.kept_why, PAGEHINT_WHY_REENTRY);
}

/* The inner backend refuses the call as a whole: every part says so, and no page stays marked. */
static void test_refused_as_a_whole(void **state)
{
	(void)state;
	const struct pagehint_run run = { 50, 1 };
	assert_int_equal(pagehint_pager_ensure(rig.s.pager, FIRST, 8, NULL), 0);
	rig.w.within = discard_within;
	assert_int_equal(pagehint_backend_discard(rig.inner, &run, 1, 0, NULL, NULL, NULL), 0);
	assert_null(rig.w.within);
	asked_once(rig.w.discards, 50, 51);
	for (uint64_t f = FIRST; f < END; f++)
		assert_int_equal(what_is(f), f < FIRST + 8 ? PAGEHINT_PAGE_PRESENT : PAGEHINT_PAGE_ABSENT);
}

/* Inside, the pager brings the pages: whoever populated them from below would wait for the pager. */
static void test_populates_over_both_edges(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 8, 32 }, { 44, 2 } };
	uint32_t done = 0;
	assert_int_equal(pagehint_backend_populate(rig.backend, runs, 2, &done), 0);
	assert_int_equal(done, 2);
	for (uint64_t f = 0; f < PAGES; f++)
		assert_int_equal(rig.w.populates[f], !is_inside(f) && ((f >= 8 && f < 40) || f == 44 || f == 45));
	for (uint64_t f = FIRST; f < END; f++) {
		assert_int_equal(what_is(f), PAGEHINT_PAGE_PRESENT);
		assert_true(page_is(rig.s.memory, f, snapshot_word(f - FIRST)));
	}
	assert_int_equal(served_stats(&rig.s).messages, 0);
}

static void test_populates_as_far_as_it_can(void **state)
{
	(void)state;
	const struct pagehint_run runs[] = { { 0, 2 }, { 20, 2 }, { 36, 8 } };
	uint32_t done = 0;
	rig.w.refuses = 40;
	assert_int_equal(pagehint_backend_populate(rig.backend, runs, 3, &done), -ENOMEM);
	assert_int_equal(done, 2);
	assert_int_equal(what_is(21), PAGEHINT_PAGE_PRESENT);
	assert_int_equal(what_is(22), PAGEHINT_PAGE_ABSENT);
	asked_once(rig.w.populates, 0, 2);
}

static void collect(void *ctx, const char *text)
{
	char *said = ctx;
	strncat(said, text, 2047 - strlen(said));
	strncat(said, "\n", 2047 - strlen(said));
}

static void test_explains_both(void **state)
{
	(void)state;
	char said[2048] = "";
	const struct pagehint_sink sink = { said, collect };
	assert_int_equal(pagehint_pager_ensure(rig.s.pager, FIRST, 4, NULL), 0);
	pagehint_backend_explain(rig.backend, &sink);
	assert_non_null(strstr(said,
			       "pager: frames from 16: 16 pages of 4096 bytes from memory: 12 absent, 0 in flight, "
			       "0 removed, 0 poisoned\n"));
	assert_non_null(strstr(said, "witness: asked\n"));
}

static void test_says_what_it_cannot_stand_on(void **state)
{
	(void)state;
	struct pagehint_backend_opts opts = { .struct_size = sizeof(opts), .frame_shift = 13 };
	struct pagehint_backend *backend = NULL, *larger;
	const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops),
						  .name = "larger",
						  .discard = witness_discard };
	assert_int_equal(pagehint_pager_backend_new(NULL, rig.inner, NULL, &backend), -EINVAL);
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, NULL, NULL, &backend), -EINVAL);
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, rig.inner, NULL, NULL), -EINVAL);
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, rig.inner, &opts, &backend), -EINVAL);
	assert_int_equal(pagehint_backend_new(&ops, &rig.w, &opts, &larger), 0);
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, larger, NULL, &backend), -EINVAL);
	assert_int_equal(pagehint_backend_free(larger), 0);
	opts.frame_shift = 12;
	opts.flags = 1;
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, rig.inner, &opts, &backend), -EINVAL);
	assert_null(backend);
	opts.flags = 0;
	assert_int_equal(pagehint_pager_backend_new(rig.s.pager, rig.inner, &opts, &backend), 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_run_over_both_edges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_zeroes_beside_and_inside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused_as_a_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_populates_over_both_edges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_populates_as_far_as_it_can, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_explains_both, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_says_what_it_cannot_stand_on, set_up, tear_down),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, snapshot_setup, NULL);
}
