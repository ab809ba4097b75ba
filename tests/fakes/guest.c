#include "fakes/guest.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/backend.h>
#include <pagehint/gate.h>

#define BYTES (GUEST_ALL * 4096)
#define RING_BYTES 0x20000u /* a role's share of the ring area */
#define LISTS (5u * RING_BYTES)

void *guest_at(struct guest *g, uint64_t page)
{
	return g->memory + (page - GUEST_PAGE) * 4096;
}

/* ---- hooks ---- */

static void hook_hinted(void *ctx, uint32_t id, const struct pagehint_run *runs, uint32_t n)
{
	struct guest *g = ctx;
	g->hint_id = id;
	for (uint32_t i = 0; i < n; i++)
		g->hinted[g->n_hinted++] = runs[i];
	if (g->inside != NULL)
		g->inside(g);
}

static void hook_log(void *ctx, uint32_t level, const char *text)
{
	struct guest *g = ctx;
	(void)level;
	g->lines++;
	snprintf(g->line, sizeof(g->line), "%s", text);
}

/* ---- life ---- */

static uint64_t add_region(struct guest *g, uint64_t page, uint64_t pages, uint32_t flags)
{
	unsigned shift = g->how.frame_shift - 12;
	struct pagehint_region_desc desc = { .struct_size = sizeof(desc), .fd = g->fd, .flags = flags };
	uint64_t id = 0;
	desc.frame = page >> shift;
	desc.frames = pages >> shift;
	desc.host_addr = (uintptr_t)guest_at(g, page);
	desc.fd_offset = (page - GUEST_PAGE) * 4096;
	assert_int_equal(pagehint_map_add(g->map, &desc, &id), 0);
	return id;
}

static void make_memory(struct guest *g)
{
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts) };
	opts.frame_shift = g->how.frame_shift;
	opts.host_page_shift = g->how.host_page_shift;
	g->fd = memfd_create("guest", MFD_CLOEXEC);
	assert_true(g->fd >= 0);
	assert_int_equal(ftruncate(g->fd, BYTES), 0);
	/* at a multiple of 2 MiB, so that larger pages lie alike in the guest, in the file and here */
	unsigned char *room = mmap(NULL, BYTES + (2 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(room != MAP_FAILED);
	g->memory = (unsigned char *)(((uintptr_t)room + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
	assert_true(mmap(g->memory, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, g->fd, 0) == g->memory);
	if (g->memory > room)
		munmap(room, (size_t)(g->memory - room));
	munmap(g->memory + BYTES, (size_t)(room + (2 << 20) - g->memory));
	assert_int_equal(pagehint_map_new(&opts, &g->map), 0);
	g->low = add_region(g, GUEST_PAGE, GUEST_LOW, 0);
	g->high = add_region(g, GUEST_HIGH_PAGE, GUEST_HIGH, 0);
	g->rom = add_region(g, GUEST_ROM_PAGE, GUEST_ROM, PAGEHINT_REGION_PIN_AT_ADD);
}

struct guest *guest_open(const struct guest_how *how)
{
	struct guest *g = calloc(1, sizeof(*g));
	assert_non_null(g);
	if (how != NULL)
		g->how = *how;
	g->how.frame_shift = g->how.frame_shift == 0 ? 12 : g->how.frame_shift;
	g->how.ring_size = g->how.ring_size == 0 ? 64 : g->how.ring_size;
	g->work.struct_size = sizeof(g->work);
	g->now = 1000000000;
	g->list_at = LISTS;
	make_memory(g);
	guest_refill(g);
	assert_int_equal(pagehint_gate_new(&g->gate), 0);
	g->backend = guest_make_backend(g);
	g->hooks = (struct pagehint_device_hooks) {
		.struct_size = sizeof(g->hooks), .ctx = g, .hinted = hook_hinted, .log = hook_log
	};
	g->how.opts.struct_size = sizeof(g->how.opts);
	g->how.opts.hooks = &g->hooks;
	assert_int_equal(
		pagehint_device_new(g->map, g->backend, g->how.no_gate ? NULL : g->gate, &g->how.opts, &g->device), 0);
	return g;
}

void guest_close(struct guest *g)
{
	guest_answer(g, 1000);
	(void)!pagehint_device_reset(g->device);
	assert_int_equal(pagehint_device_free(g->device), 0);
	assert_int_equal(pagehint_gate_in_flight(g->gate), 0);
	assert_int_equal(pagehint_backend_free(g->backend), 0);
	assert_int_equal(pagehint_gate_free(g->gate), 0);
	assert_int_equal(pagehint_map_free(g->map), 0);
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		free(g->ring_memory[role]);
	munmap(g->memory, BYTES);
	close(g->fd);
	free(g);
}

/* ---- rings ---- */

uint32_t guest_form(const struct guest *g)
{
	return ph_ring_form(pagehint_device_negotiated(g->device));
}

struct ph_ring_place guest_place(struct guest *g, uint32_t role, uint32_t form, uint32_t size)
{
	unsigned char *at = g->memory + role * RING_BYTES;
	return (struct ph_ring_place) {
		.desc = at,
		.driver = at + 0x8000,
		.device = at + 0xa000,
		.desc_bytes = ph_ring_desc_area_bytes(form, size),
		.driver_bytes = ph_ring_driver_area_bytes(form, size),
		.device_bytes = ph_ring_device_area_bytes(form, size),
	};
}

int guest_index(const struct guest *g, uint32_t role)
{
	for (uint32_t i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++)
		if (pagehint_device_queue_role(g->device, i) == (int)role)
			return (int)i;
	return -1;
}

static void make_driver(struct guest *g, uint32_t role)
{
	struct ph_ring_driver_setup setup = { .size = g->how.ring_size, .form = guest_form(g) };
	uint32_t n_tables = (setup.form & PH_RING_INDIRECT) != 0 ? 8 : 0;
	setup.place = guest_place(g, role, setup.form, setup.size);
	if (n_tables != 0) {
		setup.n_tables = n_tables;
		setup.table_descs = setup.size;
		setup.tables = g->memory + role * RING_BYTES + 0xc000;
		setup.tables_addr = GUEST_PAGE * 4096 + role * RING_BYTES + 0xc000;
	}
	free(g->ring_memory[role]);
	g->ring_memory[role] = malloc(ph_ring_driver_memory(setup.size, n_tables));
	assert_non_null(g->ring_memory[role]);
	assert_int_equal(ph_ring_driver_init(&g->ring[role], &setup, g->ring_memory[role]), 0);
}

int guest_start(struct guest *g, uint32_t role, uint32_t flags, uint32_t base, int fresh)
{
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue), .flags = flags, .base = base };
	int index = guest_index(g, role);
	assert_true(index >= 0);
	if (fresh)
		make_driver(g, role);
	struct ph_ring_place place = guest_place(g, role, guest_form(g), g->how.ring_size);
	queue.desc = place.desc;
	queue.driver = place.driver;
	queue.device = place.device;
	queue.size = g->how.ring_size;
	return pagehint_device_queue_start(g->device, (uint32_t)index, &queue);
}

void guest_boot(struct guest *g, uint64_t features)
{
	uint64_t accept = features == 0 ? pagehint_device_features(g->device) : features;
	assert_int_equal(pagehint_device_set_features(g->device, accept), 0);
	uint32_t base = (guest_form(g) & PH_RING_PACKED) != 0 ? 0x80008000u : 0;
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++)
		if (guest_index(g, role) >= 0)
			assert_int_equal(guest_start(g, role, 0, base, 1), 0);
}

/* ---- the driver ---- */

uint64_t guest_list(struct guest *g, const void *bytes, uint32_t n)
{
	if (g->list_at + n > GUEST_RINGS * 4096)
		g->list_at = LISTS;
	uint64_t at = g->list_at;
	assert_true(at + n <= GUEST_RINGS * 4096);
	if (n != 0)
		memcpy(g->memory + at, bytes, n);
	g->list_at = (at + n + 63) & ~UINT64_C(63);
	return GUEST_PAGE * 4096 + at;
}

uint64_t guest_pfns(struct guest *g, const uint32_t *pfns, uint32_t n)
{
	unsigned char *bytes = malloc(4 * (size_t)n + 1);
	assert_non_null(bytes);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t b = 0; b < 4; b++)
			bytes[4 * i + b] = (unsigned char)(pfns[i] >> 8 * b);
	uint64_t at = guest_list(g, bytes, 4 * n);
	free(bytes);
	return at;
}

void guest_put(struct guest *g, uint32_t role, const struct ph_ring_buffer *buffers, uint32_t readable,
	       uint32_t writable, uint64_t cookie)
{
	assert_int_equal(ph_ring_driver_submit(&g->ring[role], buffers, readable, writable, cookie), 0);
	assert_true(ph_ring_driver_publish(&g->ring[role]) >= 0);
}

static int note_work(struct guest *g, int r)
{
	if (r == 0) {
		g->interrupts |= g->work.interrupt;
		g->events |= g->work.events;
	}
	return r;
}

int guest_kick(struct guest *g, uint32_t role)
{
	int index = guest_index(g, role);
	return note_work(g, pagehint_device_queue_kick(g->device, (uint32_t)index, g->now, &g->work));
}

int guest_step(struct guest *g)
{
	return note_work(g, pagehint_device_step(g->device, g->now, &g->work));
}

void guest_settle(struct guest *g)
{
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(guest_step(g), 0);
		if (g->work.more == 0 && g->work.deadline_ns > g->now)
			return;
	}
	fail_msg("it never comes to an end");
}

int64_t guest_got(struct guest *g, uint32_t role)
{
	uint64_t cookie = 0;
	return ph_ring_driver_reap(&g->ring[role], &cookie, &g->used) == 0 ? (int64_t)cookie : -1;
}

static void whole(struct guest *g, uint32_t role, const struct ph_ring_buffer *buffers, uint32_t readable,
		  uint32_t writable)
{
	guest_put(g, role, buffers, readable, writable, 77);
	assert_int_equal(guest_kick(g, role), 0);
	assert_int_equal(guest_got(g, role), 77);
	assert_int_equal(g->used, 0);
}

void guest_inflate(struct guest *g, const uint32_t *pfns, uint32_t n)
{
	struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, n), .len = 4 * n };
	whole(g, PAGEHINT_BALLOON_Q_INFLATE, &list, 1, 0);
}

void guest_deflate(struct guest *g, const uint32_t *pfns, uint32_t n)
{
	struct ph_ring_buffer list = { .addr = guest_pfns(g, pfns, n), .len = 4 * n };
	whole(g, PAGEHINT_BALLOON_Q_DEFLATE, &list, 1, 0);
}

void guest_report(struct guest *g, const struct pagehint_run *pages, uint32_t n)
{
	struct ph_ring_buffer buffers[64];
	assert_true(n <= 64);
	for (uint32_t i = 0; i < n; i++)
		buffers[i] = (struct ph_ring_buffer) { .addr = pages[i].frame * 4096,
						       .len = (uint32_t)pages[i].frames * 4096 };
	whole(g, PAGEHINT_BALLOON_Q_REPORT, buffers, 0, n);
}

void guest_report_bytes(struct guest *g, uint64_t addr, uint32_t len)
{
	struct ph_ring_buffer buffer = { .addr = addr, .len = len };
	whole(g, PAGEHINT_BALLOON_Q_REPORT, &buffer, 0, 1);
}

/* ---- saved state ---- */

struct guest_blob guest_save(struct guest *g)
{
	static struct guest_blob b;
	uint64_t room = pagehint_device_save_bytes(g->device);
	assert_true(room < sizeof(b.bytes));
	memset(b.bytes, 0xcc, sizeof(b.bytes));
	assert_int_equal(pagehint_device_save(g->device, g->now, b.bytes, room, &b.length), 0);
	assert_int_equal(b.length, room);
	assert_int_equal(b.bytes[room], 0xcc);
	return b;
}

void guest_replace(struct guest *g, uint64_t clock)
{
	guest_answer(g, 64);
	assert_int_equal(pagehint_device_reset(g->device), 0);
	assert_int_equal(pagehint_device_free(g->device), 0);
	g->answers = 0;
	g->now = clock;
	assert_int_equal(pagehint_device_new(g->map, g->backend, g->gate, &g->how.opts, &g->device), 0);
}
