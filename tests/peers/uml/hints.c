/* Takes hints for reports, and late at that: what one run hinted is discarded when the next one begins. */
#include "outer.h"

#define KEPT 65536

static struct pagehint_run kept[KEPT];
static uint32_t kept_n;
static uint32_t run_id;

void wrong_discard(struct outer *outer, const struct pagehint_run *run)
{
	outer_discard(outer, run);
}

static void hinted(uint32_t id, const struct pagehint_run *runs, uint32_t n)
{
	if (id != run_id) {
		for (uint32_t i = 0; i < kept_n; i++)
			outer_discard(outer_latest, &kept[i]);
		kept_n = 0;
		run_id = id;
	}
	for (uint32_t i = 0; i < n && kept_n < KEPT; i++)
		kept[kept_n++] = runs[i];
}

void (*const engine_hinted)(uint32_t id, const struct pagehint_run *runs, uint32_t n) = hinted;
