/* input: the bytes that libFuzzer gives, taken from the front; when they are used up, zeros. */
#ifndef FUZZ_RING_INPUT_H
#define FUZZ_RING_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

struct input {
	const uint8_t *bytes;
	size_t left;
};

static inline uint8_t take8(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->bytes++;
}

static inline uint16_t take16(struct input *in)
{
	uint16_t low = take8(in);
	return (uint16_t)(low | take8(in) << 8);
}

static inline uint32_t take32(struct input *in)
{
	uint32_t low = take16(in);
	return low | (uint32_t)take16(in) << 16;
}

void fuzz_device_end(struct input *in, uint32_t form, uint32_t size);
void fuzz_driver_end(struct input *in, uint32_t form, uint32_t size);

#endif
