#include "virtio/device_hint.h"

#include <errno.h>

#include <pagehint/balloon.h>
#include <pagehint/device_control.h>

static int is_on(const struct ph_hint *hint)
{
	return hint->state == PAGEHINT_DEVICE_HINT_REQUESTED || hint->state == PAGEHINT_DEVICE_HINT_STARTED;
}

uint32_t ph_hint_cmd_id(const struct ph_hint *hint)
{
	if (is_on(hint))
		return hint->id;
	return hint->state == PAGEHINT_DEVICE_HINT_DONE ? PAGEHINT_BALLOON_HINT_DONE : PAGEHINT_BALLOON_HINT_STOP;
}

int ph_hint_start(struct ph_hint *hint)
{
	if (is_on(hint))
		return -EBUSY;
	uint32_t id = hint->id < PH_HINT_FIRST || hint->id == UINT32_MAX ? PH_HINT_FIRST : hint->id + 1;
	if (id == hint->oldest)
		return -EAGAIN;
	hint->id = id;
	if (hint->oldest == 0)
		hint->oldest = id;
	hint->state = PAGEHINT_DEVICE_HINT_REQUESTED;
	return 0;
}

int ph_hint_stop(struct ph_hint *hint)
{
	if (!is_on(hint))
		return -EALREADY;
	hint->state = PAGEHINT_DEVICE_HINT_STOPPED;
	return 0;
}

int ph_hint_done(struct ph_hint *hint)
{
	if (hint->state == PAGEHINT_DEVICE_HINT_DONE)
		return -EALREADY;
	hint->state = PAGEHINT_DEVICE_HINT_DONE;
	return 0;
}

int ph_hint_command(struct ph_hint *hint, uint32_t id, int auto_done)
{
	if (id == PAGEHINT_BALLOON_HINT_STOP) {
		hint->oldest = hint->state == PAGEHINT_DEVICE_HINT_REQUESTED ? hint->id : 0;
		if (hint->state != PAGEHINT_DEVICE_HINT_STARTED)
			return 0;
		hint->state = auto_done ? PAGEHINT_DEVICE_HINT_DONE : PAGEHINT_DEVICE_HINT_STOPPED;
		return 1;
	}
	if (hint->state == PAGEHINT_DEVICE_HINT_REQUESTED && id == hint->id) {
		hint->state = PAGEHINT_DEVICE_HINT_STARTED;
		return 1;
	}
	return -EINVAL;
}
