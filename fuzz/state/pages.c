/*
 * What a pager leaves to another: the states of its pages, which may be of any moment, and the order of faults, which may be anybody's.
 */
#include <errno.h>

#include <pagehint/map.h>

#include "kernel.h"
#include "pager/pager.h"
#include "state.h"

static struct kernel k;
static struct pagehint_source *zeros;

static struct pagehint_pager *open_pager(uint32_t flags)
{
	const struct pagehint_pager_opts opts = { .struct_size = sizeof(opts),
						  .flags = flags,
						  .flights = 4,
						  .record_max = 32,
						  .around_min = 1,
						  .around_max = 16 };
	struct pagehint_pager *pager;
	kernel_open(&k);
	for (uint64_t i = 0; i < KERNEL_PAGES; i++)
		k.pages[i].anything = 1; /* content is not what is asked about here */
	SURE(pagehint_source_zero_new(&zeros) == 0);
	SURE(ph_pager_new_with(&opts, &k.sys, &pager) == 0);
	return pager;
}

static struct pagehint_pager_region region_of(uint32_t flags)
{
	const struct pagehint_pager_region region = {
		.struct_size = sizeof(region),
		.frames = KERNEL_FIRST,
		.host_addr = KERNEL_BASE,
		.source = zeros,
		.flags = flags,
		.backing = PAGEHINT_BACKING_ANON,
	};
	return region;
}

static void close_pager(struct pagehint_pager *pager)
{
	int r = pagehint_pager_free(pager);
	if (r == -EBUSY) {
		SURE(pagehint_pager_abandon(pager, 0) == 0);
		SURE(pagehint_pager_free(pager) == 0);
	}
	pagehint_source_free(zeros);
	SURE(k.open_fds == 0 && k.mapped == 0);
}

/* Everybody who touches a page comes on. */
static void touch_all(struct pagehint_pager *pager)
{
	uint64_t now = 0, deadline;
	for (uint64_t from = 0; from < KERNEL_FIRST; from += 100) {
		for (uint64_t i = from; i < from + 100 && i < KERNEL_FIRST; i++)
			kernel_touch(&k, i, 0);
		for (uint32_t round = 0; round < 50 && kernel_waiting(&k) != 0; round++, now += 100000000)
			SURE(pagehint_pager_step(pager, 0, now, &deadline) == 0);
		SURE(kernel_waiting(&k) == 0);
	}
}

/* One of the values that occur; is such a page there, as the one who died left it? */
static uint32_t known_state(uint32_t n, int *ret_here)
{
	static const uint8_t states[] = { PH_ABSENT,
					  PH_INFLIGHT,
					  PH_PRESENT,
					  PH_REMOVED,
					  PH_POISONED,
					  PH_CLEARING,
					  PH_PRESENT | PH_DIRTY,
					  PH_ABSENT | PH_LEAVING,
					  PH_PRESENT | PH_LEAVING,
					  PH_REMOVED | PH_LEAVING,
					  PH_POISONED_LEAVING,
					  PH_PRESENT | PH_DIRTY | PH_LEAVING };
	uint32_t state = states[n % sizeof(states)];
	*ret_here = (state & 7 & ~PH_LEAVING) == PH_PRESENT ||
		    ((state == PH_INFLIGHT || state == PH_CLEARING) && n >= 128); /* it died right after */
	return state;
}

void state_pager(struct input *in)
{
	uint64_t room = pagehint_pager_state_size(KERNEL_FIRST * 4096, 4096), *words = calloc(1, room);
	struct pagehint_pager *pager = open_pager(0);
	struct pagehint_pager_region region = region_of(0);
	struct pagehint_page_run run;
	uint32_t how = (uint32_t)take(in, 1), n = 0, odd = 0;
	SURE(words != NULL);
	/* the header, as the one before has written it, or not quite */
	region.state = words;
	region.state_bytes = room;
	SURE(pagehint_pager_add(pager, &region) == 0 && pagehint_pager_abandon(pager, 1) == 0);
	close_pager(pager);
	pager = open_pager(0);
	region = region_of(PAGEHINT_PAGER_ATTACH);
	region.state = words;
	region.state_bytes = (how & 3) == 3 ? take(in, 2) % (room + 8) : room;
	if ((how & 12) == 12)
		words[take(in, 1) % 3] ^= UINT64_C(1) << take(in, 1) % 64;
	for (uint64_t page = 0; in->left != 0 && page < KERNEL_FIRST;) {
		uint32_t what = (uint32_t)take(in, 1), many = (uint32_t)take(in, 1) % 64 + 1;
		for (; many > 0 && page < KERNEL_FIRST; many--, page++) {
			int here = 0;
			uint32_t state = (how & 16) != 0 ? what & 15 : known_state(what, &here);
			odd |= state == 8 || state == 11 || state == 12 || state == 15;
			words[8 + page / 16] |= (uint64_t)state << page % 16 * 4;
			k.pages[page].here = (uint8_t)here;
			k.pages[page].poisoned = state == PH_POISONED || state == PH_POISONED_LEAVING;
		}
	}
	int head = region.state_bytes == room && (how & 12) != 12;
	int r = pagehint_pager_add(pager, &region);
	SURE(r == 0 || r == -EINVAL);
	SURE((r == 0) == (head && !odd));
	if (r == 0) {
		touch_all(pager);
		for (uint64_t at = 0; at < KERNEL_FIRST; at = run.frame + run.frames) {
			SURE(pagehint_pager_export(pager, at, &run, 1, &n) == 0 && n == 1 && run.frames != 0);
			SURE(run.what != PAGEHINT_PAGE_INFLIGHT);
		}
	}
	close_pager(pager);
	free(words);
}

/* Faults are recorded, the record changed a little, and another pager told of it. */
void state_record(struct input *in)
{
	unsigned char blob[1024];
	struct pagehint_pager *pager = open_pager(PAGEHINT_PAGER_RECORD);
	struct pagehint_pager_region region = region_of(0);
	uint32_t how = (uint32_t)take(in, 1);
	uint64_t n = 0, again = 0, deadline = 0, brought;
	SURE(pagehint_pager_add(pager, &region) == 0);
	for (uint32_t i = how & 7; i > 0; i--) {
		kernel_touch(&k, take(in, 2) % KERNEL_FIRST, 0);
		SURE(pagehint_pager_step(pager, 0, i, &deadline) == 0);
	}
	SURE(pagehint_pager_record(pager, NULL, 0, &n) == 0 && n <= sizeof(blob));
	SURE(pagehint_pager_record(pager, blob, sizeof(blob), &again) == 0 && again <= n);
	close_pager(pager);
	n = again;
	if ((how & 24) == 24) {
		n = take(in, 2) % sizeof(blob);
		take_bytes(in, blob, n);
	}
	for (uint32_t i = how >> 5; i > 0; i--) {
		uint64_t word = take(in, 1) < 128 ? take(in, 3) : take(in, 8), at = take(in, 1) % (sizeof(blob) / 8);
		memcpy(blob + 8 * at, &word, 8);
	}
	if ((how & 24) == 8 && n >= 8) { /* the sum is right again (record.c: FNV-1a over all before it) */
		uint64_t sum = UINT64_C(0xcbf29ce484222325);
		for (uint64_t i = 0; i < n - 8; i++)
			sum = (sum ^ blob[i]) * UINT64_C(0x100000001b3);
		memcpy(blob + n - 8, &sum, 8);
	}
	unsigned char *exact = malloc(n == 0 ? 1 : n);
	SURE(exact != NULL);
	memcpy(exact, blob, n);
	pager = open_pager(0);
	region = region_of(0);
	SURE(pagehint_pager_add(pager, &region) == 0);
	int r = pagehint_pager_prefetch(pager, exact, n);
	SURE(r == 0 || r == -EINVAL);
	SURE(r == 0 || (how >> 5) != 0 || (how & 24) == 24); /* what was written is read */
	free(exact);
	for (uint32_t i = 0; i < 1000 && deadline != UINT64_MAX; i++)
		SURE(pagehint_pager_fill(pager, UINT32_MAX, i, 0, &brought, &deadline) == 0);
	SURE(deadline == UINT64_MAX); /* it comes to an end */
	touch_all(pager);
	close_pager(pager);
}
