/*
 * sysfs: the registers of a PCI device as sysfs shows them to a process: config space by reading and writing a file, BARs by
 * mapping one. It is what user-space drivers stand on, with uio_pci_generic or with no kernel driver bound at all; with VFIO the
 * same table is filled from the regions of the device's file descriptor.
 *
 * Owns the mappings. x86 and other strongly ordered machines: a volatile access is all that is needed there.
 */
#ifndef EXAMPLES_AGENT_SYSFS_H
#define EXAMPLES_AGENT_SYSFS_H

#include <stdint.h>

#include <pagehint/virtio.h>

struct sysfs {
	char dir[256]; /* of the device */
	int config_fd;
	struct {
		volatile unsigned char *base;
		uint64_t bytes;
	} bars[6]; /* mapped when first used */
};

/* dir: like /sys/bus/pci/devices/0000:00:04.0. 0 or -errno. */
int sysfs_open(struct sysfs *s, const char *dir);
void sysfs_close(struct sysfs *s);

/* The table for pagehint_virtio_init_pci; its ctx is the struct sysfs. What is not there reads as all ones. */
extern const struct pagehint_virtio_access sysfs_access;

#endif
