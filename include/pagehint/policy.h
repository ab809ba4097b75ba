/*
 * policy.h: how much memory each guest of a host should have: numbers in, targets out, nothing else.
 *
 * The problem: a host with more guests than memory needs somebody who says who gives and who gets, and the scripts that do so
 * starve the quiet guest, promise memory before anybody has given it back, or move every target at every look. Why this
 * shape: a pure function of what is known now. It has no state, no clock and no I/O, so it can be tested against anything, and an
 * embedder may replace it by one of its own. When a reporter takes memory is its own business (reporter.h).
 * Not here: finding out what a guest needs (its statistics), setting the target (device.h, xen.h), when to ask again.
 *
 * The plan, all in bytes; available = capacity - reserve:
 *   SLACK  needs fit:         every guest has at least its need; the rest is shared by weight, up to its size
 *   TIGHT  only floors fit:   every guest has at least its floor and at most its need; shared by weight
 *   SHORT  not even floors:   nobody has more than its floor; shared by weight. Start fewer guests, or swap
 * The way there, one call at a time:
 *   A guest gives at most `step` a call. A guest gets only what is free now: what others are to give counts once they have.
 *   So the sum of max(held, target) never exceeds what is available, unless more is held already.
 *   A target that would move less than `band` stays where the guest is, as long as that breaks none of the above.
 */
#ifndef PAGEHINT_POLICY_H
#define PAGEHINT_POLICY_H

#include <stdint.h>

#include <pagehint/api.h>

PAGEHINT_BEGIN

#define PAGEHINT_POLICY_GUESTS_MAX 4096u
#define PAGEHINT_POLICY_WEIGHT_MAX 65536u

/* flags of a guest */
#define PAGEHINT_POLICY_NEED_UNKNOWN 1u /* no statistics, or stale ones: its need is taken to be what it holds */

/** struct pagehint_policy_guest - what is known of one guest; bytes unless said */
struct pagehint_policy_guest {
	uint64_t size;     /* the most it can have */
	uint64_t held;     /* what it has now; more than its size counts as its size */
	uint64_t need;     /* what it works with: below it, it would thrash. Brought between floor and size */
	uint64_t floor;    /* never less, whatever it seems to need; at most its size */
	uint32_t weight;   /* of its claim on what is shared; 0 = 1 */
	uint32_t flags;    /* PAGEHINT_POLICY_* */
	uint64_t reserved; /* must be 0 */
};

/** struct pagehint_policy_host - the host; bytes */
struct pagehint_policy_host {
	uint64_t struct_size;
	uint64_t capacity; /* for guests, in all */
	uint64_t reserve;  /* of it: to be left free; more than capacity = all of it */
	uint64_t step;     /* the most that one guest is asked to give at once; 0 = no limit */
	uint64_t band;     /* a smaller move is none; 0 = every move counts */
	uint64_t align;    /* targets are multiples of it where nothing else speaks against it; a power of two; 0 = 1 */
};

/* how it stands, in the order of distress */
enum { PAGEHINT_POLICY_SLACK = 0, PAGEHINT_POLICY_TIGHT = 1, PAGEHINT_POLICY_SHORT = 2 };

/**
 * pagehint_policy_targets - what each guest should have after this step
 * @host:        required
 * @guests:      array of n
 * @n:           how many, at most PAGEHINT_POLICY_GUESTS_MAX [guests]; 0 is allowed
 * @ret_targets: array of n [bytes]
 * @ret_state:   PAGEHINT_POLICY_SLACK, _TIGHT or _SHORT, of the plan; or NULL
 *
 * The same input gives the same output. Guests that hold what the plan says keep it.
 * Return: 0; -EINVAL a NULL, too many guests, a floor above the size, a weight above the most, align no power of two,
 * unknown flags or a reserved member that is not 0; -ERANGE the sizes do not add up in 64 bits; -E2BIG unknown non-zero tail
 * of `host`. On failure nothing is written.
 * Thread: any.   Cost: O(n) for each guest that fills up on the way: O(n * n) at worst.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_policy_targets(const struct pagehint_policy_host *host,
							     const struct pagehint_policy_guest *guests, uint32_t n,
							     uint64_t *ret_targets, uint32_t *ret_state);

PAGEHINT_END
#endif
