/*
 * model_linux: a buddy allocator in the manner of Linux: 64 bytes a frame (its struct page), a zone lock, and in front of it
 * lists of each CPU for orders 0 to 3, refilled in batches of 63 frames and cut by as many above 378.
 *
 * It is a model, not Linux: see buddy.h for what it leaves out. Each list has its own lock, as Linux's have since 6.0; taken
 * by one thread it costs one atomic. The lists are singly linked and cut at their head, which touches less than Linux does.
 */
#define RECORD_BYTES 64
#include "buddy.h"
#include "models.h"

#define LISTED_ORDERS 4u
#define BATCH 63u
#define HIGH 378u
#define CPUS 2u

struct cpu_lists {
	_Alignas(128) atomic_int lock;
	uint32_t heads[LISTED_ORDERS];
	uint32_t counts[LISTED_ORDERS];
};

struct linux_model {
	struct buddy buddy;
	uint64_t frames;
	_Alignas(128) atomic_int zone_lock;
	struct cpu_lists cpus[CPUS];
};

static inline void lock(atomic_int *lock_)
{
	while (atomic_exchange_explicit(lock_, 1, memory_order_acquire) != 0)
		while (atomic_load_explicit(lock_, memory_order_relaxed) != 0)
			;
}

static inline void unlock(atomic_int *lock_)
{
	atomic_store_explicit(lock_, 0, memory_order_release);
}

/* A batch in the order in which the buddy gives it. */
static void refill(struct linux_model *m, struct cpu_lists *c, uint32_t order)
{
	uint32_t batch = BATCH >> order, tail = NIL;
	lock(&m->zone_lock);
	for (uint32_t i = 0; i < batch; i++) {
		uint64_t frame = buddy_take(&m->buddy, order);
		if (frame == SUBJECT_NONE)
			break;
		if (tail == NIL)
			c->heads[order] = (uint32_t)frame;
		else
			m->buddy.records[tail].next = (uint32_t)frame;
		tail = (uint32_t)frame;
		c->counts[order]++;
	}
	unlock(&m->zone_lock);
}

static uint32_t pop(struct linux_model *m, struct cpu_lists *c, uint32_t order)
{
	uint32_t frame = c->heads[order];
	c->heads[order] = m->buddy.records[frame].next;
	c->counts[order]--;
	return frame;
}

static void cut(struct linux_model *m, struct cpu_lists *c, uint32_t order, uint32_t n)
{
	lock(&m->zone_lock);
	while (n-- > 0 && c->counts[order] > 0)
		buddy_give(&m->buddy, pop(m, c, order), order);
	unlock(&m->zone_lock);
}

uint64_t linux_model_alloc(struct linux_model *m, unsigned cpu, uint32_t order)
{
	uint64_t frame = SUBJECT_NONE;
	if (order >= LISTED_ORDERS) {
		lock(&m->zone_lock);
		frame = buddy_take(&m->buddy, order);
		unlock(&m->zone_lock);
		return frame;
	}
	struct cpu_lists *c = &m->cpus[cpu];
	lock(&c->lock);
	if (c->counts[order] == 0)
		refill(m, c, order);
	if (c->counts[order] != 0)
		frame = pop(m, c, order);
	unlock(&c->lock);
	return frame;
}

void linux_model_free(struct linux_model *m, unsigned cpu, uint64_t frame, uint32_t order)
{
	if (order >= LISTED_ORDERS) {
		lock(&m->zone_lock);
		buddy_give(&m->buddy, (uint32_t)frame, order);
		unlock(&m->zone_lock);
		return;
	}
	struct cpu_lists *c = &m->cpus[cpu];
	lock(&c->lock);
	m->buddy.records[frame].next = c->heads[order];
	c->heads[order] = (uint32_t)frame;
	if (++c->counts[order] > HIGH >> order)
		cut(m, c, order, BATCH >> order);
	unlock(&c->lock);
}

void linux_model_drain(struct linux_model *m, unsigned cpu)
{
	struct cpu_lists *c = &m->cpus[cpu];
	lock(&c->lock);
	for (uint32_t order = 0; order < LISTED_ORDERS; order++)
		cut(m, c, order, c->counts[order]);
	unlock(&c->lock);
}

struct linux_model *linux_model_new(uint64_t frames)
{
	struct linux_model *m = buddy_state_new(sizeof(*m));
	m->frames = frames;
	buddy_start(&m->buddy, frames);
	return m;
}

void linux_model_destroy(struct linux_model *m)
{
	buddy_end(&m->buddy, m->frames);
	buddy_state_free(m, sizeof(*m));
}

int linux_model_huge_blocks(const struct linux_model *m, uint64_t *bitmap)
{
	return buddy_huge_blocks(&m->buddy, bitmap);
}
