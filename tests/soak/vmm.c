#include "vmm.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include <pagehint/host.h>

#include "faults.h"
#include "memory/map.h"
#include "rss.h"

#define MILLISECOND UINT64_C(1000000)

/* ---- registers, called by the driver's thread ---- */

static struct vmm *enter(void *ctx)
{
	struct vmm *v = ctx;
	pthread_mutex_lock(&v->lock);
	return v;
}

static void leave(struct vmm *v)
{
	pthread_mutex_unlock(&v->lock);
}

/* The call of a register comes to its end; the device could not tell which process it is in when the last one failed. */
static int again(int r, uint64_t *mine)
{
	int failed = r == -ENODEV && faults_mine() != *mine;
	*mine = faults_mine();
	return failed;
}

static uint32_t get_status(void *ctx)
{
	struct vmm *v = enter(ctx);
	uint32_t status = pagehint_device_status(v->device);
	leave(v);
	return status;
}

static void set_status(void *ctx, uint32_t status)
{
	struct vmm *v = enter(ctx);
	uint64_t mine = faults_mine();
	int r;
	do
		r = pagehint_device_set_status(v->device, status);
	while (again(r, &mine));
	if (r != 0 && r != -EAGAIN)
		(void)soak_bad(v->part, "status %u gave %d", status, r);
	if (status == 0) {
		memset(v->is_set, 0, sizeof(v->is_set));
		v->resets++;
	}
	leave(v);
}

static uint64_t get_features(void *ctx)
{
	return pagehint_device_features(((struct vmm *)ctx)->device);
}

static void set_features(void *ctx, uint64_t features)
{
	struct vmm *v = enter(ctx);
	uint64_t mine = faults_mine();
	int r;
	do
		r = pagehint_device_set_features(v->device, features);
	while (again(r, &mine));
	(void)SOAK_MUST(v->part, r == 0);
	leave(v);
}

static uint32_t queue_max(void *ctx, uint32_t index)
{
	struct vmm *v = enter(ctx);
	int role = pagehint_device_queue_role(v->device, index);
	leave(v);
	return role >= 0 ? 64 : 0;
}

static void *host_of(const struct vmm *v, uint64_t addr)
{
	return v->dma + (addr - v->dma_frame * CONTENT_PAGE);
}

static int start_queue(struct vmm *v, uint32_t index, uint32_t flags)
{
	const struct pagehint_virtio_queue *q = &v->at[index];
	int packed = (pagehint_device_negotiated(v->device) & PAGEHINT_VIRTIO_F_RING_PACKED) != 0;
	struct pagehint_device_queue queue = { .struct_size = sizeof(queue),
					       .desc = host_of(v, q->desc),
					       .driver = host_of(v, q->driver),
					       .device = host_of(v, q->device),
					       .size = q->size,
					       .base = packed ? 0x80008000u : 0,
					       .flags = flags };
	return pagehint_device_queue_start(v->device, index, &queue);
}

static int queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	struct vmm *v = enter(ctx);
	uint64_t mine = faults_mine();
	int r;
	v->at[queue->index] = *queue;
	do
		r = start_queue(v, queue->index, 0);
	while (again(r, &mine));
	(void)SOAK_MUST(v->part, r == 0);
	v->is_set[queue->index] = r == 0;
	leave(v);
	return r;
}

static void notify(void *ctx, uint32_t index)
{
	atomic_fetch_or(&((struct vmm *)ctx)->kicks, 1u << index);
}

static uint32_t config_read(void *ctx, uint32_t offset)
{
	struct vmm *v = enter(ctx);
	unsigned char b[4] = { 0 };
	(void)SOAK_MUST(v->part, pagehint_device_config_read(v->device, offset, b, 4) == 0);
	leave(v);
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void config_write(void *ctx, uint32_t offset, uint32_t value)
{
	struct vmm *v = enter(ctx);
	unsigned char b[4] = { (unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
			       (unsigned char)(value >> 24) };
	uint64_t mine = faults_mine();
	int r;
	do
		r = pagehint_device_config_write(v->device, v->now, offset, b, 4);
	while (again(r, &mine));
	(void)SOAK_MUST(v->part, r == 0);
	leave(v);
}

static uint32_t config_generation(void *ctx)
{
	return atomic_load(&((struct vmm *)ctx)->generation);
}

static int open_transport(struct vmm *v)
{
	static const struct pagehint_virtio_ops ops = {
		.struct_size = sizeof(ops),
		.name = "soak",
		.get_status = get_status,
		.set_status = set_status,
		.get_features = get_features,
		.set_features = set_features,
		.queue_max = queue_max,
		.queue_setup = queue_setup,
		.notify = notify,
		.config_read = config_read,
		.config_write = config_write,
		.config_generation = config_generation,
	};
	return pagehint_virtio_init(v->memory, sizeof(v->memory), &ops, v, &v->virtio);
}

/* ---- the device's thread ---- */

static void note(struct vmm *v, int r, const struct pagehint_device_work *work, const char *what)
{
	if (r != 0) {
		(void)soak_bad(v->part, "%s of the device gave %d", what, r);
		return;
	}
	if ((work->events & PAGEHINT_DEVICE_EVENT_CONFIG) != 0)
		atomic_fetch_add(&v->generation, 1);
	if ((work->events & PAGEHINT_DEVICE_EVENT_NEEDS_RESET) != 0)
		(void)soak_bad(v->part, "the device says that its driver broke it");
	for (uint32_t i = 0; i < VMM_QUEUES; i++)
		if ((work->more & 1u << i) != 0)
			atomic_fetch_or(&v->kicks, 1u << i);
}

/* What the host wants: a target, hints, statistics, quiet. */
static void want(struct vmm *v, struct soak_member *m)
{
	uint64_t bytes = soak_below(&m->chance, 3) * (v->content->base / 4) * CONTENT_PAGE;
	uint32_t id;
	int r = 0;
	switch (soak_below(&m->chance, 6)) {
	case 0:
		r = pagehint_device_set_target(v->device, v->now, bytes, NULL);
		break;
	case 1:
		r = pagehint_device_hint_start(v->device, &id);
		break;
	case 2:
		r = soak_below(&m->chance, 2) ? pagehint_device_hint_stop(v->device)
					      : pagehint_device_hint_done(v->device);
		break;
	case 3:
		r = pagehint_device_stats_request(v->device);
		break;
	default:
		v->gate_closed = !v->gate_closed && soak_below(&m->chance, 4) == 0;
		while (!v->gate_closed && pagehint_gate_open(v->gate, PAGEHINT_INHIBIT_EMBEDDER) == 0)
			;
		if (v->gate_closed)
			r = pagehint_gate_close(v->gate, PAGEHINT_INHIBIT_EMBEDDER, NULL);
	}
	if (r != 0 && r != -EBUSY && r != -EAGAIN && r != -ENODEV && r != -EALREADY && r != -EOPNOTSUPP)
		(void)soak_bad(v->part, "the host was refused with %d", r);
}

int vmm_turn(void *vmm, struct soak_member *m)
{
	struct vmm *v = vmm;
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	uint32_t kicks = atomic_exchange(&v->kicks, 0);
	pthread_mutex_lock(&v->lock);
	uint64_t now = atomic_fetch_add(&v->now, MILLISECOND / 10), mine = faults_mine();
	for (uint32_t i = 0; i < VMM_QUEUES; i++) {
		if ((kicks & 1u << i) == 0)
			continue;
		int r = pagehint_device_queue_kick(v->device, i, now, &work);
		if (r == -ENODEV && faults_mine() != mine)
			atomic_fetch_or(&v->kicks, 1u << i); /* once more */
		else if (r != -ENOENT)                       /* it was reset meanwhile */
			note(v, r, &work, "a kick");
	}
	int r = pagehint_device_step(v->device, now, &work);
	if (r == 0 || faults_mine() == mine)
		note(v, r, &work, "a step");
	if (soak_below(&m->chance, 60) == 0)
		want(v, m);
	leave(v);
	return kicks != 0;
}

/* ---- everybody rests ---- */

void vmm_walk(struct vmm *v)
{
	struct pagehint_device_stats s = { .struct_size = sizeof(s) };
	struct pagehint_backend_stats b = { .struct_size = sizeof(b) };
	(void)SOAK_MUST(v->part, pagehint_device_stats(v->device, &s) == 0);
	(void)SOAK_MUST(v->part, s.asked == s.freed + s.absent + s.accepted + s.kept + s.lazy + s.failed);
	(void)SOAK_MUST(v->part, s.completed <= s.popped && s.in_flight == 0 && s.broken == 0);
	for (uint32_t i = 0; i < PAGEHINT_DEVICE_DROP_COUNT; i++)
		if (s.dropped[i] != 0 && i != PAGEHINT_DEVICE_DROP_INHIBITED && i != PAGEHINT_DEVICE_DROP_STALE_HINT &&
		    i != PAGEHINT_DEVICE_DROP_NOT_READY)
			(void)soak_bad(v->part, "%" PRIu64 " dropped: %s", s.dropped[i], pagehint_device_drop_text(i));
	(void)SOAK_MUST(v->part, pagehint_gate_in_flight(v->gate) == 0);
	(void)SOAK_MUST(v->part, pagehint_backend_stats(v->taker.judged, &b) == 0);
	/* what the backend refused as a whole is asked and kept in the device's eyes alone */
	(void)SOAK_MUST(v->part, v->gone + s.freed + s.absent + s.accepted == b.freed + b.absent + b.accepted);
	(void)SOAK_MUST(v->part, v->kept + s.kept + s.lazy >= b.kept + b.lazy);
	taker_walk(&v->taker, NULL);
}

/* A device's figures end with it. */
static void sum_up(struct vmm *v)
{
	struct pagehint_device_stats s = { .struct_size = sizeof(s) };
	(void)SOAK_MUST(v->part, pagehint_device_stats(v->device, &s) == 0);
	v->gone += s.freed + s.absent + s.accepted;
	v->kept += s.kept + s.lazy;
}

static int new_device(struct vmm *v)
{
	struct pagehint_device_opts opts = { .struct_size = sizeof(opts), .flags = PAGEHINT_DEVICE_PROBE };
	opts.features = PAGEHINT_DEVICE_FEATURES_DEFAULT | PAGEHINT_VIRTIO_F_RING_PACKED;
	opts.features &= ~PAGEHINT_BALLOON_F_PAGE_POISON;
	return pagehint_device_new(v->map, v->taker.judged, v->gate, &opts, &v->device);
}

void vmm_restore(struct vmm *v)
{
	static unsigned char blob[VMM_BLOB];
	uint64_t length = 0;
	(void)SOAK_MUST(v->part, pagehint_device_save_bytes(v->device) <= sizeof(blob));
	(void)SOAK_MUST(v->part, pagehint_device_save(v->device, v->now, blob, sizeof(blob), &length) == 0);
	sum_up(v);
	(void)SOAK_MUST(v->part, pagehint_device_free(v->device) == 0);
	(void)SOAK_MUST(v->part, new_device(v) == 0);
	(void)SOAK_MUST(v->part, pagehint_device_load(v->device, v->now, blob, length) == 0);
	for (uint32_t i = 0; i < VMM_QUEUES; i++)
		if (v->is_set[i])
			(void)SOAK_MUST(v->part, start_queue(v, i, PAGEHINT_DEVICE_QUEUE_RESUME) == 0);
	atomic_store(&v->kicks, (1u << VMM_QUEUES) - 1);
	/* whatever chance wants in between: after every other walk the balloon has something to do */
	(void)SOAK_MUST(v->part,
			pagehint_device_set_target(v->device, v->now,
						   v->restores % 2 == 0 ? v->content->base * 1024 : 0, NULL) == 0);
	v->restores++;
}

/* ---- life ---- */

int vmm_open(struct vmm *v, const char *part, struct content *content, uint64_t dma_bytes)
{
	struct pagehint_backend_opts how = { .struct_size = sizeof(how) };
	struct pagehint_region_desc ram = { .struct_size = sizeof(ram),
					    .frames = content->base,
					    .fd = content->fd,
					    .host_addr = (uintptr_t)content->memory };
	struct pagehint_region_desc rings = { .struct_size = sizeof(rings),
					      .fd = -1,
					      .flags = PAGEHINT_REGION_PIN_AT_ADD };
	uint64_t id;
	memset(v, 0, sizeof(*v));
	v->part = part;
	v->content = content;
	v->now = MILLISECOND;
	v->dma_frame = content->base + 512;
	v->dma_bytes = (dma_bytes + CONTENT_PAGE - 1) / CONTENT_PAGE * CONTENT_PAGE;
	v->dma = mmap(NULL, v->dma_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (v->dma == MAP_FAILED || pthread_mutex_init(&v->lock, NULL) != 0)
		return -ENOMEM;
	rings.frame = v->dma_frame;
	rings.frames = v->dma_bytes / CONTENT_PAGE;
	rings.host_addr = (uintptr_t)v->dma;
	how.hooks = taker_hooks(&v->taker, part, content);
	int r = ph_map_new_with(NULL, faults_sys(), &v->map);
	if (r == 0)
		r = pagehint_map_add(v->map, &ram, &id);
	if (r == 0)
		r = pagehint_map_add(v->map, &rings, &id);
	if (r == 0)
		r = pagehint_gate_new(&v->gate);
	if (r == 0)
		r = pagehint_madvise_new(v->map, NULL, &how, &v->taker.judged);
	if (r == 0)
		r = new_device(v);
	return r == 0 ? open_transport(v) : r;
}

void vmm_close(struct vmm *v)
{
	(void)SOAK_MUST(v->part, pagehint_device_reset(v->device) == 0);
	(void)SOAK_MUST(v->part, pagehint_device_free(v->device) == 0);
	(void)SOAK_MUST(v->part, pagehint_backend_free(v->taker.judged) == 0);
	(void)SOAK_MUST(v->part, pagehint_gate_free(v->gate) == 0);
	(void)SOAK_MUST(v->part, pagehint_map_free(v->map) == 0);
	munmap(v->dma, v->dma_bytes);
	pthread_mutex_destroy(&v->lock);
}
