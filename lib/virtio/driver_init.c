/*
 * driver_init: one driver laid out in the caller's memory, and what it shares with the device in the caller's DMA memory.
 *
 * Why this shape: the same walk measures (no base) and lays out, so the two cannot disagree. Areas have room for the largest
 * ring in either form, since only the device says which it will be.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/opts.h"
#include "virtio/driver.h"

#define ALIGN 64u

/* Memory handed out piece by piece; base NULL = only measured. */
struct carve {
	unsigned char *base;
	uint64_t addr;
	uint64_t used;
};

static void *carve(struct carve *from, uint64_t count, uint64_t size)
{
	uint64_t at = ph_round_up(from->used, ALIGN);
	from->used = at + count * size;
	return from->base == NULL ? NULL : from->base + (size_t)at;
}

static struct ph_driver_area carve_area(struct carve *from, uint64_t bytes)
{
	unsigned char *here = carve(from, 1, bytes);
	struct ph_driver_area area = { here, here == NULL ? 0 : from->addr + (uint64_t)(here - from->base) };
	return area;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void lay_out_queue(struct carve *mem, struct carve *dma, struct ph_driver_queue *queue, uint32_t most)
{
	uint32_t packed = PH_RING_PACKED;
	void *memory = carve(mem, 1, ph_ring_driver_memory(most, most));
	uint64_t desc = larger(ph_ring_desc_area_bytes(0, most), ph_ring_desc_area_bytes(packed, most));
	uint64_t driver = larger(ph_ring_driver_area_bytes(0, most), ph_ring_driver_area_bytes(packed, most));
	uint64_t device = larger(ph_ring_device_area_bytes(0, most), ph_ring_device_area_bytes(packed, most));
	struct ph_driver_area areas[] = { carve_area(dma, desc), carve_area(dma, driver), carve_area(dma, device) };
	if (queue == NULL)
		return;
	queue->desc = areas[0];
	queue->driver = areas[1];
	queue->device = areas[2];
	queue->memory = memory;
	queue->most = most;
}

static void lay_out_batches(struct carve *mem, struct pagehint_driver *d, const struct pagehint_driver_opts *o)
{
	struct ph_driver_batch *batches = carve(mem, o->max_batches, sizeof(*batches));
	if (batches != NULL)
		memset(batches, 0, o->max_batches * sizeof(*batches));
	for (uint32_t i = 0; i < o->max_batches; i++) {
		struct pagehint_run *runs = carve(mem, o->batch_runs, sizeof(*runs));
		if (batches != NULL)
			batches[i].runs = runs;
	}
	if (d != NULL)
		d->batches = batches;
}

/* Everything; twice: to measure, and for good. */
static struct pagehint_driver *lay_out(struct carve *mem, struct carve *dma, const struct pagehint_driver_opts *o)
{
	struct pagehint_driver *d = carve(mem, 1, sizeof(*d));
	if (d != NULL)
		memset(d, 0, sizeof(*d));
	for (uint32_t q = 0; q < PAGEHINT_BALLOON_Q_COUNT; q++)
		lay_out_queue(mem, dma, d == NULL ? NULL : &d->queues[q],
			      q == PAGEHINT_BALLOON_Q_HINT || q == PAGEHINT_BALLOON_Q_REPORT ? o->ring_size
			      : o->ring_size < PH_DRIVER_SMALL_RING                          ? o->ring_size
											     : PH_DRIVER_SMALL_RING);
	void *held = carve(mem, o->max_held, sizeof(struct pagehint_run));
	void *hints = carve(mem, o->max_hints, sizeof(struct ph_hint));
	void *buffers = carve(mem, o->ring_size, sizeof(struct ph_ring_buffer));
	lay_out_batches(mem, d, o);
	struct ph_driver_area inflate = carve_area(dma, PH_DRIVER_PFN_SLOTS * PH_DRIVER_PFNS * UINT64_C(4));
	struct ph_driver_area deflate = carve_area(dma, PH_DRIVER_PFN_SLOTS * PH_DRIVER_PFNS * UINT64_C(4));
	struct ph_driver_area tables = carve_area(dma, PH_DRIVER_TABLES_DESCS * (uint64_t)PH_DESC_BYTES);
	struct ph_driver_area entries =
		carve_area(dma, PAGEHINT_DRIVER_STATS_MAX * (uint64_t)PAGEHINT_BALLOON_STAT_BYTES);
	struct ph_driver_area ids = carve_area(dma, PH_DRIVER_HINT_IDS * UINT64_C(4));
	if (d == NULL)
		return NULL;
	d->held.runs = held;
	d->held.room = o->max_held;
	d->hints.list = hints;
	d->hints.room = o->max_hints;
	d->hints.ids = ids;
	d->buffers = buffers;
	d->inflate.pages = inflate;
	d->deflate.pages = deflate;
	d->tables = tables;
	d->stats_entries = entries;
	return d;
}

static void measure(const struct pagehint_driver_opts *o, uint64_t *ret_bytes, uint64_t *ret_dma_bytes)
{
	struct carve mem = { 0 }, dma = { 0 };
	(void)lay_out(&mem, &dma, o);
	*ret_bytes = mem.used;
	*ret_dma_bytes = dma.used;
}

int pagehint_driver_size(const struct pagehint_driver_opts *opts, uint64_t *ret_bytes, uint64_t *ret_dma_bytes)
{
	struct pagehint_driver_opts o;
	if (ret_bytes == NULL || ret_dma_bytes == NULL)
		return -EINVAL;
	int r = ph_driver_opts(&o, opts);
	if (r != 0)
		return r;
	measure(&o, ret_bytes, ret_dma_bytes);
	return 0;
}

int pagehint_driver_init(void *mem, uint64_t bytes, void *dma, struct pagehint_virtio *virtio,
			 const struct pagehint_driver_ops *ops, void *ctx, const struct pagehint_driver_opts *opts,
			 struct pagehint_driver **ret_driver)
{
	struct pagehint_driver_opts o;
	struct pagehint_driver_ops table;
	uint64_t need, need_dma;
	if (mem == NULL || dma == NULL || virtio == NULL || opts == NULL || ret_driver == NULL)
		return -EINVAL;
	int r = ph_driver_opts(&o, opts);
	if (r == 0)
		r = PH_OPTS_IN(table, ops);
	if (r != 0)
		return r;
	measure(&o, &need, &need_dma);
	if ((uintptr_t)mem % ALIGN != 0 || (uintptr_t)dma % ALIGN != 0 || o.dma_address % ALIGN != 0 || bytes < need ||
	    o.dma_bytes < need_dma || !ph_sum_fits(o.dma_address, o.dma_bytes) ||
	    (table.take != NULL && table.give == NULL))
		return -EINVAL;
	struct carve from = { .base = mem }, shared = { .base = dma, .addr = o.dma_address };
	struct pagehint_driver *d = lay_out(&from, &shared, &o);
	d->virtio = virtio;
	d->ops = table;
	d->ctx = ctx;
	d->opts = o;
	d->oom_frames = o.oom_frames;
	d->retry_gap = PH_DRIVER_RETRY_NS;
	d->trouble = "it was not started";
	*ret_driver = d;
	return 0;
}

void ph_driver_clock(struct pagehint_driver *d, uint64_t now_ns)
{
	if (now_ns > d->now_ns)
		d->now_ns = now_ns;
}

uint32_t ph_driver_frame_shift(const struct pagehint_driver *d)
{
	return d->opts.frame_shift;
}

uint32_t ph_driver_batch_runs(const struct pagehint_driver *d)
{
	return d->opts.batch_runs;
}
