#include "virtio/device_progress.h"

static uint64_t at_most(uint64_t v, uint64_t most)
{
	return v < most ? v : most;
}

static uint64_t left(const struct ph_progress *p)
{
	return p->target > p->actual ? p->target - p->actual : p->actual - p->target;
}

int ph_progress_target(struct ph_progress *p, uint64_t now_ns, uint64_t pages, uint64_t memory)
{
	uint64_t before = p->target;
	p->target = at_most(at_most(pages, memory), UINT32_MAX);
	p->start = left(p);
	p->best = p->start;
	p->set_ns = now_ns;
	p->nearer_ns = now_ns;
	return p->target != before;
}

void ph_progress_actual(struct ph_progress *p, uint64_t now_ns, uint64_t pages, uint64_t memory)
{
	p->actual = at_most(pages, memory);
	if (left(p) >= p->best)
		return;
	p->best = left(p);
	p->nearer_ns = now_ns;
}

static uint64_t since(uint64_t now_ns, uint64_t then)
{
	return now_ns > then ? now_ns - then : 0;
}

/* what is left, at the pace so far */
static uint64_t eta(uint64_t pages, uint64_t moved, uint64_t ns)
{
	if (pages == 0)
		return 0;
	if (moved == 0)
		return UINT64_MAX;
	uint64_t each = ns / moved + (ns % moved != 0);
	return each != 0 && pages > UINT64_MAX / each ? UINT64_MAX : pages * each;
}

void ph_progress_read(const struct ph_progress *p, uint64_t now_ns, struct pagehint_device_progress *ret)
{
	ret->target_pages = p->target;
	ret->actual_pages = p->actual;
	ret->left_pages = left(p);
	ret->moved_pages = p->start - p->best;
	ret->since_ns = since(now_ns, p->set_ns);
	ret->still_ns = since(now_ns, p->nearer_ns);
	ret->eta_ns = eta(ret->left_pages, ret->moved_pages, ret->since_ns);
	ret->state = PAGEHINT_DEVICE_PROGRESS_MOVING;
	if (ret->left_pages == 0)
		ret->state = PAGEHINT_DEVICE_PROGRESS_REACHED;
	else if (ret->still_ns >= p->stall_ns)
		ret->state = PAGEHINT_DEVICE_PROGRESS_STALLED;
}
