/* The first bytes say which end, form and size; the rest is a script for it. */
#include "input.h"

#include "virtio/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const uint32_t split_sizes[] = { 1, 2, 4, 8 }, packed_sizes[] = { 1, 3, 4, 7 };
	struct input in = { .bytes = data, .left = bytes };
	uint32_t first = take8(&in), form = first & 7;
	uint32_t size = (form & PH_RING_PACKED ? packed_sizes : split_sizes)[first >> 3 & 3];
	if (first & 0x80)
		fuzz_driver_end(&in, form | (first & 0x40 ? PH_RING_IN_ORDER : 0u), size);
	else
		fuzz_device_end(&in, form, size);
	return 0;
}
