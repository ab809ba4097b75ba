/* What really backs memory is found out, every other claim is refused; on real memory of each kind. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include <linux/userfaultfd.h>

#include "support/huge_pages.h"
#include "support/region.h"

#include <cmocka.h>

#include "memory/map.h"

#define BYTES (8 * MIB)

static struct pagehint_map *new_map(void)
{
	struct pagehint_map *map = NULL;
	assert_int_equal(pagehint_map_new(NULL, &map), 0);
	return map;
}

/* Detected as `backing`; that claim is taken and each other one refused. Returns what is known. */
static struct pagehint_region_info known_as(struct pagehint_region_desc d, uint32_t backing)
{
	struct pagehint_map *map = new_map();
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	for (uint32_t claim = 0; claim < PAGEHINT_BACKING_COUNT; claim++) {
		uint64_t id = 0;
		d.backing = claim;
		int want = claim == PAGEHINT_BACKING_AUTO || claim == backing ? 0 : -EINVAL;
		assert_int_equal(pagehint_map_add(map, &d, &id), want);
		assert_int_equal(pagehint_map_regions(map), want == 0);
		if (want != 0)
			continue;
		assert_int_equal(pagehint_map_lookup(map, d.frame, &info), 0);
		assert_int_equal(info.backing, backing);
		assert_int_equal(info.fd, d.fd);
		assert_int_equal(info.fd_offset, d.fd_offset);
		assert_int_equal(pagehint_map_remove(map, id), 0);
	}
	assert_int_equal(pagehint_map_free(map), 0);
	return info;
}

static void refused(struct pagehint_region_desc d)
{
	struct pagehint_map *map = new_map();
	uint64_t id = 3;
	assert_int_equal(pagehint_map_add(map, &d, &id), -EINVAL);
	assert_int_equal(id, 3);
	assert_int_equal(pagehint_map_free(map), 0);
}

static void test_anon(void **state)
{
	(void)state;
	void *p = anon_aligned(BYTES, 2 * MIB);
	assert_int_equal(madvise(p, BYTES, MADV_NOHUGEPAGE), 0);
	struct pagehint_region_info info = known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags, 0);
	assert_int_equal(info.host_page_bytes, sysconf(_SC_PAGESIZE));
	assert_int_equal(info.least_bytes, info.host_page_bytes);
	/* an fd that has nothing to do with it */
	int fd = memfd("other", BYTES, 0);
	refused(describe(0, p, BYTES, fd));
	close(fd);
	/* split by protection, it is still one kind of memory */
	assert_int_equal(mprotect((char *)p + MIB, MIB, PROT_READ), 0);
	known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_ANON);
	munmap(p, BYTES);
}

static int thp_by_advice(void)
{
	char text[64] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	if (f == NULL)
		return 0;
	int got = fgets(text, sizeof(text), f) != NULL;
	fclose(f);
	return got && strstr(text, "[never]") == NULL;
}

static void test_anon_thp(void **state)
{
	(void)state;
	if (emulated())
		return;
	if (!thp_by_advice()) {
		not_applicable("transparent huge pages are switched off");
		return;
	}
	unsigned char *p = anon_aligned(BYTES, 2 * MIB);
	assert_int_equal(madvise(p, BYTES, MADV_HUGEPAGE), 0);
	struct pagehint_region_info info = known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags, PAGEHINT_REGION_THP);
	assert_int_equal(info.least_bytes, 2 * MIB);
	assert_int_equal(info.host_page_bytes, sysconf(_SC_PAGESIZE));
	munmap(p, BYTES);
	/* too short a mapping to hold one, between two guards that keep it short */
	p = anon(MIB + 2 * 4096);
	assert_int_equal(mprotect(p, 4096, PROT_NONE), 0);
	assert_int_equal(mprotect(p + 4096 + MIB, 4096, PROT_NONE), 0);
	assert_int_equal(madvise(p + 4096, MIB, MADV_HUGEPAGE), 0);
	info = known_as(describe(0, p + 4096, MIB, -1), PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags, 0);
	munmap(p, MIB + 2 * 4096);
}

static void test_locked(void **state)
{
	(void)state;
	unsigned char *p = anon(16 * 4096);
	/* not through libc: the sanitizers turn mlock into nothing */
	if (syscall(SYS_mlock, p, 16 * 4096) != 0) {
		not_applicable("mlock is not allowed");
		return;
	}
	struct pagehint_region_info info = known_as(describe(0, p, 16 * 4096, -1), PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags & PAGEHINT_REGION_LOCKED, PAGEHINT_REGION_LOCKED);
	/* locked in part counts as locked: the call for locked memory serves both */
	assert_int_equal(syscall(SYS_munlock, p, 8 * 4096), 0);
	info = known_as(describe(0, p, 16 * 4096, -1), PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags & PAGEHINT_REGION_LOCKED, PAGEHINT_REGION_LOCKED);
	munmap(p, 16 * 4096);
}

static void test_shared(void **state)
{
	(void)state;
	int fd = memfd("shared", BYTES, 0), other = memfd("other", BYTES, 0);
	unsigned char *p = map_fd(fd, BYTES, MAP_SHARED);
	known_as(describe(0, p, BYTES, fd), PAGEHINT_BACKING_SHARED);
	known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_SHARED); /* the kernel's own name tells it */
	struct pagehint_region_desc d = describe(0, p + MIB, MIB, fd);
	refused(d); /* offset 0 is not what is mapped there */
	d.fd_offset = MIB;
	known_as(d, PAGEHINT_BACKING_SHARED);
	d.fd_offset = 2 * MIB;
	refused(d);
	refused(describe(0, p, BYTES, other));
	/* the same file, but a piece of it comes from another place */
	assert_ptr_equal(mmap(p + MIB, MIB, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), p + MIB);
	refused(describe(0, p, BYTES, fd));
	refused(describe(0, p, BYTES, -1));
	munmap(p, BYTES);
	close(fd);
	close(other);
}

static void test_shared_anon(void **state)
{
	(void)state;
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_SHARED);
	munmap(p, BYTES);
}

static void test_private_memfd(void **state)
{
	(void)state;
	int fd = memfd("private", BYTES, 0);
	void *p = map_fd(fd, BYTES, MAP_PRIVATE);
	known_as(describe(0, p, BYTES, fd), PAGEHINT_BACKING_FILE_PRIVATE);
	known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_FILE_PRIVATE);
	munmap(p, BYTES);
	close(fd);
}

/* A file on a real disk: its shared mapping is nobody's to punch. */
static void test_disk_file(void **state)
{
	(void)state;
	char path[] = "/var/tmp/pagehint-XXXXXX";
	int fd = mkstemp(path), other = memfd("other", BYTES, 0);
	struct statfs fs;
	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, (off_t)BYTES), 0);
	assert_int_equal(fstatfs(fd, &fs), 0);
	void *p = map_fd(fd, BYTES, MAP_PRIVATE), *s = map_fd(fd, BYTES, MAP_SHARED);
	known_as(describe(0, p, BYTES, fd), PAGEHINT_BACKING_FILE_PRIVATE);
	known_as(describe(0, p, BYTES, -1), PAGEHINT_BACKING_FILE_PRIVATE);
	refused(describe(0, p, BYTES, other));
	if ((uint32_t)fs.f_type == 0x01021994u) {
		not_applicable("/var/tmp is no disk");
	} else {
		known_as(describe(0, s, BYTES, -1), PAGEHINT_BACKING_DEVICE);
		refused(describe(0, s, BYTES, other));
	}
	munmap(p, BYTES);
	munmap(s, BYTES);
	close(fd);
	close(other);
}

/* One address range, two mappings of different kinds. */
static void test_two_kinds(void **state)
{
	(void)state;
	int fd = memfd("half", BYTES, 0);
	unsigned char *p = anon(BYTES);
	assert_ptr_equal(mmap(p + BYTES / 2, BYTES / 2, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), p + BYTES / 2);
	refused(describe(0, p, BYTES, -1));
	refused(describe(0, p, BYTES, fd));
	known_as(describe(0, p, BYTES / 2, -1), PAGEHINT_BACKING_ANON);
	known_as(describe(0, p + BYTES / 2, BYTES / 2, fd), PAGEHINT_BACKING_SHARED);
	munmap(p, BYTES);
	close(fd);
}

/* also after a failed assertion */
static int unreserve(void **state)
{
	(void)state;
	huge_pages_return();
	return 0;
}

static void test_hugetlb(void **state)
{
	(void)state;
	if (emulated())
		return;
	const char *why_not = huge_pages_borrow(8);
	if (why_not != NULL) {
		not_applicable(why_not);
		return;
	}
	int fd = memfd("huge", BYTES, MFD_HUGETLB), other = memfd("small", BYTES, 0);
	unsigned char *p = map_fd(fd, BYTES, MAP_SHARED), *q = map_fd(fd, BYTES, MAP_PRIVATE);
	struct pagehint_region_desc d = describe(512, p, BYTES, fd);
	struct pagehint_region_info info = known_as(d, PAGEHINT_BACKING_HUGETLB);
	assert_int_equal(info.host_page_bytes, 2 * MIB);
	assert_int_equal(info.least_bytes, 2 * MIB);
	d.frame = 1; /* whole huge pages only, in frames as well */
	refused(d);
	refused(describe(0, p, BYTES - 4096, fd));
	refused(describe(0, p + 4096, BYTES / 2, fd));
	refused(describe(0, p, BYTES, -1)); /* cannot be punched without its file */
	refused(describe(0, p, BYTES, other));
	known_as(describe(0, q, BYTES, fd), PAGEHINT_BACKING_DEVICE);
	munmap(p, BYTES);
	munmap(q, BYTES);
	close(fd);
	close(other);
}

static void test_userfaultfd(void **state)
{
	(void)state;
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API };
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0) {
		not_applicable("userfaultfd is refused");
		return;
	}
	unsigned char *p = anon(16 * 4096);
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)p, .len = 8 * 4096 },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	assert_int_equal(ioctl(uffd, UFFDIO_REGISTER, &range), 0);
	struct pagehint_region_desc d = describe(0, p, 16 * 4096, -1); /* registered in part counts */
	struct pagehint_region_info info = known_as(d, PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags & (PAGEHINT_REGION_UFFD | PAGEHINT_REGION_UFFD_OWN), PAGEHINT_REGION_UFFD);
	d.flags = PAGEHINT_REGION_UFFD_OWN;
	info = known_as(d, PAGEHINT_BACKING_ANON);
	assert_int_equal(info.flags & (PAGEHINT_REGION_UFFD | PAGEHINT_REGION_UFFD_OWN), PAGEHINT_REGION_UFFD_OWN);
	close(uffd);
	munmap(p, 16 * 4096);
}

#define KVM_CREATE_VM_CALL _IO(0xAE, 0x01)
#define KVM_CREATE_GUEST_MEMFD_CALL _IOWR(0xAE, 0xd4, uint64_t[8])

static void test_guest_memfd(void **state)
{
	(void)state;
	uint64_t wanted[8] = { BYTES };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = -1, fd = -1;
	for (unsigned long type = 0; kvm >= 0 && type < 2 && fd < 0; type++) {
		if (vm >= 0)
			close(vm);
		vm = ioctl(kvm, KVM_CREATE_VM_CALL, type);
		fd = vm < 0 ? -1 : ioctl(vm, KVM_CREATE_GUEST_MEMFD_CALL, wanted);
	}
	if (fd < 0) {
		not_applicable("KVM makes no guest_memfd here");
	} else {
		known_as(describe(0, NULL, BYTES, fd), PAGEHINT_BACKING_GUEST_MEMFD);
		refused(describe(0, NULL, BYTES + 4096, fd)); /* longer than the file */
		close(fd);
	}
	close(vm);
	close(kvm);
	/* any other file without a mapping is refused, whatever is claimed */
	int other = memfd("other", BYTES, 0);
	struct pagehint_region_desc d = describe(0, NULL, BYTES, other);
	refused(d);
	d.backing = PAGEHINT_BACKING_GUEST_MEMFD;
	refused(d);
	close(other);
}

static void lines(void *ctx, const char *text)
{
	strncat(ctx, text, 1000 - strlen(ctx));
}

static void test_explain(void **state)
{
	(void)state;
	char text[1024] = "";
	struct pagehint_sink sink = { .ctx = text, .line = lines };
	struct pagehint_map *map = new_map();
	int fd = memfd("shared", BYTES, 0);
	void *p = map_fd(fd, BYTES, MAP_SHARED);
	struct pagehint_region_desc d = describe(0x40, p, BYTES, fd);
	uint64_t id;
	d.flags = PAGEHINT_REGION_PIN_AT_ADD;
	assert_int_equal(pagehint_map_add(map, &d, &id), 0);
	pagehint_map_explain(map, &sink);
	assert_non_null(strstr(text, "frames 0x40+0x800"));
	assert_non_null(strstr(text, ": shared,"));
	assert_non_null(strstr(text, "1 pins"));
	assert_non_null(strstr(text, "not discarded while pinned"));
	assert_int_equal(pagehint_map_free(map), 0);
	munmap(p, BYTES);
	close(fd);
	for (uint32_t i = 0; i < PAGEHINT_BACKING_COUNT; i++)
		assert_string_not_equal(pagehint_map_backing_name(i), "?");
	assert_string_equal(pagehint_map_backing_name(PAGEHINT_BACKING_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_anon),
		cmocka_unit_test(test_anon_thp),
		cmocka_unit_test(test_locked),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_shared_anon),
		cmocka_unit_test(test_private_memfd),
		cmocka_unit_test(test_disk_file),
		cmocka_unit_test(test_two_kinds),
		cmocka_unit_test_teardown(test_hugetlb, unreserve),
		cmocka_unit_test(test_userfaultfd),
		cmocka_unit_test(test_guest_memfd),
		cmocka_unit_test(test_explain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
