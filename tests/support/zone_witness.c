#include "support/zone_witness.h"

#include <errno.h>
#include <string.h>

#include "alloc/sets.h"
#include "support/turns.h"

#define GROUP 64u       /* frames that come and go together */
#define MAX_GROUPS 128u /* only the first groups of a section are ever used by a play, and its first frames */
#define SECTIONS 3u
#define MAX_GRANULES 64u
#define MAX_TAKES 64u

enum { ABSENT = 0, ADDING, REMOVING, PRESENT };

struct call {
	int under_way;
	uint32_t order;
	uint64_t contig, most;
	int available; /* what it wants has been there all the time */
	uint64_t began;
};

struct take {
	uint64_t began, frame, frames;
};

struct record {
	struct witness_held held[WITNESS_HELD];
	uint32_t n_held;
	uint8_t present[SECTIONS][MAX_GROUPS];
	uint64_t clock;
	uint8_t handed[SECTIONS][MAX_GRANULES];  /* since its last report */
	uint64_t looked[SECTIONS][MAX_GRANULES]; /* when the last look at it had ended; 0 = never */
	struct take takes[MAX_TAKES];
	uint32_t n_takes;
};

struct witness_held witness_held[WITNESS_HELD];
uint32_t witness_n;

static struct pagehint_zone *zone;
static struct record now, start;
static struct call calls[TURN_THREADS];

/* ---- what is where ---- */

static uint8_t *group_at(uint64_t frame)
{
	uint64_t s = frame / PAGEHINT_SECTION_FRAMES, g = frame % PAGEHINT_SECTION_FRAMES / GROUP;
	static uint8_t nowhere;
	nowhere = ABSENT;
	return s < SECTIONS && g < MAX_GROUPS ? &now.present[s][g] : &nowhere;
}

static int overlap(uint64_t a, uint64_t a_frames, uint64_t b, uint64_t b_frames)
{
	return a < b + b_frames && b < a + a_frames;
}

static int is_present(uint64_t frame, uint64_t frames, uint8_t at_least)
{
	for (uint64_t f = frame / GROUP * GROUP; f < frame + frames; f += GROUP)
		if (*group_at(f) < at_least)
			return 0;
	return 1;
}

/* Present, and in no hand that it would have to come back from. What the reporter has counts as free: it comes back. */
static int is_there(uint64_t frame, uint64_t frames)
{
	if (!is_present(frame, frames, PRESENT))
		return 0;
	for (uint32_t i = 0; i < witness_n; i++) {
		const struct witness_held *h = &witness_held[i];
		if ((h->what == WITNESS_OUT || h->what == WITNESS_GIVING) &&
		    overlap(frame, frames, h->frame, h->frames))
			return 0;
	}
	return 1;
}

/* How many disjoint blocks are there? Counts no further than `enough`. */
static uint64_t blocks_there(uint64_t size, uint64_t enough)
{
	uint64_t n = 0, steps = size < GROUP ? GROUP : size;
	for (uint64_t s = 0; s < SECTIONS; s++)
		for (uint64_t at = 0; at + size <= MAX_GROUPS * GROUP; at += steps) {
			uint64_t first = s * PAGEHINT_SECTION_FRAMES + at;
			for (uint64_t f = first; f < first + steps && *group_at(first) == PRESENT; f += size) {
				n += (uint64_t)is_there(f, size);
				if (n >= enough)
					return n;
			}
		}
	return n;
}

static int is_available(uint32_t thread, const struct call *c)
{
	int block = c->order <= PAGEHINT_ORDER_MAX;
	uint64_t size = block ? UINT64_C(1) << c->order : c->contig, taken = 0;
	for (uint32_t i = 0; i < TURN_THREADS; i++)
		if (i != thread && calls[i].under_way && calls[i].most != 0) {
			if (!block)
				return 0; /* it may be in the way of any adjacent frames */
			taken += (calls[i].most + size - 1) / size;
		}
	return blocks_there(size, taken + 1) > taken;
}

/* Something has changed: is it still true of each call under way that it could have had what it wants? */
static void happened(void)
{
	now.clock++;
	for (uint32_t i = 0; i < TURN_THREADS; i++)
		if (calls[i].under_way && calls[i].available)
			calls[i].available = is_available(i, &calls[i]);
}

/* ---- the play ---- */

void witness_open(struct pagehint_zone *of)
{
	zone = of;
	memset(&now, 0, sizeof(now));
	memset(calls, 0, sizeof(calls));
	witness_n = 0;
	now.clock = 1;
}

void witness_mark_start(void)
{
	start = now;
	memcpy(start.held, witness_held, sizeof(witness_held));
	start.n_held = witness_n;
}

void witness_rewind(void)
{
	now = start;
	memcpy(witness_held, start.held, sizeof(witness_held));
	witness_n = start.n_held;
	memset(calls, 0, sizeof(calls));
}

int witness_is_out(uint64_t frame, uint64_t frames)
{
	for (uint32_t i = 0; i < witness_n; i++)
		if ((witness_held[i].what == WITNESS_OUT || witness_held[i].what == WITNESS_ISOLATED) &&
		    overlap(frame, frames, witness_held[i].frame, witness_held[i].frames))
			return 1;
	return 0;
}

uint64_t witness_unheld(void)
{
	return blocks_there(1, UINT64_MAX);
}

void witness_wants(uint32_t thread, uint32_t order, uint64_t contig, uint64_t most)
{
	if (thread >= TURN_THREADS)
		return;
	struct call *c = &calls[thread];
	*c = (struct call) { 0, order, contig, most, 0, 0 };
	happened();
	c->began = now.clock;
	c->available = (order <= PAGEHINT_ORDER_MAX || contig != 0) && is_available(thread, c);
	c->under_way = 1;
	happened();
}

void witness_ended(uint32_t thread, int r)
{
	if (thread >= TURN_THREADS)
		return;
	struct call c = calls[thread];
	if (r == -ENOSPC && c.available)
		turn_fault("a false -ENOSPC: order %u, %llu frames", c.order, (unsigned long long)c.contig);
	calls[thread].under_way = 0;
	happened();
}

static void take(uint32_t thread, uint64_t frame, uint64_t frames, uint32_t order, uint32_t what)
{
	if (witness_is_out(frame, frames))
		turn_fault("two have frames of %llu to %llu", (unsigned long long)frame,
			   (unsigned long long)(frame + frames));
	if (!is_present(frame, frames, ADDING))
		turn_fault("frame %llu is not there", (unsigned long long)frame);
	if (witness_n == WITNESS_HELD)
		turn_fault("the witness has seen too much");
	witness_held[witness_n++] = (struct witness_held) { frame, frames, thread, order, what };
}

void witness_got(uint32_t thread, uint64_t frame, uint64_t frames, uint32_t order)
{
	take(thread, frame, frames, order, WITNESS_OUT);
	uint64_t g = zone->granule_order, section = frame / PAGEHINT_SECTION_FRAMES;
	for (uint64_t f = frame >> g << g; f < frame + frames; f += UINT64_C(1) << g) {
		uint64_t i = f % PAGEHINT_SECTION_FRAMES >> g;
		if (i < MAX_GRANULES && section < SECTIONS)
			now.handed[section][i] = 1;
	}
	if (now.n_takes < MAX_TAKES)
		now.takes[now.n_takes++] =
			(struct take) { thread < TURN_THREADS ? calls[thread].began : now.clock, frame, frames };
	happened();
}

struct witness_held *witness_old(uint32_t n)
{
	for (uint32_t i = 0; i < start.n_held; i++)
		if (start.held[i].what != WITNESS_GONE && n-- == 0)
			return &witness_held[i];
	return NULL;
}

struct witness_held *witness_newest(uint32_t thread, uint32_t what)
{
	for (uint32_t i = witness_n; i-- > 0;)
		if (witness_held[i].thread == thread && witness_held[i].what == what)
			return &witness_held[i];
	return NULL;
}

void witness_gives(struct witness_held *h)
{
	h->what = WITNESS_GIVING;
	happened();
}

void witness_gave(struct witness_held *h, int r)
{
	if (r < 0)
		turn_fault("frame %llu is not taken back: %d", (unsigned long long)h->frame, r);
	h->what = WITNESS_GONE;
	happened();
}

/* ---- sections ---- */

static void set_groups(uint64_t frame, uint64_t frames, uint8_t to)
{
	for (uint64_t f = frame; f < frame + frames && f % PAGEHINT_SECTION_FRAMES / GROUP < MAX_GROUPS; f += GROUP) {
		*group_at(f) = to;
		uint64_t i = f % PAGEHINT_SECTION_FRAMES >> zone->granule_order;
		if (to == ADDING && i < MAX_GRANULES)
			now.handed[f / PAGEHINT_SECTION_FRAMES][i] = 0;
	}
	happened();
}

void witness_adds(uint64_t frame, uint64_t frames)
{
	set_groups(frame, frames, ADDING);
}

void witness_added(uint64_t frame, uint64_t frames, int r)
{
	set_groups(frame, frames, r == 0 ? PRESENT : ABSENT);
}

void witness_removes(uint64_t frame, uint64_t frames)
{
	if (is_present(frame, frames, PRESENT))
		set_groups(frame, frames, REMOVING);
}

void witness_removed(uint64_t frame, uint64_t frames, int r)
{
	if (*group_at(frame) != REMOVING)
		return;
	set_groups(frame, frames, r == 0 ? ABSENT : PRESENT);
	if (r == 0 && witness_is_out(frame, frames))
		turn_fault("frames from %llu on went while somebody had some", (unsigned long long)frame);
}

/* ---- reporting ---- */

/*
 * A use of the granule since the last look makes it young, also one that began and ended while this look was under way: it must
 * have been before the granule was taken.
 */
static void check_age(uint64_t frame, uint64_t size, uint64_t last)
{
	if (last == 0)
		turn_fault("granule of frame %llu is taken, and was never looked at", (unsigned long long)frame);
	for (uint32_t i = 0; i < now.n_takes; i++) {
		const struct take *t = &now.takes[i];
		if (t->began > last && overlap(frame, size, t->frame, t->frames))
			turn_fault("granule of frame %llu is taken, and is young", (unsigned long long)frame);
	}
}

void witness_isolated(uint32_t thread, uint64_t frame, uint64_t frames, int aged)
{
	uint64_t g = zone->granule_order, size = UINT64_C(1) << g, section = frame / PAGEHINT_SECTION_FRAMES;
	take(thread, frame, frames, 99, WITNESS_ISOLATED);
	for (uint64_t f = frame; aged && f + size <= frame + frames; f += size) {
		uint64_t i = f % PAGEHINT_SECTION_FRAMES >> g;
		if (i < MAX_GRANULES)
			check_age(f, size, now.looked[section][i]);
	}
	happened();
}

void witness_looked(void)
{
	happened();
	for (uint32_t s = 0; s < SECTIONS; s++)
		for (uint32_t i = 0; i < MAX_GRANULES; i++)
			now.looked[s][i] = now.clock;
}

void witness_reports(uint64_t frame, uint64_t frames)
{
	uint64_t g = zone->granule_order, size = UINT64_C(1) << g;
	for (uint64_t f = frame; f + size <= frame + frames; f += size) {
		uint64_t i = f % PAGEHINT_SECTION_FRAMES >> g;
		if (i < MAX_GRANULES)
			now.handed[f / PAGEHINT_SECTION_FRAMES][i] = 0;
	}
}

void witness_check_sets(void)
{
	for (uint32_t s = 0; s < SECTIONS; s++) {
		int64_t slot = ph_zone_slot(zone, (uint64_t)s * PAGEHINT_SECTION_FRAMES);
		if (slot < 0)
			continue;
		uint64_t known = atomic_load(&ph_sets_stale(zone, (uint32_t)slot)[0]) |
				 atomic_load(&ph_sets_touched(zone, (uint32_t)slot)[0]);
		uint64_t size = UINT64_C(1) << zone->granule_order, first = (uint64_t)s * PAGEHINT_SECTION_FRAMES;
		/* a granule that is only there in part is never whole, and nothing is remembered of it */
		for (uint32_t i = 0; i < MAX_GRANULES; i++)
			if (now.handed[s][i] && !(known >> i & 1) && is_present(first + i * size, size, PRESENT))
				turn_fault("granule %u of section %u was used, and will never be reported", i, s);
	}
}

uint64_t witness_mark(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < witness_n; i++)
		if (witness_held[i].what != WITNESS_GONE)
			sum += (witness_held[i].frame * 31 + witness_held[i].frames + 7) *
			       (witness_held[i].what * UINT64_C(0x9e3779b97f4a7c15) + witness_held[i].order);
	for (uint32_t s = 0; s < SECTIONS; s++)
		for (uint32_t i = 0; i < MAX_GRANULES; i++)
			sum += now.handed[s][i] ? (s * MAX_GRANULES + i + 1) * UINT64_C(0xd1342543de82ef95) : 0;
	return sum;
}
