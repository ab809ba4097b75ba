/*
 * pace: when the reporter may take memory, how much of it, and in blocks of which order.
 *
 * The problem: the limits (rate, watermark, hold-back, back-off, pressure) interact, and mixed into the state machine nobody
 * could test them. Why this shape: plain values and functions of them; time comes in as an argument, there is no I/O.
 * Not here: what is done with a grant (cycle.h), where the look stands (look.h).
 * Owns: the token bucket, the window of recent re-use, the back-off, the pressure in force.
 * Called from: the reporter's own thread.
 * Invariants: over any window of w ns at most rate * w + cap bytes are granted, where cap = one bucket (its depth or one block,
 * whichever is more); a grant is never less than a block; a pause never exceeds 32 back-offs.
 */
#ifndef PH_REPORT_PACE_H
#define PH_REPORT_PACE_H

#include <stdint.h>

#define PH_PACE_WINDOW_MAX 64u
#define PH_PACE_MAX_ORDER 18u

/* what a question for memory is answered */
enum {
	PH_GRANT_TAKE = 0,     /* so many bytes */
	PH_GRANT_RATE = 1,     /* wait until ph_pace_refill_ns */
	PH_GRANT_HELD = 2,     /* watermark and hold-back leave nothing: only look */
	PH_GRANT_BACKOFF = 3,  /* the backend failed a moment ago: only look */
	PH_GRANT_DISABLED = 4, /* switched off: only look */
	PH_GRANT_MUTED = 5,    /* the region or the gate has refused in this look: only look */
	PH_GRANT_BUDGET = 6,   /* the budget of a step is below one block: only look */
	PH_GRANT_FUTILE = 7,   /* asked for in vain a moment ago: only look */
	PH_GRANT_COUNT = 8
};

/* real bytes a second; starts full */
struct ph_bucket {
	uint64_t rate;  /* 0 = no limit */
	uint64_t depth; /* bytes it holds, unless one block is more */
	uint64_t tokens;
	uint64_t fraction; /* of a byte, in 10^-9 */
	uint64_t last_ns;
	uint32_t open; /* full once since it was last empty: spend it whole, so that wakes are few */
};

/* a pressure that somebody told, until when */
struct ph_press {
	uint64_t since_ns;
	uint64_t until_ns; /* UINT64_MAX = until told otherwise */
	uint32_t level;
};

struct ph_pace {
	uint64_t interval_ns;
	uint64_t watermark;
	uint64_t backoff_ns;
	struct ph_bucket bucket;
	uint64_t reuse[PH_PACE_WINDOW_MAX]; /* bytes re-used in each of the last intervals */
	uint64_t reuse_now;                 /* in the one that is not over */
	uint32_t reuse_n;
	uint32_t reuse_at;
	uint64_t pause_until_ns;
	uint32_t pause_level; /* 0 = no failure since the last success */
	uint32_t enabled;
	struct ph_press asked;
	struct ph_press psi;
};

/* All in bytes and ns; none of interval_ns, backoff_ns is 0; holdback_intervals at most PH_PACE_WINDOW_MAX. */
void ph_pace_init(struct ph_pace *pace, uint64_t interval_ns, uint64_t rate, uint64_t watermark,
		  uint32_t holdback_intervals, uint64_t backoff_ns, uint64_t max_burst);

/*
 * May a block be taken now, and how many bytes? `unreported` is what is free and unreported now. *ret_bytes is written for
 * PH_GRANT_TAKE only and is then at least `block`.
 */
uint32_t ph_pace_grant(struct ph_pace *pace, uint64_t now_ns, uint64_t block, uint64_t unreported, uint64_t *ret_bytes);
void ph_pace_spend(struct ph_pace *pace, uint64_t bytes);
void ph_pace_refund(struct ph_pace *pace,
		    uint64_t bytes); /* what was granted in the same step, but was not given back */
uint64_t ph_pace_refill_ns(const struct ph_pace *pace, uint64_t now_ns, uint64_t block);

/* Bytes to leave alone: the watermark, or what the busiest of the last intervals used again. 0 under full pressure. */
uint64_t ph_pace_keep(const struct ph_pace *pace, uint64_t now_ns);
void ph_pace_reuse(struct ph_pace *pace, uint64_t bytes); /* so far in this interval */
void ph_pace_interval_over(struct ph_pace *pace);         /* the next one begins */

/* How long the n-th pause in a row is: one back-off, doubled each time, up to 32 of them. n is not 0. */
uint64_t ph_pace_pause_ns(const struct ph_pace *pace, uint32_t n);

/* A batch ended with errors; a gain among them keeps the pause from growing. */
void ph_pace_failed(struct ph_pace *pace, uint64_t now_ns, int gained);
void ph_pace_succeeded(struct ph_pace *pace);

/* hold_ns 0 = until told otherwise */
void ph_pace_press(struct ph_pace *pace, uint64_t now_ns, uint32_t level, uint64_t hold_ns);
/* A PSI event: some pressure; another one, an interval or more after the first and before it ran out: full pressure. */
void ph_pace_psi(struct ph_pace *pace, uint64_t now_ns, uint64_t hold_ns);
uint32_t ph_pace_level(const struct ph_pace *pace, uint64_t now_ns);

/* The order ladder: what the level asks for, within what the origin takes. */
uint32_t ph_pace_order(uint32_t level, uint32_t frame_shift, uint32_t min_order, uint32_t order);
/* The same, raised until a block is at least `least` bytes; above PH_PACE_MAX_ORDER: no order is enough. */
uint32_t ph_pace_raise(uint32_t order, uint32_t frame_shift, uint64_t least);

/* T = bytes / rate + 2 intervals, saturating. */
uint64_t ph_pace_bound_ns(const struct ph_pace *pace, uint64_t bytes);

/* saturating a + b, for times */
static inline uint64_t ph_pace_later(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
