/*
 * machine: a small guest for the fuzzer: memory, a map, a gate, a backend that knows what may be discarded, a device.
 *
 * Pages from MACHINE_PAGE on: LOW, HIGH right after it, a hole, ROM (pinned). The first pages of LOW hold the rings. Whatever
 * reaches the backend must lie in LOW or HIGH, whole, not pinned, with the gate open, ascending and apart.
 */
#ifndef FUZZ_DEVICE_MACHINE_H
#define FUZZ_DEVICE_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <pagehint/backend.h>
#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/gate.h>
#include <pagehint/map.h>

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

#define MACHINE_PAGE UINT64_C(1024)
#define MACHINE_LOW UINT64_C(64)
#define MACHINE_HIGH UINT64_C(16)
#define MACHINE_HOLE UINT64_C(16)
#define MACHINE_ROM UINT64_C(16)
#define MACHINE_ALL (MACHINE_LOW + MACHINE_HIGH + MACHINE_HOLE + MACHINE_ROM)
#define MACHINE_RING 16u /* entries */
#define MACHINE_BUDGET 64u
#define MACHINE_BATCHES 4u
#define MACHINE_BATCH_RUNS 8u

struct machine_batch {
	uint64_t cookie;
	uint32_t n;
	uint64_t frames[MACHINE_BATCH_RUNS];
};

struct machine {
	unsigned char *memory;
	struct pagehint_map *map;
	struct pagehint_gate *gate;
	struct pagehint_backend *backend;
	struct pagehint_device *device;
	uint64_t low, high, rom;
	uint64_t now;
	uint32_t async;
	uint32_t high_pins, closed;
	uint32_t fails; /* the next calls of the backend fail so often */
	struct machine_batch batch[MACHINE_BATCHES];
	uint32_t n_batches, answers;
	struct pagehint_device_work work;
};

/* kind: bit 0 asynchronous, bit 1 host pages of 16 KiB, bits 2-3 numbering, bit 4 packed rings, bit 5 populate and probe */
struct machine *machine_open(uint8_t kind);
void machine_close(struct machine *m);
/* Works off what is left; must come to an end. */
void machine_settle(struct machine *m);
void machine_judge(struct machine *m);
/* Where a ring of a role lies, in the first pages. */
unsigned char *machine_ring(struct machine *m, uint32_t role);

#endif
