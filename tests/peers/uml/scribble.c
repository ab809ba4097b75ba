/* Writes into reported pages a second after they were acknowledged, when the guest may use them again. */
#include <string.h>
#include <time.h>

#include "outer.h"

#define KEPT 4096

void (*const engine_hinted)(uint32_t id, const struct pagehint_run *runs, uint32_t n) = NULL;

static struct {
	struct pagehint_run run;
	time_t at;
} kept[KEPT];
static uint32_t first, next;

void wrong_discard(struct outer *outer, const struct pagehint_run *run)
{
	struct timespec now;
	void *at;
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (; first != next && kept[first % KEPT].at + 1 < now.tv_sec; first++)
		if (pagehint_map_host(outer->map, kept[first % KEPT].run.frame, kept[first % KEPT].run.frames, &at) ==
		    0)
			memset(at, 0xa5, (size_t)kept[first % KEPT].run.frames << 12);
	if (next - first < KEPT) {
		kept[next % KEPT].run = *run;
		kept[next % KEPT].at = now.tv_sec;
		next++;
	}
}
