/*
 * map.h: the memory map says which frames exist, where they are in this process, and what backs them.
 *
 * The problem: the call that frees memory depends on the backing, and callers guess it wrong (MADV_DONTNEED on a shared
 * memfd returns 0 and frees nothing). Why this shape: a region's backing is detected at registration (fstatfs, VmFlags of
 * /proc/self/smaps) and a wrong claim is refused, so nobody downstream has to guess.
 * Not here: who may discard (gate.h), how (host.h). Owns: nothing of the memory; fds and mappings stay the embedder's and
 * must live until pagehint_map_remove.
 * Invariants: regions never overlap in frames; a region is removed only while no discard is inside it; a pin
 * that reports 0 in flight means that no discard touches the region until it is unpinned.
 */
#ifndef PAGEHINT_MAP_H
#define PAGEHINT_MAP_H

#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/sink.h>

PAGEHINT_BEGIN

struct pagehint_map;

/* what backs a region */
enum {
	PAGEHINT_BACKING_AUTO = 0,         /* only in a description: detect it */
	PAGEHINT_BACKING_ANON = 1,         /* private anonymous memory */
	PAGEHINT_BACKING_SHARED = 2,       /* MAP_SHARED memfd, shmem or tmpfs file */
	PAGEHINT_BACKING_HUGETLB = 3,      /* hugetlbfs or MFD_HUGETLB, shared */
	PAGEHINT_BACKING_FILE_PRIVATE = 4, /* MAP_PRIVATE of a file, for example a restored snapshot */
	PAGEHINT_BACKING_GUEST_MEMFD = 5,  /* KVM guest_memfd: fd only, may have no mapping */
	PAGEHINT_BACKING_DEVICE = 6,       /* anything else (MMIO, DAX, a shared disk file): never discarded */
	PAGEHINT_BACKING_COUNT = 7
};

/* flags of a region; in a description only the two claims may be set, the others are detected */
#define PAGEHINT_REGION_LOCKED 1u      /* mlocked (VmFlags lo) */
#define PAGEHINT_REGION_THP 2u         /* transparent huge pages are on: less than 2 MiB frees nothing */
#define PAGEHINT_REGION_UFFD 4u        /* registered with a userfaultfd of somebody else (VmFlags um, uw, ui) */
#define PAGEHINT_REGION_UFFD_OWN 8u    /* claimed by the caller: the userfaultfd is served by our pager */
#define PAGEHINT_REGION_PIN_AT_ADD 16u /* claim: start with one pin */

/** struct pagehint_map_opts - NULL = defaults */
struct pagehint_map_opts {
	uint64_t struct_size;
	uint32_t frame_shift;     /* bytes of a frame = 2^frame_shift; 0 = 12; 12..30 */
	uint32_t max_regions;     /* room, fixed for life; 0 = 64; at most 65536 */
	uint32_t host_page_shift; /* 0 = ask the host; larger than the host's = pretend (tests of 16K and 64K hosts) */
	uint32_t flags;           /* must be 0 */
};

/** struct pagehint_region_desc - what the embedder says of a region it adds */
struct pagehint_region_desc {
	uint64_t struct_size;
	uint64_t frame;     /* first guest frame */
	uint64_t frames;    /* how many [frames] */
	uint64_t host_addr; /* where it is mapped here; 0 only for guest_memfd */
	uint64_t fd_offset; /* offset of the region's first byte in fd [bytes]; 0 without fd */
	int32_t fd;        /* the file behind it, -1 if none (hugetlb needs it); borrowed until the region is removed */
	uint32_t backing;  /* PAGEHINT_BACKING_*; AUTO = detect; else verified */
	uint32_t flags;    /* PAGEHINT_REGION_UFFD_OWN, PAGEHINT_REGION_PIN_AT_ADD */
	uint32_t reserved; /* must be 0 */
};

/** struct pagehint_region_info - what the map knows of a region */
struct pagehint_region_info {
	uint64_t struct_size;
	uint64_t id; /* names it in this map; never used again */
	uint64_t frame;
	uint64_t frames;
	uint64_t host_addr;
	uint64_t fd_offset;
	uint64_t host_page_bytes; /* page size of the mapping: 4 KiB, 2 MiB, ... */
	uint64_t least_bytes;     /* the least aligned size that frees anything */
	uint64_t pins;
	uint64_t in_flight; /* discards inside */
	int32_t fd;
	uint32_t backing;
	uint32_t flags;
	uint32_t reserved;
};

/**
 * pagehint_map_new - an empty map
 * @opts:    NULL for defaults
 * @ret_map: the map
 * Return: 0; -EINVAL a value out of its bounds; -E2BIG unknown non-zero tail; -ENOMEM.
 * Thread: init-only.   Cost: one allocation, O(max_regions).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_new(const struct pagehint_map_opts *opts,
						      struct pagehint_map **ret_map);

/**
 * pagehint_map_free - frees the map, not the memory it describes; NULL is allowed
 * Return: 0; -EBUSY a discard is in flight (nothing is changed).
 * Thread: init-only.   Cost: one free.   Since: 0.1
 */
PAGEHINT_API int pagehint_map_free(struct pagehint_map *map);

/**
 * pagehint_map_add - registers a region after looking at what really backs it
 * @map:    the map
 * @desc:   the region; its memory must be mapped already and stay so
 * @ret_id: names the region from now on
 *
 * Return: 0; -EINVAL zero length, unaligned to the host page, wrapping, unmapped, an fd of another file, a backing claim
 * that is not true, unknown flags; -EEXIST overlaps a region (frames or host addresses); -ENOSPC no room;
 * -E2BIG unknown non-zero tail; -ENODEV after fork; -ENOMEM no room to track a private file; else what fstat, fstatfs,
 * /proc or /sys gave.
 * Thread: any.   Cost: O(regions + mappings of the process), about a dozen syscalls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_add(struct pagehint_map *map, const struct pagehint_region_desc *desc,
						      uint64_t *ret_id);

/**
 * pagehint_map_remove - forgets a region; afterwards its memory may be unmapped
 * @map: the map
 * @id:  from pagehint_map_add
 * Return: 0; -ERANGE no such region; -EBUSY a discard is inside (nothing is changed; try again when it has ended);
 * -ENODEV after fork.
 * Thread: any.   Cost: O(regions).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_remove(struct pagehint_map *map, uint64_t id);

/**
 * pagehint_map_pin - forbids discarding in a region (a device maps it); counted
 * @map:           the map
 * @id:            the region
 * @ret_in_flight: discards that had started before and have not ended, or NULL; pin memory only once this is 0
 * Return: 0; -ERANGE no such region.
 * Thread: any.   Cost: O(log regions), two atomics.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_pin(struct pagehint_map *map, uint64_t id, uint64_t *ret_in_flight);

/**
 * pagehint_map_unpin - takes one pin back
 * Return: 0; -ERANGE no such region; -EALREADY it has no pin.
 * Thread: any.   Cost: O(log regions), one atomic.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_unpin(struct pagehint_map *map, uint64_t id);

/**
 * pagehint_map_lookup - the region that has a frame
 * @map:   the map
 * @frame: frame number
 * @info:  struct_size set by the caller; the rest is written
 * Return: 0; -ERANGE none; -EINVAL struct_size below 8.
 * Thread: any.   Cost: O(log regions), no syscall.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_lookup(const struct pagehint_map *map, uint64_t frame,
							 struct pagehint_region_info *info);

/**
 * pagehint_map_next - the first region whose frames end after `frame`; to walk the map in order
 * Parameters, Return, Thread, Cost, Since: as pagehint_map_lookup.
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_next(const struct pagehint_map *map, uint64_t frame,
						       struct pagehint_region_info *info);

/**
 * pagehint_map_host - the host address of a range that lies in one region
 * @map:      the map
 * @frame:    first frame
 * @frames:   how many [frames]
 * @ret_addr: host address of the first byte
 * Return: 0; -ERANGE not wholly inside one mapped region; -EINVAL frames 0 or wrapping.
 * Thread: any.   Cost: O(log regions), no syscall.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_host(const struct pagehint_map *map, uint64_t frame, uint64_t frames,
						       void **ret_addr);

/**
 * pagehint_map_frame - the frame at a host address
 * Return: 0; -ERANGE no region is mapped there.
 * Thread: any.   Cost: O(regions), no syscall.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_map_frame(const struct pagehint_map *map, const void *addr,
							uint64_t *ret_frame);

/** pagehint_map_regions - how many regions are registered. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_map_regions(const struct pagehint_map *map);

/** pagehint_map_frame_shift - log2 of the bytes of a frame. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint32_t pagehint_map_frame_shift(const struct pagehint_map *map);

/** pagehint_map_backing_name - "anon", "shared", ...; "?" if unknown. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API const char *pagehint_map_backing_name(uint32_t backing);

/** pagehint_map_explain - a line a region: place, backing, flags, pins, least size. Thread: any.  Cost: O(regions).  Since: 0.1 */
PAGEHINT_API void pagehint_map_explain(const struct pagehint_map *map, const struct pagehint_sink *sink);

PAGEHINT_END
#endif
