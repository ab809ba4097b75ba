/*
 * ring: a virtqueue as it lies in memory, split or packed; what the device end and the driver end share.
 *
 * The problem: two parties that do not trust each other share this memory, on machines of either byte order and of weak
 * memory order. Why this shape: every field that the other side may change is read and written through the accessors below,
 * one access a field, little-endian on any host; whoever publishes stores with release or seq_cst, whoever looks loads with
 * acquire or seq_cst. There are no fences: where a store must be seen before a later load (publish, then look whether the
 * other side wants to be told), both are seq_cst.
 * Not here: how a chain is walked (ring_device.h) or made (ring_driver.h); where the areas are in guest memory: whoever
 * sets a ring up translates their addresses and hands in host pointers.
 * Invariants: freestanding; nothing but mem* functions is called. A ring that was found broken stays broken until it is set up
 * anew.
 * Source: OASIS virtio 1.3, sections 2.7 (split) and 2.8 (packed); VIRTIO_F_VERSION_1 is taken for granted.
 */
#ifndef PH_VIRTIO_RING_H
#define PH_VIRTIO_RING_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define PH_RING_SIZE_MAX 32768u               /* entries; a split ring has a power of two of them (2.7, 2.8) */
#define PH_RING_BYTES_MAX (UINT64_C(1) << 32) /* of all buffers of one chain (2.7.5.2) */
#define PH_RING_ALIGN 16u /* of the descriptor area; the other two want 4 (the split driver area 2) */

/* the form of a ring, from the negotiated features */
#define PH_RING_PACKED 1u
#define PH_RING_EVENT_IDX 2u
#define PH_RING_INDIRECT 4u
#define PH_RING_IN_ORDER 8u /* the device uses buffers in the order in which they were made available */
#define PH_RING_FORM_ALL 15u

/* from feature bits (PAGEHINT_VIRTIO_F_*) to PH_RING_* */
static inline uint32_t ph_ring_form(uint64_t features)
{
	return (features >> 34 & 1 ? PH_RING_PACKED : 0u) | (features >> 29 & 1 ? PH_RING_EVENT_IDX : 0u) |
	       (features >> 28 & 1 ? PH_RING_INDIRECT : 0u) | (features >> 35 & 1 ? PH_RING_IN_ORDER : 0u);
}

/* where a ring is in this process. Split: desc = descriptor table, driver = available ring, device = used ring.
 * Packed: desc = descriptor ring, driver and device = event suppression structures. */
struct ph_ring_place {
	void *desc;
	void *driver;
	void *device;
	uint64_t desc_bytes; /* how much is really there: at least ph_ring_*_area_bytes, or the place is refused */
	uint64_t driver_bytes;
	uint64_t device_bytes;
};

/* bytes that the areas of a ring of `size` entries take; form: PH_RING_* */
uint64_t ph_ring_desc_area_bytes(uint32_t form, uint32_t size);
uint64_t ph_ring_driver_area_bytes(uint32_t form, uint32_t size);
uint64_t ph_ring_device_area_bytes(uint32_t form, uint32_t size);

/*
 * Whether a ring of this form and size can be there.
 * Return: 0; -EINVAL unknown form bits, a size of 0, above the maximum, or (split) no power of two, a missing or misaligned
 * area; -ERANGE an area is too short.
 */
int ph_ring_check(uint32_t form, uint32_t size, const struct ph_ring_place *place);

/* why a ring is broken */
enum {
	PH_RING_OK = 0,
	PH_RING_BAD_INDEX = 1,   /* an index is ahead by more than the ring, or goes back */
	PH_RING_BAD_HEAD = 2,    /* a head or next outside the table, or a head that is in flight already */
	PH_RING_BAD_CHAIN = 3,   /* a loop, or longer than the ring */
	PH_RING_BAD_FLAGS = 4,   /* flags that do not go together; indirect that was not negotiated or is nested */
	PH_RING_BAD_TABLE = 5,   /* an indirect table of a bad length, or not in guest memory */
	PH_RING_BAD_ADDRESS = 6, /* address + length wraps */
	PH_RING_BAD_ORDER = 7,   /* device-readable after device-writable */
	PH_RING_BAD_LENGTH = 8,  /* a chain of more than 2^32 bytes; more used than was writable */
	PH_RING_BAD_ID =
		9, /* the device used a buffer that it does not have, or out of order when in order was agreed */
	PH_RING_WHY_COUNT = 10
};

/* "ok", "bad index", ...; "?" if unknown */
const char *ph_ring_why_name(uint32_t why);

/* ---- the layouts, little-endian ---- */

#define PH_DESC_BYTES 16u
#define PH_DESC_NEXT 1u
#define PH_DESC_WRITE 2u
#define PH_DESC_INDIRECT 4u
#define PH_DESC_AVAIL 0x80u  /* packed only */
#define PH_DESC_USED 0x8000u /* packed only */

/* An address is two halves, low first: so nothing here needs 64-bit atomics of a 32-bit machine. */
struct ph_desc { /* split: section 2.7.5 */
	uint32_t addr[2];
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};

struct ph_packed_desc { /* section 2.8.13 */
	uint32_t addr[2];
	uint32_t len;
	uint16_t id;
	uint16_t flags;
};

#define PH_AVAIL_NO_INTERRUPT 1u /* split, flags of the available ring */
#define PH_USED_NO_NOTIFY 1u     /* split, flags of the used ring */

struct ph_avail { /* section 2.7.6; used_event follows the ring */
	uint16_t flags;
	uint16_t idx;
	uint16_t ring[];
};

struct ph_used_elem { /* section 2.7.8 */
	uint32_t id;
	uint32_t len;
};

struct ph_used { /* avail_event follows the ring */
	uint16_t flags;
	uint16_t idx;
	struct ph_used_elem ring[];
};

/* packed event suppression (section 2.8.14), read and written as one le32: off_wrap low, flags high */
#define PH_EVENT_ENABLE 0u
#define PH_EVENT_DISABLE 1u
#define PH_EVENT_DESC 2u
#define PH_EVENT_WRAP 0x8000u /* in off_wrap */

/* ---- little-endian fields that the other side reads or writes at the same time ---- */

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PH_LE16(v) __builtin_bswap16(v)
#define PH_LE32(v) __builtin_bswap32(v)
#else
#define PH_LE16(v) ((uint16_t)(v))
#define PH_LE32(v) ((uint32_t)(v))
#endif

static inline uint16_t ph_le16_get(const uint16_t *field) /* nothing is ordered by it */
{
	return PH_LE16(__atomic_load_n(field, __ATOMIC_RELAXED));
}

static inline uint16_t ph_le16_acquire(const uint16_t *field)
{
	return PH_LE16(__atomic_load_n(field, __ATOMIC_ACQUIRE));
}

static inline uint16_t ph_le16_see(const uint16_t *field) /* after one's own ph_le*_show */
{
	return PH_LE16(__atomic_load_n(field, __ATOMIC_SEQ_CST));
}

static inline void ph_le16_put(uint16_t *field, uint16_t v)
{
	__atomic_store_n(field, PH_LE16(v), __ATOMIC_RELAXED);
}

static inline void ph_le16_release(uint16_t *field, uint16_t v)
{
	__atomic_store_n(field, PH_LE16(v), __ATOMIC_RELEASE);
}

static inline void ph_le16_show(uint16_t *field, uint16_t v) /* before a ph_le*_see */
{
	__atomic_store_n(field, PH_LE16(v), __ATOMIC_SEQ_CST);
}

static inline uint32_t ph_le32_get(const uint32_t *field)
{
	return PH_LE32(__atomic_load_n(field, __ATOMIC_RELAXED));
}

static inline uint32_t ph_le32_see(const uint32_t *field)
{
	return PH_LE32(__atomic_load_n(field, __ATOMIC_SEQ_CST));
}

static inline void ph_le32_put(uint32_t *field, uint32_t v)
{
	__atomic_store_n(field, PH_LE32(v), __ATOMIC_RELAXED);
}

static inline void ph_le32_show(uint32_t *field, uint32_t v)
{
	__atomic_store_n(field, PH_LE32(v), __ATOMIC_SEQ_CST);
}

static inline uint64_t ph_addr_get(const uint32_t addr[2])
{
	return (uint64_t)ph_le32_get(&addr[1]) << 32 | ph_le32_get(&addr[0]);
}

static inline void ph_addr_put(uint32_t addr[2], uint64_t v)
{
	ph_le32_put(&addr[0], (uint32_t)v);
	ph_le32_put(&addr[1], (uint32_t)(v >> 32));
}

/* The other side asked to be told once `event` is passed; was it, between the indices `from` and `to`? (2.7.7.2) */
static inline int ph_ring_event_passed(uint16_t event, uint16_t to, uint16_t from)
{
	return (uint16_t)(to - event - 1) < (uint16_t)(to - from);
}

/* ---- positions in a packed ring: offset in bits 0-14, wrap counter in bit 15, as on the wire ---- */

#define PH_PACKED_START PH_EVENT_WRAP /* both wrap counters begin as 1 */
#define PH_OFFSET(at) ((uint16_t)((at)&0x7fffu))

/* n <= size entries further */
static inline uint16_t ph_packed_ahead(uint16_t at, uint32_t n, uint32_t size)
{
	uint32_t offset = PH_OFFSET(at) + n, wrap = at & PH_EVENT_WRAP;
	if (offset >= size) {
		offset -= size;
		wrap ^= PH_EVENT_WRAP;
	}
	return (uint16_t)(offset | wrap);
}

/* n <= size entries back */
static inline uint16_t ph_packed_back(uint16_t at, uint32_t n, uint32_t size)
{
	return ph_packed_ahead((uint16_t)(at ^ PH_EVENT_WRAP), size - n, size);
}

/* the two bits of a descriptor that is available, or used, at this position (section 2.8.1) */
static inline uint16_t ph_packed_avail_bits(uint16_t at)
{
	return at & PH_EVENT_WRAP ? PH_DESC_AVAIL : PH_DESC_USED;
}

static inline uint16_t ph_packed_used_bits(uint16_t at)
{
	return at & PH_EVENT_WRAP ? PH_DESC_AVAIL | PH_DESC_USED : 0;
}

/*
 * Does the other side want to be told of the n entries that end before `at`? event: its event suppression structure.
 * What is reserved or was not negotiated counts as "always": one notification too many harms nobody.
 */
static inline int ph_packed_wanted(uint32_t event, uint32_t form, uint16_t at, uint32_t n, uint32_t size)
{
	uint32_t flags = event >> 16 & 3, offset = PH_OFFSET(event);
	if (flags != PH_EVENT_DESC || !(form & PH_RING_EVENT_IDX))
		return flags != PH_EVENT_DISABLE;
	if ((event ^ at) & PH_EVENT_WRAP)
		offset -= size;
	return ph_ring_event_passed((uint16_t)offset, PH_OFFSET(at), (uint16_t)(PH_OFFSET(at) - n));
}

#endif
