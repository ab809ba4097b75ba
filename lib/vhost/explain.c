#include <errno.h>
#include <inttypes.h>

#include <pagehint/map.h>

#include "base/opts.h"
#include "base/say.h"
#include "vhost/session.h"

struct pagehint_device *pagehint_vhost_device(struct pagehint_vhost *vhost)
{
	return vhost->device;
}

struct pagehint_backend *pagehint_vhost_backend(struct pagehint_vhost *vhost)
{
	return vhost->backend;
}

struct pagehint_map *pagehint_vhost_map(struct pagehint_vhost *vhost)
{
	return vhost->map;
}

int pagehint_vhost_fd(const struct pagehint_vhost *vhost)
{
	return vhost->epoll;
}

int pagehint_vhost_stats(const struct pagehint_vhost *vhost, struct pagehint_vhost_stats *stats)
{
	struct pagehint_vhost_stats now = vhost->stats;
	now.regions = vhost->memory.n;
	now.protocol_features = vhost->protocol;
	for (uint32_t i = 0; i < vhost->memory.n; i++)
		now.memory += vhost->memory.places[i].said.size;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		now.queues_running += vhost->rings[i].runs;
	return PH_OPTS_OUT(stats, now);
}

static const char *role_name(int role)
{
	static const char *const names[PAGEHINT_BALLOON_Q_COUNT] = { "inflate", "deflate", "statistics", "hint",
								     "reporting" };
	return role >= 0 && role < PAGEHINT_BALLOON_Q_COUNT ? names[role] : "no";
}

/* Why a queue of the device does not run; nothing when it does, or nobody has spoken of it. */
static void explain_ring(struct pagehint_vhost *vhost, uint32_t i, const struct pagehint_sink *sink)
{
	const struct ph_vhost_ring *ring = &vhost->rings[i];
	const char *role = role_name(pagehint_device_queue_role(vhost->device, i));
	if (ring->runs || (ring->size == 0 && !ring->placed && !ring->started))
		return;
	if (!ring->started)
		ph_say(sink, "queue %" PRIu32 " (%s) is stopped by the frontend", i, role);
	else if (!ring->enabled && (vhost->features & PH_VHOST_F_PROTOCOL) != 0)
		ph_say(sink, "queue %" PRIu32 " (%s) is not enabled by the frontend", i, role);
	else if (ring->refused == -ERANGE)
		ph_say(sink, "queue %" PRIu32 " (%s) lies outside the memory table", i, role);
	else if (ring->refused == -ENOENT)
		ph_say(sink, "queue %" PRIu32 " has no role among the negotiated features: is the numbering right?", i);
	else
		ph_say(sink, "queue %" PRIu32 " (%s) does not run: error %d", i, role, -ring->refused);
}

void pagehint_vhost_explain(struct pagehint_vhost *vhost, const struct pagehint_sink *sink)
{
	if (vhost->socket < 0)
		ph_say(sink, "no frontend is connected");
	else if (vhost->memory.n == 0)
		ph_say(sink, "the frontend has shared no memory");
	if (vhost->is_parked)
		ph_say(sink, "%s waits for discards in flight", ph_vhost_message_name(vhost->parked.request));
	if (vhost->refused_why != 0)
		ph_say(sink, "the last message that was refused: %s (%" PRIu32 "), error %d",
		       ph_vhost_message_name(vhost->refused_request), vhost->refused_request, -vhost->refused_why);
	if (vhost->stats.states_refused != 0)
		ph_say(sink, "a saved state did not fit this device and was dropped");
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		explain_ring(vhost, i, sink);
	pagehint_device_explain(vhost->device, sink);
}
