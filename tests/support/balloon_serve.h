/*
 * balloon_serve: what the device of balloon_device.h does with its queues, one queue and so many requests at a time.
 * Queues are numbered as in section 5.5.2 unless `offered` leaves some out: then densely, as QEMU's are.
 */
#ifndef TESTS_SUPPORT_BALLOON_SERVE_H
#define TESTS_SUPPORT_BALLOON_SERVE_H

#include "support/balloon_device.h"

#define DEV_EVERYTHING 0xffffffffu

/* The queue of this duty, by the numbers that the driver uses. */
static inline struct dev_queue *dev_queue_of(struct dev *d, uint32_t duty)
{
	uint32_t index = duty;
	if (duty == PAGEHINT_BALLOON_Q_REPORT && (d->offered & PAGEHINT_BALLOON_F_FREE_PAGE_HINT) == 0)
		index--;
	return &d->queues[index];
}

static inline void dev_serve_pages(struct dev *d, struct dev_queue *q, const struct ph_chain *chain, int inflate)
{
	uint32_t pfns[1024];
	size_t got;
	assert_true(chain->readable_bytes % 4 == 0 && chain->readable_bytes <= sizeof(pfns));
	assert_int_equal(chain->n_writable, 0);
	assert_int_equal(ph_chain_read(&q->ring, chain, 0, pfns, sizeof(pfns), &got), 0);
	for (size_t i = 0; i < got / 4; i++) {
		uint32_t pfn = PH_LE32(pfns[i]);
		uint64_t bit = UINT64_C(1) << (pfn % 64);
		assert_true(pfn < DEV_FRAMES);
		assert_int_equal((d->told[pfn / 64] & bit) != 0, !inflate); /* no page comes or goes twice */
		d->told[pfn / 64] ^= bit;
		d->told_n += inflate ? 1 : UINT64_MAX;
	}
}

static inline void dev_serve_hint(struct dev *d, struct dev_queue *q, const struct ph_chain *chain)
{
	uint32_t id;
	size_t got;
	if (chain->n_readable != 0) {
		assert_int_equal(ph_chain_read(&q->ring, chain, 0, &id, 4, &got), 0);
		assert_int_equal(got, 4);
		assert_true(d->ids_n < 64);
		d->ids[d->ids_n++] = PH_LE32(id);
		return;
	}
	assert_int_equal(chain->n_writable, 1);
	assert_true(d->hints_n < 512);
	d->hints[d->hints_n++] = chain->segments[0];
}

static inline void dev_serve_report(struct dev *d, const struct ph_chain *chain)
{
	assert_int_equal(chain->n_readable, 0);
	for (uint32_t i = 0; i < chain->n_writable; i++) {
		if (d->reports_n < 4096)
			d->reports[d->reports_n++] = chain->segments[i];
		d->report_bytes += chain->segments[i].len;
	}
}

/* Serves up to `most` requests of a queue. Returns how many there were. */
static inline uint32_t dev_serve(struct dev *d, uint32_t duty, uint32_t most)
{
	struct dev_queue *q = dev_queue_of(d, duty);
	struct ph_chain chain;
	uint32_t n = 0, budget = 1u << 20;
	if (!q->is_live)
		return 0;
	for (; n < most; n++) {
		int r = ph_ring_device_pop(&q->ring, &budget, &chain);
		if (r < 0) {
			assert_int_equal(r, -ENOENT);
			break;
		}
		if (duty == PAGEHINT_BALLOON_Q_STATS) {
			size_t got;
			assert_int_equal(ph_chain_read(&q->ring, &chain, 0, d->stats, sizeof(d->stats), &got), 0);
			d->stats_bytes = (uint32_t)got;
			d->stats_ticket = chain.ticket;
			continue;
		}
		if (duty == PAGEHINT_BALLOON_Q_INFLATE || duty == PAGEHINT_BALLOON_Q_DEFLATE)
			dev_serve_pages(d, q, &chain, duty == PAGEHINT_BALLOON_Q_INFLATE);
		else if (duty == PAGEHINT_BALLOON_Q_HINT)
			dev_serve_hint(d, q, &chain);
		else
			dev_serve_report(d, &chain);
		assert_int_equal(ph_ring_device_complete(&q->ring, chain.ticket, 0), 0);
	}
	(void)ph_ring_device_flush(&q->ring);
	(void)ph_ring_device_arm(&q->ring);
	return n;
}

/* The device wants fresh statistics. */
static inline void dev_ask_stats(struct dev *d)
{
	struct dev_queue *q = dev_queue_of(d, PAGEHINT_BALLOON_Q_STATS);
	assert_true(d->stats_ticket != 0);
	assert_int_equal(ph_ring_device_complete(&q->ring, d->stats_ticket, 0), 0);
	d->stats_ticket = 0;
	(void)ph_ring_device_flush(&q->ring);
}

static inline int dev_step(struct dev *d, uint64_t now_ns, uint64_t *ret_deadline)
{
	(void)pagehint_driver_interrupt(d->driver, PAGEHINT_VIRTIO_INTERRUPT_QUEUE | PAGEHINT_VIRTIO_INTERRUPT_CONFIG);
	return pagehint_driver_step(d->driver, now_ns, ret_deadline);
}

/* Driver and device take turns until neither has anything to do. */
static inline void dev_settle(struct dev *d, uint64_t now_ns)
{
	uint64_t deadline;
	uint32_t n;
	do {
		assert_int_equal(dev_step(d, now_ns, &deadline), 0);
		n = 0;
		for (uint32_t duty = 0; duty < DEV_QUEUES; duty++)
			n += dev_serve(d, duty, DEV_EVERYTHING);
	} while (n != 0);
	assert_int_equal(dev_step(d, now_ns, &deadline), 0);
}

static inline void dev_target(struct dev *d, uint32_t pages)
{
	d->config[0] = pages;
	d->generation++;
}

#endif
