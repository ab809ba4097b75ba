#include "fakes/fake_xen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MFN_FIRST UINT64_C(0x100)
#define THERE 1u
#define DIRTY 2u

void fake_xen_setup(struct fake_xen *f, uint32_t pv, uint64_t host, uint64_t max)
{
	memset(f, 0, sizeof(*f));
	f->pv = pv;
	f->domid = FAKE_DOMID;
	f->host_free = f->host_total = host;
	f->max = max;
	f->frames = FAKE_FRAMES;
	f->max_order = PH_XEN_ORDER_1G;
	f->free_2m = host >> PH_XEN_ORDER_2M;
	f->next_mfn = MFN_FIRST;
	f->present = calloc(f->frames, 1);
	f->mapped = calloc(FAKE_FRAMES, 1);
	assert_non_null(f->present);
	assert_non_null(f->mapped);
}

void fake_xen_grow(struct fake_xen *f, uint64_t frames)
{
	free(f->present);
	f->present = calloc(frames, 1);
	f->frames = frames;
	assert_non_null(f->present);
}

void fake_xen_teardown(struct fake_xen *f)
{
	for (unsigned i = 0; i < FAKE_BUFFERS; i++)
		assert_null(f->buffers[i].at);
	free(f->present);
	free(f->mapped);
}

void fake_xen_forget(struct fake_xen *f)
{
	memset(f->calls, 0, sizeof(f->calls));
	memset(f->extents, 0, sizeof(f->extents));
	f->struck = f->leaked = f->most_extents = f->last_flags = 0;
	f->largest_decrease = 0;
	f->fault = FAULT_NONE;
	f->fault_at = f->fault_times = f->fault_after = 0;
	f->fault_error = 0;
}

static int is_mapped(const struct fake_xen *f, uint64_t name)
{
	return name < FAKE_FRAMES && f->mapped[name];
}

static int in_buffer(const struct fake_xen *f, const void *p, size_t bytes)
{
	const unsigned char *at = p;
	for (unsigned i = 0; i < FAKE_BUFFERS; i++)
		if (f->buffers[i].at != NULL && at >= f->buffers[i].at &&
		    at + bytes <= f->buffers[i].at + f->buffers[i].bytes)
			return 1;
	return 0;
}

/* One extent comes. 1 = done */
static int add(struct fake_xen *f, uint64_t *name, uint32_t order)
{
	const uint64_t n = UINT64_C(1) << order;
	if (order > f->max_order || (order >= PH_XEN_ORDER_2M && f->free_2m < n >> PH_XEN_ORDER_2M))
		return 0;
	if (n > f->host_free || f->current + n > f->max || *name > f->frames - n)
		return 0;
	if (!f->pv && (*name & (n - 1)) != 0)
		return 0;
	uint64_t at = *name;
	if (f->pv) {
		at = (f->next_mfn + n - 1) & ~(n - 1);
		f->next_mfn = at + n;
		assert_true(f->next_mfn < f->frames);
		*name = at;
	}
	for (uint64_t i = 0; i < n; i++)
		f->lost += f->present[at + i] != 0;
	memset(f->present + at, THERE, n);
	f->last = at + n - 1 > f->last ? at + n - 1 : f->last;
	f->host_free -= n;
	f->current += n;
	if (order >= PH_XEN_ORDER_2M)
		f->free_2m -= n >> PH_XEN_ORDER_2M;
	return 1;
}

static int take_frame(struct fake_xen *f, uint64_t name)
{
	if (name >= f->frames || f->present[name] == 0)
		return 0;
	f->leaked += f->present[name] == DIRTY;
	f->present[name] = 0;
	if (is_mapped(f, name)) {
		f->still_mapped++;
		return 1;
	}
	f->current--;
	f->host_free++;
	return 1;
}

/* One extent goes: up to a hole, and then it is as if nothing had. */
static int take(struct fake_xen *f, uint64_t name, uint32_t order)
{
	for (uint64_t i = 0; i < UINT64_C(1) << order; i++)
		if (!take_frame(f, name + i))
			return 0;
	return 1;
}

static void die(struct fake_xen *f)
{
	f->host_free += f->current;
	f->current = f->lost = f->still_mapped = f->claimed = 0;
	memset(f->present, 0, f->last + 1);
	f->gone = 1;
}

/* Does the fault strike this call? */
static int strikes(struct fake_xen *f)
{
	if (f->fault_at == 0 || (f->fault_at > 1 && f->fault_at-- > 1))
		return 0;
	if (f->fault_times > 1)
		f->fault_times--;
	else
		f->fault_at = 0;
	f->struck++;
	return 1;
}

static int64_t change(struct fake_xen *f, uint32_t op, const struct ph_xen_reservation *what)
{
	uint64_t *names = (uint64_t *)(uintptr_t)what->extents, done = 0;
	const int faulty = strikes(f);
	uint64_t asked[512];
	if (what->nr >= UINT64_C(1) << 26)
		return 0; /* too many: none */
	assert_true(in_buffer(f, names, what->nr * sizeof(*names)));
	assert_true(what->nr <= 512);
	memcpy(asked, names, what->nr * sizeof(*names));
	f->extents[op] += what->nr;
	f->most_extents = what->nr > f->most_extents ? what->nr : f->most_extents;
	f->last_flags = what->flags;
	if (op == PH_XEN_DECREASE && what->order > f->largest_decrease)
		f->largest_decrease = what->order;
	for (; done < what->nr && !f->gone; done++) {
		if (faulty && done == f->fault_after)
			break;
		if (!(op == PH_XEN_POPULATE ? add(f, &names[done], what->order) : take(f, names[done], what->order)))
			break;
	}
	for (uint64_t i = 0; faulty && i < f->drift; i++)
		(void)take_frame(f, 5000 + i);
	if (faulty && f->nameless)
		memcpy(names, asked, what->nr * sizeof(*names));
	if (faulty && f->fault == FAULT_DIES)
		die(f);
	return faulty && f->fault == FAULT_ERROR ? f->fault_error : (int64_t)done;
}

static int64_t claim(struct fake_xen *f, const struct ph_xen_reservation *what)
{
	assert_int_equal(what->extents, 0);
	assert_int_equal(what->order, 0);
	assert_int_equal(what->flags, 0);
	if (f->no_claims)
		return -ENOSYS;
	if (f->gone)
		return -ESRCH;
	if (what->nr == 0) {
		f->claimed = 0;
		return 0;
	}
	if (f->claimed != 0 || what->nr <= f->current || what->nr > f->max)
		return -EINVAL;
	if (what->nr - f->current > f->host_free)
		return -ENOMEM;
	f->claimed = what->nr;
	return 0;
}

static int64_t ask(const struct fake_xen *f, uint32_t op)
{
	if (f->gone)
		return -ESRCH;
	if (op == PH_XEN_CURRENT)
		return (int64_t)f->current;
	if (op == PH_XEN_MAXIMUM)
		return (int64_t)f->max;
	return (int64_t)f->last;
}

static int64_t fake_memory_op(void *ctx, uint32_t op, void *arg)
{
	struct fake_xen *f = ctx;
	struct ph_xen_reservation what;
	struct ph_xen_domain who;
	assert_true(op < FAKE_OPS);
	f->calls[op]++;
	if (f->denied)
		return -EPERM;
	if (op == PH_XEN_CURRENT || op == PH_XEN_MAXIMUM || op == PH_XEN_MAXIMUM_GPFN) {
		assert_true(in_buffer(f, arg, sizeof(who)));
		memcpy(&who, arg, sizeof(who));
		return who.domid != f->domid ? -ESRCH : ask(f, op);
	}
	assert_true(in_buffer(f, arg, sizeof(what)));
	memcpy(&what, arg, sizeof(what));
	if (what.domid != f->domid)
		return 0;
	return op == PH_XEN_CLAIM ? claim(f, &what) : change(f, op, &what);
}

static void *fake_get_buffer(void *ctx, size_t bytes)
{
	struct fake_xen *f = ctx;
	for (unsigned i = 0; i < FAKE_BUFFERS; i++)
		if (f->buffers[i].at == NULL) {
			f->buffers[i].at = calloc(1, bytes);
			f->buffers[i].bytes = bytes;
			return f->buffers[i].at;
		}
	return NULL;
}

static void fake_put_buffer(void *ctx, void *buffer, size_t bytes)
{
	struct fake_xen *f = ctx;
	for (unsigned i = 0; i < FAKE_BUFFERS; i++)
		if (f->buffers[i].at == buffer) {
			assert_int_equal(f->buffers[i].bytes, bytes);
			free(buffer);
			f->buffers[i].at = NULL;
			return;
		}
	fail_msg("a buffer that was never given");
}

static int fake_zero(void *ctx, uint32_t domid, const uint64_t *frames, uint32_t n, int32_t *errors)
{
	struct fake_xen *f = ctx;
	assert_int_equal(domid, f->domid);
	for (uint32_t i = 0; i < n; i++) {
		errors[i] = f->zero_error;
		if (errors[i] == 0 && (frames[i] >= f->frames || f->present[frames[i]] == 0))
			errors[i] = -EINVAL;
		if (errors[i] == 0)
			f->present[frames[i]] = THERE;
	}
	return 0;
}

const struct pagehint_xen_calls fake_xen_calls = {
	.struct_size = sizeof(fake_xen_calls),
	.name = "fake",
	.memory_op = fake_memory_op,
	.get_buffer = fake_get_buffer,
	.put_buffer = fake_put_buffer,
	.zero = fake_zero,
};

uint64_t fake_xen_has(const struct fake_xen *f, uint64_t frame, uint64_t frames)
{
	uint64_t n = 0;
	for (uint64_t i = 0; i < frames; i++)
		n += f->present[frame + i] != 0;
	return n;
}

void fake_xen_check(const struct fake_xen *f)
{
	assert_int_equal(f->current + f->host_free, f->host_total);
	assert_int_equal(f->lost, 0);
	assert_int_equal(f->claimed, 0);
	assert_true(f->most_extents <= 512);
}

void fake_xen_dirty(struct fake_xen *f)
{
	for (uint64_t i = 0; i <= f->last && i < FAKE_FRAMES; i++)
		if (f->present[i] != 0)
			f->present[i] = DIRTY;
}

void fake_xen_unmap(struct fake_xen *f)
{
	f->current -= f->still_mapped;
	f->host_free += f->still_mapped;
	f->still_mapped = 0;
	memset(f->mapped, 0, FAKE_FRAMES);
}
