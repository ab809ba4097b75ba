#include "board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "virtio/transport.h"

struct board_how board_how;

int board_arguments(int argc, char **argv)
{
	if (argc != 3 || (strcmp(argv[1], "pci") != 0 && strcmp(argv[1], "mmio") != 0) ||
	    (strcmp(argv[2], "split") != 0 && strcmp(argv[2], "packed") != 0)) {
		fprintf(stderr, "usage: %s pci|mmio split|packed\n", argv[0]);
		return 2;
	}
	board_how.is_mmio = strcmp(argv[1], "mmio") == 0;
	board_how.is_packed = strcmp(argv[2], "packed") == 0;
	snprintf(board_how.name, sizeof(board_how.name), "%s.%s", argv[1], argv[2]);
	return 0;
}

/* ---- registers ---- */

#define SLOT 4u
#define BARS_FROM UINT64_C(0xfe000000)
#define MMIO_FROM UINT64_C(0xfeb00000)
#define MMIO_STRIDE 512u
#define MMIO_SLOTS 24u

static uint32_t pci_read32(void *ctx, uint32_t offset)
{
	struct board *b = ctx;
	qtest(&b->q, "outl 0xcf8 0x%x", 0x80000000u | SLOT << 11 | offset);
	return (uint32_t)qtest(&b->q, "inl 0xcfc");
}

static void pci_write32(void *ctx, uint32_t offset, uint32_t value)
{
	struct board *b = ctx;
	qtest(&b->q, "outl 0xcf8 0x%x", 0x80000000u | SLOT << 11 | offset);
	qtest(&b->q, "outl 0xcfc 0x%x", value);
}

static unsigned long long at(const struct board *b, uint32_t bar, uint64_t offset)
{
	return b->bars[bar] + offset;
}

static uint8_t read8(void *ctx, uint32_t bar, uint64_t offset)
{
	struct board *b = ctx;
	return (uint8_t)qtest(&b->q, "readb 0x%llx", at(b, bar, offset));
}

static uint16_t read16(void *ctx, uint32_t bar, uint64_t offset)
{
	struct board *b = ctx;
	return (uint16_t)qtest(&b->q, "readw 0x%llx", at(b, bar, offset));
}

static uint32_t read32(void *ctx, uint32_t bar, uint64_t offset)
{
	struct board *b = ctx;
	return (uint32_t)qtest(&b->q, "readl 0x%llx", at(b, bar, offset));
}

static void write8(void *ctx, uint32_t bar, uint64_t offset, uint8_t value)
{
	struct board *b = ctx;
	qtest(&b->q, "writeb 0x%llx 0x%x", at(b, bar, offset), value);
}

static void write16(void *ctx, uint32_t bar, uint64_t offset, uint16_t value)
{
	struct board *b = ctx;
	qtest(&b->q, "writew 0x%llx 0x%x", at(b, bar, offset), value);
}

static void write32(void *ctx, uint32_t bar, uint64_t offset, uint32_t value)
{
	struct board *b = ctx;
	qtest(&b->q, "writel 0x%llx 0x%x", at(b, bar, offset), value);
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

/* What firmware would have done: addresses for the memory BARs. */
static void place_bars(struct board *b)
{
	uint64_t next = BARS_FROM;
	for (uint32_t bar = 0; bar < 6; bar++) {
		uint32_t reg = 0x10 + 4 * bar;
		pci_write32(b, reg, 0xffffffff);
		uint32_t mask = pci_read32(b, reg);
		if (mask == 0 || (mask & 1) != 0)
			continue;
		uint64_t bytes = (uint32_t)(~(mask & ~UINT32_C(15)) + 1);
		next = (next + bytes - 1) / bytes * bytes;
		pci_write32(b, reg, (uint32_t)next);
		b->bars[bar] = next;
		next += bytes;
		if ((mask & 4) != 0) {
			pci_write32(b, reg + 4, 0);
			bar++;
		}
	}
}

static void find_device(struct board *b)
{
	uint64_t bytes = pagehint_virtio_size();
	b->virtio_memory = malloc((size_t)bytes);
	assert_non_null(b->virtio_memory);
	if (!b->q.is_mmio) {
		place_bars(b);
		assert_int_equal(pagehint_virtio_init_pci(b->virtio_memory, bytes, &access_table, b,
							  PAGEHINT_VIRTIO_NO_VECTOR, &b->virtio),
				 0);
		return;
	}
	b->bars[0] = MMIO_FROM;
	for (uint32_t slot = 0; slot < MMIO_SLOTS; slot++)
		if (pagehint_virtio_init_mmio(b->virtio_memory, bytes, &access_table, b, slot * MMIO_STRIDE,
					      &b->virtio) == 0)
			return;
	fail_msg("no slot has a balloon");
}

/* ---- the driver's embedder ---- */

static struct pagehint_driver_ops zone_ops;

static int take(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max, uint32_t *ret_n)
{
	struct board *b = ctx;
	return zone_ops.take(&b->from, what_for, frames, runs, max, ret_n);
}

static void give(void *ctx, uint32_t what_for, const struct pagehint_run *runs, uint32_t n)
{
	struct board *b = ctx;
	for (uint32_t i = 0; i < n; i++)
		b->given += runs[i].frames;
	zone_ops.give(&b->from, what_for, runs, n);
}

static void before_inflate(void *ctx, uint64_t frames)
{
	struct board *b = ctx;
	b->before_inflate = frames;
}

void board_open(struct board *b, uint64_t ram_bytes, const char *device)
{
	char properties[200];
	struct qemu_ask ask = { .ram_bytes = ram_bytes, .device = properties, .is_mmio = board_how.is_mmio };
	struct pagehint_zone_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_ZONE_LADDER };
	memset(b, 0, sizeof(*b));
	snprintf(properties, sizeof(properties), "%s%s", board_how.is_packed ? ",packed=on" : "", device);
	qemu_start(&b->q, &ask);
	find_device(b);
	opts.max_sections = (ram_bytes + (UINT64_C(1) << 30) - 1) >> 30;
	assert_int_equal(pagehint_zone_new(&opts, &b->zone), 0);
	assert_int_equal(pagehint_zone_add(b->zone, BOARD_ZONE / FRAME, (ram_bytes - BOARD_ZONE) / FRAME), 0);
	b->from.zone = b->zone;
	assert_int_equal(pagehint_driver_zone_ops(&zone_ops), 0);
	b->ops = (struct pagehint_driver_ops) {
		.struct_size = sizeof(b->ops), .take = take, .give = give, .before_inflate = before_inflate
	};
	b->opts = (struct pagehint_driver_opts) { .struct_size = sizeof(b->opts),
						  .dma_address = BOARD_DMA,
						  .poll_ns = 1000000 };
}

void board_start(struct board *b)
{
	uint64_t bytes, dma_bytes;
	assert_int_equal(pagehint_driver_size(&b->opts, &bytes, &dma_bytes), 0);
	assert_true(dma_bytes <= BOARD_ZONE - BOARD_DMA);
	b->opts.dma_bytes = dma_bytes;
	free(b->memory);
	b->memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
	assert_non_null(b->memory);
	memset(b->q.ram + BOARD_DMA, 0, (size_t)dma_bytes); /* there from now on: figures of the file are the zone's */
	assert_int_equal(pagehint_driver_init(b->memory, bytes, b->q.ram + BOARD_DMA, b->virtio, &b->ops, b, &b->opts,
					      &b->driver),
			 0);
	assert_int_equal(pagehint_driver_start(b->driver, qemu_now()), 0);
	assert_int_equal(board_stats(b).state, PAGEHINT_DRIVER_RUNNING);
	assert_int_equal((board_stats(b).features & PAGEHINT_VIRTIO_F_RING_PACKED) != 0, board_how.is_packed);
}

void board_close(struct board *b)
{
	qemu_stop(&b->q);
	pagehint_zone_destroy(b->zone);
	free(b->memory);
	free(b->virtio_memory);
}

int board_step(struct board *b)
{
	uint64_t deadline;
	b->now = qemu_now();
	return pagehint_driver_step(b->driver, b->now, &deadline);
}

static void print_line(void *ctx, const char *text)
{
	(void)ctx;
	print_error("%s\n", text);
}

void board_blame(struct board *b, const char *waited_for)
{
	struct pagehint_sink sink = { .line = print_line };
	pagehint_driver_explain(b->driver, &sink);
	fail_msg("the driver stopped while waiting for: %s", waited_for);
}

struct pagehint_driver_stats board_stats(const struct board *b)
{
	struct pagehint_driver_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_driver_stats(b->driver, &stats), 0);
	return stats;
}

/* ---- content ---- */

void board_fill(struct board *b, uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++) {
		uint64_t *words = (uint64_t *)(void *)(b->q.ram + f * FRAME);
		for (uint64_t i = 0; i < FRAME / 8; i++)
			words[i] = f << 12 | i | UINT64_C(1) << 63;
	}
}

int board_holds(const struct board *b, uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++) {
		const uint64_t *words = (const uint64_t *)(const void *)(b->q.ram + f * FRAME);
		for (uint64_t i = 0; i < FRAME / 8; i++)
			if (words[i] != (f << 12 | i | UINT64_C(1) << 63))
				return 0;
	}
	return 1;
}

void board_target(struct board *b, uint64_t balloon_bytes)
{
	qmp_do(&b->q, "{'execute':'balloon','arguments':{'value':%llu}}",
	       (unsigned long long)(b->q.ram_bytes - balloon_bytes));
}

uint32_t board_config(const struct board *b, uint32_t offset)
{
	return b->virtio->ops.config_read(b->virtio->ctx, offset);
}

uint64_t board_actual(struct board *b)
{
	return b->q.ram_bytes - (uint64_t)qmp_number(&b->q, "actual", "{'execute':'query-balloon'}");
}
