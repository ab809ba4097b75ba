/*
 * xencall: the calls table of xen.h over libxencall and libxenforeignmemory.
 *
 * These libraries make their system calls themselves, so the seam of the core has no part in this; errno is read here
 * because it is how they say what failed.
 */
#include <pagehint/xencall.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xencall.h>
#include <xenforeignmemory.h>

#define FRAME 4096u
#define MEMORY_OP 12u
#define FEATURE_DOM0 (1ull << 11)

_Static_assert(sizeof(xen_pfn_t) == sizeof(uint64_t), "frame numbers of the hypervisor are ours");
_Static_assert(sizeof(int) == sizeof(int32_t), "errors of libxenforeignmemory are ours");

struct way {
	xencall_handle *call;
	xenforeignmemory_handle *memory;
};

static int64_t memory_op(void *ctx, uint32_t op, void *arg)
{
	struct way *w = ctx;
	long r = xencall2L(w->call, MEMORY_OP, op, (uint64_t)(uintptr_t)arg);
	return r < 0 ? -errno : r;
}

static void *get_buffer(void *ctx, size_t bytes)
{
	struct way *w = ctx;
	void *buffer = xencall_alloc_buffer_pages(w->call, (bytes + FRAME - 1) / FRAME);
	if (buffer != NULL)
		memset(buffer, 0, bytes);
	return buffer;
}

static void put_buffer(void *ctx, void *buffer, size_t bytes)
{
	struct way *w = ctx;
	xencall_free_buffer_pages(w->call, buffer, (bytes + FRAME - 1) / FRAME);
}

static int zero(void *ctx, uint32_t domid, const uint64_t *frames, uint32_t n, int32_t *errors)
{
	struct way *w = ctx;
	unsigned char *at =
		xenforeignmemory_map(w->memory, domid, PROT_READ | PROT_WRITE, n, (const xen_pfn_t *)frames, errors);
	if (at == NULL)
		return -errno;
	for (uint32_t i = 0; i < n; i++)
		if (errors[i] == 0)
			memset(at + (size_t)i * FRAME, 0, FRAME);
	return xenforeignmemory_unmap(w->memory, at, n) < 0 ? -errno : 0;
}

static void destroy(void *ctx)
{
	struct way *w = ctx;
	if (w->call != NULL)
		xencall_close(w->call);
	if (w->memory != NULL)
		xenforeignmemory_close(w->memory);
	free(w);
}

/* 0; -ENODEV not Xen; -EOPNOTSUPP some other domain, in which opening the device may never end. */
static int is_hardware_domain(void)
{
	char text[32] = "";
	FILE *file = fopen("/sys/hypervisor/properties/features", "re");
	if (file == NULL)
		return -ENODEV;
	size_t n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = 0;
	return (strtoull(text, NULL, 16) & FEATURE_DOM0) != 0 ? 0 : -EOPNOTSUPP;
}

int pagehint_xencall_open(const struct pagehint_xen_opts *opts, struct pagehint_xen **ret_xen)
{
	static const struct pagehint_xen_calls calls = {
		.struct_size = sizeof(calls),
		.name = "libxencall",
		.memory_op = memory_op,
		.get_buffer = get_buffer,
		.put_buffer = put_buffer,
		.zero = zero,
		.destroy = destroy,
	};
	if (opts == NULL || ret_xen == NULL || opts->struct_size < sizeof(opts->struct_size) ||
	    (opts->struct_size > offsetof(struct pagehint_xen_opts, kind) && opts->kind == PAGEHINT_XEN_OWN))
		return -EINVAL;
	int r = is_hardware_domain();
	if (r < 0)
		return r;
	struct way *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->call = xencall_open(NULL, 0);
	if (w->call != NULL)
		w->memory = xenforeignmemory_open(NULL, 0);
	const int why = errno;
	if (w->call == NULL || w->memory == NULL) {
		destroy(w);
		return why > 0 ? -why : -EIO; /* a library that fails without a word has failed all the same */
	}
	r = pagehint_xen_new(&calls, w, opts, ret_xen);
	if (r != 0)
		destroy(w);
	return r;
}
