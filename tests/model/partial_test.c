/*
 * The table of partly inflated host pages against a byte a page: pages of 8 KiB to 1 GiB, several regions, in any order, with
 * voids; and with too little room, where it may forget, and never claim.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/chance.h"
#include "support/rounds.h"
#include "virtio/partial.h"

#define SPACE (UINT64_C(1) << 13) /* pages a region; the largest page below is as large */
#define REGIONS 3u

static struct {
	uint64_t seed;
	unsigned round;
	struct ph_partial table;
	unsigned char in[REGIONS][SPACE];
	uint64_t whole[2]; /* pages that became whole: of one block, and larger [times] */
} m;

static void open_table(uint32_t blocks)
{
	void *memory = calloc(1, ph_partial_bytes(blocks));
	assert_non_null(memory);
	ph_partial_init(&m.table, memory, blocks);
	memset(m.in, 0, sizeof(m.in));
}

static void start_round(unsigned long round)
{
	state = m.seed = UINT64_C(0x9e3779b97f4a7c15) * (round + 1);
	m.round = (unsigned)round;
}

static uint64_t remembered(void)
{
	uint64_t n = 0;
	for (uint32_t r = 0; r < REGIONS; r++)
		for (uint64_t i = 0; i < SPACE; i++)
			n += m.in[r][i];
	return n;
}

static int all_in(uint32_t region, uint64_t first, uint64_t pages)
{
	return m.in[region][first] && memcmp(m.in[region] + first, m.in[region] + first + 1, pages - 1) == 0;
}

/* `exact`: the table never forgets. For pages above 2 MiB a void takes one block, below the whole page. */
static void one_step(const unsigned *shift, int exact)
{
	uint32_t region = (uint32_t)rnd(REGIONS);
	uint64_t pages = UINT64_C(1) << shift[region], first = rnd(SPACE / pages) * pages, at = rnd(pages);
	struct ph_partial_page page = { region + 7, first, pages, 0 };
	if (rnd(20) == 0) {
		uint64_t from = pages > PH_PARTIAL_BLOCK ? (first + at) & ~UINT64_C(511) : first;
		ph_partial_void(&m.table, &page, at);
		memset(m.in[region] + from, 0, pages > PH_PARTIAL_BLOCK ? PH_PARTIAL_BLOCK : pages);
		return;
	}
	if (rnd(40) == 0) {
		ph_partial_forget(&m.table, &page);
		memset(m.in[region] + first, 0, pages);
		return;
	}
	if (rnd(8) == 0)
		at &= ~UINT64_C(511); /* whole blocks come together, or large pages would never be whole */
	uint64_t most = pages - at, n = rnd(8) == 0 ? most : 1 + rnd(rnd(4) == 0 ? most : (most < 8 ? most : 8));
	memset(m.in[region] + first + at, 1, n);
	int whole = all_in(region, first, pages);
	int said = ph_partial_add(&m.table, &page, at, n);
	REQUIRE(!said || whole); /* never a page of which a part is missing */
	REQUIRE(!exact || said == whole);
	if (said)
		memset(m.in[region] + first, 0, pages);
	m.whole[pages > PH_PARTIAL_BLOCK] += said;
}

static void small_pages_are_exact(void **unused)
{
	(void)unused;
	const unsigned shifts[4][REGIONS] = { { 1, 2, 3 }, { 4, 4, 2 }, { 9, 8, 4 }, { 5, 9, 1 } };
	for (unsigned long round = 0; round < rounds_scaled(40); round++) {
		start_round(round);
		open_table(64);
		for (unsigned i = 0; i < 4000; i++) {
			one_step(shifts[round % 4], 1);
			if (i % 256 == 0)
				REQUIRE(m.table.pages == remembered());
		}
		REQUIRE(m.table.forgotten == 0);
		free(m.table.place);
	}
}

static void large_pages_are_exact_in_two_levels(void **unused)
{
	(void)unused;
	const unsigned shifts[REGIONS] = { 10, 11, 13 };
	m.whole[1] = 0;
	for (unsigned long round = 0; round < rounds_scaled(20); round++) {
		start_round(round);
		open_table(128);
		for (unsigned i = 0; i < 4000; i++)
			one_step(shifts, 1);
		REQUIRE(m.table.forgotten == 0);
		free(m.table.place);
	}
	assert_true(m.whole[1] != 0);
}

static void without_room_it_forgets_and_never_claims(void **unused)
{
	(void)unused;
	const unsigned shifts[2][REGIONS] = { { 2, 9, 5 }, { 10, 13, 4 } };
	for (unsigned long round = 0; round < rounds_scaled(40); round++) {
		start_round(round);
		open_table(1 + (uint32_t)(round % 5));
		for (unsigned i = 0; i < 3000; i++) {
			one_step(shifts[round % 2], 0);
			REQUIRE(m.table.n <= m.table.max);
			REQUIRE(m.table.pages <= (uint64_t)m.table.n * PH_PARTIAL_BLOCK * PH_PARTIAL_BLOCK);
		}
		REQUIRE(m.table.forgotten != 0);
		ph_partial_clear(&m.table);
		REQUIRE(m.table.pages == 0 && m.table.n == 0);
		free(m.table.place);
	}
}

static void a_gibibyte_goes_with_its_last_page(void **unused)
{
	(void)unused;
	struct ph_partial_page page = { 1, PH_PARTIAL_PAGE_MAX, PH_PARTIAL_PAGE_MAX, 0 };
	open_table(1024);
	for (uint64_t at = 0; at < page.pages; at += 256) {
		if (at == 256 * 77)
			continue;
		assert_int_equal(ph_partial_add(&m.table, &page, at, 256), 0);
	}
	assert_int_equal(m.table.pages, page.pages - 256);
	assert_int_equal(ph_partial_add(&m.table, &page, 256 * 77, 255), 0);
	assert_int_equal(ph_partial_add(&m.table, &page, 256 * 77 + 255, 1), 1);
	assert_int_equal(m.table.n, 0);
	assert_int_equal(m.table.pages, 0);
	ph_partial_forget(&m.table, &page);
	free(m.table.place);
}

/* what is walked and put into an empty table is the same table */
static void walking_finds_everything_once(void **unused)
{
	(void)unused;
	const unsigned shifts[REGIONS] = { 2, 9, 11 };
	struct ph_partial copy;
	for (unsigned long round = 0; round < rounds_scaled(50); round++) {
		const struct ph_partial_block *block;
		uint32_t next = 0;
		start_round(round);
		open_table(128);
		for (unsigned i = 0; i < 500; i++)
			one_step(shifts, 1);
		void *memory = calloc(1, ph_partial_bytes(128));
		assert_non_null(memory);
		ph_partial_init(&copy, memory, 128);
		while ((block = ph_partial_next(&m.table, next, &next)) != NULL) {
			REQUIRE(ph_partial_is_sane(block));
			REQUIRE(ph_partial_put(&copy, block) == 0);
			REQUIRE(ph_partial_put(&copy, block) == -EINVAL);
		}
		REQUIRE(copy.n == m.table.n && copy.pages == m.table.pages);
		free(copy.place);
		free(m.table.place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_pages_are_exact),
		cmocka_unit_test(large_pages_are_exact_in_two_levels),
		cmocka_unit_test(without_room_it_forgets_and_never_claims),
		cmocka_unit_test(a_gibibyte_goes_with_its_last_page),
		cmocka_unit_test(walking_finds_everything_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
