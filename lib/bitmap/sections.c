/*
 * sections: the index from a section's number to its slot, and sections that come and go.
 *
 * Why this shape: the span may be 2^37 sections of which a few are present, so the index is a hash table with linear probing
 * sized by max_sections, or one entry a section when that is smaller. There is one writer at a time and any number of readers.
 * Invariant: between the home of a key and its entry no entry is empty; so a reader may stop at an empty one.
 */
#include <errno.h>

#include "bitmap/state.h"

#define EMPTY UINT64_C(0)
#define USED_ONCE UINT64_MAX

static struct ph_bitmap_entry *entry(const struct pagehint_bitmap *b, uint64_t at)
{
	return (struct ph_bitmap_entry *)ph_bitmap_at(b, b->at_entries) + at;
}

static int direct(const struct pagehint_bitmap *b)
{
	return b->entries == b->sections;
}

static uint64_t home(const struct pagehint_bitmap *b, uint64_t section)
{
	return direct(b) ? section : (section * UINT64_C(0x9e3779b97f4a7c15) >> 24) % b->entries;
}

static uint64_t after(const struct pagehint_bitmap *b, uint64_t at)
{
	return at + 1 == b->entries ? 0 : at + 1;
}

/* the entry of a section, or b->entries */
static uint64_t find(const struct pagehint_bitmap *b, uint64_t section)
{
	uint64_t at = home(b, section);
	uint64_t probes = direct(b) ? 1 : b->entries;
	for (uint64_t i = 0; i < probes; i++, at = after(b, at)) {
		uint64_t key = atomic_load(&entry(b, at)->key);
		if (key == section + 1)
			return at;
		if (key == EMPTY)
			break;
	}
	return b->entries;
}

uint64_t ph_bitmap_slot(const struct pagehint_bitmap *b, uint64_t section)
{
	uint64_t at = find(b, section);
	return at == b->entries ? PH_NO_SLOT : atomic_load(&entry(b, at)->slot);
}

uint64_t ph_bitmap_present(const struct pagehint_bitmap *b, uint64_t section)
{
	if (section >= b->sections)
		return b->sections;
	if (direct(b)) {
		while (section < b->sections && atomic_load(&entry(b, section)->key) != section + 1)
			section++;
		return section;
	}
	if (find(b, section) != b->entries)
		return section;
	uint64_t best = b->sections;
	for (uint64_t at = 0; at < b->entries; at++) {
		uint64_t key = atomic_load(&entry(b, at)->key);
		if (key != EMPTY && key != USED_ONCE && key - 1 >= section && key - 1 < best)
			best = key - 1;
	}
	return best;
}

static int range(const struct pagehint_bitmap *b, uint64_t first, uint64_t n, uint64_t *ret_begin, uint64_t *ret_end)
{
	if (n == 0)
		return -EINVAL;
	if (first >= b->span || n > b->span - first)
		return -ERANGE;
	*ret_begin = first / PH_SECTION_BITS;
	*ret_end = (first + n - 1) / PH_SECTION_BITS + 1;
	return 0;
}

static void insert(struct pagehint_bitmap *b, uint64_t section)
{
	uint64_t slot = b->free_slot;
	if (slot != 0) {
		slot--;
		b->free_slot = ph_bitmap_head(b, slot)->next_free;
		ph_bitmap_head(b, slot)->next_free = 0;
	} else {
		slot = b->fresh++;
	}
	uint64_t at = home(b, section);
	for (uint64_t key = atomic_load(&entry(b, at)->key); key != EMPTY && key != USED_ONCE;
	     key = atomic_load(&entry(b, at)->key))
		at = after(b, at);
	atomic_store(&entry(b, at)->slot, slot);
	atomic_store(&entry(b, at)->key, section + 1);
	b->present++;
}

int pagehint_bitmap_add(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n)
{
	uint64_t begin, end;
	int rc = range(bitmap, first, n, &begin, &end);
	if (rc != 0)
		return rc;
	if (ph_bitmap_present(bitmap, begin) < end)
		return -EEXIST;
	if (end - begin > bitmap->max_sections - bitmap->present)
		return -ENOSPC;
	for (uint64_t s = begin; s < end; s++)
		insert(bitmap, s);
	return 0;
}

/* Leaves the slot all zero for its next section. */
static void wipe(struct pagehint_bitmap *b, uint64_t slot)
{
	_Atomic uint64_t *words = ph_bitmap_words(b, slot);
	struct ph_bitmap_marks *marks = ph_bitmap_marks(b, slot);
	int marked = atomic_load(&b->watched) != 0;
	uint64_t bits = 0;
	for (unsigned word = 0; word < PH_SECTION_WORDS; word++) {
		bits += ph_popcount(atomic_exchange(&words[word], 0));
		if (!marked)
			continue;
		atomic_store(&marks[word].looked, 0);
		atomic_store(&marks[word].reported, 0);
	}
	atomic_fetch_sub(&b->count, bits);
	atomic_store(&ph_bitmap_head(b, slot)->set, 0);
}

static void erase(struct pagehint_bitmap *b, uint64_t section)
{
	uint64_t at = find(b, section), slot = atomic_load(&entry(b, at)->slot);
	atomic_store(&entry(b, at)->key, USED_ONCE);
	/* Where the next entry is empty no key was pushed past this one: it may be empty, too, and those before it. */
	while (atomic_load(&entry(b, after(b, at))->key) == EMPTY && atomic_load(&entry(b, at)->key) == USED_ONCE) {
		atomic_store(&entry(b, at)->key, EMPTY);
		at = at == 0 ? b->entries - 1 : at - 1;
	}
	wipe(b, slot);
	ph_bitmap_head(b, slot)->next_free = b->free_slot;
	b->free_slot = slot + 1;
	b->present--;
}

int pagehint_bitmap_remove(struct pagehint_bitmap *bitmap, uint64_t first, uint64_t n)
{
	uint64_t begin, end;
	int rc = range(bitmap, first, n, &begin, &end);
	if (rc != 0)
		return rc;
	for (uint64_t s = begin; s < end; s++)
		if (find(bitmap, s) == bitmap->entries)
			return -ERANGE;
	for (uint64_t s = begin; s < end; s++)
		erase(bitmap, s);
	return 0;
}

int pagehint_bitmap_next_section(const struct pagehint_bitmap *bitmap, uint64_t from, struct pagehint_run *ret_run)
{
	uint64_t section = ph_bitmap_present(bitmap, from / PH_SECTION_BITS);
	if (from >= bitmap->span || section == bitmap->sections)
		return -ENOENT;
	uint64_t first = section * PH_SECTION_BITS;
	ret_run->frame = first;
	ret_run->frames = ph_bitmap_next(first, PH_SECTION_BITS, bitmap->span) - first;
	return 0;
}
