/* device_save: the state as bytes that another process, on another machine, can go on from */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "virtio/device.h"
#include "virtio/device_blob.h"
#include "virtio/device_state.h"

static uint64_t ago(const struct pagehint_device *device, uint64_t then)
{
	return device->now_ns > then ? device->now_ns - then : 0;
}

static uint64_t stand_of(const struct ph_device_queue *q)
{
	struct ph_ring_position position = q->resume;
	if (!q->running && !q->has_resume)
		return 0;
	if (q->running)
		position = ph_device_queue_stand(q);
	return position.avail | (uint64_t)position.used << 16 | UINT64_C(1) << 32;
}

static struct ph_device_state state_of(const struct pagehint_device *device)
{
	struct ph_device_state s = {
		.negotiated = device->negotiated,
		.features_set = device->features_set,
		.numbering = device->numbering,
		.status = device->status,
		.broken = device->broken,
		.events = device->events & (PAGEHINT_DEVICE_EVENT_CONFIG | PAGEHINT_DEVICE_EVENT_NEEDS_RESET),
		.interrupts = device->interrupts,
		.target = device->progress.target,
		.actual = device->actual,
		.start = device->progress.start,
		.best = device->progress.best,
		.set_ago_ns = ago(device, device->progress.set_ns),
		.nearer_ago_ns = ago(device, device->progress.nearer_ns),
		.poison = device->poison,
		.hint_state = device->hint.state,
		.hint_id = device->hint.id,
		.hint_oldest = device->hint.oldest,
		.samples = device->sample.samples,
		.sample_age_ns = device->sample.samples == 0 ? 0 : ph_sample_age(&device->sample, device->now_ns),
		.sample_known = device->sample.known,
		.stats_repeat = device->stats_held | device->stats_repeat,
		.blocks = device->partial.n,
	};
	memcpy(s.sample_value, device->sample.value, sizeof(s.sample_value));
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		s.queue[role] = stand_of(&device->queue[role]);
	return s;
}

/* The page that the first bit stands for: from it the loader finds region and block again. */
static uint64_t first_page(const struct ph_partial_block *block)
{
	uint64_t bit = 0;
	while (block->bits[bit / 64] == 0)
		bit += 64;
	bit += ph_ctz(block->bits[bit / 64]);
	return block->first - block->delta + (block->level == 0 ? bit : bit * PH_PARTIAL_BLOCK);
}

static void put_blocks(struct ph_blob_out *out, const struct ph_partial *partial)
{
	uint32_t next = 0;
	const struct ph_partial_block *block;
	while ((block = ph_partial_next(partial, next, &next)) != NULL) {
		ph_blob_put64(out, first_page(block));
		ph_blob_put64(out, block->shift | (uint64_t)block->level << 32);
		for (uint32_t i = 0; i < PH_PARTIAL_WORDS; i++)
			ph_blob_put64(out, block->bits[i]);
	}
}

uint64_t pagehint_device_save_bytes(const struct pagehint_device *device)
{
	return PH_STATE_HEADER + 8 * (PH_STATE_WORDS + (uint64_t)device->partial.n * PH_STATE_BLOCK_WORDS) +
	       PH_STATE_CRC;
}

int pagehint_device_save(struct pagehint_device *device, uint64_t now_ns, void *buffer, uint64_t room,
			 uint64_t *ret_len)
{
	uint64_t words[PH_STATE_WORDS];
	if (buffer == NULL || ret_len == NULL)
		return -EINVAL;
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	ph_device_clock(device, now_ns);
	uint64_t length = pagehint_device_save_bytes(device);
	if (length > room) {
		r = -ENOSPC;
	} else {
		struct ph_blob_out out = { .bytes = buffer, .room = length };
		struct ph_device_state state = state_of(device);
		memcpy(words, &state, sizeof(words));
		ph_blob_put32(&out, PH_STATE_MAGIC);
		ph_blob_put32(&out, PH_STATE_VERSION);
		ph_blob_put32(&out, (uint32_t)length);
		for (size_t i = 0; i < PH_STATE_WORDS; i++)
			ph_blob_put64(&out, words[i]);
		put_blocks(&out, &device->partial);
		ph_blob_put32(&out, ph_blob_crc(buffer, out.at));
		*ret_len = out.at;
	}
	ph_device_end(device);
	return r;
}
