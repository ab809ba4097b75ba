/*
 * paged: a zone over memory that comes from a file when it is touched: workers fault, threads of the pager serve them and fill
 * in between, and a reporter discards what is free, which then reads as zero. At every walk the pager is another: now one that
 * takes over where the last one stood, now one over memory that is all in the file again.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/pager.h>
#include <pagehint/pager_backend.h>
#include <pagehint/source.h>

#include "faults.h"
#include "ground.h"
#include "memory/map.h"
#include "pager/pager.h"
#include "pager/source.h"
#include "soak.h"
#include "taker.h"

#define FRAMES UINT64_C(4096) /* 16 MiB */
#define SHARDS 2u

struct paged {
	struct ground ground;
	struct taker taker;
	int file; /* what the memory held */
	void *state;
	uint64_t state_bytes;
	struct pagehint_map *map;
	struct pagehint_source *source;
	struct pagehint_pager *pager;
	struct pagehint_backend *inner;
	struct shard {
		struct paged *paged;
		uint32_t number;
	} shards[SHARDS];
	uint64_t renewals, installed, removed, filled, retries;
};

static struct paged pageds[2];

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Odd numbers above those of all members are the file's. */
static uint64_t in_file(uint64_t frame)
{
	return UINT64_C(0xf11e) << 48 | frame << 1 | 1;
}

static uint32_t failed(void *ctx, const struct pagehint_pager_failure *failure)
{
	(void)ctx;
	(void)failure;
	return PAGEHINT_FAIL_RETRY;
}

/* ---- who serves ---- */

static void judge_call(const struct paged *p, const char *what, int r, uint64_t mine)
{
	if (r != 0 && r != -EBUSY && faults_mine() == mine)
		(void)soak_bad(p->ground.part, "%s gave %d, and no call had failed", what, r);
}

static int serve_turn(void *ctx, struct soak_member *m)
{
	struct shard *s = ctx;
	struct pollfd fd = { .events = POLLIN };
	uint64_t deadline, mine = faults_mine();
	(void)m;
	(void)SOAK_MUST(s->paged->ground.part, pagehint_pager_fd(s->paged->pager, s->number, &fd.fd) == 0);
	int n = poll(&fd, 1, 1);
	judge_call(s->paged, "a step of the pager",
		   pagehint_pager_step(s->paged->pager, s->number, now_ns(), &deadline), mine);
	return n > 0;
}

static int fill_turn(void *ctx, struct soak_member *m)
{
	struct paged *p = ctx;
	uint64_t deadline, bytes = 0, mine = faults_mine();
	if (soak_below(&m->chance, 16) == 0)
		judge_call(p, "the watch", pagehint_pager_watch(p->pager, now_ns(), &deadline), mine);
	/* a few pages at a time: most are to come by faults */
	judge_call(p, "filling", pagehint_pager_fill(p->pager, UINT32_MAX, now_ns(), 4096, &bytes, &deadline), mine);
	(void)poll(NULL, 0, 1);
	return 1;
}

/* ---- life of a pager ---- */

static int open_pager(struct paged *p, uint32_t flags)
{
	struct content *c = &p->ground.content;
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts),
					    .map = p->map,
					    .failed = failed,
					    .shards = SHARDS,
					    .stripe_bytes = 2 << 20,
					    .around_min = 1,
					    .around_max = 16,
					    .flights = 4 };
	struct pagehint_pager_region region = { .struct_size = sizeof(region),
						.frames = FRAMES,
						.source = p->source,
						.state = p->state,
						.state_bytes = p->state_bytes,
						.flags = flags };
	struct pagehint_backend_opts how = { .struct_size = sizeof(how) };
	how.hooks = taker_hooks(&p->taker, p->ground.part, c);
	int r = ph_pager_new_with(&opts, faults_sys(), &p->pager);
	if (r == 0)
		r = pagehint_pager_add(p->pager, &region);
	if (r == 0)
		r = pagehint_madvise_new(p->map, NULL, NULL, &p->inner);
	if (r == 0)
		r = pagehint_pager_backend_new(p->pager, p->inner, &how, &p->taker.judged);
	return r < 0 ? r : taker_open(&p->taker, p->ground.zone, p->taker.judged);
}

static void close_pager(struct paged *p)
{
	struct pagehint_pager_stats s = { .struct_size = sizeof(s) };
	const char *part = p->ground.part;
	int r;
	taker_drain(&p->taker);
	taker_close(&p->taker);
	(void)SOAK_MUST(part, pagehint_backend_free(p->taker.judged) == 0);
	(void)SOAK_MUST(part, pagehint_backend_free(p->inner) == 0);
	(void)SOAK_MUST(part, pagehint_pager_stats(p->pager, &s) == 0);
	p->installed += s.installed;
	p->removed += s.removed;
	p->filled += s.filled;
	p->retries += s.failures;
	while ((r = pagehint_pager_abandon(p->pager, 1)) == -EAGAIN)
		;
	(void)SOAK_MUST(part, r == 0);
	(void)SOAK_MUST(part, pagehint_pager_free(p->pager) == 0);
}

static void walk(void *ctx)
{
	struct paged *p = ctx;
	struct pagehint_pager_stats s = { .struct_size = sizeof(s) };
	ground_walk(&p->ground, 1, 0);
	taker_walk(&p->taker, p->ground.zone);
	(void)SOAK_MUST(p->ground.part, pagehint_pager_stats(p->pager, &s) == 0);
	(void)SOAK_MUST(p->ground.part, s.surprises == 0 && s.poisoned == 0 && s.removed_events == 0);
	(void)SOAK_MUST(p->ground.part, s.filled <= s.installed + s.zeroed + s.met);
}

/* All of the memory is in the file again. */
static void forget_memory(struct paged *p)
{
	struct content *c = &p->ground.content;
	int advice = c->fd >= 0 ? MADV_REMOVE : MADV_DONTNEED;
	(void)SOAK_MUST(p->ground.part, madvise(c->memory, content_bytes(c), advice) == 0);
	memset(p->state, 0, p->state_bytes);
	for (uint64_t i = 0; i < FRAMES; i++) {
		atomic_store(&c->word[i], in_file(i));
		atomic_store(&c->maybe[i], 0);
	}
}

static void renew(void *ctx)
{
	struct paged *p = ctx;
	int takes_over = p->renewals++ % 2 == 0;
	if (!takes_over)
		ground_go_home(&p->ground);
	close_pager(p);
	if (!takes_over) {
		forget_memory(p);
		(void)SOAK_MUST(p->ground.part, ground_anew(&p->ground) == 0);
	}
	(void)SOAK_MUST(p->ground.part, open_pager(p, takes_over ? PAGEHINT_PAGER_ATTACH : 0) == 0);
}

static void close_paged(void *ctx)
{
	struct paged *p = ctx;
	ground_go_home(&p->ground);
	walk(p);
	close_pager(p);
	if (soak_violations(NULL) == 0) /* else it was ended early */
		(void)SOAK_MUST(p->ground.part, p->installed != 0 && p->removed != 0);
	(void)SOAK_MUST(p->ground.part, pagehint_map_free(p->map) == 0);
	pagehint_source_free(p->source);
	pagehint_zone_destroy(p->ground.zone);
	content_close(&p->ground.content);
	munmap(p->state, p->state_bytes);
	close(p->file);
}

static int write_file(struct paged *p)
{
	uint64_t page[CONTENT_PAGE / 8];
	p->file = memfd_create("soak-source", MFD_CLOEXEC);
	for (uint64_t i = 0; i < FRAMES && p->file >= 0; i++) {
		for (uint64_t k = 0; k < CONTENT_PAGE / 8; k++)
			page[k] = in_file(i);
		if (pwrite(p->file, page, sizeof(page), (off_t)(i * CONTENT_PAGE)) != (ssize_t)sizeof(page))
			return -EIO;
	}
	return p->file < 0 ? -errno
			   : ph_source_file_new_with(p->file, 0, FRAMES * CONTENT_PAGE, faults_sys(), &p->source);
}

static int open_map(struct paged *p)
{
	struct content *c = &p->ground.content;
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frames = FRAMES,
					     .fd = c->fd,
					     .host_addr = (uintptr_t)c->memory,
					     .flags = PAGEHINT_REGION_UFFD_OWN };
	uint64_t id;
	int r = ph_map_new_with(NULL, faults_sys(), &p->map);
	if (r == 0)
		r = pagehint_map_add(p->map, &desc, &id);
	p->state_bytes = pagehint_pager_state_size(FRAMES * CONTENT_PAGE, CONTENT_PAGE);
	p->state =
		mmap(NULL, p->state_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return p->state == MAP_FAILED ? -ENOMEM : r;
}

static int open_paged(struct paged *p, const char *part, int as_file, struct soak_part *ret)
{
	memset(p, 0, sizeof(*p));
	int r = content_open(&p->ground.content, part, as_file, FRAMES, 0);
	if (r == 0)
		r = ground_open(&p->ground, part, PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, 6);
	if (r == 0)
		r = write_file(p);
	if (r == 0)
		r = open_map(p);
	if (r == 0)
		forget_memory(p);
	if (r == 0)
		r = open_pager(p, 0);
	if (r == 0)
		r = ground_populate(&p->ground, GROUND_WORKERS);
	for (uint32_t i = 0; i < SHARDS && r == 0; i++) {
		p->shards[i] = (struct shard) { p, i };
		r = soak_member_add("shard", SOAK_SERVANT, serve_turn, &p->shards[i]) == NULL ? -ENOSPC : 0;
	}
	if (r == 0 && (soak_member_add("fill", SOAK_SERVANT, fill_turn, p) == NULL ||
		       soak_member_add("reporter", SOAK_WORKER, taker_turn, &p->taker) == NULL))
		r = -ENOSPC;
	*ret = (struct soak_part) { .name = part,
				    .walk = walk,
				    .renew = renew,
				    .close = close_paged,
				    .ctx = p,
				    .gone = &p->ground.content.gone };
	return r;
}

/* 1: this process may have no userfaultfd */
static int open_where_possible(struct paged *p, const char *part, int as_file, struct soak_part *ret)
{
	int r = open_paged(p, part, as_file, ret);
	if (r != -EPERM && r != -ENOSYS)
		return r;
	printf("not applicable: %s: this process may not have a userfaultfd\n", part);
	return 1;
}

int soak_paged_anon_open(struct soak_part *ret)
{
	return open_where_possible(&pageds[0], "paged-anon", 0, ret);
}

int soak_paged_memfd_open(struct soak_part *ret)
{
	return open_where_possible(&pageds[1], "paged-memfd", 1, ret);
}
