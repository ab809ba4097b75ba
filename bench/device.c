/*
 * What a request costs in the balloon device itself: rings, checks, merging and bookkeeping, over a backend that does nothing.
 *
 * Beside it, on the same ring and the same requests, a plain device as it is often written: it walks the chain and calls the
 * backend once a buffer, or once a page, and checks nothing but the length. Operations are buffers of 4 MiB (32 a request, in an
 * indirect table, as Linux sends them), or 4 KiB pages (256 a request). `apart`: no two are adjacent. `adjacent`: all are, in order; `shuffled`: all are, in no order.
 * The check asks the backend: every byte of every request arrived there, and every head came back in the used ring.
 * Allocations are counted by malloc and its kin being ours in this program.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/backend.h>
#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/host.h>
#include <pagehint/map.h>

#include "shim/shim.h"

#define PAGE 4096u
#define MEMORY (UINT64_C(1) << 30)
#define RING 64u
#define BUFFERS 32u /* a report */
#define BUFFER_BYTES (4u << 20)
#define PFNS 256u /* an inflation */
#define REPORT_QUEUE 4u
#define INFLATE_QUEUE 0u
#define REPORTS 2000u /* requests a batch */
#define INFLATES 2000u

/* ---- counting allocations ---- */

static volatile uint64_t allocations; /* volatile: a compiler knows that malloc changes nothing of ours */

#ifdef __GLIBC__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

void *malloc(size_t n)
{
	allocations++;
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	allocations++;
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t n)
{
	allocations++;
	return __libc_realloc(old, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	allocations++;
	return __libc_memalign(alignment, n);
}
#endif

/* ---- a split ring, as a driver writes it ---- */

struct desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags, next;
};

struct avail {
	uint16_t flags, idx, ring[RING], used_event;
};

struct used {
	uint16_t flags, idx;
	struct {
		uint32_t id, len;
	} ring[RING];
	uint16_t avail_event;
};

struct rig {
	unsigned char *memory;
	int fd;
	uint32_t index; /* of the queue */
	uint32_t per_request;
	uint64_t bytes_per_request;
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_device *device;
	struct desc *desc;
	struct avail *avail;
	struct used *used;
	uint16_t plain_seen; /* by the plain device */
	uint64_t requests, allocations;
	int failed;
};

static uint64_t all_requests, all_allocations; /* of the device's cases */

/* Requests stand ready in every entry of the ring; a driver then only makes heads available. */
static void write_requests(struct rig *r, int report, int apart, int shuffled)
{
	for (uint32_t i = 0; i < RING; i++) {
		uint64_t table = (uint64_t)i * PAGE; /* in guest memory: the table, or the list */
		if (!report) {
			uint32_t *pfns = (uint32_t *)(void *)(r->memory + table);
			for (uint32_t p = 0; p < PFNS; p++)
				pfns[p] = 65536 + i * 2 * PFNS + (shuffled ? p * 75 % PFNS : p) * (apart ? 2 : 1);
			r->desc[i] = (struct desc) { .addr = table, .len = 4 * PFNS };
			continue;
		}
		struct desc *entries = (struct desc *)(void *)(r->memory + table);
		for (uint32_t b = 0; b < BUFFERS; b++)
			entries[b] = (struct desc) {
				.addr = (UINT64_C(256) << 20) + (uint64_t)b * BUFFER_BYTES * (apart ? 2 : 1),
				.len = BUFFER_BYTES,
				.flags = (uint16_t)(2 | (b + 1 < BUFFERS ? 1 : 0)),
				.next = (uint16_t)(b + 1),
			};
		r->desc[i] = (struct desc) { .addr = table, .len = BUFFERS * sizeof(struct desc), .flags = 4 };
	}
}

static int make_device(struct rig *r)
{
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = MEMORY / PAGE, .fd = r->fd };
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue), .size = RING };
	uint64_t id;
	region.host_addr = (uintptr_t)r->memory;
	queue.desc = r->desc;
	queue.driver = r->avail;
	queue.device = r->used;
	return pagehint_map_new(NULL, &r->map) || pagehint_map_add(r->map, &region, &id) ||
	       pagehint_null_new(NULL, &r->backend) ||
	       pagehint_device_new(r->map, r->backend, NULL, NULL, &r->device) ||
	       pagehint_device_set_features(r->device, PAGEHINT_DEVICE_FEATURES_DEFAULT) ||
	       pagehint_device_queue_start(r->device, r->index, &queue);
}

static void *open_rig(int report, int apart, int shuffled)
{
	struct rig *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return NULL;
	r->index = report ? REPORT_QUEUE : INFLATE_QUEUE;
	r->per_request = report ? BUFFERS : PFNS;
	r->bytes_per_request = report ? (uint64_t)BUFFERS * BUFFER_BYTES : (uint64_t)PFNS * PAGE;
	r->fd = memfd_create("bench", MFD_CLOEXEC);
	if (r->fd < 0 || ftruncate(r->fd, (off_t)MEMORY) != 0)
		abort();
	r->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	r->desc = aligned_alloc(64, RING * sizeof(*r->desc));
	r->avail = aligned_alloc(64, (sizeof(*r->avail) + 63) & ~(size_t)63);
	r->used = aligned_alloc(64, (sizeof(*r->used) + 63) & ~(size_t)63);
	if (r->memory == MAP_FAILED || r->desc == NULL || r->avail == NULL || r->used == NULL)
		abort();
	madvise(r->memory, MEMORY, MADV_NOHUGEPAGE);
	memset(r->avail, 0, sizeof(*r->avail));
	memset(r->used, 0, sizeof(*r->used));
	write_requests(r, report, apart, shuffled);
	if (make_device(r) != 0)
		return NULL;
	return r;
}

static void close_rig(void *ctx)
{
	struct rig *r = ctx;
	if (pagehint_device_reset(r->device) != 0)
		abort();
	pagehint_device_free(r->device);
	pagehint_backend_free(r->backend);
	pagehint_map_free(r->map);
	munmap(r->memory, MEMORY);
	close(r->fd);
	free(r->desc);
	free(r->avail);
	free(r->used);
	free(r);
}

/* ---- the two devices ---- */

static void offer(struct rig *r, uint32_t requests)
{
	uint16_t idx = r->avail->idx;
	for (uint32_t i = 0; i < requests; i++)
		r->avail->ring[(uint16_t)(idx + i) % RING] = (uint16_t)(idx + i) % RING;
	__atomic_store_n(&r->avail->idx, (uint16_t)(idx + requests), __ATOMIC_RELEASE);
}

static uint32_t portion(uint64_t left)
{
	return left < RING / 2 ? (uint32_t)left : RING / 2;
}

static void serve(void *ctx, uint64_t n)
{
	struct rig *r = ctx;
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	uint64_t before = allocations, requests = n / r->per_request;
	for (uint64_t done = 0; done < requests; done += portion(requests - done)) {
		offer(r, portion(requests - done));
		if (pagehint_device_queue_kick(r->device, r->index, 1, &work) != 0 || work.events != 0)
			r->failed = 1;
		while (work.more != 0 && !r->failed)
			r->failed |= pagehint_device_step(r->device, 1, &work) != 0;
	}
	r->requests += requests;
	all_requests += requests;
	all_allocations += allocations - before;
}

static void one_call(struct rig *r, uint64_t frame, uint64_t frames)
{
	struct pagehint_run run = { frame, frames };
	if (pagehint_backend_discard(r->backend, &run, 1, 0, NULL, NULL, NULL) != 0)
		r->failed = 1;
}

static void plain_request(struct rig *r, const struct desc *head)
{
	if (r->index == INFLATE_QUEUE) {
		const uint32_t *pfns = (const uint32_t *)(const void *)(r->memory + head->addr);
		for (uint32_t i = 0; i < head->len / 4; i++)
			one_call(r, pfns[i], 1);
		return;
	}
	const struct desc *entries = (const struct desc *)(const void *)(r->memory + head->addr);
	for (uint32_t i = 0; i < head->len / sizeof(*entries); i++)
		one_call(r, entries[i].addr / PAGE, entries[i].len / PAGE);
}

static void serve_plainly(void *ctx, uint64_t n)
{
	struct rig *r = ctx;
	uint64_t requests = n / r->per_request;
	for (uint64_t done = 0; done < requests; done += portion(requests - done)) {
		offer(r, portion(requests - done));
		while (r->plain_seen != __atomic_load_n(&r->avail->idx, __ATOMIC_ACQUIRE)) {
			uint16_t head = r->avail->ring[r->plain_seen % RING];
			plain_request(r, &r->desc[head]);
			r->used->ring[r->used->idx % RING].id = head;
			r->used->ring[r->used->idx % RING].len = 0;
			__atomic_store_n(&r->used->idx, (uint16_t)(r->used->idx + 1), __ATOMIC_RELEASE);
			r->plain_seen++;
		}
	}
	r->requests += requests;
}

/* CPU time of the thread: what else runs on the machine is no part of it */
static double cpu_time(void (*batch)(void *ctx, uint64_t n), void *ctx, uint64_t n)
{
	struct timespec from, to;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	batch(ctx, n);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
}

static double time_device(void *ctx, uint64_t n)
{
	return cpu_time(serve, ctx, n);
}

static double time_plain(void *ctx, uint64_t n)
{
	return cpu_time(serve_plainly, ctx, n);
}

static int check(void *ctx)
{
	struct rig *r = ctx;
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	if (r->failed || pagehint_backend_stats(r->backend, &stats) != 0)
		return -1;
	if (stats.accepted != r->requests * r->bytes_per_request)
		return -1;
	return r->used->idx == r->avail->idx ? 0 : -1;
}

/* ---- cases ---- */

static void *report_apart(void)
{
	return open_rig(1, 1, 0);
}

static void *report_adjacent(void)
{
	return open_rig(1, 0, 0);
}

static void *inflate_apart(void)
{
	return open_rig(0, 1, 0);
}

static void *inflate_adjacent(void)
{
	return open_rig(0, 0, 0);
}

static void *inflate_shuffled(void)
{
	return open_rig(0, 0, 1);
}

static double median_of(const struct bench_result *results, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(results[i].name, name) == 0)
			return results[i].median;
	return 0;
}

static void summary(const struct bench_result *results, size_t n)
{
	double apart = median_of(results, n, "report.apart.device");
	double adjacent = median_of(results, n, "report.adjacent.device");
	double inflate = median_of(results, n, "inflate.adjacent.device");
	uint64_t before = allocations;
	void *volatile probe = malloc(1); /* does the count see anything? */
	free(probe);
	int counts = allocations == before + 1;
	if (apart > 0 && adjacent > 0)
		bench_publish("report_ns_per_buffer", apart > adjacent ? apart : adjacent, "ns");
	if (inflate > 0)
		bench_publish("inflate_ns_per_pfn", inflate, "ns");
	if (counts && all_requests != 0)
		bench_publish("allocs_per_request", (double)all_allocations / (double)all_requests, "allocations");
	else
		fprintf(stderr, "device: allocations cannot be counted here\n");
}

#define CASE(NAME, BASELINE, N, SETUP, BATCH)                                                               \
	{                                                                                                   \
		.name = NAME, .baseline = BASELINE, .n = N, .setup = SETUP, .timed = BATCH, .check = check, \
		.teardown = close_rig                                                                       \
	}
#define BOTH(NAME, N, SETUP) \
	CASE(NAME ".plain", NULL, N, SETUP, time_plain), CASE(NAME ".device", NAME ".plain", N, SETUP, time_device)

int main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		BOTH("report.apart", REPORTS * BUFFERS, report_apart),
		BOTH("report.adjacent", REPORTS * BUFFERS, report_adjacent),
		BOTH("inflate.apart", INFLATES * PFNS, inflate_apart),
		BOTH("inflate.adjacent", INFLATES * PFNS, inflate_adjacent),
		BOTH("inflate.shuffled", INFLATES * PFNS, inflate_shuffled),
	};
	return bench_main(argc, argv, "device", cases, sizeof(cases) / sizeof(cases[0]), summary);
}
