#include "virtio/device_blob.h"

static void put(struct ph_blob_out *out, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++, out->at++)
		if (out->at < out->room)
			out->bytes[out->at] = (uint8_t)(v >> 8 * i);
}

void ph_blob_put32(struct ph_blob_out *out, uint32_t v)
{
	put(out, v, 4);
}

void ph_blob_put64(struct ph_blob_out *out, uint64_t v)
{
	put(out, v, 8);
}

static uint64_t get(struct ph_blob_in *in, unsigned bytes)
{
	uint64_t v = 0;
	if (in->length - in->at < bytes) {
		in->short_of = 1;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)in->bytes[in->at++] << 8 * i;
	return v;
}

uint32_t ph_blob_get32(struct ph_blob_in *in)
{
	return (uint32_t)get(in, 4);
}

uint64_t ph_blob_get64(struct ph_blob_in *in)
{
	return get(in, 8);
}

uint32_t ph_blob_crc(const uint8_t *bytes, uint64_t n)
{
	uint32_t table[16];
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t c = i;
		for (int bit = 0; bit < 4; bit++)
			c = c >> 1 ^ (c & 1 ? UINT32_C(0xedb88320) : 0);
		table[i] = c;
	}
	uint32_t crc = UINT32_MAX;
	for (uint64_t i = 0; i < n; i++) {
		crc ^= bytes[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}
