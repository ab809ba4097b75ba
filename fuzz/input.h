/*
 * input: the bytes of the fuzzer, taken one number after the other; when they are used up everything is 0.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SURE(what)                                                                           \
	do {                                                                                 \
		if (!(what)) {                                                               \
			fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #what); \
			abort();                                                             \
		}                                                                            \
	} while (0)

struct input {
	const uint8_t *at;
	size_t left;
};

/* a number of `bytes` bytes, at most 8, little-endian */
static inline uint64_t take(struct input *in, uint32_t bytes)
{
	uint64_t value = 0;
	for (uint32_t i = 0; i < bytes && in->left != 0; i++, in->left--)
		value |= (uint64_t)*in->at++ << 8 * i;
	return value;
}

/* fills `to`, with zeros where there are no bytes any more */
static inline void take_bytes(struct input *in, void *to, size_t bytes)
{
	size_t n = bytes < in->left ? bytes : in->left;
	memset(to, 0, bytes);
	if (n != 0)
		memcpy(to, in->at, n);
	in->at += n;
	in->left -= n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
