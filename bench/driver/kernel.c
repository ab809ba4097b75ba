#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define IN_USE 0xff

/* The first frame of a free block is on the list of its order; newest first, as the kernel's lists are. */
struct page {
	uint32_t next, prev;
	uint8_t order; /* of the free block that begins here; IN_USE else */
	uint8_t is_reported;
};

struct kernel {
	struct page *pages;
	uint64_t frames;
	uint32_t heads[KERNEL_ORDERS];
	uint64_t lengths[KERNEL_ORDERS];
	uint64_t due_ns; /* UINT64_MAX: the timer does not run */
	uint64_t delay_ns;
	uint32_t order;
	struct kernel_counts counts;
	void (*reported)(void *ctx, uint64_t at_ns, uint64_t frame, uint64_t frames);
	void *ctx;
};

static void add(struct kernel *k, uint64_t frame, uint32_t order, int is_reported)
{
	struct page *p = &k->pages[frame];
	*p = (struct page) { k->heads[order], NONE, (uint8_t)order, (uint8_t)is_reported };
	if (p->next != NONE)
		k->pages[p->next].prev = (uint32_t)frame;
	k->heads[order] = (uint32_t)frame;
	k->lengths[order]++;
}

static void take(struct kernel *k, uint64_t frame)
{
	struct page *p = &k->pages[frame];
	if (p->prev != NONE)
		k->pages[p->prev].next = p->next;
	else
		k->heads[p->order] = p->next;
	if (p->next != NONE)
		k->pages[p->next].prev = p->prev;
	k->lengths[p->order]--;
	p->order = IN_USE;
}

struct kernel *kernel_new(uint64_t frames, uint32_t order, uint64_t delay_ns)
{
	struct kernel *k = calloc(1, sizeof(*k));
	k->pages = calloc((size_t)frames, sizeof(*k->pages));
	k->frames = frames;
	k->order = order;
	k->delay_ns = delay_ns == 0 ? KERNEL_DELAY_NS : delay_ns;
	k->due_ns = UINT64_MAX;
	for (uint32_t o = 0; o < KERNEL_ORDERS; o++)
		k->heads[o] = NONE;
	for (uint64_t f = 0; f < frames; f++)
		k->pages[f].order = IN_USE;
	/* fresh memory counts as reported here, as it does in a zone: the host has given none yet */
	for (uint64_t f = frames; f != 0; f -= 1024)
		add(k, f - 1024, KERNEL_ORDERS - 1, 1);
	k->counts.free_frames = frames;
	return k;
}

void kernel_delete(struct kernel *k)
{
	free(k->pages);
	free(k);
}

uint64_t kernel_alloc(struct kernel *k, uint32_t order)
{
	uint32_t o = order;
	while (o < KERNEL_ORDERS && k->heads[o] == NONE)
		o++;
	if (o >= KERNEL_ORDERS)
		return UINT64_MAX;
	uint64_t frame = k->heads[o];
	int is_reported = k->pages[frame].is_reported;
	take(k, frame);
	while (o-- > order)
		add(k, frame + (UINT64_C(1) << o), o, is_reported);
	k->counts.free_frames -= UINT64_C(1) << order;
	return frame;
}

void kernel_free(struct kernel *k, uint64_t frame, uint32_t order, uint64_t now_ns)
{
	k->counts.free_frames += UINT64_C(1) << order;
	for (; order < KERNEL_ORDERS - 1; order++) {
		uint64_t buddy = frame ^ (UINT64_C(1) << order);
		if (k->pages[buddy].order != order)
			break;
		take(k, buddy);
		frame &= ~(UINT64_C(1) << order);
	}
	add(k, frame, order, 0);
	if (order >= k->order && k->due_ns == UINT64_MAX)
		k->due_ns = now_ns + k->delay_ns;
}

/* One list. `in_table` goes on over lists. Returns 1 when something is left over. */
static int report_list(struct kernel *k, uint64_t at_ns, uint32_t order, uint32_t *in_table)
{
	uint64_t budget = (k->lengths[order] + KERNEL_CAPACITY * 16 - 1) / (KERNEL_CAPACITY * 16);
	for (uint32_t f = k->heads[order]; f != NONE; f = k->pages[f].next) {
		if (k->pages[f].is_reported)
			continue;
		if (budget == 0)
			return 1;
		k->pages[f].is_reported = 1;
		k->counts.buffers++;
		k->counts.frames += UINT64_C(1) << order;
		if (k->reported != NULL)
			k->reported(k->ctx, at_ns, f, UINT64_C(1) << order);
		if (++*in_table == KERNEL_CAPACITY) {
			*in_table = 0;
			k->counts.kicks++;
			budget--;
		}
	}
	return 0;
}

void kernel_tick(struct kernel *k, uint64_t now_ns)
{
	while (k->due_ns <= now_ns) {
		uint64_t at_ns = k->due_ns;
		uint32_t in_table = 0;
		int is_left = 0;
		k->due_ns = UINT64_MAX;
		for (uint32_t o = k->order; o < KERNEL_ORDERS; o++)
			is_left |= report_list(k, at_ns, o, &in_table);
		k->counts.kicks += in_table != 0;
		if (is_left)
			k->due_ns = at_ns + k->delay_ns;
	}
}

void kernel_shuffle(struct kernel *k, uint64_t seed)
{
	uint64_t blocks = k->frames / 1024;
	uint32_t *order = malloc((size_t)blocks * sizeof(*order));
	if (order == NULL)
		return; /* it stays as it is */
	for (uint64_t b = 0; b < blocks; b++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		uint64_t at = (seed >> 33) % (b + 1);
		order[b] = order[at];
		order[at] = (uint32_t)b;
		take(k, b * 1024);
	}
	for (uint64_t b = 0; b < blocks; b++)
		add(k, (uint64_t)order[b] * 1024, KERNEL_ORDERS - 1, 1);
	free(order);
}

void kernel_watch(struct kernel *k, void (*reported)(void *ctx, uint64_t at_ns, uint64_t frame, uint64_t frames),
		  void *ctx)
{
	k->reported = reported;
	k->ctx = ctx;
}

struct kernel_counts kernel_counts(const struct kernel *k)
{
	return k->counts;
}
