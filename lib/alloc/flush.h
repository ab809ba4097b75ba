/*
 * flush: the state of a flush filter as it lies in memory.
 *
 * The problem: one stamp for each 64 frames, over a span with holes, in memory that costs nothing where nothing was stamped
 * and that works at any address. Why this shape: as in a zone, a table from section number to slot, and slots of 4096 stamps
 * at offsets; but a slot is claimed by the first stamp that a section gets, since a filter knows nothing of the zone.
 * Not here: anything of the zone; a filter only shares its numbering of frames.
 * Owns: the layout. Called from: any thread.
 *
 * Invariants:
 *  - the clock never shows a value whose lower 32 bits are 0, so that a stamp of 0 means: none;
 *  - a stamp is replaced only by one that is as new or newer, both seen from now: seen() of a word never goes back;
 *  - a slot that no section uses is all zero;
 *  - `rest` never goes back. It stands in for every frame whose stamp found no room.
 * Why a stamp is right: the free takes its stamp s from the clock with a read-modify-write, a flush begins with another, t. If
 * s < t the free's came first, so all that the freeing thread did before (the page tables!) is visible to the flush and to
 * whatever refills the TLB after it. A plain load of the clock would not do: it may run ahead of the store to the page table.
 */
#ifndef PH_ALLOC_FLUSH_H
#define PH_ALLOC_FLUSH_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/flush.h>
#include <pagehint/zone.h>

#define PH_FLUSH_MAGIC UINT64_C(0x6873756c66746770)
#define PH_FLUSH_LAYOUT 1u
#define PH_FLUSH_ENDIAN 0x01020304u
#define PH_FLUSH_WORD_SHIFT 6u                                           /* frames of a stamp, as a power of two */
#define PH_FLUSH_STAMPS (PAGEHINT_SECTION_FRAMES >> PH_FLUSH_WORD_SHIFT) /* of a section */

typedef _Atomic uint32_t ph_stamp;

struct pagehint_flush {
	uint64_t magic;
	uint32_t layout;
	uint32_t endian;
	uint64_t bytes;
	uint64_t max_sections;
	uint64_t span_sections;
	uint32_t cpus;
	uint32_t from_new; /* made by pagehint_flush_new: free unmaps it */
	/* offsets inside the state [bytes] */
	uint64_t off_slots;  /* _Atomic uint32_t[span_sections]: slot + 1, 0 = no stamps yet */
	uint64_t off_used;   /* bitmap over slots: claimed */
	uint64_t off_cpus;   /* _Atomic uint64_t[cpus]: the tick before the CPU's last flush; 0 = it never flushed */
	uint64_t off_stamps; /* ph_stamp[max_sections][PH_FLUSH_STAMPS] */
	_Alignas(64) _Atomic uint64_t clock;
	_Alignas(64) _Atomic uint64_t rest; /* whole time, not its half; 0 = none */
};

static inline void *ph_flush_at(const struct pagehint_flush *f, uint64_t offset)
{
	return (void *)((uintptr_t)f + (uintptr_t)offset);
}

static inline _Atomic uint32_t *ph_flush_slots(const struct pagehint_flush *f)
{
	return ph_flush_at(f, f->off_slots);
}

static inline _Atomic uint64_t *ph_flush_used(const struct pagehint_flush *f)
{
	return ph_flush_at(f, f->off_used);
}

static inline _Atomic uint64_t *ph_flush_cpus(const struct pagehint_flush *f)
{
	return ph_flush_at(f, f->off_cpus);
}

static inline ph_stamp *ph_flush_stamps(const struct pagehint_flush *f, uint32_t slot)
{
	return (ph_stamp *)ph_flush_at(f, f->off_stamps) + (uint64_t)slot * PH_FLUSH_STAMPS;
}

/* The newest time up to `now` whose lower half is this stamp: never older than the stamp really is. */
static inline uint64_t ph_flush_seen(uint32_t stamp, uint64_t now)
{
	return now - (uint32_t)((uint32_t)now - stamp);
}

/* Raises a time that never goes back. */
static inline void ph_flush_raise(_Atomic uint64_t *time, uint64_t to)
{
	uint64_t old = atomic_load(time);
	while (old < to && !atomic_compare_exchange_strong(time, &old, to))
		;
}

/* Stamps the words of a range that lies in the span with a time that was read from the clock, however long ago. */
void ph_flush_stamp(struct pagehint_flush *f, uint64_t frame, uint64_t frames, uint64_t time);

#endif
