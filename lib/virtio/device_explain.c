/* device_explain: the counters, and in words what stands between the guest's free memory and the host, first things first */
#include <errno.h>
#include <inttypes.h>

#include "base/opts.h"
#include "base/say.h"
#include "virtio/device.h"

int pagehint_device_stats(const struct pagehint_device *device, struct pagehint_device_stats *stats)
{
	if (device == NULL)
		return -EINVAL;
	struct pagehint_device_stats s = device->counts;
	s.struct_size = sizeof(s);
	s.partial_pages = device->partial.pages;
	return PH_OPTS_OUT(stats, s);
}

const char *pagehint_device_drop_text(uint32_t drop)
{
	static const char *const texts[PAGEHINT_DEVICE_DROP_COUNT] = {
		[PAGEHINT_DEVICE_DROP_BAD_PFN] = "pages outside the guest's memory",
		[PAGEHINT_DEVICE_DROP_BAD_LENGTH] = "lists with bytes over",
		[PAGEHINT_DEVICE_DROP_READABLE] = "reported buffers that are not writable",
		[PAGEHINT_DEVICE_DROP_WRITABLE] = "writable buffers where lists belong",
		[PAGEHINT_DEVICE_DROP_EMPTY] = "empty buffers",
		[PAGEHINT_DEVICE_DROP_UNALIGNED] = "buffers that are not whole host pages",
		[PAGEHINT_DEVICE_DROP_STRADDLE] = "buffers that are not in one region",
		[PAGEHINT_DEVICE_DROP_SMALL] = "reported buffers below the least size wanted",
		[PAGEHINT_DEVICE_DROP_POISON] = "reported buffers of a guest that poisons its free pages",
		[PAGEHINT_DEVICE_DROP_PINNED] = "buffers or pages in pinned regions",
		[PAGEHINT_DEVICE_DROP_INHIBITED] = "requests while the gate was closed",
		[PAGEHINT_DEVICE_DROP_DEVICE] = "buffers or pages that are no memory",
		[PAGEHINT_DEVICE_DROP_DUPLICATE] = "pages named twice in a request",
		[PAGEHINT_DEVICE_DROP_STALE_HINT] = "hints outside a run",
		[PAGEHINT_DEVICE_DROP_BAD_ID] = "ids of hint runs that nobody asked for",
		[PAGEHINT_DEVICE_DROP_EXTRA_STATS] = "statistics buffers beyond the one",
		[PAGEHINT_DEVICE_DROP_BAD_TAG] = "statistics with an unknown tag",
		[PAGEHINT_DEVICE_DROP_CONFIG] = "writes to config space that nothing takes",
		[PAGEHINT_DEVICE_DROP_LATE_POISON] = "changes of the poison value too late",
		[PAGEHINT_DEVICE_DROP_PARTIAL] = "blocks of partly inflated host pages forgotten",
		[PAGEHINT_DEVICE_DROP_EDGE] = "pages in host pages of which the region has only a part",
		[PAGEHINT_DEVICE_DROP_ADDRESS] = "buffers outside the guest's memory",
		[PAGEHINT_DEVICE_DROP_RING] = "rings that lie",
		[PAGEHINT_DEVICE_DROP_NOT_READY] = "kicks of queues that do not run",
	};
	return drop < PAGEHINT_DEVICE_DROP_COUNT ? texts[drop] : "?";
}

static const struct {
	uint64_t bit;
	uint32_t role;
	const char *name;
} ways[] = {
	{ PAGEHINT_BALLOON_F_PAGE_REPORTING, PAGEHINT_BALLOON_Q_REPORT, "free page reporting" },
	{ 0, PAGEHINT_BALLOON_Q_INFLATE, "inflation" },
	{ PAGEHINT_BALLOON_F_STATS_VQ, PAGEHINT_BALLOON_Q_STATS, "statistics" },
	{ PAGEHINT_BALLOON_F_FREE_PAGE_HINT, PAGEHINT_BALLOON_Q_HINT, "free page hints" },
};

/* What is missing on one way, if anything. */
static const char *missing(const struct pagehint_device *device, uint64_t bit, uint32_t role)
{
	if ((device->offered & bit) != bit)
		return "not offered";
	if ((device->negotiated & bit) != bit)
		return "offered, and the driver did not take it";
	if (!device->queue[role].running)
		return "its queue was not started";
	return NULL;
}

static void explain_life(const struct pagehint_device *device, const struct pagehint_sink *sink)
{
	if (device->broken)
		ph_say(sink, "device: the guest broke it; nothing works until the driver resets it");
	if (device->resetting)
		ph_say(sink, "device: a reset waits for %" PRIu32 " batches at the backend", device->batches);
	if (!device->features_set)
		ph_say(sink, "device: no driver has negotiated features");
	else if (device->status != 0 && (device->status & PAGEHINT_VIRTIO_STATUS_DRIVER_OK) == 0)
		ph_say(sink, "device: the driver has not said DRIVER_OK");
	for (size_t i = 0; device->features_set && i < sizeof(ways) / sizeof(*ways); i++) {
		const char *why = missing(device, ways[i].bit, ways[i].role);
		if (why != NULL)
			ph_say(sink, "%s: %s", ways[i].name, why);
	}
}

static void explain_policy(const struct pagehint_device *device, const struct pagehint_sink *sink)
{
	const struct ph_device_queue *report = &device->queue[PAGEHINT_BALLOON_Q_REPORT];
	if (device->gate != NULL && pagehint_gate_closed(device->gate) != 0)
		pagehint_gate_explain(device->gate, sink);
	if (ph_device_has(device, PAGEHINT_BALLOON_F_PAGE_POISON) && device->poison != 0)
		ph_say(sink, "poison: the guest wants its free pages to stay 0x%08" PRIx32 ": reports are kept",
		       device->poison);
	if (report->running && device->counts.report_ranges == 0)
		ph_say(sink, "free page reporting: the guest has not reported anything yet");
	for (uint32_t role = 0; role < PAGEHINT_BALLOON_Q_COUNT; role++) {
		const struct ph_device_queue *q = &device->queue[role];
		if (q->running && q->wait == PH_WAIT_TIME)
			ph_say(sink, "queue %" PRIu32 ": held back for %" PRIu64 " ns by the rate or the hold-back",
			       q->index, q->when_ns > device->now_ns ? q->when_ns - device->now_ns : 0);
		if (q->running && q->wait == PH_WAIT_BACKEND)
			ph_say(sink, "queue %" PRIu32 ": the backend has no room", q->index);
	}
}

static void explain_counts(const struct pagehint_device *device, const struct pagehint_sink *sink)
{
	const struct pagehint_device_stats *c = &device->counts;
	for (uint32_t why = 0; why < PAGEHINT_DEVICE_DROP_COUNT; why++)
		if (c->dropped[why] != 0)
			ph_say(sink, "dropped: %" PRIu64 ": %s", c->dropped[why], pagehint_device_drop_text(why));
	if (device->partial.pages != 0)
		ph_say(sink, "inflated, but not in whole host pages: %" PRIu64 " pages", device->partial.pages);
	if (c->in_flight != 0)
		ph_say(sink, "in flight: %" PRIu64 " requests", c->in_flight);
	if (c->submit_errors != 0)
		ph_say(sink, "refused by the backend: %" PRIu64 " batches", c->submit_errors);
	if (c->populate_errors != 0)
		ph_say(sink, "deflated, and not made present: %" PRIu64 " requests", c->populate_errors);
}

void pagehint_device_explain(struct pagehint_device *device, const struct pagehint_sink *sink)
{
	if (sink == NULL || sink->line == NULL || ph_device_begin(device) < 0)
		return;
	explain_life(device, sink);
	explain_policy(device, sink);
	explain_counts(device, sink);
	pagehint_backend_explain(device->backend, sink);
	ph_device_end(device);
}
