/* driver_opts: what an embedder may ask for, and what 0 means. */
#include <errno.h>

#include "base/opts.h"
#include "virtio/driver.h"

#define SECOND UINT64_C(1000000000)

static void fill32(uint32_t *value, uint32_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void fill64(uint64_t *value, uint64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static int is_within(uint32_t value, uint32_t least, uint32_t most)
{
	return value >= least && value <= most;
}

int ph_driver_opts(struct pagehint_driver_opts *to, const struct pagehint_driver_opts *from)
{
	struct pagehint_driver_opts o;
	int r = PH_OPTS_IN(o, from);
	if (r < 0)
		return r;
	fill64(&o.features, UINT64_MAX);
	fill64(&o.answer_ns, 10 * SECOND);
	fill64(&o.quiet_ns, 10 * SECOND);
	fill32(&o.frame_shift, PAGEHINT_BALLOON_PAGE_SHIFT);
	fill32(&o.ring_size, 256);
	fill32(&o.max_held, 16384);
	fill32(&o.max_hints, 1024);
	fill32(&o.max_batches, 4);
	fill32(&o.batch_runs, 1024);
	fill32(&o.oom_frames, 256);
	if ((o.flags & ~(PAGEHINT_DRIVER_POISON | PAGEHINT_DRIVER_NUMBERED)) != 0 ||
	    o.numbering >= PAGEHINT_BALLOON_NUMBERING_COUNT || !is_within(o.frame_shift, 12, 22) ||
	    !is_within(o.ring_size, 8, 1024) || (o.ring_size & (o.ring_size - 1)) != 0 ||
	    !is_within(o.max_held, PH_DRIVER_PFN_RUNS, 1u << 24) || !is_within(o.max_hints, 1, 65536) ||
	    !is_within(o.max_batches, 1, 64) || !is_within(o.batch_runs, 1, 16384) ||
	    !is_within(o.oom_frames, 1, PH_DRIVER_OOM_MAX))
		return -EINVAL;
	*to = o;
	return 0;
}
