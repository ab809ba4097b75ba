#include "pager/state.h"

#include "base/bits.h"

/*
 * What each value becomes. By place: 0 ABSENT, 1 INFLIGHT, 2 PRESENT, 3 REMOVED; 4, 6, 7 LEAVING beside one of them;
 * 5 POISONED; 9 CLEARING; 10 DIRTY; 14 DIRTY and LEAVING. The rest does not occur.
 */
const struct ph_change ph_change_claim = { { 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_claim_removed = { { 0, 1, 2, 9, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_present = { { 0, 2, 2, 3, 4, 5, 6, 7, 8, 2, 10, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_release = { { 0, 0, 2, 3, 4, 5, 6, 7, 8, 3, 10, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_poisoned = { { 0, 5, 2, 3, 4, 5, 6, 7, 8, 5, 10, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_dirty = { { 0, 1, 10, 10, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_clean = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_leave = { { 4, 9, 6, 7, 4, 6, 6, 7, 8, 9, 14, 11, 12, 13, 14, 15 } };
const struct ph_change ph_change_stay = { { 0, 1, 2, 3, 0, 5, 2, 3, 8, 9, 10, 11, 12, 13, 10, 15 } };
const struct ph_change ph_change_left = { { 0, 1, 2, 3, 3, 5, 3, 3, 8, 9, 10, 11, 12, 13, 3, 15 } };
const struct ph_change ph_change_left_present = { { 0, 1, 2, 3, 0, 5, 3, 3, 8, 9, 10, 11, 12, 13, 3, 15 } };
const struct ph_change ph_change_take_away = { { 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 } };
const struct ph_change ph_change_attach = { { 0, 0, 2, 3, 0, 5, 2, 3, 8, 3, 10, 11, 12, 13, 10, 15 } };

static uint64_t load(const struct ph_states *s, uint64_t word)
{
	return atomic_load_explicit(&s->words[word], memory_order_acquire);
}

unsigned ph_state_get(const struct ph_states *s, uint64_t page)
{
	return load(s, page / PH_STATE_PAGES) >> page % PH_STATE_PAGES * 4 & 15;
}

/* What a word becomes; *changed has a bit a page. */
static uint64_t changed_word(uint64_t old, uint32_t mask, const struct ph_change *change, uint32_t *changed)
{
	uint64_t now = old;
	*changed = 0;
	for (; mask != 0; mask &= mask - 1) {
		unsigned i = ph_ctz(mask), from = old >> 4 * i & 15;
		if (change->to[from] == from)
			continue;
		now ^= (uint64_t)(from ^ change->to[from]) << 4 * i;
		*changed |= 1u << i;
	}
	return now;
}

uint32_t ph_state_word(struct ph_states *s, uint64_t word, uint32_t mask, const struct ph_change *change)
{
	uint64_t old = load(s, word);
	uint32_t changed;
	for (;;) {
		uint64_t now = changed_word(old, mask, change, &changed);
		if (changed == 0 || atomic_compare_exchange_weak(&s->words[word], &old, now))
			return changed;
	}
}

/* The part of [first, end) that lies in the word of `first`, as a mask. */
static uint32_t part_of(uint64_t first, uint64_t end, uint64_t *ret_n)
{
	unsigned at = first % PH_STATE_PAGES;
	uint64_t n = end - first;
	if (n > PH_STATE_PAGES - at)
		n = PH_STATE_PAGES - at;
	*ret_n = n;
	return (uint32_t)ph_mask(at, (unsigned)n);
}

uint64_t ph_state_change(struct ph_states *s, uint64_t first, uint64_t n, const struct ph_change *change)
{
	uint64_t count = 0, part;
	for (uint64_t end = first + n; first < end; first += part) {
		uint32_t mask = part_of(first, end, &part);
		count += ph_popcount(ph_state_word(s, first / PH_STATE_PAGES, mask, change));
	}
	return count;
}

/* The pages of `mask` from the lowest on that would change without a gap. */
static uint32_t leading(uint64_t word, uint32_t mask, const struct ph_change *change)
{
	uint32_t changed;
	(void)changed_word(word, mask, change, &changed);
	unsigned at = ph_ctz(mask);
	return changed & (uint32_t)ph_mask(at, ph_run_length(changed, at));
}

uint64_t ph_state_take(struct ph_states *s, uint64_t first, uint64_t n, const struct ph_change *change)
{
	uint64_t taken = 0, part;
	for (uint64_t end = first + n; first < end; first += part) {
		uint32_t mask = part_of(first, end, &part), want, changed;
		uint64_t old = load(s, first / PH_STATE_PAGES), now;
		do {
			want = leading(old, mask, change);
			now = changed_word(old, want, change, &changed);
		} while (want != 0 && !atomic_compare_exchange_weak(&s->words[first / PH_STATE_PAGES], &old, now));
		taken += ph_popcount(want);
		if (want != mask)
			break;
	}
	return taken;
}

uint64_t ph_state_run(const struct ph_states *s, uint64_t first, uint64_t n, unsigned *ret_state)
{
	unsigned state = ph_state_get(s, first);
	uint64_t at = first, end = first + n, all = state * UINT64_C(0x1111111111111111);
	while (at < end) {
		if (at % PH_STATE_PAGES == 0 && end - at >= PH_STATE_PAGES && load(s, at / PH_STATE_PAGES) == all) {
			at += PH_STATE_PAGES;
			continue;
		}
		if (ph_state_get(s, at) != state)
			break;
		at++;
	}
	*ret_state = state;
	return at - first;
}

uint64_t ph_state_count(const struct ph_states *s, uint64_t first, uint64_t n, uint32_t set)
{
	uint64_t count = 0;
	for (uint64_t end = first + n; first < end;) {
		unsigned state;
		uint64_t run = ph_state_run(s, first, end - first, &state);
		count += (set >> state & 1) != 0 ? run : 0;
		first += run == 0 ? 1 : run;
	}
	return count;
}

uint64_t ph_state_find(const struct ph_states *s, uint64_t first, uint64_t end, uint32_t set)
{
	while (first < end) {
		unsigned state;
		uint64_t run = ph_state_run(s, first, end - first, &state);
		if ((set >> state & 1) != 0)
			return first;
		first += run == 0 ? 1 : run;
	}
	return end;
}
