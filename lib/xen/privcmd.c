#include "xen/privcmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "xen/abi.h"

struct privcmd {
	const struct ph_sys *sys;
	int fd;      /* /dev/xen/privcmd */
	int buffers; /* /dev/xen/hypercall */
};

static int64_t memory_op(void *ctx, uint32_t op, void *arg)
{
	struct privcmd *p = ctx;
	struct ph_xen_hypercall call = { .op = PH_XEN_MEMORY_OP, .arg = { op, (uintptr_t)arg } };
	return p->sys->ioctl(p->sys->ctx, p->fd, PH_XEN_IOCTL_HYPERCALL, &call);
}

static void *get_buffer(void *ctx, size_t bytes)
{
	struct privcmd *p = ctx;
	void *buffer = NULL;
	return p->sys->map_file(p->sys->ctx, p->buffers, bytes, &buffer) < 0 ? NULL : buffer;
}

static void put_buffer(void *ctx, void *buffer, size_t bytes)
{
	struct privcmd *p = ctx;
	p->sys->unmap_memory(p->sys->ctx, buffer, bytes);
}

static int zero(void *ctx, uint32_t domid, const uint64_t *frames, uint32_t n, int32_t *errors)
{
	struct privcmd *p = ctx;
	size_t bytes = (size_t)n * PH_XEN_FRAME_BYTES;
	void *at = NULL;
	int r = p->sys->map_file(p->sys->ctx, p->fd, bytes, &at);
	if (r < 0)
		return r;
	struct ph_xen_map map = {
		.num = n,
		.domid = (uint16_t)domid,
		.addr = (uintptr_t)at,
		.frames = (uintptr_t)frames,
		.errors = (uintptr_t)errors,
	};
	int64_t got = p->sys->ioctl(p->sys->ctx, p->fd, PH_XEN_IOCTL_MAP, &map);
	r = got < 0 && got != -ENOENT ? (int)got : 0; /* ENOENT: some are paged out, as errors[] says */
	for (uint32_t i = 0; r == 0 && i < n; i++)
		if (errors[i] == 0)
			memset((unsigned char *)at + (size_t)i * PH_XEN_FRAME_BYTES, 0, PH_XEN_FRAME_BYTES);
	p->sys->unmap_memory(p->sys->ctx, at, bytes);
	return r;
}

static void destroy(void *ctx)
{
	struct privcmd *p = ctx;
	(void)p->sys->close(p->sys->ctx, p->fd);
	(void)p->sys->close(p->sys->ctx, p->buffers);
	free(p);
}

int ph_xen_privcmd(const struct ph_sys *sys, int fd, struct pagehint_xen_calls *ret_calls, void **ret_ctx)
{
	int buffers = sys->open(sys->ctx, "/dev/xen/hypercall", O_RDWR);
	if (buffers < 0)
		return buffers;
	struct privcmd *p = malloc(sizeof(*p));
	if (p == NULL) {
		(void)sys->close(sys->ctx, buffers);
		return -ENOMEM;
	}
	*p = (struct privcmd) { .sys = sys, .fd = fd, .buffers = buffers };
	*ret_calls = (struct pagehint_xen_calls) {
		.struct_size = sizeof(*ret_calls),
		.name = "privcmd",
		.memory_op = memory_op,
		.get_buffer = get_buffer,
		.put_buffer = put_buffer,
		.zero = zero,
		.destroy = destroy,
	};
	*ret_ctx = p;
	return 0;
}
