/*
 * flush_init: sizes, offsets, and a flush filter's empty state in somebody's memory.
 *
 * Zeroed memory is right for everything but the header: no section has a slot, no CPU has flushed. So a filter for any span is
 * made by writing one page.
 */
#include <errno.h>
#include <string.h>

#include "alloc/flush.h"
#include "base/bits.h"
#include "base/opts.h"
#include "base/sys.h"

static int check_options(struct pagehint_flush_opts *o)
{
	if (o->max_sections == 0)
		o->max_sections = 1;
	if (o->span_sections == 0)
		o->span_sections = o->max_sections;
	if (o->flags != 0 || o->cpus == 0 || o->cpus > 65536 || o->max_sections > 16384 ||
	    o->span_sections > UINT64_C(1) << 22 || o->max_sections > o->span_sections)
		return -EINVAL;
	return 0;
}

static void lay_out(struct pagehint_flush *f)
{
	uint64_t at = sizeof(*f);
	f->off_slots = at;
	at += ph_round_up(f->span_sections * sizeof(uint32_t), 64);
	f->off_used = at;
	at += ph_round_up((f->max_sections + 63) / 64 * sizeof(uint64_t), 64);
	f->off_cpus = at;
	at += ph_round_up(f->cpus * sizeof(uint64_t), 64);
	f->off_stamps = at;
	at += f->max_sections * PH_FLUSH_STAMPS * sizeof(uint32_t);
	f->bytes = at;
}

/* the header that these options give; nothing is allocated or touched but *f */
static int plan(const struct pagehint_flush_opts *opts, struct pagehint_flush *f)
{
	struct pagehint_flush_opts o;
	int r = opts == NULL ? -EINVAL : PH_OPTS_IN(o, opts);
	if (r == 0)
		r = check_options(&o);
	if (r < 0)
		return r;
	memset(f, 0, sizeof(*f));
	f->magic = PH_FLUSH_MAGIC;
	f->layout = PH_FLUSH_LAYOUT;
	f->endian = PH_FLUSH_ENDIAN;
	f->max_sections = o.max_sections;
	f->span_sections = o.span_sections;
	f->cpus = o.cpus;
	atomic_init(&f->clock, 1);
	lay_out(f);
	return f->bytes > SIZE_MAX ? -EINVAL : 0;
}

int pagehint_flush_size(const struct pagehint_flush_opts *opts, uint64_t *ret_bytes)
{
	struct pagehint_flush f;
	int r = plan(opts, &f);
	if (r == 0)
		*ret_bytes = f.bytes;
	return r;
}

int pagehint_flush_init(void *mem, uint64_t bytes, const struct pagehint_flush_opts *opts,
			struct pagehint_flush **ret_flush)
{
	struct pagehint_flush f;
	int r = plan(opts, &f);
	if (r < 0)
		return r;
	if (mem == NULL || (uintptr_t)mem % 64 != 0 || bytes < f.bytes)
		return -EINVAL;
	memcpy(mem, &f, sizeof(f));
	*ret_flush = mem;
	return 0;
}

int pagehint_flush_new(const struct pagehint_flush_opts *opts, struct pagehint_flush **ret_flush)
{
	struct pagehint_flush *f;
	uint64_t bytes;
	int r = pagehint_flush_size(opts, &bytes);
	if (r < 0)
		return r;
	void *mem = ph_sys_real.map_memory(ph_sys_real.ctx, (size_t)bytes);
	if (mem == NULL)
		return -ENOMEM;
	r = pagehint_flush_init(mem, bytes, opts, &f);
	if (r < 0) {
		ph_sys_real.unmap_memory(ph_sys_real.ctx, mem, (size_t)bytes);
		return r;
	}
	f->from_new = 1;
	*ret_flush = f;
	return 0;
}

void pagehint_flush_free(struct pagehint_flush *flush)
{
	if (flush != NULL && flush->from_new)
		ph_sys_real.unmap_memory(ph_sys_real.ctx, flush, (size_t)flush->bytes);
}
