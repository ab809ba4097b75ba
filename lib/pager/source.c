/*
 * source: the table, the checks on its answers, and the two sources that need no system call.
 */
#include "pager/source.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/opts.h"

#define CAPS (PAGEHINT_SOURCE_SIGNAL_SAFE | PAGEHINT_SOURCE_ASYNC)

int pagehint_source_new(const struct pagehint_source_ops *ops, void *ctx, struct pagehint_source **ret_source)
{
	struct pagehint_source_ops o;
	if (ops == NULL || ret_source == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(o, ops);
	if (r != 0)
		return r;
	if (o.fetch == NULL || (o.caps & ~CAPS) != 0 || o.reserved != 0)
		return -EINVAL;
	struct pagehint_source *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->ops = o;
	s->ctx = ctx;
	*ret_source = s;
	return 0;
}

void pagehint_source_free(struct pagehint_source *source)
{
	if (source == NULL)
		return;
	if (source->ops.destroy != NULL)
		source->ops.destroy(source->ctx);
	free(source);
}

void ph_source_extent(const struct pagehint_source *source, uint64_t offset, uint64_t bytes, uint64_t page,
		      uint64_t *ret_bytes, uint32_t *ret_is_zero)
{
	uint64_t n = 0;
	uint32_t zero = 0;
	*ret_bytes = bytes;
	*ret_is_zero = source == NULL;
	if (source == NULL || source->ops.extent == NULL)
		return;
	if (source->ops.extent(source->ctx, offset, bytes, &n, &zero) < 0 || n == 0 || n > bytes)
		return; /* it cannot tell: then it is data */
	/* a page that is partly data is data */
	*ret_bytes = zero != 0 ? ph_round_down(n, page) : ph_round_up(n, page);
	*ret_is_zero = zero != 0 && *ret_bytes != 0;
	if (*ret_bytes == 0 || *ret_bytes > bytes)
		*ret_bytes = *ret_bytes == 0 ? page : bytes;
}

int ph_source_fetch(const struct pagehint_source *source, struct pagehint_fetch *fetch, uint64_t page)
{
	uint64_t asked = fetch->bytes;
	fetch->struct_size = sizeof(*fetch);
	fetch->data = NULL;
	fetch->done = 0;
	int r = source->ops.fetch(source->ctx, fetch);
	if (r == -EINPROGRESS)
		return (source->ops.caps & PAGEHINT_SOURCE_ASYNC) != 0 ? r : -EIO;
	if (r != 0)
		return r < 0 ? r : -EIO;
	fetch->done = ph_round_down(fetch->done, page);
	return fetch->done == 0 || fetch->done > asked ? -EIO : 0;
}

/* ---- nothing but zeros ---- */

static int zero_fetch(void *ctx, struct pagehint_fetch *fetch)
{
	(void)ctx;
	fetch->data = NULL;
	fetch->done = fetch->bytes;
	return 0;
}

static int zero_extent(void *ctx, uint64_t offset, uint64_t bytes, uint64_t *ret_bytes, uint32_t *ret_is_zero)
{
	(void)ctx;
	(void)offset;
	*ret_bytes = bytes;
	*ret_is_zero = 1;
	return 0;
}

int pagehint_source_zero_new(struct pagehint_source **ret_source)
{
	static const struct pagehint_source_ops ops = {
		.struct_size = sizeof(ops),
		.name = "zero",
		.caps = PAGEHINT_SOURCE_SIGNAL_SAFE,
		.fetch = zero_fetch,
		.extent = zero_extent,
	};
	return pagehint_source_new(&ops, NULL, ret_source);
}

/* ---- memory of this process ---- */

struct memory {
	const unsigned char *at;
	uint64_t bytes;
};

/* Never reads it: the kernel does, which answers a hole with an error where a read would be a signal. */
static int memory_fetch(void *ctx, struct pagehint_fetch *fetch)
{
	const struct memory *m = ctx;
	fetch->done = fetch->bytes;
	if (fetch->offset >= m->bytes)
		return 0;
	fetch->data = m->at + fetch->offset;
	if (fetch->bytes > m->bytes - fetch->offset)
		fetch->done = m->bytes - fetch->offset;
	return 0;
}

static int memory_extent(void *ctx, uint64_t offset, uint64_t bytes, uint64_t *ret_bytes, uint32_t *ret_is_zero)
{
	const struct memory *m = ctx;
	*ret_is_zero = offset >= m->bytes;
	*ret_bytes = *ret_is_zero || bytes <= m->bytes - offset ? bytes : m->bytes - offset;
	return 0;
}

int pagehint_source_memory_new(const void *memory, uint64_t bytes, struct pagehint_source **ret_source)
{
	static const struct pagehint_source_ops ops = {
		.struct_size = sizeof(ops),
		.name = "memory",
		.caps = PAGEHINT_SOURCE_SIGNAL_SAFE,
		.fetch = memory_fetch,
		.extent = memory_extent,
		.destroy = free,
	};
	if (memory == NULL || ret_source == NULL || bytes > INT64_MAX)
		return -EINVAL;
	/* the rest of the last page of a mapping is zero; of anything else it is somebody's */
	if ((uintptr_t)memory % 4096 != 0 && bytes % 4096 != 0)
		return -EINVAL;
	struct memory *m = malloc(sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	*m = (struct memory) { memory, ph_round_up(bytes, 4096) };
	int r = pagehint_source_new(&ops, m, ret_source);
	if (r < 0)
		free(m);
	return r;
}
