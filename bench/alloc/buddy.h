/*
 * buddy: the core of both models: free lists a order, threaded through a record a frame, buddies merged on free, last in
 * first out. No lock in it.
 *
 * The models stand for what page allocators of kernels do for a block, and leave out all that kernels do beside it (flags,
 * reference counts, migration types, accounting), so that they are, if anything, faster than what they stand for.
 * A model includes this once, after it has defined
 *   RECORD_BYTES   bytes of a record; 16 is as small as it gets, 64 is a kernel's
 * Not here: per-CPU lists, locks (model_linux.c).
 * Invariants: record.order is ORDER_NOT_FREE or that of a block on a list; heads' bits in `filled` say which lists are not empty.
 */
#ifndef RECORD_BYTES
#error "define RECORD_BYTES"
#endif

#include <string.h>

#include "subject.h"

#define ORDERS 11u /* 0 .. 10, as Linux has them */
#define NIL UINT32_MAX
#define ORDER_NOT_FREE UINT32_MAX

struct record {
	uint32_t next;
	uint32_t prev;
	uint32_t order;
	char more[RECORD_BYTES - 12];
};

struct buddy {
	struct record *records;
	uint64_t frames;
	uint32_t filled; /* bit o: heads[o] has a block */
	uint32_t heads[ORDERS];
};

/*
 * A model's own state: zeroed, and off the start of a page. There it would share its set of the first cache with the records
 * of all 2 MiB blocks, and an order-9 allocation would cost twice as much.
 */
#define OFF_PAGE_START 1024u

static inline void *buddy_state_new(size_t bytes)
{
	return (char *)bench_map(bytes + OFF_PAGE_START) + OFF_PAGE_START;
}

static inline void buddy_state_free(void *state, size_t bytes)
{
	bench_unmap((char *)state - OFF_PAGE_START, bytes + OFF_PAGE_START);
}

static inline void buddy_link(struct buddy *b, uint32_t frame, uint32_t order)
{
	struct record *r = &b->records[frame];
	r->order = order;
	r->prev = NIL;
	r->next = b->heads[order];
	if (r->next != NIL)
		b->records[r->next].prev = frame;
	b->heads[order] = frame;
	b->filled |= 1u << order;
}

static inline void buddy_unlink(struct buddy *b, uint32_t frame)
{
	struct record *r = &b->records[frame];
	uint32_t order = r->order;
	if (r->next != NIL)
		b->records[r->next].prev = r->prev;
	if (r->prev != NIL)
		b->records[r->prev].next = r->next;
	else if ((b->heads[order] = r->next) == NIL)
		b->filled &= ~(1u << order);
	r->order = ORDER_NOT_FREE;
}

static inline uint64_t buddy_take(struct buddy *b, uint32_t order)
{
	uint32_t fits = b->filled & ~((1u << order) - 1);
	if (fits == 0)
		return SUBJECT_NONE;
	uint32_t from = (uint32_t)__builtin_ctz(fits), frame = b->heads[from];
	buddy_unlink(b, frame);
	while (from > order) {
		from--;
		buddy_link(b, frame + (1u << from), from);
	}
	return frame;
}

static inline void buddy_give(struct buddy *b, uint32_t frame, uint32_t order)
{
	while (order < ORDERS - 1) {
		uint32_t other = frame ^ (1u << order);
		if (other >= b->frames || b->records[other].order != order)
			break;
		buddy_unlink(b, other);
		frame &= ~(1u << order);
		order++;
	}
	buddy_link(b, frame, order);
}

/* All frames free. Records of frames inside a block are written when it is split, so that setting up costs little. */
static inline void buddy_start(struct buddy *b, uint64_t frames)
{
	const uint32_t largest = ORDERS - 1, step = 1u << largest;
	b->records = bench_map(frames * sizeof(struct record));
	b->frames = frames / step * step;
	b->filled = 0;
	memset(b->heads, 0xff, sizeof(b->heads));
	for (uint64_t frame = b->frames; frame > 0; frame -= step)
		buddy_link(b, (uint32_t)(frame - step), largest);
}

static inline void buddy_end(struct buddy *b, uint64_t frames)
{
	bench_unmap(b->records, frames * sizeof(struct record));
}

/* One bit a free 2 MiB block, by walking the lists that have such. */
static inline int buddy_huge_blocks(const struct buddy *b, uint64_t *bitmap)
{
	for (uint32_t order = HUGE_ORDER; order < ORDERS; order++) {
		for (uint32_t frame = b->heads[order]; frame != NIL; frame = b->records[frame].next) {
			uint64_t bits = (UINT64_C(1) << (1u << (order - HUGE_ORDER))) - 1, at = frame >> HUGE_ORDER;
			bitmap[at / 64] |= bits << (at % 64);
		}
	}
	return 0;
}
