/*
 * A memory map beside an oracle that keeps regions in an array: adding what is there and what is not, removing, pinning, discards
 * that enter and leave, and every way to look something up. Now and then the kernel's list of mappings is any bytes.
 */
#include <errno.h>

#include "memory/map.h"
#include "world.h"

#define REGIONS 6u
#define DEAD 16u

struct region {
	uint64_t id, frame, frames, host_addr, fd_offset;
	int32_t fd;
	uint32_t backing, flags;
	uint64_t pins, in_flight;
};

static struct {
	struct world world;
	struct pagehint_map *map;
	uint32_t shift;
	uint64_t page_bytes;
	struct region regions[REGIONS];
	uint32_t n;
	uint64_t dead[DEAD];
	uint32_t n_dead;
} m;

static uint64_t end_of(const struct region *r)
{
	return r->frame + r->frames;
}

static struct region *region_at(uint64_t frame)
{
	for (uint32_t i = 0; i < m.n; i++)
		if (frame >= m.regions[i].frame && frame < end_of(&m.regions[i]))
			return &m.regions[i];
	return NULL;
}

/* the first that ends after `frame` */
static struct region *region_next(uint64_t frame)
{
	struct region *best = NULL;
	for (uint32_t i = 0; i < m.n; i++)
		if (end_of(&m.regions[i]) > frame && (best == NULL || m.regions[i].frame < best->frame))
			best = &m.regions[i];
	return best;
}

static struct region *region_host(uint64_t addr)
{
	for (uint32_t i = 0; i < m.n; i++) {
		struct region *r = &m.regions[i];
		if (r->host_addr != 0 && addr >= r->host_addr && addr < r->host_addr + (r->frames << m.shift))
			return r;
	}
	return NULL;
}

/* ---- adding ---- */

/* page numbers near what is there, now and then far away */
static uint64_t any_frame(struct input *in)
{
	uint64_t how = take(in, 1);
	return how == 0xff ? UINT64_MAX - take(in, 1) : how == 0xfe ? take(in, 8) : how;
}

static struct pagehint_region_desc any_desc(struct input *in)
{
	struct pagehint_region_desc d = { .struct_size = sizeof(d) };
	uint64_t how = take(in, 1);
	d.frame = any_frame(in);
	d.frames = take(in, 1) % 48 * ((how & 1) ? 1 : 4);
	d.host_addr = (WORLD_PAGE + take(in, 1)) * 4096;
	d.fd = (int32_t)(take(in, 1) % 8) + 3; /* 3, 4: no such descriptor; 9: none is meant */
	d.fd_offset = take(in, 1) * 4096;
	if ((how & 2) != 0 && d.host_addr >= (WORLD_PAGE + 104) * 4096) { /* the file's own place, and the right one */
		uint64_t page = d.host_addr / 4096 - WORLD_PAGE;
		d.fd = page < 168 ? 5 : page < 200 ? 6 : 7;
		d.fd_offset = (page < 168 ? page - 104 + 8 : page < 200 ? page - 168 : page - 200) * 4096;
	}
	if (d.fd >= 9 || (how & 6) == 0) {
		d.fd = -1;
		d.fd_offset = 0;
	}
	if (d.fd == WORLD_GUEST_FD)
		d.host_addr = 0;
	if ((how & 0x30) == 0x30)
		d.backing = (uint32_t)take(in, 1) % 8;
	d.flags = (how & 0x40) ? (uint32_t)take(in, 1) & 31 : 0;
	if ((how & 0x80) != 0 && take(in, 1) < 32) { /* something odd */
		uint64_t *fields[] = { &d.frame, &d.frames, &d.host_addr, &d.fd_offset };
		*fields[take(in, 1) % 4] = take(in, 8);
		d.reserved = take(in, 1) == 1;
	}
	return d;
}

/* What a plain reading of map.h gives for a description. */
static int judge_desc(const struct pagehint_region_desc *d, uint32_t *ret_backing, uint32_t *ret_flags)
{
	const uint32_t claims = PAGEHINT_REGION_UFFD_OWN | PAGEHINT_REGION_PIN_AT_ADD;
	__uint128_t bytes = (__uint128_t)d->frames << m.shift, end = ((__uint128_t)d->frame + d->frames) << m.shift;
	if (bytes == 0 || end > UINT64_MAX || bytes + d->host_addr > UINT64_MAX || bytes > INT64_MAX)
		return -EINVAL;
	if ((__uint128_t)d->fd_offset + bytes > INT64_MAX || (d->fd == -1 && d->fd_offset != 0) || d->reserved != 0)
		return -EINVAL;
	if (d->backing >= PAGEHINT_BACKING_COUNT || (d->flags & ~claims) != 0)
		return -EINVAL;
	if (((d->frame << m.shift | (uint64_t)bytes | d->host_addr | d->fd_offset) & (m.page_bytes - 1)) != 0)
		return -EINVAL;
	if (m.world.pid != 7)
		return -ENODEV;
	int r = world_judge(d, (uint64_t)bytes, ret_backing, ret_flags);
	if (r == 0 && d->backing != PAGEHINT_BACKING_AUTO && d->backing != *ret_backing)
		return -EINVAL;
	if (r == 0 && m.world.no_memory && *ret_backing == PAGEHINT_BACKING_FILE_PRIVATE)
		return -ENOMEM;
	return r;
}

static int overlaps(const struct pagehint_region_desc *d)
{
	for (uint32_t i = 0; i < m.n; i++) {
		const struct region *r = &m.regions[i];
		if (d->frame < end_of(r) && r->frame < d->frame + d->frames)
			return 1;
		if (d->host_addr != 0 && r->host_addr != 0 && d->host_addr < r->host_addr + (r->frames << m.shift) &&
		    r->host_addr < d->host_addr + (d->frames << m.shift))
			return 1;
	}
	return 0;
}

static void add(struct input *in)
{
	struct pagehint_region_desc d = any_desc(in);
	uint32_t backing = 0, flags = 0;
	uint64_t id = UINT64_MAX;
	int wanted = judge_desc(&d, &backing, &flags);
	if (wanted == 0)
		wanted = overlaps(&d) ? -EEXIST : m.n == REGIONS ? -ENOSPC : 0;
	int r = pagehint_map_add(m.map, &d, &id);
	if (r != wanted)
		fprintf(stderr, "add: %d instead of %d\n", r, wanted);
	SURE(r == wanted && (r == 0 || id == UINT64_MAX));
	if (r != 0)
		return;
	for (uint32_t i = 0; i < m.n; i++)
		SURE(m.regions[i].id != id);
	for (uint32_t i = 0; i < m.n_dead; i++)
		SURE(m.dead[i] != id);
	if ((d.flags & PAGEHINT_REGION_UFFD_OWN) != 0)
		flags = (flags & ~PAGEHINT_REGION_UFFD) | PAGEHINT_REGION_UFFD_OWN;
	m.regions[m.n++] = (struct region) {
		id,          d.frame,     d.frames,
		d.host_addr, d.fd_offset, d.fd,
		backing,     flags,       (d.flags & PAGEHINT_REGION_PIN_AT_ADD) != 0,
		0,
	};
}

/* The kernel says anything: it is refused, or is a region like any other. Which, only the kernel's words can say. */
static void add_from_any_text(struct input *in)
{
	struct pagehint_region_desc d = any_desc(in);
	uint64_t id;
	m.world.text_bytes = take(in, 2) % 600;
	uint8_t *text = malloc(m.world.text_bytes + 1);
	SURE(text != NULL);
	take_bytes(in, text, m.world.text_bytes);
	m.world.text = text;
	int r = pagehint_map_add(m.map, &d, &id);
	m.world.text = NULL;
	free(text);
	SURE(r == 0 || r == -EINVAL || r == -EBADF || r == -EIO || r == -EEXIST || r == -ENOSPC || r == -ENODEV ||
	     r == -ENOMEM);
	SURE(m.world.open_fds == 0 && (r == 0 || pagehint_map_regions(m.map) == m.n));
	if (r == 0) {
		SURE(!overlaps(&d) && m.n < REGIONS);
		SURE(pagehint_map_remove(m.map, id) == (m.world.pid == 7 ? 0 : -ENODEV));
	}
}

/* ---- the rest of its life ---- */

/* One of those that are there, one that was, or any number; *ret = NULL when there is none. */
static uint64_t any_id(struct input *in, struct region **ret)
{
	uint64_t how = take(in, 1), id = how;
	*ret = NULL;
	if (how < 0xc0 && m.n != 0)
		id = m.regions[how % m.n].id;
	else if (how < 0xf0 && m.n_dead != 0)
		id = m.dead[how % m.n_dead];
	else if (how >= 0xf8)
		id = take(in, 8);
	for (uint32_t i = 0; i < m.n; i++)
		if (m.regions[i].id == id)
			*ret = &m.regions[i];
	return id;
}

static void remove_one(struct input *in)
{
	struct region *r;
	uint64_t id = any_id(in, &r);
	int wanted = m.world.pid != 7 ? -ENODEV : r == NULL ? -ERANGE : r->in_flight != 0 ? -EBUSY : 0;
	SURE(pagehint_map_remove(m.map, id) == wanted);
	if (wanted != 0)
		return;
	m.dead[m.n_dead++ % DEAD] = id;
	m.n_dead = m.n_dead < DEAD ? m.n_dead : DEAD;
	*r = m.regions[--m.n];
}

static void pin(struct input *in)
{
	struct region *r;
	uint64_t id = any_id(in, &r), in_flight = 77;
	if (take(in, 1) & 1) {
		SURE(pagehint_map_unpin(m.map, id) == (r == NULL ? -ERANGE : r->pins == 0 ? -EALREADY : 0));
		if (r != NULL)
			r->pins -= r->pins != 0;
		return;
	}
	SURE(pagehint_map_pin(m.map, id, &in_flight) == (r == NULL ? -ERANGE : 0));
	SURE(in_flight == (r == NULL ? 77 : r->in_flight));
	if (r != NULL)
		r->pins++;
}

static void enter(struct input *in)
{
	struct ph_region got;
	uint64_t frame = any_frame(in), frames = take(in, 1) % 40;
	struct region *r = region_at(frame);
	int wanted = frames == 0 || frame + frames < frame     ? -EINVAL
		     : r == NULL || frames > end_of(r) - frame ? -ERANGE
		     : r->pins != 0                            ? -EBUSY
							       : 0;
	SURE(ph_map_enter(m.map, frame, frames, &got) == wanted);
	if (wanted == 0) {
		SURE(got.id == r->id && (got.replaced != NULL) == (r->backing == PAGEHINT_BACKING_FILE_PRIVATE));
		r->in_flight++;
	}
}

static void leave(struct input *in)
{
	struct region *r;
	uint64_t id = any_id(in, &r);
	if (r == NULL || r->in_flight == 0)
		return;
	ph_map_leave(m.map, id);
	r->in_flight--;
}

/* ---- looking ---- */

static void judge_info(int r, const struct pagehint_region_info *i, const struct region *want)
{
	SURE(r == (want == NULL ? -ERANGE : 0));
	if (want == NULL)
		return;
	SURE(i->id == want->id && i->frame == want->frame && i->frames == want->frames);
	SURE(i->host_addr == want->host_addr && i->fd_offset == want->fd_offset && i->fd == want->fd);
	SURE(i->backing == want->backing && i->flags == want->flags && i->host_page_bytes == m.page_bytes);
	SURE(i->pins == want->pins && i->in_flight == want->in_flight && i->least_bytes == m.page_bytes);
}

static void look(uint64_t frame, uint64_t frames)
{
	struct pagehint_region_info info = { .struct_size = sizeof(info) };
	const struct region *r = region_at(frame);
	void *addr = NULL;
	uint64_t back = 0;
	judge_info(pagehint_map_lookup(m.map, frame, &info), &info, r);
	judge_info(pagehint_map_next(m.map, frame, &info), &info, region_next(frame));
	int wanted = frames == 0 || frame + frames < frame                                       ? -EINVAL
		     : r == NULL || r->host_addr == 0 || frames > r->frames - (frame - r->frame) ? -ERANGE
												 : 0;
	SURE(pagehint_map_host(m.map, frame, frames, &addr) == wanted);
	if (wanted != 0)
		return;
	SURE((uintptr_t)addr == r->host_addr + ((frame - r->frame) << m.shift));
	SURE(pagehint_map_frame(m.map, (char *)addr + 4095, &back) == 0 && back == frame);
}

static void look_host(uint64_t addr)
{
	uint64_t frame = 0;
	const struct region *r = region_host(addr);
	SURE(pagehint_map_frame(m.map, (void *)(uintptr_t)addr, &frame) == (r == NULL ? -ERANGE : 0));
	SURE(r == NULL || frame == r->frame + ((addr - r->host_addr) >> m.shift));
}

static void count_line(void *ctx, const char *text)
{
	SURE(text[0] != 0 && strchr(text, '\n') == NULL);
	++*(uint32_t *)ctx;
}

static void judge(void)
{
	uint32_t lines = 0;
	struct pagehint_sink sink = { &lines, count_line };
	SURE(pagehint_map_regions(m.map) == m.n && m.world.open_fds == 0);
	for (uint32_t i = 0; i < m.n; i++) {
		const struct region *r = &m.regions[i];
		look(r->frame, r->frames);
		look(end_of(r) - 1, 1);
		look(end_of(r), 1);
		look_host(r->host_addr + (r->frames << m.shift));
	}
	pagehint_map_explain(m.map, &sink);
	SURE(lines >= m.n);
}

static void act(struct input *in)
{
	uint64_t what = take(in, 1);
	switch (what % 16) {
	case 0 ... 4:
		add(in);
		break;
	case 5:
		add_from_any_text(in);
		break;
	case 6:
	case 7:
		remove_one(in);
		break;
	case 8:
	case 9:
		pin(in);
		break;
	case 10:
	case 11:
		enter(in);
		break;
	case 12:
		leave(in);
		break;
	case 13:
		m.world.pid = what & 16 ? 8 : 7;
		m.world.no_memory = what & 32;
		break;
	case 14:
		look(any_frame(in), take(in, 1) % 70);
		break;
	default:
		look_host((WORLD_PAGE + take(in, 1)) * 4096 + take(in, 1));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const uint32_t shifts[] = { 12, 12, 13, 14 }, pages[] = { 0, 12, 13, 14 };
	struct input in = { data, bytes };
	struct pagehint_map_opts opts = { .struct_size = sizeof(opts), .max_regions = REGIONS };
	uint64_t how = take(&in, 1);
	memset(&m, 0, sizeof(m));
	world_open(&m.world);
	opts.frame_shift = m.shift = shifts[how % 4];
	opts.host_page_shift = pages[how / 4 % 4];
	m.page_bytes = opts.host_page_shift == 0 ? 4096 : UINT64_C(1) << opts.host_page_shift;
	SURE(ph_map_new_with(&opts, &m.world.sys, &m.map) == 0);
	for (uint32_t i = 0; i < 200 && in.left != 0; i++) {
		act(&in);
		judge();
	}
	for (uint32_t i = 0; i < m.n; i++)
		for (; m.regions[i].in_flight != 0; m.regions[i].in_flight--) {
			SURE(pagehint_map_free(m.map) == -EBUSY);
			ph_map_leave(m.map, m.regions[i].id);
		}
	SURE(pagehint_map_free(m.map) == 0 && m.world.mapped == 0);
	return 0;
}
