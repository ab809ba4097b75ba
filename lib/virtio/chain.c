/* Bytes in and out of a chain. */
#include "virtio/ring_device.h"

/* the bytes of a segment that are wanted next */
struct piece {
	void *host;
	size_t bytes;
};

/* Moves `bytes` between a flat buffer and segments [first, first + n), from `offset` on: into them, or out. */
static int move(const struct ph_guest_memory *memory, const struct ph_segment *segments, uint32_t n, uint64_t offset,
		unsigned char *flat, int into, size_t bytes, size_t *ret_bytes)
{
	size_t done = 0;
	for (uint32_t i = 0; i < n && done < bytes; i++) {
		if (offset >= segments[i].len) {
			offset -= segments[i].len;
			continue;
		}
		struct piece piece = { .bytes = (size_t)(segments[i].len - offset) };
		if (piece.bytes > bytes - done)
			piece.bytes = bytes - done;
		if (memory->host(memory->ctx, segments[i].addr + offset, piece.bytes, into, &piece.host) != 0) {
			*ret_bytes = done;
			return -ERANGE;
		}
		if (into)
			memcpy(piece.host, flat + done, piece.bytes);
		else
			memcpy(flat + done, piece.host, piece.bytes);
		done += piece.bytes;
		offset = 0;
	}
	*ret_bytes = done;
	return 0;
}

int ph_chain_read(const struct ph_ring_device *ring, const struct ph_chain *chain, uint64_t offset, void *to,
		  size_t bytes, size_t *ret_bytes)
{
	return move(&ring->memory, chain->segments, chain->n_readable, offset, to, 0, bytes, ret_bytes);
}

int ph_chain_write(const struct ph_ring_device *ring, const struct ph_chain *chain, uint64_t offset, const void *from,
		   size_t bytes, size_t *ret_bytes)
{
	return move(&ring->memory, chain->segments + chain->n_readable, chain->n_writable, offset,
		    (void *)(uintptr_t)from, 1, bytes, ret_bytes);
}
