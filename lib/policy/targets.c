#include <pagehint/policy.h>

#include <errno.h>

#include "base/opts.h"

/* What one guest is to have at least and at most, in the state the host is in. */
struct bounds {
	uint64_t low;
	uint64_t high;
};

struct sums {
	uint64_t need;
	uint64_t floor;
	uint64_t held;
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t held_of(const struct pagehint_policy_guest *guest)
{
	return least(guest->held, guest->size);
}

static uint64_t need_of(const struct pagehint_policy_guest *guest)
{
	const uint64_t need = guest->flags & PAGEHINT_POLICY_NEED_UNKNOWN ? held_of(guest) : guest->need;
	return least(most(need, guest->floor), guest->size);
}

static uint64_t weight_of(const struct pagehint_policy_guest *guest)
{
	return guest->weight == 0 ? 1 : guest->weight;
}

static int add_up(const struct pagehint_policy_guest *guests, uint32_t n, struct sums *sums)
{
	uint64_t size = 0;
	*sums = (struct sums) { 0, 0, 0 };
	for (uint32_t i = 0; i < n; i++) {
		if (guests[i].floor > guests[i].size || (guests[i].flags & ~PAGEHINT_POLICY_NEED_UNKNOWN) != 0 ||
		    guests[i].reserved != 0 || guests[i].weight > PAGEHINT_POLICY_WEIGHT_MAX)
			return -EINVAL;
		if (size + guests[i].size < size)
			return -ERANGE;
		size += guests[i].size;
		sums->need += need_of(&guests[i]);
		sums->floor += guests[i].floor;
		sums->held += held_of(&guests[i]);
	}
	return 0;
}

static struct bounds bounds_of(const struct pagehint_policy_guest *guest, uint32_t state)
{
	if (state == PAGEHINT_POLICY_SLACK)
		return (struct bounds) { need_of(guest), guest->size };
	if (state == PAGEHINT_POLICY_TIGHT)
		return (struct bounds) { guest->floor, need_of(guest) };
	return (struct bounds) { 0, guest->floor };
}

/* room * share / shares, rounded down; share <= shares. Large shares lose their lowest bits, so that nothing overflows. */
static uint64_t part(uint64_t room, uint64_t share, uint64_t shares)
{
	uint32_t shift = 0;
	while (shares >> shift >> 31 != 0)
		shift++;
	const uint64_t whole = (shares >> shift) + (shift != 0), mine = share >> shift;
	return room / whole * mine + room % whole * mine / whole;
}

/*
 * The plan into targets[]: everybody's low bound, and `room` on top of it by weight, none above its high bound; whoever is full
 * leaves its part to the others. Only a pass that fills somebody makes another one necessary, so there are at most n.
 */
static void plan(const struct pagehint_policy_guest *guests, uint32_t n, uint32_t state, uint64_t room,
		 uint64_t *targets)
{
	for (uint32_t i = 0; i < n; i++)
		targets[i] = bounds_of(&guests[i], state).low;
	for (uint32_t pass = 0; pass <= n && room > 0; pass++) {
		uint64_t weights = 0, left = room;
		int filled = 0;
		for (uint32_t i = 0; i < n; i++)
			weights += targets[i] < bounds_of(&guests[i], state).high ? weight_of(&guests[i]) : 0;
		for (uint32_t i = 0; i < n; i++) {
			const uint64_t gap = bounds_of(&guests[i], state).high - targets[i];
			if (gap == 0 || part(room, weight_of(&guests[i]), weights) < gap)
				continue;
			targets[i] += gap;
			left -= gap;
			filled = 1;
		}
		if (!filled) {
			for (uint32_t i = 0; i < n; i++)
				if (targets[i] < bounds_of(&guests[i], state).high)
					targets[i] += part(room, weight_of(&guests[i]), weights);
			return;
		}
		room = left;
	}
}

/* Downwards, unless that breaks the low bound. */
static void align_plan(const struct pagehint_policy_host *host, const struct pagehint_policy_guest *guests, uint32_t n,
		       uint32_t state, uint64_t *targets)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t down = targets[i] & ~(host->align - 1);
		if (down >= bounds_of(&guests[i], state).low)
			targets[i] = down;
	}
}

/* Is the way from what the guest holds to the plan so short that it stays, and may it? */
static int stays(const struct pagehint_policy_host *host, const struct pagehint_policy_guest *guest, uint32_t state,
		 uint64_t planned)
{
	const struct bounds b = bounds_of(guest, state);
	const uint64_t held = held_of(guest), way = held > planned ? held - planned : planned - held;
	return way < host->band && held >= b.low && held <= b.high;
}

/* What those who are to grow lack of the plan. */
static uint64_t lacking(const struct pagehint_policy_host *host, const struct pagehint_policy_guest *guests, uint32_t n,
			uint32_t state, const uint64_t *targets)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++)
		if (targets[i] > held_of(&guests[i]) && !stays(host, &guests[i], state, targets[i]))
			sum += targets[i] - held_of(&guests[i]);
	return sum;
}

static uint64_t give(const struct pagehint_policy_host *host, uint64_t held, uint64_t planned)
{
	if (host->step == 0 || held - planned <= host->step)
		return planned;
	const uint64_t down = held - host->step, up = (down + host->align - 1) & ~(host->align - 1);
	return up >= down && up < held ? up : down; /* a step below the alignment, or at the end of numbers */
}

static uint64_t get(const struct pagehint_policy_host *host, uint64_t held, uint64_t planned, uint64_t room,
		    uint64_t lack)
{
	if (room >= lack)
		return planned;
	return most(held, (held + part(room, planned - held, lack)) & ~(host->align - 1));
}

/*
 * From the plan to the next step. Growth is paid from what is free now. While that is too little, or more is held than there is,
 * nobody may stay above its plan only because the way is short.
 */
static void step(const struct pagehint_policy_host *host, const struct pagehint_policy_guest *guests, uint32_t n,
		 uint32_t state, uint64_t available, uint64_t all_held, uint64_t *targets)
{
	const uint64_t room = available - least(all_held, available);
	const uint64_t lack = lacking(host, guests, n, state, targets);
	const int short_of_room = room < lack || all_held > available;
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t held = held_of(&guests[i]), planned = targets[i];
		const int stay = stays(host, &guests[i], state, planned);
		if (planned > held)
			targets[i] = stay ? held : get(host, held, planned, room, lack);
		else
			targets[i] = stay && !short_of_room ? held : give(host, held, planned);
	}
}

int pagehint_policy_targets(const struct pagehint_policy_host *host, const struct pagehint_policy_guest *guests,
			    uint32_t n, uint64_t *ret_targets, uint32_t *ret_state)
{
	struct pagehint_policy_host mine;
	struct sums sums;
	if (host == NULL || n > PAGEHINT_POLICY_GUESTS_MAX || (n > 0 && (guests == NULL || ret_targets == NULL)))
		return -EINVAL;
	int error = PH_OPTS_IN(mine, host);
	if (error == 0 && (mine.align & (mine.align - 1)) != 0)
		error = -EINVAL;
	if (error == 0)
		error = add_up(guests, n, &sums);
	if (error != 0)
		return error;
	mine.align = mine.align == 0 ? 1 : mine.align;
	const uint64_t available = mine.capacity - least(mine.reserve, mine.capacity);
	uint32_t state = PAGEHINT_POLICY_SHORT;
	uint64_t low = 0;
	if (sums.need <= available) {
		state = PAGEHINT_POLICY_SLACK;
		low = sums.need;
	} else if (sums.floor <= available) {
		state = PAGEHINT_POLICY_TIGHT;
		low = sums.floor;
	}
	plan(guests, n, state, available - low, ret_targets);
	align_plan(&mine, guests, n, state, ret_targets);
	step(&mine, guests, n, state, available, sums.held, ret_targets);
	if (ret_state != NULL)
		*ret_state = state;
	return 0;
}
