/*
 * A guest that writes anything into the shared state while the host reclaims: the host stays in bounds (sanitizers), discards
 * only frames of the guest's own regions, comes back from every call, and its books are right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>

#include "alloc/evict.h"
#include "alloc/level.h"
#include "support/rounds.h"
#include "support/shared_zone.h"

#define ROUNDS 300u
#define CALLS 12u

struct rig {
	struct shared_zone s;
	struct pagehint_zone *zone;
	struct shared_sink sink;
	struct pagehint_backend *backend;
	unsigned char *state; /* as the guest sees it */
	uint64_t bytes;
};

static void open_rig(struct rig *rig, uint32_t granule_order)
{
	memset(rig, 0, sizeof(*rig));
	assert_int_equal(shared_zone_make(&rig->s, 3, 0, granule_order), 0);
	assert_int_equal(pagehint_zone_size(&rig->s.opts, &rig->bytes), 0);
	rig->state = mmap(NULL, rig->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rig->s.fd, 0);
	assert_true(rig->state != MAP_FAILED);
	assert_int_equal(pagehint_zone_attach(rig->s.fd, 0, &rig->s.opts, 0, &rig->zone), 0);
	rig->sink.frames = 2 * SHARED_SECTION; /* what lies beyond is not the guest's */
	assert_int_equal(shared_backend(&rig->sink, &rig->backend), 0);
}

static void close_rig(struct rig *rig)
{
	assert_int_equal(pagehint_backend_free(rig->backend), 0);
	pagehint_zone_detach(rig->zone);
	munmap(rig->state, rig->bytes);
	shared_zone_close(&rig->s);
}

static uint64_t odd_word(uint64_t *chance)
{
	switch (chance_below(chance, 6)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return UINT64_C(1) << chance_below(chance, 64);
	case 3:
		return chance_below(chance, 8);
	case 4:
		return (chance_below(chance, 6) << 32) | (chance_below(chance, 4) << 28) |
		       (chance_below(chance, 16) << 24) | chance_below(chance, 70);
	default:
		return (chance_below(chance, UINT32_MAX) << 32) | chance_below(chance, UINT32_MAX);
	}
}

/* anywhere, or in the first pages behind the header, where the counts, notes and heads are */
static void scribble(const struct rig *rig, uint64_t *chance, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = chance_below(chance, 3) != 0 ? 65536 + chance_below(chance, 40000)
							   : chance_below(chance, rig->bytes / 8) * 8;
		uint64_t word = odd_word(chance);
		__atomic_store_n((uint64_t *)(void *)(rig->state + at / 8 * 8), word, __ATOMIC_RELAXED);
	}
}

static void look_at_books(const struct rig *rig, struct pagehint_reclaimer *r, uint64_t held)
{
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
	assert_int_equal(s.held, held);
	assert_true(s.held <= 3 * (SHARED_SECTION << 12));
	assert_int_equal(s.discarded, rig->sink.asked << 12);
}

/* One life of a host; the state is what it is. */
static void host_life(struct rig *rig, uint64_t *chance, int scribbling)
{
	struct pagehint_reclaimer_opts opts = { .struct_size = sizeof(opts),
						.interval_ns = 1,
						.flags = (uint32_t)chance_below(chance, 2) };
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	struct pagehint_reclaimer *r;
	uint64_t got, next, held;
	rig->sink.asked = 0;
	if (pagehint_reclaimer_new(rig->zone, rig->backend, &opts, &r) != 0)
		return; /* eight doubts: it says so */
	assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
	held = s.held;
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t size = chance_below(chance, 1024) * SHARED_MB,
			 granule = UINT64_C(4096) << pagehint_zone_granule_order(rig->zone);
		if (scribbling)
			scribble(rig, chance, 1 + chance_below(chance, 200));
		switch (chance_below(chance, 5)) {
		case 0:
			(void)!pagehint_reclaimer_reclaim(r, size, &got);
			assert_true(got <= size);
			break;
		case 1:
			(void)!pagehint_reclaimer_hold(r, size, &got);
			assert_true(got <= size && got % granule == 0);
			held += got;
			break;
		case 2:
			(void)!pagehint_reclaimer_give_back(r, size, &got);
			assert_true(got <= held);
			held -= got;
			break;
		case 3:
			pagehint_reclaimer_settle(r);
			break;
		default:
			(void)!pagehint_reclaimer_step(r, i + 1, &next);
		}
		look_at_books(rig, r, held);
	}
	pagehint_reclaimer_free(r);
}

static void a_scribbling_guest_harms_itself(void **state)
{
	(void)state;
	static const uint32_t orders[] = { 9, 9, 9, 6, 5, 10, 13, 18 };
	uint64_t chance = 3;
	for (unsigned long i = rounds_scaled(ROUNDS); i != 0; i--) {
		struct rig rig;
		uint64_t frame;
		open_rig(&rig, orders[i % 8]);
		for (uint32_t n = 0; n < 20; n++)
			if (pagehint_zone_alloc(rig.s.zone, (uint32_t)chance_below(&chance, 14), &frame) == 0 && n % 2)
				assert_true(pagehint_zone_free(rig.s.zone, frame, 0) <= 0);
		for (uint32_t life = 0; life < 3; life++)
			host_life(&rig, &chance, 1);
		close_rig(&rig);
	}
}

/* at the same time, from another process, as fast as it can */
static void a_guest_that_never_stops_scribbling(void **state)
{
	(void)state;
	struct rig rig;
	uint64_t chance = 4;
	open_rig(&rig, 9);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		for (uint64_t own = 9;;)
			scribble(&rig, &own, 1000);
	for (unsigned long i = rounds_scaled(ROUNDS); i != 0; i--)
		host_life(&rig, &chance, 0);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close_rig(&rig);
}

/* every claim of a section that is another's, or none of the zone's */
static void sections_that_cannot_be(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reclaimer *r;
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	uint64_t got;
	open_rig(&rig, 9);
	/* numbers of sections 1, 2, 3 stand in the heads: they become 1, 1 and what no zone has */
	uint64_t *word = (uint64_t *)(void *)rig.state, found = 0;
	for (uint64_t i = 65536 / 8; i + 64 < rig.bytes / 8 && found < 3; i++)
		if (word[i] == found + 1 && word[i + 1] == SHARED_SECTION && word[i + 2] == 0)
			word[i] = found++ < 2 ? 1 : UINT64_MAX;
	assert_int_equal(found, 3);
	assert_int_equal(pagehint_reclaimer_new(rig.zone, rig.backend, NULL, &r), 0);
	assert_int_equal(pagehint_reclaimer_hold(r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(got, SHARED_SECTION << 12); /* one of the three */
	assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
	assert_int_equal(s.lies, 2);
	pagehint_reclaimer_free(r);
	close_rig(&rig);
}

/* The host's notes are words of the guest's, too: one of a block that nobody has, in a slot whose section changes under the host. */
static void a_section_changes_while_a_block_is_in_doubt(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reclaimer *r;
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	uint64_t got;
	open_rig(&rig, 9);
	ph_word *number = &ph_zone_head(rig.zone, 0)->number_plus1;
	assert_int_equal(ph_level_claim(rig.s.zone, 0, 2, 0, 1), 1);
	assert_int_equal(ph_level_claim(rig.s.zone, 0, 2, 0, 2), 1);
	atomic_store(&ph_host_held(rig.zone, 0)[0], 0xff); /* the block of 8 granules that the dead host held ... */
	atomic_store(&rig.zone->host_doubt[1], 2);         /* ... and one that it may have held */
	atomic_store(&rig.zone->host_doubt[0], ph_where(0, PH_WHERE_MASK, 2, 0));
	assert_int_equal(pagehint_reclaimer_new(rig.zone, rig.backend, NULL, &r), 0);
	assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
	assert_int_equal(s.held, 8 * 512 * 4096);
	assert_int_equal(s.doubtful, 8 * 512 * 4096);
	atomic_store(number, 3); /* which the host holds nothing of */
	pagehint_reclaimer_settle(r);
	atomic_store(number, 1);
	assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
	assert_int_equal(s.doubtful, 0);
	assert_int_equal(s.held, 8 * 512 * 4096);
	assert_int_equal(s.lies, 1);
	/* section 3 is to be had where it lies, and what was held goes back */
	assert_int_equal(pagehint_reclaimer_hold(r, UINT64_MAX, &got), -ENOSPC);
	assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
	assert_int_equal(s.lies, 1);
	assert_int_equal(s.held, (3 * SHARED_SECTION << 12) - 8 * 512 * 4096);
	assert_int_equal(pagehint_reclaimer_give_back(r, s.held, &got), 0);
	pagehint_reclaimer_free(r);
	close_rig(&rig);
}

/* Notes that name no granule at all are none: nothing waits for them to be settled. */
static void notes_that_cannot_be(void **state)
{
	(void)state;
	static const struct {
		uint64_t where, mask;
	} notes[] = {
		{ UINT64_C(4) << 32 | PH_WHERE_MASK | UINT64_C(1) << 24, PH_FULL },  /* no such slot */
		{ UINT64_C(1) << 32 | PH_WHERE_MASK | UINT64_C(15) << 24, PH_FULL }, /* nor level */
		{ UINT64_C(1) << 32 | PH_WHERE_MASK, PH_FULL },                      /* one below granules */
		{ UINT64_C(1) << 32 | PH_WHERE_MASK | UINT64_C(1) << 24 | 64, PH_FULL },
		{ UINT64_C(1) << 32 | PH_WHERE_MASK | UINT64_C(1) << 24, 0 },
		{ UINT64_C(1) << 32 | PH_WHERE_MASK | UINT64_C(1) << 24, 0x7f }, /* a part of a granule */
	};
	struct rig rig;
	struct pagehint_reclaimer *r;
	struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
	open_rig(&rig, 9);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		atomic_store(&rig.zone->host_mask, notes[i].mask);
		atomic_store(&rig.zone->host_where, notes[i].where);
		atomic_store(&rig.zone->host_doubt[2 * i + 1], notes[i].mask);
		atomic_store(&rig.zone->host_doubt[2 * i], notes[i].where);
		assert_int_equal(pagehint_reclaimer_new(rig.zone, rig.backend, NULL, &r), 0);
		assert_int_equal(pagehint_reclaimer_stats(r, &s), 0);
		assert_int_equal(s.doubtful, 0);
		pagehint_reclaimer_free(r);
		assert_int_equal(pagehint_zone_repair(rig.s.zone, 9, NULL, NULL, NULL), 0);
	}
	close_rig(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scribbling_guest_harms_itself),
		cmocka_unit_test(a_guest_that_never_stops_scribbling),
		cmocka_unit_test(sections_that_cannot_be),
		cmocka_unit_test(a_section_changes_while_a_block_is_in_doubt),
		cmocka_unit_test(notes_that_cannot_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
