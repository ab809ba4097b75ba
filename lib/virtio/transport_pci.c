/*
 * transport_pci: virtio-pci, modern: vendor capabilities say in which BAR the common, notify, interrupt and device registers
 * lie.
 * Invariant: no access goes outside the window that a capability named; a capability that is too short, or wraps, is no
 * capability.
 * Source: OASIS virtio 1.3, section 4.1.4
 */
#include <errno.h>

#include <pagehint/balloon.h>

#include "virtio/transport.h"

enum {
	PCI_ID = 0x00,
	PCI_COMMAND = 0x04,
	PCI_CAPABILITIES = 0x34,
	PCI_COMMAND_MEMORY = 1u << 1,
	PCI_COMMAND_MASTER = 1u << 2,
	PCI_STATUS_HAS_CAPABILITIES = 1u << 20, /* of the word at PCI_COMMAND */
	PCI_CAPABILITY_VENDOR = 0x09
};

#define VENDOR 0x1af4u
#define DEVICE_MODERN (0x1040u + PAGEHINT_BALLOON_DEVICE_ID)
#define DEVICE_TRANSITIONAL 0x1002u
#define CAPABILITIES_MAX 48 /* so many fit into configuration space */

/* types of a capability, and how long what we use of it is */
enum { CAP_COMMON = 1, CAP_NOTIFY = 2, CAP_ISR = 3, CAP_DEVICE = 4 };
enum { COMMON_BYTES = 56, NOTIFY_BYTES = 2, ISR_BYTES = 1 };

/* the common registers */
enum {
	COMMON_DEVICE_FEATURES_SEL = 0,
	COMMON_DEVICE_FEATURES = 4,
	COMMON_DRIVER_FEATURES_SEL = 8,
	COMMON_DRIVER_FEATURES = 12,
	COMMON_CONFIG_VECTOR = 16,
	COMMON_STATUS = 20,
	COMMON_GENERATION = 21,
	COMMON_QUEUE_SEL = 22,
	COMMON_QUEUE_SIZE = 24,
	COMMON_QUEUE_VECTOR = 26,
	COMMON_QUEUE_ENABLE = 28,
	COMMON_QUEUE_NOTIFY_OFF = 30,
	COMMON_QUEUE_DESC = 32,
	COMMON_QUEUE_DRIVER = 40,
	COMMON_QUEUE_DEVICE = 48
};

static uint16_t get16(const struct pagehint_virtio *v, uint32_t reg)
{
	return v->access.read16(v->access_ctx, v->common.bar, v->common.offset + reg);
}

static void set16(const struct pagehint_virtio *v, uint32_t reg, uint16_t value)
{
	v->access.write16(v->access_ctx, v->common.bar, v->common.offset + reg, value);
}

static uint32_t get32(const struct pagehint_virtio *v, uint32_t reg)
{
	return v->access.read32(v->access_ctx, v->common.bar, v->common.offset + reg);
}

static void set32(const struct pagehint_virtio *v, uint32_t reg, uint32_t value)
{
	v->access.write32(v->access_ctx, v->common.bar, v->common.offset + reg, value);
}

static void set64(const struct pagehint_virtio *v, uint32_t reg, uint64_t value)
{
	set32(v, reg, (uint32_t)value);
	set32(v, reg + 4, (uint32_t)(value >> 32));
}

static uint32_t get_status(void *ctx)
{
	const struct pagehint_virtio *v = ctx;
	return v->access.read8(v->access_ctx, v->common.bar, v->common.offset + COMMON_STATUS);
}

static void set_status(void *ctx, uint32_t status)
{
	const struct pagehint_virtio *v = ctx;
	v->access.write8(v->access_ctx, v->common.bar, v->common.offset + COMMON_STATUS, (uint8_t)status);
}

static uint64_t get_features(void *ctx)
{
	set32(ctx, COMMON_DEVICE_FEATURES_SEL, 1);
	uint64_t high = get32(ctx, COMMON_DEVICE_FEATURES);
	set32(ctx, COMMON_DEVICE_FEATURES_SEL, 0);
	return high << 32 | get32(ctx, COMMON_DEVICE_FEATURES);
}

static void set_features(void *ctx, uint64_t features)
{
	set32(ctx, COMMON_DRIVER_FEATURES_SEL, 1);
	set32(ctx, COMMON_DRIVER_FEATURES, (uint32_t)(features >> 32));
	set32(ctx, COMMON_DRIVER_FEATURES_SEL, 0);
	set32(ctx, COMMON_DRIVER_FEATURES, (uint32_t)features);
}

static uint32_t queue_max(void *ctx, uint32_t index)
{
	set16(ctx, COMMON_QUEUE_SEL, (uint16_t)index);
	return get16(ctx, COMMON_QUEUE_SIZE);
}

/* A device that cannot give the vector reads back "none" (section 4.1.5.1.2). */
static int set_vector(const struct pagehint_virtio *v, uint32_t reg)
{
	set16(v, reg, (uint16_t)v->vector);
	return get16(v, reg) == v->vector ? 0 : -ENODEV;
}

static int queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	struct pagehint_virtio *v = ctx;
	if (queue->index >= PH_VIRTIO_QUEUES || queue->size == 0 || queue->size > queue_max(v, queue->index))
		return -EINVAL;
	uint64_t at = (uint64_t)get16(v, COMMON_QUEUE_NOTIFY_OFF) * v->notify_multiplier;
	if (at + NOTIFY_BYTES > v->notify.length || get16(v, COMMON_QUEUE_ENABLE) != 0)
		return -ENODEV;
	v->notify_at[queue->index] = (uint32_t)at;
	if (v->vector != PAGEHINT_VIRTIO_NO_VECTOR &&
	    (set_vector(v, COMMON_CONFIG_VECTOR) < 0 || set_vector(v, COMMON_QUEUE_VECTOR) < 0))
		return -ENODEV;
	set16(v, COMMON_QUEUE_SIZE, (uint16_t)queue->size);
	set64(v, COMMON_QUEUE_DESC, queue->desc);
	set64(v, COMMON_QUEUE_DRIVER, queue->driver);
	set64(v, COMMON_QUEUE_DEVICE, queue->device);
	set16(v, COMMON_QUEUE_ENABLE, 1);
	return 0;
}

static void notify(void *ctx, uint32_t index)
{
	const struct pagehint_virtio *v = ctx;
	if (index < PH_VIRTIO_QUEUES)
		v->access.write16(v->access_ctx, v->notify.bar, v->notify.offset + v->notify_at[index],
				  (uint16_t)index);
}

/* A device without this much config space has zeroes there. */
static int config_has(const struct pagehint_virtio *v, uint32_t offset)
{
	return (uint64_t)offset + 4 <= v->device.length;
}

static uint32_t config_read(void *ctx, uint32_t offset)
{
	const struct pagehint_virtio *v = ctx;
	if (!config_has(v, offset))
		return 0;
	return v->access.read32(v->access_ctx, v->device.bar, v->device.offset + offset);
}

static void config_write(void *ctx, uint32_t offset, uint32_t value)
{
	const struct pagehint_virtio *v = ctx;
	if (config_has(v, offset))
		v->access.write32(v->access_ctx, v->device.bar, v->device.offset + offset, value);
}

static uint32_t config_generation(void *ctx)
{
	const struct pagehint_virtio *v = ctx;
	return v->access.read8(v->access_ctx, v->common.bar, v->common.offset + COMMON_GENERATION);
}

static uint32_t interrupt_status(void *ctx)
{
	const struct pagehint_virtio *v = ctx;
	return v->access.read8(v->access_ctx, v->isr.bar, v->isr.offset);
}

static const struct pagehint_virtio_ops pci_ops = {
	.struct_size = sizeof(pci_ops),
	.name = "virtio-pci",
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

static uint32_t pci(const struct pagehint_virtio *v, uint32_t offset)
{
	return v->access.pci_read32(v->access_ctx, offset & 0xfcu);
}

/* The first capability of each type counts, as the device prefers it; but one that we cannot use does not count. */
static void take_capability(struct pagehint_virtio *v, uint32_t at, uint32_t header)
{
	uint32_t type = header >> 24, bytes = header >> 16 & 0xff;
	struct ph_virtio_window found = { .bar = pci(v, at + 4) & 0xff,
					  .offset = pci(v, at + 8),
					  .length = pci(v, at + 12) };
	if (bytes < 16 || found.bar > 5 || found.offset + found.length > UINT32_MAX)
		return;
	if (type == CAP_COMMON && v->common.length == 0 && found.length >= COMMON_BYTES)
		v->common = found;
	if (type == CAP_ISR && v->isr.length == 0 && found.length >= ISR_BYTES)
		v->isr = found;
	if (type == CAP_DEVICE && v->device.length == 0)
		v->device = found;
	if (type == CAP_NOTIFY && v->notify.length == 0 && found.length >= NOTIFY_BYTES && bytes >= 20) {
		v->notify = found;
		v->notify_multiplier = pci(v, at + 16);
	}
}

static int find_registers(struct pagehint_virtio *v)
{
	uint32_t at = pci(v, PCI_CAPABILITIES) & 0xfc;
	int hops = 0;
	if ((pci(v, PCI_COMMAND) & PCI_STATUS_HAS_CAPABILITIES) == 0)
		return 0;
	for (; at >= 0x40 && hops < CAPABILITIES_MAX; hops++) {
		uint32_t header = pci(v, at);
		if ((header & 0xff) == PCI_CAPABILITY_VENDOR)
			take_capability(v, at, header);
		at = header >> 8 & 0xfc;
	}
	if (hops == CAPABILITIES_MAX)
		return -ENODEV; /* they loop */
	return v->common.length != 0;
}

int pagehint_virtio_init_pci(void *mem, uint64_t bytes, const struct pagehint_virtio_access *access, void *ctx,
			     uint32_t vector, struct pagehint_virtio **ret_virtio)
{
	struct pagehint_virtio *v = NULL;
	if (ret_virtio == NULL || vector > PAGEHINT_VIRTIO_NO_VECTOR)
		return -EINVAL;
	int r = ph_virtio_begin(mem, bytes, access, ctx, &v);
	if (r < 0)
		return r;
	const struct pagehint_virtio_access *a = &v->access;
	if (a->pci_read32 == NULL || a->read8 == NULL || a->read16 == NULL || a->read32 == NULL || a->write8 == NULL ||
	    a->write16 == NULL || a->write32 == NULL)
		return -EINVAL;
	v->ops = pci_ops;
	v->vector = vector;
	uint32_t id = pci(v, PCI_ID);
	int transitional = id >> 16 == DEVICE_TRANSITIONAL;
	if ((id & 0xffff) != VENDOR || (id >> 16 != DEVICE_MODERN && !transitional))
		return -ENODEV;
	r = find_registers(v);
	if (r <= 0)
		return r == 0 && transitional ? -EOPNOTSUPP : -ENODEV;
	if (v->notify.length == 0 || v->isr.length == 0)
		return -ENODEV;
	if (a->pci_write32 != NULL)
		/* the upper half is the status register, whose bits are cleared by writing ones */
		a->pci_write32(ctx, PCI_COMMAND,
			       (pci(v, PCI_COMMAND) & 0xffff) | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	*ret_virtio = v;
	return 0;
}
