/*
 * Faulting threads, a reporter that discards, a prefetcher and writers over one region that is paged in: nobody ever sees
 * a content that is not the snapshot's, what was last written, or zero after a discard.
 *
 * Everything ends up present within one region's life, and then nothing is in flight any more. So each round has a fresh
 * one, and the figure is summed over rounds.
 */
#include "support/race.h"

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/pager_backend.h>

#define BYTES (RACE_FRAMES * PAGE)

static void *snapshot;
static uint64_t total_wrong, total_looks, total_freed, total_kept;

static int group_setup(void **state)
{
	(void)state;
	snapshot = snapshot_new(RACE_FRAMES);
	return 0;
}

struct scene {
	struct served s;
	struct pagehint_source *source;
	struct pagehint_map *map;
	struct pagehint_backend *inner, *backend;
	struct race race;
	_Atomic int prefetch_error;
};

static void open_scene(struct scene *c, uint32_t backing, uint32_t flags, struct pagehint_source *source,
		       uint64_t operations)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .flags = PAGEHINT_REGION_UFFD_OWN };
	struct pagehint_hooks hooks = { .struct_size = sizeof(hooks), .ctx = &c->race, .after_discard = race_after };
	struct pagehint_backend_opts how = { .struct_size = sizeof(how), .hooks = &hooks };
	uint64_t id;
	memset(c, 0, sizeof(*c));
	served_memory(&c->s, BYTES, backing);
	desc.frames = RACE_FRAMES;
	desc.host_addr = (uintptr_t)c->s.memory;
	desc.fd = c->s.fd;
	assert_int_equal(pagehint_map_new(NULL, &c->map), 0);
	assert_int_equal(pagehint_map_add(c->map, &desc, &id), 0);
	struct pagehint_pager_opts opts = {
		.shards = 2, .map = c->map, .around_min = 4, .around_max = 32, .flights = 8
	};
	served_pager(&c->s, &opts);
	struct pagehint_pager_region r = served_region(&c->s, source, flags);
	c->source = source;
	if ((flags & PAGEHINT_PAGER_MINOR) != 0) {
		void *alias = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->s.fd, 0);
		memcpy(alias, snapshot, BYTES);
		munmap(alias, BYTES);
	}
	assert_int_equal(pagehint_pager_add(c->s.pager, &r), 0);
	assert_int_equal(pagehint_madvise_new(c->map, NULL, NULL, &c->inner), 0);
	assert_int_equal(pagehint_pager_backend_new(c->s.pager, c->inner, &how, &c->backend), 0);
	race_open(&c->race, c->s.memory, c->backend, operations);
}

/* Brings what nobody asked for, and makes ranges present before an access that could not fault. */
static void *prefetcher(void *arg)
{
	struct scene *c = arg;
	uint64_t seed = 77, bytes, deadline;
	while (atomic_load(&c->race.owners_left) > 0) {
		uint64_t frame = race_rnd(&seed, RACE_FRAMES - 8);
		int r = pagehint_pager_fill(c->s.pager, UINT32_MAX, now_ns(), 16 * PAGE, &bytes, &deadline);
		if (r == 0)
			r = pagehint_pager_ensure(c->s.pager, frame, 8, NULL);
		if (r != 0 && r != -EAGAIN)
			atomic_store(&c->prefetch_error, r);
		sched_yield();
	}
	return NULL;
}

static int is_here(const struct scene *c, uint64_t frame)
{
	unsigned char here = 0;
	assert_int_equal(mincore(c->s.memory + frame * PAGE, PAGE, &here), 0);
	return here & 1;
}

/* What a snapshot would be told: what is said to be removed holds nothing, and what is clean is as the source has it. */
static uint64_t wrongly_said(struct scene *c, int tracked)
{
	struct pagehint_page_run run;
	uint64_t wrong = 0, frame = 0;
	uint32_t n;
	for (;; frame = run.frame + run.frames) {
		assert_int_equal(pagehint_pager_export(c->s.pager, frame, &run, 1, &n), 0);
		if (n == 0)
			return wrong;
		wrong += run.what == PAGEHINT_PAGE_INFLIGHT ? run.frames : 0;
		for (uint64_t f = run.frame; f < run.frame + run.frames; f++) {
			if (!is_here(c, f))
				continue;
			if (run.what == PAGEHINT_PAGE_REMOVED)
				wrong += !page_is(c->s.memory, f, 0);
			else if (run.what == PAGEHINT_PAGE_PRESENT && tracked)
				wrong += !page_is(c->s.memory, f, snapshot_word(f));
		}
	}
}

static void close_scene(struct scene *c)
{
	struct pagehint_pager_stats stats = served_stats(&c->s);
	assert_int_equal(atomic_load(&c->s.step_error), 0);
	assert_int_equal(atomic_load(&c->prefetch_error), 0);
	assert_int_equal(stats.failures, 0);
	total_wrong += atomic_load(&c->race.wrong);
	total_looks += atomic_load(&c->race.looks);
	total_freed += atomic_load(&c->race.freed);
	total_kept += atomic_load(&c->race.kept);
	race_close(&c->race);
	assert_int_equal(pagehint_backend_free(c->backend), 0);
	assert_int_equal(pagehint_backend_free(c->inner), 0);
	served_close(&c->s);
	assert_int_equal(pagehint_map_free(c->map), 0);
	pagehint_source_free(c->source);
}

static void one_round(uint32_t backing, uint32_t flags, struct pagehint_source *source, uint64_t seed)
{
	static struct scene c;
	pthread_t id;
	open_scene(&c, backing, flags, source, 1500);
	served_start(&c.s);
	assert_int_equal(pthread_create(&id, NULL, prefetcher, &c), 0);
	race_run(&c.race, seed);
	assert_int_equal(pthread_join(id, NULL), 0);
	served_stop(&c.s);
	assert_int_equal(atomic_load(&c.race.wrong), 0);
	assert_int_equal(wrongly_said(&c, (flags & PAGEHINT_PAGER_TRACK) != 0), 0);
	close_scene(&c);
}

static struct pagehint_source *memory_source(void)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	return source;
}

static void test_anon(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(50);
	for (unsigned long i = 0; i < rounds; i++)
		one_round(PAGEHINT_BACKING_ANON, 0, memory_source(), i + 1);
}

static void test_shared(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(50);
	for (unsigned long i = 0; i < rounds; i++)
		one_round(PAGEHINT_BACKING_SHARED, 0, memory_source(), i + 1000);
}

static void test_minor(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(50);
	for (unsigned long i = 0; i < rounds; i++)
		one_round(PAGEHINT_BACKING_SHARED, PAGEHINT_PAGER_MINOR, NULL, i + 2000);
}

static void test_tracked(void **state)
{
	(void)state;
	unsigned long rounds = rounds_scaled(50);
	for (unsigned long i = 0; i < rounds; i++)
		one_round(PAGEHINT_BACKING_ANON, PAGEHINT_PAGER_TRACK, memory_source(), i + 3000);
}

static void test_sum(void **state)
{
	(void)state;
	printf("RESULT paging.race.looks %llu\n", (unsigned long long)total_looks);
	printf("RESULT paging.race.frames_freed %llu\n", (unsigned long long)total_freed);
	printf("RESULT paging.race.frames_kept %llu\n", (unsigned long long)total_kept);
	printf("RESULT paging.race.wrong_pages %llu\n", (unsigned long long)total_wrong);
	assert_int_equal(total_wrong, 0);
	assert_true(total_freed > 1000 && total_looks > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anon),    cmocka_unit_test(test_shared), cmocka_unit_test(test_minor),
		cmocka_unit_test(test_tracked), cmocka_unit_test(test_sum),
	};
	if (!may_serve())
		return 77;
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
