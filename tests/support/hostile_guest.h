/*
 * hostile_guest: a guest that writes its rings by hand, and what must hold after it did.
 */
#ifndef TESTS_SUPPORT_HOSTILE_GUEST_H
#define TESTS_SUPPORT_HOSTILE_GUEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"
#include "virtio/ring.h"

#define F GUEST_FREE
#define SIZE 16u
#define PAGE UINT64_C(4096)
#define TABLE_PAGE (GUEST_PAGE + 400) /* in the ring area: nobody else writes there */
#define RUN(page, pages) ((struct pagehint_run) { (page), (pages) })

static struct pagehint_device_stats counted; /* when the case began */

static inline struct guest *open_guest(void)
{
	struct guest_how how = { .ring_size = SIZE, .opts.budget = 256 };
	struct guest *g = guest_open(&how);
	return g;
}

/* The next case: everything as after a boot, and nothing counted yet. */
static inline void begin(struct guest *g)
{
	assert_int_equal(pagehint_device_reset(g->device), 0);
	guest_refill(g);
	guest_boot(g, 0);
	guest_settle(g);
	g->events = 0;
	g->lines = 0;
	g->now += 2000000000;
	counted = guest_stats(g);
}

/* ---- raw writing of a split ring ---- */

static inline void desc(void *table, uint32_t i, uint64_t addr, uint32_t len, uint32_t flags, uint32_t next)
{
	unsigned char *b = (unsigned char *)table + (size_t)16 * i;
	for (uint32_t k = 0; k < 8; k++)
		b[k] = (unsigned char)(addr >> 8 * k);
	for (uint32_t k = 0; k < 4; k++)
		b[8 + k] = (unsigned char)(len >> 8 * k);
	b[12] = (unsigned char)flags;
	b[13] = (unsigned char)(flags >> 8);
	b[14] = (unsigned char)next;
	b[15] = (unsigned char)(next >> 8);
}

static inline void *table_of(struct guest *g, uint32_t role)
{
	return guest_place(g, role, 0, SIZE).desc;
}

static inline void set_avail(struct guest *g, uint32_t role, uint16_t idx)
{
	struct ph_avail *avail = guest_place(g, role, 0, SIZE).driver;
	ph_le16_release(&avail->idx, idx);
}

static inline void offer(struct guest *g, uint32_t role, uint16_t head)
{
	struct ph_avail *avail = guest_place(g, role, 0, SIZE).driver;
	uint16_t idx = ph_le16_get(&avail->idx);
	ph_le16_put(&avail->ring[idx % SIZE], head);
	ph_le16_release(&avail->idx, (uint16_t)(idx + 1));
}

static inline uint16_t used_idx(struct guest *g, uint32_t role)
{
	struct ph_used *used = guest_place(g, role, 0, SIZE).device;
	return ph_le16_get(&used->idx);
}

/* Lists are read, pages are written: what this role's buffers are. */
static inline uint32_t flags_of(uint32_t role)
{
	return role == PAGEHINT_BALLOON_Q_HINT || role == PAGEHINT_BALLOON_Q_REPORT ? PH_DESC_WRITE : 0;
}

/* A legal list with one good entry, and a page that may be given. */
static inline uint64_t good_buffer(struct guest *g, uint32_t role)
{
	uint32_t pfn = (uint32_t)F + 3;
	return flags_of(role) != 0 ? (F + 3) * PAGE : guest_pfns(g, &pfn, 1);
}

static inline void run_dry(struct guest *g, uint32_t role)
{
	assert_int_equal(guest_kick(g, role), 0);
	guest_settle(g);
}

/* It needs a reset and nothing was discarded; after the reset all is well. */
static inline void broke(struct guest *g, uint32_t role, uint32_t drop, const char *what)
{
	struct pagehint_device_stats stats = guest_stats(g);
	uint64_t broken = stats.broken - counted.broken, dropped = stats.dropped[drop] - counted.dropped[drop];
	if (broken != 1 || dropped != 1 || g->n_runs != 0)
		fail_msg("%s on queue %u: broken %u, dropped %u, runs %u", what, role, (unsigned)broken,
			 (unsigned)dropped, g->n_runs);
	assert_true(g->events & PAGEHINT_DEVICE_EVENT_NEEDS_RESET);
	assert_int_equal(g->lines, 1);
	guest_check(g);
	run_dry(g, role); /* kicks go nowhere */
	assert_int_equal(guest_stats(g).broken - counted.broken, 1);
}

static inline void is_well(struct guest *g)
{
	uint32_t pfn = (uint32_t)F + 9;
	assert_int_equal(pagehint_device_reset(g->device), 0);
	guest_boot(g, 0);
	guest_refill(g);
	guest_give(g, F + 8, 2);
	guest_report(g, &RUN(F + 8, 1), 1);
	guest_inflate(g, &pfn, 1);
	assert_int_equal(g->n_runs, 2);
	guest_check(g);
}

#endif
