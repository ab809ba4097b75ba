/*
 * record: the order of faults, kept for the next restore of the same snapshot.
 *
 * The blob: little-endian words: magic, version and frame shift, number of runs, one word a run (frame << 10 | frames - 1),
 * and a sum over all before it. It may come from anywhere: every length and every frame is checked before it is used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pager/pager.h"
#include "pager/resolve.h"

#define MAGIC UINT64_C(0x0064726f63656870) /* "phecord" */
#define VERSION 1u
#define HEAD_WORDS 3u
#define RUN_BITS 10

void ph_record(struct pagehint_pager *p, const struct ph_range *g, uint64_t first, uint64_t pages)
{
	uint64_t frames = pages << g->page_shift >> p->frame_shift, frame = ph_range_frame(p, g, first);
	uint64_t at = atomic_fetch_add_explicit(&p->record_n, 1, memory_order_relaxed);
	if (at >= p->record_max) {
		PH_PAGER_COUNT(p, record_dropped, 1);
		return;
	}
	atomic_store_explicit(&p->record[at], 1 + (frame << RUN_BITS | (frames - 1)), memory_order_release);
}

static uint64_t sum_of(const unsigned char *bytes, uint64_t n)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (uint64_t i = 0; i < n; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	return sum;
}

static void put(unsigned char *to, uint64_t word)
{
	for (unsigned i = 0; i < 8; i++)
		to[i] = (unsigned char)(word >> 8 * i);
}

static uint64_t get(const unsigned char *from)
{
	uint64_t word = 0;
	for (unsigned i = 0; i < 8; i++)
		word |= (uint64_t)from[i] << 8 * i;
	return word;
}

int pagehint_pager_record(struct pagehint_pager *pager, void *blob, uint64_t room, uint64_t *ret_bytes)
{
	unsigned char *to = blob;
	if (pager == NULL || ret_bytes == NULL || (blob == NULL && room != 0))
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	if (pager->record == NULL)
		return -EOPNOTSUPP;
	uint64_t n = atomic_load(&pager->record_n), runs = 0;
	n = n < pager->record_max ? n : pager->record_max;
	uint64_t need = (HEAD_WORDS + n + 1) * 8;
	if (need > room) {
		*ret_bytes = need;
		return 0;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t word = atomic_load_explicit(&pager->record[i], memory_order_acquire);
		if (word != 0) /* else its writer is between two instructions */
			put(to + (HEAD_WORDS + runs++) * 8, word - 1);
	}
	put(to, MAGIC);
	put(to + 8, (uint64_t)VERSION << 32 | pager->frame_shift);
	put(to + 16, runs);
	put(to + (HEAD_WORDS + runs) * 8, sum_of(to, (HEAD_WORDS + runs) * 8));
	*ret_bytes = (HEAD_WORDS + runs + 1) * 8;
	return 0;
}

static int check(struct pagehint_pager *p, const unsigned char *from, uint64_t bytes, uint64_t *ret_n)
{
	if (bytes % 8 != 0 || bytes < (HEAD_WORDS + 1) * 8)
		return -EINVAL;
	uint64_t n = bytes / 8 - HEAD_WORDS - 1;
	if (get(from) != MAGIC || get(from + 8) != ((uint64_t)VERSION << 32 | p->frame_shift) || get(from + 16) != n ||
	    get(from + bytes - 8) != sum_of(from, bytes - 8))
		return -EINVAL;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t word = get(from + (HEAD_WORDS + i) * 8), frame = word >> RUN_BITS;
		const struct ph_range *g = ph_range_of_frame(p, frame);
		if (g == NULL || (word & ((1u << RUN_BITS) - 1)) >= (g->bytes >> p->frame_shift) - (frame - g->frame))
			return -EINVAL;
	}
	*ret_n = n;
	return 0;
}

/* A bit for each page that is worth bringing along. Not there yet for any region when this fails. */
static int make_wanted(struct pagehint_pager *p, uintptr_t *maps, uint32_t regions)
{
	for (uint32_t i = 0; i < regions; i++) {
		uint64_t words = (ph_range_pages(&p->regions[i]) + 63) / 64;
		if (atomic_load(&p->regions[i].wanted) != 0)
			maps[i] = atomic_load(&p->regions[i].wanted);
		else
			maps[i] = (uintptr_t)p->sys->map_memory(p->sys->ctx, (size_t)words * 8);
		if (maps[i] == 0)
			return -ENOMEM;
	}
	return 0;
}

static void want(struct pagehint_pager *p, const struct pagehint_run *run, const uintptr_t *maps)
{
	const struct ph_range *g = ph_range_of_frame(p, run->frame);
	_Atomic uint64_t *words = (_Atomic uint64_t *)maps[ph_range_index(p, g)];
	uint64_t first, end;
	ph_range_span(p, g, run->frame, run->frames, &first, &end);
	for (; first < end; first++)
		atomic_fetch_or_explicit(&words[first / 64], UINT64_C(1) << first % 64, memory_order_relaxed);
}

static int adopt(struct pagehint_pager *p, const unsigned char *from, uint64_t n, uintptr_t *maps)
{
	uint32_t regions = atomic_load(&p->regions_n);
	struct pagehint_run *runs = calloc(n == 0 ? 1 : n, sizeof(*runs));
	if (runs == NULL)
		return -ENOMEM;
	int r = make_wanted(p, maps, regions);
	for (uint64_t i = 0; i < n && r == 0; i++) {
		uint64_t word = get(from + (HEAD_WORDS + i) * 8);
		runs[i] = (struct pagehint_run) { word >> RUN_BITS, (word & ((1u << RUN_BITS) - 1)) + 1 };
		want(p, &runs[i], maps);
	}
	for (uint32_t i = 0; i < regions; i++) {
		uint64_t words = (ph_range_pages(&p->regions[i]) + 63) / 64;
		if (r == 0)
			atomic_store(&p->regions[i].wanted, maps[i]);
		else if (maps[i] != 0 && maps[i] != atomic_load(&p->regions[i].wanted))
			p->sys->unmap_memory(p->sys->ctx, (void *)maps[i], (size_t)words * 8);
	}
	if (r < 0) {
		free(runs);
		return r;
	}
	free(p->prefetch);
	p->prefetch = runs;
	p->prefetch_n = n;
	p->prefetch_at = 0;
	return 0;
}

int pagehint_pager_prefetch(struct pagehint_pager *pager, const void *blob, uint64_t bytes)
{
	uint64_t n = 0;
	if (pager == NULL || blob == NULL)
		return -EINVAL;
	if (!ph_pager_is_owner(pager))
		return -ENODEV;
	int r = check(pager, blob, bytes, &n);
	if (r < 0)
		return r;
	uintptr_t *maps = calloc(pager->regions_max, sizeof(*maps));
	if (maps == NULL)
		return -ENOMEM;
	r = adopt(pager, blob, n, maps);
	free(maps);
	return r;
}
