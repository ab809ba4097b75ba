/* the balloon's two ends and their transports */
#include "kinds.h"

#include <pagehint/backend.h>
#include <pagehint/balloon.h>
#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/driver.h>
#include <pagehint/vhost.h>
#include <pagehint/virtio.h>

#define SMALL (UINT64_C(4) << 20)

/* ---- the device ---- */

static void hinted(void *ctx, uint32_t id, const struct pagehint_run *runs, uint32_t n)
{
	(void)ctx;
	(void)id;
	(void)runs;
	(void)n;
}

static const struct pagehint_device_hooks some_hooks = { .struct_size = sizeof(some_hooks), .hinted = hinted };
static const struct pagehint_device_knobs some_knobs = { .struct_size = sizeof(some_knobs), .rate = 4096 };

static void use_device(struct pagehint_device *device)
{
	struct pagehint_device_work work = { .struct_size = sizeof(work) };
	uint64_t taken = 0;
	SURE(pagehint_device_set_target(device, 5, 4096, &taken) == 0);
	SURE(pagehint_device_step(device, 6, &work) == 0 && work.more == 0);
	SURE(pagehint_device_reset(device) == 0);
}

static int make_device(const void *opts)
{
	struct pagehint_backend *backend = some_backend();
	struct pagehint_device *device = NOTHING;
	int r = pagehint_device_new(some_map(), backend, NULL, opts, &device);
	SURE(r == 0 || device == NOTHING);
	if (r == 0) {
		use_device(device);
		SURE(pagehint_device_free(device) == 0);
	}
	SURE(pagehint_backend_free(backend) == 0);
	return r;
}

static void point_device(void *opts, uint64_t how)
{
	struct pagehint_device_opts *o = opts;
	o->hooks = MAYBE(how, 0, &some_hooks);
	o->knobs = MAYBE(how, 1, &some_knobs);
}

static void point_hooks(void *opts, uint64_t how)
{
	struct pagehint_device_hooks *o = opts;
	o->ctx = NULL;
	o->hinted = MAYBE(how, 0, hinted);
	o->log = NULL;
}

static int make_hooks(const void *opts)
{
	const struct pagehint_device_opts o = { .struct_size = sizeof(o), .hooks = opts };
	return make_device(&o);
}

/* At birth and later they mean the same. */
static int make_knobs(const void *opts)
{
	const struct pagehint_device_opts o = { .struct_size = sizeof(o), .knobs = opts };
	struct pagehint_backend *backend = some_backend();
	struct pagehint_device *device;
	SURE(pagehint_device_new(some_map(), backend, NULL, NULL, &device) == 0);
	int r = pagehint_device_tune(device, opts);
	SURE(pagehint_device_free(device) == 0 && pagehint_backend_free(backend) == 0);
	SURE(make_device(&o) == r);
	return r;
}

/* ---- a session ---- */

static const struct pagehint_device_opts some_device = {
	.struct_size = sizeof(some_device),
	.numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED,
	.queue_size = 64,
	.budget = 64,
	.partial_blocks = 1,
};

static void point_vhost(void *opts, uint64_t how)
{
	static const unsigned char state[4096];
	struct pagehint_vhost_opts *o = opts;
	o->device = MAYBE(how, 0, &some_device);
	o->gate = NULL;
	o->backend = NULL;
	o->backend_ctx = NULL;
	o->state = MAYBE(how, 1, state);
	o->state_bytes = o->state == NULL ? o->state_bytes : o->state_bytes & 4095;
}

static int make_vhost(const void *opts)
{
	struct pagehint_vhost *vhost = NOTHING;
	uint64_t deadline = 0;
	int r = pagehint_vhost_new(opts, &vhost);
	SURE(r == 0 || vhost == NOTHING);
	if (r == 0) {
		(void)!pagehint_vhost_step(vhost, 5, &deadline, NULL);
		use_device(pagehint_vhost_device(vhost));
		SURE(pagehint_vhost_free(vhost) == 0);
	}
	return r;
}

/* ---- a transport, and the driver on it ---- */

static uint32_t status;

static uint32_t get_status(void *ctx)
{
	(void)ctx;
	return status;
}

static void set_status(void *ctx, uint32_t value)
{
	(void)ctx;
	status = value;
}

static uint64_t get_features(void *ctx)
{
	(void)ctx;
	return PAGEHINT_VIRTIO_F_VERSION_1 | PAGEHINT_BALLOON_F_ALL | PAGEHINT_VIRTIO_F_EVENT_IDX;
}

static void set_features(void *ctx, uint64_t features)
{
	(void)ctx;
	SURE((features & ~get_features(NULL)) == 0);
}

static uint32_t queue_max(void *ctx, uint32_t index)
{
	(void)ctx;
	return index < 5 ? 128 : 0;
}

static int queue_setup(void *ctx, const struct pagehint_virtio_queue *queue)
{
	(void)ctx;
	return queue->index < 5 && queue->size <= 128 ? 0 : -EINVAL;
}

static void notify(void *ctx, uint32_t index)
{
	(void)ctx;
	SURE(index < 5);
}

static uint32_t config_read(void *ctx, uint32_t offset)
{
	(void)ctx;
	SURE(offset < PAGEHINT_BALLOON_CONFIG_BYTES);
	return 0;
}

static void config_write(void *ctx, uint32_t offset, uint32_t value)
{
	(void)ctx;
	(void)value;
	SURE(offset < PAGEHINT_BALLOON_CONFIG_BYTES);
}

static uint32_t config_generation(void *ctx)
{
	(void)ctx;
	return 0;
}

static const struct pagehint_virtio_ops all_ops = {
	.struct_size = sizeof(all_ops),
	.name = "fuzz",
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

/* All of them, or all but one. */
static void point_virtio(void *opts, uint64_t how)
{
	const uint64_t first = offsetof(struct pagehint_virtio_ops, name) / 8, n = sizeof(all_ops) / 8 - first;
	*(struct pagehint_virtio_ops *)opts = all_ops;
	if ((how & 1) != 0)
		memset((unsigned char *)opts + (first + (how >> 1) % n) * 8, 0, 8);
}

static int make_virtio(const void *opts)
{
	uint64_t bytes = pagehint_virtio_size();
	void *mem = malloc(bytes);
	struct pagehint_virtio *virtio = NOTHING;
	int r = pagehint_virtio_init(mem, bytes, opts, NULL, &virtio);
	SURE(r == 0 ? (void *)virtio == mem : virtio == NOTHING);
	free(mem);
	return r;
}

static uint32_t read32(void *ctx, uint32_t bar, uint64_t offset)
{
	static const uint32_t registers[] = { 0x74726976, 2, PAGEHINT_BALLOON_DEVICE_ID };
	(void)ctx;
	SURE(bar == 0);
	return offset / 4 < 3 ? registers[offset / 4] : 0;
}

static void write32(void *ctx, uint32_t bar, uint64_t offset, uint32_t value)
{
	(void)ctx;
	(void)bar;
	(void)offset;
	(void)value;
}

static uint32_t pci_read32(void *ctx, uint32_t offset)
{
	(void)ctx;
	SURE(offset < 256 && offset % 4 == 0);
	return offset == 0   ? 0x10451af4
	       : offset == 4 ? 0x00100000
			     : 0; /* a balloon whose list of capabilities is empty */
}

static void point_access(void *opts, uint64_t how)
{
	struct pagehint_virtio_access *o = opts;
	memset(&o->read8, 0, sizeof(*o) - offsetof(struct pagehint_virtio_access, read8));
	o->read32 = (how & 3) != 0 ? read32 : NULL;
	o->write32 = (how & 12) != 0 ? write32 : NULL;
	o->pci_read32 = MAYBE(how, 4, pci_read32);
}

static int make_access(const void *opts)
{
	uint64_t bytes = pagehint_virtio_size();
	void *mem = malloc(bytes);
	struct pagehint_virtio *virtio = NOTHING;
	int pci = pagehint_virtio_init_pci(mem, bytes, opts, NULL, PAGEHINT_VIRTIO_NO_VECTOR, &virtio);
	SURE(pci != 0 && virtio == NOTHING && (pci == -E2BIG || pci == -EINVAL || pci == -ENODEV));
	int r = pagehint_virtio_init_mmio(mem, bytes, opts, NULL, 0, &virtio);
	SURE(r == 0 ? (void *)virtio == mem : virtio == NOTHING);
	SURE((r == -E2BIG) == (pci == -E2BIG));
	free(mem);
	return r;
}

/* ---- the driver ---- */

static void point_driver(void *opts, uint64_t how)
{
	struct pagehint_driver_opts *o = opts;
	if ((how & 3) != 0) {
		o->dma_address &= UINT64_C(0xffffffffffc0);
		o->dma_bytes = SMALL;
	}
}

/* Once through its life, in memory that is exactly as large as it said. */
static int live(void *mem, uint64_t bytes, void *dma, const void *ops, const void *opts)
{
	uint64_t room[64];
	struct pagehint_virtio *virtio;
	struct pagehint_driver *driver = NOTHING;
	uint64_t deadline = 0;
	SURE(pagehint_virtio_size() <= sizeof(room));
	SURE(pagehint_virtio_init(room, sizeof(room), &all_ops, NULL, &virtio) == 0);
	int r = pagehint_driver_init(mem, bytes, dma, virtio, ops, NULL, opts, &driver);
	SURE(r == 0 ? (void *)driver == mem : driver == NOTHING);
	status = 0;
	if (r == 0 && pagehint_driver_start(driver, 5) == 0) {
		SURE(pagehint_driver_step(driver, 6, &deadline) == 0);
		SURE(pagehint_driver_reset(driver, 7) == 0);
	}
	return r;
}

static int make_driver(const void *opts)
{
	uint64_t bytes = 77, dma_bytes = 77;
	int r = pagehint_driver_size(opts, &bytes, &dma_bytes);
	SURE(r == 0 || (bytes == 77 && dma_bytes == 77));
	if (r != 0 || bytes + dma_bytes > SMALL)
		return r;
	void *mem = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
	void *dma = aligned_alloc(64, (dma_bytes + 63) & ~UINT64_C(63));
	SURE(mem != NULL && dma != NULL);
	memset(mem, 0xa5, bytes); /* it may have any content */
	memset(dma, 0xa5, dma_bytes);
	r = live(mem, bytes, dma, NULL, opts);
	free(mem);
	free(dma);
	return r;
}

static int take_frames(void *ctx, uint32_t what_for, uint64_t frames, struct pagehint_run *runs, uint32_t max,
		       uint32_t *ret_n)
{
	(void)ctx;
	(void)what_for;
	(void)frames;
	(void)runs;
	(void)max;
	(void)ret_n;
	return -ENOSPC;
}

static void give_frames(void *ctx, uint32_t what_for, const struct pagehint_run *runs, uint32_t n)
{
	(void)ctx;
	(void)what_for;
	(void)runs;
	(void)n;
}

static void point_driver_ops(void *opts, uint64_t how)
{
	struct pagehint_driver_ops *o = opts;
	o->take = MAYBE(how, 0, take_frames);
	o->give = MAYBE(how, 1, give_frames);
	o->before_inflate = NULL;
	o->get_stats = NULL;
}

static int make_driver_ops(const void *ops)
{
	struct pagehint_driver_opts opts = { .struct_size = sizeof(opts), .ring_size = 8, .max_held = 64 };
	uint64_t bytes = 0, dma_bytes = 0;
	SURE(pagehint_driver_size(&opts, &bytes, &dma_bytes) == 0);
	void *mem = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
	void *dma = aligned_alloc(64, (dma_bytes + 63) & ~UINT64_C(63));
	SURE(mem != NULL && dma != NULL);
	memset(mem, 0xa5, bytes);
	opts.dma_bytes = dma_bytes;
	int r = live(mem, bytes, dma, ops, &opts);
	free(mem);
	free(dma);
	return r;
}

const struct kind virtio_kinds[] = {
	{ "device", sizeof(struct pagehint_device_opts), point_device, make_device },
	{ "device hooks", sizeof(struct pagehint_device_hooks), point_hooks, make_hooks },
	{ "device knobs", sizeof(struct pagehint_device_knobs), NULL, make_knobs },
	{ "vhost", sizeof(struct pagehint_vhost_opts), point_vhost, make_vhost },
	{ "virtio", sizeof(struct pagehint_virtio_ops), point_virtio, make_virtio },
	{ "access", sizeof(struct pagehint_virtio_access), point_access, make_access },
	{ "driver", sizeof(struct pagehint_driver_opts), point_driver, make_driver },
	{ "driver ops", sizeof(struct pagehint_driver_ops), point_driver_ops, make_driver_ops },
};
const uint32_t virtio_kinds_n = sizeof(virtio_kinds) / sizeof(*virtio_kinds);
