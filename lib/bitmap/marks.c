/*
 * marks: which bits stayed set since the origin looked, and which were reported and not cleared since.
 */
#include <errno.h>

#include "bitmap/state.h"

int ph_bitmap_watch(struct pagehint_bitmap *b)
{
	uint32_t idle = 0;
	if (!atomic_compare_exchange_strong(&b->watched, &idle, 1))
		return -EBUSY;
	atomic_store(&b->handed_out, 0);
	return 0;
}

void ph_bitmap_unwatch(struct pagehint_bitmap *b)
{
	atomic_store(&b->watched, 0);
	for (uint64_t s = ph_bitmap_present(b, 0); s < b->sections; s = ph_bitmap_present(b, s + 1)) {
		struct ph_bitmap_marks *marks = ph_bitmap_marks(b, ph_bitmap_slot(b, s));
		for (unsigned word = 0; word < PH_SECTION_WORDS; word++) {
			atomic_store(&marks[word].looked, 0);
			atomic_store(&marks[word].reported, 0);
		}
	}
}

void ph_bitmap_unmark(struct pagehint_bitmap *b, struct ph_bitmap_marks *marks, uint64_t mask, uint32_t flags)
{
	if ((atomic_load(&marks->looked) & mask) != 0)
		atomic_fetch_and(&marks->looked, ~mask);
	if ((atomic_load(&marks->reported) & mask) == 0)
		return;
	uint64_t reported = atomic_fetch_and(&marks->reported, ~mask) & mask;
	if ((flags & PH_TAKE_REPORT) == 0)
		atomic_fetch_add(&b->handed_out, ph_popcount(reported));
}

/*
 * A clear that was over before the mark came does not see it. Then either the bit is still zero when it is read again, and
 * the mark goes; or it has been set anew before that, and is untouched from here on. A clear that comes later sees the mark.
 */
void ph_bitmap_look(const struct pagehint_bitmap *b, uint64_t slot, unsigned word, uint64_t mask)
{
	_Atomic uint64_t *bits = &ph_bitmap_words(b, slot)[word];
	_Atomic uint64_t *looked = &ph_bitmap_marks(b, slot)[word].looked;
	uint64_t fresh = atomic_load(bits) & ~atomic_load(looked) & mask;
	if (fresh == 0)
		return;
	atomic_fetch_or(looked, fresh);
	uint64_t gone = fresh & ~atomic_load(bits);
	if (gone != 0)
		atomic_fetch_and(looked, ~gone);
}

void ph_bitmap_report(struct pagehint_bitmap *b, uint64_t first, uint64_t n)
{
	for (uint64_t bit = first, end = first + n, next; bit < end; bit = next) {
		uint64_t slot = ph_bitmap_slot(b, bit / PH_SECTION_BITS);
		next = ph_bitmap_next(bit, slot == PH_NO_SLOT ? PH_SECTION_BITS : 64, end);
		if (slot != PH_NO_SLOT)
			atomic_fetch_or(&ph_bitmap_marks(b, slot)[ph_bitmap_word_of(bit)].reported,
					ph_bitmap_mask(bit, next));
	}
}
