/*
 * bits.h: arithmetic on 64-bit words of bits: find, mask, and the aligned runs that a buddy block is.
 *
 * A run of order o in a word is 2^o adjacent set bits that start at a multiple of 2^o (o = 0..6).
 */
#ifndef PH_BASE_BITS_H
#define PH_BASE_BITS_H

#include <stdint.h>

#define PH_FULL (~UINT64_C(0))

/* index of the lowest set bit; v must not be 0 */
static inline unsigned ph_ctz(uint64_t v)
{
	return (unsigned)__builtin_ctzll(v);
}

/* number of set bits */
static inline unsigned ph_popcount(uint64_t v)
{
	/* in the open: without a target option the builtin is a call */
	v -= v >> 1 & UINT64_C(0x5555555555555555);
	v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
	v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (unsigned)(v * UINT64_C(0x0101010101010101) >> 56);
}

/* n low bits set, n = 0..64 */
static inline uint64_t ph_low_mask(unsigned n)
{
	return n >= 64 ? PH_FULL : (UINT64_C(1) << n) - 1;
}

/* n bits set from bit `first` on; first + n <= 64 */
static inline uint64_t ph_mask(unsigned first, unsigned n)
{
	return n == 0 ? 0 : ph_low_mask(n) << first;
}

/* bits that start an aligned run of order o = 0..6 when every bit were set */
static inline uint64_t ph_run_starts(unsigned o)
{
	static const uint64_t starts[7] = {
		UINT64_C(0xffffffffffffffff), UINT64_C(0x5555555555555555), UINT64_C(0x1111111111111111),
		UINT64_C(0x0101010101010101), UINT64_C(0x0001000100010001), UINT64_C(0x0000000100000001),
		UINT64_C(0x0000000000000001),
	};
	return starts[o];
}

/* the bits of v that start an aligned run of order o in v */
static inline uint64_t ph_runs(uint64_t v, unsigned o)
{
	for (unsigned i = 0; i < o; i++)
		v &= v >> (1u << i);
	return v & ph_run_starts(o);
}

/* order of the largest aligned run in v (0..6), or -1 for v == 0 */
static inline int ph_largest_run(uint64_t v)
{
	int o = -1;
	for (unsigned i = 0; v != 0; i++) {
		o = (int)i;
		if (i == 6)
			break;
		v = v & (v >> (1u << i)) & ph_run_starts(i + 1);
	}
	return o;
}

/* number of adjacent set bits in v from bit `first` on */
static inline unsigned ph_run_length(uint64_t v, unsigned first)
{
	uint64_t inverted = ~(v >> first);
	unsigned n = inverted == 0 ? 64 : ph_ctz(inverted);
	return n > 64 - first ? 64 - first : n;
}

/* a + b does not wrap */
static inline int ph_sum_fits(uint64_t a, uint64_t b)
{
	return a <= UINT64_MAX - b;
}

static inline uint64_t ph_round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

static inline uint64_t ph_round_down(uint64_t v, uint64_t to)
{
	return v / to * to;
}

#endif
