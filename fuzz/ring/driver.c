/*
 * The driver end against a device: used entries right and wrong, writes anywhere in the ring, calls in any order.
 * What must hold: every cookie that went in comes out exactly once, by reap or by take_back; no length is larger than what
 * was writable; a broken ring stays broken.
 */
#include "input.h"

#include "support/ring_rig.h"

#define COOKIES 4096u

struct world {
	struct ring_rig rig;
	uint32_t writable[COOKIES]; /* of the request with this cookie */
	unsigned char in[COOKIES];  /* 1 = in flight */
	uint32_t n_in, next;
};

static void submit(struct world *w, struct input *in)
{
	struct ph_ring_buffer buffers[8];
	uint32_t n = 1 + take8(in) % 8, n_readable = take8(in) % (n + 1), writable = 0;
	if (w->next == COOKIES)
		return;
	for (uint32_t i = 0; i < n; i++) {
		buffers[i] = (struct ph_ring_buffer) { .addr = w->rig.data + i * 16, .len = 1u + i };
		writable += i < n_readable ? 0 : buffers[i].len;
	}
	int err = ph_ring_driver_submit(&w->rig.driver, buffers, n_readable, n - n_readable, w->next);
	REQUIRE(err == 0 || err == -EAGAIN || err == -ENODEV || (err == -EINVAL && n > w->rig.size));
	if (err != 0)
		return;
	w->writable[w->next] = writable;
	w->in[w->next++] = 1;
	w->n_in++;
}

static void came_back(struct world *w, uint64_t cookie)
{
	REQUIRE(cookie < w->next && w->in[cookie]);
	w->in[cookie] = 0;
	w->n_in--;
}

static void reap(struct world *w)
{
	uint64_t cookie = 0;
	uint32_t used = 0;
	int was_broken = w->rig.driver.why != PH_RING_OK;
	int err = ph_ring_driver_reap(&w->rig.driver, &cookie, &used);
	if (err == 0) {
		came_back(w, cookie);
		REQUIRE(!was_broken && used <= w->writable[cookie]);
	} else if (err == -EPROTO) {
		REQUIRE(!was_broken && w->rig.driver.why != PH_RING_OK);
	} else {
		REQUIRE(err == (was_broken ? -ENODEV : -EAGAIN));
	}
}

/* a used entry: which one, how long, and (packed) where; often as it should be */
static void use(struct world *w, struct input *in)
{
	const struct ph_ring_driver *ring = &w->rig.driver;
	uint32_t how = take8(in), id = how & 1 ? take16(in) : take8(in) % w->rig.size, len = how & 2 ? take32(in) : 0;
	if (!(w->rig.form & PH_RING_PACKED)) {
		rig_use(&w->rig, id, len);
		return;
	}
	uint32_t at = how & 4 ? take8(in) % w->rig.size : PH_OFFSET(ring->used);
	rig_entry(&w->rig, at, 0, len, (uint16_t)id,
		  RIG_USED((how & 8 ? how >> 4 & 1 : ring->used >> 15) != 0) | (len != 0 ? PH_DESC_WRITE : 0));
}

static void scribble(struct world *w, struct input *in)
{
	uint64_t bytes = w->rig.data - RIG_BASE;
	uint32_t at = take16(in), n = take8(in) % 16;
	for (uint32_t i = 0; i < n; i++)
		w->rig.guest[(at + i) % bytes] = take8(in);
}

static void step(struct world *w, struct input *in)
{
	struct ph_ring_driver *ring = &w->rig.driver;
	switch (take8(in) % 8) {
	case 0:
	case 1:
		submit(w, in);
		break;
	case 2:
		REQUIRE(ph_ring_driver_publish(ring) <= 1);
		break;
	case 3:
		use(w, in);
		break;
	case 4:
	case 5:
		reap(w);
		break;
	case 6:
		scribble(w, in);
		break;
	default:
		if (take8(in) & 1)
			REQUIRE(ph_ring_driver_arm(ring) <= 1);
		else
			ph_ring_driver_disarm(ring);
		break;
	}
	REQUIRE(ring->in_flight == w->n_in && ph_ring_driver_room(ring) <= w->rig.size);
}

void fuzz_driver_end(struct input *in, uint32_t form, uint32_t size)
{
	static struct world w;
	uint64_t cookie = 0;
	memset(&w, 0, sizeof(w));
	rig_lay_out(&w.rig, form, size, size, 256);
	rig_open_driver(&w.rig, form & PH_RING_INDIRECT ? (size + 1) / 2 : 0, size);
	while (in->left != 0)
		step(&w, in);
	ph_ring_driver_stop(&w.rig.driver);
	while (ph_ring_driver_take_back(&w.rig.driver, &cookie) == 0)
		came_back(&w, cookie);
	REQUIRE(w.n_in == 0 && w.rig.driver.in_flight == 0);
	rig_close(&w.rig);
}
