#include "alloc/summary.h"

#include "alloc/level.h"

static void unsay(ph_word *word, uint32_t bit)
{
	uint64_t mask = UINT64_C(1) << bit;
	if (atomic_load(word) & mask)
		atomic_fetch_and(word, ~mask);
}

void ph_summary_drop_top(struct pagehint_zone *z, uint32_t slot, int c, uint32_t a)
{
	unsay(&ph_zone_head(z, slot)->top0[c], a);
	if (atomic_load(&ph_summary_sum0(z, slot, c)[a]) != 0)
		ph_summary_widen_top(z, slot, c, a);
}

void ph_summary_drop_slot(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c)
{
	struct ph_section *head = ph_zone_head(z, slot);
	unsay(&ph_zone_sum(z, level, (uint32_t)c)[slot / 64], slot % 64);
	uint64_t below = level == 0   ? atomic_load(&head->top0[c])
			 : level == 1 ? atomic_load(&head->sum1[c])
				      : (uint64_t)(ph_level_class(atomic_load(&head->level2)) == c);
	if (below != 0)
		ph_summary_widen_slot(z, slot, level, c);
}

void ph_summary_drop_up(struct pagehint_zone *z, uint32_t level, int c, uint32_t i)
{
	ph_word *up = &ph_zone_up(z, level, (uint32_t)c)[i / 64];
	unsay(up, i % 64);
	if (atomic_load(&ph_zone_sum(z, level, (uint32_t)c)[i]) != 0)
		ph_summary_say(up, i % 64);
}

/* The word has this class: turns on its lowest bit. */
static void say_word(struct pagehint_zone *z, uint32_t slot, uint32_t level, uint32_t word, int c)
{
	if (level == 0)
		ph_summary_say(&ph_summary_sum0(z, slot, c)[word / 64], word % 64);
	else if (level == 1)
		ph_summary_say(&ph_zone_head(z, slot)->sum1[c], word);
	else
		ph_summary_say(&ph_zone_sum(z, level, (uint32_t)c)[slot / 64], slot % 64);
}

/* Whatever bit is on has the bits above it on. */
static void close_chain(struct pagehint_zone *z, uint32_t slot, uint32_t level, int c)
{
	struct ph_section *head = ph_zone_head(z, slot);
	for (uint32_t a = 0; level == 0 && a < PH_L0_WORDS / 64; a++)
		if (atomic_load(&ph_summary_sum0(z, slot, c)[a]) != 0)
			ph_summary_say(&head->top0[c], a);
	ph_word *sum = &ph_zone_sum(z, level, (uint32_t)c)[slot / 64];
	uint64_t below = level == 0 ? atomic_load(&head->top0[c]) : level == 1 ? atomic_load(&head->sum1[c]) : 0;
	if (below != 0)
		ph_summary_say(sum, slot % 64);
	if (atomic_load(sum) != 0)
		ph_summary_say(&ph_zone_up(z, level, (uint32_t)c)[slot / 4096], slot / 64 % 64);
}

void ph_summary_mend(struct pagehint_zone *z, uint32_t slot, uint32_t level)
{
	for (; level < PH_WHOLE_LEVEL; level++) {
		for (uint32_t word = 0; word < PH_L0_WORDS >> (6 * level); word++) {
			int c = ph_level_class(atomic_load(ph_zone_level_word(z, slot, level, word)));
			if (c >= 0)
				say_word(z, slot, level, word, c);
		}
		/* of every class: who died may have turned on a bit of a class that the word has only later */
		for (int c = 0; c < (int)PH_CLASSES; c++)
			close_chain(z, slot, level, c);
	}
}
