#include "virtio/device_rate.h"

#define SECOND UINT64_C(1000000000)
#define BURST_DIVISOR 10u /* what was not used in a tenth of a second is gone */

uint64_t ph_device_later(uint64_t now_ns, uint64_t ns)
{
	return ns > UINT64_MAX - 1 - now_ns ? UINT64_MAX - 1 : now_ns + ns;
}

/* a * b / c, saturating; c is not 0. Long hand, since there is no wider type everywhere. */
static uint64_t scaled(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t whole = a / c, rest = a % c;
	if (whole != 0 && b > INT64_MAX / whole)
		return INT64_MAX;
	uint64_t r = whole * b;
	/* rest * b / c, bit by bit of b from the top: the remainder stays below c */
	uint64_t q = 0, rem = 0;
	for (int bit = 63; bit >= 0; bit--) {
		q <<= 1;
		rem <<= 1; /* c is below 2^62 in all uses */
		if (b >> bit & 1)
			rem += rest;
		while (rem >= c) {
			rem -= c;
			q++;
		}
	}
	return q > INT64_MAX - r ? INT64_MAX : r + q;
}

static void refill(struct ph_device_rate *r, uint64_t now_ns)
{
	int64_t most = r->rate / BURST_DIVISOR > INT64_MAX ? INT64_MAX : (int64_t)(r->rate / BURST_DIVISOR);
	if (now_ns <= r->at_ns)
		return;
	uint64_t earned = scaled(now_ns - r->at_ns, r->rate, SECOND);
	if (earned == 0)
		return; /* let it add up */
	r->at_ns = now_ns;
	if (r->credit < most)
		r->credit = earned > (uint64_t)(most - r->credit) ? most : r->credit + (int64_t)earned;
}

void ph_device_rate_set(struct ph_device_rate *r, uint64_t now_ns, uint64_t rate)
{
	refill(r, now_ns);
	/* more than 2^61 bytes a second is no limit */
	*r = (struct ph_device_rate) { .rate = rate >> 61 != 0 ? 0 : rate,
				       .credit = r->rate == 0 || rate == 0 || r->credit > 0 ? 0 : r->credit,
				       .at_ns = now_ns };
}

uint64_t ph_device_rate_when(struct ph_device_rate *r, uint64_t now_ns)
{
	if (r->rate == 0)
		return now_ns;
	refill(r, now_ns);
	if (r->credit >= 0)
		return now_ns;
	uint64_t debt = (uint64_t) - (r->credit + 1) + 1;
	uint64_t wait = scaled(debt, SECOND, r->rate);
	return ph_device_later(r->at_ns, wait > INT64_MAX - 1 ? INT64_MAX : wait + 1);
}

void ph_device_rate_take(struct ph_device_rate *r, uint64_t bytes)
{
	int64_t room = r->credit - INT64_MIN / 2;
	if (r->rate != 0)
		r->credit -= bytes > (uint64_t)room ? room : (int64_t)bytes;
}

void ph_device_rate_give_back(struct ph_device_rate *r, uint64_t bytes)
{
	int64_t room = INT64_MAX / 2 - r->credit;
	if (r->rate != 0)
		r->credit += bytes > (uint64_t)room ? room : (int64_t)bytes;
}
