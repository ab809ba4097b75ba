#include "report/queue.h"

size_t ph_queue_size(uint32_t n_slots, uint32_t max_runs)
{
	uint64_t slot = sizeof(struct ph_batch) + (uint64_t)max_runs * sizeof(struct pagehint_run);
	uint64_t bytes = slot * n_slots; /* below 2^7 * 2^37 */
	return bytes > SIZE_MAX / 2 ? 0 : (size_t)bytes;
}

void ph_queue_init(struct ph_queue *queue, void *mem, uint32_t n_slots, uint32_t max_runs)
{
	struct ph_batch *slots = mem;
	struct pagehint_run *runs = (struct pagehint_run *)(void *)(slots + n_slots);
	*queue = (struct ph_queue) { .slots = slots, .n_slots = n_slots, .max_runs = max_runs };
	for (uint32_t i = 0; i < n_slots; i++)
		slots[i].runs = runs + (size_t)i * max_runs;
}

struct ph_batch *ph_queue_open(struct ph_queue *queue)
{
	for (uint32_t i = 0; i < queue->n_slots; i++) {
		struct ph_batch *batch = &queue->slots[i];
		if (batch->state != PH_BATCH_FREE)
			continue;
		batch->cookie = ++queue->serial * PH_QUEUE_SLOTS_MAX + i;
		batch->frames = 0;
		batch->n = 0;
		batch->state = PH_BATCH_FILLED;
		return batch;
	}
	return NULL;
}

void ph_queue_add(struct ph_batch *batch, const struct pagehint_run *run)
{
	batch->frames += run->frames;
	batch->runs[batch->n++] = *run;
}

void ph_queue_launch(struct ph_queue *queue, struct ph_batch *batch, uint64_t now_ns)
{
	batch->state = PH_BATCH_OUT;
	batch->sent_ns = now_ns;
	queue->in_flight++;
	queue->frames += batch->frames;
}

struct ph_batch *ph_queue_find(struct ph_queue *queue, uint64_t cookie)
{
	uint64_t slot = cookie % PH_QUEUE_SLOTS_MAX;
	if (slot >= queue->n_slots)
		return NULL;
	struct ph_batch *batch = &queue->slots[slot];
	return batch->state == PH_BATCH_OUT && batch->cookie == cookie ? batch : NULL;
}

struct ph_batch *ph_queue_oldest(const struct ph_queue *queue)
{
	struct ph_batch *oldest = NULL;
	for (uint32_t i = 0; i < queue->n_slots; i++) {
		struct ph_batch *batch = &queue->slots[i];
		if (batch->state == PH_BATCH_OUT && (oldest == NULL || batch->cookie < oldest->cookie))
			oldest = batch;
	}
	return oldest;
}

void ph_queue_close(struct ph_queue *queue, struct ph_batch *batch)
{
	if (batch->state == PH_BATCH_OUT) {
		queue->in_flight--;
		queue->frames -= batch->frames;
	}
	batch->state = PH_BATCH_FREE;
}
