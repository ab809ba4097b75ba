#include "virtio/device.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "discard/backend.h"

#define FLAGS                                                                                \
	(PAGEHINT_DEVICE_POPULATE | PAGEHINT_DEVICE_HINT_AUTO_DONE | PAGEHINT_DEVICE_PROBE | \
	 PAGEHINT_DEVICE_INIT_REPORTED)
#define FEATURES                                                                                                \
	(PAGEHINT_DEVICE_FEATURES_DEFAULT | PAGEHINT_VIRTIO_F_ACCESS_PLATFORM | PAGEHINT_VIRTIO_F_RING_PACKED | \
	 PAGEHINT_VIRTIO_F_IN_ORDER)
#define SECOND UINT64_C(1000000000)
#define MILLISECOND UINT64_C(1000000)

static int read_knobs(struct pagehint_device_knobs *to, const struct pagehint_device_knobs *from)
{
	int r = PH_OPTS_IN(*to, from);
	if (r < 0)
		return r;
	if (to->min_report_bytes > UINT64_C(1) << 30 || to->holdback_ns > 3600 * SECOND)
		return -EINVAL;
	return to->stats_interval_ns != 0 && to->stats_interval_ns < MILLISECOND ? -EINVAL : 0;
}

static int read_opts(struct pagehint_device_opts *o, const struct pagehint_device_opts *opts)
{
	int r = PH_OPTS_IN(*o, opts);
	if (r < 0)
		return r;
	if ((o->flags & ~FLAGS) != 0 || (o->features & ~FEATURES) != 0 || o->reserved != 0)
		return -EINVAL;
	if (o->features == 0)
		o->features = PAGEHINT_DEVICE_FEATURES_DEFAULT;
	if ((o->flags & PAGEHINT_DEVICE_INIT_REPORTED) != 0)
		o->features |= PAGEHINT_BALLOON_F_DEVICE_INIT_REPORTED;
	o->stale_ns = o->stale_ns == 0 ? 30 * SECOND : o->stale_ns;
	o->stall_ns = o->stall_ns == 0 ? 10 * SECOND : o->stall_ns;
	o->queue_size = o->queue_size == 0 ? 1024 : o->queue_size;
	o->budget = o->budget == 0 ? 65536 : o->budget;
	o->partial_blocks = o->partial_blocks == 0 ? 4096 : o->partial_blocks;
	if (o->numbering >= PAGEHINT_BALLOON_NUMBERING_COUNT || o->queue_size < 2 || o->queue_size > PH_RING_SIZE_MAX ||
	    o->budget < 64 || o->partial_blocks > UINT32_C(1) << 20)
		return -EINVAL;
	return 0;
}

/* Hands out pieces of the one allocation; with base NULL it only adds up how much that is. */
struct carve {
	unsigned char *base;
	size_t used;
};

static void *carve(struct carve *from, size_t bytes)
{
	size_t at = (from->used + 15) & ~(size_t)15;
	from->used = at + bytes;
	return from->base == NULL ? NULL : from->base + at;
}

/* Lays out the device and all its arrays; twice: to measure, and for good. */
static struct pagehint_device *lay_out(struct carve *from, const struct pagehint_device_opts *o, size_t outcomes)
{
	struct pagehint_device *device = carve(from, sizeof(*device));
	void *held = carve(from, outcomes * sizeof(struct pagehint_outcome));
	void *scratch = carve(from, 4 * PH_DEVICE_PFNS);
	void *partial = carve(from, ph_partial_bytes(o->partial_blocks));
	if (device != NULL) {
		device->outcomes = held;
		device->scratch = scratch;
		ph_partial_init(&device->partial, partial, o->partial_blocks);
	}
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		size_t pieces =
			role == PAGEHINT_BALLOON_Q_STATS || role == PAGEHINT_BALLOON_Q_HINT ? 0 : PH_DEVICE_PIECES;
		void *ring = carve(from, ph_ring_device_memory(o->queue_size));
		void *piece = carve(from, pieces * sizeof(struct ph_piece));
		void *runs = carve(from, pieces * sizeof(struct pagehint_run));
		if (device == NULL)
			continue;
		device->queue[role].memory = ring;
		device->queue[role].pieces.piece = piece;
		device->queue[role].pieces.max = (uint32_t)pieces;
		device->queue[role].runs = runs;
	}
	return device;
}

static int check_parts(const struct pagehint_map *map, const struct pagehint_backend *backend)
{
	if (map == NULL || backend == NULL)
		return -EINVAL;
	return pagehint_map_frame_shift(map) == ph_backend_frame_shift(backend) ? 0 : -EINVAL;
}

static struct pagehint_device *allocate(const struct pagehint_device_opts *o, const struct pagehint_backend *backend)
{
	int async = (pagehint_backend_caps(backend) & PAGEHINT_BACKEND_ASYNC) != 0;
	size_t outcomes = async ? pagehint_backend_max_runs(backend) : 0;
	struct carve measure = { 0 };
	(void)lay_out(&measure, o, outcomes);
	struct carve real = { .base = calloc(1, measure.used) };
	struct pagehint_device *device = real.base == NULL ? NULL : lay_out(&real, o, outcomes);
	if (device == NULL)
		return NULL;
	device->async = (uint32_t)async;
	device->max_runs = pagehint_backend_max_runs(backend);
	return device;
}

int pagehint_device_new(struct pagehint_map *map, struct pagehint_backend *backend, struct pagehint_gate *gate,
			const struct pagehint_device_opts *opts, struct pagehint_device **ret_device)
{
	struct pagehint_device_opts o;
	struct pagehint_device_hooks hooks;
	struct pagehint_device_knobs knobs;
	int r = ret_device == NULL ? -EINVAL : check_parts(map, backend);
	if (r == 0)
		r = read_opts(&o, opts);
	if (r == 0)
		r = read_knobs(&knobs, o.knobs);
	if (r == 0)
		r = PH_OPTS_IN(hooks, o.hooks);
	if (r < 0)
		return r;
	struct pagehint_device *device = allocate(&o, backend);
	if (device == NULL)
		return -ENOMEM;
	device->map = map;
	device->backend = backend;
	device->gate = gate;
	device->hooks = hooks;
	device->knobs = knobs;
	device->memory = ph_guest_memory_of_map(map);
	device->offered = o.features;
	device->stale_ns = o.stale_ns;
	device->numbering = o.numbering;
	device->flags = o.flags;
	device->queue_size = o.queue_size;
	device->budget = o.budget;
	device->frame_pages_shift = pagehint_map_frame_shift(map) - PAGEHINT_BALLOON_PAGE_SHIFT;
	device->progress.stall_ns = o.stall_ns;
	device->poll_gap_ns = PH_DEVICE_POLL_NS;
	ph_device_rate_set(&device->rate, 0, knobs.rate);
	*ret_device = device;
	return 0;
}

int pagehint_device_free(struct pagehint_device *device)
{
	if (device == NULL)
		return 0;
	if (ph_map_is_owner(device->map)) {
		if (device->inside)
			return -EDEADLK;
		if (device->batches != 0)
			return -EBUSY;
	}
	free(device); /* the first part of its allocation */
	return 0;
}

int pagehint_device_tune(struct pagehint_device *device, const struct pagehint_device_knobs *knobs)
{
	struct pagehint_device_knobs k;
	int r = read_knobs(&k, knobs);
	if (r == 0)
		r = ph_device_begin(device);
	if (r < 0)
		return r;
	device->knobs = k;
	ph_device_rate_set(&device->rate, device->now_ns, k.rate);
	if (device->report_ns > ph_device_later(device->now_ns, k.holdback_ns))
		device->report_ns = ph_device_later(device->now_ns, k.holdback_ns);
	device->ask_ns = device->now_ns;
	ph_device_end(device);
	return 0;
}

int ph_device_begin(struct pagehint_device *device)
{
	if (device == NULL)
		return -EINVAL;
	if (!ph_map_is_owner(device->map))
		return -ENODEV;
	if (device->inside)
		return -EDEADLK;
	device->inside = 1;
	return 0;
}

void ph_device_end(struct pagehint_device *device)
{
	device->inside = 0;
}

void ph_device_clock(struct pagehint_device *device, uint64_t now_ns)
{
	if (now_ns > device->now_ns)
		device->now_ns = now_ns;
}

uint64_t ph_device_memory_pages(const struct pagehint_device *device)
{
	struct ph_region region;
	uint64_t frames = 0;
	for (uint64_t at = 0; ph_map_find_next(device->map, at, &region) == 0; at = region.frame + region.frames)
		if (region.backing != PAGEHINT_BACKING_DEVICE)
			frames += region.frames;
	return frames << device->frame_pages_shift;
}

#define LOG_LINES 10u

void ph_device_log(struct pagehint_device *device, uint32_t level, const char *format, ...)
{
	char text[256];
	va_list args;
	if (device->log_lines == 0 || device->now_ns - device->log_ns >= SECOND) {
		device->log_ns = device->now_ns;
		device->log_lines = 0;
	}
	if (device->hooks.log == NULL)
		return;
	if (device->log_lines == LOG_LINES) {
		device->counts.log_dropped++;
		return;
	}
	device->log_lines++;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	device->hooks.log(device->hooks.ctx, level, text);
}

uint64_t pagehint_device_features(const struct pagehint_device *device)
{
	return device->offered;
}

uint64_t pagehint_device_negotiated(const struct pagehint_device *device)
{
	return device->features_set ? device->negotiated : 0;
}
