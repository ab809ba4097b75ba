/*
 * bitmap.h: a sparse, atomic bitmap over frames, in sections that come and go.
 *
 * The problem: an embedder with an allocator of its own wants to mark what is free (the bitmap approach to page hinting),
 * over address spaces with holes and hotplug, from any thread. Why this shape: a table of sections of 2^15 bits (4 KiB of
 * bits, 128 MiB of 4 KiB frames), each present or not; words are atomic; nothing is allocated after init.
 * While an origin watches the bitmap, a clear also forgets what the origin knew of the bits (that is how it sees a touch).
 * Not here: what a set bit means (the embedder's), reporting (reporter.h, through pagehint_bitmap_origin_new in origin.h).
 * Memory: caller-owned (pagehint_bitmap_size, then _init), pointer-free, or _new and _free.
 */
#ifndef PAGEHINT_BITMAP_H
#define PAGEHINT_BITMAP_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/run.h>

PAGEHINT_BEGIN

struct pagehint_bitmap;

#define PAGEHINT_BITMAP_SECTION_BITS 32768u /* bits of a section; sections start at multiples of this */

/** struct pagehint_bitmap_opts */
struct pagehint_bitmap_opts {
	uint64_t struct_size;
	uint64_t span;         /* bits are numbered 0 .. span-1; 1 .. 2^52 */
	uint32_t max_sections; /* how many sections may be present at once; 0 = enough for the whole span */
	uint32_t flags;        /* must be 0 */
};

/**
 * pagehint_bitmap_size - bytes of state for these options
 * @opts:      required
 * @ret_bytes: size of the memory for pagehint_bitmap_init; 16-byte aligned
 * Return: 0; -EINVAL span 0 or too large, unknown flags; -E2BIG unknown non-zero tail.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_size(const struct pagehint_bitmap_opts *opts, uint64_t *ret_bytes);

/**
 * pagehint_bitmap_init - an empty bitmap (no section present) in the caller's memory
 * @mem:        zeroed, 16-byte aligned, stays the caller's
 * @bytes:      at least pagehint_bitmap_size
 * @opts:       as for pagehint_bitmap_size
 * @ret_bitmap: the handle; it is `mem`
 * Return: 0; -EINVAL as above, or mem misaligned or too small; -E2BIG.
 * Thread: init-only.   Cost: O(1), touches one page.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_init(void *mem, uint64_t bytes,
							  const struct pagehint_bitmap_opts *opts,
							  struct pagehint_bitmap **ret_bitmap);

/** pagehint_bitmap_new - size, allocate, init. Return: as init; -ENOMEM. Thread: init-only.  Cost: one allocation.  Since: 0.1 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_new(const struct pagehint_bitmap_opts *opts,
							 struct pagehint_bitmap **ret_bitmap);

/** pagehint_bitmap_free - frees what pagehint_bitmap_new made; NULL is allowed. Thread: init-only.  Cost: one free.  Since: 0.1 */
PAGEHINT_API void pagehint_bitmap_free(struct pagehint_bitmap *bitmap);

/**
 * pagehint_bitmap_add - makes the sections of a range present, all bits clear
 * @bitmap: the bitmap
 * @first:  first bit
 * @n:      how many [bits]; sections that the range touches become present
 * Return: 0; -EINVAL n 0; -ERANGE beyond span; -EEXIST a section is present already (nothing is changed);
 * -ENOSPC no room for so many sections (nothing is changed).
 * Thread: one at a time for add and remove; any for everything else meanwhile.   Cost: O(sections).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_add(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n);

/**
 * pagehint_bitmap_remove - takes sections away; their bits are forgotten
 * Parameters as pagehint_bitmap_add. The caller sees to it that no other thread works on these sections; a search or a
 * reporter's step whose range has them is work on them.
 * Return: 0; -EINVAL n 0; -ERANGE beyond span, or a section is not present (nothing is changed).
 * Thread: as pagehint_bitmap_add.   Cost: O(sections).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_remove(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n);

/**
 * pagehint_bitmap_set - sets bits [first, first + n)
 * @bitmap:   the bitmap
 * @first:    first bit
 * @n:        how many [bits]
 * @ret_was:  how many of them had been set already, or NULL
 * Return: 0; -EINVAL n 0; -ERANGE outside the present sections (nothing is changed).
 * Thread: any.   Cost: one atomic per 64 bits.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_set(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n,
							 uint64_t *ret_was);

/**
 * pagehint_bitmap_clear - clears bits
 * Everything as pagehint_bitmap_set. ret_was: how many had been set; a bit that a pagehint_bitmap_take_run was about to take
 * at this moment is not counted, so what is counted was handed to no taker. When the call is over the bits are clear, and
 * a taker that gives up does not set them again.
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_clear(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n,
							   uint64_t *ret_was);

/**
 * pagehint_bitmap_test - is one bit set?
 * Return: 1 set; 0 clear; -ERANGE outside the present sections.
 * Thread: any.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_test(const struct pagehint_bitmap *bitmap, uint64_t bit);

/**
 * pagehint_bitmap_next_run - the next maximal run of set bits in [from, to)
 * @bitmap:  the bitmap
 * @from:    where to start
 * @to:      where to stop (exclusive)
 * @ret_run: the run, clipped to [from, to); absent sections read as clear
 * Return: 0; -ENOENT no bit is set there; -EINVAL from > to.
 * Thread: any (a run that others change meanwhile may come out shorter or longer).   Cost: O(words scanned).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_next_run(const struct pagehint_bitmap *bitmap, uint64_t from,
							      uint64_t to, struct pagehint_run *ret_run);

/**
 * pagehint_bitmap_take_run - clears and returns the next run of at least `least` set bits in [from, to), at most `most`
 * @bitmap:  the bitmap
 * @from:    where to start
 * @to:      where to stop (exclusive)
 * @least:   shortest run wanted [bits]
 * @most:    longest run wanted [bits]
 * @align:   start and length are multiples of this [bits]; 0 or 1 = none
 * @ret_run: the run; its bits are clear now and no other taker has them
 * Two takers never get the same bit; bits that another taker is trying to get at this moment are passed over.
 * Return: 0; -ENOENT none; -EINVAL least 0, most < least, from > to.
 * Thread: any.   Cost: O(words scanned), three atomics per word taken.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_take_run(struct pagehint_bitmap *bitmap, uint64_t from,
							      uint64_t to, uint64_t least, uint64_t most,
							      uint64_t align, struct pagehint_run *ret_run);

/** pagehint_bitmap_count - set bits, kept as a counter. Thread: any (exact at rest, never too little).  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_bitmap_count(const struct pagehint_bitmap *bitmap);

/**
 * pagehint_bitmap_export - writes [first, first + n) as a flat little-endian bitmap, as migration code and KVM dirty logs use
 * @bitmap: the bitmap
 * @first:  first bit; a multiple of 64
 * @n:      how many [bits]
 * @out:    (n + 63) / 64 words; bit i of the range is bit i % 8 of byte i / 8; bits beyond n and of absent sections are 0
 * @words:  room in out [64-bit words]
 * Return: 0; -EINVAL first not a multiple of 64, or out too small; -ERANGE beyond span.
 * Thread: any (each word is read once).   Cost: O(n / 64).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_export(const struct pagehint_bitmap *bitmap, uint64_t first,
							    uint64_t n, uint64_t *out, uint64_t words);

/**
 * pagehint_bitmap_next_section - the first present section at or after a bit
 * @ret_run: the section's bits, clipped to the span
 * Return: 0; -ENOENT none.
 * Thread: any.   Cost: O(sections of the span scanned).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_bitmap_next_section(const struct pagehint_bitmap *bitmap, uint64_t from,
								  struct pagehint_run *ret_run);

PAGEHINT_END
#endif
