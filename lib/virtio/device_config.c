/* device_config: four little-endian words that both sides read; two of them are the guest's to write */
#include <errno.h>
#include <string.h>

#include "virtio/device.h"
#include "virtio/device_blob.h"

static void compose(const struct pagehint_device *device, uint8_t *space)
{
	uint64_t memory = ph_device_memory_pages(device), target = device->progress.target;
	uint32_t poison = ph_device_has(device, PAGEHINT_BALLOON_F_PAGE_POISON) ? device->poison : 0;
	uint32_t hint = ph_device_has(device, PAGEHINT_BALLOON_F_FREE_PAGE_HINT) ? ph_hint_cmd_id(&device->hint) : 0;
	ph_bytes_put_le32(space + PAGEHINT_BALLOON_CONFIG_NUM_PAGES, (uint32_t)(target < memory ? target : memory));
	ph_bytes_put_le32(space + PAGEHINT_BALLOON_CONFIG_ACTUAL, device->actual);
	ph_bytes_put_le32(space + PAGEHINT_BALLOON_CONFIG_HINT_CMD_ID, hint);
	ph_bytes_put_le32(space + PAGEHINT_BALLOON_CONFIG_POISON_VAL, poison);
}

static int inside(uint32_t offset, uint32_t length)
{
	return offset <= PAGEHINT_BALLOON_CONFIG_BYTES && length <= PAGEHINT_BALLOON_CONFIG_BYTES - offset;
}

int pagehint_device_config_read(const struct pagehint_device *device, uint32_t offset, void *data, uint32_t length)
{
	uint8_t space[PAGEHINT_BALLOON_CONFIG_BYTES];
	if (device == NULL || data == NULL || !inside(offset, length))
		return -EINVAL;
	compose(device, space);
	memcpy(data, space + offset, length);
	return 0;
}

static int touches(uint32_t field, uint32_t offset, uint32_t length)
{
	return offset < field + 4 && offset + length > field;
}

static void write_actual(struct pagehint_device *device, uint32_t value)
{
	device->actual = value;
	ph_progress_actual(&device->progress, device->now_ns, value, ph_device_memory_pages(device));
}

static void write_poison(struct pagehint_device *device, uint32_t value)
{
	if (value != device->poison && (device->status & PAGEHINT_VIRTIO_STATUS_DRIVER_OK) != 0)
		PH_DROP(device, LATE_POISON, 1);
	device->poison = value;
}

int pagehint_device_config_write(struct pagehint_device *device, uint64_t now_ns, uint32_t offset, const void *data,
				 uint32_t length)
{
	uint8_t space[PAGEHINT_BALLOON_CONFIG_BYTES];
	if (data == NULL || !inside(offset, length))
		return -EINVAL;
	int r = ph_device_begin(device);
	if (r < 0)
		return r;
	ph_device_clock(device, now_ns);
	compose(device, space);
	memcpy(space + offset, data, length);
	int actual = touches(PAGEHINT_BALLOON_CONFIG_ACTUAL, offset, length);
	int poison = touches(PAGEHINT_BALLOON_CONFIG_POISON_VAL, offset, length) &&
		     ph_device_has(device, PAGEHINT_BALLOON_F_PAGE_POISON);
	if (actual)
		write_actual(device, ph_bytes_le32(space + PAGEHINT_BALLOON_CONFIG_ACTUAL));
	if (poison)
		write_poison(device, ph_bytes_le32(space + PAGEHINT_BALLOON_CONFIG_POISON_VAL));
	PH_DROP(device, CONFIG, !actual && !poison);
	ph_device_end(device);
	return 0;
}
