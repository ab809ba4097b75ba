/*
 * A pager over a pretended kernel: faults, removals, unmappings, messages of any bytes and reads that are cut short, in any order, with
 * a source that answers at once, later, in part, wrongly or not at all, and with discards that the pager is told of.
 *
 * Checked by the kernel that is played: no page has content that it may not have, nothing that was removed comes back. Here: in the
 * end nobody waits, what the pager says of pages is what is there, and nothing stays open or mapped.
 */
#include <errno.h>

#include <pagehint/backend.h>
#include <pagehint/map.h>
#include <pagehint/pager_backend.h>

#include "kernel.h"
#include "pager/pager.h"

#define PENDING 8u

static struct kernel k;

static struct {
	struct pagehint_pager *pager;
	struct pagehint_source *source;
	struct pagehint_backend *inner, *backend;
	uint64_t now;
	uint32_t flags, shards;
	uint32_t answer;  /* how the source answers now */
	uint32_t verdict; /* of `failed` */
	struct pagehint_fetch pending[PENDING];
	uint32_t n_pending;
	unsigned char content[PH_BUFFER_BYTES];
} w;

enum { AT_ONCE, IN_PART, LATER, FAILS, WRONG, ANSWERS };

/* ---- the source; its offset 0 is page 0 ---- */

static void fill_in(void *to, uint64_t offset, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += 4096) {
		uint64_t content = kernel_source((offset + i) / 4096);
		memcpy((unsigned char *)to + i, &content, sizeof(content));
	}
}

static int fetch(void *ctx, struct pagehint_fetch *f)
{
	(void)ctx;
	SURE(f->bytes != 0 && f->bytes <= PH_BUFFER_BYTES && f->offset / 4096 + f->bytes / 4096 <= KERNEL_PAGES);
	if (w.answer == FAILS)
		return -EIO;
	if (w.answer == LATER && w.n_pending < PENDING) {
		w.pending[w.n_pending++] = *f;
		return -EINPROGRESS;
	}
	f->done = w.answer == IN_PART ? 4096 : f->bytes;
	if (w.answer == WRONG)
		f->done = f->bytes % 3 == 0 ? 0 : f->bytes + 4096;
	fill_in(f->buffer, f->offset, f->bytes);
	f->data = f->buffer;
	return 0;
}

static int extent(void *ctx, uint64_t offset, uint64_t bytes, uint64_t *ret_bytes, uint32_t *ret_is_zero)
{
	uint64_t page = offset / 4096, n = 1;
	(void)ctx;
	*ret_is_zero = kernel_source(page) == 0;
	while (n < bytes / 4096 && (kernel_source(page + n) == 0) == (*ret_is_zero != 0))
		n++;
	*ret_bytes = n * 4096;
	return 0;
}

static uint32_t failed(void *ctx, const struct pagehint_pager_failure *f)
{
	(void)ctx;
	SURE(f->error < 0 && f->frame + f->frames <= KERNEL_PAGES && f->shard < w.shards);
	for (uint64_t i = f->frame; i < f->frame + f->frames; i++) {
		k.pages[i].may_be_zero |= w.verdict == PAGEHINT_FAIL_ZERO;
		k.pages[i].may_be_lost |= w.verdict != PAGEHINT_FAIL_ZERO && w.verdict != PAGEHINT_FAIL_RETRY;
	}
	return w.verdict;
}

/* Answers one that was put off; `how` & 1: it cannot be had, & 2: a part of it. */
static void deliver(uint32_t which, uint32_t how)
{
	if (w.n_pending == 0)
		return;
	struct pagehint_fetch *f = &w.pending[which % w.n_pending], old = *f;
	uint64_t bytes = (how & 2) != 0 ? 4096 : old.bytes;
	fill_in(w.content, old.offset, old.bytes);
	*f = w.pending[--w.n_pending];
	int r = pagehint_pager_deliver(w.pager, old.cookie, w.content, bytes, (how & 1) != 0 ? -EIO : 0);
	SURE(r == 0 || r == -EALREADY); /* revoked */
	SURE(pagehint_pager_deliver(w.pager, old.cookie, w.content, bytes, 0) == -EALREADY);
}

/* ---- discards ---- */

static int discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
		   struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	(void)ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++) {
		SURE(runs[i].frame + runs[i].frames <= KERNEL_PAGES);
		kernel_drop(&k, runs[i].frame, runs[i].frames);
		outcomes[i].asked = outcomes[i].freed = runs[i].frames << 12;
	}
	*ret_done = n;
	return 0;
}

static void give_away(uint64_t frame, uint64_t frames)
{
	const struct pagehint_run run = { frame, frames };
	struct pagehint_outcome sum;
	if (frame + frames > KERNEL_FIRST || (w.flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0)
		return;
	for (uint64_t i = frame; i < frame + frames; i++)
		k.pages[i].may_be_zero = 1; /* of what is in flight: the source's, or zero */
	SURE(pagehint_backend_discard(w.backend, &run, 1, 0, NULL, &sum, NULL) == 0);
	SURE(sum.asked == frames << 12 && sum.asked == sum.freed + sum.kept);
}

/* ---- life ---- */

static void add_region(uint64_t first, uint64_t pages, uint32_t flags)
{
	const struct pagehint_pager_region region = {
		.struct_size = sizeof(region),
		.frame = first,
		.frames = pages,
		.host_addr = KERNEL_BASE + first * 4096,
		.source = w.source,
		.source_offset = first * 4096,
		.flags = flags,
		.backing = PAGEHINT_BACKING_ANON,
	};
	SURE(pagehint_pager_add(w.pager, &region) == 0);
}

static void open_all(uint32_t kind)
{
	const struct pagehint_source_ops source = {
		.struct_size = sizeof(source),
		.name = "fuzz",
		.caps = PAGEHINT_SOURCE_ASYNC | PAGEHINT_SOURCE_SIGNAL_SAFE,
		.fetch = fetch,
		.extent = (kind & 1) != 0 ? extent : NULL,
	};
	const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops), .name = "fuzz", .discard = discard };
	struct pagehint_pager_opts opts = {
		.struct_size = sizeof(opts), .failed = failed, .flights = 4, .record_max = 64
	};
	memset(&w, 0, offsetof(__typeof__(w), content));
	kernel_open(&k);
	w.flags = opts.flags =
		((kind & 2) != 0 ? PAGEHINT_PAGER_EVENT_REMOVE : 0) | ((kind & 4) != 0 ? PAGEHINT_PAGER_RECORD : 0);
	w.shards = opts.shards = (kind & 8) != 0 ? 2 : 1;
	opts.around_min = (kind & 16) != 0 ? 1 : 16;
	opts.timeout_ns = 1000000000;
	SURE(pagehint_source_new(&source, NULL, &w.source) == 0);
	SURE(ph_pager_new_with(&opts, &k.sys, &w.pager) == 0);
	/* the descriptors that remain are numbered from the first on */
	SURE(k.open_fds == w.shards);
	add_region(0, KERNEL_FIRST, (kind & 32) != 0 ? PAGEHINT_PAGER_TRACK : 0);
	add_region(KERNEL_FIRST + KERNEL_GAP, KERNEL_SECOND, 0);
	SURE(pagehint_backend_new(&ops, NULL, NULL, &w.inner) == 0);
	int wanted = (kind & 2) != 0 ? -EINVAL : 0; /* where removals are events nobody tells of them beside */
	SURE(pagehint_pager_backend_new(w.pager, w.inner, NULL, &w.backend) == wanted);
}

static void step(uint32_t shard)
{
	uint64_t deadline = 0;
	int r = pagehint_pager_step(w.pager, shard % w.shards, w.now, &deadline);
	SURE(r == 0 || r == -EBUSY || r == -ENOMEM || r == -EINVAL);
}

static void call(uint32_t what, uint64_t page, uint64_t pages)
{
	uint64_t done = 0, deadline = 0;
	uint32_t action = 7;
	int r;
	switch (what % 5) {
	case 0:
		r = pagehint_pager_fill(w.pager, page % w.shards, w.now, pages * 4096, &done, &deadline);
		SURE(r <= 0 && done <= (pages == 0 ? UINT64_C(2) << 20 : pages * 4096));
		break;
	case 1:
		r = pagehint_pager_ensure(w.pager, page, pages, &done);
		SURE(r <= 0 && done <= pages);
		if (r == 0)
			for (uint64_t i = page; i < page + pages; i++)
				SURE(k.pages[i].here || k.pages[i].unmapped || k.pages[i].anything);
		break;
	case 2:
		(void)!pagehint_pager_resolve(w.pager, (void *)(uintptr_t)(KERNEL_BASE + page * 4096 + pages));
		break;
	case 3:
		(void)!pagehint_pager_exit(w.pager, (uint32_t)pages % 3, page * 4096, pages, &action);
		break;
	default:
		r = pagehint_pager_clean(w.pager, page, pages);
		SURE(r <= 0);
	}
}

static void forge(struct input *in, uint32_t what)
{
	static const uint8_t events[] = { 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0, 0xff };
	unsigned char bytes[32];
	take_bytes(in, bytes, 8);
	bytes[0] = events[what % 8]; /* fault, fork, remap, remove, unmap, and none of them */
	memset(bytes + 8, 0, sizeof(bytes) - 8);
	for (uint32_t i = 1; i < 4; i++) { /* addresses in the regions, near them, or anything */
		uint32_t how = (uint32_t)take(in, 1);
		uint64_t word = how >= 0xf0 ? take(in, 8)
					    : KERNEL_BASE + (take(in, 2) % (KERNEL_PAGES + 16) - 4) * 4096 + (how & 1);
		/* of a fault: flags come first */
		if (bytes[0] == 0x12 && i == 1)
			word = how & 7;
		memcpy(bytes + 8 * i, &word, sizeof(word));
	}
	kernel_forge(&k, what / 8 % w.shards, bytes);
}

static void act(struct input *in)
{
	uint32_t what = (uint32_t)take(in, 1);
	uint64_t page = take(in, 2) % (KERNEL_PAGES + 2), pages = take(in, 1) % 70;
	switch (what % 16) {
	case 0:
	case 1:
	case 2:
		for (uint64_t i = page; i < page + pages / 8 + 1 && i < KERNEL_PAGES; i++)
			kernel_touch(&k, i, (what & 16) != 0);
		break;
	case 3:
	case 4:
	case 5:
		step(what / 16);
		break;
	case 6:
		if ((w.flags & PAGEHINT_PAGER_EVENT_REMOVE) != 0)
			kernel_take_away(&k, page % KERNEL_PAGES, pages + 1, what / 16 % 8 == 7);
		break;
	case 7:
		give_away(page, pages + 1);
		break;
	case 8:
		forge(in, what / 16);
		break;
	case 9:
		w.answer = what / 16 % ANSWERS;
		break;
	case 10:
		deliver((uint32_t)page, (uint32_t)pages);
		break;
	case 11:
		w.verdict = what / 16 % 4; /* 3 is none of them */
		break;
	case 12:
		k.fail_after = (uint32_t)pages;
		k.fail_times = what / 16 % 4;
		k.fail_error = (what & 128) != 0 ? -ENOMEM : -EAGAIN;
		k.odd_bytes = (uint32_t)page;
		k.interrupt = what / 16 % 2;
		break;
	case 13:
		w.now += (uint64_t)page << (pages % 24);
		(void)!pagehint_pager_watch(w.pager, w.now, &(uint64_t) { 0 });
		break;
	default:
		call(what / 16, page, pages);
	}
}

/* From now on everything answers: every thread gets its page, or a signal. */
static void settle(void)
{
	uint64_t deadline;
	w.answer = AT_ONCE;
	w.verdict = PAGEHINT_FAIL_RETRY;
	k.fail_times = k.interrupt = 0;
	for (uint32_t round = 0; round < 400; round++) {
		while (w.n_pending != 0)
			deliver(0, 0);
		for (uint32_t s = 0; s < w.shards; s++)
			step(s);
		w.now += 50000000;
		SURE(pagehint_pager_watch(w.pager, w.now, &deadline) == 0);
		if (kernel_waiting(&k) == 0 && k.head[0] == k.tail[0] && k.head[1] == k.tail[1])
			return;
	}
	for (uint64_t i = 0; i < KERNEL_PAGES; i++)
		if (k.pages[i].waits != 0)
			fprintf(stderr, "page %llu: somebody waits (%u)\n", (unsigned long long)i, k.pages[i].waits);
	abort();
}

/* What the pager says of every page is so. */
static void judge(void)
{
	struct pagehint_page_run runs[16];
	uint32_t n;
	for (uint64_t at = 0;; at = runs[n - 1].frame + runs[n - 1].frames) {
		SURE(pagehint_pager_export(w.pager, at, runs, 16, &n) == 0);
		if (n == 0)
			return;
		for (uint32_t i = 0; i < n; i++)
			for (uint64_t f = runs[i].frame; f < runs[i].frame + runs[i].frames; f++) {
				const struct kernel_page *p = &k.pages[f];
				SURE(kernel_is_region(f) && runs[i].what <= PAGEHINT_PAGE_POISONED);
				if (p->anything || p->unmapped)
					continue;
				if (runs[i].what == PAGEHINT_PAGE_PRESENT || runs[i].what == PAGEHINT_PAGE_DIRTY)
					SURE(p->here);
				if (runs[i].what == PAGEHINT_PAGE_ABSENT || runs[i].what == PAGEHINT_PAGE_ZERO)
					SURE(!p->here && !p->removed && !p->poisoned);
				SURE((runs[i].what == PAGEHINT_PAGE_POISONED) == p->poisoned);
				SURE(runs[i].what != PAGEHINT_PAGE_REMOVED || p->removed || p->may_be_zero);
				SURE(runs[i].what != PAGEHINT_PAGE_INFLIGHT);
			}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	open_all((uint32_t)take(&in, 1));
	for (uint32_t i = 0; i < 150 && in.left != 0; i++)
		act(&in);
	settle();
	judge();
	SURE(pagehint_backend_free(w.backend) == 0 && pagehint_backend_free(w.inner) == 0);
	for (uint64_t i = 0; i < KERNEL_PAGES; i++)
		k.pages[i].may_be_lost = 1; /* who gives up loses what is absent */
	int r = pagehint_pager_free(w.pager);
	SURE(r == 0 || r == -EBUSY);
	if (r == -EBUSY) {
		SURE(pagehint_pager_abandon(w.pager, 0) == 0);
		SURE(pagehint_pager_free(w.pager) == 0);
	}
	pagehint_source_free(w.source);
	SURE(k.open_fds == 0 && k.mapped == 0);
	return 0;
}
