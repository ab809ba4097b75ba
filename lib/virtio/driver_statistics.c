/*
 * driver_statistics: the one buffer of statistics. The driver fills it and hands it over; the device keeps it until it wants
 * fresh ones, gives it back, and gets it filled anew. So it costs nothing until it is asked for.
 * Source: OASIS virtio 1.3, section 5.5.6.4
 */
#include <string.h>

#include "virtio/driver_queue.h"

static uint32_t write_entries(struct pagehint_driver *d)
{
	struct pagehint_driver_stat stats[PAGEHINT_DRIVER_STATS_MAX];
	unsigned char *to = d->stats_entries.here;
	memset(stats, 0, sizeof(stats));
	uint32_t n = d->ops.get_stats(d->ctx, stats, PAGEHINT_DRIVER_STATS_MAX);
	if (n > PAGEHINT_DRIVER_STATS_MAX)
		n = PAGEHINT_DRIVER_STATS_MAX;
	if (n == 0) {
		/* a buffer may not be empty: a tag that no device knows, and must ignore */
		stats[0].tag = 0xffff;
		n = 1;
	}
	for (uint32_t i = 0; i < n; i++, to += PAGEHINT_BALLOON_STAT_BYTES) {
		/* packed, so that the value stands where no 64-bit store may */
		to[0] = (unsigned char)stats[i].tag;
		to[1] = (unsigned char)(stats[i].tag >> 8);
		for (uint32_t byte = 0; byte < 8; byte++)
			to[2 + byte] = (unsigned char)(stats[i].value >> 8 * byte);
	}
	return n * PAGEHINT_BALLOON_STAT_BYTES;
}

void ph_statistics_serve(struct pagehint_driver *d)
{
	if (!ph_driver_has(d, PAGEHINT_BALLOON_F_STATS_VQ) || d->stats_are_out || d->state != PAGEHINT_DRIVER_RUNNING)
		return;
	struct ph_ring_buffer buffer = { .addr = d->stats_entries.addr, .len = write_entries(d) };
	if (ph_queue_put(d, PAGEHINT_BALLOON_Q_STATS, &buffer, 1, 0, 0) < 0)
		return;
	d->stats_are_out = 1;
	/* the first buffer only waits at the device; each later one answers a question */
	d->counts.stats_told += d->stats_are_started;
	d->stats_are_started = 1;
	ph_queue_show(d, PAGEHINT_BALLOON_Q_STATS);
}

void ph_statistics_answered(struct pagehint_driver *d)
{
	d->stats_are_out = 0;
}
