#include "fakes/rig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "report/reporter.h"

static int64_t fake_getpid(void *ctx)
{
	return ((struct rig *)ctx)->pid;
}

static int fake_poll_pri(void *ctx, int fd)
{
	struct rig *rig = ctx;
	assert_int_equal(fd, 77);
	rig->polls++;
	int pri = rig->pri;
	if (pri > 0)
		rig->pri = 0; /* an event is told once */
	return pri;
}

/* The rig's own interval, unless the test asks for one: what tests say in intervals must not hang on the default. */
static struct pagehint_reporter_opts options(const struct pagehint_reporter_opts *asked)
{
	struct pagehint_reporter_opts opts = { 0 };
	if (asked != NULL)
		opts = *asked;
	opts.struct_size = sizeof(opts);
	if (opts.interval_ns == 0)
		opts.interval_ns = RIG_INTERVAL;
	return opts;
}

void rig_start(struct rig *rig, const struct rig_how *how)
{
	memset(rig, 0, sizeof(*rig));
	rig->sys = ph_sys_real;
	rig->sys.ctx = rig;
	rig->sys.getpid = fake_getpid;
	rig->sys.poll_pri = fake_poll_pri;
	rig->pid = 100;
	rig->model = model_new(how->frames, how->min_order, how->order);
	rig->fake = fake_new(rig->model);
	rig->origin = model_origin(rig->model);
	assert_int_equal(pagehint_gate_new(&rig->gate), 0);
	rig->backend = fake_backend(rig->fake, how->async, how->max_runs, rig->gate);
	const struct pagehint_reporter_opts opts = options(how->opts);
	assert_int_equal(ph_reporter_new_with(rig->origin, rig->backend, &opts, &rig->sys, &rig->rep), 0);
}

struct pagehint_reporter_stats rig_stats(const struct rig *rig)
{
	struct pagehint_reporter_stats s = { .struct_size = sizeof(s) };
	assert_int_equal(pagehint_reporter_stats(rig->rep, &s), 0);
	return s;
}

void rig_check(struct rig *rig)
{
	struct pagehint_reporter_stats s = rig_stats(rig);
	assert_int_equal(rig->model->wrong, 0);
	assert_int_equal(rig->model->unfair, 0);
	assert_int_equal(rig->fake->wrong, 0);
	assert_int_equal(model_count(rig->model, FRAME_TAKEN), rig->model->taken);
	assert_int_equal(s.in_flight, rig->model->taken * FRAME);
	assert_int_equal(rig->model->departed - rig->model->returned, rig->model->taken);
	assert_int_equal(s.isolated, s.reported + s.kept + s.in_flight);
}

void rig_step(struct rig *rig, uint64_t budget)
{
	uint64_t before = rig_stats(rig).isolated;
	rig->model->work = 0;
	assert_int_equal(pagehint_reporter_step(rig->rep, rig->now, budget, &rig->deadline), 0);
	rig->steps++;
	rig_check(rig);
	assert_true(rig->model->work <= 65536);
	if (budget != 0)
		assert_true(rig_stats(rig).isolated - before <= budget);
}

void rig_run(struct rig *rig, uint64_t until)
{
	unsigned same = 0;
	while (rig->deadline <= until) {
		same = rig->deadline > rig->now ? 0 : same + 1;
		assert_true(same < 10000); /* no endless "at once" */
		rig->now = rig->deadline > rig->now ? rig->deadline : rig->now;
		rig_step(rig, 0);
	}
	rig->now = until;
}

static void take_line(void *ctx, const char *text)
{
	struct rig *rig = ctx;
	assert_null(strchr(text, '\n'));
	if (rig->lines_n < 64)
		snprintf(rig->lines[rig->lines_n++], sizeof(rig->lines[0]), "%s", text);
}

void rig_explain(struct rig *rig)
{
	struct pagehint_sink sink = { rig, take_line };
	rig->lines_n = 0;
	memset(rig->lines, 0, sizeof(rig->lines));
	pagehint_reporter_explain(rig->rep, &sink);
	assert_true(rig->lines_n > 0);
}

int rig_said(const struct rig *rig, const char *prefix)
{
	for (unsigned i = 0; i < rig->lines_n; i++)
		if (strncmp(rig->lines[i], prefix, strlen(prefix)) == 0)
			return 1;
	return 0;
}

void rig_stop(struct rig *rig)
{
	uint64_t deadline;
	int r = -EAGAIN;
	for (int i = 0; i < 1000 && r == -EAGAIN; i++) {
		r = pagehint_reporter_stop(rig->rep, rig->now, &deadline);
		if (r == -EAGAIN)
			rig->now = deadline;
	}
	assert_int_equal(r, 0);
	rig_check(rig);
	assert_int_equal(rig->model->taken, 0);
	assert_int_equal(pagehint_reporter_free(rig->rep), 0);
	/* what the reporter had given up for gone is still in the handle */
	struct pagehint_outcome outcomes[FAKE_RUNS];
	uint64_t cookie;
	uint32_t n;
	rig->fake->silent = 0;
	rig->fake->reap_error = 0;
	while (pagehint_backend_reap(rig->backend, FAKE_RUNS, outcomes, &cookie, &n) == 0)
		;
	assert_int_equal(pagehint_backend_free(rig->backend), 0);
	assert_int_equal(pagehint_gate_free(rig->gate), 0);
	pagehint_origin_free(rig->origin);
	assert_int_equal(rig->model->destroyed, 1);
	model_free(rig->model);
}
