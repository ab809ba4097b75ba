/*
 * balloon.h: the virtio memory balloon as both of its ends see it: feature bits, device status, queues, config space,
 * statistics.
 *
 * The problem: queue indices, feature bits and units were mixed up in every implementation so far. Why this shape: the
 * numbers stand once, and the device engine (device.h) and the driver engine (driver.h) both take them from here.
 * Not here: how a ring works, and any behaviour. Owns nothing.
 * Invariants: a balloon's unit is 4 KiB always, whatever the frame or the host page; what is little-endian on the wire
 * is said so.
 * Source: OASIS virtio 1.3, section 5.5 (memory balloon device).
 */
#ifndef PAGEHINT_BALLOON_H
#define PAGEHINT_BALLOON_H

#include <stdint.h>

#include <pagehint/api.h>

PAGEHINT_BEGIN

#define PAGEHINT_BALLOON_DEVICE_ID 5u   /* virtio device type */
#define PAGEHINT_BALLOON_PAGE_SHIFT 12u /* PFNs, num_pages and actual count pages of 2^12 bytes */

/* feature bits, as masks (section 5.5.3) */
#define PAGEHINT_BALLOON_F_MUST_TELL_HOST (UINT64_C(1) << 0)
#define PAGEHINT_BALLOON_F_STATS_VQ (UINT64_C(1) << 1)
#define PAGEHINT_BALLOON_F_DEFLATE_ON_OOM (UINT64_C(1) << 2)
#define PAGEHINT_BALLOON_F_FREE_PAGE_HINT (UINT64_C(1) << 3)
#define PAGEHINT_BALLOON_F_PAGE_POISON (UINT64_C(1) << 4)
#define PAGEHINT_BALLOON_F_PAGE_REPORTING (UINT64_C(1) << 5)
#define PAGEHINT_BALLOON_F_ALL UINT64_C(0x3f)

/* feature bits of every virtio device that matter here (section 6) */
#define PAGEHINT_VIRTIO_F_INDIRECT_DESC (UINT64_C(1) << 28)
#define PAGEHINT_VIRTIO_F_EVENT_IDX (UINT64_C(1) << 29)
#define PAGEHINT_VIRTIO_F_VERSION_1 (UINT64_C(1) << 32)
#define PAGEHINT_VIRTIO_F_ACCESS_PLATFORM (UINT64_C(1) << 33)
#define PAGEHINT_VIRTIO_F_RING_PACKED (UINT64_C(1) << 34)
#define PAGEHINT_VIRTIO_F_IN_ORDER (UINT64_C(1) << 35)

/* the device status field of every virtio device (section 2.1) */
#define PAGEHINT_VIRTIO_STATUS_ACKNOWLEDGE 1u
#define PAGEHINT_VIRTIO_STATUS_DRIVER 2u
#define PAGEHINT_VIRTIO_STATUS_DRIVER_OK 4u
#define PAGEHINT_VIRTIO_STATUS_FEATURES_OK 8u
#define PAGEHINT_VIRTIO_STATUS_NEEDS_RESET 64u
#define PAGEHINT_VIRTIO_STATUS_FAILED 128u

/* what a queue is for; its index on the wire follows from a numbering policy, never from this */
enum {
	PAGEHINT_BALLOON_Q_INFLATE = 0,
	PAGEHINT_BALLOON_Q_DEFLATE = 1,
	PAGEHINT_BALLOON_Q_STATS = 2,
	PAGEHINT_BALLOON_Q_HINT = 3,
	PAGEHINT_BALLOON_Q_REPORT = 4,
	PAGEHINT_BALLOON_Q_COUNT = 5
};

/* how queues are numbered on the wire; both ends must agree, and which is right depends on the peer */
enum {
	PAGEHINT_BALLOON_NUMBERING_SPEC = 0, /* the numbers of section 5.5.2, with gaps */
	PAGEHINT_BALLOON_NUMBERING_NEGOTIATED =
		1,                              /* dense over negotiated features: Linux and User-Mode Linux drivers */
	PAGEHINT_BALLOON_NUMBERING_QEMU = 2,    /* dense over offered features, stats always counted */
	PAGEHINT_BALLOON_NUMBERING_OFFERED = 3, /* dense over offered features: Firecracker, crosvm, cloud-hypervisor */
	PAGEHINT_BALLOON_NUMBERING_COUNT = 4
};

/* config space: four le32 (section 5.5.4) */
#define PAGEHINT_BALLOON_CONFIG_NUM_PAGES 0u
#define PAGEHINT_BALLOON_CONFIG_ACTUAL 4u
#define PAGEHINT_BALLOON_CONFIG_HINT_CMD_ID 8u
#define PAGEHINT_BALLOON_CONFIG_POISON_VAL 12u
#define PAGEHINT_BALLOON_CONFIG_BYTES 16u

/* ids of free page hinting (section 5.5.6.7); runs have 2 and up */
#define PAGEHINT_BALLOON_HINT_STOP 0u
#define PAGEHINT_BALLOON_HINT_DONE 1u

/* tags of statistics (section 5.5.6.4; 10 and up as Linux 6.12 sends them) */
enum {
	PAGEHINT_BALLOON_STAT_SWAP_IN = 0,
	PAGEHINT_BALLOON_STAT_SWAP_OUT = 1,
	PAGEHINT_BALLOON_STAT_MAJFLT = 2,
	PAGEHINT_BALLOON_STAT_MINFLT = 3,
	PAGEHINT_BALLOON_STAT_MEMFREE = 4,
	PAGEHINT_BALLOON_STAT_MEMTOT = 5,
	PAGEHINT_BALLOON_STAT_AVAIL = 6,
	PAGEHINT_BALLOON_STAT_CACHES = 7,
	PAGEHINT_BALLOON_STAT_HTLB_PGALLOC = 8,
	PAGEHINT_BALLOON_STAT_HTLB_PGFAIL = 9,
	PAGEHINT_BALLOON_STAT_OOM_KILL = 10,
	PAGEHINT_BALLOON_STAT_ALLOC_STALL = 11,
	PAGEHINT_BALLOON_STAT_ASYNC_SCAN = 12,
	PAGEHINT_BALLOON_STAT_DIRECT_SCAN = 13,
	PAGEHINT_BALLOON_STAT_ASYNC_RECLAIM = 14,
	PAGEHINT_BALLOON_STAT_DIRECT_RECLAIM = 15,
	PAGEHINT_BALLOON_STAT_COUNT = 16
};
#define PAGEHINT_BALLOON_STAT_BYTES 10u /* an entry on the wire: le16 tag, le64 value, packed */

PAGEHINT_END
#endif
