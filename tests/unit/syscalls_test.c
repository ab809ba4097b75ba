/* The manifest, the version and the features. That the library lives behind the manifest is shown in conformance. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/pagehint.h>

/* who speaks with no guest, hypervisor or other process; and everybody */
#define LOCAL (PAGEHINT_SYSCALLS_CORE | PAGEHINT_SYSCALLS_MAP | PAGEHINT_SYSCALLS_MADVISE | PAGEHINT_SYSCALLS_PAGER)
#define EVERYBODY (LOCAL | PAGEHINT_SYSCALLS_VHOST | PAGEHINT_SYSCALLS_XEN | PAGEHINT_SYSCALLS_SHARED)
#define MAX 200

static struct pagehint_syscall rules[MAX];

static uint32_t load(uint32_t who)
{
	uint32_t n = 0;
	assert_int_equal(pagehint_syscalls(who, rules, MAX, &n), 0);
	assert_true(n > 0 && n < MAX);
	return n;
}

/* What a filter does: any rule that fits allows the call. */
static int allowed(uint32_t who, long nr, const uint64_t args[6])
{
	uint32_t n = load(who);
	for (uint32_t i = 0; i < n; i++)
		if (rules[i].nr == (uint32_t)nr && (args[rules[i].arg] & rules[i].mask) == rules[i].value)
			return 1;
	return 0;
}

#define ALLOWED(who, nr, ...) allowed(who, nr, (const uint64_t[6]) { __VA_ARGS__ })

static void test_shape(void **state)
{
	(void)state;
	uint32_t n = load(EVERYBODY), sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct pagehint_syscall *r = &rules[i];
		assert_true(r->arg < 6);
		assert_int_equal(r->value & ~r->mask, 0); /* else it could never fit */
		assert_true(r->backend != 0 && (r->backend & ~(uint32_t)EVERYBODY) == 0);
		assert_int_equal(r->reserved, 0);
		assert_true(strnlen(r->name, sizeof(r->name)) < sizeof(r->name) && r->name[0] != 0);
		for (uint32_t j = 0; j < i; j++)
			assert_false((r->backend & rules[j].backend) != 0 && r->nr == rules[j].nr &&
				     r->arg == rules[j].arg && r->mask == rules[j].mask &&
				     r->value == rules[j].value); /* nobody is told a rule twice */
	}
	for (uint32_t who = 1; who <= EVERYBODY; who <<= 1) {
		uint32_t own = load(who);
		assert_true(own < n);
		sum += own;
	}
	assert_true(sum >= n);
}

static void test_room(void **state)
{
	(void)state;
	struct pagehint_syscall few[3];
	uint32_t n = 0, all = load(EVERYBODY);
	memset(few, 0xee, sizeof(few));
	assert_int_equal(pagehint_syscalls(EVERYBODY, few, 2, &n), 0);
	assert_int_equal(n, all);
	assert_memory_equal(few, rules, 2 * sizeof(few[0]));
	assert_int_equal(few[2].nr, 0xeeeeeeee); /* not one more than there is room for */
	assert_int_equal(pagehint_syscalls(EVERYBODY, NULL, 0, &n), 0);
	n = 9;
	assert_int_equal(pagehint_syscalls(0, few, 2, &n), -EINVAL);
	assert_int_equal(pagehint_syscalls(1u << 30, few, 2, &n), -EINVAL);
	assert_int_equal(pagehint_syscalls(EVERYBODY, NULL, 2, &n), -EINVAL);
	assert_int_equal(pagehint_syscalls(EVERYBODY, few, 2, NULL), -EINVAL);
	assert_int_equal(n, 9);
}

/* What is used is allowed, what would do harm is not. */
static void test_values(void **state)
{
	(void)state;
	const uint32_t core = PAGEHINT_SYSCALLS_CORE, map = PAGEHINT_SYSCALLS_MAP, madv = PAGEHINT_SYSCALLS_MADVISE;
	assert_true(ALLOWED(core, SYS_getpid, 0));
	assert_true(ALLOWED(madv, SYS_madvise, 0, 4096, MADV_DONTNEED));
	assert_true(
		ALLOWED(madv, SYS_madvise, 0, 4096, UINT64_C(0xabcd00000000) | MADV_DONTNEED)); /* an int: 32 bits */
	assert_true(ALLOWED(madv, SYS_madvise, 0, 4096, 24));
	assert_true(ALLOWED(madv, SYS_madvise, 0, 4096, MADV_REMOVE));
	assert_true(ALLOWED(madv, SYS_madvise, 0, 4096, 23));
	assert_true(ALLOWED(madv, SYS_madvise, 0, 4096, MADV_NOHUGEPAGE));
	assert_false(ALLOWED(madv, SYS_madvise, 0, 4096, MADV_HWPOISON));
	assert_false(ALLOWED(map, SYS_madvise, 0, 4096, MADV_DONTNEED));
	assert_false(ALLOWED(core, SYS_madvise, 0, 4096, MADV_REMOVE));
	assert_true(ALLOWED(madv, SYS_process_madvise, 3, 0, 5, MADV_DONTNEED, 0));
	assert_true(ALLOWED(madv, SYS_fallocate, 3, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	assert_true(ALLOWED(madv, SYS_fallocate, 3, FALLOC_FL_KEEP_SIZE, 0, 4096));
	assert_false(ALLOWED(madv, SYS_fallocate, 3, 0, 0, 4096));
	assert_false(ALLOWED(madv, SYS_fallocate, 3, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	assert_true(ALLOWED(map, SYS_openat, (uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC));
	assert_false(ALLOWED(map, SYS_openat, (uint64_t)AT_FDCWD, 0, O_RDWR | O_CLOEXEC));
	assert_false(ALLOWED(map | madv, SYS_openat, (uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC | O_CREAT));
#ifdef SYS_mmap
	const uint64_t own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	assert_true(ALLOWED(map, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, own, UINT64_MAX, 0));
	assert_true(ALLOWED(madv, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, own | MAP_FIXED, UINT64_MAX, 0));
	assert_false(ALLOWED(map | core, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, own | MAP_FIXED, UINT64_MAX, 0));
	assert_false(ALLOWED(LOCAL, SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, 3, 0));
#endif
	assert_true(ALLOWED(PAGEHINT_SYSCALLS_PAGER, SYS_ioctl, 3, 0xc028aa03u)); /* UFFDIO_COPY */
	assert_false(ALLOWED(LOCAL, SYS_ioctl, 3, 0x5412));                       /* TIOCSTI */
	assert_false(ALLOWED(LOCAL, SYS_write, 1, 0, 1));
	assert_false(ALLOWED(LOCAL, SYS_execve, 0));
	assert_false(ALLOWED(LOCAL, SYS_clone, 0));
}

static void test_xen(void **state)
{
	(void)state;
	const uint32_t xen = PAGEHINT_SYSCALLS_XEN, others = LOCAL;
	assert_true(load(xen) > 0);
	assert_true(ALLOWED(xen, SYS_openat, (uint64_t)AT_FDCWD, 0, O_RDWR | O_CLOEXEC));
	assert_true(ALLOWED(xen, SYS_ioctl, 3, 0x305000, 0));
	assert_true(ALLOWED(xen, SYS_ioctl, 3, 0x205004, 0));
	assert_false(ALLOWED(xen, SYS_ioctl, 3, 0x5401, 0));
	assert_false(ALLOWED(others, SYS_ioctl, 3, 0x305000, 0));
	assert_true(ALLOWED(xen, SYS_pidfd_send_signal, 3, 9, 0));
	assert_false(ALLOWED(xen, SYS_pidfd_send_signal, 3, 15, 0));
	assert_false(ALLOWED(xen, SYS_execve, 0));
	/* hypercalls are there unless they were left out, and the small library never without them */
	const uint64_t features = pagehint_features();
	assert_true((features & PAGEHINT_FEATURE_XENCALL) == 0 || (features & PAGEHINT_FEATURE_XEN) != 0);
#ifdef BUILT_WITHOUT_XEN
	assert_false(features & (PAGEHINT_FEATURE_XEN | PAGEHINT_FEATURE_XENCALL));
#elif defined(__x86_64__) && __SIZEOF_POINTER__ == 8
	assert_true(features & PAGEHINT_FEATURE_XEN);
#endif
}

static void test_version(void **state)
{
	(void)state;
	char want[32];
	snprintf(want, sizeof(want), "%d.%d.%d", PAGEHINT_VERSION_MAJOR, PAGEHINT_VERSION_MINOR,
		 PAGEHINT_VERSION_PATCH);
	assert_string_equal(pagehint_version(), want);
	assert_true(pagehint_features() & PAGEHINT_FEATURE_MADVISE);
	assert_true(pagehint_features() & PAGEHINT_FEATURE_PAGER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape), cmocka_unit_test(test_room),    cmocka_unit_test(test_values),
		cmocka_unit_test(test_xen),   cmocka_unit_test(test_version),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
