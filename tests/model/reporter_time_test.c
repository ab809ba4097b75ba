/* What the reporter promises about time, in simulated time: T, the rate, the response to pressure, hold-back, wakes. */
#include <errno.h>

#include "fakes/rig.h"

#define BLOCK 512u
#define BLOCKS 64u
#define I RIG_INTERVAL

static uint64_t rnd(uint64_t *s, uint64_t below)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return (*s >> 11) % below;
}

static void start(struct rig *rig, struct pagehint_reporter_opts *opts, int async)
{
	struct rig_how how = { .frames = BLOCKS * BLOCK, .order = 9, .max_runs = 8, .async = async, .opts = opts };
	opts->struct_size = sizeof(*opts);
	rig_start(rig, &how);
}

/* ns, rounded up */
static uint64_t flow(uint64_t bytes, uint64_t rate)
{
	return rate == 0 ? 0 : (uint64_t)((long double)bytes * SEC / rate) + 1;
}

static const uint64_t rates[] = { 0, 300000, MIB, 7 * MIB, 16 * MIB, 100 * MIB, 4096 * MIB };

/* Everything that is free at one moment, whenever that is, is back within bytes / rate + 2 intervals. */
static void test_all_is_back_within_t(void **state)
{
	(void)state;
	uint64_t s = 88172645463325252u;
	for (unsigned r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		for (unsigned phase = 0; phase < 12; phase++) {
			struct rig rig;
			struct pagehint_reporter_opts opts = { .rate = rates[r] };
			uint64_t bytes = 0;
			start(&rig, &opts, 0);
			rig_run(&rig, rnd(&s, 5 * I));
			for (unsigned b = 0; b < BLOCKS; b++)
				if (rnd(&s, 2) != 0) {
					model_give(rig.model, b * BLOCK, BLOCK);
					bytes += 2 * MIB;
				}
			uint64_t freed = rig.now, t = flow(bytes, rates[r]) + 2 * I;
			rig_run(&rig, freed + t);
			assert_int_equal(model_count(rig.model, FRAME_FREE), 0);
			assert_int_equal(rig_stats(&rig).reported, bytes);
			assert_int_equal(rig_stats(&rig).isolated, bytes); /* each once */
			rig_stop(&rig);
		}
	}
}

/* bound_ns is that T, for what the last look saw. */
static void test_t_is_exported(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { .rate = 16 * MIB };
	start(&rig, &opts, 0);
	assert_int_equal(rig_stats(&rig).bound_ns, 2 * I);
	model_give(rig.model, 0, 24 * BLOCK); /* 48 MiB */
	rig_step(&rig, 0);
	assert_int_equal(rig_stats(&rig).bound_ns, 2 * I + 3 * SEC);
	rig_stop(&rig);
}

/* A stream of frees that is more than the rate lets through: over any window at most rate * window + one batch. */
static void test_the_rate_is_never_exceeded(void **state)
{
	(void)state;
	static uint64_t at[20000], got[20000];
	uint64_t s = 7;
	for (unsigned r = 1; r < sizeof(rates) / sizeof(rates[0]); r++) {
		for (int pressed = 0; pressed < 2; pressed++) {
			struct rig rig;
			struct pagehint_reporter_opts opts = { .rate = rates[r] };
			unsigned n = 0;
			start(&rig, &opts, 0);
			if (pressed)
				assert_int_equal(pagehint_reporter_pressure(rig.rep, PAGEHINT_PRESSURE_FULL, 0), 0);
			for (uint64_t end = 40 * SEC; rig.deadline < end && n < 20000;) {
				uint64_t b = rnd(&s, BLOCKS) * BLOCK, before = rig_stats(&rig).isolated;
				if (model_is(rig.model, b, BLOCK, FRAME_USED) || model_alloc(rig.model, b, BLOCK) == 0)
					model_give(rig.model, b, BLOCK);
				rig.now = rig.deadline;
				rig_step(&rig, 0);
				at[n] = rig.now;
				got[n] = rig_stats(&rig).isolated - before;
				n += got[n] != 0;
			}
			uint64_t sum = 0, burst = rates[r] / 8 > 2 * MIB ? rates[r] / 8 : 2 * MIB; /* I / 16 */
			for (unsigned i = 0; i < n; i++) {
				uint64_t window = 0;
				sum += got[i];
				for (unsigned j = i; j < n; j++) {
					window += got[j];
					assert_true(window <=
						    (long double)rates[r] * (at[j] - at[i]) / SEC + burst + 1);
				}
			}
			assert_true(sum > 0);
			if (rates[r] <= MIB) /* and it is used: the stream is wider than these */
				assert_true(sum >= rates[r] * 20);
			rig_stop(&rig);
		}
	}
}

/* Pressure comes and goes: the order falls once and rises once, and nothing is carried twice. */
static void test_pressure_does_not_oscillate(void **state)
{
	(void)state;
	for (uint32_t level = PAGEHINT_PRESSURE_SOME; level <= PAGEHINT_PRESSURE_FULL; level++) {
		struct rig rig;
		struct pagehint_reporter_opts opts = { 0 };
		unsigned changes = 0;
		start(&rig, &opts, 0);
		for (unsigned b = 0; b < BLOCKS; b++) /* 64 KiB, and some frames, of every block */
			model_give(rig.model, b * BLOCK, 20);
		rig_run(&rig, 10 * I);
		assert_int_equal(rig_stats(&rig).isolated, 0);
		assert_int_equal(pagehint_reporter_pressure(rig.rep, level, 10 * I), 0);
		uint64_t asked = rig.now, answered = 0;
		uint64_t all = BLOCKS * FRAME * (level == PAGEHINT_PRESSURE_SOME ? 16 : 20);
		rig.deadline = rig.now; /* who tells of pressure steps */
		for (uint32_t order = 9; rig.now < asked + 30 * I;) {
			rig_run(&rig, rig.deadline);
			struct pagehint_reporter_stats st = rig_stats(&rig);
			changes += st.order != order;
			order = st.order;
			if (answered == 0 && st.reported == all)
				answered = rig.now;
		}
		assert_int_equal(changes, 2);
		assert_int_equal(rig_stats(&rig).isolated, all);
		assert_true(answered != 0 && answered - asked <= (level == PAGEHINT_PRESSURE_SOME ? 2 * I : 0));
		assert_int_equal(rig_stats(&rig).order, 9);
		rig_stop(&rig);
	}
}

/* What was re-used in the busiest of the last N intervals stays unreported, and no more than that for long. */
static void test_hold_back_keeps_what_it_says(void **state)
{
	(void)state;
	enum { N = 3, LOOKS = 60 };
	struct rig rig;
	struct pagehint_reporter_opts opts = { .holdback_intervals = N };
	uint64_t s = 99, used[LOOKS + 1] = { 0 }, kept_once = 0;
	start(&rig, &opts, 0);
	rig.model->handed_out = 50 * BLOCK; /* before our time: no re-use of what we gave back */
	model_give(rig.model, 0, BLOCKS * BLOCK);
	rig_run(&rig, 2 * I);
	assert_int_equal(model_count(rig.model, FRAME_REPORTED), BLOCKS * BLOCK);
	rig_run(&rig, 4 * I);
	for (unsigned look = 1; look <= LOOKS; look++) {
		for (uint64_t n = rnd(&s, 10); n > 0 && look < LOOKS - N - 3; n--) {
			uint64_t b = rnd(&s, BLOCKS) * BLOCK;
			used[look] += model_is(rig.model, b, BLOCK, FRAME_REPORTED) ? BLOCK : 0;
			assert_int_equal(model_alloc(rig.model, b, BLOCK), 0);
			model_give(rig.model, b, BLOCK);
		}
		uint64_t before = model_count(rig.model, FRAME_FREE), keep = 0;
		for (unsigned i = 0; i < N && i < look; i++)
			keep = used[look - i] > keep ? used[look - i] : keep;
		rig_run(&rig, (4 + look) * I);
		uint64_t after = model_count(rig.model, FRAME_FREE);
		assert_true(after >= (before < keep ? before : keep));
		kept_once += after > 0 && after == keep;
	}
	assert_true(kept_once > 5);
	assert_int_equal(model_count(rig.model, FRAME_FREE), 0); /* quiet for N intervals */
	rig_stop(&rig);
}

/* With nothing to do, whatever the knobs: one wake an interval. */
static void test_idle_wakes(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 8; k++) {
		struct rig rig;
		struct pagehint_reporter_opts opts = { .rate = k % 2 * MIB,
						       .watermark = k / 2 % 2 * MIB,
						       .holdback_intervals = 4 };
		start(&rig, &opts, (int)(k / 4));
		model_give(rig.model, 0, BLOCK + 3);
		rig_run(&rig, 10 * I);
		uint64_t before = rig.steps;
		rig_run(&rig, 310 * I);
		assert_int_equal(rig.steps - before, 300);
		rig_stop(&rig);
	}
}

/* What always fails is asked about ever less often, and never more than once an interval. */
static void test_failing_backend_is_left_in_peace(void **state)
{
	(void)state;
	struct rig rig;
	struct pagehint_reporter_opts opts = { 0 };
	start(&rig, &opts, 0);
	rig.fake->error = -EIO;
	model_give(rig.model, 0, BLOCKS * BLOCK);
	rig_run(&rig, 500 * I);
	assert_int_equal(rig.steps, 501);
	assert_true(rig.fake->batches <= 6 + 500 / 32);
	assert_true(rig.fake->batches >= 500 / 34);
	assert_int_equal(rig_stats(&rig).backoffs, rig.fake->batches);
	assert_int_equal(rig_stats(&rig).failed, rig_stats(&rig).kept);
	rig.fake->error = 0;
	rig_run(&rig, 535 * I);
	assert_int_equal(model_count(rig.model, FRAME_REPORTED), BLOCKS * BLOCK);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_back_within_t),
		cmocka_unit_test(test_t_is_exported),
		cmocka_unit_test(test_the_rate_is_never_exceeded),
		cmocka_unit_test(test_pressure_does_not_oscillate),
		cmocka_unit_test(test_hold_back_keeps_what_it_says),
		cmocka_unit_test(test_idle_wakes),
		cmocka_unit_test(test_failing_backend_is_left_in_peace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
