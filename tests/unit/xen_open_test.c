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

#include "fakes/xen_os.h"

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

#define CASE(name) cmocka_unit_test_setup_teardown(name, os_setup, os_teardown)

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
