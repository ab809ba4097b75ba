/*
 * What the system calls cost that the library chooses among: the same memory given back in one call, in many, in batches and
 * out of order; by the call that is chosen and by the one that is not. No library in it: these are the reasons for its shape,
 * which pagehint_backends(7) tells.
 *
 * A second thread is busy in the same address space on another CPU meanwhile, as in any VMM: each call that unmaps must tell
 * that CPU.
 * The check asks the kernel: all of the memory is gone, and the pages on both sides of it are still there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shim/shim.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define PAGES 1024u /* of a case that counts pages */
#define HUGE 8u     /* of a case that counts 2 MiB */
#define FEW 16u     /* ranges of a small batch */
#define BUSY_BYTES 65536u

enum kind { SMALL, THP, MEMFD };

struct want {
	enum kind kind;
	size_t bytes;
	void (*batch)(void *ctx, uint64_t n);
};

struct place {
	struct want want;
	char *map; /* 2 MiB before the memory and 2 MiB behind it: a page next to it on each side must stay */
	char *memory;
	size_t map_bytes;
	int fd;
	int pidfd;
	int failed;
	struct iovec iov[PAGES];
	unsigned order[PAGES];
};

static void need(struct place *p, int done, const char *what)
{
	if (done)
		return;
	if (!p->failed)
		perror(what);
	p->failed = 1;
}

static void shuffle(unsigned *order, unsigned n)
{
	unsigned state = 12345;
	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = n - 1; i > 0; i--) {
		state = state * 1103515245u + 12345u;
		unsigned j = (state >> 8) % (i + 1), was = order[i];
		order[i] = order[j];
		order[j] = was;
	}
}

static void *place_new(const void *arg)
{
	struct place *p = calloc(1, sizeof(*p));
	if (p == NULL)
		abort();
	p->want = *(const struct want *)arg;
	p->map_bytes = p->want.bytes + 3 * HUGE_PAGE;
	p->fd = p->want.kind == MEMFD ? memfd_create("bench", MFD_CLOEXEC) : -1;
	p->pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	need(p, p->fd < 0 || ftruncate(p->fd, (off_t)p->map_bytes) == 0, "memfd");
	p->map = mmap(NULL, p->map_bytes, PROT_READ | PROT_WRITE,
		      p->want.kind == MEMFD ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, p->fd, 0);
	if (p->map == MAP_FAILED)
		abort();
	p->memory = p->map + HUGE_PAGE + (HUGE_PAGE - (uintptr_t)p->map % HUGE_PAGE) % HUGE_PAGE;
	(void)madvise(p->map, p->map_bytes, MADV_NOHUGEPAGE); /* fails where there are none */
	p->memory[-1] = p->memory[p->want.bytes] = 1;
	for (unsigned i = 0; i < PAGES; i++)
		p->iov[i] = (struct iovec) { p->memory + i * PAGE, PAGE };
	shuffle(p->order, PAGES);
	return p;
}

static void place_free(void *ctx)
{
	struct place *p = ctx;
	munmap(p->map, p->map_bytes);
	if (p->fd >= 0)
		close(p->fd);
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p);
}

/* Pages of the memory that the kernel holds, and of its two neighbours. */
static size_t held(const struct place *p, int *ret_neighbours)
{
	static unsigned char in_core[(HUGE * HUGE_PAGE) / PAGE + 2];
	const size_t pages = p->want.bytes / PAGE + 2;
	size_t n = 0;
	if (mincore(p->memory - PAGE, pages * PAGE, in_core) != 0)
		abort();
	for (size_t i = 1; i + 1 < pages; i++)
		n += in_core[i] & 1u;
	*ret_neighbours = (in_core[0] & 1) && (in_core[pages - 1] & 1);
	return n;
}

/* What is huge of all our mappings [KiB]; only one place exists at a time. */
static long huge_kib(void)
{
	char line[256];
	long kib = -1;
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "AnonHugePages: %ld", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib;
}

/* All of it present, in pages of the kind that is asked for. */
static void touch(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	int neighbours;
	(void)n;
	if (p->want.kind != MEMFD)
		(void)madvise(p->memory, p->want.bytes, p->want.kind == THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (size_t at = 0; at < p->want.bytes; at += PAGE)
		p->memory[at] = 1;
	need(p, held(p, &neighbours) == p->want.bytes / PAGE && neighbours, "memory that is not there");
	need(p, p->want.kind != THP || huge_kib() >= (long)(p->want.bytes >> 10), "no transparent huge pages");
}

static int check(void *ctx)
{
	struct place *p = ctx;
	struct stat st;
	int neighbours;
	if (p->failed || held(p, &neighbours) != 0 || !neighbours)
		return -1;
	return p->fd < 0 || (fstat(p->fd, &st) == 0 && (size_t)st.st_blocks * 512 == 2 * PAGE) ? 0 : -1;
}

static void as_one(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	need(p, madvise(p->memory, n * PAGE, MADV_DONTNEED) == 0, "madvise");
}

static void one_by_one(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		need(p, madvise(p->iov[i].iov_base, PAGE, MADV_DONTNEED) == 0, "madvise");
}

static void shuffled(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		need(p, madvise(p->iov[p->order[i]].iov_base, PAGE, MADV_DONTNEED) == 0, "madvise");
}

static void in_batches(struct place *p, uint64_t n, unsigned ranges)
{
	for (uint64_t i = 0; i < n; i += ranges)
		need(p,
		     syscall(SYS_process_madvise, p->pidfd, &p->iov[i], ranges, MADV_DONTNEED, 0) ==
			     (long)(ranges * PAGE),
		     "process_madvise");
}

static void batch_all(void *ctx, uint64_t n)
{
	in_batches(ctx, n, (unsigned)n);
}

static void batch_few(void *ctx, uint64_t n)
{
	in_batches(ctx, n, FEW);
}

static void huge_dontneed(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		need(p, madvise(p->memory + i * HUGE_PAGE, HUGE_PAGE, MADV_DONTNEED) == 0, "madvise");
}

static void huge_map_fixed(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		need(p,
		     mmap(p->memory + i * HUGE_PAGE, HUGE_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED,
		     "mmap");
}

static void punch(struct place *p, uint64_t bytes, size_t step)
{
	for (uint64_t at = 0; at < bytes; at += step)
		need(p,
		     fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (p->memory - p->map) + (off_t)at,
			       (off_t)step) == 0,
		     "fallocate");
}

static void punch_huge(void *ctx, uint64_t n)
{
	punch(ctx, n * HUGE_PAGE, HUGE_PAGE);
}

static void punch_pages(void *ctx, uint64_t n)
{
	punch(ctx, n * HUGE_PAGE, PAGE);
}

static void huge_remove(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	for (uint64_t i = 0; i < n; i++)
		need(p, madvise(p->memory + i * HUGE_PAGE, HUGE_PAGE, MADV_REMOVE) == 0, "madvise");
}

/* CPU time of this thread: it waits for nobody but, busily, for the other CPU, and what else the machine does counts less. */
static double timed(void *ctx, uint64_t n)
{
	struct place *p = ctx;
	struct timespec start, end;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	p->want.batch(p, n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
}

#define CASE(NAME, BASELINE, N, UNIT, KIND, BATCH)                                                                   \
	{                                                                                                            \
		.name = NAME, .baseline = BASELINE, .n = N, .bytes = (N) * (UNIT), .batches = 20, .open = place_new, \
		.arg = &(const struct want) { KIND, (N) * (UNIT), BATCH }, .prepare = touch, .timed = timed,         \
		.check = check, .teardown = place_free                                                               \
	}
#define PAGES_CASE(NAME, BASELINE, BATCH) CASE(NAME, BASELINE, PAGES, PAGE, SMALL, BATCH)
#define HUGE_CASE(NAME, BASELINE, KIND, BATCH) CASE(NAME, BASELINE, HUGE, HUGE_PAGE, KIND, BATCH)

static const struct bench_case all_cases[] = {
	PAGES_CASE("anon.pages.one_call", NULL, as_one),
	PAGES_CASE("anon.pages.single", "anon.pages.one_call", one_by_one),
	PAGES_CASE("anon.pages.shuffled", "anon.pages.one_call", shuffled),
	PAGES_CASE("anon.pages.batch", "anon.pages.one_call", batch_all),
	PAGES_CASE("anon.pages.batch_of_16", "anon.pages.one_call", batch_few),
	HUGE_CASE("anon.2m.dontneed", NULL, SMALL, huge_dontneed),
	HUGE_CASE("anon.2m.map_fixed", "anon.2m.dontneed", SMALL, huge_map_fixed),
	HUGE_CASE("thp.2m.dontneed", "anon.2m.dontneed", THP, huge_dontneed),
	HUGE_CASE("memfd.2m.punch", NULL, MEMFD, punch_huge),
	HUGE_CASE("memfd.2m.punch_pages", "memfd.2m.punch", MEMFD, punch_pages),
	HUGE_CASE("memfd.2m.remove", "memfd.2m.punch", MEMFD, huge_remove),
};
#define CASES (sizeof(all_cases) / sizeof(all_cases[0]))

/* pagehint_backends(7) has them. Of medians: a minimum is a moment in which the other thread did not run. */
static const struct {
	const char *key, *dear, *cheap;
} ratios[] = {
	{ "single_over_one_call", "anon.pages.single", "anon.pages.one_call" },
	{ "batch_over_one_call", "anon.pages.batch", "anon.pages.one_call" },
	{ "single_over_batch", "anon.pages.single", "anon.pages.batch" },
	{ "batch_of_16_over_batch", "anon.pages.batch_of_16", "anon.pages.batch" },
	{ "shuffled_over_single", "anon.pages.shuffled", "anon.pages.single" },
	{ "punch_pages_over_punch", "memfd.2m.punch_pages", "memfd.2m.punch" },
	{ "punch_over_dontneed", "memfd.2m.punch", "anon.2m.dontneed" },
	{ "remove_over_punch", "memfd.2m.remove", "memfd.2m.punch" },
	{ "map_fixed_over_dontneed", "anon.2m.map_fixed", "anon.2m.dontneed" },
	{ "small_over_thp", "anon.2m.dontneed", "thp.2m.dontneed" },
};

static double median_of(const struct bench_result *results, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, name) == 0)
			return results[i].median;
	return 0;
}

static void summary(const struct bench_result *results, size_t n)
{
	for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
		double dear = median_of(results, n, ratios[i].dear), cheap = median_of(results, n, ratios[i].cheap);
		if (dear > 0 && cheap > 0) /* both were run */
			bench_publish(ratios[i].key, dear / cheap, "x");
	}
}

/* May this process advise itself in batches? */
static int has_batches(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec one = { page, PAGE };
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	long r = syscall(SYS_process_madvise, pidfd, &one, 1, MADV_DONTNEED, 0);
	if (pidfd >= 0)
		close(pidfd);
	munmap(page, PAGE);
	return r == (long)PAGE;
}

static int has_thp(void)
{
	char text[64] = "[never]";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	if (f == NULL)
		return 0;
	int got = fgets(text, sizeof(text), f) != NULL;
	fclose(f);
	return got && strstr(text, "[never]") == NULL;
}

/* The n-th CPU that we may run on becomes the only one of this thread. 0: there are not so many. */
static int stay_on(int n)
{
	static cpu_set_t ours;
	cpu_set_t one;
	if (CPU_COUNT(&ours) == 0 && sched_getaffinity(0, sizeof(ours), &ours) != 0)
		return 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &ours) || n-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof(one), &one) == 0;
	}
	return 0;
}

static atomic_int is_over;

/* In front of whatever else wants its CPU, where that is allowed: while it does not run, its CPU need not be told. */
static void *be_busy(void *ctx)
{
	static volatile unsigned char own[BUSY_BYTES];
	(void)ctx;
	if (!stay_on(1)) {
		printf("one CPU: there is no other thread that would have to be told\n");
		return NULL;
	}
	if (setpriority(PRIO_PROCESS, (id_t)gettid(), -15) != 0)
		printf("no priority for the busy thread: figures hold on an idle machine only\n");
	for (unsigned i = 0; !atomic_load(&is_over); i = (i + 64) % BUSY_BYTES)
		own[i]++;
	return NULL;
}

int main(int argc, char **argv)
{
	static struct bench_case cases[CASES];
	const int batches = has_batches(), huge = has_thp();
	pthread_t other;
	size_t n = 0;
	for (size_t i = 0; i < CASES; i++)
		if ((batches || strstr(all_cases[i].name, "batch") == NULL) &&
		    (huge || strncmp(all_cases[i].name, "thp", 3) != 0))
			cases[n++] = all_cases[i];
	if (!batches)
		printf("left out: this kernel takes no process_madvise(MADV_DONTNEED)\n");
	if (!huge)
		printf("left out: transparent huge pages are switched off\n");
	if (!stay_on(0) || pthread_create(&other, NULL, be_busy, NULL) != 0)
		return 1;
	int r = bench_main(argc, argv, "calls", cases, n, summary);
	atomic_store(&is_over, 1);
	pthread_join(other, NULL);
	return r;
}
