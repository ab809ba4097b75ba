/*
 * virtio.h: how a driver reaches a virtio device: a table of what every transport can do, and two transports that stand on
 * plain register accesses.
 *
 * The problem: a kernel maps a BAR, a unikernel is given one, a process has VFIO, a test talks to an emulator over a
 * socket; above that all of them need the same dozen operations. Why this shape: two tables on top of each other. The lower
 * one (struct pagehint_virtio_access) reads and writes registers of 8, 16 and 32 bits, however the embedder gets at them;
 * on it stand virtio-pci (modern) and virtio-mmio (version 2). The upper one (struct pagehint_virtio_ops) is what a driver
 * calls; an embedder whose kernel has a virtio bus of its own fills it in and needs no access table.
 * Not here: queues and what goes through them (driver.h), interrupts and their routing (the embedder's), legacy devices.
 * Owns nothing: a handle lives in the caller's memory, has no memory of its own and needs no destroying.
 * Invariants: no call waits; values are in the processor's byte order, the access functions turn them into little-endian.
 * Source: OASIS virtio 1.3, sections 4.1 (PCI) and 4.2 (MMIO).
 */
#ifndef PAGEHINT_VIRTIO_H
#define PAGEHINT_VIRTIO_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/api.h>
#include <pagehint/balloon.h>

PAGEHINT_BEGIN

struct pagehint_virtio;

/* what an interrupt was for */
#define PAGEHINT_VIRTIO_INTERRUPT_QUEUE 1u
#define PAGEHINT_VIRTIO_INTERRUPT_CONFIG 2u

/** struct pagehint_virtio_queue - where a queue lies; addresses as the device sees memory */
struct pagehint_virtio_queue {
	uint64_t desc;   /* descriptor area */
	uint64_t driver; /* driver area: available ring, or the driver's event suppression */
	uint64_t device; /* device area: used ring, or the device's event suppression */
	uint32_t index;  /* on the wire */
	uint32_t size;   /* entries */
};

/**
 * struct pagehint_virtio_ops - what a transport does; copied by pagehint_virtio_init, fixed for life
 *
 * Every function is required but interrupt_status. None waits. After a device is gone reads give all ones.
 * get_status, set_status: the device status field, PAGEHINT_VIRTIO_STATUS_* of balloon.h; writing 0 asks for a reset, which
 *             is done when it reads 0.
 * get_features, set_features: all 64 bits.
 * queue_max:  the largest size of a queue [entries]; 0 = there is no such queue.
 * queue_setup: makes a queue known and enables it. 0; -EINVAL the device has no queue of this index and size; -ENODEV what
 *             it says of the queue cannot be true.
 * notify:     there is something in this queue.
 * config_read, config_write: one 32-bit member of the device's own config space.
 * config_generation: changes whenever the config space did.
 * interrupt_status: reads and clears why the device interrupted, PAGEHINT_VIRTIO_INTERRUPT_*. NULL = not known.
 */
struct pagehint_virtio_ops {
	size_t struct_size;
	const char *name;
	uint32_t (*get_status)(void *ctx);
	void (*set_status)(void *ctx, uint32_t status);
	uint64_t (*get_features)(void *ctx);
	void (*set_features)(void *ctx, uint64_t features);
	uint32_t (*queue_max)(void *ctx, uint32_t index);
	int (*queue_setup)(void *ctx, const struct pagehint_virtio_queue *queue);
	void (*notify)(void *ctx, uint32_t index);
	uint32_t (*config_read)(void *ctx, uint32_t offset);
	void (*config_write)(void *ctx, uint32_t offset, uint32_t value);
	uint32_t (*config_generation)(void *ctx);
	uint32_t (*interrupt_status)(void *ctx);
};

/**
 * struct pagehint_virtio_access - how registers are reached; copied by the functions that take it
 *
 * `bar` is the number of a base address register, 0..5 (mmio: always 0), `offset` a place in what it maps [bytes]. Values
 * are the processor's, the registers little-endian. Accesses must not be merged, torn or moved across each other, nor across
 * accesses to the memory of rings: on a strongly ordered machine a volatile access to uncached memory, elsewhere with the
 * barriers of the machine's I/O.
 * pci_read32, pci_write32: configuration space, offset a multiple of 4. Reading is required for PCI; without writing,
 * memory decoding and bus mastering must be on already.
 */
struct pagehint_virtio_access {
	size_t struct_size;
	uint8_t (*read8)(void *ctx, uint32_t bar, uint64_t offset);
	uint16_t (*read16)(void *ctx, uint32_t bar, uint64_t offset);
	uint32_t (*read32)(void *ctx, uint32_t bar, uint64_t offset);
	void (*write8)(void *ctx, uint32_t bar, uint64_t offset, uint8_t value);
	void (*write16)(void *ctx, uint32_t bar, uint64_t offset, uint16_t value);
	void (*write32)(void *ctx, uint32_t bar, uint64_t offset, uint32_t value);
	uint32_t (*pci_read32)(void *ctx, uint32_t offset);
	void (*pci_write32)(void *ctx, uint32_t offset, uint32_t value);
};

/** pagehint_virtio_size - bytes of a handle, of any transport. Thread: any.  Cost: O(1).  Since: 0.1 */
PAGEHINT_API uint64_t pagehint_virtio_size(void);

/**
 * pagehint_virtio_init - a transport of the embedder's own
 * @mem:        8-byte aligned; stays the caller's and must outlive the handle
 * @bytes:      at least pagehint_virtio_size
 * @ops:        copied
 * @ctx:        handed to every op
 * @ret_virtio: the handle; it is `mem`
 * Return: 0; -EINVAL a NULL, mem misaligned or too small, or a required op is missing; -E2BIG unknown non-zero tail.
 * Thread: init-only.   Cost: O(1).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_virtio_init(void *mem, uint64_t bytes,
							  const struct pagehint_virtio_ops *ops, void *ctx,
							  struct pagehint_virtio **ret_virtio);

#define PAGEHINT_VIRTIO_NO_VECTOR 0xffffu /* no MSI-X: the interrupt line, or polling */

/**
 * pagehint_virtio_init_pci - virtio-pci, modern: finds the device's registers by its capabilities
 * @mem:        as for pagehint_virtio_init
 * @bytes:      as for pagehint_virtio_init
 * @access:     copied; pci_read32 is required
 * @ctx:        handed to every access
 * @vector:     the MSI-X vector for every queue and for config changes, or PAGEHINT_VIRTIO_NO_VECTOR
 * @ret_virtio: the handle; it is `mem`
 *
 * Turns memory decoding and bus mastering on when pci_write32 is there. BARs must have their addresses.
 * Return: 0; -EINVAL as pagehint_virtio_init, or a vector above 0xffff; -E2BIG; -ENODEV it is no virtio balloon, or its
 * capabilities are missing, loop, or cannot be true; -EOPNOTSUPP a legacy device.
 * Thread: init-only.   Cost: at most 48 capabilities.   Since: 0.1
 * Source: OASIS virtio 1.3, section 4.1.4
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_virtio_init_pci(void *mem, uint64_t bytes,
							      const struct pagehint_virtio_access *access, void *ctx,
							      uint32_t vector, struct pagehint_virtio **ret_virtio);

/**
 * pagehint_virtio_init_mmio - virtio-mmio, version 2
 * @mem:        as for pagehint_virtio_init
 * @bytes:      as for pagehint_virtio_init
 * @access:     copied; only the 32-bit accesses are used, with bar 0
 * @ctx:        handed to every access
 * @base:       where the device's registers begin [bytes, an offset for the access functions]
 * @ret_virtio: the handle; it is `mem`
 * Return: 0; -EINVAL as pagehint_virtio_init; -E2BIG; -ENODEV there is no virtio balloon; -EOPNOTSUPP a legacy device.
 * Thread: init-only.   Cost: three reads.   Since: 0.1
 * Source: OASIS virtio 1.3, section 4.2.2
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_virtio_init_mmio(void *mem, uint64_t bytes,
							       const struct pagehint_virtio_access *access, void *ctx,
							       uint64_t base, struct pagehint_virtio **ret_virtio);

PAGEHINT_END
#endif
