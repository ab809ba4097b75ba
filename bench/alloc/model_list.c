/*
 * model_list: a buddy allocator with lists and nothing else: records of 16 bytes, no lock, so one thread. What a small
 * kernel or a VMM would write by hand.
 */
#define RECORD_BYTES 16
#include "buddy.h"
#include "models.h"

struct list_model {
	struct buddy buddy;
	uint64_t frames;
};

uint64_t list_model_alloc(struct list_model *m, uint32_t order)
{
	return buddy_take(&m->buddy, order);
}

void list_model_free(struct list_model *m, uint64_t frame, uint32_t order)
{
	buddy_give(&m->buddy, (uint32_t)frame, order);
}

struct list_model *list_model_new(uint64_t frames)
{
	struct list_model *m = buddy_state_new(sizeof(*m));
	m->frames = frames;
	buddy_start(&m->buddy, frames);
	return m;
}

void list_model_destroy(struct list_model *m)
{
	buddy_end(&m->buddy, m->frames);
	buddy_state_free(m, sizeof(*m));
}

int list_model_huge_blocks(const struct list_model *m, uint64_t *bitmap)
{
	return buddy_huge_blocks(&m->buddy, bitmap);
}
