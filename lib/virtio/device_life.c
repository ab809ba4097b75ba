/* device_life: features, status and reset: what a driver does before and after it uses queues */
#include <errno.h>

#include "virtio/device.h"
#include "virtio/numbering.h"

static int any_queue_runs(const struct pagehint_device *device)
{
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		if (device->queue[role].running)
			return 1;
	return 0;
}

int pagehint_device_set_features(struct pagehint_device *device, uint64_t features)
{
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	uint64_t must = device->offered & PAGEHINT_VIRTIO_F_ACCESS_PLATFORM;
	if (device->resetting || (any_queue_runs(device) && features != device->negotiated)) {
		r = -EBUSY;
	} else if ((features & ~device->offered) != 0 || (features & must) != must) {
		device->features_set = 0;
		r = -EINVAL;
	} else {
		device->negotiated = features;
		device->features_set = 1;
	}
	ph_device_end(device);
	return r;
}

int pagehint_device_set_status(struct pagehint_device *device, uint32_t status)
{
	if (status == 0)
		return pagehint_device_reset(device);
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	if (status > 255)
		r = -EINVAL;
	else if (device->resetting)
		r = -EAGAIN;
	if (r == 0) {
		uint32_t kept = device->status & PAGEHINT_VIRTIO_STATUS_NEEDS_RESET;
		uint32_t refused = device->features_set ? 0 : PAGEHINT_VIRTIO_STATUS_FEATURES_OK;
		device->status = kept | (status & ~(PAGEHINT_VIRTIO_STATUS_NEEDS_RESET | refused));
	}
	ph_device_end(device);
	return r;
}

uint32_t pagehint_device_status(const struct pagehint_device *device)
{
	if (device->resetting && device->status == 0)
		return PAGEHINT_VIRTIO_STATUS_ACKNOWLEDGE;
	return device->status;
}

void ph_device_forget(struct pagehint_device *device)
{
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		device->queue[role].has_resume = 0;
	device->negotiated = 0;
	device->features_set = 0;
	device->status = 0;
	device->broken = 0;
	device->resetting = 0;
	device->interrupts = 0;
	device->events &= PAGEHINT_DEVICE_EVENT_RESET_DONE;
	device->poison = 0;
	device->actual = 0;
	device->stats_held = 0;
	device->stats_repeat = 0;
	device->sample = (struct ph_sample) { .samples = 0 };
	/* ids go on counting, so that no late message of the last driver fits a run of the next */
	device->hint.state = PAGEHINT_DEVICE_HINT_STOPPED;
	device->hint.oldest = 0;
	ph_partial_clear(&device->partial);
	/* whatever that driver had in its balloon is the guest's again */
	ph_progress_actual(&device->progress, device->now_ns, 0, 0);
	ph_progress_target(&device->progress, device->now_ns, device->progress.target, UINT64_MAX);
}

int pagehint_device_reset(struct pagehint_device *device)
{
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		ph_device_queue_halt(&device->queue[role]);
	ph_device_reap(device);
	if (!device->resetting)
		device->counts.resets++;
	device->resetting = device->batches != 0;
	if (device->resetting)
		r = -EAGAIN;
	else
		ph_device_forget(device);
	ph_device_end(device);
	return r;
}

/* Before the driver has said what it takes, all that is offered counts. */
static uint64_t in_force(const struct pagehint_device *device)
{
	return device->features_set ? device->negotiated : device->offered;
}

uint32_t pagehint_device_queues(const struct pagehint_device *device)
{
	return ph_numbering_queues(device->numbering, device->offered, in_force(device));
}

int pagehint_device_queue_role(const struct pagehint_device *device, uint32_t index)
{
	return ph_numbering_role(device->numbering, device->offered, in_force(device), index);
}
