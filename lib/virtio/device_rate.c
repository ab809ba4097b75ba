#include "virtio/device_rate.h"

#define SECOND UINT64_C(1000000000)
#define BURST_DIVISOR 10u /* what was not used in a tenth of a second is gone */

uint64_t ph_device_later(uint64_t now_ns, uint64_t ns)
{
	return ns > UINT64_MAX - 1 - now_ns ? UINT64_MAX - 1 : now_ns + ns;
}

/* a * b / c, rounded down or up, saturating; c is neither 0 nor above 2^62. Long hand: there is no wider type everywhere. */
static uint64_t scaled(uint64_t a, uint64_t b, uint64_t c, int up)
{
	uint64_t whole = a / c, rest = a % c;
	if (whole != 0 && b > INT64_MAX / whole)
		return INT64_MAX;
	uint64_t r = whole * b;
	/* rest * b / c, bit by bit of b from the top: the remainder stays below c */
	uint64_t q = 0, rem = 0;
	for (int bit = 63; bit >= 0; bit--) {
		q <<= 1;
		rem <<= 1;
		if (b >> bit & 1)
			rem += rest;
		while (rem >= c) {
			rem -= c;
			q++;
		}
	}
	q += up && rem != 0;
	return q > INT64_MAX - r ? INT64_MAX : r + q;
}

static void refill(struct ph_device_rate *r, uint64_t now_ns)
{
	int64_t most = (int64_t)(r->rate / BURST_DIVISOR);
	if (now_ns <= r->at_ns || r->rate == 0)
		return;
	uint64_t earned = scaled(now_ns - r->at_ns, r->rate, SECOND, 0);
	if (r->credit >= most || earned >= (uint64_t)(most - r->credit)) {
		r->credit = r->credit > most ? r->credit : most;
		r->at_ns = now_ns;
		return;
	}
	/* the part of a byte that is not earned yet stays in the time */
	r->credit += (int64_t)earned;
	r->at_ns += scaled(earned, SECOND, r->rate, 1);
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
	uint64_t debt = (uint64_t)(-(r->credit + 1)) + 1;
	return ph_device_later(r->at_ns, scaled(debt, SECOND, r->rate, 1));
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
