#include "engine.h"

#include <string.h>

#include <pagehint/run.h>

#define PAGE_SHIFT 12u

static void hinted(void *ctx, uint32_t id, const struct pagehint_run *runs, uint32_t n)
{
	struct engine *engine = ctx;
	for (uint32_t i = 0; i < n; i++)
		engine->hinted_bytes += runs[i].frames << PAGE_SHIFT;
	engine->hinted_ranges += n;
	if (engine_hinted != NULL)
		engine_hinted(id, runs, n);
}

static struct pagehint_device_knobs knobs_of(const struct balloon_state *state)
{
	struct pagehint_device_knobs knobs = { .struct_size = sizeof(knobs) };
	knobs.rate = state->rate_bytes;
	knobs.min_report_bytes = state->least_order == 0 ? 0 : UINT64_C(1) << (PAGE_SHIFT + state->least_order);
	knobs.holdback_ns = state->hold_back_ms * UINT64_C(1000000);
	knobs.stats_interval_ns = state->stats_ms * UINT64_C(1000000);
	return knobs;
}

int engine_open(struct engine *engine, const struct balloon_options *options, struct balloon_state *state)
{
	memset(engine, 0, sizeof(*engine));
	engine->state = state;
	int r = pagehint_gate_new(&engine->gate);
	if (r != 0)
		return r;
	const struct pagehint_device_knobs knobs = knobs_of(state);
	const struct pagehint_device_hooks hooks = { .struct_size = sizeof(hooks), .ctx = engine, .hinted = hinted };
	const struct pagehint_device_opts device = {
		.struct_size = sizeof(device),
		.features = options->features | (PAGEHINT_DEVICE_FEATURES_DEFAULT & ~PAGEHINT_BALLOON_F_ALL),
		.hooks = &hooks,
		.knobs = &knobs,
		.numbering = options->numbering,
	};
	struct pagehint_vhost_opts vhost = {
		.struct_size = sizeof(vhost), .device = &device, .gate = engine->gate, .backend = engine_backend
	};
	vhost.state = state_newest(state, &vhost.state_bytes);
	engine->unloaded = vhost.state != NULL;
	r = pagehint_vhost_new(&vhost, &engine->vhost);
	if (r == 0 && state->paused)
		r = pagehint_gate_close(engine->gate, PAGEHINT_INHIBIT_EMBEDDER, NULL);
	return r;
}

void engine_close(struct engine *engine)
{
	(void)pagehint_vhost_free(engine->vhost); /* the backends here are synchronous: nothing is in flight */
	(void)pagehint_gate_free(engine->gate);
}

static void save(struct engine *engine)
{
	struct pagehint_device *device = pagehint_vhost_device(engine->vhost);
	uint64_t bytes = 0;
	if (engine->unloaded)
		return;
	if (pagehint_device_save(device, engine->now_ns, state_room(engine->state), STATE_SLOT_BYTES, &bytes) == 0)
		state_publish(engine->state, bytes);
	else
		engine->unsaved++;
}

int engine_apply(struct engine *engine)
{
	struct pagehint_device *device = pagehint_vhost_device(engine->vhost);
	const struct pagehint_device_knobs knobs = knobs_of(engine->state);
	int r = pagehint_device_tune(device, &knobs);
	if (r == 0)
		r = pagehint_device_set_target(device, engine->now_ns, engine->state->target_bytes, NULL);
	int closed = (pagehint_gate_closed(engine->gate) >> PAGEHINT_INHIBIT_EMBEDDER & 1) != 0;
	if (r == 0 && engine->state->paused && !closed)
		r = pagehint_gate_close(engine->gate, PAGEHINT_INHIBIT_EMBEDDER, NULL);
	if (r == 0 && !engine->state->paused && closed)
		r = pagehint_gate_open(engine->gate, PAGEHINT_INHIBIT_EMBEDDER);
	return r;
}

int engine_step(struct engine *engine, uint64_t now_ns, uint64_t *ret_deadline)
{
	struct pagehint_vhost_stats stats = { .struct_size = sizeof(stats) };
	uint32_t events = 0;
	engine->now_ns = now_ns;
	int r = pagehint_vhost_step(engine->vhost, now_ns, ret_deadline, &events);
	if (r != 0 || pagehint_vhost_stats(engine->vhost, &stats) != 0)
		return r;
	/* a target is clamped to the memory there is, and one that was asked for meanwhile is not in a loaded state */
	int began = engine->running == 0 && stats.queues_running != 0;
	engine->running = stats.queues_running;
	engine->unloaded = engine->unloaded && !began;
	if ((began || (events & PAGEHINT_VHOST_EVENT_MEMORY) != 0) && engine_apply(engine) == 0)
		*ret_deadline = now_ns;
	save(engine);
	return r;
}
