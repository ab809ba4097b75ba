#include "support/zone_bytes.h"

#include <string.h>

#include <pagehint/zone.h>

#include "support/turns.h"
#include "support/zone_witness.h"

#define SECTIONS 3u
#define BYTES 256u

static uint8_t now[SECTIONS][BYTES], start[SECTIONS][BYTES];

static uint8_t *byte_of(uint64_t frame)
{
	static uint8_t nowhere;
	uint64_t s = frame / PAGEHINT_SECTION_FRAMES, i = frame % PAGEHINT_SECTION_FRAMES;
	nowhere = 0;
	return s < SECTIONS && i < BYTES ? &now[s][i] : &nowhere;
}

static int zero(void *ctx, uint64_t frame, uint64_t frames)
{
	(void)ctx;
	if (witness_is_out(frame, frames))
		turn_fault("frame %llu is zeroed, and somebody has it", (unsigned long long)frame);
	for (uint64_t f = frame; f < frame + frames; f++)
		*byte_of(f) = 0;
	return 0;
}

const struct pagehint_scrubber bytes_scrubber = { sizeof(bytes_scrubber), NULL, zero };

void bytes_open(int stale)
{
	memset(now, stale ? 0xee : 0, sizeof(now));
}

void bytes_mark_start(void)
{
	memcpy(start, now, sizeof(start));
}

void bytes_rewind(void)
{
	memcpy(now, start, sizeof(now));
}

uint64_t bytes_mark(void)
{
	uint64_t sum = 0;
	for (uint32_t s = 0; s < SECTIONS; s++)
		for (uint32_t i = 0; i < BYTES; i++)
			sum = sum * UINT64_C(0x5851f42d4c957f2d) + now[s][i];
	return sum;
}

void bytes_write(uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++)
		*byte_of(f) = 0xa5;
}

void bytes_must_be_zero(uint64_t frame, uint64_t frames)
{
	for (uint64_t f = frame; f < frame + frames; f++)
		if (*byte_of(f) != 0)
			turn_fault("frame %llu is handed out with old bytes", (unsigned long long)f);
}
