#include "virtio/device_sample.h"

#include <string.h>

#include "virtio/device_blob.h"

uint64_t ph_sample_age(const struct ph_sample *sample, uint64_t now_ns)
{
	uint64_t here = now_ns > sample->at_ns ? now_ns - sample->at_ns : 0;
	if (sample->samples == 0)
		return UINT64_MAX;
	return here > UINT64_MAX - 1 - sample->older_ns ? UINT64_MAX - 1 : here + sample->older_ns;
}

uint32_t ph_sample_take(struct ph_sample *sample, uint64_t now_ns, const uint8_t *list, uint32_t bytes)
{
	uint32_t unknown = 0;
	memset(sample->value, 0, sizeof(sample->value));
	sample->known = 0;
	sample->at_ns = now_ns;
	sample->older_ns = 0;
	sample->samples++;
	for (uint32_t at = 0; bytes - at >= PAGEHINT_BALLOON_STAT_BYTES; at += PAGEHINT_BALLOON_STAT_BYTES) {
		uint32_t tag = ph_bytes_le16(list + at);
		if (tag >= PAGEHINT_BALLOON_STAT_COUNT) {
			unknown++;
			continue;
		}
		sample->value[tag] = ph_bytes_le64(list + at + 2);
		sample->known |= UINT64_C(1) << tag;
	}
	return unknown;
}
