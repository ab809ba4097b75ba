/* The demo's instruments, each against what the host or a hand count says: a witness must be trustworthy first. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include <pagehint/outcome.h>
#include <pagehint/run.h>

#include "backing.h"
#include "content.h"
#include "host.h"
#include "hugepool.h"
#include "naive.h"
#include "oracle.h"
#include "pattern.h"
#include "tally.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define GRANULE 512u /* frames */

static int open_or_say(struct backing *backing, uint32_t kind, uint64_t bytes)
{
	struct why why = { "" };
	int rc = kind == BACKING_HUGETLB ? hugepool_reserve(bytes / GRANULE_BYTES, &why) : 0;

	rc = rc ? rc : backing_open(backing, kind, bytes, &why);
	if (rc)
		printf("not applicable: %s\n", why.text);
	return rc;
}

static uint64_t host(const struct backing *backing)
{
	uint64_t bytes = UINT64_MAX;

	assert_int_equal(host_bytes(backing, &bytes), 0);
	return bytes;
}

static void touch(const struct backing *backing, uint64_t frame, uint64_t frames)
{
	for (uint64_t at = frame; at < frame + frames; at++)
		page_touch(backing->base + (at << PAGE_SHIFT));
}

static const struct pagehint_outcome all_freed = { .asked = 1, .freed = 1 };

static void patterns_tell_pages_apart(void **state)
{
	unsigned char page[PAGE_BYTES] __attribute__((aligned(8))) = { 0 };
	uint64_t seed = pattern_seed(7, 3, 1);

	(void)state;
	assert_true(page_is_zero(page));
	page[PAGE_BYTES - 1] = 1;
	assert_false(page_is_zero(page));
	pattern_write(page, seed);
	assert_true(pattern_is(page, seed));
	assert_false(pattern_is(page, pattern_seed(8, 3, 1)));
	assert_false(pattern_is(page, pattern_seed(7, 4, 1)));
	assert_false(pattern_is(page, pattern_seed(7, 3, 2)));
	page[PAGE_BYTES - 1] ^= 1;
	assert_false(pattern_is(page, seed));
	memset(page, 0, PAGE_BYTES / 2);
	assert_false(pattern_is(page, seed));
	assert_false(page_is_zero(page));
}

/* The host's figure follows what is touched, page by page or huge page by huge page, and falls to 0 on reset. */
static void the_host_counts_every_backing(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		struct backing backing;
		uint64_t unit;

		if (open_or_say(&backing, kind, MIB(8)))
			continue;
		unit = backing.unit_bytes;
		assert_int_equal(host(&backing), 0);
		touch(&backing, 0, 1);
		assert_int_equal(host(&backing), unit);
		touch(&backing, GRANULE + 1, 3);
		assert_int_equal(host(&backing), unit == 4096 ? 4 * unit : 2 * unit);
		for (uint64_t frame = 0; frame < GRANULE; frame++) {
			uint64_t seed = backing_fresh_seed(&backing, frame);
			void *page = backing.base + (frame << PAGE_SHIFT);

			assert_true(seed ? pattern_is(page, seed) : page_is_zero(page));
		}
		assert_int_equal(backing_reset(&backing), 0);
		assert_int_equal(host(&backing), 0);
		backing_close(&backing);
		hugepool_release();
	}
}

static void content_finds_a_lost_page(void **state)
{
	struct pagehint_run run = { 4, 4 };
	struct content content;
	struct backing backing;

	(void)state;
	if (open_or_say(&backing, BACKING_ANON, MIB(2)))
		fail();
	assert_int_equal(content_open(&content, &backing), 0);
	content_alloc(&content, 0, 3, 0);
	content_check(&content, 0, 8);
	assert_int_equal(content.corrupt, 0);
	assert_int_equal(content.live, 8);
	/* somebody gives back what is in use */
	assert_int_equal(madvise(backing.base + 4 * PAGE_BYTES, 4 * PAGE_BYTES, MADV_DONTNEED), 0);
	content_discard(&content, &run, &all_freed);
	content_check(&content, 0, 8);
	assert_int_equal(content.corrupt, 4);
	assert_int_equal(content.first_corrupt, 4);
	content_close(&content);
	backing_close(&backing);
}

static void content_knows_what_a_page_reads_next(void **state)
{
	static const struct pagehint_outcome some_kept = { .asked = 8, .freed = 4, .kept = 4 };
	struct pagehint_run run = { 0, 4 };
	struct content content;
	struct backing backing;

	(void)state;
	if (open_or_say(&backing, BACKING_ANON, MIB(2)))
		fail();
	assert_int_equal(content_open(&content, &backing), 0);
	content_alloc(&content, 0, 2, 0);
	content_free(&content, 0, 2);
	content_alloc(&content, 0, 2, 1); /* reads the old pattern, rightly */
	content_free(&content, 0, 2);
	assert_int_equal(content.corrupt, 0);
	assert_true(content_is_written(&content, 0));
	content_discard(&content, &run, &all_freed);
	assert_false(content_is_written(&content, 0));
	content_alloc(&content, 0, 2, 2); /* reads the old pattern although it was given back */
	assert_int_equal(content.corrupt, 4);
	content_free(&content, 0, 2);
	content_discard(&content, &run, &some_kept);
	assert_int_equal(madvise(backing.base, 2 * PAGE_BYTES, MADV_DONTNEED), 0);
	content_alloc(&content, 0, 2, 3); /* zero or old, both right */
	assert_int_equal(content.corrupt, 4);
	content_free(&content, 0, 2);
	assert_int_equal(madvise(backing.base, 2 * PAGE_BYTES, MADV_DONTNEED), 0);
	content_alloc(&content, 0, 2, 4); /* nobody said that it was given back */
	assert_int_equal(content.corrupt, 6);
	assert_int_equal(content.live, 4);
	content_close(&content);
	backing_close(&backing);
}

static void tally_counts_what_was_for_nothing(void **state)
{
	struct pagehint_run two = { 0, 2 * GRANULE };
	struct pagehint_run part = { 16, 16 };
	struct tally tally;

	(void)state;
	assert_int_equal(tally_open(&tally, 4 * GRANULE), 0);
	tally_discard(&tally, &two);
	assert_int_equal(tally.rereported, 0);
	assert_int_equal(tally.resent_untouched, 0);
	tally_alloc(&tally, 5, 0);
	assert_int_equal(tally.refault, PAGE_BYTES);
	tally_alloc(&tally, 5, 0);
	assert_int_equal(tally.refault, PAGE_BYTES);
	tally_discard(&tally, &two); /* one granule for nothing; of the other, all but one frame */
	assert_int_equal(tally.rereported, GRANULE * PAGE_BYTES);
	assert_int_equal(tally.resent_untouched, (2 * GRANULE - 1) * PAGE_BYTES);
	tally_discard(&tally, &part);
	assert_int_equal(tally.rereported, (GRANULE + 16) * PAGE_BYTES);
	tally_close(&tally);
}

static void oracle_returns_after_one_interval(void **state)
{
	struct oracle oracle;

	(void)state;
	assert_int_equal(oracle_open(&oracle, 4 * GRANULE, 4096, 100), 0);
	oracle_alloc(&oracle, 0, 0, 0);
	oracle_alloc(&oracle, 0, 1, 0);
	oracle_alloc(&oracle, 0, GRANULE, 1);
	assert_int_equal(oracle.resident_bytes, 4 * PAGE_BYTES);
	oracle_free(&oracle, 10, 0, 0);
	oracle_advance(&oracle, 500);
	assert_int_equal(oracle.resident_bytes, 4 * PAGE_BYTES); /* frame 1 keeps its granule */
	oracle_free(&oracle, 500, 1, 0);
	oracle_advance(&oracle, 599);
	assert_int_equal(oracle.resident_bytes, 4 * PAGE_BYTES);
	oracle_advance(&oracle, 600);
	assert_int_equal(oracle.resident_bytes, 2 * PAGE_BYTES);
	assert_int_equal(oracle.never_bytes, 4 * PAGE_BYTES);
	oracle_alloc(&oracle, 650, 1, 0);
	assert_int_equal(oracle.resident_bytes, 3 * PAGE_BYTES);
	assert_int_equal(oracle.never_bytes, 4 * PAGE_BYTES);
	/* a granule that is used again within the interval waits anew */
	oracle_free(&oracle, 700, GRANULE, 1);
	oracle_alloc(&oracle, 790, GRANULE, 0);
	oracle_free(&oracle, 791, GRANULE, 0);
	oracle_advance(&oracle, 890);
	assert_int_equal(oracle.resident_bytes, 3 * PAGE_BYTES);
	oracle_advance(&oracle, 891);
	assert_int_equal(oracle.resident_bytes, PAGE_BYTES);
	/* returned in time even when nobody looked before the next use */
	oracle_free(&oracle, 900, 1, 0);
	oracle_alloc(&oracle, 1000, 7, 0);
	assert_int_equal(oracle.resident_bytes, PAGE_BYTES);
	oracle_close(&oracle);
}

static void oracle_counts_huge_pages_whole(void **state)
{
	struct oracle oracle;

	(void)state;
	assert_int_equal(oracle_open(&oracle, 4 * GRANULE, MIB(2), 100), 0);
	oracle_alloc(&oracle, 0, 3, 0);
	oracle_alloc(&oracle, 0, 4, 0);
	assert_int_equal(oracle.resident_bytes, MIB(2));
	oracle_free(&oracle, 0, 3, 0);
	oracle_free(&oracle, 0, 4, 0);
	oracle_advance(&oracle, 100);
	assert_int_equal(oracle.resident_bytes, 0);
	assert_int_equal(oracle.never_bytes, MIB(2));
	oracle_close(&oracle);
}

/* Writes the first half of each granule, and has both runs given back twice (two rounds). */
static void record_two_runs(struct naive *naive, struct content *content)
{
	struct pagehint_run runs[2] = { { 0, 2 * GRANULE }, { 3 * GRANULE, GRANULE } };

	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t granule = 0; granule < 4; granule++) {
			content_alloc(content, granule * GRANULE, 8, 0);
			content_free(content, granule * GRANULE, 8);
		}
		for (unsigned i = 0; i < 2; i++) {
			naive_record(naive, content, &runs[i]);
			content_discard(content, &runs[i], &all_freed);
		}
		for (unsigned i = 0; i < 2; i++) /* do what the content was told */
			memset(content->backing->base + (runs[i].frame << PAGE_SHIFT), 0, runs[i].frames << PAGE_SHIFT);
	}
	assert_int_equal(content->corrupt, 0);
}

static void naive_frees_by_kind_of_memory(void **state)
{
	const uint64_t written = 2 * 3 * 256; /* pages: rounds, granules, first half */
	static const struct {
		uint64_t freed_share; /* of 2; what a host does with MADV_DONTNEED on this memory */
		uint64_t wrong_share; /* of 8 */
	} expected[BACKINGS] = {
		[BACKING_ANON] = { 2, 0 },    [BACKING_THP] = { 4, 0 },  [BACKING_MEMFD] = { 0, 8 },
		[BACKING_HUGETLB] = { 0, 8 }, [BACKING_FILE] = { 2, 1 },
	};

	(void)state;
	for (uint32_t kind = 0; kind < BACKINGS; kind++) {
		struct naive naive = { 0 };
		struct naive_result result;
		struct content content;
		struct backing backing;
		struct why why = { "" };

		if (open_or_say(&backing, kind, MIB(8)))
			continue;
		assert_int_equal(content_open(&content, &backing), 0);
		record_two_runs(&naive, &content);
		assert_int_equal(naive.n, 4);
		assert_int_equal(naive_play(&naive, &backing, &result, &why), 0);
		assert_int_equal(result.calls, 6);
		assert_int_equal(result.refused, 0);
		assert_int_equal(result.asked_bytes, 2 * 3 * MIB(2));
		assert_int_equal(result.host_freed_bytes, written * PAGE_BYTES * expected[kind].freed_share / 2);
		assert_int_equal(result.wrong_pages, written * expected[kind].wrong_share / 8);
		assert_int_equal(host(&backing), 0);
		content_close(&content);
		naive_close(&naive);
		backing_close(&backing);
		hugepool_release();
	}
}

/* What is borrowed from the machine's pool goes back, to the page. */
static void huge_pages_are_borrowed(void **state)
{
	struct backing backing;
	struct why why = { "" };
	uint64_t used = 0;
	uint64_t again = 0;

	(void)state;
	if (open_or_say(&backing, BACKING_HUGETLB, MIB(8)))
		return;
	assert_int_equal(hugepool_used(&used), 0);
	touch(&backing, 0, 1);
	assert_int_equal(hugepool_used(&again), 0);
	assert_int_equal(again, used + 1);
	backing_close(&backing);
	hugepool_release();
	assert_int_equal(hugepool_used(&again), 0);
	assert_int_equal(again, used);
	assert_int_equal(hugepool_check(UINT32_MAX, &used, &why), -ENODEV);
	assert_non_null(strstr(why.text, "--reserve-hugetlb"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_tell_pages_apart),
		cmocka_unit_test(the_host_counts_every_backing),
		cmocka_unit_test(content_finds_a_lost_page),
		cmocka_unit_test(content_knows_what_a_page_reads_next),
		cmocka_unit_test(tally_counts_what_was_for_nothing),
		cmocka_unit_test(oracle_returns_after_one_interval),
		cmocka_unit_test(oracle_counts_huge_pages_whole),
		cmocka_unit_test(naive_frees_by_kind_of_memory),
		cmocka_unit_test(huge_pages_are_borrowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
