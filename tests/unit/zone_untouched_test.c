/*
 * What a zone leaves alone: the memory it manages, the system, the heap; and that its state means the same at any address
 * and in any process.
 */
#include "support/zone_looks.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

/* A heap that can be counted: nobody else has taken it, and the C library's own stands behind other names. */
#if !defined(SANITIZED) && defined(__GLIBC__)
#define COUNTED_HEAP 1
#endif

#ifdef COUNTED_HEAP
/* counts what anybody in this program asks of the heap */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
static uint64_t heap_calls;

void *malloc(size_t size)
{
	heap_calls++;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	heap_calls++;
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	heap_calls++;
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	heap_calls++;
	return __libc_memalign(align, size);
}
#endif

static struct look look;
static uint64_t frames[64];

static void ignore_line(void *ctx, const char *text)
{
	*(uint64_t *)ctx += strlen(text);
}

/* Every operation there is, good and bad. Returns 0 when each did what it should. No cmocka: it runs in children, too. */
static int everything(struct pagehint_zone *zone)
{
	struct pagehint_cache *cache = NULL;
	struct pagehint_run runs[8];
	uint64_t frame, blocks[PAGEHINT_ORDER_MAX + 1], words[64], text = 0;
	uint32_t n = 0, bad = 0;
	struct pagehint_zone_stats s = { .struct_size = sizeof(s) };
	struct pagehint_origin_free f = { .struct_size = sizeof(f) };
	struct pagehint_sink sink = { &text, ignore_line };
	bad += pagehint_zone_add(zone, 0, 2 * SECTION) != 0;
	bad += pagehint_zone_add(zone, 0, 64) != -EEXIST;
	bad += pagehint_cache_open(zone, &cache) != 0;
	for (uint32_t order = 0; order <= PAGEHINT_ORDER_MAX && cache != NULL; order++) {
		bad += pagehint_cache_alloc(cache, order, &frame) != 0 || pagehint_cache_free(cache, frame, order) != 0;
		bad += pagehint_zone_alloc(zone, order, &frame) != 0 || pagehint_zone_free(zone, frame, order) != 0;
		bad += pagehint_zone_free(zone, frame, order) != -EALREADY;
	}
	bad += pagehint_zone_alloc_batch(zone, 3, 64, frames, &n) != 0;
	bad += pagehint_zone_free_batch(zone, 3, n, frames, NULL) != 0;
	bad += pagehint_zone_alloc_runs(zone, 5000, runs, 8, &n) != 0 ||
	       pagehint_zone_free_runs(zone, runs, n, NULL) != 0;
	bad += pagehint_zone_alloc_contig(zone, SECTION + 5, 64, &frame) != 0;
	runs[0] = (struct pagehint_run) { frame, SECTION + 5 };
	bad += pagehint_zone_free_runs(zone, runs, 1, NULL) != 0;
	bad += pagehint_cache_park(cache) != 0 || pagehint_zone_alloc(zone, PAGEHINT_ORDER_MAX, &frame) != 0;
	bad += pagehint_zone_free(zone, frame, PAGEHINT_ORDER_MAX) != 0 || pagehint_cache_unpark(cache) != 0;
	pagehint_cache_close(cache);
	bad += pagehint_zone_reserve(zone, 77, 777, NULL) != 0;
	for (uint32_t order = 0; order < 12; order++) {
		struct pagehint_harvest ask = look_ask(0, 2 * SECTION, order, order & 1);
		bad += ph_harvest(zone, &ask, look.runs, &look.got) != 0;
		ph_harvest_depart(zone, look.got.frames);
		for (uint32_t i = 0; i < look.got.runs; i++)
			ph_harvest_release(zone, &look.runs[i], i & 1);
	}
	ph_harvest_free(zone, pagehint_zone_granule_order(zone), &f);
	bad += pagehint_zone_check(zone, &sink) != 0 || pagehint_zone_stats(zone, &s) != 0 || s.out != 777;
	pagehint_zone_free_orders(zone, blocks);
	bad += pagehint_zone_granules(zone, 0, 0, 1024, words, 64) != 0;
	pagehint_zone_explain(zone, &sink);
	runs[0] = (struct pagehint_run) { 77, 777 };
	bad += pagehint_zone_free_runs(zone, runs, 1, NULL) != 0;
	bad += pagehint_zone_remove(zone, 0, 2 * SECTION, NULL) != 0;
	return bad == 0 && text != 0 ? 0 : 1;
}

static const struct pagehint_zone_opts opts = { .struct_size = sizeof(opts),
						.max_sections = 2,
						.flags = PAGEHINT_ZONE_LADDER | PAGEHINT_ZONE_STRICT };

/* The state lies between the frames it manages, and the frames may not even be read. */
static void test_managed_memory_is_never_touched(void **state)
{
	(void)state;
	struct pagehint_zone *zone;
	uint64_t bytes;
	assert_int_equal(pagehint_zone_size(&opts, &bytes), 0);
	size_t managed = (size_t)SECTION * 4096, size = (size_t)(bytes + 4095) / 4096 * 4096;
	char *memory = mmap(NULL, 2 * managed + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	/* frame f of the first section lies at memory + f * 4096; of the second behind the state */
	assert_int_equal(mprotect(memory + managed, size, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(pagehint_zone_init(memory + managed, bytes, &opts, &zone), 0);
	assert_int_equal(everything(zone), 0); /* any touch of a frame, or beyond the state, is a SIGSEGV */
	assert_int_equal(munmap(memory, 2 * managed + size), 0);
}

#ifndef SANITIZED
/* In a child: after this, any system call but the one that ends it kills it. */
static int forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#endif

static void test_no_system_call_after_init(void **state)
{
	(void)state;
#ifdef SANITIZED
	print_message("a sanitizer makes system calls of its own: this one is for the plain build\n");
#else
	struct pagehint_zone *zone;
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	for (unsigned control = 0; control < 2;
	     control++) { /* 1: with a system call, to see that it would be noticed */
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			if (forbid_system_calls() != 0)
				_exit(77);
			int failed = everything(zone);
			if (control)
				(void)getppid();
			syscall(SYS_exit_group, failed);
		}
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
			puts("not applicable: seccomp filters are refused here");
			break;
		}
		if (control) {
			assert_true(WIFSIGNALED(status));
			continue;
		}
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	pagehint_zone_destroy(zone);
#endif
}

static void test_no_allocation_after_init(void **state)
{
	(void)state;
#ifndef COUNTED_HEAP
	print_message("the heap of this build cannot be counted: this one is for the plain build on glibc\n");
#else
	struct pagehint_zone *zone;
	assert_int_equal(pagehint_zone_new(&opts, &zone), 0);
	uint64_t before = heap_calls;
	int failed = everything(zone);
	uint64_t after = heap_calls;
	void *volatile one = malloc(1);
	free(one);
	assert_int_equal(failed, 0);
	assert_int_equal(after, before);
	assert_int_equal(heap_calls, before + 1); /* one would have been counted */
	pagehint_zone_destroy(zone);
#endif
}

/* a mapping of the same memory; TSan and others may know nothing of it, so each address is used in turn */
static void test_state_means_the_same_at_two_addresses(void **state)
{
	(void)state;
	struct pagehint_zone *zone;
	struct pagehint_cache *cache;
	uint64_t bytes, frame, sum = 0;
	assert_int_equal(pagehint_zone_size(&opts, &bytes), 0);
	int fd = memfd_create("zone", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	unsigned char *a = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(a != MAP_FAILED && b != MAP_FAILED && a != b);
	assert_int_equal(pagehint_zone_init(a, bytes, &opts, &zone), 0);
	struct pagehint_zone *twin = (struct pagehint_zone *)b;
	assert_int_equal(everything(twin), 0);
	assert_int_equal(pagehint_zone_add(twin, 0, 2 * SECTION), 0);
	assert_int_equal(pagehint_cache_open(zone, &cache), 0);
	struct pagehint_cache *cache_twin = (struct pagehint_cache *)(b + ((unsigned char *)cache - a));
	for (unsigned i = 0; i < 200; i++) {
		uint32_t order = i % 12;
		assert_int_equal(pagehint_cache_alloc(i & 1 ? cache : cache_twin, order, &frame), 0);
		assert_int_equal(pagehint_zone_free(i & 2 ? zone : twin, frame, order), 0);
		assert_int_equal(pagehint_cache_free(i & 1 ? cache_twin : cache, frame, order), -EALREADY);
		assert_int_equal(pagehint_zone_alloc(i & 4 ? zone : twin, order, &frame), 0);
		sum += UINT64_C(1) << order;
		assert_int_equal(zone_at_rest(twin).out, sum);
	}
	pagehint_cache_close(cache_twin);
	assert_int_equal(zone_at_rest(zone).cached, 0);
	assert_int_equal(munmap(a, bytes), 0);
	assert_int_equal(zone_at_rest(twin).out, sum);
	assert_int_equal(munmap(b, bytes), 0);
	close(fd);
}

struct shared {
	_Atomic uint32_t owner[2 * PAGEHINT_SECTION_FRAMES];
	_Atomic uint32_t doubled, failed;
};

/* Allocates and frees beside another process; every frame is owned while it is out. */
static void live(struct pagehint_zone *zone, struct shared *shared, uint32_t self, unsigned rounds)
{
	struct pagehint_cache *cache;
	uint64_t held[32] = { 0 }, random = 88172645463325252u * self;
	uint32_t order[32] = { 0 };
	if (pagehint_cache_open(zone, &cache) != 0) {
		atomic_fetch_add(&shared->failed, 1);
		return;
	}
	for (unsigned i = 0; i < rounds + 32; i++) {
		unsigned at = i % 32;
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		if (held[at] != 0) {
			for (uint64_t f = held[at] - 1; f < held[at] - 1 + (UINT64_C(1) << order[at]); f++)
				atomic_store(&shared->owner[f], 0);
			if (pagehint_cache_free(cache, held[at] - 1, order[at]) != 0)
				atomic_fetch_add(&shared->failed, 1);
			held[at] = 0;
		}
		order[at] = (uint32_t)(random >> 40) % 10;
		if (i >= rounds || pagehint_cache_alloc(cache, order[at], &held[at]) != 0)
			continue;
		for (uint64_t f = held[at]; f < held[at] + (UINT64_C(1) << order[at]); f++)
			if (atomic_exchange(&shared->owner[f], self) != 0)
				atomic_fetch_add(&shared->doubled, 1);
		held[at]++;
	}
	pagehint_cache_close(cache);
}

static void test_two_processes_share_a_zone(void **state)
{
	(void)state;
	struct pagehint_zone *zone;
	uint64_t bytes;
	assert_int_equal(pagehint_zone_size(&opts, &bytes), 0);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED && shared != MAP_FAILED);
	assert_int_equal(pagehint_zone_init(memory, bytes, &opts, &zone), 0);
	assert_int_equal(pagehint_zone_add(zone, 0, 2 * SECTION), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	live(zone, shared, child == 0 ? 1 : 2, 20000);
	if (child == 0)
		_exit(0);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(atomic_load(&shared->doubled), 0);
	assert_int_equal(atomic_load(&shared->failed), 0);
	struct pagehint_zone_stats s = zone_at_rest(zone);
	assert_int_equal(s.free, 2 * SECTION);
	assert_int_equal(s.caches, 0);
	munmap(memory, bytes);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_managed_memory_is_never_touched),
		cmocka_unit_test(test_no_system_call_after_init),
		cmocka_unit_test(test_no_allocation_after_init),
		cmocka_unit_test(test_state_means_the_same_at_two_addresses),
		cmocka_unit_test(test_two_processes_share_a_zone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
