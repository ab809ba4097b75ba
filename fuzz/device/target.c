/* The first byte says what machine it is; the rest is a script of what guest, host and backend do, and in which order. */
#include <string.h>

#include "machine.h"
#include "virtio/device_blob.h"

struct input {
	const uint8_t *bytes;
	size_t left;
};

static uint8_t take8(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->bytes++;
}

static uint16_t take16(struct input *in)
{
	uint16_t low = take8(in);
	return (uint16_t)(low | take8(in) << 8);
}

static uint32_t take32(struct input *in)
{
	uint32_t low = take16(in);
	return low | (uint32_t)take16(in) << 16;
}

/* ---- the guest ---- */

static uint64_t address(struct input *in)
{
	uint8_t how = take8(in);
	uint64_t page = MACHINE_PAGE + take8(in) % (MACHINE_ALL + 2);
	if (how == 0xff)
		return UINT64_MAX - take16(in);
	return page * 4096 + (how & 1 ? take16(in) : 0);
}

static void put(unsigned char *at, uint64_t v, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (unsigned char)(v >> 8 * i);
}

static void describe(struct machine *m, struct input *in)
{
	static const uint32_t lens[] = {
		0, 4, 8, 16, 20, 32, 64, 4095, 4096, 8192, 16384, 65536, 0x7fffffff, 0xffffffff
	};
	uint8_t where = take8(in), flags = take8(in);
	unsigned char *table = where & 0x80 ? m->memory + 5 * 4096 : machine_ring(m, where % 5);
	unsigned char *desc = table + 16 * (size_t)(take8(in) % MACHINE_RING);
	put(desc, flags & 4 ? (MACHINE_PAGE + 5) * 4096 : address(in), 8);
	put(desc + 8, lens[take8(in) % (sizeof(lens) / sizeof(*lens))], 4);
	/* split: flags, next; packed: id, flags: the same bytes mean something either way */
	put(desc + 12, flags & 0x40 ? take16(in) : (uint16_t)(flags & 7), 2);
	put(desc + 14, flags & 0x80 ? take16(in) : take8(in) % MACHINE_RING, 2);
}

static void offer(struct machine *m, struct input *in)
{
	unsigned char *avail = machine_ring(m, take8(in) % 5) + 0x400;
	uint16_t idx = (uint16_t)(avail[2] | avail[3] << 8);
	put(avail + 4 + 2 * (size_t)(idx % MACHINE_RING), take8(in) % (MACHINE_RING + 1), 2);
	put(avail + 2, (uint16_t)(idx + 1), 2);
}

static void scribble(struct machine *m, struct input *in)
{
	uint32_t at = take16(in) % (8 * 4096), n = take8(in) % 16;
	for (uint32_t i = 0; i < n; i++)
		m->memory[(at + i) % (8 * 4096)] = take8(in);
}

/* page numbers near memory, from any page on */
static void list(struct machine *m, struct input *in)
{
	unsigned char *at = m->memory + 4096 * (size_t)(6 + take8(in) % 2) + 4 * (size_t)(take8(in) % 64);
	uint32_t pfn = (uint32_t)MACHINE_PAGE + take8(in) % (uint32_t)(MACHINE_ALL + 2);
	for (uint32_t n = take8(in) % 32, step = take8(in) % 4; n > 0; n--, at += 4, pfn += step)
		put(at, pfn, 4);
}

/* ---- the transport ---- */

static void start(struct machine *m, struct input *in)
{
	uint32_t index = take8(in) % 6;
	int role = pagehint_device_queue_role(m->device, index);
	struct pagehint_device_queue q = { .struct_size = sizeof(q), .size = MACHINE_RING };
	unsigned char *ring = machine_ring(m, role < 0 ? 0 : (uint32_t)role);
	q.desc = ring;
	q.driver = ring + 0x400;
	q.device = ring + 0x800;
	q.flags = take8(in) & 3;
	q.base = take8(in) & 1 ? take32(in) : 0;
	(void)!pagehint_device_queue_start(m->device, index, &q);
}

static void boot(struct machine *m, struct input *in)
{
	uint64_t features = pagehint_device_features(m->device);
	(void)in;
	(void)!pagehint_device_set_features(m->device, features);
	for (uint32_t index = 0; index < 5; index++) {
		int role = pagehint_device_queue_role(m->device, index);
		unsigned char *ring = machine_ring(m, role < 0 ? 0 : (uint32_t)role);
		struct pagehint_device_queue q = { .struct_size = sizeof(q), .size = MACHINE_RING };
		q.desc = ring;
		q.driver = ring + 0x400;
		q.device = ring + 0x800;
		q.base = features & PAGEHINT_VIRTIO_F_RING_PACKED ? 0x80008000u : 0;
		(void)!pagehint_device_queue_start(m->device, index, &q);
	}
}

static void kick(struct machine *m, struct input *in)
{
	struct pagehint_device_stats a = { .struct_size = sizeof(a) }, b = a;
	REQUIRE(pagehint_device_stats(m->device, &a) == 0);
	(void)!pagehint_device_queue_kick(m->device, take8(in) % 6, m->now, &m->work);
	REQUIRE(pagehint_device_stats(m->device, &b) == 0);
	REQUIRE(b.popped - a.popped <= MACHINE_BUDGET);
	REQUIRE(b.inflate_pages - a.inflate_pages <= MACHINE_BUDGET);
	REQUIRE(b.deflate_pages - a.deflate_pages <= MACHINE_BUDGET);
	REQUIRE(b.report_ranges - a.report_ranges <= MACHINE_BUDGET);
}

static void config(struct machine *m, struct input *in)
{
	unsigned char bytes[20];
	uint32_t offset = take8(in) % 18, n = take8(in) % 18;
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = take8(in);
	if (offset & 1)
		(void)!pagehint_device_config_read(m->device, offset, bytes, n);
	else
		(void)!pagehint_device_config_write(m->device, m->now, offset, bytes, n);
}

static void change_life(struct machine *m, struct input *in)
{
	switch (take8(in) % 4) {
	case 0:
		m->answers = take8(in) % 4;
		(void)!pagehint_device_reset(m->device);
		break;
	case 1:
		(void)!pagehint_device_set_status(m->device, take8(in));
		break;
	case 2:
		(void)!pagehint_device_set_features(m->device,
						    pagehint_device_features(m->device) & ~(uint64_t)take8(in));
		break;
	default:
		(void)!pagehint_device_queue_stop(m->device, take8(in) % 6, NULL);
	}
}

/* ---- the host ---- */

static void host(struct machine *m, struct input *in)
{
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs) };
	switch (take8(in) % 8) {
	case 0:
		(void)!pagehint_device_set_target(m->device, m->now, (uint64_t)take16(in) * 512, NULL);
		break;
	case 1:
		(void)!pagehint_device_hint_start(m->device, NULL);
		break;
	case 2:
		(void)!pagehint_device_hint_stop(m->device);
		break;
	case 3:
		(void)!pagehint_device_hint_done(m->device);
		break;
	case 4:
		(void)!pagehint_device_stats_request(m->device);
		break;
	case 5:
		knobs.rate = take8(in) ? (uint64_t)take16(in) << 12 : 0;
		knobs.holdback_ns = take8(in);
		knobs.min_report_bytes = (uint64_t)take8(in) << 12;
		(void)!pagehint_device_tune(m->device, &knobs);
		break;
	case 6: /* what is in flight was on its way before */
		if (m->closed != 0)
			REQUIRE(pagehint_gate_open(m->gate, --m->closed) == 0);
		else
			REQUIRE(pagehint_gate_close(m->gate, m->closed++, NULL) == 0);
		break;
	default:
		if (m->high_pins != 0) {
			m->high_pins--;
			REQUIRE(pagehint_map_unpin(m->map, m->high) == 0);
		} else if (m->n_batches == 0) {
			/* runs that wait for room below were looked up before: they would be the backend's to keep */
			machine_settle(m);
			m->high_pins++;
			REQUIRE(pagehint_map_pin(m->map, m->high, NULL) == 0);
		}
	}
}

/* ---- saved state ---- */

static void save_and_load(struct machine *m, struct input *in)
{
	static unsigned char blob[4096], again[4096];
	uint64_t length = 0, second = 0;
	REQUIRE(pagehint_device_save_bytes(m->device) <= sizeof(blob));
	REQUIRE(pagehint_device_save(m->device, m->now, blob, sizeof(blob), &length) == 0);
	m->answers = MACHINE_BATCHES;
	if (pagehint_device_reset(m->device) != 0)
		return;
	for (uint32_t n = take8(in) % 8; n > 0; n--) {
		uint16_t at = take16(in);
		blob[at % length] = take8(in);
	}
	if (take8(in) & 1)
		length -= take8(in) % length;
	if (length >= 4)
		ph_bytes_put_le32(blob + length - 4, ph_blob_crc(blob, length - 4));
	unsigned char *exact = malloc(length == 0 ? 1 : length);
	REQUIRE(exact != NULL);
	memcpy(exact, blob, length);
	if (pagehint_device_load(m->device, m->now, exact, length) == 0) {
		REQUIRE(pagehint_device_save(m->device, m->now, again, sizeof(again), &second) == 0);
		REQUIRE(pagehint_device_reset(m->device) == 0);
		REQUIRE(pagehint_device_load(m->device, m->now, again, second) == 0);
	}
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static void (*const acts[])(struct machine * m, struct input * in) = {
		describe, offer,       scribble, list,          start, boot,  kick,
		config,   change_life, host,     save_and_load, kick,  offer, describe,
	};
	struct input in = { .bytes = data, .left = bytes };
	struct machine *m = machine_open(take8(&in));
	boot(m, &in);
	while (in.left != 0) {
		uint8_t act = take8(&in);
		if (act >= 0xf0) { /* time, answers, failures */
			m->now += act & 1 ? 50000 : 0;
			m->answers += act & 2 ? 1 : 0;
			m->fails = act & 4 ? 3 : m->fails;
			(void)!pagehint_device_step(m->device, m->now, &m->work);
		} else {
			acts[act % (sizeof(acts) / sizeof(*acts))](m, &in);
		}
		machine_judge(m);
	}
	for (; m->closed != 0; m->closed--)
		REQUIRE(pagehint_gate_open(m->gate, m->closed - 1) == 0);
	m->fails = 0;
	machine_settle(m);
	machine_judge(m);
	machine_close(m);
	return 0;
}
