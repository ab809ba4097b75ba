/*
 * xen_os: an operating system on Xen, for the raw way to the hypervisor: files of sysfs, privcmd, and what is mapped. The device
 * and its files can be missing, or late. Domain-0 at first.
 */
#ifndef FAKES_XEN_OS_H
#define FAKES_XEN_OS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "base/sys.h"
#include "fakes/fake_xen.h"
#include "xen/abi.h"
#include "xen/privcmd.h"

#define PRIVCMD_FD 100
#define HYPERCALL_FD 101
#define TEXT_FD 200 /* and up: files of sysfs */
#define TARGET 3    /* the file that is written */

static struct {
	struct ph_sys sys;
	struct fake_xen xen;
	struct {
		const char *path;
		char text[32];
	} file[6];
	int device; /* what opening privcmd gives: 0 or -errno */
	int within; /* what trying it in time gives */
	int64_t timeout;
	int open_fds, maps;
	int foreign_error; /* of the ioctl that maps */
	unsigned char foreign[16 * 4096];
} os;

static inline int os_open(void *ctx, const char *path, int flags)
{
	(void)ctx;
	int fd = -ENOENT;
	if (strcmp(path, "/dev/xen/privcmd") == 0) {
		assert_int_equal(flags, O_RDWR);
		fd = os.device < 0 ? os.device : PRIVCMD_FD;
	} else if (strcmp(path, "/dev/xen/hypercall") == 0) {
		fd = HYPERCALL_FD;
	}
	for (int i = 0; i < 6; i++)
		if (os.file[i].path != NULL && strcmp(path, os.file[i].path) == 0)
			fd = TEXT_FD + i;
	os.open_fds += fd >= 0;
	return fd;
}

static inline int os_open_within(void *ctx, const char *path, int flags, int64_t timeout_ns)
{
	os.timeout = timeout_ns;
	return os.within < 0 ? os.within : os_open(ctx, path, flags);
}

static inline int64_t os_read(void *ctx, int fd, void *buffer, size_t length)
{
	(void)ctx;
	size_t n = strlen(os.file[fd - TEXT_FD].text);
	assert_true(n < length);
	memcpy(buffer, os.file[fd - TEXT_FD].text, n);
	return (int64_t)n;
}

static inline int64_t os_write(void *ctx, int fd, const void *buffer, size_t length)
{
	(void)ctx;
	assert_int_equal(fd, TEXT_FD + TARGET);
	snprintf(os.file[TARGET].text, sizeof(os.file[TARGET].text), "%.*s\n", (int)length, (const char *)buffer);
	return (int64_t)length;
}

static inline int os_close(void *ctx, int fd)
{
	(void)ctx;
	assert_true(fd >= PRIVCMD_FD);
	os.open_fds--;
	return 0;
}

static inline int os_map_file(void *ctx, int fd, size_t length, void **ret_addr)
{
	(void)ctx;
	if (fd == PRIVCMD_FD) {
		assert_true(length <= sizeof(os.foreign));
		*ret_addr = os.foreign;
	} else {
		assert_int_equal(fd, HYPERCALL_FD);
		*ret_addr = fake_xen_calls.get_buffer(&os.xen, length);
	}
	os.maps++;
	return 0;
}

static inline void os_unmap(void *ctx, void *addr, size_t length)
{
	(void)ctx;
	os.maps--;
	if (addr != os.foreign)
		fake_xen_calls.put_buffer(&os.xen, addr, length);
}

static inline int64_t os_ioctl(void *ctx, int fd, unsigned long request, void *arg)
{
	(void)ctx;
	assert_int_equal(fd, PRIVCMD_FD);
	if (request == PH_XEN_IOCTL_MAP) {
		const struct ph_xen_map *map = arg;
		int32_t *errors = (int32_t *)(uintptr_t)map->errors;
		assert_int_equal(map->addr, (uintptr_t)os.foreign);
		assert_int_equal(map->domid, FAKE_DOMID);
		for (uint32_t i = 0; i < map->num; i++)
			errors[i] = i == 3 ? -EINVAL : 0;
		return os.foreign_error;
	}
	assert_int_equal(request, PH_XEN_IOCTL_HYPERCALL);
	const struct ph_xen_hypercall *call = arg;
	assert_int_equal(call->op, 12);
	return fake_xen_calls.memory_op(&os.xen, (uint32_t)call->arg[0], (void *)(uintptr_t)call->arg[1]);
}

static inline int64_t os_getpid(void *ctx)
{
	(void)ctx;
	return 1;
}

static inline void say(int i, const char *path, const char *text)
{
	os.file[i].path = path;
	snprintf(os.file[i].text, sizeof(os.file[i].text), "%s", text);
}

/* Domain-0 on Xen */
static inline int os_setup(void **test)
{
	(void)test;
	memset(&os, 0, sizeof(os));
	os.sys = (struct ph_sys) { .getpid = os_getpid,
				   .open = os_open,
				   .open_within = os_open_within,
				   .read = os_read,
				   .write = os_write,
				   .close = os_close,
				   .map_file = os_map_file,
				   .unmap_memory = os_unmap,
				   .ioctl = os_ioctl };
	fake_xen_setup(&os.xen, 0, 10000, 10000);
	say(0, "/sys/hypervisor/type", "xen\n");
	say(1, "/sys/hypervisor/properties/features", "00000e04\n");
	say(2, "/sys/hypervisor/guest_type", "PVH\n");
	say(TARGET, "/sys/devices/system/xen_memory/xen_memory0/target_kb", "1048576\n");
	say(4, "/sys/devices/system/xen_memory/xen_memory0/info/current_kb", "524288\n");
	return 0;
}

static inline int os_teardown(void **test)
{
	(void)test;
	fake_xen_teardown(&os.xen);
	return os.open_fds == 0 && os.maps == 0 ? 0 : -1;
}

#endif
