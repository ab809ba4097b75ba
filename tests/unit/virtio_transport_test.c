/* The two built-in transports over registers that are plain memory: where they look, what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pagehint/virtio.h>

#include "virtio/transport.h"

/* Registers in two BARs; every access is noted. */
struct machine {
	unsigned char config[256];
	unsigned char bar[2][8192];
	uint64_t features;
	uint32_t accesses;
	uint32_t last_bar;
	uint64_t last_offset;
	uint32_t refuses_vector;
};

static struct machine mc;
static struct pagehint_virtio memory;

static unsigned char *at(uint32_t bar, uint64_t offset, uint32_t bytes)
{
	assert_true(bar <= 1);
	assert_true(offset + bytes <= sizeof(mc.bar[0]));
	assert_int_equal(offset % bytes, 0);
	mc.accesses++;
	mc.last_bar = bar;
	mc.last_offset = offset;
	return &mc.bar[bar][offset];
}

/* registers are little-endian, whatever the processor is */
static uint64_t load(const unsigned char *from, uint32_t bytes)
{
	uint64_t v = 0;
	for (uint32_t i = 0; i < bytes; i++)
		v |= (uint64_t)from[i] << 8 * i;
	return v;
}

static void store(unsigned char *to, uint32_t bytes, uint64_t v)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = (unsigned char)(v >> 8 * i);
}

static uint8_t read8(void *ctx, uint32_t bar, uint64_t offset)
{
	assert_ptr_equal(ctx, &mc);
	return *at(bar, offset, 1);
}

static uint16_t read16(void *ctx, uint32_t bar, uint64_t offset)
{
	assert_ptr_equal(ctx, &mc);
	return (uint16_t)load(at(bar, offset, 2), 2);
}

static uint32_t read32(void *ctx, uint32_t bar, uint64_t offset)
{
	assert_ptr_equal(ctx, &mc);
	return (uint32_t)load(at(bar, offset, 4), 4);
}

static void write8(void *ctx, uint32_t bar, uint64_t offset, uint8_t v)
{
	(void)ctx;
	*at(bar, offset, 1) = v;
}

static void write16(void *ctx, uint32_t bar, uint64_t offset, uint16_t v)
{
	(void)ctx;
	if (mc.refuses_vector && v == 5)
		v = 0xffff;
	store(at(bar, offset, 2), 2, v);
}

static void write32(void *ctx, uint32_t bar, uint64_t offset, uint32_t v)
{
	(void)ctx;
	store(at(bar, offset, 4), 4, v);
}

static uint32_t pci_read32(void *ctx, uint32_t offset)
{
	(void)ctx;
	assert_true(offset % 4 == 0 && offset <= 252);
	return (uint32_t)load(&mc.config[offset], 4);
}

static void pci_write32(void *ctx, uint32_t offset, uint32_t v)
{
	(void)ctx;
	store(&mc.config[offset], 4, v);
}

static const struct pagehint_virtio_access access_table = {
	.struct_size = sizeof(access_table),
	.read8 = read8,
	.read16 = read16,
	.read32 = read32,
	.write8 = write8,
	.write16 = write16,
	.write32 = write32,
	.pci_read32 = pci_read32,
	.pci_write32 = pci_write32,
};

static void put32(uint32_t offset, uint32_t v)
{
	store(&mc.config[offset], 4, v);
}

static void capability(uint32_t offset, uint32_t next, uint32_t bytes, uint32_t type, uint32_t bar, uint32_t where,
		       uint32_t length, uint32_t multiplier)
{
	put32(offset, 9 | next << 8 | bytes << 16 | type << 24);
	put32(offset + 4, bar);
	put32(offset + 8, where);
	put32(offset + 12, length);
	if (bytes >= 20)
		put32(offset + 16, multiplier);
}

static void good_pci(void)
{
	memset(&mc, 0, sizeof(mc));
	put32(0, 0x1045u << 16 | 0x1af4);
	put32(4, 1u << 20);
	put32(0x34, 0x40);
	capability(0x40, 0x50, 16, 1, 1, 0x1000, 56, 0);
	capability(0x50, 0x64, 20, 2, 1, 0x1800, 0x20, 4);
	capability(0x64, 0x74, 16, 3, 0, 0x10, 1, 0);
	capability(0x74, 0, 16, 4, 1, 0x1400, 16, 0);
}

static int init_pci(uint32_t vector, struct pagehint_virtio **ret)
{
	return pagehint_virtio_init_pci(&memory, sizeof(memory), &access_table, &mc, vector, ret);
}

static void test_pci_finds_its_registers(void **state)
{
	(void)state;
	struct pagehint_virtio *v;
	struct pagehint_virtio_queue queue = {
		.desc = 0x1122334455, .driver = 0x2000000001, .device = 0x3000000002, .index = 3, .size = 64
	};
	uint16_t half = 64;
	good_pci();
	assert_int_equal(init_pci(PAGEHINT_VIRTIO_NO_VECTOR, &v), 0);
	assert_int_equal(mc.config[4] & 6, 6);
	v->ops.set_status(v->ctx, 3);
	assert_int_equal(mc.bar[1][0x1000 + 20], 3);
	assert_int_equal(v->ops.get_status(v->ctx), 3);
	v->ops.config_write(v->ctx, 4, 77);
	assert_int_equal(v->ops.config_read(v->ctx, 4), 77);
	assert_int_equal(mc.bar[1][0x1404], 77);
	/* outside of the window that the device named: zero, and no access */
	uint32_t accesses = mc.accesses;
	assert_int_equal(v->ops.config_read(v->ctx, 16), 0);
	v->ops.config_write(v->ctx, 0xfffffffe, 1);
	assert_int_equal(mc.accesses, accesses);
	store(&mc.bar[1][0x1000 + 24], 2, half);
	half = 7; /* queue_notify_off */
	store(&mc.bar[1][0x1000 + 30], 2, half);
	assert_int_equal(v->ops.queue_max(v->ctx, 3), 64);
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), 0);
	assert_int_equal(load(&mc.bar[1][0x1000 + 32], 8), queue.desc);
	assert_int_equal(load(&mc.bar[1][0x1000 + 40], 8), queue.driver);
	assert_int_equal(load(&mc.bar[1][0x1000 + 48], 8), queue.device);
	assert_int_equal(mc.bar[1][0x1000 + 28], 1);
	v->ops.notify(v->ctx, 3);
	assert_int_equal(mc.last_offset, 0x1800 + 7 * 4);
	assert_int_equal(mc.bar[1][0x1800 + 28], 3);
	mc.bar[0][0x10] = 3;
	assert_int_equal(v->ops.interrupt_status(v->ctx), 3);
	/* it is enabled already: the reset was none */
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -ENODEV);
}

static void test_pci_queues_that_cannot_be(void **state)
{
	(void)state;
	struct pagehint_virtio *v;
	struct pagehint_virtio_queue queue = { .index = 1, .size = 64 };
	uint16_t half = 32;
	good_pci();
	assert_int_equal(init_pci(5, &v), 0);
	store(&mc.bar[1][0x1000 + 24], 2, half);
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -EINVAL);
	queue.size = 0;
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -EINVAL);
	queue.size = 32;
	queue.index = 5;
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -EINVAL);
	queue.index = 1;
	/* a doorbell outside of its window: 8 * 4 + 2 > 0x20 */
	half = 8;
	store(&mc.bar[1][0x1000 + 30], 2, half);
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -ENODEV);
	half = 7;
	store(&mc.bar[1][0x1000 + 30], 2, half);
	mc.refuses_vector = 1;
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -ENODEV);
	mc.refuses_vector = 0;
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), 0);
	assert_int_equal(mc.bar[1][0x1000 + 26], 5);
	uint32_t accesses = mc.accesses;
	v->ops.notify(v->ctx, 5);
	assert_int_equal(mc.accesses, accesses);
}

static void test_pci_refuses(void **state)
{
	(void)state;
	struct pagehint_virtio *v = NULL;
	struct pagehint_virtio_access none = access_table;
	good_pci();
	put32(0, 0x1041u << 16 | 0x1af4); /* a network card */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	put32(0, 0x1045u << 16 | 0x8086);
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	put32(0, 0x1002u << 16 | 0x1af4); /* transitional: with capabilities it will do, */
	assert_int_equal(init_pci(0xffff, &v), 0);
	put32(4, 0); /* without it is legacy */
	assert_int_equal(init_pci(0xffff, &v), -EOPNOTSUPP);
	v = NULL;
	good_pci();
	capability(0x74, 0x40, 16, 4, 1, 0x1400, 16, 0); /* a loop */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	capability(0x40, 0x50, 16, 1, 1, 0x1000, 55, 0); /* too short to be used */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	capability(0x40, 0x50, 16, 1, 6, 0x1000, 56, 0); /* no such BAR */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	capability(0x40, 0x50, 16, 1, 1, 0xfffffff0, 56, 0); /* wraps */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	capability(0x50, 0x64, 16, 2, 1, 0x1800, 0x20, 4); /* no multiplier */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	capability(0x64, 0x74, 16, 3, 0, 0x10, 0, 0); /* no interrupt status */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
	good_pci();
	assert_int_equal(init_pci(0x10000, &v), -EINVAL);
	none.pci_read32 = NULL;
	assert_int_equal(pagehint_virtio_init_pci(&memory, sizeof(memory), &none, &mc, 0xffff, &v), -EINVAL);
	assert_int_equal(pagehint_virtio_init_pci(&memory, sizeof(memory) - 1, &access_table, &mc, 0xffff, &v),
			 -EINVAL);
	assert_int_equal(pagehint_virtio_init_pci(&memory, sizeof(memory), NULL, &mc, 0xffff, &v), -EINVAL);
	assert_null(v);
	memset(mc.config, 0xff, sizeof(mc.config)); /* nothing there */
	assert_int_equal(init_pci(0xffff, &v), -ENODEV);
}

static void reg(uint32_t offset, uint32_t v)
{
	store(&mc.bar[0][512 + offset], 4, v);
}

static uint32_t get(uint32_t offset)
{
	return (uint32_t)load(&mc.bar[0][512 + offset], 4);
}

static void good_mmio(void)
{
	memset(&mc, 0, sizeof(mc));
	reg(0, 0x74726976);
	reg(4, 2);
	reg(8, 5);
}

static int init_mmio(struct pagehint_virtio **ret)
{
	return pagehint_virtio_init_mmio(&memory, sizeof(memory), &access_table, &mc, 512, ret);
}

static void test_mmio(void **state)
{
	(void)state;
	struct pagehint_virtio *v = NULL;
	struct pagehint_virtio_queue queue = {
		.desc = 0x1122334455, .driver = 0x2000000001, .device = 0x3000000002, .index = 2, .size = 64
	};
	good_mmio();
	assert_int_equal(init_mmio(&v), 0);
	reg(0x34, 64);
	assert_int_equal(v->ops.queue_max(v->ctx, 2), 64);
	assert_int_equal(get(0x30), 2);
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), 0);
	assert_int_equal(get(0x38), 64);
	assert_int_equal(load(&mc.bar[0][512 + 0x80], 8), queue.desc);
	assert_int_equal(load(&mc.bar[0][512 + 0x90], 8), queue.driver);
	assert_int_equal(load(&mc.bar[0][512 + 0xa0], 8), queue.device);
	assert_int_equal(get(0x44), 1);
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -ENODEV);
	queue.size = 65;
	assert_int_equal(v->ops.queue_setup(v->ctx, &queue), -EINVAL);
	v->ops.notify(v->ctx, 2);
	assert_int_equal(get(0x50), 2);
	reg(0x60, 1);
	assert_int_equal(v->ops.interrupt_status(v->ctx), 1);
	assert_int_equal(get(0x64), 1);
	v->ops.config_write(v->ctx, 4, 9);
	assert_int_equal(get(0x104), 9);
	v->ops.set_features(v->ctx, UINT64_C(0x100000020));
	assert_int_equal(get(0x20), 0x20);
	reg(0x10, 3); /* both halves */
	assert_int_equal(v->ops.get_features(v->ctx), UINT64_C(0x300000003));
	v = NULL;
	reg(4, 1);
	assert_int_equal(init_mmio(&v), -EOPNOTSUPP);
	reg(4, 3);
	assert_int_equal(init_mmio(&v), -ENODEV);
	reg(4, 2);
	reg(8, 1);
	assert_int_equal(init_mmio(&v), -ENODEV);
	reg(0, 0);
	assert_int_equal(init_mmio(&v), -ENODEV);
	assert_int_equal(pagehint_virtio_init_mmio(NULL, sizeof(memory), &access_table, &mc, 0, &v), -EINVAL);
	assert_int_equal(init_mmio(NULL), -EINVAL);
	assert_null(v);
}

static void test_an_embedders_own(void **state)
{
	(void)state;
	struct pagehint_virtio *v = NULL, *other = NULL;
	struct pagehint_virtio from;
	good_mmio();
	assert_int_equal(init_mmio(&v), 0);
	struct pagehint_virtio_ops table = v->ops;
	table.name = NULL;
	table.interrupt_status = NULL; /* the one that may be missing */
	assert_int_equal(pagehint_virtio_init(&from, sizeof(from), &table, &mc, &other), 0);
	assert_ptr_equal(other, &from);
	table.notify = NULL;
	assert_int_equal(pagehint_virtio_init(&from, sizeof(from), &table, &mc, &other), -EINVAL);
	assert_int_equal(pagehint_virtio_init(&from, sizeof(from), NULL, &mc, &other), -EINVAL);
	table.struct_size = 4;
	assert_int_equal(pagehint_virtio_init(&from, sizeof(from), &table, &mc, &other), -EINVAL);
	assert_int_equal(pagehint_virtio_size(), sizeof(from));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pci_finds_its_registers),
		cmocka_unit_test(test_pci_queues_that_cannot_be),
		cmocka_unit_test(test_pci_refuses),
		cmocka_unit_test(test_mmio),
		cmocka_unit_test(test_an_embedders_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
