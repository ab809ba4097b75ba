/* The raw way to the hypervisor: when it may be opened, what goes through the ioctls, the kernel's balloon, and patience. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/pagehint.h>

#include "base/sys.h"
#include "fakes/fake_xen.h"
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

static int os_open(void *ctx, const char *path, int flags)
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

static int os_open_within(void *ctx, const char *path, int flags, int64_t timeout_ns)
{
	os.timeout = timeout_ns;
	return os.within < 0 ? os.within : os_open(ctx, path, flags);
}

static int64_t os_read(void *ctx, int fd, void *buffer, size_t length)
{
	(void)ctx;
	size_t n = strlen(os.file[fd - TEXT_FD].text);
	assert_true(n < length);
	memcpy(buffer, os.file[fd - TEXT_FD].text, n);
	return (int64_t)n;
}

static int64_t os_write(void *ctx, int fd, const void *buffer, size_t length)
{
	(void)ctx;
	assert_int_equal(fd, TEXT_FD + TARGET);
	snprintf(os.file[TARGET].text, sizeof(os.file[TARGET].text), "%.*s\n", (int)length, (const char *)buffer);
	return (int64_t)length;
}

static int os_close(void *ctx, int fd)
{
	(void)ctx;
	assert_true(fd >= PRIVCMD_FD);
	os.open_fds--;
	return 0;
}

static int os_map_file(void *ctx, int fd, size_t length, void **ret_addr)
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

static void os_unmap(void *ctx, void *addr, size_t length)
{
	(void)ctx;
	os.maps--;
	if (addr != os.foreign)
		fake_xen_calls.put_buffer(&os.xen, addr, length);
}

static int64_t os_ioctl(void *ctx, int fd, unsigned long request, void *arg)
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

static int64_t os_getpid(void *ctx)
{
	(void)ctx;
	return 1;
}

static void say(int i, const char *path, const char *text)
{
	os.file[i].path = path;
	snprintf(os.file[i].text, sizeof(os.file[i].text), "%s", text);
}

/* Domain-0 on Xen */
static int setup(void **test)
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

static int teardown(void **test)
{
	(void)test;
	fake_xen_teardown(&os.xen);
	return os.open_fds == 0 && os.maps == 0 ? 0 : -1;
}

static int try_open(uint32_t flags, uint64_t timeout)
{
	struct pagehint_xen_opts opts = {
		.struct_size = sizeof(opts), .domid = FAKE_DOMID, .flags = flags, .open_timeout_ns = timeout
	};
	struct pagehint_xen *x = NULL;
	int r = ph_xen_open_with(&os.sys, &opts, &x);
	if (r == 0)
		assert_int_equal(pagehint_xen_free(x), 0);
	assert_int_equal(os.open_fds, 0);
	assert_int_equal(os.maps, 0);
	return r;
}

static void test_who_may_open(void **test)
{
	(void)test;
	if ((pagehint_features() & PAGEHINT_FEATURE_XEN) == 0) {
		printf("built without hypercalls: it says so\n");
		assert_int_equal(try_open(0, 0), -EOPNOTSUPP);
		return;
	}
	assert_int_equal(try_open(0, 0), 0);
	assert_int_equal(os.timeout, 0); /* Domain-0 opens it at once */
	say(1, "/sys/hypervisor/properties/features", "00000604\n");
	assert_int_equal(try_open(0, 0), -EOPNOTSUPP); /* a guest must want it */
	os.within = -ETIMEDOUT;
	assert_int_equal(try_open(PAGEHINT_XEN_GUEST_PRIVCMD, 5000), -ETIMEDOUT);
	assert_int_equal(os.timeout, 5000);
	os.within = 0;
	assert_int_equal(try_open(PAGEHINT_XEN_GUEST_PRIVCMD, 0), 0);
	assert_int_equal(os.timeout, 1000000000);
	os.xen.denied = 1; /* it opens, and refuses every hypercall */
	assert_int_equal(try_open(PAGEHINT_XEN_GUEST_PRIVCMD, 0), -EPERM);
	os.xen.denied = 0;
	os.device = -EACCES;
	assert_int_equal(try_open(PAGEHINT_XEN_GUEST_PRIVCMD, 0), -EACCES);
	os.device = -ENOENT;
	assert_int_equal(try_open(PAGEHINT_XEN_GUEST_PRIVCMD, 0), -ENODEV);
	say(0, "/sys/hypervisor/type", "other\n");
	assert_int_equal(try_open(0, 0), -ENODEV);
	os.file[0].path = NULL;
	assert_int_equal(try_open(0, 0), -ENODEV);
}

static void test_through_the_ioctls(void **test)
{
	(void)test;
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = FAKE_DOMID };
	const struct pagehint_run run = { 0, 10 };
	struct pagehint_outcome out;
	struct pagehint_xen *x = NULL;
	if ((pagehint_features() & PAGEHINT_FEATURE_XEN) == 0)
		return;
	assert_int_equal(ph_xen_open_with(&os.sys, &opts, &x), 0);
	assert_int_equal(pagehint_xen_populate(x, &run, 1, 0, NULL, NULL), 0);
	memset(os.foreign, 0xa5, sizeof(os.foreign));
	assert_int_equal(pagehint_xen_reclaim(x, &run, 1, &out, NULL), 0);
	/* what was mapped was wiped, and went; frame 3 was not, and stays */
	assert_int_equal(out.freed, 9 << 12);
	assert_int_equal(out.kept, 1 << 12);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_UNSCRUBBED);
	for (unsigned i = 0; i < 16; i++) {
		const unsigned char *page = os.foreign + i * 4096;
		assert_true(page[0] == (i < 10 && i != 3 ? 0 : 0xa5) && memcmp(page, page + 1, 4095) == 0);
	}
	os.foreign_error = -EFAULT;
	assert_int_equal(pagehint_xen_reclaim(x, &(struct pagehint_run) { 3, 1 }, 1, &out, NULL), 0);
	assert_int_equal(out.kept_why, PAGEHINT_WHY_UNSCRUBBED);
	assert_int_equal(os.xen.current, 1);
	assert_int_equal(pagehint_xen_free(x), 0);
}

static void test_target(void **test)
{
	(void)test;
	uint64_t target = 0, current = 0;
	const uint64_t mib = 1 << 20;
	assert_int_equal(ph_xen_get_target_with(&os.sys, &target, &current), 0);
	assert_int_equal(target, 1024 * mib);
	assert_int_equal(current, 512 * mib);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 300 * mib, 64 * mib, 1024 * mib, &target), 0);
	assert_int_equal(target, 300 * mib);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 0, 64 * mib, 1024 * mib, &target), 0);
	assert_int_equal(target, 64 * mib); /* clamped on either side */
	assert_int_equal(ph_xen_set_target_with(&os.sys, UINT64_MAX, 64 * mib, 1024 * mib, &target), 0);
	assert_int_equal(target, 1024 * mib);
	/* whole frames, and never out of the bounds because of that */
	assert_int_equal(ph_xen_set_target_with(&os.sys, 5 * mib + 4095, 0, mib << 10, &target), 0);
	assert_int_equal(target, 5 * mib);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 0, 64 * mib + 1, 1024 * mib, &target), 0);
	assert_int_equal(target, 64 * mib + 4096);
	assert_int_equal(ph_xen_set_target_with(&os.sys, UINT64_MAX, 0, 64 * mib - 1, &target), 0);
	assert_int_equal(target, 64 * mib - 4096);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 5 * mib, 4097, 8191, &target), -EINVAL);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 5 * mib, 0, 4095, &target), -EINVAL);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 5 * mib, UINT64_MAX, UINT64_MAX, &target), -EINVAL);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 1, 2, 1, &target), -EINVAL);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 0, 0, 0, &target), -EINVAL);
	const char *wrong[] = { "", "x", "12x", "-5", "99999999999999999999" };
	for (unsigned i = 0; i < 5; i++) {
		say(TARGET, os.file[TARGET].path, wrong[i]);
		target = 77;
		assert_int_equal(ph_xen_get_target_with(&os.sys, &target, NULL), -EPROTO);
		assert_int_equal(target, 77);
	}
	os.file[TARGET].path = NULL;
	assert_int_equal(ph_xen_get_target_with(&os.sys, &target, NULL), -ENODEV);
	assert_int_equal(ph_xen_set_target_with(&os.sys, 1, 0, 4096, NULL), -ENODEV);
}

/* A pipe that nobody writes to keeps its reader waiting in open(): as a device does whose daemon is not there. */
static void test_patience(void **test)
{
	(void)test;
	char directory[] = "/tmp/pagehint-open-XXXXXX", path[64];
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/pipe", directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	int r = ph_sys_real.open_within(NULL, path, O_RDONLY, 20000000);
	if (r == -ENOSYS || r == -EPERM) {
		printf("not applicable: clone3 is not to be had here (error %d)\n", r);
	} else {
		assert_int_equal(r, -ETIMEDOUT);
		assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* no child is left */
		int other = open(path, O_RDWR);                            /* now somebody is there */
		r = ph_sys_real.open_within(NULL, path, O_RDONLY, INT64_MAX);
		assert_true(r >= 0);
		assert_int_equal(fcntl(r, F_GETFD), FD_CLOEXEC);
		close(r);
		close(other);
		assert_int_equal(ph_sys_real.open_within(NULL, directory, O_RDWR, INT64_MAX), -EISDIR);
		assert_int_equal(ph_sys_real.open_within(NULL, "/nowhere/at/all", O_RDWR, INT64_MAX), -ENOENT);
	}
	unlink(path);
	rmdir(directory);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_who_may_open),
		CASE(test_through_the_ioctls),
		CASE(test_target),
		CASE(test_patience),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
