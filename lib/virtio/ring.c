/* What can be said of a ring's areas without looking into them. */
#include "virtio/ring.h"

uint64_t ph_ring_desc_area_bytes(uint32_t form, uint32_t size)
{
	(void)form;
	return (uint64_t)size * PH_DESC_BYTES;
}

/* The last two bytes of a split area are the event index; they belong to it even if nobody uses them. */
uint64_t ph_ring_driver_area_bytes(uint32_t form, uint32_t size)
{
	return form & PH_RING_PACKED ? sizeof(uint32_t) : 6 + 2 * (uint64_t)size;
}

uint64_t ph_ring_device_area_bytes(uint32_t form, uint32_t size)
{
	return form & PH_RING_PACKED ? sizeof(uint32_t) : 6 + 8 * (uint64_t)size;
}

static int misaligned(const void *area, uintptr_t to)
{
	return area == NULL || ((uintptr_t)area & (to - 1)) != 0;
}

int ph_ring_check(uint32_t form, uint32_t size, const struct ph_ring_place *place)
{
	int packed = (form & PH_RING_PACKED) != 0;
	if ((form & ~PH_RING_FORM_ALL) != 0 || size == 0 || size > PH_RING_SIZE_MAX)
		return -EINVAL;
	if (!packed && (size & (size - 1)) != 0)
		return -EINVAL;
	if (misaligned(place->desc, PH_RING_ALIGN) || misaligned(place->driver, packed ? 4 : 2) ||
	    misaligned(place->device, 4))
		return -EINVAL;
	if (place->desc_bytes < ph_ring_desc_area_bytes(form, size) ||
	    place->driver_bytes < ph_ring_driver_area_bytes(form, size) ||
	    place->device_bytes < ph_ring_device_area_bytes(form, size))
		return -ERANGE;
	return 0;
}

const char *ph_ring_why_name(uint32_t why)
{
	static const char *const names[PH_RING_WHY_COUNT] = {
		[PH_RING_OK] = "ok",
		[PH_RING_BAD_INDEX] = "bad index",
		[PH_RING_BAD_HEAD] = "bad head",
		[PH_RING_BAD_CHAIN] = "bad chain",
		[PH_RING_BAD_FLAGS] = "bad flags",
		[PH_RING_BAD_TABLE] = "bad indirect table",
		[PH_RING_BAD_ADDRESS] = "bad address",
		[PH_RING_BAD_ORDER] = "bad order",
		[PH_RING_BAD_LENGTH] = "bad length",
		[PH_RING_BAD_ID] = "bad buffer id",
	};
	return why < PH_RING_WHY_COUNT ? names[why] : "?";
}
