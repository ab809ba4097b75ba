#include "reclaim/balloon.h"

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

#define RING 64u
#define BUFFERS 32u
#define PFNS 256u

double balloon_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

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

struct balloon {
	unsigned char *memory;
	int fd;
	int report;
	uint32_t apart; /* one buffer in so many blocks is reported */
	struct pagehint_map *map;
	struct pagehint_backend *backend;
	struct pagehint_device *device;
	struct desc *desc;
	struct avail *avail;
	struct used *used;
	uint64_t bytes;
	int failed;
};

/* The guest's requests for a part of its memory stand in its lowest pages, one page a head. */
static void write_request(struct balloon *b, uint32_t head, uint64_t at)
{
	uint64_t table = (uint64_t)head * PAGE;
	if (!b->report) {
		uint32_t *pfns = (uint32_t *)(void *)(b->memory + table);
		for (uint32_t p = 0; p < PFNS; p++)
			pfns[p] = (uint32_t)(at / PAGE) + p;
		b->desc[head] = (struct desc) { .addr = table, .len = 4 * PFNS };
		return;
	}
	struct desc *entries = (struct desc *)(void *)(b->memory + table);
	for (uint32_t i = 0; i < BUFFERS; i++)
		entries[i] = (struct desc) {
			.addr = at + i * b->apart * BLOCK,
			.len = (uint32_t)BLOCK,
			.flags = (uint16_t)(2 | (i + 1 < BUFFERS ? 1 : 0)),
			.next = (uint16_t)(i + 1),
		};
	b->desc[head] = (struct desc) { .addr = table, .len = BUFFERS * sizeof(struct desc), .flags = 4 };
}

static void *open_balloon(int report, uint32_t apart)
{
	struct balloon *b = calloc(1, sizeof(*b));
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frames = MEMORY / PAGE };
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue), .size = RING };
	uint64_t id;
	if (b == NULL)
		return NULL;
	b->report = report;
	b->apart = apart;
	b->fd = memfd_create("bench", MFD_CLOEXEC);
	if (b->fd < 0 || ftruncate(b->fd, (off_t)MEMORY) != 0)
		abort();
	b->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	b->desc = aligned_alloc(64, RING * sizeof(*b->desc));
	b->avail = aligned_alloc(64, (sizeof(*b->avail) + 63) & ~(size_t)63);
	b->used = aligned_alloc(64, (sizeof(*b->used) + 63) & ~(size_t)63);
	if (b->memory == MAP_FAILED || b->desc == NULL || b->avail == NULL || b->used == NULL)
		abort();
	memset(b->avail, 0, sizeof(*b->avail));
	memset(b->used, 0, sizeof(*b->used));
	region.host_addr = (uintptr_t)b->memory;
	region.fd = b->fd;
	queue.desc = b->desc;
	queue.driver = b->avail;
	queue.device = b->used;
	if (pagehint_map_new(NULL, &b->map) || pagehint_map_add(b->map, &region, &id) ||
	    pagehint_null_new(NULL, &b->backend) || pagehint_device_new(b->map, b->backend, NULL, NULL, &b->device) ||
	    pagehint_device_set_features(b->device, PAGEHINT_DEVICE_FEATURES_DEFAULT) ||
	    pagehint_device_queue_start(b->device, report ? 4 : 0, &queue))
		return NULL;
	return b;
}

void *balloon_report(void)
{
	return open_balloon(1, 1);
}

void *balloon_report_apart(void)
{
	return open_balloon(1, 2);
}

void *balloon_inflate(void)
{
	return open_balloon(0, 1);
}

/* The driver fills half a ring at a time; only the device is timed. */
double balloon_time(void *ctx, uint64_t n)
{
	struct balloon *b = ctx;
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	uint64_t each = b->report ? BUFFERS * BLOCK : (uint64_t)PFNS * PAGE, end = n * BLOCK;
	uint64_t step = each * b->apart, last = end * b->apart;
	double sum = 0;
	for (uint64_t at = 0; at < last;) {
		uint16_t idx = b->avail->idx;
		for (uint32_t i = 0; i < RING / 2 && at < last; i++, at += step, idx++) {
			write_request(b, idx % RING, at);
			b->avail->ring[idx % RING] = idx % RING;
		}
		double from = balloon_cpu_ns();
		__atomic_store_n(&b->avail->idx, idx, __ATOMIC_RELEASE);
		b->failed |= pagehint_device_queue_kick(b->device, b->report ? 4 : 0, 1, &work) != 0;
		while (work.more != 0 && !b->failed)
			b->failed |= pagehint_device_step(b->device, 1, &work) != 0;
		sum += balloon_cpu_ns() - from;
	}
	b->bytes += end;
	return sum;
}

int balloon_check(void *ctx)
{
	struct balloon *b = ctx;
	struct pagehint_backend_stats stats = { .struct_size = sizeof(stats) };
	return b->failed || pagehint_backend_stats(b->backend, &stats) != 0 || stats.accepted != b->bytes ||
			       b->used->idx != b->avail->idx
		       ? -1
		       : 0;
}

void balloon_close(void *ctx)
{
	struct balloon *b = ctx;
	if (pagehint_device_reset(b->device) != 0)
		abort();
	pagehint_device_free(b->device);
	pagehint_backend_free(b->backend);
	pagehint_map_free(b->map);
	munmap(b->memory, MEMORY);
	close(b->fd);
	free(b->desc);
	free(b->avail);
	free(b->used);
	free(b);
}
