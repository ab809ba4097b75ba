/*
 * device_stats_queue: the guest's statistics. A buffer stays with the device until the next sample is wanted; giving it back is
 * the question, getting it again the answer.
 */
#include <errno.h>

#include "base/opts.h"
#include "virtio/device.h"

int ph_device_collect_stats(struct pagehint_device *device, struct ph_device_queue *q, uint32_t *budget)
{
	uint32_t got = 0, most = PH_SAMPLE_ENTRIES * PAGEHINT_BALLOON_STAT_BYTES;
	PH_DROP(device, EXTRA_STATS, device->stats_held); /* the older one goes back at once */
	if (device->stats_repeat) {
		/* it was read before the queue was stopped; its age is the old one */
		device->stats_repeat = 0;
	} else {
		if (ph_device_check_list(device, &q->chain, PAGEHINT_BALLOON_STAT_BYTES, budget) < 0 ||
		    ph_device_read(device, q, device->scratch, most, &got) < 0)
			return -ERANGE;
		PH_DROP(device, BAD_TAG, ph_sample_take(&device->sample, device->now_ns, device->scratch, got));
		device->counts.samples++;
		device->events |= PAGEHINT_DEVICE_EVENT_STATS;
	}
	uint32_t cost = got / PAGEHINT_BALLOON_STAT_BYTES;
	*budget -= cost < *budget ? cost : *budget;
	device->stats_held = 1;
	q->collected = 1;
	return 0;
}

int ph_device_ask(struct pagehint_device *device)
{
	if (!device->stats_held)
		return -EAGAIN;
	device->stats_held = 0;
	ph_device_acknowledge(device, PAGEHINT_BALLOON_Q_STATS);
	return 0;
}

int pagehint_device_stats_request(struct pagehint_device *device)
{
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	if (device->features_set && !ph_device_has(device, PAGEHINT_BALLOON_F_STATS_VQ))
		r = -EOPNOTSUPP;
	else if (!ph_device_may_serve(device, &device->queue[PAGEHINT_BALLOON_Q_STATS]))
		r = -ENODEV;
	else
		r = ph_device_ask(device);
	ph_device_end(device);
	return r;
}

int pagehint_device_sample(const struct pagehint_device *device, uint64_t now_ns, struct pagehint_device_sample *sample)
{
	const struct ph_sample *last = &device->sample;
	struct pagehint_device_sample s = {
		.struct_size = sizeof(s),
		.age_ns = ph_sample_age(last, now_ns),
		.samples = last->samples,
	};
	if (s.age_ns < device->stale_ns) {
		s.known = last->known;
		for (uint32_t tag = 0; tag < PAGEHINT_BALLOON_STAT_COUNT; tag++)
			s.value[tag] = last->value[tag];
	}
	return PH_OPTS_OUT(sample, s);
}
