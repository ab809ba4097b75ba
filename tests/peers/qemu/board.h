/*
 * board: a guest without a processor: our driver on QEMU's balloon, a zone over the guest's memory, and the table of
 * register accesses between them.
 *
 * Guest memory: below 1 MiB the machine's own; 1 to 16 MiB what driver and device share; from 16 MiB on the zone's, frame f at
 * guest address f << 12, which is offset f << 12 of the file.
 */
#ifndef TESTS_PEERS_QEMU_BOARD_H
#define TESTS_PEERS_QEMU_BOARD_H

#include <pagehint/driver.h>
#include <pagehint/virtio.h>
#include <pagehint/zone.h>

#include "qemu.h"

#define BOARD_DMA UINT64_C(0x100000)
#define BOARD_ZONE (UINT64_C(16) << 20)
#define FRAME UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)

/* what the test program was started with */
struct board_how {
	int is_mmio;
	int is_packed;
	char name[32]; /* "pci.split" */
};
extern struct board_how board_how;

/* Reads the program's arguments ("pci" or "mmio", "split" or "packed"); 0, or 2 for a usage error. */
int board_arguments(int argc, char **argv);

struct board {
	struct qemu q;
	uint64_t bars[6];
	void *virtio_memory;
	struct pagehint_virtio *virtio;
	void *memory;
	struct pagehint_driver *driver;
	struct pagehint_zone *zone;
	struct pagehint_driver_zone from;
	struct pagehint_driver_ops ops; /* may be changed between board_open and board_start */
	struct pagehint_driver_opts opts;
	uint64_t before_inflate; /* frames, as last told */
	uint64_t given;          /* frames that came back */
	uint32_t stats_asked;
	uint64_t now; /* of the last step */
};

/* QEMU with these properties of the balloon (see qemu_ask), the transport found, a zone of fresh frames; no driver yet. */
void board_open(struct board *b, uint64_t ram_bytes, const char *device);
/* Makes the driver and starts it; polls by default. */
void board_start(struct board *b);
void board_close(struct board *b);

/* One step at the real time. Returns what the step did. */
int board_step(struct board *b);

/* Steps until it is so; fails the test after QEMU_WAIT_MS. */
#define BOARD_UNTIL(b, condition)                                                                \
	do {                                                                                     \
		uint64_t give_up_ = qemu_now() + QEMU_WAIT_MS * UINT64_C(1000000);               \
		while (!(condition)) {                                                           \
			if (qemu_now() > give_up_)                                               \
				fail_msg("%s:%d: never so: %s", __FILE__, __LINE__, #condition); \
			if (board_step(b) != 0)                                                  \
				board_blame(b, #condition);                                      \
			qemu_pause();                                                            \
		}                                                                                \
	} while (0)
void board_blame(struct board *b, const char *waited_for);

struct pagehint_driver_stats board_stats(const struct board *b);

/* Writes a page's own pattern into each of these frames; whether they still hold it, all of them. */
void board_fill(struct board *b, uint64_t frame, uint64_t frames);
int board_holds(const struct board *b, uint64_t frame, uint64_t frames);

/* The device's target, by QMP: QEMU takes the size that is left to the guest. */
void board_target(struct board *b, uint64_t balloon_bytes);
/* A member of the device's config space, as the device has it. */
uint32_t board_config(const struct board *b, uint32_t offset);
/* What QEMU believes is in the balloon [bytes]. */
uint64_t board_actual(struct board *b);

#endif
