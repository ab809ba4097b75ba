#include "virtio/transport.h"

#include <errno.h>
#include <string.h>

#include "base/opts.h"

uint64_t pagehint_virtio_size(void)
{
	return sizeof(struct pagehint_virtio);
}

static int memory_will_do(const void *mem, uint64_t bytes)
{
	return mem != NULL && (uintptr_t)mem % _Alignof(struct pagehint_virtio) == 0 &&
	       bytes >= sizeof(struct pagehint_virtio);
}

static int ops_are_whole(const struct pagehint_virtio_ops *ops)
{
	return ops->get_status != NULL && ops->set_status != NULL && ops->get_features != NULL &&
	       ops->set_features != NULL && ops->queue_max != NULL && ops->queue_setup != NULL && ops->notify != NULL &&
	       ops->config_read != NULL && ops->config_write != NULL && ops->config_generation != NULL;
}

int pagehint_virtio_init(void *mem, uint64_t bytes, const struct pagehint_virtio_ops *ops, void *ctx,
			 struct pagehint_virtio **ret_virtio)
{
	struct pagehint_virtio_ops table;
	if (!memory_will_do(mem, bytes) || ops == NULL || ret_virtio == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(table, ops);
	if (r < 0)
		return r;
	if (!ops_are_whole(&table))
		return -EINVAL;
	struct pagehint_virtio *virtio = mem;
	memset(virtio, 0, sizeof(*virtio));
	virtio->ops = table;
	virtio->ctx = ctx;
	if (virtio->ops.name == NULL)
		virtio->ops.name = "unnamed";
	*ret_virtio = virtio;
	return 0;
}

int ph_virtio_begin(void *mem, uint64_t bytes, const struct pagehint_virtio_access *access, void *ctx,
		    struct pagehint_virtio **ret_virtio)
{
	struct pagehint_virtio_access table;
	if (!memory_will_do(mem, bytes) || access == NULL || ret_virtio == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(table, access);
	if (r < 0)
		return r;
	struct pagehint_virtio *virtio = mem;
	memset(virtio, 0, sizeof(*virtio));
	virtio->access = table;
	virtio->access_ctx = ctx;
	virtio->ctx = virtio;
	*ret_virtio = virtio;
	return 0;
}
