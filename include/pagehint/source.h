/*
 * source.h: a page source says what a page held before it was touched: the content of a snapshot, of another host, or zero.
 *
 * The problem: memory that returns comes from many places: a file in the page cache, a file on a slow disk, a peer on a
 * network, nowhere. Why this shape: one ops table with one call that answers at once, points at memory it already has, says
 * "zero", or says "later". A pager asks it, and nothing else does.
 * Not here: when a page is asked for, and where it goes (pager.h). Owns: its ctx, until destroy.
 * Invariants: offsets are bytes from the start of the source; what a source says of an offset never changes while it lives.
 */
#ifndef PAGEHINT_SOURCE_H
#define PAGEHINT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>

PAGEHINT_BEGIN

struct pagehint_source;

/* caps of a source */
#define PAGEHINT_SOURCE_SIGNAL_SAFE 1u /* fetch and extent may be called from a signal handler */
#define PAGEHINT_SOURCE_ASYNC 2u       /* fetch may answer -EINPROGRESS; pagehint_pager_deliver follows */

/** struct pagehint_fetch - one request, and the answer of a source that has it at once */
struct pagehint_fetch {
	uint64_t struct_size;
	uint64_t offset;  /* first byte that is wanted, a multiple of the page of the region */
	uint64_t bytes;   /* how many, a multiple of the page */
	uint64_t cookie;  /* names this request to pagehint_pager_deliver; other requests never have it */
	void *buffer;     /* room for `bytes`, until the answer; of an asynchronous one until it is delivered */
	const void *data; /* answer: buffer, or memory of the source's own that stays as it is; NULL = all zero */
	uint64_t done;    /* answer: how many bytes from offset on; at least one page, else the source is at fault */
	uint32_t demand;  /* 1: a thread waits for it; 0: it is read ahead */
	uint32_t reserved;
};

/**
 * struct pagehint_source_ops - what an implementation supplies; copied by pagehint_source_new
 *
 * Called with no lock held, from every thread that a pager is called from, at the same time.
 * fetch:   required. 0 and an answer; -EINPROGRESS it will be delivered (ASYNC only); another -errno: these bytes cannot be
 *          had, and the pager asks its `failed` callback what to do. It must return: a pager's deadline is kept by
 *          pagehint_pager_watch from another thread.
 * extent:  optional. How many bytes from offset on (at the most `bytes`) are all zero, or all data. Lets a pager leave
 *          zeros alone.
 * destroy: optional. Called once, by pagehint_source_free.
 */
struct pagehint_source_ops {
	size_t struct_size;
	const char *name;
	uint32_t caps;
	uint32_t reserved; /* must be 0 */
	int (*fetch)(void *ctx, struct pagehint_fetch *fetch);
	int (*extent)(void *ctx, uint64_t offset, uint64_t bytes, uint64_t *ret_bytes, uint32_t *ret_is_zero);
	void (*destroy)(void *ctx);
};

/**
 * pagehint_source_new - a source of the embedder's own
 * @ops:        copied
 * @ctx:        handed to every op; left alone when this call fails
 * @ret_source: the source; it may serve several regions and pagers
 * Return: 0; -EINVAL fetch is missing, unknown caps; -E2BIG unknown non-zero tail; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_source_new(const struct pagehint_source_ops *ops, void *ctx,
							 struct pagehint_source **ret_source);

/**
 * pagehint_source_zero_new - everything is zero: memory of a guest that was not restored
 * @ret_source: the source
 * Return: 0; -EINVAL ret_source NULL; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_source_zero_new(struct pagehint_source **ret_source);

/**
 * pagehint_source_memory_new - memory of this process, such as a snapshot file that is mapped
 * @memory:     first byte; borrowed, and unchanged while the source lives
 * @bytes:      how many; what is asked for beyond them is zero
 * @ret_source: the source
 *
 * The kernel copies straight from it. A file that is cut short under its mapping gives an error, not a signal.
 * Return: 0; -EINVAL a pointer is NULL, or neither memory nor bytes is a multiple of 4096; -ENOMEM.
 * Thread: init-only.   Cost: one allocation.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_source_memory_new(const void *memory, uint64_t bytes,
								struct pagehint_source **ret_source);

/**
 * pagehint_source_file_new - a file that is read with pread
 * @fd:         a file on a disk, in memory or on hugetlbfs; borrowed until the source is freed
 * @offset:     of the source's first byte in the file [bytes]
 * @bytes:      how many; what is asked for beyond them is zero
 * @ret_source: the source
 *
 * Holes of the file are zero and are not read (SEEK_DATA on a descriptor of its own, so the position of fd stays). A file
 * that ends before `bytes` is an error of the pages that are missing.
 * Return: 0; -EINVAL fd negative, ret_source NULL, or the sum wraps; -ENOMEM.
 * Thread: init-only.   Cost: one allocation, one open.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_source_file_new(int fd, uint64_t offset, uint64_t bytes,
							      struct pagehint_source **ret_source);

/**
 * pagehint_source_free - destroys it; NULL is allowed. No pager may have it any more.
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API void pagehint_source_free(struct pagehint_source *source);

PAGEHINT_END
#endif
