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
