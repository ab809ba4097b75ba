/*
 * ends_link: the transport between our driver and our device in one process: one end's calls are the other's. A notification is
 * noted; who plays the device kicks it. Rings lie in the guest's memory, which starts at `ram`.
 */
#ifndef TESTS_SUPPORT_ENDS_LINK_H
#define TESTS_SUPPORT_ENDS_LINK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>

#include <pagehint/device.h>
#include <pagehint/virtio.h>

struct ends_link {
	struct pagehint_device *device;
	unsigned char *ram;
	uint32_t generation;
	uint32_t kicked; /* bit i: queue i has something */
	uint64_t now;
	int twice; /* a call of a register that ends with -ENODEV is made once more: something fails in this test */
	struct pagehint_virtio_queue at[PAGEHINT_BALLOON_Q_COUNT]; /* as the driver set them up */
};

#define LINK_CALL(link, what)                                  \
	do {                                                   \
		int called = (what);                           \
		if (called == -ENODEV && (link)->twice)        \
			called = (what);                       \
		assert_true(called == 0 || called == -EAGAIN); \
	} while (0)

static inline uint32_t link_get_status(void *ctx)
{
	return pagehint_device_status(((struct ends_link *)ctx)->device);
}

static inline void link_set_status(void *ctx, uint32_t status)
{
	struct ends_link *l = ctx;
	LINK_CALL(l, pagehint_device_set_status(l->device, status));
}

static inline uint64_t link_get_features(void *ctx)
{
	return pagehint_device_features(((struct ends_link *)ctx)->device);
}

static inline void link_set_features(void *ctx, uint64_t features)
{
	struct ends_link *l = ctx;
	LINK_CALL(l, pagehint_device_set_features(l->device, features));
}

static inline uint32_t link_queue_max(void *ctx, uint32_t index)
{
	return pagehint_device_queue_role(((struct ends_link *)ctx)->device, index) < 0 ? 0 : 128;
}

static inline struct pagehint_device_queue link_queue(const struct ends_link *l, uint32_t index)
{
	const struct pagehint_virtio_queue *queue = &l->at[index];
	struct pagehint_device_queue q = {
		.struct_size = sizeof(q),
		.desc = l->ram + queue->desc,
		.driver = l->ram + queue->driver,
		.device = l->ram + queue->device,
		.size = queue->size,
	};
	if ((pagehint_device_negotiated(l->device) & PAGEHINT_VIRTIO_F_RING_PACKED) != 0)
		q.base = 0x80008000; /* both at the start, both wrap counters set */
	return q;
}

static inline int link_queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	struct ends_link *l = ctx;
	l->at[queue->index] = *queue;
	const struct pagehint_device_queue q = link_queue(l, queue->index);
	int r = pagehint_device_queue_start(l->device, queue->index, &q);
	if (r == -ENODEV && l->twice)
		r = pagehint_device_queue_start(l->device, queue->index, &q);
	return r;
}

static inline void link_notify(void *ctx, uint32_t index)
{
	((struct ends_link *)ctx)->kicked |= 1u << index;
}

static inline uint32_t link_config_read(void *ctx, uint32_t offset)
{
	uint32_t value = 0;
	assert_int_equal(pagehint_device_config_read(((struct ends_link *)ctx)->device, offset, &value, 4), 0);
	return le32toh(value);
}

static inline void link_config_write(void *ctx, uint32_t offset, uint32_t value)
{
	struct ends_link *l = ctx;
	uint32_t wire = htole32(value);
	LINK_CALL(l, pagehint_device_config_write(l->device, l->now, offset, &wire, 4));
}

static inline uint32_t link_config_generation(void *ctx)
{
	return ((struct ends_link *)ctx)->generation;
}

/* The device has work for its embedder: interrupts of queues need no saying here, both ends take turns anyway. */
static inline void link_told(struct ends_link *l, const struct pagehint_device_work *work)
{
	l->generation += (work->events & PAGEHINT_DEVICE_EVENT_CONFIG) != 0;
}

static const struct pagehint_virtio_ops link_ops = {
	.struct_size = sizeof(link_ops),
	.name = "device.h",
	.get_status = link_get_status,
	.set_status = link_set_status,
	.get_features = link_get_features,
	.set_features = link_set_features,
	.queue_max = link_queue_max,
	.queue_setup = link_queue_setup,
	.notify = link_notify,
	.config_read = link_config_read,
	.config_write = link_config_write,
	.config_generation = link_config_generation,
};

#endif
