/*
 * balloon_device: a balloon device in this process, as a driver sees it: a transport over plain variables, and queues that are
 * served when a test says so. It keeps count of everything, and can be told to be slow, dead, or gone.
 *
 * Beside it, frames: an embedder that notes of each frame who has it, so that a frame lost or given twice is found at once.
 */
#ifndef TESTS_SUPPORT_BALLOON_DEVICE_H
#define TESTS_SUPPORT_BALLOON_DEVICE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/driver.h>

#include "virtio/ring_device.h"

#define DEV_QUEUES 5u
#define DEV_FRAMES 65536u /* frames [0, DEV_FRAMES) exist */
#define DEV_DMA UINT64_C(0x100000000)
#define DEV_ALL                                                                                   \
	(PAGEHINT_BALLOON_F_ALL | PAGEHINT_VIRTIO_F_VERSION_1 | PAGEHINT_VIRTIO_F_INDIRECT_DESC | \
	 PAGEHINT_VIRTIO_F_EVENT_IDX)
#define SECOND_NS UINT64_C(1000000000)
#define MILLISECOND_NS UINT64_C(1000000)

enum { WITH_EMBEDDER = 0, WITH_DRIVER = 1 };

struct dev_queue {
	struct pagehint_virtio_queue setup;
	struct ph_ring_device ring;
	void *memory;
	int is_live;
};

struct dev {
	/* what the device is */
	uint64_t offered;
	uint32_t queue_max[DEV_QUEUES]; /* by index on the wire */
	uint32_t refuses_features;      /* FEATURES_OK does not stick */
	uint32_t resets_after;          /* reads of the status until a reset is confirmed */
	uint32_t is_gone;               /* reads as all ones */
	uint32_t is_unsteady;           /* the generation changes at each read */
	/* its registers */
	uint64_t features;
	uint32_t status, generation, reset_pending;
	uint32_t config[4];
	struct dev_queue queues[DEV_QUEUES];
	/* what was seen */
	uint32_t kicks, resets, config_writes;
	uint32_t status_log[16], status_n;
	uint64_t told[DEV_FRAMES / 64]; /* pages that are in the balloon, as the device knows */
	uint64_t told_n;
	struct ph_segment reports[4096];
	uint32_t reports_n;
	uint64_t report_bytes;
	struct ph_segment hints[512];
	uint32_t hints_n;
	uint32_t ids[64], ids_n;
	unsigned char stats[512];
	uint32_t stats_bytes;
	uint64_t stats_ticket; /* the buffer that it keeps */
	/* the driver's side */
	unsigned char *dma;
	uint64_t dma_bytes;
	void *virtio_memory, *memory;
	struct pagehint_virtio *virtio;
	struct pagehint_driver *driver;
	struct pagehint_driver_opts opts;
	struct pagehint_driver_ops ops;
	/* the embedder's side */
	unsigned char owner[DEV_FRAMES];
	uint64_t next_take, take_most, with_driver, run_frames;
	uint32_t takes, before_n, stats_calls;
	int take_error;
	char order[64]; /* b = before_inflate, t = take */
};

/* ---- registers ---- */

static inline uint32_t dev_get_status(void *ctx)
{
	struct dev *d = ctx;
	if (d->is_gone)
		return 0xff;
	if (d->reset_pending != 0 && --d->reset_pending == 0)
		d->status = 0;
	return d->status;
}

static inline void dev_set_status(void *ctx, uint32_t status)
{
	struct dev *d = ctx;
	if (d->status_n < 16)
		d->status_log[d->status_n++] = status;
	if (status != 0) {
		if (d->refuses_features)
			status &= ~PAGEHINT_VIRTIO_STATUS_FEATURES_OK;
		d->status = status;
		return;
	}
	d->resets++;
	for (uint32_t i = 0; i < DEV_QUEUES; i++)
		d->queues[i].is_live = 0;
	if (d->resets_after == 0)
		d->status = 0;
	else
		d->reset_pending = d->resets_after;
}

static inline uint64_t dev_get_features(void *ctx)
{
	return ((struct dev *)ctx)->offered;
}

static inline void dev_set_features(void *ctx, uint64_t features)
{
	struct dev *d = ctx;
	assert_int_equal(features & ~d->offered, 0);
	d->features = features;
}

static inline uint32_t dev_queue_max(void *ctx, uint32_t index)
{
	return index < DEV_QUEUES ? ((struct dev *)ctx)->queue_max[index] : 0;
}

/* guest memory is what driver and device share; pages of reports are never touched */
static inline int dev_host(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host)
{
	struct dev *d = ctx;
	(void)want_write;
	if (addr < DEV_DMA || addr - DEV_DMA > d->dma_bytes || bytes > d->dma_bytes - (addr - DEV_DMA))
		return -ERANGE;
	*ret_host = d->dma + (addr - DEV_DMA);
	return 0;
}

static inline void *dev_at(struct dev *d, uint64_t addr)
{
	void *host = NULL;
	assert_int_equal(dev_host(d, addr, 1, 1, &host), 0);
	return host;
}

static inline int dev_queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	struct dev *d = ctx;
	if (queue->index >= DEV_QUEUES || queue->size > d->queue_max[queue->index])
		return -EINVAL;
	struct dev_queue *q = &d->queues[queue->index];
	uint32_t form = ph_ring_form(d->features) & ~PH_RING_IN_ORDER;
	struct ph_ring_setup setup = { .form = form, .size = queue->size };
	setup.place.desc = dev_at(d, queue->desc);
	setup.place.driver = dev_at(d, queue->driver);
	setup.place.device = dev_at(d, queue->device);
	setup.place.desc_bytes = ph_ring_desc_area_bytes(form, queue->size);
	setup.place.driver_bytes = ph_ring_driver_area_bytes(form, queue->size);
	setup.place.device_bytes = ph_ring_device_area_bytes(form, queue->size);
	setup.memory.ctx = d;
	setup.memory.host = dev_host;
	free(q->memory);
	q->memory = malloc(ph_ring_device_memory(queue->size));
	assert_int_equal(ph_ring_device_init(&q->ring, &setup, q->memory), 0);
	q->setup = *queue;
	q->is_live = 1;
	return 0;
}

static inline void dev_notify(void *ctx, uint32_t index)
{
	struct dev *d = ctx;
	assert_true(index < DEV_QUEUES && d->queues[index].is_live);
	d->kicks++;
}

static inline uint32_t dev_config_read(void *ctx, uint32_t offset)
{
	return ((struct dev *)ctx)->config[offset / 4];
}

static inline void dev_config_write(void *ctx, uint32_t offset, uint32_t value)
{
	struct dev *d = ctx;
	assert_true(offset == PAGEHINT_BALLOON_CONFIG_ACTUAL || offset == PAGEHINT_BALLOON_CONFIG_POISON_VAL);
	d->config[offset / 4] = value;
	d->config_writes++;
}

static inline uint32_t dev_generation(void *ctx)
{
	struct dev *d = ctx;
	d->generation += d->is_unsteady;
	return d->generation;
}

/* ---- the embedder ---- */

static inline int dev_take(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max,
			   uint32_t *ret_n)
{
	struct dev *d = ctx;
	(void)what_for;
	d->takes++;
	if (strlen(d->order) < sizeof(d->order) - 1)
		strcat(d->order, "t");
	if (d->take_error != 0)
		return d->take_error;
	uint32_t n = 0;
	while (n < max && frames != 0 && d->take_most != 0) {
		uint64_t first = d->next_take, k = 0;
		while (d->owner[first] != WITH_EMBEDDER)
			first = (first + 1) % DEV_FRAMES;
		while (k < frames && k < d->run_frames && k < d->take_most && first + k < DEV_FRAMES &&
		       d->owner[first + k] == WITH_EMBEDDER)
			d->owner[first + k++] = WITH_DRIVER;
		runs[n++] = (struct pagehint_run) { first, k };
		d->next_take = (first + k + 1) % DEV_FRAMES; /* a gap, so that runs stay apart */
		d->take_most -= k;
		d->with_driver += k;
		frames -= k;
	}
	if (n == 0)
		return -ENOSPC;
	*ret_n = n;
	return 0;
}

static inline void dev_give(void *ctx, uint32_t what_for, const struct pagehint_run *runs, uint32_t n)
{
	struct dev *d = ctx;
	(void)what_for;
	assert_true(n != 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(runs[i].frames != 0 && runs[i].frame + runs[i].frames <= DEV_FRAMES);
		for (uint64_t f = runs[i].frame; f < runs[i].frame + runs[i].frames; f++) {
			assert_int_equal(d->owner[f], WITH_DRIVER); /* else it is given twice */
			d->owner[f] = WITH_EMBEDDER;
		}
		d->with_driver -= runs[i].frames;
		d->take_most += runs[i].frames;
	}
}

static inline void dev_before_inflate(void *ctx, uint64_t frames)
{
	struct dev *d = ctx;
	assert_true(frames != 0);
	d->before_n++;
	if (strlen(d->order) < sizeof(d->order) - 1)
		strcat(d->order, "b");
}

static inline uint32_t dev_get_stats(void *ctx, struct pagehint_driver_stat *stats, uint32_t max)
{
	struct dev *d = ctx;
	assert_true(max >= 2);
	d->stats_calls++;
	stats[0] = (struct pagehint_driver_stat) { .tag = PAGEHINT_BALLOON_STAT_MEMFREE, .value = 0x1122334455667788 };
	stats[1] = (struct pagehint_driver_stat) { .tag = PAGEHINT_BALLOON_STAT_MAJFLT, .value = d->stats_calls };
	return 2;
}

/* A device that offers everything, an embedder that supplies everything; change both before dev_start. */
static inline struct dev *dev_new(void)
{
	static const struct pagehint_virtio_ops ops = {
		.struct_size = sizeof(ops),
		.name = "fake",
		.get_status = dev_get_status,
		.set_status = dev_set_status,
		.get_features = dev_get_features,
		.set_features = dev_set_features,
		.queue_max = dev_queue_max,
		.queue_setup = dev_queue_setup,
		.notify = dev_notify,
		.config_read = dev_config_read,
		.config_write = dev_config_write,
		.config_generation = dev_generation,
	};
	struct dev *d = calloc(1, sizeof(*d));
	assert_non_null(d);
	d->offered = DEV_ALL;
	for (uint32_t i = 0; i < DEV_QUEUES; i++)
		d->queue_max[i] = 64;
	d->take_most = DEV_FRAMES / 2;
	d->run_frames = 512;
	d->virtio_memory = malloc((size_t)pagehint_virtio_size());
	assert_int_equal(pagehint_virtio_init(d->virtio_memory, pagehint_virtio_size(), &ops, d, &d->virtio), 0);
	d->ops = (struct pagehint_driver_ops) { .struct_size = sizeof(d->ops),
						.take = dev_take,
						.give = dev_give,
						.before_inflate = dev_before_inflate,
						.get_stats = dev_get_stats };
	d->opts = (struct pagehint_driver_opts) { .struct_size = sizeof(d->opts), .dma_address = DEV_DMA };
	return d;
}

static inline void dev_init(struct dev *d)
{
	uint64_t bytes, dma_bytes;
	assert_int_equal(pagehint_driver_size(&d->opts, &bytes, &dma_bytes), 0);
	d->opts.dma_bytes = d->dma_bytes = dma_bytes;
	d->dma = aligned_alloc(64, (size_t)((dma_bytes + 63) / 64 * 64));
	d->memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	assert_non_null(d->dma);
	assert_non_null(d->memory);
	memset(d->memory, 0xa5, (size_t)bytes); /* any content will do */
	assert_int_equal(pagehint_driver_init(d->memory, bytes, d->dma, d->virtio, &d->ops, d, &d->opts, &d->driver),
			 0);
}

static inline void dev_start(struct dev *d)
{
	dev_init(d);
	assert_int_equal(pagehint_driver_start(d->driver, 1), 0);
}

static inline void dev_delete(struct dev *d)
{
	for (uint32_t i = 0; i < DEV_QUEUES; i++)
		free(d->queues[i].memory);
	free(d->dma);
	free(d->memory);
	free(d->virtio_memory);
	free(d);
}

static inline struct pagehint_driver_stats dev_stats(const struct dev *d)
{
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_driver_stats(d->driver, &stats), 0);
	/* the one equation of a driver */
	assert_int_equal(d->with_driver, stats.held + stats.inflating + stats.deflating + stats.hinting);
	return stats;
}

#endif
