/*
 * One of two processes that allocate from a zone is dead: what it left in the middle of each of its steps is written by hand, and
 * a repair says what it found, gives back what is certainly free, and leaves the other process what it had.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/cache.h>

#include "alloc/evict.h"
#include "alloc/lend.h"
#include "alloc/level.h"
#include "alloc/summary.h"
#include "alloc/track.h"
#include "support/shared_zone.h"

#define LIVE 1u
#define DEAD 2u

struct pair {
	struct shared_zone s; /* of the live one */
	struct pagehint_zone *dead_zone;
	struct pagehint_cache *live, *dead;
};

static struct pair make_large(uint64_t sections, uint32_t flags)
{
	struct pair p;
	assert_int_equal(shared_zone_make(&p.s, sections, flags, 0), 0);
	assert_int_equal(pagehint_zone_attach(p.s.fd, 0, &p.s.opts, DEAD, &p.dead_zone), 0);
	assert_int_equal(pagehint_cache_open(p.s.zone, &p.live), 0);
	assert_int_equal(pagehint_cache_open(p.dead_zone, &p.dead), 0);
	return p;
}

static struct pair make(uint32_t flags)
{
	return make_large(1, flags);
}

static void line(void *ctx, const char *text)
{
	(void)ctx;
	print_message("check: %s\n", text);
}

static struct pagehint_zone_stats at_rest(const struct pair *p)
{
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	struct pagehint_sink sink = { NULL, line };
	assert_int_equal(pagehint_zone_check(p->s.zone, &sink), 0);
	assert_int_equal(pagehint_zone_stats(p->s.zone, &s), 0);
	return s;
}

static struct pagehint_repaired repair(struct pair *p)
{
	struct pagehint_repaired found = { .struct_size = sizeof(found) };
	assert_int_equal(pagehint_zone_repair(p->s.zone, DEAD, NULL, NULL, &found), 0);
	assert_int_equal(at_rest(p).caches, 1);
	return found;
}

static void end(struct pair *p)
{
	pagehint_cache_close(p->live);
	struct pagehint_zone_stats s = at_rest(p);
	assert_int_equal(s.free, s.total);
	pagehint_zone_detach(p->dead_zone);
	shared_zone_close(&p->s);
}

static void what_the_dead_had_in_its_cache_is_free(void **state)
{
	(void)state;
	const uint32_t kinds[] = { 0, PAGEHINT_ZONE_STRICT };
	for (unsigned k = 0; k < 2; k++) {
		struct pair p = make(kinds[k]);
		uint64_t mine[3], theirs[3], block, kept;
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(pagehint_cache_alloc(p.live, 0, &mine[i]), 0);
			assert_int_equal(pagehint_cache_alloc(p.dead, 0, &theirs[i]), 0);
		}
		assert_int_equal(pagehint_cache_alloc(p.live, 9, &block), 0);
		assert_int_equal(pagehint_cache_free(p.live, block, 9), 0);
		assert_int_equal(pagehint_cache_alloc(p.dead, 9, &kept), 0);
		assert_int_equal(pagehint_cache_free(p.dead, kept, 9), 0);
		/* freed into its own cache, and one of the live one's, too */
		assert_int_equal(pagehint_cache_free(p.dead, theirs[0], 0), 0);
		assert_int_equal(pagehint_cache_free(p.dead, mine[0], 0), 0);
		uint64_t live_held = pagehint_cache_held(p.live), dead_held = pagehint_cache_held(p.dead);
		struct pagehint_repaired found = repair(&p);
		assert_int_equal(found.cached, dead_held);
		assert_int_equal(found.lost + found.kept + found.freed, 0);
		assert_int_equal(pagehint_cache_held(p.live), live_held);
		struct pagehint_zone_stats s = at_rest(&p);
		assert_int_equal(s.out, 4); /* two of each */
		assert_int_equal(s.free, SHARED_SECTION - 4 - live_held);
		assert_int_equal(pagehint_cache_free(p.live, mine[0], 0), -EALREADY);
		for (unsigned i = 1; i < 3; i++) {
			assert_int_equal(pagehint_cache_free(p.live, mine[i], 0), 0);
			assert_int_equal(pagehint_cache_free(p.live, theirs[i], 0), 0);
		}
		end(&p);
	}
}

/* It took from a word that it remembered, which has less by now than the summary says. */
static void no_summary_keeps_what_the_dead_claimed(void **state)
{
	(void)state;
	struct pair p = make(0);
	uint64_t block[7];
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(pagehint_cache_alloc(p.dead, 3, &block[i]), 0);
	uint32_t word = (uint32_t)block[0] / 64;
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(block[i] / 64, word);
	uint64_t bit = UINT64_C(1) << word % 64;
	assert_int_equal(ph_level_class(atomic_load(ph_zone_level_word(p.s.zone, 0, 0, word))), 3);
	assert_true(atomic_load(&ph_summary_sum0(p.s.zone, 0, 5)[word / 64]) & bit);
	struct pagehint_repaired found = repair(&p);
	assert_int_equal(found.cached + found.lost + found.kept, 0);
	assert_false(atomic_load(&ph_summary_sum0(p.s.zone, 0, 5)[word / 64]) & bit);
	assert_true(atomic_load(&ph_summary_sum0(p.s.zone, 0, 3)[word / 64]) & bit);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(pagehint_zone_free(p.s.zone, block[i], 3), 0);
	end(&p);
}

/* It said the lowest bit of a class, and died before the bits above it: whoever finds that one on goes no further. */
static void a_summary_that_was_half_said_reaches_its_top(void **state)
{
	(void)state;
	struct pair p = make(0);
	uint64_t pages[64];
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(pagehint_zone_alloc(p.s.zone, 0, &pages[i]), 0);
	struct ph_section *head = ph_zone_head(p.s.zone, 0);
	uint32_t word = (uint32_t)pages[0] / 64;
	assert_int_equal(atomic_load(ph_zone_level_word(p.s.zone, 0, 0, word)), 0);
	for (int c = 0; c < (int)PH_CLASSES; c++) {
		atomic_fetch_or(&ph_summary_sum0(p.s.zone, 0, c)[word / 64], UINT64_C(1) << word % 64);
		atomic_fetch_and(&head->top0[c], ~(UINT64_C(1) << word / 64));
		atomic_store(&head->sum1[c], 2);
		atomic_store(&ph_zone_sum(p.s.zone, 0, (uint32_t)c)[0], 0);
		atomic_store(&ph_zone_sum(p.s.zone, 1, (uint32_t)c)[0], 0);
		atomic_store(&ph_zone_up(p.s.zone, 2, (uint32_t)c)[0], 0);
	}
	repair(&p); /* walks the invariants */
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(pagehint_zone_free(p.s.zone, pages[i], 0), 0);
		(void)at_rest(&p); /* the word has another class each time */
	}
	end(&p);
}

/* Died in a refill: the frames are out of the tree, and not yet, or not certainly, in the cache. Each counts once. */
static void what_was_on_its_way_is_lost_and_found(void **state)
{
	(void)state;
	for (unsigned moment = 0; moment < 4; moment++) {
		struct pair p = make(0);
		uint64_t mine;
		assert_int_equal(pagehint_cache_alloc(p.live, 0, &mine), 0);
		uint32_t word = 100, name = ph_zone_word_name(0, word);
		atomic_store(&p.dead->moving, 1);
		assert_int_equal(ph_level_claim(p.dead_zone, 0, 0, word, PH_FULL), 1);
		if (moment > 0) { /* it has its place in the table, and says which frames */
			uint32_t i = (uint32_t)(p.dead - ph_cache_at(p.dead_zone, 0));
			atomic_store(ph_lend_place(p.dead_zone, name), (uint16_t)(i + 1));
			atomic_store(&p.dead->mask[0], PH_FULL);
		}
		if (moment > 1)
			atomic_store(&p.dead->lent, UINT64_C(1) << 32 | name);
		if (moment > 2)
			atomic_fetch_or(ph_track_word0(p.dead_zone, 0, word), PH_FULL);
		struct pagehint_repaired found = repair(&p);
		assert_int_equal(found.cached, moment > 1 ? 64 : 0);
		assert_int_equal(found.lost, moment > 1 ? 0 : 64);
		assert_int_equal(found.kept, 0);
		assert_int_equal(atomic_load(ph_lend_place(p.s.zone, name)), 0);
		assert_int_equal(at_rest(&p).out, 1);
		assert_int_equal(pagehint_cache_free(p.live, mine, 0), 0);
		end(&p);
	}
}

/* Died while it turned the mark of a block into those of its frames: they may be the live one's, so they stay out. */
static void what_may_be_in_live_hands_stays_out(void **state)
{
	(void)state;
	struct pair p = make(0);
	struct pagehint_run run = { 0, 64 };
	uint64_t cached;
	assert_int_equal(pagehint_zone_alloc(p.s.zone, 6, &run.frame), 0);
	assert_int_equal(pagehint_cache_alloc(p.live, 0, &cached), 0);
	uint64_t live_held = pagehint_cache_held(p.live);
	struct ph_place at = ph_place_of(0, (uint32_t)run.frame, 6);
	atomic_fetch_add(&ph_zone_head(p.s.zone, 0)->splits_begun, 1);
	atomic_fetch_and(ph_track_word(p.s.zone, 0, 1, at.word), ~(UINT64_C(1) << at.bit));
	struct pagehint_repaired found = repair(&p);
	assert_int_equal(found.kept, 64);
	assert_int_equal(found.lost, 0);
	assert_int_equal(pagehint_cache_held(p.live), live_held);
	assert_int_equal(at_rest(&p).out, 65);
	assert_int_equal(pagehint_zone_free_runs(p.s.zone, &run, 1, NULL), 0);
	assert_int_equal(pagehint_cache_free(p.live, cached, 0), 0);
	end(&p);
}

static int next_heir(void *ctx, struct pagehint_run *ret_run)
{
	struct pagehint_run **at = ctx;
	if ((*at)->frames == 0)
		return -ENOENT;
	*ret_run = *(*at)++;
	return 0;
}

/* What is marked as out is out, also a section that still stands in the tree as a whole; the others stay whole. */
static void what_is_out_is_not_in_the_tree(void **state)
{
	(void)state;
	struct pair p = make_large(3, 0);
	atomic_fetch_or(ph_track_word(p.s.zone, 1, PH_WHOLE_LEVEL, 0), 1);
	(void)repair(&p);
	assert_int_equal(at_rest(&p).out, SHARED_SECTION);
	assert_int_equal(at_rest(&p).free, 2 * SHARED_SECTION);
	assert_true(ph_zone_is_whole(p.s.zone, 0) && !ph_zone_is_whole(p.s.zone, 1) && ph_zone_is_whole(p.s.zone, 2));
	assert_int_equal(pagehint_zone_free(p.s.zone, SHARED_SECTION, PAGEHINT_ORDER_MAX), 0);
	end(&p);
}

static void heirs_name_what_goes_back(void **state)
{
	(void)state;
	struct pair p = make(0);
	struct pagehint_repaired found = { .struct_size = sizeof(found) };
	uint64_t mine, a, b;
	assert_int_equal(pagehint_cache_alloc(p.live, 0, &mine), 0);
	assert_int_equal(pagehint_zone_alloc(p.dead_zone, 4, &a), 0);
	assert_int_equal(pagehint_zone_alloc(p.dead_zone, 10, &b), 0);
	/* what is named wrongly is refused, and the others go back all the same */
	struct pagehint_run heirs[] = { { a, 16 }, { SHARED_SECTION - 64, 64 }, { b, 1024 }, { 0, 0 } }, *at = heirs;
	assert_int_equal(pagehint_zone_repair(p.s.zone, DEAD, next_heir, &at, &found), -EALREADY);
	assert_int_equal(found.freed, 16 + 1024);
	assert_int_equal(at_rest(&p).out, 1);
	assert_int_equal(pagehint_cache_free(p.live, mine, 0), 0);
	end(&p);
}

static void what_a_repair_refuses(void **state)
{
	(void)state;
	struct pair p = make(0);
	struct pagehint_zone_opts plain = { .struct_size = sizeof(plain) };
	struct pagehint_zone *zone;
	_Atomic uint64_t *pending[] = { &p.s.zone->host_where, &p.s.zone->host_away, &p.s.zone->host_doubt[0],
					&p.s.zone->host_doubt[2 * PH_HOST_DOUBTS - 2] };
	assert_int_equal(pagehint_zone_new(&plain, &zone), 0);
	assert_int_equal(pagehint_zone_repair(zone, DEAD, NULL, NULL, NULL), -EINVAL);
	pagehint_zone_destroy(zone);
	assert_int_equal(pagehint_zone_repair(p.s.zone, 0, NULL, NULL, NULL), -EINVAL);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t was = atomic_exchange(pending[i], 1);
		assert_int_equal(pagehint_zone_repair(p.s.zone, DEAD, NULL, NULL, NULL), -EBUSY);
		atomic_store(pending[i], was);
	}
	assert_int_equal(at_rest(&p).caches, 2);
	repair(&p);
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_dead_had_in_its_cache_is_free),
		cmocka_unit_test(no_summary_keeps_what_the_dead_claimed),
		cmocka_unit_test(a_summary_that_was_half_said_reaches_its_top),
		cmocka_unit_test(what_was_on_its_way_is_lost_and_found),
		cmocka_unit_test(what_may_be_in_live_hands_stays_out),
		cmocka_unit_test(what_is_out_is_not_in_the_tree),
		cmocka_unit_test(heirs_name_what_goes_back),
		cmocka_unit_test(what_a_repair_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
