/*
 * virtio_backend: the reporting queue of a balloon's driver as a backend, so that a reporter can give to it.
 *
 * Why this shape: the driver already takes whole batches, keeps them until the device has answered, and ends each once; what
 * is left to do here is to turn the end of a batch into outcomes. Of what the device acknowledged nothing more is known, so it
 * is `accepted`. Not here: stepping the driver. Owns: its context. Called from: the backend handle, one call at a time, in the
 * driver's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagehint/driver.h>

#include "base/opts.h"
#include "discard/result.h"
#include "virtio/driver.h"

struct virtio_backend {
	struct pagehint_driver *driver;
};

static int submit(void *ctx, const struct pagehint_run *runs, uint32_t n, uint32_t flags, uint64_t cookie)
{
	const struct virtio_backend *self = ctx;
	(void)flags; /* a probe cannot see what the host holds; what reads as zero is the device's business */
	return pagehint_driver_report(self->driver, runs, n, cookie);
}

static int reap(void *ctx, uint32_t max, struct pagehint_outcome *outcomes, uint64_t *ret_cookie, uint32_t *ret_n)
{
	const struct virtio_backend *self = ctx;
	const struct pagehint_run *runs;
	uint32_t shift = ph_driver_frame_shift(self->driver), n;
	uint64_t cookie;
	int32_t result;
	int r = pagehint_driver_reap(self->driver, &cookie, &result, &runs, &n);
	if (r < 0)
		return r;
	if (n > max)
		return -EIO; /* not a batch of this handle */
	memset(outcomes, 0, n * sizeof(*outcomes));
	for (uint32_t i = 0; i < n; i++) {
		uint64_t bytes = runs[i].frames << shift;
		if (result == 0)
			ph_outcome_accepted(&outcomes[i], bytes);
		else if (result == -EOPNOTSUPP)
			ph_outcome_kept(&outcomes[i], bytes, PAGEHINT_WHY_CANNOT);
		else
			ph_outcome_failed(&outcomes[i], bytes, PAGEHINT_WHY_GONE, result);
	}
	*ret_cookie = cookie;
	*ret_n = n;
	return 0;
}

static void explain(void *ctx, const struct pagehint_sink *sink)
{
	const struct virtio_backend *self = ctx;
	pagehint_driver_explain(self->driver, sink);
}

int pagehint_driver_backend_new(struct pagehint_driver *driver, const struct pagehint_backend_opts *opts,
				struct pagehint_backend **ret_backend)
{
	struct pagehint_backend_ops ops = {
		.struct_size = sizeof(ops),
		.name = "virtio",
		.caps = PAGEHINT_BACKEND_ASYNC,
		.submit = submit,
		.reap = reap,
		.explain = explain,
		.destroy = free,
	};
	struct pagehint_backend_opts how;
	if (driver == NULL || ret_backend == NULL)
		return -EINVAL;
	int r = PH_OPTS_IN(how, opts);
	if (r < 0)
		return r;
	how.struct_size = sizeof(how);
	if (how.frame_shift == 0)
		how.frame_shift = ph_driver_frame_shift(driver);
	if (how.frame_shift != ph_driver_frame_shift(driver))
		return -EINVAL;
	struct virtio_backend *self = calloc(1, sizeof(*self));
	if (self == NULL)
		return -ENOMEM;
	self->driver = driver;
	ops.max_runs = ph_driver_batch_runs(driver);
	r = pagehint_backend_new(&ops, self, &how, ret_backend);
	if (r < 0)
		free(self);
	return r;
}
