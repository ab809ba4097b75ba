#include "vhost/inflight.h"

#include <errno.h>

#include "base/bits.h"
#include "virtio/ring.h"

#define ALIGN UINT64_C(64)

/* as the protocol has it for split rings */
struct area {
	uint64_t features;
	uint16_t version; /* 0 = never used */
	uint16_t desc_num;
	uint16_t last_batch_head;
	uint16_t used_idx;
};
#define AREA_DESC_BYTES 16u

static uint64_t bytes_of(uint32_t queue_size)
{
	return ph_round_up(sizeof(struct area) + (uint64_t)AREA_DESC_BYTES * queue_size, ALIGN);
}

static int is_sound(const struct ph_vhost_inflight_said *said)
{
	return said->queues != 0 && said->queues <= PH_INFLIGHT_QUEUES && said->queue_size != 0 &&
	       said->queue_size <= PH_RING_SIZE_MAX;
}

static int map(struct ph_vhost_inflight *inflight, const struct ph_sys *sys, const struct ph_vhost_inflight_said *said,
	       int fd)
{
	void *at = NULL;
	int r = sys->map_shared(sys->ctx, fd, (size_t)said->mmap_size, said->mmap_offset, &at);
	if (r != 0)
		return r;
	ph_vhost_inflight_drop(inflight, sys);
	*inflight = (struct ph_vhost_inflight) { at, said->mmap_size, said->queues, said->queue_size };
	return 0;
}

int ph_vhost_inflight_make(struct ph_vhost_inflight *inflight, const struct ph_sys *sys,
			   struct ph_vhost_inflight_said *said, int *ret_fd)
{
	struct ph_vhost_inflight_said made = { .queues = said->queues, .queue_size = said->queue_size };
	if (!is_sound(said))
		return -EINVAL;
	made.mmap_size = bytes_of(said->queue_size) * said->queues;
	int fd = sys->memfd(sys->ctx, "pagehint-inflight", made.mmap_size);
	if (fd < 0)
		return fd;
	int r = map(inflight, sys, &made, fd);
	if (r != 0) {
		(void)sys->close(sys->ctx, fd);
		return r;
	}
	*said = made;
	*ret_fd = fd;
	return 0;
}

static int take(struct ph_vhost_inflight *inflight, const struct ph_sys *sys, const struct ph_vhost_inflight_said *said,
		int fd)
{
	struct stat st;
	if (!is_sound(said) || said->mmap_size < bytes_of(said->queue_size) * said->queues ||
	    !ph_sum_fits(said->mmap_size, said->mmap_offset) || said->mmap_size > SIZE_MAX)
		return -EINVAL;
	int r = sys->fstat(sys->ctx, fd, &st);
	if (r != 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size < said->mmap_size + said->mmap_offset)
		return -EINVAL;
	return map(inflight, sys, said, fd);
}

int ph_vhost_inflight_take(struct ph_vhost_inflight *inflight, const struct ph_sys *sys,
			   const struct ph_vhost_inflight_said *said, int fd)
{
	int r = take(inflight, sys, said, fd);
	(void)sys->close(sys->ctx, fd);
	return r;
}

void ph_vhost_inflight_drop(struct ph_vhost_inflight *inflight, const struct ph_sys *sys)
{
	if (inflight->at != NULL)
		sys->unmap_memory(sys->ctx, inflight->at, (size_t)inflight->bytes);
	memset(inflight, 0, sizeof(*inflight));
}

void ph_vhost_inflight_note(const struct ph_vhost_inflight *inflight, uint32_t index, uint64_t features, uint16_t used)
{
	if (inflight->at == NULL || index >= inflight->queues)
		return;
	const struct area area = {
		.features = features, .version = 1, .desc_num = (uint16_t)inflight->queue_size, .used_idx = used
	};
	memcpy((unsigned char *)inflight->at + bytes_of(inflight->queue_size) * index, &area, sizeof(area));
}
