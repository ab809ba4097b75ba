/*
 * heap: memory of a process in blocks of powers of two, whose free blocks go back to the kernel.
 *
 * A zone over an anonymous mapping, a reporter, and the madvise backend: freed blocks that stay free for two looks leave by
 * themselves when the loop steps. Owns all of it. One thread.
 */
#ifndef EXAMPLES_AGENT_HEAP_H
#define EXAMPLES_AGENT_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define HEAP_BLOCK ((size_t)64 << 10) /* a size that is neither a page nor a huge page */

struct heap;

/* bytes: rounded up to 2 MiB. interval_ns: between two looks. NULL and errno on failure. */
struct heap *heap_open(uint64_t bytes, uint64_t interval_ns);
void heap_close(struct heap *heap);

/* NULL when there is none. bytes: up to 1 GiB; the same is passed to heap_free. */
void *heap_alloc(struct heap *heap, size_t bytes);
void heap_free(struct heap *heap, void *block, size_t bytes);

/* Gives back what is due. 0 or -errno; *ret_deadline: call again then. */
int heap_step(struct heap *heap, uint64_t now_ns, uint64_t *ret_deadline);

/* Memory is short: from the next step on everything that is free goes, down to single pages, for ten seconds. */
void heap_squeeze(struct heap *heap);

/* What of it is in memory now [bytes], by mincore. */
uint64_t heap_resident(const struct heap *heap);

#endif
