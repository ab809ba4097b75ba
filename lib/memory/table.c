#include "memory/table.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"

#define SLOT_BITS 16
#define LIVE (UINT64_C(1) << 31)
#define COUNT (LIVE - 1) /* of a use word */
#define TRIES 16

static uint64_t tag_of(uint64_t id)
{
	return id >> SLOT_BITS << 32;
}

/* Readers race writers on these: acquire and release make a changed value drag the changed version along. */
#define get(field) atomic_load_explicit(&(field), memory_order_acquire)
#define put(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

static void lock(struct ph_table *t)
{
	while (atomic_exchange_explicit(&t->locked, 1, memory_order_acquire) != 0)
		while (atomic_load_explicit(&t->locked, memory_order_relaxed) != 0) {
		}
}

static void unlock(struct ph_table *t)
{
	atomic_store_explicit(&t->locked, 0, memory_order_release);
}

/* NULL: no region ever has this id. Tag 0 marks slots that belong to nobody, so an id that has it would find one. */
static struct ph_slot *slot_of(struct ph_table *t, uint64_t id)
{
	uint64_t i = id & ((1u << SLOT_BITS) - 1);
	return i < t->max && tag_of(id) != 0 ? &t->slots[i] : NULL;
}

/* ---- orders ---- */

static struct ph_order *order_at(struct ph_table *t, uint64_t version)
{
	return &t->orders[version >> 1 & 1];
}

/* The order that was current at `seen` is rewritten by the second change from there on. */
static int unchanged(struct ph_table *t, uint64_t seen)
{
	return atomic_load(&t->version) - (seen & ~UINT64_C(1)) < 3;
}

static struct ph_slot *ordered(struct ph_table *t, struct ph_order *o, uint32_t i)
{
	return &t->slots[get(o->slots[i])];
}

/* How many regions start at or before `frame`. */
static uint32_t starts_before(struct ph_table *t, struct ph_order *o, uint64_t frame)
{
	uint32_t low = 0, high = get(o->n);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (get(ordered(t, o, middle)->frame) <= frame)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void copy_out(struct ph_slot *s, struct ph_region *r)
{
	r->id = get(s->id);
	r->frame = get(s->frame);
	r->frames = get(s->frames);
	r->host_addr = get(s->host_addr);
	r->fd_offset = get(s->fd_offset);
	r->host_page_bytes = get(s->host_page_bytes);
	r->least_bytes = get(s->least_bytes);
	r->fd = (int32_t)get(s->fd);
	r->backing = get(s->backing);
	r->flags = get(s->flags);
	/* an address is kept as a number, since C11 has no atomic pointer to an atomic that every compiler takes */
	r->replaced = (_Atomic uint64_t *)get(s->replaced);
}

static int search_frame(struct ph_table *t, struct ph_order *o, uint64_t frame, int next, struct ph_region *r)
{
	uint32_t i = starts_before(t, o, frame);
	if (i > 0) {
		copy_out(ordered(t, o, i - 1), r);
		if (frame - r->frame < r->frames)
			return 0;
	}
	if (!next || i >= get(o->n))
		return -ERANGE;
	copy_out(ordered(t, o, i), r);
	return 0;
}

static int search_host(struct ph_table *t, struct ph_order *o, uint64_t addr, struct ph_region *r)
{
	uint32_t n = get(o->n);
	for (uint32_t i = 0; i < n; i++) {
		struct ph_slot *s = ordered(t, o, i);
		uint64_t start = get(s->host_addr);
		if (start != 0 && addr >= start && addr - start < get(s->frames) << t->frame_shift) {
			copy_out(s, r);
			return 0;
		}
	}
	return -ERANGE;
}

static int search(struct ph_table *t, struct ph_order *o, uint32_t how, uint64_t key, struct ph_region *r)
{
	return how == PH_FIND_HOST ? search_host(t, o, key, r) : search_frame(t, o, key, how == PH_FIND_NEXT, r);
}

int ph_table_find(struct ph_table *t, uint32_t how, uint64_t key, struct ph_region *ret_region)
{
	struct ph_region found;
	int r = -ERANGE, settled = 0;
	for (int tries = 0; tries < TRIES && !settled; tries++) {
		uint64_t seen = atomic_load(&t->version);
		r = search(t, order_at(t, seen), how, key, &found);
		settled = unchanged(t, seen);
	}
	if (!settled) { /* overtaken again and again: stand in line once */
		lock(t);
		r = search(t, order_at(t, atomic_load(&t->version)), how, key, &found);
		unlock(t);
	}
	if (r == 0)
		*ret_region = found;
	return r;
}

uint32_t ph_table_regions(struct ph_table *t)
{
	return get(order_at(t, atomic_load(&t->version))->n);
}

/* ---- changes, under the lock ---- */

/* Fills the idle order with the current one, less the slot `without`, plus the slot `with` at place `at`. */
static void rewrite(struct ph_table *t, uint32_t without, uint32_t with, uint32_t at)
{
	uint64_t version = atomic_load(&t->version);
	struct ph_order *from = order_at(t, version), *to = order_at(t, version + 2);
	uint32_t n = get(from->n), filled = 0;
	for (uint32_t i = 0; i <= n; i++) {
		if (i == at)
			put(to->slots[filled++], with);
		if (i < n && get(from->slots[i]) != without)
			put(to->slots[filled++], get(from->slots[i]));
	}
	put(to->n, filled);
}

static int overlaps(struct ph_table *t, const struct ph_region *r)
{
	struct ph_order *o = order_at(t, atomic_load(&t->version));
	uint64_t bytes = r->frames << t->frame_shift;
	uint32_t n = get(o->n);
	for (uint32_t i = 0; i < n; i++) {
		struct ph_slot *s = ordered(t, o, i);
		uint64_t frame = get(s->frame), frames = get(s->frames), addr = get(s->host_addr);
		if (r->frame < frame + frames && frame < r->frame + r->frames)
			return 1;
		if (r->host_addr != 0 && addr != 0 && r->host_addr < addr + (frames << t->frame_shift) &&
		    addr < r->host_addr + bytes)
			return 1;
	}
	return 0;
}

static uint32_t free_slot(struct ph_table *t)
{
	for (uint32_t i = 0; i < t->max; i++)
		if ((atomic_load(&t->slots[i].use) & LIVE) == 0)
			return i;
	return t->max;
}

static void fill(struct ph_slot *s, const struct ph_region *r, uint64_t id, uint32_t pins)
{
	put(s->id, id);
	put(s->frame, r->frame);
	put(s->frames, r->frames);
	put(s->host_addr, r->host_addr);
	put(s->fd_offset, r->fd_offset);
	put(s->host_page_bytes, r->host_page_bytes);
	put(s->least_bytes, r->least_bytes);
	put(s->fd, (uint32_t)r->fd);
	put(s->backing, r->backing);
	put(s->flags, r->flags);
	put(s->replaced, (uintptr_t)r->replaced);
	atomic_store(&s->pins, tag_of(id) | pins);
	atomic_store(&s->use, tag_of(id) | LIVE);
}

static int add_locked(struct ph_table *t, const struct ph_region *r, uint32_t pins, uint64_t *ret_id)
{
	if (overlaps(t, r))
		return -EEXIST;
	uint32_t slot = free_slot(t);
	if (slot == t->max)
		return -ENOSPC;
	t->sequence++;
	if ((uint32_t)t->sequence == 0) /* tag 0 is nobody's */
		t->sequence++;
	uint64_t id = t->sequence << SLOT_BITS | slot;
	uint32_t at = starts_before(t, order_at(t, atomic_load(&t->version)), r->frame);
	atomic_fetch_add(&t->version, 1);
	fill(&t->slots[slot], r, id, pins);
	rewrite(t, t->max, slot, at);
	atomic_fetch_add(&t->version, 1);
	*ret_id = id;
	return 0;
}

int ph_table_add(struct ph_table *t, const struct ph_region *region, uint32_t pins, uint64_t *ret_id)
{
	lock(t);
	int r = add_locked(t, region, pins, ret_id);
	unlock(t);
	return r;
}

/* The swap succeeds only while nobody is inside, and from then on nobody gets in. */
static int retire(struct ph_slot *s, uint64_t id)
{
	uint64_t use = tag_of(id) | LIVE;
	if (get(s->id) != id)
		return -ERANGE;
	if (atomic_compare_exchange_strong(&s->use, &use, 0))
		return 0;
	return (use & ~COUNT) == (tag_of(id) | LIVE) ? -EBUSY : -ERANGE;
}

int ph_table_remove(struct ph_table *t, uint64_t id, struct ph_region *ret_region)
{
	struct ph_slot *s = slot_of(t, id);
	if (s == NULL)
		return -ERANGE;
	lock(t);
	int r = retire(s, id);
	if (r == 0) {
		atomic_store(&s->pins, 0);
		copy_out(s, ret_region);
		atomic_fetch_add(&t->version, 1);
		rewrite(t, (uint32_t)(s - t->slots), 0, UINT32_MAX);
		atomic_fetch_add(&t->version, 1);
	}
	unlock(t);
	return r;
}

/* ---- counting ---- */

static int is_pinned(struct ph_slot *s, uint64_t id)
{
	return atomic_load(&s->pins) != tag_of(id);
}

int ph_table_enter(struct ph_table *t, uint64_t id)
{
	struct ph_slot *s = slot_of(t, id);
	uint64_t use = atomic_load(&s->use);
	do {
		if ((use & ~COUNT) != (tag_of(id) | LIVE))
			return -ERANGE;
		/* looked at before counting, so that a pinned region drains however often somebody tries */
		if (is_pinned(s, id))
			return -EBUSY;
	} while (!atomic_compare_exchange_weak(&s->use, &use, use + 1));
	/* looked at after counting: either this sees the pin, or the pin sees this */
	if (is_pinned(s, id)) {
		atomic_fetch_sub(&s->use, 1);
		return -EBUSY;
	}
	return 0;
}

void ph_table_leave(struct ph_table *t, uint64_t id)
{
	atomic_fetch_sub(&slot_of(t, id)->use, 1);
}

int ph_table_pin(struct ph_table *t, uint64_t id, uint64_t *ret_in_flight)
{
	struct ph_slot *s = slot_of(t, id);
	if (s == NULL)
		return -ERANGE;
	uint64_t pins = atomic_load(&s->pins);
	do {
		if (get(s->id) != id || pins >> 32 << 32 != tag_of(id))
			return -ERANGE;
	} while ((uint32_t)pins != UINT32_MAX && !atomic_compare_exchange_weak(&s->pins, &pins, pins + 1));
	uint64_t use = atomic_load(&s->use);
	*ret_in_flight = (use & ~COUNT) == (tag_of(id) | LIVE) ? use & COUNT : 0;
	return 0;
}

int ph_table_unpin(struct ph_table *t, uint64_t id)
{
	struct ph_slot *s = slot_of(t, id);
	if (s == NULL)
		return -ERANGE;
	uint64_t pins = atomic_load(&s->pins);
	do {
		if (get(s->id) != id || pins >> 32 << 32 != tag_of(id))
			return -ERANGE;
		if ((uint32_t)pins == 0)
			return -EALREADY;
	} while ((uint32_t)pins != UINT32_MAX && !atomic_compare_exchange_weak(&s->pins, &pins, pins - 1));
	return 0;
}

void ph_table_counts(struct ph_table *t, uint64_t id, uint64_t *ret_pins, uint64_t *ret_in_flight)
{
	struct ph_slot *s = slot_of(t, id);
	uint64_t pins = atomic_load(&s->pins), use = atomic_load(&s->use);
	*ret_pins = pins >> 32 << 32 == tag_of(id) ? (uint32_t)pins : 0;
	*ret_in_flight = (use & ~COUNT) == (tag_of(id) | LIVE) ? use & COUNT : 0;
}

/* ---- storage ---- */

static size_t order_bytes(uint32_t max)
{
	return (size_t)ph_round_up((uint64_t)max * sizeof(_Atomic uint32_t), 64);
}

size_t ph_table_bytes(uint32_t max)
{
	return (size_t)ph_round_up((uint64_t)max * sizeof(struct ph_slot), 64) + 2 * order_bytes(max);
}

void ph_table_init(struct ph_table *t, void *memory, uint32_t max, uint32_t frame_shift)
{
	unsigned char *at = memory;
	memset(at, 0, ph_table_bytes(max));
	atomic_init(&t->version, 0);
	atomic_init(&t->locked, 0);
	t->max = max;
	t->frame_shift = frame_shift;
	t->sequence = 0;
	for (int i = 0; i < 2; i++) {
		t->orders[i].slots = (void *)at;
		atomic_init(&t->orders[i].n, 0);
		at += order_bytes(max);
	}
	t->slots = (void *)at;
}
