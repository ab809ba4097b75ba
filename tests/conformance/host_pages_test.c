/*
 * Maps and discards on hosts of pages of 4, 16 and 64 KiB, against an oracle a page: what lies in whole pages of a run is gone,
 * all else is as it was (or zeroes, where they are demanded), and no call is of less than whole pages.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagehint/host.h>

#include "memory/map.h"
#include "support/chance.h"
#include "support/host_pages.h"
#include "support/region.h"
#include "support/rounds.h"

#include <cmocka.h>

#define FRAME 4096u
#define FRAMES 512u
#define FIRST 1024u /* the frame of the region */
#define RUNS 4u
#define USED 0x5a

static struct {
	uint64_t seed;
	unsigned round;
} m;

static struct world {
	struct host_pages host;
	unsigned char *memory;
	int fd;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
} w;

static void set_up(uint64_t page, int shared)
{
	const size_t bytes = FRAMES * FRAME, slack = 65536;
	struct pagehint_region_desc d;
	uint64_t id;
	host_pages_setup(&w.host, page);
	w.fd = shared ? memfd_create("pages", MFD_CLOEXEC) : -1;
	assert_true(!shared || (w.fd >= 0 && ftruncate(w.fd, (off_t)bytes) == 0));
	unsigned char *room = mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(room, MAP_FAILED);
	w.memory = room + (-(uintptr_t)room & (slack - 1));
	assert_ptr_equal(mmap(w.memory, bytes, PROT_READ | PROT_WRITE,
			      MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS), w.fd, 0),
			 w.memory);
	(void)madvise(w.memory, bytes, MADV_NOHUGEPAGE); /* pages are what the host says, not 2 MiB */
	assert_int_equal(ph_map_new_with(NULL, &w.host.sys, &w.map), 0);
	/* a region is of whole pages, and lies on them */
	for (uint64_t at = 1; at < page / FRAME; at++) {
		d = describe(FIRST, w.memory + at * FRAME, bytes - 65536, -1);
		d.fd = w.fd;
		d.fd_offset = w.fd < 0 ? 0 : at * FRAME;
		assert_int_equal(pagehint_map_add(w.map, &d, &id), -EINVAL);
		d = describe(FIRST + at, w.memory, bytes - 65536, w.fd);
		assert_int_equal(pagehint_map_add(w.map, &d, &id), -EINVAL);
		d = describe(FIRST, w.memory, bytes - at * FRAME, w.fd);
		assert_int_equal(pagehint_map_add(w.map, &d, &id), -EINVAL);
	}
	d = describe(FIRST, w.memory, bytes, w.fd);
	assert_int_equal(pagehint_map_add(w.map, &d, &id), 0);
	assert_int_equal(pagehint_madvise_new(w.map, NULL, NULL, &w.backend), 0);
}

static void clean_up(void)
{
	assert_int_equal(pagehint_backend_free(w.backend), 0);
	assert_int_equal(pagehint_map_free(w.map), 0);
	munmap(w.memory, FRAMES * FRAME);
	if (w.fd >= 0)
		close(w.fd);
}

static int holds(uint64_t frame, unsigned char value)
{
	const unsigned char *at = w.memory + frame * FRAME;
	return at[0] == value && memcmp(at, at + 1, FRAME - 1) == 0;
}

/* Runs apart from each other, so that none is joined with the next. Returns how many. */
static uint32_t choose(struct pagehint_run *runs)
{
	uint32_t n = 0;
	for (uint64_t at = rnd(40); n < RUNS && at < FRAMES; n++) {
		uint64_t frames = 1 + rnd(70);
		frames = frames < FRAMES - at ? frames : FRAMES - at;
		runs[n] = (struct pagehint_run) { FIRST + at, frames };
		at += frames + 1 + rnd(60);
	}
	return n;
}

static void play(uint64_t page)
{
	struct pagehint_run runs[RUNS];
	struct pagehint_outcome sum;
	unsigned char whole[FRAMES] = { 0 }, asked[FRAMES] = { 0 };
	const uint64_t frames = page / FRAME;
	const uint32_t n = choose(runs), flags = (uint32_t)rnd(4);
	uint64_t gone = 0;
	memset(w.memory, USED, FRAMES * FRAME);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t from = runs[i].frame - FIRST, end = from + runs[i].frames;
		memset(asked + from, 1, (size_t)runs[i].frames);
		for (uint64_t at = (from + frames - 1) / frames * frames; at + frames <= end; at += frames) {
			memset(whole + at, 1, (size_t)frames);
			gone += page;
		}
	}
	REQUIRE(pagehint_backend_discard(w.backend, runs, n, flags, NULL, &sum, NULL) == 0);
	REQUIRE(w.host.refused == 0);
	REQUIRE(sum.freed + sum.absent + sum.accepted == gone && sum.kept == sum.asked - gone);
	REQUIRE((flags & PAGEHINT_DISCARD_PROBE) == 0 || sum.freed == gone);
	for (uint64_t i = 0; i < FRAMES; i++) {
		int zeroed = whole[i] || (asked[i] && (flags & PAGEHINT_DISCARD_ZERO) != 0);
		REQUIRE(holds(i, zeroed ? 0 : USED));
	}
}

/* What is there is told by whole pages. */
static void look(uint64_t page)
{
	const struct pagehint_run all = { FIRST, FRAMES };
	const struct pagehint_run one = { FIRST + 2 * (page / FRAME), page / FRAME };
	uint64_t bytes = 0;
	memset(w.memory, USED, FRAMES * FRAME);
	assert_int_equal(pagehint_madvise_resident(w.backend, &all, &bytes), 0);
	assert_int_equal(bytes, FRAMES * FRAME);
	assert_int_equal(pagehint_backend_discard(w.backend, &one, 1, 0, NULL, NULL, NULL), 0);
	assert_int_equal(pagehint_madvise_resident(w.backend, &all, &bytes), 0);
	assert_int_equal(bytes, FRAMES * FRAME - page);
	assert_int_equal(pagehint_madvise_resident(w.backend, &one, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(pagehint_backend_populate(w.backend, &one, 1, NULL), 0);
	assert_int_equal(pagehint_madvise_resident(w.backend, &one, &bytes), 0);
	assert_int_equal(bytes, page);
	assert_int_equal(w.host.refused, 0);
}

static void on_pages(uint64_t page)
{
	if (page < (uint64_t)sysconf(_SC_PAGESIZE)) {
		not_applicable("the pages of this host are larger");
		return;
	}
	for (int shared = 0; shared < 2; shared++) {
		set_up(page, shared);
		look(page);
		for (m.round = 0; m.round < rounds_scaled(400); m.round++)
			play(page);
		assert_true(w.host.let > 0);
		clean_up();
	}
}

static void test_4k(void **state_)
{
	(void)state_;
	on_pages(4096);
}

static void test_16k(void **state_)
{
	(void)state_;
	on_pages(16384);
}

static void test_64k(void **state_)
{
	(void)state_;
	on_pages(65536);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_4k),
		cmocka_unit_test(test_16k),
		cmocka_unit_test(test_64k),
	};
	m.seed = getenv("PAGEHINT_TEST_SEED") != NULL ? strtoull(getenv("PAGEHINT_TEST_SEED"), NULL, 0) : 20261;
	state = m.seed;
	printf("seed %" PRIu64 "\n", m.seed);
	if (emulated())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
