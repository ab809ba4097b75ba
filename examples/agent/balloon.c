#include "balloon.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { DESC_NEXT = 1, DESC_INDIRECT = 4 };

struct desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};

static void *at(const struct balloon *b, uint64_t addr)
{
	return b->ask.dma + (addr - b->ask.dma_address);
}

/* ---- one buffer of a queue ---- */

static void serve_pages(struct balloon *b, const struct desc *d, int is_back)
{
	const uint32_t *pfns = at(b, le64toh(d->addr));
	for (uint32_t i = 0; i < le32toh(d->len) / 4; i++)
		b->ask.discard(b->ask.ctx, (uint64_t)le32toh(pfns[i]) << PAGEHINT_BALLOON_PAGE_SHIFT, 4096, is_back);
}

static void serve_buffer(struct balloon *b, uint32_t queue, const struct desc *d)
{
	switch (queue) {
	case PAGEHINT_BALLOON_Q_INFLATE:
	case PAGEHINT_BALLOON_Q_DEFLATE:
		serve_pages(b, d, queue == PAGEHINT_BALLOON_Q_DEFLATE);
		break;
	case PAGEHINT_BALLOON_Q_REPORT:
		b->buffers++;
		b->reported += le32toh(d->len);
		b->ask.discard(b->ask.ctx, le64toh(d->addr), le32toh(d->len), 0);
		break;
	default:
		break;
	}
}

/* ---- a queue: split, section 2.7 of the specification ---- */

static uint16_t *available(const struct balloon *b, const struct balloon_queue *q)
{
	return at(b, q->at.driver); /* flags, index, ring, used_event */
}

static void complete(struct balloon *b, struct balloon_queue *q, uint32_t head)
{
	uint16_t *used = at(b, q->at.device); /* flags, index, ring of { id, length }, avail_event */
	uint32_t *entry = at(b, q->at.device + 4 + UINT64_C(8) * (q->used % q->at.size));
	entry[0] = htole32(head);
	entry[1] = 0;
	__atomic_store_n(&used[1], htole16(++q->used), __ATOMIC_RELEASE);
}

static void serve_chain(struct balloon *b, uint32_t queue, uint16_t head)
{
	const struct desc *table = at(b, b->queues[queue].at.desc);
	const struct desc *d = &table[head];
	if (le16toh(d->flags) & DESC_INDIRECT) {
		table = at(b, le64toh(d->addr));
		d = &table[0];
	}
	for (;; d = &table[le16toh(d->next)]) {
		serve_buffer(b, queue, d);
		if ((le16toh(d->flags) & DESC_NEXT) == 0)
			return;
	}
}

static void serve(struct balloon *b, uint32_t queue)
{
	struct balloon_queue *q = &b->queues[queue];
	uint16_t *avail = available(b, q);
	/* statistics stay until they are wanted, which is never */
	if (q->at.size == 0 || queue == PAGEHINT_BALLOON_Q_STATS)
		return;
	while (q->seen != le16toh(__atomic_load_n(&avail[1], __ATOMIC_ACQUIRE))) {
		uint16_t head = le16toh(avail[2 + q->seen % q->at.size]);
		q->seen++;
		serve_chain(b, queue, head);
		complete(b, q, head);
	}
	/* avail_event: notify me at the next one */
	*(uint16_t *)at(b, q->at.device + 4 + UINT64_C(8) * q->at.size) = htole16(q->seen);
}

/* ---- registers ---- */

static uint32_t get_status(void *ctx)
{
	return ((struct balloon *)ctx)->status;
}

static void set_status(void *ctx, uint32_t status)
{
	struct balloon *b = ctx;
	b->status = status;
	if (status == 0)
		memset(b->queues, 0, sizeof(b->queues));
}

static uint64_t get_features(void *ctx)
{
	return ((struct balloon *)ctx)->ask.features | PAGEHINT_VIRTIO_F_VERSION_1;
}

static void set_features(void *ctx, uint64_t features)
{
	((struct balloon *)ctx)->features = features;
}

static uint32_t queue_max(void *ctx, uint32_t index)
{
	static const uint64_t feature_of[PAGEHINT_BALLOON_Q_COUNT] = { 0, 0, PAGEHINT_BALLOON_F_STATS_VQ,
								       PAGEHINT_BALLOON_F_FREE_PAGE_HINT,
								       PAGEHINT_BALLOON_F_PAGE_REPORTING };
	const struct balloon *b = ctx;
	/* numbered as in section 5.5.2, with gaps */
	if (index >= PAGEHINT_BALLOON_Q_COUNT || (feature_of[index] & ~b->ask.features) != 0)
		return 0;
	return index == PAGEHINT_BALLOON_Q_REPORT ? b->ask.report_ring : BALLOON_RING;
}

static int queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	struct balloon *b = ctx;
	if (queue->size > queue_max(b, queue->index))
		return -EINVAL;
	b->queues[queue->index] = (struct balloon_queue) { .at = *queue };
	return 0;
}

static void notify(void *ctx, uint32_t index)
{
	struct balloon *b = ctx;
	b->kicks++;
	serve(b, index);
}

static uint32_t config_read(void *ctx, uint32_t offset)
{
	return ((struct balloon *)ctx)->config[offset / 4];
}

static void config_write(void *ctx, uint32_t offset, uint32_t value)
{
	((struct balloon *)ctx)->config[offset / 4] = value;
}

static uint32_t config_generation(void *ctx)
{
	return ((struct balloon *)ctx)->generation;
}

int balloon_open(struct balloon *b, const struct balloon_ask *ask)
{
	static const struct pagehint_virtio_ops ops = {
		.struct_size = sizeof(ops),
		.name = "in-process",
		.get_status = get_status,
		.set_status = set_status,
		.get_features = get_features,
		.set_features = set_features,
		.queue_max = queue_max,
		.queue_setup = queue_setup,
		.notify = notify,
		.config_read = config_read,
		.config_write = config_write,
		.config_generation = config_generation,
	};
	memset(b, 0, sizeof(*b));
	b->ask = *ask;
	if (b->ask.features == 0)
		b->ask.features = PAGEHINT_BALLOON_F_PAGE_REPORTING | PAGEHINT_BALLOON_F_DEFLATE_ON_OOM |
				  PAGEHINT_VIRTIO_F_INDIRECT_DESC | PAGEHINT_VIRTIO_F_EVENT_IDX;
	if (b->ask.report_ring == 0)
		b->ask.report_ring = BALLOON_RING;
	if (pagehint_virtio_size() > sizeof(b->memory))
		return -ENOMEM;
	return pagehint_virtio_init(b->memory, sizeof(b->memory), &ops, b, &b->virtio);
}

void balloon_want(struct balloon *b, uint32_t pages)
{
	b->config[PAGEHINT_BALLOON_CONFIG_NUM_PAGES / 4] = pages;
	b->generation++;
}
