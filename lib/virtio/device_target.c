/* device_target: what the host wants: a size of the balloon, and hint runs */
#include <errno.h>

#include "base/opts.h"
#include "virtio/device.h"

int pagehint_device_set_target(struct pagehint_device *device, uint64_t now_ns, uint64_t bytes, uint64_t *ret_bytes)
{
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	ph_device_clock(device, now_ns);
	uint64_t memory = ph_device_memory_pages(device);
	if (ph_progress_target(&device->progress, device->now_ns, bytes >> PAGEHINT_BALLOON_PAGE_SHIFT, memory))
		device->events |= PAGEHINT_DEVICE_EVENT_CONFIG;
	if (ret_bytes != NULL)
		*ret_bytes = device->progress.target << PAGEHINT_BALLOON_PAGE_SHIFT;
	ph_device_end(device);
	return 0;
}

int pagehint_device_progress(struct pagehint_device *device, uint64_t now_ns, struct pagehint_device_progress *progress)
{
	if (device == NULL)
		return -EINVAL;
	struct pagehint_device_progress p = { .struct_size = sizeof(p),
					      .memory_pages = ph_device_memory_pages(device) };
	struct ph_progress now = device->progress;
	/* memory may have gone since these were clamped */
	now.target = now.target < p.memory_pages ? now.target : p.memory_pages;
	now.actual = now.actual < p.memory_pages ? now.actual : p.memory_pages;
	ph_progress_read(&now, now_ns > device->now_ns ? now_ns : device->now_ns, &p);
	if (!ph_device_may_serve(device, &device->queue[PAGEHINT_BALLOON_Q_INFLATE]))
		p.state = PAGEHINT_DEVICE_PROGRESS_NO_DRIVER;
	return PH_OPTS_OUT(progress, p);
}

int pagehint_device_hint_start(struct pagehint_device *device, uint32_t *ret_id)
{
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	if (device->features_set && !ph_device_has(device, PAGEHINT_BALLOON_F_FREE_PAGE_HINT))
		r = -EOPNOTSUPP;
	else if (!ph_device_may_serve(device, &device->queue[PAGEHINT_BALLOON_Q_HINT]))
		r = -ENODEV;
	else if (device->gate != NULL && (pagehint_gate_closed(device->gate) >> PAGEHINT_INHIBIT_POSTCOPY & 1) != 0)
		r = -EBUSY;
	else
		r = ph_hint_start(&device->hint);
	if (r == 0) {
		device->events |= PAGEHINT_DEVICE_EVENT_CONFIG;
		if (ret_id != NULL)
			*ret_id = device->hint.id;
	}
	ph_device_end(device);
	return r;
}

static int end_run(struct pagehint_device *device, int (*how)(struct ph_hint *hint))
{
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	r = how(&device->hint);
	if (r == 0)
		device->events |= PAGEHINT_DEVICE_EVENT_CONFIG | PAGEHINT_DEVICE_EVENT_HINT;
	ph_device_end(device);
	return r;
}

int pagehint_device_hint_stop(struct pagehint_device *device)
{
	return end_run(device, ph_hint_stop);
}

int pagehint_device_hint_done(struct pagehint_device *device)
{
	return end_run(device, ph_hint_done);
}

uint32_t pagehint_device_hint_state(const struct pagehint_device *device, uint32_t *ret_id)
{
	if (ret_id != NULL)
		*ret_id = device->hint.id;
	return device->hint.state;
}
