#include "machine.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Made once for each host page size: adding a region looks at the whole process. */
static struct {
	unsigned char *memory;
	struct pagehint_map *map;
	uint64_t low, high, rom;
} worlds[2];

static uint64_t add(uint32_t w, int fd, uint64_t page, uint64_t pages, uint32_t flags)
{
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .frame = page, .frames = pages, .fd = fd };
	uint64_t id = 0;
	desc.flags = flags;
	desc.fd_offset = (page - MACHINE_PAGE) * 4096;
	desc.host_addr = (uintptr_t)worlds[w].memory + desc.fd_offset;
	REQUIRE(pagehint_map_add(worlds[w].map, &desc, &id) == 0);
	return id;
}

static void make_world(uint32_t w)
{
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts), .host_page_shift = w ? 14 : 12 };
	if (worlds[w].map != NULL)
		return;
	int fd = memfd_create("fuzz", 0);
	REQUIRE(fd >= 0 && ftruncate(fd, MACHINE_ALL * 4096) == 0);
	unsigned char *room = mmap(NULL, (MACHINE_ALL + 4) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(room != MAP_FAILED);
	room = (unsigned char *)(((uintptr_t)room + 16383) & ~(uintptr_t)16383);
	worlds[w].memory = mmap(room, MACHINE_ALL * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	REQUIRE(worlds[w].memory == room && pagehint_map_new(&opts, &worlds[w].map) == 0);
	uint64_t high = MACHINE_PAGE + MACHINE_LOW, rom = high + MACHINE_HIGH + MACHINE_HOLE;
	worlds[w].low = add(w, fd, MACHINE_PAGE, MACHINE_LOW, 0);
	worlds[w].high = add(w, fd, high, MACHINE_HIGH, 0);
	worlds[w].rom = add(w, fd, rom, MACHINE_ROM, PAGEHINT_REGION_PIN_AT_ADD);
}

/* ---- the backend ---- */

static void look_at(const struct machine *m, const struct pagehint_run *runs, uint32_t n)
{
	const uint64_t high = MACHINE_PAGE + MACHINE_LOW, end = high + MACHINE_HIGH;
	REQUIRE(m->closed == 0);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t from = runs[i].frame, to = from + runs[i].frames;
		REQUIRE(from >= MACHINE_PAGE && to > from && to <= end);
		REQUIRE(from >= high || to <= high);
		REQUIRE(from < high || m->high_pins == 0);
		REQUIRE(i == 0 || runs[i - 1].frame + runs[i - 1].frames <= from);
	}
}

static int fails(struct machine *m)
{
	m->fails -= m->fails != 0;
	return m->fails != 0;
}

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	struct machine *m = ctx;
	(void)flags;
	look_at(m, runs, n);
	*ret_done = 0;
	if (fails(m))
		return -EIO;
	for (uint32_t i = 0; i < n; i++)
		outcomes[i].asked = outcomes[i].accepted = runs[i].frames * 4096;
	*ret_done = n;
	return 0;
}

static int submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	struct machine *m = ctx;
	(void)flags;
	look_at(m, runs, n);
	REQUIRE(n <= MACHINE_BATCH_RUNS);
	if (fails(m))
		return m->fails % 2 ? -EIO : -EAGAIN;
	if (m->n_batches == MACHINE_BATCHES)
		return -EAGAIN;
	struct machine_batch *batch = &m->batch[m->n_batches++];
	batch->cookie = cookie;
	batch->n = n;
	for (uint32_t i = 0; i < n; i++)
		batch->frames[i] = runs[i].frames;
	return 0;
}

static int reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n)
{
	struct machine *m = ctx;
	if (m->answers == 0 || m->n_batches == 0)
		return -EAGAIN;
	struct machine_batch batch = m->batch[--m->n_batches]; /* the newest first */
	REQUIRE(max >= batch.n);
	m->answers--;
	for (uint32_t i = 0; i < batch.n; i++)
		outcomes[i].asked = outcomes[i].freed = batch.frames[i] * 4096;
	*ret_cookie = batch.cookie;
	*ret_n = batch.n;
	return 0;
}

static int populate(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t *ret_done)
{
	struct machine *m = ctx;
	(void)runs;
	*ret_done = fails(m) ? 0 : n;
	return *ret_done == n ? 0 : -ENOMEM;
}

static int extent(void *ctx, uint64_t frame, uint64_t *ret_frames, uint64_t *ret_least_bytes)
{
	struct machine *m = ctx;
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	int r = pagehint_map_lookup(m->map, frame, &info);
	if (r == 0) {
		*ret_frames = info.frame + info.frames - frame;
		*ret_least_bytes = info.least_bytes;
	}
	return r;
}

static void make_backend(struct machine *m)
{
	struct pagehint_backend_ops ops = { .struct_size = sizeof(ops), .name = "fuzz", .populate = populate };
	ops.caps = PAGEHINT_BACKEND_READS_ZERO | (m->async ? PAGEHINT_BACKEND_ASYNC : 0);
	ops.max_runs = m->async ? MACHINE_BATCH_RUNS : 0;
	ops.discard = discard;
	ops.submit = submit;
	ops.reap = reap;
	ops.extent = extent;
	REQUIRE(pagehint_backend_new(&ops, m, NULL, &m->backend) == 0);
}

/* ---- life ---- */

static void hinted(void *ctx, uint32_t id, const struct pagehint_run *runs, uint32_t n)
{
	struct machine *m = ctx;
	uint32_t now = 0;
	REQUIRE(pagehint_device_hint_state(m->device, &now) == PAGEHINT_DEVICE_HINT_STARTED && now == id && n != 0);
	for (uint32_t i = 0; i < n; i++)
		REQUIRE(runs[i].frames != 0 && runs[i].frame >= MACHINE_PAGE &&
			runs[i].frame + runs[i].frames <= MACHINE_PAGE + MACHINE_ALL);
}

struct machine *machine_open(uint8_t kind)
{
	struct machine *m = calloc(1, sizeof(*m));
	struct pagehint_device_hooks hooks = { .struct_size = sizeof(hooks), .ctx = m, .hinted = hinted };
	struct pagehint_device_opts opts = { .struct_size = sizeof(opts), .hooks = &hooks };
	uint32_t w = kind >> 1 & 1;
	REQUIRE(m != NULL);
	make_world(w);
	m->memory = worlds[w].memory;
	m->map = worlds[w].map;
	m->low = worlds[w].low;
	m->high = worlds[w].high;
	m->rom = worlds[w].rom;
	m->async = kind & 1;
	m->work.struct_size = sizeof(m->work);
	memset(m->memory, 0, 8 * 4096);
	make_backend(m);
	REQUIRE(pagehint_gate_new(&m->gate) == 0);
	opts.numbering = kind >> 2 & 3;
	opts.features = PAGEHINT_DEVICE_FEATURES_DEFAULT | (kind & 16 ? PAGEHINT_VIRTIO_F_RING_PACKED : 0);
	opts.flags = kind & 32 ? PAGEHINT_DEVICE_POPULATE | PAGEHINT_DEVICE_PROBE | PAGEHINT_DEVICE_INIT_REPORTED
			       : PAGEHINT_DEVICE_HINT_AUTO_DONE;
	opts.queue_size = MACHINE_RING;
	opts.budget = MACHINE_BUDGET;
	opts.partial_blocks = 2;
	REQUIRE(pagehint_device_new(m->map, m->backend, m->gate, &opts, &m->device) == 0);
	return m;
}

void machine_settle(struct machine *m)
{
	for (uint32_t i = 0; i < 5000; i++) {
		m->answers = MACHINE_BATCHES;
		REQUIRE(pagehint_device_step(m->device, m->now, &m->work) == 0);
		if (m->work.more == 0 && m->work.deadline_ns == UINT64_MAX)
			return;
		if (m->work.more == 0 && m->work.deadline_ns > m->now)
			m->now = m->work.deadline_ns;
	}
	abort(); /* it never comes to an end */
}

void machine_judge(struct machine *m)
{
	struct pagehint_device_stats s = { .struct_size = sizeof(s) };
	REQUIRE(pagehint_device_stats(m->device, &s) == 0);
	REQUIRE(s.asked == s.freed + s.absent + s.accepted + s.kept + s.lazy + s.failed);
	REQUIRE(s.completed <= s.popped && s.in_flight <= s.popped - s.completed);
	REQUIRE(pagehint_gate_in_flight(m->gate) <= MACHINE_BATCHES);
}

void machine_close(struct machine *m)
{
	m->answers = MACHINE_BATCHES;
	REQUIRE(pagehint_device_reset(m->device) == 0);
	REQUIRE(pagehint_device_free(m->device) == 0);
	REQUIRE(pagehint_gate_in_flight(m->gate) == 0);
	REQUIRE(pagehint_backend_free(m->backend) == 0);
	REQUIRE(pagehint_gate_free(m->gate) == 0);
	for (; m->high_pins != 0; m->high_pins--)
		REQUIRE(pagehint_map_unpin(m->map, m->high) == 0);
	free(m);
}

unsigned char *machine_ring(struct machine *m, uint32_t role)
{
	return m->memory + (size_t)role * 4096;
}
