/*
 * Any words at any place of a shared zone's state, between any calls of the host: it stays in bounds, comes back, keeps its own
 * books, and hands the backend only what it may.
 *
 * Input: a byte for the granule's order, then operations: a byte each, with two bytes of place and two of value for a write.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/reclaimer.h>
#include <pagehint/shared.h>

#include "support/shared_zone.h"

#define SURE(what)               \
	do {                     \
		if (!(what))     \
			abort(); \
	} while (0)

struct input {
	const uint8_t *at;
	size_t left;
};

static uint32_t take(struct input *in, uint32_t bytes)
{
	uint32_t v = 0;
	for (; bytes != 0 && in->left != 0; bytes--, in->left--)
		v = v << 8 | *in->at++;
	return v;
}

/* words that mean something somewhere: masks, numbers, notes */
static uint64_t word_of(uint32_t v)
{
	switch (v >> 13) {
	case 0:
		return v & 63;
	case 1:
		return UINT64_C(1) << (v & 63);
	case 2:
		return ~UINT64_C(0) << (v & 63);
	case 3:
		return (uint64_t)(v & 3) << 32 | (uint64_t)(v >> 2 & 3) << 28 | (uint64_t)(v >> 4 & 7) << 24 |
		       (v >> 7 & 63);
	case 4:
		return UINT64_C(0x0101010101010101) * (v & 255);
	default:
		return (uint64_t)v << (v & 31);
	}
}

static void write_word(unsigned char *state, uint64_t bytes, uint32_t place, uint64_t word)
{
	/* half of them into the counts, notes and heads, the others all over */
	uint64_t at = place & 1 ? 65536 + place / 2 * 8 % 49152 : (uint64_t)place * 40503 * 8 % bytes / 8 * 8;
	if (at + 8 <= bytes)
		memcpy(state + at, &word, sizeof(word));
}

static void call(struct pagehint_reclaimer *r, uint32_t op, uint32_t size, uint64_t *held)
{
	uint64_t bytes = (uint64_t)size * SHARED_MB, got = 0;
	switch (op) {
	case 0:
		(void)!pagehint_reclaimer_reclaim(r, bytes, &got);
		break;
	case 1:
		(void)!pagehint_reclaimer_hold(r, bytes, &got);
		*held += got;
		break;
	case 2:
		(void)!pagehint_reclaimer_give_back(r, bytes, &got);
		SURE(got <= *held);
		*held -= got;
		break;
	case 3:
		(void)!pagehint_reclaimer_step(r, size, &got);
		return;
	default:
		pagehint_reclaimer_settle(r);
	}
	SURE(got <= bytes);
}

static void play(struct input *in, struct pagehint_zone *zone, unsigned char *state, uint64_t bytes)
{
	struct shared_sink sink = { .frames = SHARED_SECTION };
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *r = NULL;
	uint64_t held = 0;
	SURE(shared_backend(&sink, &backend) == 0);
	while (in->left != 0) {
		uint32_t op = take(in, 1) % 16;
		struct pagehint_reclaimer_stats s = { .struct_size = sizeof(s) };
		if (op >= 7) {
			uint32_t place = take(in, 2);
			write_word(state, bytes, place, word_of(take(in, 2)));
			continue;
		}
		if (r == NULL || op == 6) {
			pagehint_reclaimer_free(r);
			r = NULL;
			if (pagehint_reclaimer_new(zone, backend, NULL, &r) != 0)
				break;
			SURE(pagehint_reclaimer_stats(r, &s) == 0);
			held = s.held;
		}
		call(r, op, take(in, 2) % 3000, &held);
		SURE(pagehint_reclaimer_stats(r, &s) == 0 && s.held == held && held <= 2 * (SHARED_SECTION << 12));
	}
	pagehint_reclaimer_free(r);
	SURE(pagehint_backend_free(backend) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t orders[] = { 9, 6, 5, 10, 12, 13, 18, 1 };
	struct input in = { data, size };
	struct shared_zone s;
	struct pagehint_zone *zone;
	uint64_t bytes;
	if (size > 4096)
		return 0;
	SURE(shared_zone_make(&s, 2, 0, orders[take(&in, 1) % 8]) == 0);
	SURE(pagehint_zone_size(&s.opts, &bytes) == 0);
	unsigned char *state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	SURE(state != MAP_FAILED);
	SURE(pagehint_zone_attach(s.fd, 0, &s.opts, 0, &zone) == 0);
	play(&in, zone, state, bytes);
	pagehint_zone_detach(zone);
	munmap(state, bytes);
	shared_zone_close(&s);
	return 0;
}
