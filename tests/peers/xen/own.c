/* Memory of our own process, in a guest whose frame numbers the hypervisor translates; and the kernel's own balloon. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <pagehint/map.h>

#include "peers/xen/cases.h"
#include "peers/xen/domain.h"

#define BYTES (UINT64_C(4) << 20)
#define FRAMES (BYTES / 4096)
#define AT 4096u /* the first frame, in the embedder's numbers */
#define TARGET_WITHIN_NS UINT64_C(10000000000)

static int give_and_take(struct pagehint_backend *backend, struct pagehint_xen *x, unsigned char *memory)
{
	const struct pagehint_run runs[] = { { AT + 100, 300 }, { AT + 512, 8 } };
	struct pagehint_outcome outcomes[2], sum;
	uint64_t before = 0, now = 0;
	CHECK(pagehint_xen_reservation(x, &before, NULL) == 0);
	CHECK(pagehint_backend_discard(backend, runs, 2, 0, outcomes, &sum, NULL) == 0);
	printf("own: freed %llu, kept %llu bytes (why %u)\n", (unsigned long long)sum.freed,
	       (unsigned long long)sum.kept, sum.kept_why);
	CHECK(sum.freed == 308 << 12);
	CHECK(pagehint_xen_reservation(x, &now, NULL) == 0 && now == before - 308);
	CHECK(pagehint_backend_discard(backend, runs, 2, 0, NULL, &sum, NULL) == 0 && sum.absent == 308 << 12);
	CHECK(pagehint_backend_populate(backend, runs, 2, NULL) == 0);
	CHECK(pagehint_xen_reservation(x, &now, NULL) == 0 && now == before);
	for (uint64_t i = 0; i < FRAMES; i++) {
		int was_out = (i >= 100 && i < 400) || (i >= 512 && i < 520);
		CHECK(was_out || memory[i * 4096] == (unsigned char)i);
		memory[i * 4096] = (unsigned char)(i + 1); /* it is memory again */
	}
	for (uint64_t i = 0; i < FRAMES; i++)
		CHECK(memory[i * 4096] == (unsigned char)(i + 1));
	return 0;
}

int case_own(void)
{
	static uint64_t out[FRAMES];
	unsigned char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pagehint_region_desc region = { .struct_size = sizeof(region), .frame = AT, .frames = FRAMES, .fd = -1 };
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts),
					  .domid = PAGEHINT_XEN_SELF,
					  .kind = PAGEHINT_XEN_OWN,
					  .p2m = out,
					  .p2m_first = AT,
					  .p2m_frames = FRAMES };
	struct pagehint_backend *backend = NULL;
	struct pagehint_map *map = NULL;
	struct pagehint_xen *x = NULL;
	uint64_t id = 0;
	CHECK(memory != MAP_FAILED && mlock(memory, BYTES) == 0);
	for (uint64_t i = 0; i < FRAMES; i++) {
		memory[i * 4096] = (unsigned char)i;
		out[i] = PAGEHINT_XEN_NOWHERE;
	}
	region.host_addr = (uintptr_t)memory;
	CHECK(pagehint_map_new(NULL, &map) == 0 && pagehint_map_add(map, &region, &id) == 0);
	opts.memory = map;
	CHECK(pagehint_xen_open(&opts, &x) == 0);
	CHECK(pagehint_xen_backend_new(x, NULL, &backend) == 0);
	CHECK(give_and_take(backend, x, memory) == 0);
	CHECK(pagehint_backend_free(backend) == 0 && pagehint_xen_free(x) == 0);
	CHECK(pagehint_map_remove(map, id) == 0 && pagehint_map_free(map) == 0);
	return munmap(memory, BYTES);
}

/*
 * Until the kernel's balloon driver has come to its target; *ret_now: how far it is. The driver works in a thread of its own and
 * says nothing when it is done: neither sysfs nor an uevent does. So it is looked at, and gets the processor between two looks.
 */
static int await_balloon(uint64_t wanted, uint64_t *ret_now)
{
	const uint64_t deadline = host_now() + TARGET_WITHIN_NS;
	uint64_t target = 0;
	for (;;) {
		CHECK(pagehint_xen_get_target(&target, ret_now) == 0);
		if (*ret_now == wanted || host_now() >= deadline)
			return *ret_now != wanted;
		sched_yield();
	}
}

int case_target(void)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = PAGEHINT_XEN_SELF };
	struct pagehint_xen *x = NULL;
	uint64_t target = 0, current = 0, now = 0, before = 0, has = 0;
	CHECK(pagehint_xen_get_target(&before, &current) == 0 && current != 0);
	CHECK(pagehint_xen_open(&opts, &x) == 0);
	const uint64_t wanted = current - (UINT64_C(16) << 20);
	CHECK(pagehint_xen_set_target(0, wanted, current, &target) == 0); /* clamped */
	CHECK(target == wanted);
	int r = await_balloon(wanted, &now);
	CHECK(pagehint_xen_reservation(x, &has, NULL) == 0);
	printf("target: from %llu to %llu KiB, the hypervisor says %llu\n", (unsigned long long)current >> 10,
	       (unsigned long long)now >> 10, (unsigned long long)has << 2);
	CHECK(r == 0);
	CHECK(pagehint_xen_set_target(current, 0, UINT64_MAX, NULL) == 0);
	CHECK(await_balloon(current, &now) == 0);
	return pagehint_xen_free(x);
}
