#include "support/zone_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/shared.h>

#include "alloc/evict.h"
#include "alloc/sets.h"
#include "support/turns.h"

#define GRANULES 64u /* the first of a section; a play uses no others */
#define SECTIONS 3u
#define MEMORY 65536u
#define KEPT_ORDER 98u /* of the witness's entries for what the host keeps */
#define INSTALL_TRIES 3u

static struct {
	struct ph_host host;
	unsigned char memory[MEMORY];
	uint8_t absent[SECTIONS][GRANULES]; /* no memory is behind it */
} now, start;
static int is_shared;

void host_open(struct pagehint_zone *zone)
{
	memset(&now, 0, sizeof(now));
	is_shared = (zone->flags & PAGEHINT_ZONE_SHARED) != 0;
	if (is_shared && ph_host_bytes(zone) > MEMORY)
		abort();
	if (is_shared)
		ph_host_init(&now.host, zone, now.memory);
}

void host_mark_start(void)
{
	if (is_shared)
		start = now;
}

void host_rewind(void)
{
	if (is_shared)
		now = start;
}

uint64_t host_mark(void)
{
	uint64_t sum = 0;
	if (!is_shared)
		return 0;
	for (uint32_t i = 0; i < SECTIONS * GRANULES; i++)
		sum += now.absent[i / GRANULES][i % GRANULES] ? (i + 1) * UINT64_C(0xd1342543de82ef95) : 0;
	return sum * 31 + now.host.put * 7 + now.host.taken * 5 + now.host.held;
}

static uint8_t *absent_at(uint64_t frame)
{
	uint64_t i = frame % PAGEHINT_SECTION_FRAMES >> now.host.z->granule_order;
	if (i >= GRANULES)
		turn_fault("frame %llu is none of the play's", (unsigned long long)frame);
	return &now.absent[frame / PAGEHINT_SECTION_FRAMES][i];
}

/* ---- the host ---- */

static uint64_t frame_of(uint32_t slot, uint32_t granule)
{
	return ((now.host.number[slot] - 1) << PH_SECTION_SHIFT) + ((uint64_t)granule << now.host.z->granule_order);
}

static int has(const uint64_t *granules, uint32_t i)
{
	return (int)(granules[i / 64] >> (i % 64) & 1);
}

static void takes_of(uint32_t who, uint32_t slot, uint32_t n, int keeps)
{
	struct ph_host *h = &now.host;
	uint64_t frames = UINT64_C(1) << h->z->granule_order;
	uint32_t granules = ph_host_granules(h->z);
	for (uint32_t i = 0; i < h->z->granule_words; i++)
		h->want[i] = ph_low_mask(granules) & ~ph_host_mine(h, slot)[i];
	n = ph_host_take(h, slot, n);
	if (n == 0)
		return;
	for (uint32_t i = 0; i < granules; i++) {
		if (!has(h->got, i))
			continue;
		witness_isolated(who, frame_of(slot, i), frames, 0);
		*absent_at(frame_of(slot, i)) = 1;
		ph_sets_unused(h->z, slot, i, 1);
		witness_reports(frame_of(slot, i), frames);
		struct witness_held *mine = witness_newest(who, WITNESS_ISOLATED);
		mine->order = KEPT_ORDER;
		mine->what = keeps ? WITNESS_OUT : WITNESS_GIVING;
	}
	if (keeps)
		ph_host_keep(h, n);
	else
		ph_host_release(h, slot, h->got, &h->away);
	for (uint32_t i = 0; !keeps && i < witness_n; i++)
		if (witness_held[i].order == KEPT_ORDER && witness_held[i].what == WITNESS_GIVING)
			witness_gave(&witness_held[i], 0);
}

void host_takes(uint32_t who, uint32_t n, int keeps)
{
	for (uint32_t slot = 0; slot < now.host.z->max_sections; slot++)
		takes_of(who, slot, n, keeps);
	if (now.host.lies != 0)
		turn_fault("the guest of a play does not lie");
}

void host_restores(void)
{
	struct ph_host *h = &now.host;
	for (uint32_t i = 0; is_shared && i < witness_n; i++)
		if (witness_held[i].order == KEPT_ORDER && witness_held[i].what == WITNESS_OUT)
			witness_gives(&witness_held[i]);
	for (uint32_t slot = 0; is_shared && slot < h->top; slot++) {
		if (h->count[slot] == 0)
			continue;
		memcpy(h->got, ph_host_mine(h, slot), h->z->granule_words * sizeof(uint64_t));
		ph_host_release(h, slot, h->got, &h->held);
	}
	for (uint32_t i = 0; is_shared && i < witness_n; i++)
		if (witness_held[i].order == KEPT_ORDER && witness_held[i].what == WITNESS_GIVING)
			witness_gave(&witness_held[i], 0);
	if (is_shared && (h->held != 0 || h->away != 0 || h->put != h->taken))
		turn_fault("the host put %llu of %llu frames back", (unsigned long long)h->put,
			   (unsigned long long)h->taken);
}

/* ---- the guest ---- */

static int install(void *ctx, const struct pagehint_run *run)
{
	(void)ctx;
	if (!*absent_at(run->frame))
		turn_fault("granule of frame %llu is installed twice", (unsigned long long)run->frame);
	*absent_at(run->frame) = 0;
	return 0;
}

void host_is_asked(const struct witness_held *h)
{
	int r = -EAGAIN;
	if (h == NULL)
		return;
	for (uint32_t tries = 0; r == -EAGAIN && tries < INSTALL_TRIES; tries++)
		r = pagehint_zone_install(now.host.z, h->frame, h->frames, install, NULL);
	if (r != 0 && r != -EAGAIN) /* somebody else stands still in the middle of it */
		turn_fault("an installation says %d", r);
	uint64_t g = now.host.z->granule_order;
	for (uint64_t f = h->frame >> g << g; r == 0 && f < h->frame + h->frames; f += UINT64_C(1) << g)
		if (*absent_at(f))
			turn_fault("frame %llu is used, and no memory is behind it", (unsigned long long)f);
}
