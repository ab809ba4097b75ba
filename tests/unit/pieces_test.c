/* Ranges in any order become maximal, disjoint pieces of one region: against a byte a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/chance.h"
#include "support/rounds.h"
#include "virtio/pieces.h"

#define PAGES 256u
#define REGION(page) ((page) / 100 + 1) /* regions touch at 100 and 200 */

static struct {
	uint64_t seed;
	unsigned round;
} m;

static void check(const struct ph_pieces *p, const unsigned char *times, uint64_t twice)
{
	unsigned char seen[PAGES] = { 0 };
	uint64_t expected_twice = 0, pages = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct ph_piece *piece = &p->piece[i];
		REQUIRE(piece->pages != 0 && piece->page + piece->pages <= PAGES);
		REQUIRE(REGION(piece->page) == piece->region &&
			REGION(piece->page + piece->pages - 1) == piece->region);
		if (i > 0) {
			uint64_t end = p->piece[i - 1].page + p->piece[i - 1].pages;
			REQUIRE(end < piece->page || (end == piece->page && p->piece[i - 1].region != piece->region));
		}
		memset(seen + piece->page, 1, piece->pages);
		pages += piece->pages;
	}
	for (uint32_t i = 0; i < PAGES; i++) {
		REQUIRE(seen[i] == (times[i] != 0));
		expected_twice += times[i] > 1 ? times[i] - 1u : 0;
	}
	REQUIRE(twice == expected_twice);
	REQUIRE(p->pages == pages);
}

static void pieces_are_maximal_and_disjoint(void **unused)
{
	(void)unused;
	struct ph_piece room[64];
	struct ph_pieces p = { .piece = room, .max = 64 };
	unsigned long rounds = rounds_scaled(20000);
	for (unsigned long round = 0; round < rounds; round++) {
		unsigned char times[PAGES] = { 0 };
		uint64_t at = 0;
		state = m.seed = UINT64_C(0x9e3779b97f4a7c15) + round;
		m.round = (unsigned)round;
		ph_pieces_clear(&p);
		for (uint64_t n = 1 + rnd(64), walk = rnd(4); n > 0 && !ph_pieces_full(&p); n--) {
			/* at random, or on from the last one, upwards or downwards */
			uint64_t pages = 1 + rnd(4);
			at = walk == 1 ? at : walk == 2 && at >= 2 * pages ? at - 2 * pages : rnd(PAGES - 8);
			if (at + pages > PAGES || REGION(at) != REGION(at + pages - 1))
				continue;
			ph_pieces_add(&p, at, pages, REGION(at));
			for (uint64_t i = 0; i < pages; i++)
				times[at + i]++;
			at += pages;
		}
		check(&p, times, ph_pieces_settle(&p));
	}
}

static void what_continues_takes_no_room(void **unused)
{
	(void)unused;
	struct ph_piece room[2];
	struct ph_pieces p = { .piece = room, .max = 2 };
	for (uint64_t i = 0; i < 1000; i++)
		ph_pieces_add(&p, 5000 + i, 1, 1);
	for (uint64_t i = 0; i < 1000; i++)
		ph_pieces_add(&p, 4999 - i, 1, 1);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.pages, 2000);
	assert_int_equal(ph_pieces_settle(&p), 0);
	assert_int_equal(room[0].page, 4000);
	assert_int_equal(room[0].pages, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_maximal_and_disjoint),
		cmocka_unit_test(what_continues_takes_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
