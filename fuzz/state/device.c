/*
 * A device's saved state: that of a device in some state, changed here and there and given a good checksum again, or any words behind
 * a good header, or any bytes.
 */
#include <pagehint/vhost.h>

#include "machine.h"
#include "state.h"
#include "virtio/device_blob.h"
#include "virtio/device_state.h"

#define ROOM 4096u

/* Words of a state that make sense somewhere. */
static uint64_t any_word(struct input *in)
{
	uint32_t how = (uint32_t)take(in, 1);
	return how < 64    ? how & 7
	       : how < 128 ? UINT64_C(1) << (how & 63)
	       : how < 160 ? MACHINE_PAGE + (how & 31) * 8
	       : how < 240 ? take(in, 4)
			   : take(in, 8);
}

static void seal(unsigned char *blob, uint64_t length)
{
	if (length < PH_STATE_HEADER + PH_STATE_CRC)
		return;
	ph_bytes_put_le32(blob, PH_STATE_MAGIC);
	ph_bytes_put_le32(blob + 4, PH_STATE_VERSION);
	ph_bytes_put_le32(blob + 8, (uint32_t)length);
	ph_bytes_put_le32(blob + length - PH_STATE_CRC, ph_blob_crc(blob, length - PH_STATE_CRC));
}

/* A guest boots, and the host wants something of it. */
static void make_busy(struct machine *m, struct input *in)
{
	uint32_t how = (uint32_t)take(in, 1);
	if (how & 1)
		(void)!pagehint_device_set_features(m->device, pagehint_device_features(m->device));
	if (how & 2)
		(void)!pagehint_device_set_status(m->device, how >> 4);
	if (how & 4)
		(void)!pagehint_device_set_target(m->device, m->now, MACHINE_LOW * 2048, NULL);
	for (uint32_t i = 0; (how & 8) != 0 && i < 5; i++) {
		unsigned char *ring = machine_ring(m, i);
		struct pagehint_device_queue q = { .struct_size = sizeof(q), .size = MACHINE_RING };
		q.desc = ring;
		q.driver = ring + 0x400;
		q.device = ring + 0x800;
		(void)!pagehint_device_queue_start(m->device, i, &q);
	}
}

/* Returns its length. */
static uint64_t make_blob(struct machine *m, struct input *in, unsigned char *blob)
{
	const uint64_t least = PH_STATE_HEADER + 8 * PH_STATE_WORDS + PH_STATE_CRC;
	uint32_t how = (uint32_t)take(in, 1);
	uint64_t length = 0;
	if ((how & 3) == 3) {
		length = take(in, 2) % 700;
		take_bytes(in, blob, length);
		if (how & 4)
			seal(blob, length);
		return length;
	}
	make_busy(m, in);
	SURE(pagehint_device_save(m->device, m->now, blob, ROOM, &length) == 0 && length >= least);
	uint32_t blocks = how >> 2 & 3; /* of partial pages, behind what is there */
	if ((how & 3) == 2 && length + blocks * 8 * PH_STATE_BLOCK_WORDS <= ROOM) {
		memset(blob + length, 0, blocks * 8 * PH_STATE_BLOCK_WORDS);
		length += blocks * UINT64_C(8) * PH_STATE_BLOCK_WORDS;
		uint64_t n = (length - least) / (8 * PH_STATE_BLOCK_WORDS);
		memcpy(blob + PH_STATE_HEADER + offsetof(struct ph_device_state, blocks), &n, 8);
	}
	for (uint32_t n = how >> 4; n > 0; n--) {
		uint64_t word = any_word(in), at = take(in, 1) % ((length - PH_STATE_HEADER) / 8);
		memcpy(blob + PH_STATE_HEADER + 8 * at, &word, 8);
	}
	seal(blob, length);
	return length;
}

/* The same bytes, with nothing readable behind them. */
static unsigned char *exactly(const unsigned char *blob, uint64_t length)
{
	unsigned char *exact = malloc(length == 0 ? 1 : length);
	SURE(exact != NULL);
	memcpy(exact, blob, length);
	return exact;
}

void state_device(struct input *in)
{
	static unsigned char blob[ROOM], before[ROOM], after[ROOM], again[ROOM];
	uint64_t length, n = 0, n_after = 0, n_again = 0;
	struct machine *m = machine_open((uint8_t)take(in, 1));
	length = make_blob(m, in, blob);
	SURE(pagehint_device_reset(m->device) == 0);
	SURE(pagehint_device_save(m->device, m->now, before, ROOM, &n) == 0);
	unsigned char *exact = exactly(blob, length);
	int r = pagehint_device_load(m->device, m->now, exact, length);
	SURE(r == 0 || r == -22 /* EINVAL */);
	SURE(pagehint_device_save(m->device, m->now, after, ROOM, &n_after) == 0);
	if (r != 0) { /* nothing is changed */
		SURE(n == n_after && memcmp(before, after, n) == 0);
	} else { /* what it says then of itself it takes again, and means the same by it */
		SURE(pagehint_device_reset(m->device) == 0);
		SURE(pagehint_device_load(m->device, m->now, after, n_after) == 0);
		SURE(pagehint_device_save(m->device, m->now, again, ROOM, &n_again) == 0);
		SURE(n_after == n_again && memcmp(after, again, n_after) == 0);
		make_busy(m, in);
		machine_settle(m);
		machine_judge(m);
	}
	free(exact);
	machine_close(m);
}

/* In a session it waits for memory; here it is only kept, and let go. */
void state_session(struct input *in)
{
	static unsigned char blob[ROOM];
	const struct pagehint_device_opts device = {
		.struct_size = sizeof(device), .queue_size = 64, .budget = 64, .partial_blocks = 1
	};
	struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts), .device = &device };
	struct machine *m = machine_open((uint8_t)take(in, 1));
	struct pagehint_vhost *vhost = NULL;
	opts.state_bytes = make_blob(m, in, blob);
	unsigned char *exact = exactly(blob, opts.state_bytes);
	opts.state = exact;
	int r = pagehint_vhost_new(&opts, &vhost);
	SURE((r == 0) == (opts.state_bytes != 0));
	memset(exact, 0xee, opts.state_bytes); /* it was copied */
	SURE(pagehint_vhost_free(vhost) == 0);
	free(exact);
	machine_close(m);
}
