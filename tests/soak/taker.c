#include "taker.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "faults.h"
#include "report/reporter.h"

#define MILLISECOND UINT64_C(1000000)

static void after_discard(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *o)
{
	struct taker *t = ctx;
	content_discarded(t->content, run, o);
	t->told.asked += o->asked;
	t->told.freed += o->freed;
	t->told.absent += o->absent;
	t->told.accepted += o->accepted;
	t->told.kept += o->kept;
	t->told.lazy += o->lazy;
	t->told.failed += o->failed;
	if (o->failed != 0 && (o->error == 0 || o->failed_why == PAGEHINT_WHY_NONE))
		(void)soak_bad(t->part, "%" PRIu64 " bytes failed, and nothing says why", o->failed);
}

const struct pagehint_hooks *taker_hooks(struct taker *t, const char *part, struct content *content)
{
	memset(t, 0, sizeof(*t));
	t->part = part;
	t->content = content;
	t->now = MILLISECOND;
	t->hooks =
		(struct pagehint_hooks) { .struct_size = sizeof(t->hooks), .ctx = t, .after_discard = after_discard };
	return &t->hooks;
}

int taker_open(struct taker *t, struct pagehint_zone *zone, struct pagehint_backend *backend)
{
	struct pagehint_reporter_opts opts = { .struct_size = sizeof(opts),
					       .interval_ns = 50 * MILLISECOND,
					       .flags = PAGEHINT_REPORTER_PSI,
					       .psi_fd = FAULTS_PSI_FD,
					       .pressure_hold_ns = 500 * MILLISECOND,
					       .holdback_intervals = 2,
					       .max_bytes_per_step = 4 << 20 };
	int r = pagehint_zone_origin_new(zone, &t->origin);
	return r < 0 ? r : ph_reporter_new_with(t->origin, backend, &opts, faults_sys(), &t->reporter);
}

int taker_turn(void *taker, struct soak_member *m)
{
	struct taker *t = taker;
	uint64_t deadline, mine = faults_mine();
	if (soak_below(&m->chance, 40) == 0)
		(void)SOAK_MUST(t->part, pagehint_reporter_pressure(t->reporter, (uint32_t)soak_below(&m->chance, 3),
								    soak_below(&m->chance, 2000) * MILLISECOND) == 0);
	int r = pagehint_reporter_step(t->reporter, t->now, 0, &deadline);
	if (r != 0 && faults_mine() == mine)
		(void)soak_bad(t->part, "a step of the reporter gave %d, and no call had failed", r);
	t->breaks += r != 0;
	t->now = r == 0 && deadline != UINT64_MAX && deadline > t->now ? deadline : t->now + MILLISECOND;
	return 1;
}

static void check_backend(const struct taker *t)
{
	struct pagehint_backend_stats s = { .struct_size = sizeof(s) };
	(void)SOAK_MUST(t->part, pagehint_backend_stats(t->judged, &s) == 0);
	(void)SOAK_MUST(t->part, s.freed + s.absent + s.accepted + s.kept + s.lazy + s.failed == s.asked);
	(void)SOAK_MUST(t->part, s.asked == t->told.asked && s.freed == t->told.freed && s.absent == t->told.absent);
	(void)SOAK_MUST(t->part, s.accepted == t->told.accepted && s.kept == t->told.kept && s.lazy == t->told.lazy);
	(void)SOAK_MUST(t->part, s.failed == t->told.failed);
	/* all of it has a reason */
	uint64_t why = 0, bad = 0;
	for (uint32_t i = 1; i < PAGEHINT_WHY_COUNT; i++) {
		why += s.kept_by[i];
		bad += s.failed_by[i];
	}
	(void)SOAK_MUST(t->part, why == s.kept && bad == s.failed);
}

static void check_reporter(const struct taker *t, const struct pagehint_zone *zone)
{
	struct pagehint_reporter_stats s = { .struct_size = sizeof(s) };
	struct pagehint_zone_stats z = { .struct_size = sizeof(z) };
	(void)SOAK_MUST(t->part, pagehint_reporter_stats(t->reporter, &s) == 0);
	(void)SOAK_MUST(t->part, pagehint_zone_stats(zone, &z) == 0);
	uint64_t away = (z.isolated + z.in_flight) * CONTENT_PAGE, back = s.isolated - away;
	(void)SOAK_MUST(t->part, s.isolated >= away && s.in_flight <= away);
	/* kept parts of a run that was reported are counted in both */
	(void)SOAK_MUST(t->part, s.reported <= back && back <= s.reported + s.kept);
	(void)SOAK_MUST(t->part, s.failed <= s.kept);
}

void taker_walk(const struct taker *t, const struct pagehint_zone *zone)
{
	if (t->judged != NULL)
		check_backend(t);
	if (t->reporter != NULL)
		check_reporter(t, zone);
}

void taker_drain(struct taker *t)
{
	uint64_t deadline = 0;
	int r = 0;
	for (uint32_t i = 0; i < 1000 && (r = pagehint_reporter_stop(t->reporter, t->now, &deadline)) == -EAGAIN; i++)
		t->now += MILLISECOND;
	(void)SOAK_MUST(t->part, r == 0);
}

void taker_close(struct taker *t)
{
	(void)SOAK_MUST(t->part, pagehint_reporter_free(t->reporter) == 0);
	pagehint_origin_free(t->origin);
	t->reporter = NULL;
	t->origin = NULL;
}
