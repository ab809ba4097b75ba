/*
 * served: a region that a pager serves, with a thread a shard that polls and steps, as an embedder has them.
 */
#ifndef TESTS_SUPPORT_SERVED_H
#define TESTS_SUPPORT_SERVED_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/map.h>
#include <pagehint/pager.h>
#include <pagehint/source.h>

#define PAGE ((uint64_t)4096)
#define SERVED_SHARDS 8

struct served {
	unsigned char *memory;
	uint64_t bytes;
	int fd; /* of shared memory, else -1 */
	struct pagehint_pager *pager;
	uint32_t shards;
	int stop_fd;
	_Atomic int step_error;
	_Atomic int fills; /* the threads fill between two steps */
	pthread_t threads[SERVED_SHARDS];
	struct served_thread {
		struct served *served;
		uint32_t shard;
	} args[SERVED_SHARDS];
};

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 1 when this process may have a userfaultfd; else says why the test cannot run. */
static inline int may_serve(void)
{
	struct pagehint_pager *pager;
	int r = pagehint_pager_new(NULL, &pager);
	if (r == 0)
		return pagehint_pager_free(pager) == 0;
	printf("not applicable: this process may not have a userfaultfd (error %d)\n", r);
	fflush(stdout);
	return 0;
}

static inline void *served_loop(void *arg)
{
	struct served_thread *t = arg;
	struct served *s = t->served;
	struct pollfd p[2] = { { .events = POLLIN }, { .fd = s->stop_fd, .events = POLLIN } };
	uint64_t deadline = UINT64_MAX;
	assert_int_equal(pagehint_pager_fd(s->pager, t->shard, &p[0].fd), 0);
	for (;;) {
		uint64_t now = now_ns();
		int wait = deadline == UINT64_MAX ? -1 : deadline <= now ? 0 : (int)((deadline - now) / 1000000 + 1);
		if (poll(p, 2, wait) < 0 && errno != EINTR)
			break;
		if (p[1].revents != 0)
			break;
		int r = pagehint_pager_step(s->pager, t->shard, now_ns(), &deadline);
		if (r != 0) {
			atomic_store(&s->step_error, r);
			break;
		}
		if (atomic_load(&s->fills)) {
			uint64_t at;
			r = pagehint_pager_fill(s->pager, t->shard, now_ns(), 0, NULL, &at);
			if (r != 0 && r != -EBUSY)
				atomic_store(&s->step_error, r);
			if (at != UINT64_MAX)
				deadline = at < deadline ? at : deadline;
		}
	}
	return NULL;
}

static inline void served_start(struct served *s)
{
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(s->stop_fd >= 0);
	for (uint32_t i = 0; i < s->shards; i++) {
		s->args[i] = (struct served_thread) { s, i };
		assert_int_equal(pthread_create(&s->threads[i], NULL, served_loop, &s->args[i]), 0);
	}
}

static inline void served_stop(struct served *s)
{
	uint64_t one = 1;
	assert_int_equal(write(s->stop_fd, &one, 8), 8);
	for (uint32_t i = 0; i < s->shards; i++)
		assert_int_equal(pthread_join(s->threads[i], NULL), 0);
	close(s->stop_fd);
}

static inline struct pagehint_pager_stats served_stats(const struct served *s)
{
	struct pagehint_pager_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_pager_stats(s->pager, &stats), 0);
	return stats;
}

/* Memory of a kind (PAGEHINT_BACKING_*), aligned to 2 MiB, and a pager that serves nothing yet. */
static inline void served_memory(struct served *s, uint64_t bytes, uint32_t backing)
{
	const uint64_t huge = UINT64_C(2) << 20;
	memset(s, 0, sizeof(*s));
	s->bytes = bytes;
	s->fd = -1;
	s->shards = 1;
	unsigned char *p = mmap(NULL, bytes + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p += (huge - (uintptr_t)p % huge) % huge;
	if (backing != PAGEHINT_BACKING_ANON) {
		s->fd = memfd_create("served", MFD_CLOEXEC | (backing == PAGEHINT_BACKING_HUGETLB ? MFD_HUGETLB : 0));
		assert_true(s->fd >= 0);
		assert_int_equal(ftruncate(s->fd, (off_t)bytes), 0);
	}
	s->memory = mmap(p, bytes, PROT_READ | PROT_WRITE,
			 MAP_FIXED | (s->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), s->fd, 0);
	assert_ptr_equal(s->memory, p);
	if (backing != PAGEHINT_BACKING_HUGETLB)
		(void)madvise(s->memory, bytes, MADV_NOHUGEPAGE);
}

static inline void served_pager(struct served *s, struct pagehint_pager_opts *opts)
{
	struct pagehint_pager_opts plain = { .struct_size = sizeof(plain) };
	opts = opts == NULL ? &plain : opts;
	opts->struct_size = sizeof(*opts);
	s->shards = opts->shards == 0 ? 1 : opts->shards;
	assert_int_equal(pagehint_pager_new(opts, &s->pager), 0);
}

/* All of the memory, frames from 0 on. */
static inline struct pagehint_pager_region served_region(const struct served *s, struct pagehint_source *source,
							 uint32_t flags)
{
	return (struct pagehint_pager_region) {
		.struct_size = sizeof(struct pagehint_pager_region),
		.frames = s->bytes / PAGE,
		.host_addr = (uintptr_t)s->memory,
		.source = source,
		.flags = flags,
		.backing = s->fd < 0 ? PAGEHINT_BACKING_ANON : PAGEHINT_BACKING_SHARED,
	};
}

static inline void served_close(struct served *s)
{
	/* whatever was left absent is the test's to say */
	assert_int_equal(pagehint_pager_abandon(s->pager, 1), 0);
	assert_int_equal(pagehint_pager_free(s->pager), 0);
	munmap(s->memory, s->bytes);
	if (s->fd >= 0)
		close(s->fd);
}

/* Content of a snapshot: each word says which page it is of. */
static inline uint64_t snapshot_word(uint64_t page)
{
	return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static inline void snapshot_write(void *to, uint64_t pages)
{
	uint64_t *word = to;
	for (uint64_t i = 0; i < pages; i++)
		for (uint64_t k = 0; k < PAGE / 8; k++)
			word[i * (PAGE / 8) + k] = snapshot_word(i);
}

static inline void *snapshot_new(uint64_t pages)
{
	void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	snapshot_write(at, pages);
	return at;
}

static inline int page_is(const void *memory, uint64_t page, uint64_t word)
{
	const uint64_t *at = (const uint64_t *)memory + page * (PAGE / 8);
	for (uint64_t k = 0; k < PAGE / 8; k++)
		if (__atomic_load_n(&at[k], __ATOMIC_RELAXED) != word)
			return 0;
	return 1;
}

#endif
