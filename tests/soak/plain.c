/*
 * plain: a zone over memory of this process, private or a memfd, whose reporter gives it back with madvise; and slots of memory
 * that come and go under the load: sections of the zone, regions of the map, and the memory itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include <pagehint/host.h>
#include <pagehint/map.h>

#include "faults.h"
#include "ground.h"
#include "memory/map.h"
#include "soak.h"
#include "taker.h"

#define BASE UINT64_C(6144) /* 24 MiB */
#define SLOTS 4u

struct plain {
	struct ground ground;
	struct taker taker;
	struct pagehint_map *map;
	uint64_t base_id;
	struct {
		uint64_t id; /* of its region, while it is there */
		int is_there;
	} slots[SLOTS];
	uint64_t plugs, refusals;
};

static struct plain plains[2];

static int add_region(struct plain *p, uint64_t frame, uint64_t frames, uint64_t *ret_id)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc),
					     .frame = frame,
					     .frames = frames,
					     .fd = p->ground.content.fd,
					     .host_addr = (uintptr_t)content_at(&p->ground.content, frame) };
	if (desc.fd >= 0)
		desc.fd_offset = desc.host_addr - (uintptr_t)p->ground.content.memory;
	return pagehint_map_add(p->map, &desc, ret_id);
}

/* ---- what comes and goes ---- */

static int come(struct plain *p, uint32_t i)
{
	struct content *c = &p->ground.content;
	uint64_t frame = content_slot_frame(c, i), mine = faults_mine();
	unsigned char *at = content_at(c, frame);
	if (c->fd < 0) { /* other memory every time */
		(void)SOAK_MUST(p->ground.part,
				mmap(at, CONTENT_SLOT * CONTENT_PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == at);
		(void)madvise(at, CONTENT_SLOT * CONTENT_PAGE, MADV_NOHUGEPAGE);
		content_is_zero(c, frame, CONTENT_SLOT);
	}
	int r = add_region(p, frame, CONTENT_SLOT, &p->slots[i].id);
	if (r != 0) {
		if (faults_mine() == mine)
			(void)soak_bad(p->ground.part, "a region was refused with %d, and no call had failed", r);
		return 0;
	}
	(void)SOAK_MUST(p->ground.part, pagehint_zone_add(p->ground.zone, frame, CONTENT_SLOT) == 0);
	p->ground.total += CONTENT_SLOT;
	p->slots[i].is_there = 1;
	p->plugs++;
	return 1;
}

static int go(struct plain *p, uint32_t i)
{
	uint64_t frame = content_slot_frame(&p->ground.content, i), busy = 0, mine = faults_mine();
	atomic_store(&p->ground.leaving[i + 1], 1);
	int r = pagehint_zone_remove(p->ground.zone, frame, CONTENT_SLOT, &busy);
	if (r != 0) {
		if (r != -EBUSY || busy == 0 || busy > CONTENT_SLOT)
			(void)soak_bad(p->ground.part, "a slot did not go: %d, %" PRIu64 " busy", r, busy);
		p->refusals++;
		return 0;
	}
	p->ground.total -= CONTENT_SLOT;
	/* nobody has a frame of it, so nothing can be inside its region either */
	while ((r = pagehint_map_remove(p->map, p->slots[i].id)) == -ENODEV && faults_mine() != mine)
		mine = faults_mine();
	if (r != 0)
		(void)soak_bad(p->ground.part, "a region did not go: %d", r);
	p->slots[i].is_there = 0;
	atomic_store(&p->ground.leaving[i + 1], 0);
	return 1;
}

static int plug_turn(void *ctx, struct soak_member *m)
{
	struct plain *p = ctx;
	/* what began to leave leaves first */
	for (uint32_t i = 0; i < SLOTS; i++)
		if (atomic_load(&p->ground.leaving[i + 1]))
			return go(p, i);
	uint32_t i = (uint32_t)soak_below(&m->chance, SLOTS);
	return p->slots[i].is_there ? go(p, i) : come(p, i);
}

/* ---- life ---- */

static void walk(void *ctx)
{
	struct plain *p = ctx;
	uint32_t there = 1;
	for (uint32_t i = 0; i < SLOTS; i++)
		there += (uint32_t)p->slots[i].is_there;
	(void)SOAK_MUST(p->ground.part, pagehint_map_regions(p->map) == there);
	ground_walk(&p->ground, 0, 0);
	taker_walk(&p->taker, p->ground.zone);
}

/* The reporter, and the backend, are others from now on. */
static int open_taker(struct plain *p)
{
	struct pagehint_backend_opts how = { .struct_size = sizeof(how) };
	how.hooks = taker_hooks(&p->taker, p->ground.part, &p->ground.content);
	int r = pagehint_madvise_new(p->map, NULL, &how, &p->taker.judged);
	return r < 0 ? r : taker_open(&p->taker, p->ground.zone, p->taker.judged);
}

static void close_taker(struct plain *p)
{
	taker_drain(&p->taker);
	taker_close(&p->taker);
	(void)SOAK_MUST(p->ground.part, pagehint_backend_free(p->taker.judged) == 0);
}

static void renew(void *ctx)
{
	struct plain *p = ctx;
	close_taker(p);
	(void)SOAK_MUST(p->ground.part, open_taker(p) == 0);
}

static void close_plain(void *ctx)
{
	struct plain *p = ctx;
	ground_go_home(&p->ground);
	ground_walk(&p->ground, 0, 0);
	taker_walk(&p->taker, p->ground.zone);
	if (soak_violations(NULL) == 0) /* else it was ended early */
		(void)SOAK_MUST(p->ground.part, p->ground.content.gone != 0 && p->plugs != 0);
	close_taker(p);
	(void)SOAK_MUST(p->ground.part, pagehint_map_free(p->map) == 0);
	pagehint_zone_destroy(p->ground.zone);
	content_close(&p->ground.content);
}

static int open_plain(struct plain *p, const char *part, int as_file, uint32_t flags, struct soak_part *ret)
{
	memset(p, 0, sizeof(*p));
	int r = content_open(&p->ground.content, part, as_file, BASE, SLOTS);
	if (r == 0)
		r = ground_open(&p->ground, part, flags, 0);
	if (r == 0)
		r = ph_map_new_with(NULL, faults_sys(), &p->map);
	if (r == 0)
		r = add_region(p, 0, BASE, &p->base_id);
	if (r == 0)
		r = open_taker(p);
	if (r == 0)
		r = ground_populate(&p->ground, GROUND_WORKERS);
	if (r == 0 && (soak_member_add("reporter", SOAK_WORKER, taker_turn, &p->taker) == NULL ||
		       soak_member_add("plug", SOAK_WORKER, plug_turn, p) == NULL))
		r = -ENOSPC;
	*ret = (struct soak_part) { .name = part,
				    .walk = walk,
				    .renew = renew,
				    .close = close_plain,
				    .ctx = p,
				    .gone = &p->ground.content.gone };
	return r;
}

int soak_anon_open(struct soak_part *ret)
{
	return open_plain(&plains[0], "anon", 0, PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STALE, ret);
}

int soak_memfd_open(struct soak_part *ret)
{
	return open_plain(&plains[1], "memfd", 1, PAGEHINT_ZONE_STRICT, ret);
}
