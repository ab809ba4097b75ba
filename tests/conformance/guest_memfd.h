/*
 * guest_memfd: the memory of a virtual machine that has no address here, made without the headers of a new kernel.
 */
#ifndef TESTS_CONFORMANCE_GUEST_MEMFD_H
#define TESTS_CONFORMANCE_GUEST_MEMFD_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* 2 MiB of it; -1: KVM makes none here */
static inline int make_guest_memfd(void)
{
	uint64_t wanted[8] = { 2 << 20 };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), fd = -1;
	for (unsigned long type = 0; kvm >= 0 && type < 2 && fd < 0; type++) {
		int vm = ioctl(kvm, _IO(0xAE, 0x01), type); /* KVM_CREATE_VM; the file keeps it alive */
		fd = vm < 0 ? -1 : ioctl(vm, _IOWR(0xAE, 0xd4, uint64_t[8]), wanted); /* KVM_CREATE_GUEST_MEMFD */
		if (vm >= 0)
			close(vm);
	}
	if (kvm >= 0)
		close(kvm);
	return fd;
}

#endif
