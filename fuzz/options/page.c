/* sources, the pager and its regions (over a userfaultfd that says yes to everything), domains of Xen */
#include "kinds.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pagehint/bitmap.h>
#include <pagehint/pager.h>
#include <pagehint/source.h>
#include <pagehint/xen.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "pager/pager.h"

/* ---- sources ---- */

static int fetch(void *ctx, struct pagehint_fetch *f)
{
	(void)ctx;
	f->data = NULL;
	f->done = f->bytes;
	return 0;
}

static void point_source(void *opts, uint64_t how)
{
	struct pagehint_source_ops *o = opts;
	o->name = MAYBE(how, 0, "fuzz");
	o->fetch = (how & 6) != 0 ? fetch : NULL;
	o->extent = NULL;
	o->destroy = NULL;
}

static int make_source(const void *opts)
{
	struct pagehint_source *source = NOTHING;
	int r = pagehint_source_new(opts, NULL, &source);
	SURE(r == 0 || source == NOTHING);
	if (r == 0)
		pagehint_source_free(source);
	return r;
}

/* ---- the pager ---- */

static int open_one(void *ctx, int flags)
{
	(void)ctx;
	(void)flags;
	return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static int64_t say_yes(void *ctx, int fd, unsigned long request, void *arg)
{
	struct uffdio_api *api = arg;
	struct uffdio_register *all = arg;
	(void)ctx;
	(void)fd;
	if (request == UFFDIO_API)
		api->features = ~UINT64_C(0);
	if (request == UFFDIO_REGISTER)
		all->ioctls = 1 << _UFFDIO_COPY | 1 << _UFFDIO_ZEROPAGE | 1 << _UFFDIO_WRITEPROTECT | 1 << 0x07;
	return 0;
}

static const struct ph_sys *yes(void)
{
	static struct ph_sys sys;
	if (sys.getpid == NULL) {
		sys = ph_sys_real;
		sys.userfaultfd = open_one;
		sys.ioctl = say_yes;
	}
	return &sys;
}

static void point_pager(void *opts, uint64_t how)
{
	struct pagehint_pager_opts *o = opts;
	(void)how;
	o->map = NULL;
	o->fds = NULL;
	o->failed = NULL;
	o->ctx = NULL;
}

static int make_pager(const void *opts)
{
	struct pagehint_pager *pager = NOTHING;
	uint64_t deadline, size;
	int fd;
	memcpy(&size, opts, sizeof(size));
	if (size < 8 || size > 4096) /* refused by the public door, before it asks the system for anything */
		return pagehint_pager_new(opts, &pager);
	int r = ph_pager_new_with(opts, yes(), &pager);
	SURE(r == 0 || pager == NOTHING);
	if (r == 0) {
		SURE(pagehint_pager_fd(pager, 0, &fd) == 0 && fd >= 0);
		SURE(pagehint_pager_step(pager, 0, 5, &deadline) == 0);
		SURE(pagehint_pager_free(pager) == 0);
	}
	return r;
}

/* ---- its regions ---- */

#define REGION_PAGES UINT64_C(64)

static unsigned char *region;
static uint64_t states[REGION_PAGES];
static struct pagehint_source *zeros;

static void point_region(void *opts, uint64_t how)
{
	struct pagehint_pager_region *o = opts;
	if (region == NULL) {
		region = mmap(NULL, REGION_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		SURE(region != MAP_FAILED && pagehint_source_zero_new(&zeros) == 0);
	}
	o->source = MAYBE(how, 0, zeros);
	o->state = MAYBE(how, 1, states);
	if (o->state != NULL && o->state_bytes > sizeof(states))
		o->state_bytes = sizeof(states);
	if ((how & 12) == 0)
		return;
	o->host_addr = (uintptr_t)region;
	if (o->frames > REGION_PAGES || (how & 16) != 0)
		o->frames = REGION_PAGES;
}

static int make_region(const void *opts)
{
	struct pagehint_pager *pager;
	memset(states, 0, sizeof(states));
	SURE(ph_pager_new_with(NULL, yes(), &pager) == 0);
	int r = pagehint_pager_add(pager, opts);
	if (r == 0) {
		SURE(pagehint_pager_add(pager, opts) == -EEXIST);
		SURE(pagehint_pager_abandon(pager, 1) == 0);
	}
	SURE(pagehint_pager_free(pager) == 0);
	return r;
}

/* ---- Xen ---- */

static int64_t memory_op(void *ctx, uint32_t op, void *arg)
{
	(void)ctx;
	(void)op;
	(void)arg;
	return 1000;
}

static void *get_buffer(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void put_buffer(void *ctx, void *buffer, size_t bytes)
{
	(void)ctx;
	(void)bytes;
	free(buffer);
}

static int zero(void *ctx, uint32_t domid, const uint64_t *frames, uint32_t n, int32_t *errors)
{
	(void)ctx;
	(void)domid;
	(void)frames;
	memset(errors, 0, n * sizeof(*errors));
	return 0;
}

static const struct pagehint_xen_calls all_calls = { sizeof(all_calls), "fuzz", memory_op, get_buffer,
						     put_buffer,        zero,   NULL };

static void point_xen(void *opts, uint64_t how)
{
	static uint64_t p2m[64];
	struct pagehint_xen_opts *o = opts;
	o->p2m = MAYBE(how, 0, p2m);
	if (o->p2m != NULL && o->p2m_frames > 64)
		o->p2m_frames = 64;
	o->present = NULL;
	o->memory = MAYBE(how, 1, some_map());
	o->domid = (how & 12) != 0 ? 5 : o->domid;
}

static int make_xen_with(const void *calls, const void *opts)
{
	struct pagehint_xen *xen = NOTHING;
	struct pagehint_xen_stats stats = { .struct_size = sizeof(stats) };
	int r = pagehint_xen_new(calls, NULL, opts, &xen);
	SURE(r == 0 || xen == NOTHING);
	if (r == 0) {
		SURE(pagehint_xen_stats(xen, &stats) == 0 && stats.populated == 0);
		SURE(pagehint_xen_free(xen) == 0);
	}
	return r;
}

static int make_xen(const void *opts)
{
	return make_xen_with(&all_calls, opts);
}

static void point_xen_calls(void *opts, uint64_t how)
{
	struct pagehint_xen_calls *o = opts;
	*o = all_calls;
	o->name = MAYBE(how, 0, "fuzz");
	o->memory_op = (how & 6) != 0 ? memory_op : NULL;
	o->get_buffer = (how & 24) != 0 ? get_buffer : NULL;
	o->put_buffer = (how & 96) != 0 ? put_buffer : NULL;
	o->zero = MAYBE(how, 7, zero);
}

static int make_xen_calls(const void *calls)
{
	const struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = 5 };
	return make_xen_with(calls, &opts);
}

const struct kind page_kinds[] = {
	{ "source", sizeof(struct pagehint_source_ops), point_source, make_source },
	{ "pager", sizeof(struct pagehint_pager_opts), point_pager, make_pager },
	{ "pager region", sizeof(struct pagehint_pager_region), point_region, make_region },
	{ "xen", sizeof(struct pagehint_xen_opts), point_xen, make_xen },
	{ "xen calls", sizeof(struct pagehint_xen_calls), point_xen_calls, make_xen_calls },
};
const uint32_t page_kinds_n = sizeof(page_kinds) / sizeof(*page_kinds);
