/*
 * flush: stamps on frames, the clock, and what a batch makes of them.
 */
#include <errno.h>
#include <string.h>

#include "alloc/flush.h"
#include "alloc/ops.h"

/* ---- sections ---- */

/* A slot nobody uses; max_sections when there is none. Its stamps are all zero. */
static uint32_t claim_slot(struct pagehint_flush *f)
{
	_Atomic uint64_t *used = ph_flush_used(f);
	for (uint32_t i = 0; i < f->max_sections; i += 64) {
		uint32_t room = f->max_sections - i < 64 ? (uint32_t)f->max_sections - i : 64;
		uint64_t v = atomic_load(&used[i / 64]);
		while ((~v & ph_low_mask(room)) != 0) {
			uint64_t bit = ~v & (v + 1); /* lowest zero */
			if (atomic_compare_exchange_strong(&used[i / 64], &v, v | bit))
				return i + ph_ctz(bit);
		}
	}
	return (uint32_t)f->max_sections;
}

static void unclaim_slot(struct pagehint_flush *f, uint32_t slot)
{
	atomic_fetch_and(&ph_flush_used(f)[slot / 64], ~(UINT64_C(1) << slot % 64));
}

/* the stamps of a section; NULL = it has none */
static ph_stamp *find_stamps(const struct pagehint_flush *f, uint64_t section)
{
	uint32_t slot = atomic_load_explicit(&ph_flush_slots(f)[section], memory_order_acquire);
	return slot == 0 ? NULL : ph_flush_stamps(f, slot - 1);
}

/* The same, with a slot for a section that has none yet; NULL = no room. */
static ph_stamp *get_stamps(struct pagehint_flush *f, uint64_t section)
{
	ph_stamp *stamps = find_stamps(f, section);
	if (ph_likely(stamps != NULL))
		return stamps;
	uint32_t slot = claim_slot(f), none = 0;
	if (slot == f->max_sections)
		return find_stamps(f, section); /* somebody may have been quicker, and have the last slot */
	if (atomic_compare_exchange_strong(&ph_flush_slots(f)[section], &none, slot + 1))
		return ph_flush_stamps(f, slot);
	unclaim_slot(f, slot);
	return ph_flush_stamps(f, none - 1);
}

/* ---- stamping ---- */

static void stamp_word(const struct pagehint_flush *f, ph_stamp *word, uint64_t time)
{
	uint32_t mine = (uint32_t)time, old = atomic_load(word);
	while (old != mine) {
		/* read after `old`: neither lies ahead of it */
		uint64_t now = atomic_load(&f->clock);
		if (old != 0 && ph_flush_seen(old, now) > ph_flush_seen(mine, now))
			return;
		if (atomic_compare_exchange_strong(word, &old, mine))
			return;
	}
}

void ph_flush_stamp(struct pagehint_flush *f, uint64_t frame, uint64_t frames, uint64_t time)
{
	PH_FOR_SECTIONS (part, frame, frames) {
		ph_stamp *stamps = get_stamps(f, part.frame >> PH_SECTION_SHIFT);
		if (stamps == NULL) {
			ph_flush_raise(&f->rest, time);
			continue;
		}
		uint32_t last = (part.offset + part.frames - 1) >> PH_FLUSH_WORD_SHIFT;
		for (uint32_t i = part.offset >> PH_FLUSH_WORD_SHIFT; i <= last; i++)
			stamp_word(f, &stamps[i], time);
	}
}

/* The time of a free: a read-modify-write, see flush.h. */
static uint64_t stamp_time(struct pagehint_flush *f)
{
	return atomic_fetch_add(&f->clock, 0);
}

static int check_run(const struct pagehint_flush *f, uint64_t frame, uint64_t frames)
{
	if (frames == 0 || !ph_sum_fits(frame, frames))
		return -EINVAL;
	return frame + frames > f->span_sections << PH_SECTION_SHIFT ? -ERANGE : 0;
}

static int check_runs(const struct pagehint_flush *f, const struct pagehint_run *runs, uint32_t n)
{
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = check_run(f, runs[i].frame, runs[i].frames);
	return r;
}

static int check_blocks(const struct pagehint_flush *f, uint32_t order, uint32_t n, const uint64_t *frames)
{
	if (order > PAGEHINT_ORDER_MAX)
		return -EINVAL;
	uint64_t size = UINT64_C(1) << order, end = f->span_sections << PH_SECTION_SHIFT;
	for (uint32_t i = 0; i < n; i++) {
		if ((frames[i] & (size - 1)) != 0)
			return -EINVAL;
		if (frames[i] >= end) /* an aligned block that begins inside ends inside */
			return -ERANGE;
	}
	return 0;
}

/* How many blocks from frames[0] on lie in one word of 64 frames: they share a stamp. */
static uint32_t same_word(uint32_t order, uint32_t n, const uint64_t *frames)
{
	uint32_t i = 1;
	if (order < PH_FLUSH_WORD_SHIFT)
		while (i < n && frames[i] >> PH_FLUSH_WORD_SHIFT == frames[0] >> PH_FLUSH_WORD_SHIFT)
			i++;
	return i;
}

int pagehint_flush_freed(struct pagehint_flush *flush, const struct pagehint_run *runs, uint32_t n)
{
	int r = check_runs(flush, runs, n);
	if (r < 0)
		return r;
	uint64_t time = stamp_time(flush);
	for (uint32_t i = 0; i < n; i++)
		ph_flush_stamp(flush, runs[i].frame, runs[i].frames, time);
	return 0;
}

int pagehint_flush_freed_blocks(struct pagehint_flush *flush, uint32_t order, uint32_t n, const uint64_t *frames)
{
	int r = check_blocks(flush, order, n, frames);
	if (r < 0)
		return r;
	uint64_t time = stamp_time(flush);
	for (uint32_t i = 0; i < n; i += same_word(order, n - i, frames + i))
		ph_flush_stamp(flush, frames[i], UINT64_C(1) << order, time);
	return 0;
}

/* ---- a batch ---- */

void pagehint_flush_begin(struct pagehint_flush_filter *filter)
{
	memset(filter, 0, sizeof(*filter));
}

/* Adds the stamps first..last of a section. */
static void add_stamps(const struct pagehint_flush *f, struct pagehint_flush_filter *sum, const ph_stamp *stamps,
		       uint32_t first, uint32_t last)
{
	uint32_t before = 0;
	sum->words += last - first + 1;
	for (uint32_t i = first; i <= last; i++) {
		uint32_t stamp = atomic_load_explicit(&stamps[i], memory_order_acquire);
		if (stamp == before)
			continue;
		before = stamp;
		/* the clock is read after the stamp, so the stamp does not lie ahead of it */
		uint64_t time = stamp == 0 ? 0 : ph_flush_seen(stamp, atomic_load(&f->clock));
		if (time > sum->newest)
			sum->newest = time;
	}
}

static void add_run(const struct pagehint_flush *f, struct pagehint_flush_filter *sum, uint64_t frame, uint64_t frames)
{
	PH_FOR_SECTIONS (part, frame, frames) {
		uint32_t first = part.offset >> PH_FLUSH_WORD_SHIFT;
		uint32_t last = (part.offset + part.frames - 1) >> PH_FLUSH_WORD_SHIFT;
		const ph_stamp *stamps = find_stamps(f, part.frame >> PH_SECTION_SHIFT);
		if (stamps != NULL)
			add_stamps(f, sum, stamps, first, last);
	}
}

static void add_rest(const struct pagehint_flush *f, struct pagehint_flush_filter *sum)
{
	uint64_t rest = atomic_load(&f->rest);
	if (rest > sum->newest)
		sum->newest = rest;
}

int pagehint_flush_add(const struct pagehint_flush *flush, struct pagehint_flush_filter *filter,
		       const struct pagehint_run *runs, uint32_t n)
{
	int r = check_runs(flush, runs, n);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++)
		add_run(flush, filter, runs[i].frame, runs[i].frames);
	if (n != 0)
		add_rest(flush, filter);
	return 0;
}

int pagehint_flush_add_blocks(const struct pagehint_flush *flush, struct pagehint_flush_filter *filter, uint32_t order,
			      uint32_t n, const uint64_t *frames)
{
	int r = check_blocks(flush, order, n, frames);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i += same_word(order, n - i, frames + i))
		add_run(flush, filter, frames[i], UINT64_C(1) << order);
	if (n != 0)
		add_rest(flush, filter);
	return 0;
}

/* bits of the up to 64 CPUs from `first` on that have not flushed since `newest` */
static uint64_t stale_cpus(const struct pagehint_flush *f, uint32_t first, uint64_t newest)
{
	const _Atomic uint64_t *cpus = ph_flush_cpus(f) + first;
	uint32_t n = f->cpus - first < 64 ? f->cpus - first : 64;
	uint64_t bits = 0;
	for (uint32_t i = 0; i < n; i++)
		bits |= (uint64_t)(atomic_load_explicit(&cpus[i], memory_order_acquire) <= newest) << i;
	return bits;
}

int pagehint_flush_need(const struct pagehint_flush *flush, const struct pagehint_flush_filter *filter,
			const uint64_t *among, uint32_t words, uint64_t *ret_cpus, uint32_t *ret_n)
{
	uint32_t n = 0;
	if (words < (flush->cpus + 63) / 64)
		return -EINVAL;
	for (uint32_t i = 0; i < words; i++) {
		uint64_t asked = among == NULL ? PH_FULL : among[i], bits = 0;
		if (filter->newest != 0 && (uint64_t)i * 64 < flush->cpus && asked != 0)
			bits = stale_cpus(flush, i * 64, filter->newest) & asked;
		ret_cpus[i] = bits;
		n += ph_popcount(bits);
	}
	if (ret_n != NULL)
		*ret_n = n;
	return 0;
}

/* ---- the clock ---- */

uint64_t pagehint_flush_tick(struct pagehint_flush *flush)
{
	uint64_t old = atomic_load(&flush->clock), next;
	do {
		next = old + 1;
		if ((uint32_t)next == 0)
			next++;
	} while (!atomic_compare_exchange_strong(&flush->clock, &old, next));
	return next;
}

int pagehint_flush_done(struct pagehint_flush *flush, uint32_t cpu, uint64_t tick)
{
	if (cpu >= flush->cpus)
		return -ERANGE;
	if (tick == 0 || tick > atomic_load(&flush->clock))
		return -EINVAL;
	ph_flush_raise(&ph_flush_cpus(flush)[cpu], tick);
	return 0;
}

uint64_t pagehint_flush_clock(const struct pagehint_flush *flush)
{
	return atomic_load(&flush->clock);
}

/* ---- sections that go ---- */

static void remove_section(struct pagehint_flush *f, uint64_t section)
{
	uint32_t slot = atomic_load(&ph_flush_slots(f)[section]);
	if (slot == 0)
		return;
	ph_stamp *stamps = ph_flush_stamps(f, slot - 1);
	struct pagehint_flush_filter sum = { 0, 0 };
	add_stamps(f, &sum, stamps, 0, PH_FLUSH_STAMPS - 1);
	ph_flush_raise(&f->rest, sum.newest);
	atomic_store(&ph_flush_slots(f)[section], 0);
	for (uint32_t i = 0; i < PH_FLUSH_STAMPS; i++)
		atomic_store_explicit(&stamps[i], 0, memory_order_relaxed);
	unclaim_slot(f, slot - 1);
}

int pagehint_flush_remove(struct pagehint_flush *flush, uint64_t frame, uint64_t frames)
{
	int r = check_run(flush, frame, frames);
	if (((frame | frames) & (PAGEHINT_SECTION_FRAMES - 1)) != 0)
		r = -EINVAL;
	if (r < 0)
		return r;
	for (uint64_t s = frame >> PH_SECTION_SHIFT; s < (frame + frames) >> PH_SECTION_SHIFT; s++)
		remove_section(flush, s);
	return 0;
}
