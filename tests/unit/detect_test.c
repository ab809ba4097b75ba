/* Detection against a pretended kernel: what this machine does not have, text cut anywhere, settings of every kind. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "support/region.h"

#include <cmocka.h>

#include "memory/detect.h"

#define PAGE 4096u
#define AT 0x40000000u
#define LENGTH 0x800000u
#define SMAPS_FD 10

/* One kernel: its text files, and what its only fd is. */
struct kernel {
	const char *smaps;
	const char *enabled, *enabled_2m, *shmem, *shmem_2m; /* NULL = not there */
	const char *setting;                                 /* the one that is open, beside smaps */
	size_t at, chunk, limit;                             /* bytes a read; text ends after `limit` */
	int opened, closed;
	uint32_t magic;
	struct stat st;
};

static int fake_open(void *ctx, const char *path, int flags)
{
	struct kernel *k = ctx;
	(void)flags;
	const char *text = NULL;
	if (strcmp(path, "/proc/self/smaps") == 0)
		text = k->smaps;
	else if (strstr(path, "hugepages-2048kB/enabled") != NULL)
		text = k->enabled_2m;
	else if (strstr(path, "hugepages-2048kB/shmem_enabled") != NULL)
		text = k->shmem_2m;
	else if (strstr(path, "/shmem_enabled") != NULL)
		text = k->shmem;
	else if (strstr(path, "/enabled") != NULL)
		text = k->enabled;
	if (text == NULL)
		return -ENOENT;
	k->opened++;
	if (text == k->smaps)
		return SMAPS_FD;
	k->setting = text;
	return SMAPS_FD + 1;
}

static int64_t fake_read(void *ctx, int fd, void *buffer, size_t length)
{
	struct kernel *k = ctx;
	if (fd != SMAPS_FD) { /* settings are short and read whole */
		size_t n = strlen(k->setting);
		assert_true(n <= length);
		memcpy(buffer, k->setting, n);
		return (int64_t)n;
	}
	size_t left = strlen(k->smaps);
	left = (left < k->limit ? left : k->limit) - k->at;
	size_t n = left < k->chunk ? left : k->chunk;
	n = n < length ? n : length;
	memcpy(buffer, k->smaps + k->at, n);
	k->at += n;
	return (int64_t)n;
}

static int fake_close(void *ctx, int fd)
{
	struct kernel *k = ctx;
	(void)fd;
	k->closed++;
	return 0;
}

static int fake_fstat(void *ctx, int fd, struct stat *st)
{
	(void)fd;
	*st = ((struct kernel *)ctx)->st;
	return 0;
}

static int fake_fstatfs(void *ctx, int fd, struct statfs *st)
{
	(void)fd;
	memset(st, 0, sizeof(*st));
	st->f_type = (__typeof__(st->f_type))((struct kernel *)ctx)->magic;
	return 0;
}

static int run(struct kernel *k, int fd, uint32_t claim, struct ph_detected *ret)
{
	struct ph_sys sys = {
		.ctx = k,
		.open = fake_open,
		.read = fake_read,
		.close = fake_close,
		.fstat = fake_fstat,
		.fstatfs = fake_fstatfs,
	};
	struct pagehint_region_desc d = describe(0, (void *)(uintptr_t)AT, LENGTH, fd);
	k->at = 0;
	k->opened = k->closed = 0;
	d.backing = claim;
	int r = ph_detect(&sys, &d, LENGTH, PAGE, ret);
	assert_int_equal(k->opened, k->closed); /* no fd stays open, whatever happened */
	return r;
}

#define TAIL(extra, flags) \
	"Size: 8192 kB\nKernelPageSize:        4 kB\n" extra "ProtectionKey: 0\nVmFlags: rd wr mr mw me " flags "\n"
#define HEAD_ANON "40000000-40800000 rw-p 00000000 00:00 0 \n"
#define HEAD_MEMFD "40000000-40800000 rw-s 00000000 00:01 42                        /memfd:x (deleted)\n"

static struct kernel kernel(const char *smaps)
{
	struct kernel k;
	memset(&k, 0, sizeof(k));
	k.smaps = smaps;
	k.chunk = k.limit = SIZE_MAX;
	return k;
}

static void test_vm_flags(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint32_t backing, flags;
	} cases[] = {
		{ HEAD_ANON TAIL("", "ac sd"), PAGEHINT_BACKING_ANON, 0 },
		{ HEAD_ANON TAIL("", "lo ac"), PAGEHINT_BACKING_ANON, PAGEHINT_REGION_LOCKED },
		{ HEAD_ANON TAIL("", "um"), PAGEHINT_BACKING_ANON, PAGEHINT_REGION_UFFD },
		{ HEAD_ANON TAIL("", "uw"), PAGEHINT_BACKING_ANON, PAGEHINT_REGION_UFFD },
		{ HEAD_ANON TAIL("", "ui sd"), PAGEHINT_BACKING_ANON, PAGEHINT_REGION_UFFD },
		{ HEAD_ANON TAIL("", "pf"), PAGEHINT_BACKING_DEVICE, 0 },
		{ HEAD_ANON TAIL("", "io"), PAGEHINT_BACKING_DEVICE, 0 },
		{ HEAD_ANON TAIL("", "mm"), PAGEHINT_BACKING_DEVICE, 0 },
		{ HEAD_ANON TAIL("", "ht"), PAGEHINT_BACKING_DEVICE, 0 },
		{ HEAD_ANON TAIL("", "ms"), PAGEHINT_BACKING_DEVICE, 0 },
		{ "40000000-40800000 rw-p 00000000 00:00 0                          [heap]\n" TAIL("", ""),
		  PAGEHINT_BACKING_ANON, 0 },
		{ "40000000-40800000 rw-p 00000000 00:00 0                          [anon:guest ram]\n" TAIL("", ""),
		  PAGEHINT_BACKING_ANON, 0 },
		{ "40000000-40800000 rw-p 00000000 00:00 0                          [vvar]\n" TAIL("", ""),
		  PAGEHINT_BACKING_DEVICE, 0 },
		{ "40000000-40800000 rw-s 00000000 00:01 9                          /dev/zero (deleted)\n" TAIL("", ""),
		  PAGEHINT_BACKING_SHARED, 0 },
		{ "40000000-40800000 rw-s 00000000 00:01 9                          /SYSV00000000 "
		  "(deleted)\n" TAIL("", ""),
		  PAGEHINT_BACKING_SHARED, 0 },
		{ "40000000-40800000 rw-s 00000000 fe:00 9                          /memfd:disk "
		  "(deleted)\n" TAIL("", ""),
		  PAGEHINT_BACKING_DEVICE, 0 },
		{ "40000000-40800000 rw-s 00000000 00:05 9                          /dev/vfio/1\n" TAIL("", ""),
		  PAGEHINT_BACKING_DEVICE, 0 },
		{ "40000000-40800000 rw-s 00000000 00:0f 9                          anon_inode:[x]\n" TAIL("", ""),
		  PAGEHINT_BACKING_DEVICE, 0 },
		{ "40000000-40800000 rw-p 00000000 fe:00 9                          /snapshot\n" TAIL("", ""),
		  PAGEHINT_BACKING_FILE_PRIVATE, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kernel k = kernel(cases[i].text);
		struct ph_detected d;
		assert_int_equal(run(&k, -1, PAGEHINT_BACKING_AUTO, &d), 0);
		assert_int_equal(d.backing, cases[i].backing);
		assert_int_equal(d.flags, cases[i].flags);
	}
}

/* The same verdict however the text arrives, and no verdict at all when it ends early. */
static void test_chunks_and_cuts(void **state)
{
	(void)state;
	char text[8192];
	int n = snprintf(text, sizeof(text), "1000-2000 r--p 00000000 fe:00 7 /");
	memset(text + n, 'x', 5000); /* a name longer than any buffer */
	snprintf(text + n + 5000, sizeof(text) - (size_t)n - 5000, "\n" TAIL("", "ht") HEAD_ANON TAIL("", "lo"));
	struct ph_detected d;
	for (size_t chunk = 1; chunk < 6000; chunk += chunk < 70 ? 1 : 997) {
		struct kernel k = kernel(text);
		k.chunk = chunk;
		assert_int_equal(run(&k, -1, PAGEHINT_BACKING_ANON, &d), 0);
		assert_int_equal(d.flags, PAGEHINT_REGION_LOCKED);
	}
	size_t flags_at = (size_t)(strstr(text, "mw me lo") - text);
	for (size_t limit = 0; limit < flags_at - 15; limit++) {
		struct kernel k = kernel(text);
		k.limit = limit;
		int r = run(&k, -1, PAGEHINT_BACKING_AUTO, &d);
		assert_true(r == -EIO || r == -EINVAL);
	}
	static const char *const garbage[] = { "what is this?\n", "40000000\n", "7f00-\n" TAIL("", ""), "\n\n\n" };
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		struct kernel k = kernel(garbage[i]);
		assert_int_equal(run(&k, -1, PAGEHINT_BACKING_AUTO, &d), -EIO);
	}
}

static void test_thp_settings(void **state)
{
	(void)state;
	static const struct {
		const char *text, *enabled, *enabled_2m, *shmem, *shmem_2m;
		int thp;
	} cases[] = {
		{ HEAD_ANON TAIL("", ""), NULL, NULL, NULL, NULL, 0 },
		{ HEAD_ANON TAIL("", ""), "[always] madvise never", NULL, NULL, NULL, 1 },
		{ HEAD_ANON TAIL("", "nh"), "[always] madvise never", NULL, NULL, NULL, 0 },
		{ HEAD_ANON TAIL("", ""), "always [madvise] never", NULL, NULL, NULL, 0 },
		{ HEAD_ANON TAIL("", "hg"), "always [madvise] never", NULL, NULL, NULL, 1 },
		{ HEAD_ANON TAIL("", "hg"), "always madvise [never]", NULL, NULL, NULL, 0 },
		{ HEAD_ANON TAIL("", "hg"), "garbage", NULL, NULL, NULL, 0 },
		{ HEAD_ANON TAIL("", ""), "always madvise [never]", "[always] inherit madvise never", NULL, NULL, 1 },
		{ HEAD_ANON TAIL("", ""), "[always] madvise never", "always [inherit] madvise never", NULL, NULL, 1 },
		{ HEAD_ANON TAIL("", ""), "[always] madvise never", "always inherit madvise [never]", NULL, NULL, 0 },
		{ HEAD_ANON TAIL("AnonHugePages: 2048 kB\n", ""), "always madvise [never]", NULL, NULL, NULL, 1 },
		{ HEAD_ANON TAIL("AnonHugePages: 0 kB\n", ""), "always madvise [never]", NULL, NULL, NULL, 0 },
		{ HEAD_MEMFD TAIL("", "ms"), "[always]", NULL, "always within_size advise [never] deny force", NULL,
		  0 },
		{ HEAD_MEMFD TAIL("", "ms"), "[never]", NULL, "always [within_size] advise never deny force", NULL, 1 },
		{ HEAD_MEMFD TAIL("", "ms"), "[never]", NULL, "always within_size [advise] never deny force", NULL, 0 },
		{ HEAD_MEMFD TAIL("", "ms hg"), "[never]", NULL, "always within_size [advise] never deny force", NULL,
		  1 },
		{ HEAD_MEMFD TAIL("", "ms"), NULL, NULL, "always within_size advise never deny [force]", NULL, 1 },
		{ HEAD_MEMFD TAIL("", "ms"), NULL, NULL, "[force]", "always inherit [never]", 0 },
		{ HEAD_MEMFD TAIL("THPeligible:    1\n", "ms"), NULL, NULL, "[never]", NULL, 1 },
		{ HEAD_MEMFD TAIL("THPeligible:    0\n", "ms"), NULL, NULL, "[never]", NULL, 0 },
		{ HEAD_MEMFD TAIL("ShmemPmdMapped: 2048 kB\n", "ms"), NULL, NULL, "[never]", NULL, 1 },
		/* copies of a file's pages are small ones */
		{ "40000000-40800000 rw-p 00000000 fe:00 9 /x\n" TAIL("", ""), "[always]", NULL, NULL, NULL, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kernel k = kernel(cases[i].text);
		struct ph_detected d;
		k.enabled = cases[i].enabled;
		k.enabled_2m = cases[i].enabled_2m;
		k.shmem = cases[i].shmem;
		k.shmem_2m = cases[i].shmem_2m;
		assert_int_equal(run(&k, -1, PAGEHINT_BACKING_AUTO, &d), 0);
		assert_int_equal(d.flags, cases[i].thp ? PAGEHINT_REGION_THP : 0);
		assert_int_equal(d.least_bytes, cases[i].thp ? 2 * MIB : PAGE);
		assert_int_equal(d.host_page_bytes, PAGE);
	}
}

static void test_files(void **state)
{
	(void)state;
	static const char disk[] = "40000000-40800000 rw-p 00000000 00:2a 42                  /snapshot\n" TAIL("", "");
	static const char shared[] = HEAD_MEMFD TAIL("", "ms");
	static const struct {
		const char *text;
		uint32_t magic;
		unsigned minor;
		uint64_t inode;
		int result;
		uint32_t backing;
	} cases[] = {
		{ shared, 0x01021994u, 1, 42, 0, PAGEHINT_BACKING_SHARED },
		{ shared, 0x01021994u, 1, 43, -EINVAL, 0 },
		{ shared, 0x01021994u, 2, 42, -EINVAL, 0 },
		{ shared, 0x9123683eu, 2, 42, -EINVAL, 0 },                      /* what is punched must match wholly */
		{ shared, 0x0000ef53u, 1, 42, 0, PAGEHINT_BACKING_DEVICE },      /* the fd knows better than the name */
		{ shared, 0x5345434du, 1, 42, 0, PAGEHINT_BACKING_DEVICE },      /* secret memory */
		{ shared, 0x474d454du, 1, 42, 0, PAGEHINT_BACKING_GUEST_MEMFD }, /* mapped guest_memfd */
		{ disk, 0x0000ef53u, 0x2a, 42, 0, PAGEHINT_BACKING_FILE_PRIVATE },
		{ disk, 0x0000ef53u, 0x2b, 42, -EINVAL, 0 },
		{ disk, 0x9123683eu, 0x2b, 42, 0, PAGEHINT_BACKING_FILE_PRIVATE }, /* btrfs: another device number */
		{ disk, 0x794c7630u, 0x2b, 42, 0, PAGEHINT_BACKING_FILE_PRIVATE }, /* overlayfs too */
		{ disk, 0x794c7630u, 0x2b, 43, -EINVAL, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kernel k = kernel(cases[i].text);
		struct ph_detected d;
		k.magic = cases[i].magic;
		k.st.st_mode = S_IFREG;
		k.st.st_size = LENGTH;
		k.st.st_dev = makedev(0, cases[i].minor);
		k.st.st_ino = cases[i].inode;
		assert_int_equal(run(&k, 5, PAGEHINT_BACKING_AUTO, &d), cases[i].result);
		if (cases[i].result == 0)
			assert_int_equal(d.backing, cases[i].backing);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vm_flags),
		cmocka_unit_test(test_chunks_and_cuts),
		cmocka_unit_test(test_thp_settings),
		cmocka_unit_test(test_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
