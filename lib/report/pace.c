#include "report/pace.h"

#include <string.h>

#include <pagehint/reporter.h>

#define SECOND UINT64_C(1000000000)
#define WAKES_AN_INTERVAL 16u /* a rate limit makes about so many batches an interval */
#define MOST_DOUBLINGS 5u     /* 32 times */
#define SOME_SHIFT 16u        /* 64 KiB */

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
	return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

/* ns that `bytes` take at `rate`, rounded up */
static uint64_t duration(uint64_t bytes, uint64_t rate)
{
	uint64_t whole = saturating_mul(bytes / rate, SECOND), rest = bytes % rate;
	/* rest * SECOND must fit: 34 and 30 bits; rounding the rate down only makes the answer later */
	while (rate >> 34 != 0) {
		rate >>= 1;
		rest = (rest >> 1) + (rest & 1);
	}
	return ph_pace_later(whole, (rest * SECOND + rate - 1) / rate);
}

/* bytes that flow in `ns` at the bucket's rate; the fraction of a byte is carried over */
static uint64_t flow(struct ph_bucket *bucket, uint64_t ns)
{
	uint64_t s = ns / SECOND, n = ns % SECOND;
	uint64_t part = (n * (bucket->rate % SECOND)) + bucket->fraction; /* below 10^18 + 10^9 */
	uint64_t bytes = saturating_mul(s, bucket->rate);
	bytes = ph_pace_later(bytes, n * (bucket->rate / SECOND));
	bucket->fraction = part % SECOND;
	return ph_pace_later(bytes, part / SECOND);
}

static uint64_t capacity(const struct ph_bucket *bucket, uint64_t block)
{
	return block > bucket->depth ? block : bucket->depth;
}

static void refill(struct ph_bucket *bucket, uint64_t now_ns, uint64_t block)
{
	uint64_t cap = capacity(bucket, block);
	if (now_ns > bucket->last_ns) {
		bucket->tokens = ph_pace_later(bucket->tokens, flow(bucket, now_ns - bucket->last_ns));
		bucket->last_ns = now_ns;
	}
	if (bucket->tokens >= cap) {
		bucket->tokens = cap;
		bucket->fraction = 0;
		bucket->open = 1;
	}
	if (bucket->tokens < block)
		bucket->open = 0;
}

void ph_pace_init(struct ph_pace *pace, uint64_t interval_ns, uint64_t rate, uint64_t watermark,
		  uint32_t holdback_intervals, uint64_t backoff_ns, uint64_t max_burst)
{
	memset(pace, 0, sizeof(*pace));
	pace->interval_ns = interval_ns;
	pace->watermark = watermark;
	pace->backoff_ns = backoff_ns;
	pace->reuse_n = holdback_intervals;
	pace->bucket.rate = rate;
	pace->bucket.depth = flow(&pace->bucket, interval_ns) / WAKES_AN_INTERVAL;
	pace->bucket.fraction = 0;
	if (pace->bucket.depth > max_burst)
		pace->bucket.depth = max_burst;
	pace->bucket.tokens = UINT64_MAX; /* the first refill cuts it to the capacity: it starts full */
	pace->enabled = 1;
}

uint32_t ph_pace_grant(struct ph_pace *pace, uint64_t now_ns, uint64_t block, uint64_t unreported, uint64_t *ret_bytes)
{
	uint64_t bytes = UINT64_MAX, keep = ph_pace_keep(pace, now_ns);
	if (!pace->enabled)
		return PH_GRANT_DISABLED;
	if (now_ns < pace->pause_until_ns)
		return PH_GRANT_BACKOFF;
	if (keep != 0) {
		bytes = unreported > keep ? unreported - keep : 0;
		if (bytes < block)
			return PH_GRANT_HELD;
	}
	if (pace->bucket.rate != 0) {
		refill(&pace->bucket, now_ns, block);
		if (!pace->bucket.open)
			return PH_GRANT_RATE;
		if (pace->bucket.tokens < bytes)
			bytes = pace->bucket.tokens;
	}
	*ret_bytes = bytes;
	return PH_GRANT_TAKE;
}

void ph_pace_spend(struct ph_pace *pace, uint64_t bytes)
{
	if (pace->bucket.rate != 0)
		pace->bucket.tokens -= bytes < pace->bucket.tokens ? bytes : pace->bucket.tokens;
}

void ph_pace_refund(struct ph_pace *pace, uint64_t bytes)
{
	if (pace->bucket.rate != 0)
		pace->bucket.tokens = ph_pace_later(pace->bucket.tokens, bytes);
}

uint64_t ph_pace_refill_ns(const struct ph_pace *pace, uint64_t now_ns, uint64_t block)
{
	const struct ph_bucket *bucket = &pace->bucket;
	uint64_t cap = capacity(bucket, block);
	if (bucket->rate == 0 || bucket->tokens >= cap)
		return now_ns;
	return ph_pace_later(bucket->last_ns, duration(cap - bucket->tokens, bucket->rate));
}

uint64_t ph_pace_keep(const struct ph_pace *pace, uint64_t now_ns)
{
	uint64_t keep = pace->watermark;
	if (ph_pace_level(pace, now_ns) == PAGEHINT_PRESSURE_FULL)
		return 0;
	if (pace->reuse_n == 0)
		return keep;
	for (uint32_t i = 0; i < pace->reuse_n; i++)
		if (pace->reuse[i] > keep)
			keep = pace->reuse[i];
	return pace->reuse_now > keep ? pace->reuse_now : keep;
}

void ph_pace_reuse(struct ph_pace *pace, uint64_t bytes)
{
	pace->reuse_now = bytes;
}

void ph_pace_interval_over(struct ph_pace *pace)
{
	if (pace->reuse_n == 0)
		return;
	pace->reuse[pace->reuse_at] = pace->reuse_now;
	pace->reuse_at = (pace->reuse_at + 1) % pace->reuse_n;
	pace->reuse_now = 0;
}

uint64_t ph_pace_pause_ns(const struct ph_pace *pace, uint32_t n)
{
	uint32_t doublings = n - 1 < MOST_DOUBLINGS ? n - 1 : MOST_DOUBLINGS;
	return saturating_mul(pace->backoff_ns, UINT64_C(1) << doublings);
}

void ph_pace_failed(struct ph_pace *pace, uint64_t now_ns, int gained)
{
	if (gained || pace->pause_level == 0)
		pace->pause_level = 1;
	else if (pace->pause_level <= MOST_DOUBLINGS)
		pace->pause_level++;
	pace->pause_until_ns = ph_pace_later(now_ns, ph_pace_pause_ns(pace, pace->pause_level));
}

void ph_pace_succeeded(struct ph_pace *pace)
{
	pace->pause_level = 0;
}

void ph_pace_press(struct ph_pace *pace, uint64_t now_ns, uint32_t level, uint64_t hold_ns)
{
	pace->asked.level = level;
	pace->asked.since_ns = now_ns;
	pace->asked.until_ns = hold_ns == 0 ? UINT64_MAX : ph_pace_later(now_ns, hold_ns);
}

static uint32_t press_level(const struct ph_press *press, uint64_t now_ns)
{
	return press->until_ns == UINT64_MAX || now_ns < press->until_ns ? press->level : PAGEHINT_PRESSURE_NONE;
}

void ph_pace_psi(struct ph_pace *pace, uint64_t now_ns, uint64_t hold_ns)
{
	if (press_level(&pace->psi, now_ns) == PAGEHINT_PRESSURE_NONE) {
		pace->psi.level = PAGEHINT_PRESSURE_SOME;
		pace->psi.since_ns = now_ns;
	} else if (now_ns - pace->psi.since_ns >= pace->interval_ns) {
		pace->psi.level = PAGEHINT_PRESSURE_FULL;
	}
	pace->psi.until_ns = ph_pace_later(now_ns, hold_ns);
}

uint32_t ph_pace_level(const struct ph_pace *pace, uint64_t now_ns)
{
	uint32_t asked = press_level(&pace->asked, now_ns), psi = press_level(&pace->psi, now_ns);
	return asked > psi ? asked : psi;
}

uint32_t ph_pace_order(uint32_t level, uint32_t frame_shift, uint32_t min_order, uint32_t order)
{
	uint32_t some = frame_shift < SOME_SHIFT ? SOME_SHIFT - frame_shift : 0;
	if (level == PAGEHINT_PRESSURE_NONE)
		return order;
	if (level == PAGEHINT_PRESSURE_FULL || some < min_order)
		return min_order;
	return some < order ? some : order;
}

uint32_t ph_pace_raise(uint32_t order, uint32_t frame_shift, uint64_t least)
{
	while (order <= PH_PACE_MAX_ORDER && UINT64_C(1) << (frame_shift + order) < least)
		order++;
	return order;
}

uint64_t ph_pace_bound_ns(const struct ph_pace *pace, uint64_t bytes)
{
	uint64_t flow_ns = pace->bucket.rate == 0 ? 0 : duration(bytes, pace->bucket.rate);
	return ph_pace_later(flow_ns, saturating_mul(2, pace->interval_ns));
}
