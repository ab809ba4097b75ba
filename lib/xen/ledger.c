#include "xen/ledger.h"

#include <errno.h>

#include <pagehint/bitmap.h>

#include "base/bits.h"

int ph_xen_knows(const struct pagehint_xen *x)
{
	return x->p2m != NULL || x->present != NULL;
}

static uint64_t *entry(const struct pagehint_xen *x, uint64_t frame)
{
	return &x->p2m[frame - x->p2m_first];
}

/* In the table; PV: an entry is the memory; OWN: an entry is what is out. */
static int has(const struct pagehint_xen *x, uint64_t frame)
{
	if (frame < x->p2m_first || frame - x->p2m_first >= x->p2m_frames)
		return 0;
	return (*entry(x, frame) == PAGEHINT_XEN_NOWHERE) == (x->kind == PAGEHINT_XEN_OWN);
}

int ph_xen_covers(const struct pagehint_xen *x, const struct pagehint_run *run)
{
	uint64_t end = run->frame + run->frames;
	if (x->p2m != NULL)
		return run->frame >= x->p2m_first && end - x->p2m_first <= x->p2m_frames ? 0 : -ERANGE;
	if (x->present == NULL)
		return 0;
	for (uint64_t at = run->frame; at < end;) {
		if (pagehint_bitmap_test(x->present, at) < 0)
			return -ERANGE;
		at = ph_round_down(at, PAGEHINT_BITMAP_SECTION_BITS) + PAGEHINT_BITMAP_SECTION_BITS;
	}
	return pagehint_bitmap_test(x->present, end - 1) < 0 ? -ERANGE : 0;
}

/* Frames outside the table are not looked at one by one: there may be any number of them. */
static int next_in_table(const struct pagehint_xen *x, int wanted, uint64_t from, uint64_t to, struct pagehint_run *ret)
{
	const uint64_t end = x->p2m_first + x->p2m_frames;
	if (wanted) {
		from = from < x->p2m_first ? x->p2m_first : from;
		to = to < end ? to : end;
	}
	while (from < to && has(x, from) != wanted)
		from++;
	ret->frame = from;
	while (from < to && has(x, from) == wanted)
		from++;
	ret->frames = from - ret->frame;
	return ret->frames != 0;
}

int ph_xen_next_present(const struct pagehint_xen *x, uint64_t from, uint64_t to, struct pagehint_run *ret)
{
	if (x->p2m != NULL)
		return next_in_table(x, 1, from, to, ret);
	if (x->present != NULL)
		return pagehint_bitmap_next_run(x->present, from, to, ret) == 0;
	*ret = (struct pagehint_run) { from, to - from };
	return from < to;
}

int ph_xen_next_absent(const struct pagehint_xen *x, uint64_t from, uint64_t to, struct pagehint_run *ret)
{
	struct pagehint_run there;
	if (x->p2m != NULL)
		return next_in_table(x, 0, from, to, ret);
	if (x->present != NULL && from < to && pagehint_bitmap_next_run(x->present, from, to, &there) == 0) {
		if (there.frame == from) {
			from += there.frames;
			if (from >= to || pagehint_bitmap_next_run(x->present, from, to, &there) != 0)
				there.frame = to;
		}
		to = there.frame;
	}
	*ret = (struct pagehint_run) { from, from < to ? to - from : 0 };
	return from < to;
}

uint64_t ph_xen_name_to_populate(const struct pagehint_xen *x, uint64_t frame)
{
	return x->kind == PAGEHINT_XEN_OWN ? *entry(x, frame) : frame;
}

uint64_t ph_xen_name_to_reclaim(const struct pagehint_xen *x, uint64_t frame)
{
	return x->kind == PAGEHINT_XEN_PV ? *entry(x, frame) : frame;
}

void ph_xen_came(struct pagehint_xen *x, uint64_t frame, uint32_t order, uint64_t name)
{
	uint64_t frames = UINT64_C(1) << order;
	for (uint64_t i = 0; x->p2m != NULL && i < frames; i++)
		*entry(x, frame + i) = x->kind == PAGEHINT_XEN_OWN ? PAGEHINT_XEN_NOWHERE : name + i;
	/* the frames were found to be inside before anything was done */
	if (x->present != NULL && pagehint_bitmap_set(x->present, frame, frames, NULL) < 0)
		return;
}

void ph_xen_went(struct pagehint_xen *x, uint64_t frame, uint64_t name)
{
	if (x->p2m != NULL)
		*entry(x, frame) = x->kind == PAGEHINT_XEN_OWN ? name : PAGEHINT_XEN_NOWHERE;
	if (x->present != NULL && pagehint_bitmap_clear(x->present, frame, 1, NULL) < 0)
		return;
}
