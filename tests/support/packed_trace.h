/*
 * packed_trace: what QEMU 7.2 did as the device of a packed ring of four entries (its balloon on microvm, VERSION_1,
 * RING_PACKED, INDIRECT_DESC and EVENT_IDX negotiated), written down from its memory.
 *
 * Each step: the driver writes its event suppression structure and some descriptors (last one first), kicks, and waits until
 * nothing moves; then the whole ring is read, and whether a used-buffer interrupt was sent. `extra`: QEMU sent one that
 * was not asked for, which the specification allows; it does so when its window of used entries crosses the ring's end, and
 * at the first look at an event index.
 */
#ifndef TESTS_SUPPORT_PACKED_TRACE_H
#define TESTS_SUPPORT_PACKED_TRACE_H

#include <stdint.h>

#define TRACE_SIZE 4u
#define TRACE_DATA 0x200000u    /* page frame numbers, le32 */
#define TRACE_TABLE 0x210000u   /* indirect: 3 device-readable buffers of 4 bytes */
#define TRACE_TABLE_W 0x210100u /* indirect: 2 device-writable buffers of 4096 bytes */

struct trace_write {
	uint32_t at;
	uint32_t addr, len;
	uint16_t id, flags;
};

struct trace_desc {
	uint32_t addr, len;
	uint16_t id, flags;
};

struct trace_step {
	uint32_t event; /* off_wrap low, flags high */
	uint32_t n;
	struct trace_write writes[TRACE_SIZE];
	struct trace_desc ring[TRACE_SIZE];
	int interrupt, extra;
};

/* device-readable buffers: inflate queue */
static const struct trace_step trace_readable[] = {
	{ .event = 0x00000000,
	  .n = 1,
	  .writes = { { 0, 0x200000, 4, 7, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 } },
	  .interrupt = 1 },
	{ .event = 0x00010000,
	  .n = 2,
	  .writes = { { 1, 0x200004, 4, 3, 0x81 }, { 2, 0x200008, 4, 3, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 },
		    { 0x200004, 0, 3, 0x8080 },
		    { 0x200008, 4, 3, 0x80 },
		    { 0x0, 0, 0, 0x0 } },
	  .interrupt = 0 },
	{ .event = 0x00000000,
	  .n = 3,
	  .writes = { { 3, 0x20000c, 4, 2, 0x81 }, { 0, 0x200010, 4, 2, 0x8001 }, { 1, 0x200014, 4, 2, 0x8000 } },
	  .ring = { { 0x200010, 4, 2, 0x8001 },
		    { 0x200014, 4, 2, 0x8000 },
		    { 0x200008, 4, 3, 0x80 },
		    { 0x20000c, 0, 2, 0x8080 } },
	  .interrupt = 1 },
	{ .event = 0x00020002,
	  .n = 1,
	  .writes = { { 2, 0x210000, 48, 1, 0x8004 } },
	  .ring = { { 0x200010, 4, 2, 0x8001 },
		    { 0x200014, 4, 2, 0x8000 },
		    { 0x210000, 0, 1, 0x0 },
		    { 0x20000c, 0, 2, 0x8080 } },
	  .interrupt = 1 },
	{ .event = 0x00028001,
	  .n = 1,
	  .writes = { { 3, 0x200018, 4, 0, 0x8000 } },
	  .ring = { { 0x200010, 4, 2, 0x8001 },
		    { 0x200014, 4, 2, 0x8000 },
		    { 0x210000, 0, 1, 0x0 },
		    { 0x200018, 0, 0, 0x0 } },
	  .interrupt = 1,
	  .extra = 1 },
	{ .event = 0x00028001,
	  .n = 3,
	  .writes = { { 0, 0x20001c, 4, 5, 0x80 }, { 1, 0x200020, 4, 6, 0x81 }, { 2, 0x200024, 4, 6, 0x80 } },
	  .ring = { { 0x20001c, 0, 5, 0x8080 },
		    { 0x200020, 0, 6, 0x8080 },
		    { 0x200024, 4, 6, 0x80 },
		    { 0x200018, 0, 0, 0x0 } },
	  .interrupt = 1 },
	{ .event = 0x00028003,
	  .n = 2,
	  .writes = { { 3, 0x200028, 4, 1, 0x81 }, { 0, 0x20002c, 4, 1, 0x8000 } },
	  .ring = { { 0x20002c, 4, 1, 0x8000 },
		    { 0x200020, 0, 6, 0x8080 },
		    { 0x200024, 4, 6, 0x80 },
		    { 0x200028, 0, 1, 0x8080 } },
	  .interrupt = 1 },
	{ .event = 0x00020001,
	  .n = 4,
	  .writes = { { 1, 0x200030, 4, 9, 0x8001 },
		      { 2, 0x200034, 4, 9, 0x8001 },
		      { 3, 0x200038, 4, 9, 0x8001 },
		      { 0, 0x20003c, 4, 9, 0x80 } },
	  .ring = { { 0x20003c, 4, 9, 0x80 },
		    { 0x200030, 0, 9, 0x0 },
		    { 0x200034, 4, 9, 0x8001 },
		    { 0x200038, 4, 9, 0x8001 } },
	  .interrupt = 1 },
};

/* one at a time, an event asked for at the last entry of the first lap */
static const struct trace_step trace_event[] = {
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 0, 0x200000, 4, 7, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 } },
	  .interrupt = 1,
	  .extra = 1 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 1, 0x200000, 4, 7, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 }, { 0x200000, 0, 7, 0x8080 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 } },
	  .interrupt = 0 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 2, 0x200000, 4, 7, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x0, 0, 0, 0x0 } },
	  .interrupt = 0 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 3, 0x200000, 4, 7, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 } },
	  .interrupt = 1 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 0, 0x200000, 4, 7, 0x8000 } },
	  .ring = { { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 } },
	  .interrupt = 0 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 1, 0x200000, 4, 7, 0x8000 } },
	  .ring = { { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x8080 } },
	  .interrupt = 0 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 2, 0x200000, 4, 7, 0x8000 } },
	  .ring = { { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x8080 } },
	  .interrupt = 0 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 3, 0x200000, 4, 7, 0x8000 } },
	  .ring = { { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 } },
	  .interrupt = 1,
	  .extra = 1 },
	{ .event = 0x00028003,
	  .n = 1,
	  .writes = { { 0, 0x200000, 4, 7, 0x80 } },
	  .ring = { { 0x200000, 0, 7, 0x8080 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 },
		    { 0x200000, 0, 7, 0x0 } },
	  .interrupt = 0 },
};

/* device-writable buffers: report queue, which never says that it wrote */
static const struct trace_step trace_writable[] = {
	{ .event = 0x00000000,
	  .n = 1,
	  .writes = { { 0, 0x400000, 4096, 1, 0x82 } },
	  .ring = { { 0x400000, 0, 1, 0x8080 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 }, { 0x0, 0, 0, 0x0 } },
	  .interrupt = 1 },
	{ .event = 0x00000000,
	  .n = 2,
	  .writes = { { 1, 0x401000, 4096, 0, 0x83 }, { 2, 0x402000, 4096, 0, 0x82 } },
	  .ring = { { 0x400000, 0, 1, 0x8080 },
		    { 0x401000, 0, 0, 0x8080 },
		    { 0x402000, 4096, 0, 0x82 },
		    { 0x0, 0, 0, 0x0 } },
	  .interrupt = 1 },
	{ .event = 0x00000000,
	  .n = 1,
	  .writes = { { 3, 0x210100, 32, 3, 0x84 } },
	  .ring = { { 0x400000, 0, 1, 0x8080 },
		    { 0x401000, 0, 0, 0x8080 },
		    { 0x402000, 4096, 0, 0x82 },
		    { 0x210100, 0, 3, 0x8080 } },
	  .interrupt = 1 },
	{ .event = 0x00000000,
	  .n = 1,
	  .writes = { { 0, 0x403000, 4096, 2, 0x8002 } },
	  .ring = { { 0x403000, 0, 2, 0x0 },
		    { 0x401000, 0, 0, 0x8080 },
		    { 0x402000, 4096, 0, 0x82 },
		    { 0x210100, 0, 3, 0x8080 } },
	  .interrupt = 1 },
};

#endif
