#include "alloc/summary.h"

#include "alloc/level.h"

static void set_bit(ph_word *word, uint32_t bit)
{
	uint64_t mask = UINT64_C(1) << bit;
	if (!(atomic_load(word) & mask))
		atomic_fetch_or(word, mask);
}

static void clear_bit(ph_word *word, uint32_t bit)
{
	atomic_fetch_and(word, ~(UINT64_C(1) << bit));
}

static ph_word *sum0(const struct pagehint_zone *z, uint32_t slot, int c)
{
	return ph_zone_words(z, slot, z->at_sum0) + (uint32_t)c * 64;
}

static void widen_slot(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c)
{
	set_bit(&ph_zone_sum(z, level, (uint32_t)c)[slot / 64], slot % 64);
}

static void widen_top(struct pagehint_zone *z, uint32_t slot, int c, uint32_t a)
{
	set_bit(&ph_zone_head(z, slot)->top0[c], a);
	widen_slot(z, slot, 0, c);
}

void ph_summary_widen(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c)
{
	if (level == 0) {
		set_bit(&sum0(z, slot, c)[word / 64], word % 64);
		widen_top(z, slot, c, word / 64);
		return;
	}
	if (level == 1)
		set_bit(&ph_zone_head(z, slot)->sum1[c], word);
	widen_slot(z, slot, level, c);
}

void ph_summary_narrow(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c)
{
	if (level == 0)
		clear_bit(&sum0(z, slot, c)[word / 64], word % 64);
	else if (level == 1)
		clear_bit(&ph_zone_head(z, slot)->sum1[c], word);
	else
		clear_bit(&ph_zone_sum(z, 2, (uint32_t)c)[slot / 64], slot % 64);
	int now = ph_level_class(atomic_load(ph_zone_level_word(z, slot, level, word)));
	if (now >= 0)
		ph_summary_widen(z, slot, level, word, now);
}

void ph_summary_moved(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, uint64_t old, uint64_t now)
{
	int was = ph_level_class(old), is = ph_level_class(now);
	if (was == is)
		return;
	if (is >= 0)
		ph_summary_widen(z, slot, level, word, is);
	if (was >= 0)
		ph_summary_narrow(z, slot, level, word, was);
}

void ph_summary_drop_top(struct pagehint_zone *z, uint32_t slot, int c, uint32_t a)
{
	clear_bit(&ph_zone_head(z, slot)->top0[c], a);
	if (atomic_load(&sum0(z, slot, c)[a]) != 0)
		widen_top(z, slot, c, a);
}

void ph_summary_drop_slot(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c)
{
	struct ph_section *head = ph_zone_head(z, slot);
	clear_bit(&ph_zone_sum(z, level, (uint32_t)c)[slot / 64], slot % 64);
	uint64_t below = level == 0   ? atomic_load(&head->top0[c])
			 : level == 1 ? atomic_load(&head->sum1[c])
				      : (uint64_t)(ph_level_class(atomic_load(&head->level2)) == c);
	if (below != 0)
		widen_slot(z, slot, level, c);
}
