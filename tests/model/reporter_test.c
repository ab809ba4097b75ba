/*
 * Random life of an allocator under a reporter whose backend does whatever a backend may do. After every step (rig_check):
 * every frame that is taken is in flight, isolated = reported + kept + in flight, nothing was released twice or not at all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fakes/rig.h"
#include "support/rounds.h"

#define FRAMES 2048u
#define ROUNDS 400u

static uint64_t seed_of(unsigned i)
{
	const char *given = getenv("PAGEHINT_TEST_SEED");
	return given != NULL ? strtoull(given, NULL, 0) : UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
}

static uint64_t rnd(uint64_t *s, uint64_t below)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return (*s >> 11) % below;
}

static void move_memory(struct rig *rig, uint64_t *s)
{
	struct model *m = rig->model;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t frames = UINT64_C(1) << rnd(s, 8), frame = rnd(s, FRAMES / frames) * frames;
		if (model_is(m, frame, frames, FRAME_USED))
			model_give(m, frame, frames);
		else
			(void)model_alloc(m, frame, frames);
	}
	m->hidden = rnd(s, 3);
}

static void move_backend(struct rig *rig, uint64_t *s)
{
	static const int errors[] = { 0, 0, 0, -EIO, -EAGAIN, -ENODEV, -EBUSY, -EINVAL };
	struct fake *f = rig->fake;
	f->answer = rnd(s, 2) != 0 ? ANSWER_FREED : (uint32_t)rnd(s, ANSWER_COUNT);
	f->why = (uint32_t)rnd(s, PAGEHINT_WHY_COUNT);
	f->error = errors[rnd(s, 8)];
	f->reap_error = errors[rnd(s, 8)];
	f->short_by = rnd(s, 4) == 0 ? (uint32_t)rnd(s, 3) : 0;
	f->capacity = (uint32_t)rnd(s, 5);
	f->silent = rnd(s, 3) == 0;
	f->backwards = (uint32_t)rnd(s, 2);
	f->invents = rnd(s, 5) == 0;
	if (rnd(s, 10) == 0) {
		f->regions_n = (uint32_t)rnd(s, 4);
		for (uint32_t i = 0; i < f->regions_n; i++)
			f->regions[i] = (struct fake_region) { i * 700 + rnd(s, 64), 600, UINT64_C(4096) << rnd(s, 7) };
	}
}

static void move_knobs(struct rig *rig, uint64_t *s, uint32_t *closed)
{
	if (rnd(s, 5) == 0)
		assert_int_equal(pagehint_reporter_pressure(rig->rep, (uint32_t)rnd(s, 3), rnd(s, 20) * SEC), 0);
	if (rnd(s, 8) == 0)
		pagehint_reporter_enable(rig->rep, rnd(s, 4) != 0);
	if (rnd(s, 8) != 0)
		return;
	if (*closed)
		assert_int_equal(pagehint_gate_open(rig->gate, PAGEHINT_INHIBIT_EMBEDDER), 0);
	else
		assert_int_equal(pagehint_gate_close(rig->gate, PAGEHINT_INHIBIT_EMBEDDER, NULL), 0);
	*closed = !*closed;
}

static void heal(struct rig *rig, uint32_t closed)
{
	struct fake *f = rig->fake;
	f->answer = ANSWER_FREED;
	f->error = f->reap_error = 0;
	f->short_by = f->silent = f->invents = f->regions_n = 0;
	f->capacity = FAKE_SLOTS;
	if (closed)
		assert_int_equal(pagehint_gate_open(rig->gate, PAGEHINT_INHIBIT_EMBEDDER), 0);
	pagehint_reporter_enable(rig->rep, 1);
	assert_int_equal(pagehint_reporter_pressure(rig->rep, PAGEHINT_PRESSURE_NONE, 0), 0);
}

static uint64_t live(uint64_t seed)
{
	uint64_t s = seed;
	uint32_t closed = 0;
	struct pagehint_reporter_opts opts = {
		.struct_size = sizeof(opts),
		.interval_ns = SEC,
		.rate = rnd(&s, 2) * (MIB << rnd(&s, 6)),
		.watermark = rnd(&s, 2) * rnd(&s, 2 * MIB),
		.holdback_intervals = (uint32_t)rnd(&s, 4),
		.max_bytes_per_step = rnd(&s, 2) * rnd(&s, 2 * MIB),
		.max_in_flight = (uint32_t)rnd(&s, 5),
	};
	struct rig_how how = { .frames = FRAMES,
			       .min_order = (uint32_t)rnd(&s, 3),
			       .order = 4 + (uint32_t)rnd(&s, 3),
			       .async = (int)rnd(&s, 2),
			       .max_runs = 1 + (uint32_t)rnd(&s, 8),
			       .opts = &opts };
	struct rig rig;
	rig_start(&rig, &how);
	model_set(rig.model, rnd(&s, FRAMES), 1, FRAME_ABSENT);
	for (unsigned i = 0; i < ROUNDS; i++) {
		move_memory(&rig, &s);
		if (rnd(&s, 4) == 0)
			move_backend(&rig, &s);
		move_knobs(&rig, &s, &closed);
		if (rnd(&s, 20) == 0) {
			uint64_t deadline;
			int r = pagehint_reporter_stop(rig.rep, rig.now, &deadline);
			assert_true(r == 0 || r == -EAGAIN);
			assert_true((r == 0) == (rig.model->taken == 0));
			rig_check(&rig);
			pagehint_reporter_enable(rig.rep, 1);
		}
		/* early, in time, late; with a budget or not */
		uint64_t when = rig.now + rnd(&s, 2 * SEC);
		rig.now = rnd(&s, 2) != 0 && rig.deadline > rig.now && rig.deadline != UINT64_MAX ? rig.deadline : when;
		rig_step(&rig, rnd(&s, 4) == 0 ? rnd(&s, 3 * MIB) : 0);
		if (rnd(&s, 10) == 0)
			rig_explain(&rig);
	}
	/* once everything behaves, all that is free at order and may be taken comes back: nothing was lost on the way */
	heal(&rig, closed);
	rig_run(&rig, rig.now + 200 * SEC);
	struct pagehint_reporter_stats st = rig_stats(&rig);
	uint64_t unreported = model_count(rig.model, FRAME_FREE) * FRAME, block = FRAME << how.order;
	uint64_t spare = st.below_order + opts.watermark + block;
	assert_int_equal(rig.model->taken, 0);
	assert_true(unreported <= spare);
	rig_stop(&rig);
	return st.isolated;
}

static void test_random_life(void **state)
{
	(void)state;
	uint64_t isolated = 0;
	for (unsigned i = 0; i < rounds_scaled(150); i++) {
		uint64_t seed = seed_of(i);
		printf("seed 0x%llx\n", (unsigned long long)seed);
		isolated += live(seed);
		if (getenv("PAGEHINT_TEST_SEED") != NULL)
			break;
	}
	assert_true(isolated > MIB * rounds_scaled(150) / 2); /* it was not idle */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_life),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
