/*
 * The device end against a guest: writes anywhere in guest memory, well-made and ill-made descriptors, calls in any order.
 * What must hold: guest memory changes only where the device may write; tickets are completed once; the sums of a chain are
 * those of its segments; a broken ring stays broken.
 */
#include "input.h"

#include "support/ring_rig.h"

#define DATA 512u
#define TICKETS 16u

struct world {
	struct ring_rig rig;
	unsigned char *shadow; /* guest memory as it may be */
	uint64_t tickets[TICKETS];
	uint32_t n_tickets;
	int rereads; /* heads came in that avail does not count */
	int meddles; /* the guest writes while its table is looked up */
	uint8_t meddling;
};

/* the guest's own writes are legal everywhere */
static void guest_wrote(struct world *w)
{
	memcpy(w->shadow, w->rig.guest, w->rig.guest_bytes);
}

static int host(void *ctx, uint64_t addr, uint64_t bytes, int want_write, void **ret_host)
{
	struct world *w = ctx;
	if (w->meddles && !want_write) {
		uint64_t at = (uint64_t)w->meddling++ * 13 % w->rig.guest_bytes;
		w->rig.guest[at] ^= 0x55;
		w->shadow[at] ^= 0x55;
	}
	return rig_host(&w->rig, addr, bytes, want_write, ret_host);
}

static void forgive(struct world *w, const void *area, uint64_t bytes)
{
	size_t at = (size_t)((const unsigned char *)area - w->rig.guest);
	memcpy(w->shadow + at, area, bytes);
}

/* The device may write its own area, and a packed descriptor ring. */
static void require_untouched(struct world *w)
{
	forgive(w, w->rig.place.device, w->rig.place.device_bytes);
	if (w->rig.form & PH_RING_PACKED)
		forgive(w, w->rig.place.desc, w->rig.place.desc_bytes);
	REQUIRE(memcmp(w->shadow, w->rig.guest, w->rig.guest_bytes) == 0);
}

static void scribble(struct world *w, struct input *in)
{
	uint32_t at = take16(in), n = take8(in) % 32;
	for (uint32_t i = 0; i < n; i++)
		w->rig.guest[(at + i) % w->rig.guest_bytes] = take8(in);
	guest_wrote(w);
}

/* a descriptor somewhere, with an address that is often good */
static void describe(struct world *w, struct input *in)
{
	static const uint32_t lens[] = { 0, 1, 16, 32, 48, 80, 512, 4096, 0x7fffffff, 0xffffffff };
	uint64_t addr = RIG_BASE + take16(in) % (w->rig.guest_bytes + 64);
	uint8_t how = take8(in);
	if ((how & 0xf0) == 0xf0)
		addr = UINT64_MAX - take16(in);
	uint32_t len = lens[how & 15 ? (how & 15) % 10 : 2], i = take8(in), flags = take8(in);
	void *table = how & 0x20 ? rig_at(&w->rig, w->rig.data) : w->rig.place.desc;
	i %= how & 0x20 ? DATA / 16 : w->rig.size;
	if (w->rig.form & PH_RING_PACKED) /* the fields after len stand the other way round */
		rig_desc(table, i, addr, len, take8(in),
			 (uint16_t)((flags & 7) | (flags & 0x80) | (flags & 0x40) << 9));
	else
		rig_desc(table, i, addr, len, (uint16_t)(flags & 7), take8(in) % (uint16_t)(w->rig.size + 1));
	guest_wrote(w);
}

static void offer(struct world *w, struct input *in)
{
	uint32_t head = take8(in);
	if (w->rig.form & PH_RING_PACKED) {
		struct ph_packed_desc *desc = (struct ph_packed_desc *)w->rig.place.desc + head % w->rig.size;
		ph_le16_put(&desc->flags, (uint16_t)((ph_le16_get(&desc->flags) & 7) | RIG_OFFERED(head & 0x80)));
	} else {
		rig_offer(&w->rig, (uint16_t)(head % (w->rig.size + 1)));
	}
	guest_wrote(w);
}

static void use_chain(struct world *w, const struct ph_chain *chain)
{
	unsigned char bytes[256] = { 0 };
	uint64_t readable = 0, writable = 0;
	size_t n = 0;
	for (uint32_t i = 0; i < chain->n_readable + chain->n_writable; i++) {
		const struct ph_segment *segment = &chain->segments[i];
		REQUIRE(segment->writable == (i >= chain->n_readable));
		REQUIRE(segment->addr + segment->len >= segment->addr);
		*(segment->writable ? &writable : &readable) += segment->len;
	}
	REQUIRE(readable == chain->readable_bytes && writable == chain->writable_bytes);
	REQUIRE(readable + writable <= PH_RING_BYTES_MAX && chain->n_readable + chain->n_writable != 0);
	REQUIRE(chain->n_readable + chain->n_writable <= w->rig.size && chain->n_descs <= w->rig.size);
	int err = ph_chain_read(&w->rig.device, chain, readable / 3, bytes, sizeof(bytes), &n);
	REQUIRE(n <= sizeof(bytes) && (err == 0 || err == -ERANGE));
	err = ph_chain_write(&w->rig.device, chain, 0, bytes, 100, &n);
	REQUIRE(n <= 100 && n <= writable && (err == 0 || err == -ERANGE));
	for (uint32_t i = chain->n_readable; i < chain->n_readable + chain->n_writable; i++) {
		uint64_t part = chain->segments[i].len < n ? chain->segments[i].len : n;
		if (part != 0)
			forgive(w, rig_at(&w->rig, chain->segments[i].addr), part);
		n -= part;
	}
}

static void remember(struct world *w, const struct ph_chain *chain)
{
	REQUIRE(w->n_tickets < TICKETS); /* no more than the ring has entries */
	w->tickets[w->n_tickets++] = chain->ticket;
	use_chain(w, chain);
}

static void pop(struct world *w, struct input *in)
{
	struct ph_chain chain;
	uint32_t budget = take8(in) % 4, before = budget;
	int was_broken = w->rig.device.why != PH_RING_OK;
	int err = ph_ring_device_pop(&w->rig.device, &budget, &chain);
	if (err == 0) {
		REQUIRE(!was_broken && before != 0 && budget < before);
		remember(w, &chain);
	} else if (err == -EPROTO) {
		REQUIRE(!was_broken && w->rig.device.why != PH_RING_OK);
	} else {
		REQUIRE(was_broken ? err == -ENODEV : err == -ENOENT || err == -EAGAIN);
	}
}

static void forget(struct world *w, uint32_t i)
{
	w->tickets[i] = w->tickets[--w->n_tickets];
}

static void complete(struct world *w, struct input *in, int unpop)
{
	uint32_t i = take8(in);
	uint64_t ticket = i < w->n_tickets ? w->tickets[i] : take32(in);
	int known = 0;
	for (uint32_t k = 0; k < w->n_tickets; k++)
		known |= w->tickets[k] == ticket;
	int err = unpop ? ph_ring_device_unpop(&w->rig.device, ticket)
			: ph_ring_device_complete(&w->rig.device, ticket, take16(in));
	REQUIRE(err == 0 ? known : err == -EALREADY || err == -ENODEV);
	REQUIRE(err != -EALREADY || unpop || !known);
	if (err == 0)
		REQUIRE(ph_ring_device_complete(&w->rig.device, ticket, 0) == -EALREADY);
	for (uint32_t k = 0; err == 0 && k < w->n_tickets; k++)
		if (w->tickets[k] == ticket)
			forget(w, k--);
}

/* to another ring in the same place, with what is in flight; the guest keeps its memory */
static void move_over(struct world *w)
{
	struct ph_ring_device old = w->rig.device;
	struct ph_ring_position position;
	struct ph_ring_held held;
	void *memory = w->rig.device_memory;
	ph_ring_device_position(&old, &position);
	rig_open_device(&w->rig);
	w->rig.device.memory = (struct ph_guest_memory) { .ctx = w, .host = host };
	REQUIRE(ph_ring_device_restore(&w->rig.device, &position) == 0 || w->rereads);
	w->n_tickets = 0;
	for (uint32_t i = 0; ph_ring_device_held(&old, i, &held) == 0; i++) {
		int err = ph_ring_device_adopt(&w->rig.device, &held, &w->tickets[w->n_tickets]);
		w->n_tickets += err == 0;
		REQUIRE(err == 0 || err == -ENOSPC); /* heads of a hostile guest may share descriptors */
	}
	free(memory);
}

static void reread(struct world *w, struct input *in)
{
	struct ph_chain chain;
	if (ph_ring_device_reread(&w->rig.device, take8(in) % 9, &chain) != 0)
		return;
	w->rereads = 1;
	remember(w, &chain);
}

static void step(struct world *w, struct input *in)
{
	struct ph_ring_device *ring = &w->rig.device;
	switch (take8(in) % 12) {
	case 0:
		scribble(w, in);
		break;
	case 1:
	case 2:
		describe(w, in);
		break;
	case 3:
		offer(w, in);
		break;
	case 4:
	case 5:
		pop(w, in);
		break;
	case 6:
		complete(w, in, 0);
		break;
	case 7:
		complete(w, in, 1);
		break;
	case 8:
		REQUIRE(ph_ring_device_flush(ring) <= 1);
		break;
	case 9:
		if (take8(in) & 1)
			REQUIRE(ph_ring_device_arm(ring) <= 1);
		else
			ph_ring_device_disarm(ring);
		break;
	case 10:
		reread(w, in);
		break;
	default:
		if (ring->staged == 0)
			move_over(w);
		break;
	}
	require_untouched(w);
	REQUIRE(w->rig.device.out == w->n_tickets && w->n_tickets <= w->rig.size);
}

void fuzz_device_end(struct input *in, uint32_t form, uint32_t size)
{
	struct world w = { .meddles = take8(in) & 1 };
	rig_lay_out(&w.rig, form, size, 0, DATA);
	w.shadow = malloc(w.rig.guest_bytes);
	rig_open_device(&w.rig);
	w.rig.device.memory = (struct ph_guest_memory) { .ctx = &w, .host = host };
	guest_wrote(&w);
	while (in->left != 0)
		step(&w, in);
	free(w.shadow);
	rig_close(&w.rig);
}
