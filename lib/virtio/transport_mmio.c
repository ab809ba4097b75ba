/*
 * transport_mmio: virtio-mmio, version 2: one page of 32-bit registers, the device's config space behind them.
 * Source: OASIS virtio 1.3, section 4.2.2
 */
#include <errno.h>

#include <pagehint/balloon.h>

#include "virtio/transport.h"

enum {
	REG_MAGIC = 0x000,
	REG_VERSION = 0x004,
	REG_DEVICE_ID = 0x008,
	REG_DEVICE_FEATURES = 0x010,
	REG_DEVICE_FEATURES_SEL = 0x014,
	REG_DRIVER_FEATURES = 0x020,
	REG_DRIVER_FEATURES_SEL = 0x024,
	REG_QUEUE_SEL = 0x030,
	REG_QUEUE_NUM_MAX = 0x034,
	REG_QUEUE_NUM = 0x038,
	REG_QUEUE_READY = 0x044,
	REG_QUEUE_NOTIFY = 0x050,
	REG_INTERRUPT_STATUS = 0x060,
	REG_INTERRUPT_ACK = 0x064,
	REG_STATUS = 0x070,
	REG_QUEUE_DESC = 0x080,
	REG_QUEUE_DRIVER = 0x090,
	REG_QUEUE_DEVICE = 0x0a0,
	REG_CONFIG_GENERATION = 0x0fc,
	REG_CONFIG = 0x100
};

#define MAGIC 0x74726976u /* "virt" */

static uint32_t get(const struct pagehint_virtio *v, uint32_t reg)
{
	return v->access.read32(v->access_ctx, 0, v->base + reg);
}

static void set(const struct pagehint_virtio *v, uint32_t reg, uint32_t value)
{
	v->access.write32(v->access_ctx, 0, v->base + reg, value);
}

static void set64(const struct pagehint_virtio *v, uint32_t reg, uint64_t value)
{
	set(v, reg, (uint32_t)value);
	set(v, reg + 4, (uint32_t)(value >> 32));
}

static uint32_t get_status(void *ctx)
{
	return get(ctx, REG_STATUS);
}

static void set_status(void *ctx, uint32_t status)
{
	set(ctx, REG_STATUS, status);
}

static uint64_t get_features(void *ctx)
{
	set(ctx, REG_DEVICE_FEATURES_SEL, 1);
	uint64_t high = get(ctx, REG_DEVICE_FEATURES);
	set(ctx, REG_DEVICE_FEATURES_SEL, 0);
	return high << 32 | get(ctx, REG_DEVICE_FEATURES);
}

static void set_features(void *ctx, uint64_t features)
{
	set(ctx, REG_DRIVER_FEATURES_SEL, 1);
	set(ctx, REG_DRIVER_FEATURES, (uint32_t)(features >> 32));
	set(ctx, REG_DRIVER_FEATURES_SEL, 0);
	set(ctx, REG_DRIVER_FEATURES, (uint32_t)features);
}

static uint32_t queue_max(void *ctx, uint32_t index)
{
	set(ctx, REG_QUEUE_SEL, index);
	return get(ctx, REG_QUEUE_NUM_MAX);
}

static int queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	uint32_t most = queue_max(ctx, queue->index);
	if (queue->size == 0 || queue->size > most)
		return -EINVAL;
	if (get(ctx, REG_QUEUE_READY) != 0)
		return -ENODEV; /* the reset was none */
	set(ctx, REG_QUEUE_NUM, queue->size);
	set64(ctx, REG_QUEUE_DESC, queue->desc);
	set64(ctx, REG_QUEUE_DRIVER, queue->driver);
	set64(ctx, REG_QUEUE_DEVICE, queue->device);
	set(ctx, REG_QUEUE_READY, 1);
	return 0;
}

static void notify(void *ctx, uint32_t index)
{
	set(ctx, REG_QUEUE_NOTIFY, index);
}

static uint32_t config_read(void *ctx, uint32_t offset)
{
	return get(ctx, REG_CONFIG + offset);
}

static void config_write(void *ctx, uint32_t offset, uint32_t value)
{
	set(ctx, REG_CONFIG + offset, value);
}

static uint32_t config_generation(void *ctx)
{
	return get(ctx, REG_CONFIG_GENERATION);
}

static uint32_t interrupt_status(void *ctx)
{
	uint32_t why = get(ctx, REG_INTERRUPT_STATUS);
	if (why != 0)
		set(ctx, REG_INTERRUPT_ACK, why);
	return why;
}

static const struct pagehint_virtio_ops mmio_ops = {
	.struct_size = sizeof(mmio_ops),
	.name = "virtio-mmio",
	.get_status = get_status,
	.set_status = set_status,
	.get_features = get_features,
	.set_features = set_features,
	.queue_max = queue_max,
	.queue_setup = queue_setup,
	.notify = notify,
	.config_read = config_read,
	.config_write = config_write,
	.config_generation = config_generation,
	.interrupt_status = interrupt_status,
};

int pagehint_virtio_init_mmio(void *mem, uint64_t bytes, const struct pagehint_virtio_access *access, void *ctx,
			      uint64_t base, struct pagehint_virtio **ret_virtio)
{
	struct pagehint_virtio *v = NULL;
	if (ret_virtio == NULL)
		return -EINVAL;
	int r = ph_virtio_begin(mem, bytes, access, ctx, &v);
	if (r < 0)
		return r;
	if (v->access.read32 == NULL || v->access.write32 == NULL)
		return -EINVAL;
	v->ops = mmio_ops;
	v->base = base;
	if (get(v, REG_MAGIC) != MAGIC)
		return -ENODEV;
	if (get(v, REG_VERSION) == 1)
		return -EOPNOTSUPP;
	if (get(v, REG_VERSION) != 2 || get(v, REG_DEVICE_ID) != PAGEHINT_BALLOON_DEVICE_ID)
		return -ENODEV;
	*ret_virtio = v;
	return 0;
}
