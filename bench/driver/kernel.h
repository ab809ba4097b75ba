/*
 * kernel: a model of how the Linux balloon driver reports free pages, on a model of the lists it does so from.
 *
 * What is modelled: a buddy allocator of orders 0 to 10; a free that leaves a block of the reporting order or more starts a
 * timer of 2 s (unless it runs); when it fires, every list from that order up is walked, blocks that are not marked reported
 * go into a table of 32, and each full table, and the rest at the end, is one notification; the table is carried from list to
 * list. A list gives at most so many tables a round as make a sixteenth of it, and one more; what is left over starts the timer
 * anew. A reported block that merges with its buddy loses the mark, one that is split keeps it on the half that stays.
 * What is not: watermarks, migrate types (one list an order), caches of each CPU (none: frees merge at once, which is to its
 * favour). Nothing of it is Linux's code.
 * Not here: time and memory. `now` is handed in.
 */
#ifndef BENCH_DRIVER_KERNEL_H
#define BENCH_DRIVER_KERNEL_H

#include <stdint.h>

#define KERNEL_ORDERS 11u
#define KERNEL_CAPACITY 32u
#define KERNEL_DELAY_NS UINT64_C(2000000000)

struct kernel;

/* frames: a multiple of 1024; order: the least that is reported; delay_ns: 0 = KERNEL_DELAY_NS */
struct kernel *kernel_new(uint64_t frames, uint32_t order, uint64_t delay_ns);
void kernel_delete(struct kernel *k);

/* Returns the first frame; UINT64_MAX when there is none. */
uint64_t kernel_alloc(struct kernel *k, uint32_t order);
void kernel_free(struct kernel *k, uint64_t frame, uint32_t order, uint64_t now_ns);

/* Fresh memory in random order on its list, as a kernel with shuffled lists has it. Before anything is allocated. */
void kernel_shuffle(struct kernel *k, uint64_t seed);

/* Is told of each block as it is reported. */
void kernel_watch(struct kernel *k, void (*reported)(void *ctx, uint64_t at_ns, uint64_t frame, uint64_t frames),
		  void *ctx);

/* Reports what is due. */
void kernel_tick(struct kernel *k, uint64_t now_ns);

struct kernel_counts {
	uint64_t kicks;
	uint64_t buffers;
	uint64_t frames; /* reported, each time it was */
	uint64_t free_frames;
};
struct kernel_counts kernel_counts(const struct kernel *k);

#endif
