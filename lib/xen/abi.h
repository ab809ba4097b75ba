/*
 * abi: the part of Xen's public interface that we use, in our own words: numbers and layouts of memory operations, and the
 * two ioctls of Linux' privcmd.
 *
 * Why not Xen's headers: the library builds where they are not. The layout is that of 64-bit x86 and of Arm, where a frame
 * number and a handle are 64 bits; elsewhere the raw way refuses at run time.
 * Source: Xen public/memory.h, Linux include/uapi/xen/privcmd.h
 */
#ifndef PH_XEN_ABI_H
#define PH_XEN_ABI_H

#include <stdint.h>

#define PH_XEN_MEMORY_OP 12u /* the hypercall's number */

/* what it is to do */
#define PH_XEN_INCREASE 0u
#define PH_XEN_DECREASE 1u
#define PH_XEN_CURRENT 3u
#define PH_XEN_MAXIMUM 4u
#define PH_XEN_POPULATE 6u
#define PH_XEN_MAXIMUM_GPFN 14u
#define PH_XEN_CLAIM 24u

/* flags of memory: bits 0-7 how many address bits, 8-15 node + 1 */
#define PH_XEN_FLAG_NODE_SHIFT 8
#define PH_XEN_FLAG_EXACT_NODE (1u << 17)

/* increase, decrease, populate: `extents` is the address of an array of frame numbers; claim: only nr and domid */
struct ph_xen_reservation {
	uint64_t extents;
	uint64_t nr;
	uint32_t order;
	uint32_t flags;
	uint16_t domid;
	uint16_t pad[3];
};

/* the questions about a domain */
struct ph_xen_domain {
	uint16_t domid;
	uint16_t pad[3];
};

/* ioctl 'P', 0: a hypercall */
#define PH_XEN_IOCTL_HYPERCALL 0x305000u
struct ph_xen_hypercall {
	uint64_t op;
	uint64_t arg[5];
};

/* ioctl 'P', 4: maps frames of another domain at an address; an error for each */
#define PH_XEN_IOCTL_MAP 0x205004u
struct ph_xen_map {
	uint32_t num;
	uint16_t domid;
	uint16_t pad;
	uint64_t addr;
	uint64_t frames; /* address of uint64_t[num] */
	uint64_t errors; /* address of int32_t[num] */
};

/* what /sys/hypervisor/properties/features says of the hardware domain */
#define PH_XEN_FEATURE_DOM0 (1u << 11)

#define PH_XEN_FRAME_BYTES 4096u
#define PH_XEN_FRAME_SHIFT 12u
#define PH_XEN_ORDER_2M 9u
#define PH_XEN_ORDER_1G 18u

#endif
