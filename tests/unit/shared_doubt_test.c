/*
 * A block that a dead host may have held, or not: the next host settles it as soon as any of its frames shows, free or out, on
 * whatever level of the tree; what shows beside the block says nothing about it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc/evict.h"
#include "alloc/level.h"
#include "alloc/track.h"
#include "support/shared_zone.h"

#define BLOCK UINT64_C(4096) /* frames [BLOCK, 2 * BLOCK) are in doubt: a bit of level 2 */

/* Shows a bit of a level as free or as out, from behind: whoever did it did nothing else. */
static void show(struct pagehint_zone *z, uint32_t level, uint64_t frame, int out)
{
	uint64_t index = frame >> (6 * level);
	ph_word *word;
	if (out)
		word = level == 0 ? ph_track_word0(z, 0, (uint32_t)(index / 64))
				  : ph_track_word(z, 0, level, (uint32_t)(index / 64));
	else
		word = ph_zone_level_word(z, 0, level, (uint32_t)(index / 64));
	atomic_fetch_or(word, UINT64_C(1) << (index % 64));
}

/* What is still in doubt for a new host when one bit shows [frames]. level -1: nothing does */
static uint64_t doubtful(int level, uint64_t frame, int out)
{
	struct shared_zone s;
	struct shared_sink sink = { .frames = SHARED_SECTION };
	struct pagehint_zone *host;
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *r;
	struct pagehint_reclaimer_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(shared_zone_make(&s, 1, 0, 9), 0);
	assert_int_equal(pagehint_zone_attach(s.fd, 0, &s.opts, 0, &host), 0);
	assert_int_equal(shared_backend(&sink, &backend), 0);
	/* all is out of sight, and nobody has it */
	assert_int_equal(ph_level_claim(s.zone, 0, 2, 0, UINT64_MAX), 1);
	if (level >= 0)
		show(s.zone, (uint32_t)level, frame, out);
	atomic_store(&host->host_doubt[1], 2);
	atomic_store(&host->host_doubt[0], ph_where(0, PH_WHERE_MASK, 2, 0));
	assert_int_equal(pagehint_reclaimer_new(host, backend, NULL, &r), 0);
	assert_int_equal(pagehint_reclaimer_stats(r, &stats), 0);
	pagehint_reclaimer_free(r);
	assert_int_equal(pagehint_backend_free(backend), 0);
	pagehint_zone_detach(host);
	shared_zone_close(&s);
	return stats.doubtful >> 12;
}

static void nothing_shows(void **state)
{
	(void)state;
	assert_int_equal(doubtful(-1, 0, 0), BLOCK);
}

static void any_frame_that_shows_settles_it(void **state)
{
	(void)state;
	const uint64_t frames[] = { BLOCK, BLOCK + 1, BLOCK + 63, BLOCK + 64, BLOCK + 2112, 2 * BLOCK - 1 };
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
		for (int level = 0; level < 4; level++)
			for (int out = level == 3; out < 2; out++) /* a whole section is free in a word of its own */
				assert_int_equal(doubtful(level, frames[i], out), 0);
}

static void what_shows_beside_it_does_not(void **state)
{
	(void)state;
	const uint64_t frames[] = { 0, BLOCK - 1, 2 * BLOCK, SHARED_SECTION - 1 };
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
		for (int level = 0; level < 3; level++)
			for (int out = 0; out < 2; out++)
				assert_int_equal(doubtful(level, frames[i], out), BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_shows),
		cmocka_unit_test(any_frame_that_shows_settles_it),
		cmocka_unit_test(what_shows_beside_it_does_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
