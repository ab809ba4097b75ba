/*
 * device_blob: bytes of a saved state: little-endian numbers one after the other, and a checksum over them.
 *
 * The problem: saved state had pointers in it, host byte order, and a loader that believed it. Why this shape: a cursor that
 * never leaves its buffer and remembers that it wanted to, so that only the end needs a check. CRC-32 finds every single wrong
 * byte. Not here: what the numbers mean. Owns nothing.
 */
#ifndef PH_VIRTIO_DEVICE_BLOB_H
#define PH_VIRTIO_DEVICE_BLOB_H

#include <stdint.h>

static inline uint32_t ph_bytes_le16(const uint8_t *b)
{
	return (uint32_t)b[0] | (uint32_t)b[1] << 8;
}

static inline uint32_t ph_bytes_le32(const uint8_t *b)
{
	return ph_bytes_le16(b) | ph_bytes_le16(b + 2) << 16;
}

static inline uint64_t ph_bytes_le64(const uint8_t *b)
{
	return (uint64_t)ph_bytes_le32(b) | (uint64_t)ph_bytes_le32(b + 4) << 32;
}

static inline void ph_bytes_put_le32(uint8_t *b, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		b[i] = (uint8_t)(v >> 8 * i);
}

struct ph_blob_out {
	uint8_t *bytes;
	uint64_t room;
	uint64_t at; /* beyond room: it did not fit */
};

struct ph_blob_in {
	const uint8_t *bytes;
	uint64_t length;
	uint64_t at;
	uint32_t short_of; /* 1 = more was wanted than there is */
};

void ph_blob_put32(struct ph_blob_out *out, uint32_t v);
void ph_blob_put64(struct ph_blob_out *out, uint64_t v);
/* 0 once the end was passed */
uint32_t ph_blob_get32(struct ph_blob_in *in);
uint64_t ph_blob_get64(struct ph_blob_in *in);

/* CRC-32 (IEEE 802.3) */
uint32_t ph_blob_crc(const uint8_t *bytes, uint64_t n);

#endif
