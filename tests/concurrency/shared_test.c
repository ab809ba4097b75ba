/*
 * A guest allocates and frees patterns while a host takes its free memory, discards it and gives it back: in two processes, and
 * in two threads of one (for TSan). No frame is in two hands, no pattern is lost, what was discarded reads as zero.
 * 10^8 operations: PAGEHINT_TEST_ROUNDS_PCT=10000.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <pagehint/cache.h>
#include <pagehint/host.h>
#include <pagehint/map.h>

#include "support/rounds.h"
#include "support/shared_zone.h"

#define OPERATIONS 1000000u
#define HELD 512u

/* What both sides share beside the zone: whose each frame is by the test's own book, and when to stop. */
struct book {
	_Atomic uint32_t stop;
	_Atomic uint32_t wrong; /* line of the first thing that was wrong */
	_Atomic uint64_t discarded;
	_Atomic unsigned char owner[PAGEHINT_SECTION_FRAMES];
};

struct field {
	struct shared_zone s;
	struct book *book;
	unsigned char *memory;
	int fd;
};

static void wrong(struct field *f, uint32_t line)
{
	uint32_t none = 0;
	atomic_compare_exchange_strong(&f->book->wrong, &none, line);
}
#define SURE(f, what)                       \
	do {                                \
		if (!(what))                \
			wrong(f, __LINE__); \
	} while (0)

static void make(struct field *f)
{
	assert_int_equal(shared_zone_make(&f->s, 1, 0, 0), 0);
	f->book = mmap(NULL, sizeof(*f->book), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	f->fd = memfd_create("memory", MFD_CLOEXEC);
	assert_true(f->book != MAP_FAILED && f->fd >= 0);
	assert_int_equal(ftruncate(f->fd, (off_t)(SHARED_SECTION << 12)), 0);
	f->memory = mmap(NULL, SHARED_SECTION << 12, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	assert_true(f->memory != MAP_FAILED);
}

static void clear(struct field *f)
{
	munmap(f->memory, SHARED_SECTION << 12);
	munmap(f->book, sizeof(*f->book));
	close(f->fd);
	shared_zone_close(&f->s);
}

/* ---- the host ---- */

static int before_discard(void *ctx, const struct pagehint_run *run)
{
	struct field *f = ctx;
	for (uint64_t i = run->frame; i < run->frame + run->frames; i++)
		SURE(f, atomic_load(&f->book->owner[i]) == 0);
	return 0;
}

static void after_discard(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *outcome)
{
	struct field *f = ctx;
	uint64_t word;
	SURE(f, outcome->failed == 0 && outcome->kept == 0);
	for (uint64_t i = run->frame; i < run->frame + run->frames; i += 64)
		SURE(f, pread(f->fd, &word, sizeof(word), (off_t)(i << 12)) == sizeof(word) && word == 0);
	atomic_fetch_add(&f->book->discarded, run->frames);
}

static void host(struct field *f, struct pagehint_zone *zone)
{
	struct pagehint_hooks hooks = {
		.struct_size = sizeof(hooks), .ctx = f, .before_discard = before_discard, .after_discard = after_discard
	};
	struct pagehint_backend_opts bopts = { .struct_size = sizeof(bopts), .hooks = &hooks };
	struct pagehint_reclaimer_opts opts = { .struct_size = sizeof(opts),
						.max_away_bytes = 16 * SHARED_MB,
						.interval_ns = 1 };
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = SHARED_SECTION, .fd = f->fd };
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *r;
	uint64_t id, got, next, state = 77;
	region.host_addr = (uintptr_t)f->memory;
	if (pagehint_map_new(NULL, &map) || pagehint_map_add(map, &region, &id) ||
	    pagehint_madvise_new(map, NULL, &bopts, &backend) || pagehint_reclaimer_new(zone, backend, &opts, &r)) {
		wrong(f, __LINE__);
		return;
	}
	for (uint64_t now = 1; !atomic_load(&f->book->stop); now++) {
		uint64_t size = (1 + chance_below(&state, 32)) * 2 * SHARED_MB;
		int error = 0;
		switch (chance_below(&state, 4)) {
		case 0:
			error = pagehint_reclaimer_reclaim(r, size, &got);
			break;
		case 1:
			error = pagehint_reclaimer_hold(r, size, &got);
			break;
		case 2:
			error = pagehint_reclaimer_give_back(r, size, &got);
			break;
		default:
			error = pagehint_reclaimer_step(r, now, &next);
		}
		SURE(f, error == 0 || error == -ENOSPC || error == -EAGAIN);
	}
	SURE(f, pagehint_reclaimer_give_back(r, UINT64_MAX, &got) == -ENOSPC);
	struct pagehint_reclaimer_stats stats = { .struct_size = sizeof(stats) };
	SURE(f, pagehint_reclaimer_stats(r, &stats) == 0 && stats.held == 0 && stats.lies == 0 && stats.failed == 0);
	pagehint_reclaimer_free(r);
	pagehint_backend_free(backend);
	pagehint_map_free(map);
}

/* ---- the guest ---- */

struct block {
	uint64_t frame, pattern;
	uint32_t order, used;
};

static uint64_t *first_word(struct field *f, uint64_t frame)
{
	return (uint64_t *)(void *)(f->memory + (frame << 12));
}

static void fill(struct field *f, struct block *b)
{
	uint64_t step = b->order > 3 ? 64 : 1;
	for (uint64_t i = 0; i < UINT64_C(1) << b->order; i++)
		SURE(f, atomic_exchange(&f->book->owner[b->frame + i], 1) == 0);
	for (uint64_t i = 0; i < UINT64_C(1) << b->order; i += step)
		*first_word(f, b->frame + i) = b->pattern + i;
}

static void empty(struct field *f, struct block *b)
{
	uint64_t step = b->order > 3 ? 64 : 1;
	for (uint64_t i = 0; i < UINT64_C(1) << b->order; i += step)
		SURE(f, *first_word(f, b->frame + i) == b->pattern + i);
	for (uint64_t i = 0; i < UINT64_C(1) << b->order; i++)
		SURE(f, atomic_exchange(&f->book->owner[b->frame + i], 0) == 1);
}

static void guest(struct field *f)
{
	static const uint32_t orders[] = { 0, 0, 0, 0, 0, 1, 3, 6, 9, 10 };
	static struct block blocks[HELD];
	struct pagehint_cache *cache;
	uint64_t state = 5, taken = 0;
	assert_int_equal(pagehint_cache_open(f->s.zone, &cache), 0);
	for (uint64_t n = rounds_scaled(OPERATIONS); n != 0 && !atomic_load(&f->book->wrong); n--) {
		struct block *b = &blocks[chance_below(&state, HELD)];
		if (b->used) {
			empty(f, b);
			assert_int_equal(pagehint_cache_free(cache, b->frame, b->order), 0);
			b->used = 0;
			continue;
		}
		b->order = orders[chance_below(&state, 10)];
		int r = pagehint_cache_alloc(cache, b->order, &b->frame);
		assert_true(r == 0 || r == -EAGAIN || r == -ENOSPC);
		if (r < 0)
			continue;
		taken++;
		b->used = 1;
		b->pattern = (n << 20) + 1;
		fill(f, b);
	}
	assert_true(taken != 0);
	for (uint32_t i = 0; i < HELD; i++) {
		if (!blocks[i].used)
			continue;
		empty(f, &blocks[i]);
		assert_int_equal(pagehint_cache_free(cache, blocks[i].frame, blocks[i].order), 0);
		blocks[i].used = 0;
	}
	pagehint_cache_close(cache);
	atomic_store(&f->book->stop, 1);
}

static void check(struct field *f)
{
	struct pagehint_zone_stats stats = { .struct_size = sizeof(stats) };
	uint64_t frame;
	assert_int_equal(atomic_load(&f->book->wrong), 0);
	assert_int_equal(pagehint_zone_check(f->s.zone, NULL), 0);
	assert_int_equal(pagehint_zone_stats(f->s.zone, &stats), 0);
	assert_int_equal(stats.free, SHARED_SECTION);
	assert_int_equal(pagehint_zone_alloc(f->s.zone, 18, &frame), 0);
	assert_true(atomic_load(&f->book->discarded) != 0);
}

static void two_processes(void **state)
{
	(void)state;
	struct field f;
	make(&f);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct pagehint_zone *zone;
		if (pagehint_zone_attach(f.s.fd, 0, &f.s.opts, 0, &zone) != 0)
			wrong(&f, __LINE__);
		else
			host(&f, zone);
		_exit(0);
	}
	guest(&f);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check(&f);
	clear(&f);
}

static void *host_thread(void *ctx)
{
	struct field *f = ctx;
	host(f, f->s.zone);
	return NULL;
}

static void two_threads(void **state)
{
	(void)state;
	struct field f;
	pthread_t thread;
	make(&f);
	assert_int_equal(pthread_create(&thread, NULL, host_thread, &f), 0);
	guest(&f);
	pthread_join(thread, NULL);
	check(&f);
	clear(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes),
		cmocka_unit_test(two_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
