/*
 * device_load: takes over a saved state.
 *
 * Everything is read and judged before anything is changed; what passes is a state that save could have written. A block of
 * partial pages whose memory is not there any more, or is backed by other pages, is forgotten: that costs a later discard.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "virtio/device.h"
#include "virtio/device_blob.h"
#include "virtio/device_state.h"
#include "virtio/numbering.h"

static int queue_can_be(const struct pagehint_device *device, const struct ph_device_state *s, uint32_t role)
{
	uint64_t stand = s->queue[role];
	if (stand == 0)
		return 1;
	if (stand >> 32 != 1 || !s->features_set)
		return 0;
	for (uint32_t index = 0; index < PAGEHINT_BALLOON_Q_COUNT; index++)
		if (ph_numbering_role(device->numbering, device->offered, s->negotiated, index) == (int)role)
			return 1;
	return 0;
}

static int hint_can_be(const struct ph_device_state *s)
{
	int on = s->hint_state == PAGEHINT_DEVICE_HINT_REQUESTED || s->hint_state == PAGEHINT_DEVICE_HINT_STARTED;
	if (s->hint_state > PAGEHINT_DEVICE_HINT_DONE || s->hint_id > UINT32_MAX || s->hint_oldest > UINT32_MAX)
		return 0;
	if (s->hint_id == 1 || s->hint_oldest == 1 || (on && (s->hint_id == 0 || s->hint_oldest == 0)))
		return 0;
	return s->hint_oldest == 0 || s->hint_id != 0;
}

static int sample_can_be(const struct ph_device_state *s)
{
	if (s->sample_known >> PAGEHINT_BALLOON_STAT_COUNT != 0 || s->stats_repeat > 1)
		return 0;
	if (s->samples == 0 && (s->sample_known != 0 || s->sample_age_ns != 0))
		return 0;
	if (s->sample_age_ns == UINT64_MAX)
		return 0;
	for (uint32_t tag = 0; tag < PAGEHINT_BALLOON_STAT_COUNT; tag++)
		if ((s->sample_known >> tag & 1) == 0 && s->sample_value[tag] != 0)
			return 0;
	return 1;
}

static int life_can_be(const struct pagehint_device *device, const struct ph_device_state *s)
{
	uint64_t must = device->offered & PAGEHINT_VIRTIO_F_ACCESS_PLATFORM;
	uint32_t events = PAGEHINT_DEVICE_EVENT_CONFIG | PAGEHINT_DEVICE_EVENT_NEEDS_RESET;
	if ((s->negotiated & ~device->offered) != 0 || s->numbering != device->numbering || s->features_set > 1)
		return 0;
	if (s->features_set && (s->negotiated & must) != must)
		return 0;
	if (s->status > 255 || s->broken > 1 || s->broken != ((s->status & PAGEHINT_VIRTIO_STATUS_NEEDS_RESET) != 0))
		return 0;
	return (s->events & ~(uint64_t)events) == 0 && s->interrupts >> PAGEHINT_BALLOON_Q_COUNT == 0;
}

static int can_be(const struct pagehint_device *device, const struct ph_device_state *s)
{
	if (!life_can_be(device, s) || !hint_can_be(s) || !sample_can_be(s))
		return 0;
	if (s->target > UINT32_MAX || s->actual > UINT32_MAX || s->poison > UINT32_MAX || s->best > s->start)
		return 0;
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		if (!queue_can_be(device, s, role))
			return 0;
	return 1;
}

/* Reads one block, as far as it goes without a map. */
static void get_block(struct ph_blob_in *in, struct ph_partial_block *block, uint64_t *ret_page)
{
	memset(block, 0, sizeof(*block));
	*ret_page = ph_blob_get64(in);
	uint64_t kind = ph_blob_get64(in);
	block->shift = (uint32_t)kind;
	block->level = kind >> 32 > 1 ? 2 : (uint16_t)(kind >> 32); /* 2 is no level */
	for (uint32_t i = 0; i < PH_PARTIAL_WORDS; i++)
		block->bits[i] = ph_blob_get64(in);
}

static int blocks_can_be(struct ph_blob_in in, uint64_t n)
{
	struct ph_partial_block block;
	uint64_t page;
	for (uint64_t i = 0; i < n; i++) {
		get_block(&in, &block, &page);
		if (!ph_partial_is_sane(&block) || page >> 52 != 0)
			return 0;
	}
	return 1;
}

/* Finds the region and the block's place in it; 0 = it fits. */
static int place_block(struct pagehint_device *device, struct ph_partial_block *block, uint64_t page)
{
	const struct ph_place *place = &device->place;
	uint64_t span = block->level == 0 ? PH_PARTIAL_BLOCK : UINT64_C(1) << block->shift;
	uint64_t unit = block->level == 0 ? 1 : PH_PARTIAL_BLOCK, bit = 0;
	if (ph_device_find(device, page) < 0 || place->granule != UINT64_C(1) << block->shift)
		return -ERANGE;
	uint64_t at = place->base + (page - place->page);
	while (block->bits[bit / 64] == 0)
		bit += 64;
	bit += ph_ctz(block->bits[bit / 64]);
	block->region = place->id;
	block->first = at & ~(span - 1);
	block->delta = place->base - place->page;
	return at - block->first == bit * unit ? 0 : -ERANGE;
}

static void take_blocks(struct pagehint_device *device, struct ph_blob_in *in, uint64_t n)
{
	struct ph_partial_block block;
	uint64_t page;
	for (uint64_t i = 0; i < n; i++) {
		get_block(in, &block, &page);
		if (place_block(device, &block, page) < 0 || ph_partial_put(&device->partial, &block) < 0)
			PH_DROP(device, PARTIAL, 1);
	}
}

static uint64_t back(const struct pagehint_device *device, uint64_t ago_ns)
{
	return ago_ns < device->now_ns ? device->now_ns - ago_ns : 0;
}

static void take(struct pagehint_device *device, const struct ph_device_state *s)
{
	ph_device_forget(device);
	device->negotiated = s->negotiated;
	device->features_set = (uint32_t)s->features_set;
	device->status = (uint32_t)s->status;
	device->broken = (uint32_t)s->broken;
	device->events = (uint32_t)s->events;
	device->interrupts = (uint32_t)s->interrupts;
	device->poison = (uint32_t)s->poison;
	device->actual = (uint32_t)s->actual;
	uint64_t memory = ph_device_memory_pages(device);
	device->progress.target = s->target;
	device->progress.actual = s->actual < memory ? s->actual : memory;
	device->progress.start = s->start;
	device->progress.best = s->best;
	device->progress.set_ns = back(device, s->set_ago_ns);
	device->progress.nearer_ns = back(device, s->nearer_ago_ns);
	device->hint = (struct ph_hint) { (uint32_t)s->hint_state, (uint32_t)s->hint_id, (uint32_t)s->hint_oldest };
	device->sample.samples = s->samples;
	device->sample.known = s->sample_known;
	/* it may be older than this machine's clock */
	device->sample.at_ns = device->now_ns;
	device->sample.older_ns = s->sample_age_ns;
	memcpy(device->sample.value, s->sample_value, sizeof(s->sample_value));
	device->stats_repeat = (uint32_t)s->stats_repeat;
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		struct ph_device_queue *q = &device->queue[role];
		q->has_resume = s->queue[role] != 0;
		q->resume = (struct ph_ring_position) { (uint16_t)s->queue[role], (uint16_t)(s->queue[role] >> 16) };
	}
}

/* Header, length and checksum; what is left is numbers and blocks. */
static int open_blob(struct ph_blob_in *in, struct ph_device_state *state)
{
	uint64_t words[PH_STATE_WORDS], least = PH_STATE_HEADER + 8 * PH_STATE_WORDS + PH_STATE_CRC;
	if (in->length < least || in->length > UINT32_MAX)
		return -EINVAL;
	in->length -= PH_STATE_CRC;
	if (ph_bytes_le32(in->bytes + in->length) != ph_blob_crc(in->bytes, in->length))
		return -EINVAL;
	uint32_t magic = ph_blob_get32(in), version = ph_blob_get32(in), length = ph_blob_get32(in);
	if (magic != PH_STATE_MAGIC || version != PH_STATE_VERSION || length != in->length + PH_STATE_CRC)
		return -EINVAL;
	for (size_t i = 0; i < PH_STATE_WORDS; i++)
		words[i] = ph_blob_get64(in);
	memcpy(state, words, sizeof(words));
	uint64_t left = in->length - in->at, each = 8 * PH_STATE_BLOCK_WORDS;
	return left % each == 0 && left / each == state->blocks ? 0 : -EINVAL;
}

static int is_busy(const struct pagehint_device *device)
{
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		if (device->queue[role].running)
			return 1;
	return device->resetting || device->batches != 0;
}

int pagehint_device_load(struct pagehint_device *device, uint64_t now_ns, const void *buffer, uint64_t length)
{
	struct ph_blob_in in = { .bytes = buffer, .length = length };
	struct ph_device_state state;
	if (buffer == NULL)
		return -EINVAL;
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	r = is_busy(device) ? -EBUSY : open_blob(&in, &state);
	if (r == 0 && (!can_be(device, &state) || !blocks_can_be(in, state.blocks)))
		r = -EINVAL;
	if (r == 0) {
		ph_device_clock(device, now_ns);
		device->place.pages = 0;
		take(device, &state);
		take_blocks(device, &in, state.blocks);
	}
	ph_device_end(device);
	return r;
}
