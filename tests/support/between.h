/*
 * between: a pager with something that comes in between: done by a system call on its way, so that no luck is needed; and a
 * backend below it that frees all, keeps all, or keeps every other page.
 */
#ifndef TESTS_SUPPORT_BETWEEN_H
#define TESTS_SUPPORT_BETWEEN_H

#include <pagehint/pager_backend.h>

#include "support/snapshot.h"
#include "support/waiter.h"

#include "pager/pager.h"

static struct between {
	struct ph_sys sys;
	_Atomic int armed;    /* set last */
	unsigned call;        /* number of the request that is met */
	void (*act)(void);    /* done once */
	int after;            /* 1: after the call, else before */
	void (*within)(void); /* while a discard is under way */
	struct served *s;
	struct waiter w;
} b;

static inline int64_t met_ioctl(void *ctx, int fd, unsigned long request, void *argument)
{
	int meets = atomic_load(&b.armed) && (request & 0xff) == b.call;
	int64_t r = 0;
	if (meets)
		atomic_store(&b.armed, 0);
	if (!meets || b.after)
		r = ph_sys_real.ioctl(ctx, fd, request, argument);
	if (meets)
		b.act();
	return meets && !b.after ? ph_sys_real.ioctl(ctx, fd, request, argument) : r;
}

static uint32_t told;

static inline uint32_t poison(void *ctx, const struct pagehint_pager_failure *failure)
{
	(void)ctx;
	(void)failure;
	told++;
	return PAGEHINT_FAIL_POISON;
}

static inline void open_between(struct served *s, struct pagehint_source *source, uint32_t backing, uint32_t flags,
				uint32_t how)
{
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts),
					    .failed = poison,
					    .flags = how,
					    .timeout_ns = 1000000,
					    .around_min = 1,
					    .around_max = 1 };
	memset(&b, 0, sizeof(b));
	b.sys = ph_sys_real;
	b.sys.ioctl = met_ioctl;
	b.s = s;
	told = 0;
	served_memory(s, BYTES, backing);
	assert_int_equal(ph_pager_new_with(&opts, &b.sys, &s->pager), 0);
	if (source == NULL && flags == 0)
		return;
	struct pagehint_pager_region r = served_region(s, source, flags);
	assert_int_equal(pagehint_pager_add(s->pager, &r), 0);
}

static inline struct pagehint_source *source_of_snapshot(void)
{
	struct pagehint_source *source;
	assert_int_equal(pagehint_source_memory_new(snapshot, BYTES, &source), 0);
	return source;
}

static inline uint32_t what_is(const struct served *s, uint64_t page)
{
	struct pagehint_page_run run;
	uint32_t n = 0;
	assert_int_equal(pagehint_pager_export(s->pager, page, &run, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(run.frame, page);
	return run.what;
}

enum mood { FREES, KEEPS, HALF };

static inline int moody_discard(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags,
				struct pagehint_outcome *outcomes, uint32_t *ret_done)
{
	enum mood mood = *(enum mood *)ctx;
	(void)flags;
	for (uint32_t i = 0; i < n; i++) {
		struct pagehint_outcome *o = &outcomes[i];
		for (uint64_t k = 0; k < runs[i].frames; k++) {
			int frees = mood == FREES || (mood == HALF && k % 2 == 0);
			unsigned char *at = b.s->memory + (runs[i].frame + k) * PAGE;
			if (frees && b.s->fd < 0)
				assert_int_equal(madvise(at, PAGE, MADV_DONTNEED), 0);
			else if (frees)
				assert_int_equal(madvise(at, PAGE, MADV_REMOVE), 0);
			o->asked += PAGE;
			*(frees ? &o->freed : &o->kept) += PAGE;
		}
		o->kept_why = o->kept != 0 ? PAGEHINT_WHY_CANNOT : PAGEHINT_WHY_NONE;
	}
	if (b.within != NULL)
		b.within();
	*ret_done = n;
	return 0;
}

static inline void discard(struct served *s, enum mood mood, uint64_t page, uint64_t pages, uint32_t flags,
			   struct pagehint_outcome *ret_sum)
{
	const struct pagehint_backend_ops ops = { .struct_size = sizeof(ops),
						  .name = "moody",
						  .discard = moody_discard };
	struct pagehint_backend *inner, *backend;
	const struct pagehint_run run = { page, pages };
	assert_int_equal(pagehint_backend_new(&ops, &mood, NULL, &inner), 0);
	assert_int_equal(pagehint_pager_backend_new(s->pager, inner, NULL, &backend), 0);
	assert_int_equal(pagehint_backend_discard(backend, &run, 1, flags, NULL, ret_sum, NULL), 0);
	assert_int_equal(pagehint_backend_free(backend), 0);
	assert_int_equal(pagehint_backend_free(inner), 0);
}

#endif
