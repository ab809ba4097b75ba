/*
 * rig: a reporter between the model origin and the fake backend, stepped in simulated time.
 *
 * After every step it asks the one question: every frame that is taken is in flight, none has come back twice.
 */
#ifndef FAKES_RIG_H
#define FAKES_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagehint/gate.h>
#include <pagehint/reporter.h>

#include "base/sys.h"
#include "fakes/fake_backend.h"
#include "fakes/model_origin.h"

#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)
#define FRAME UINT64_C(4096)
#define RIG_INTERVAL (2 * SEC) /* of a reporter whose test asks for none */

struct rig {
	struct model *model;
	struct fake *fake; /* gone with the backend */
	struct pagehint_origin *origin;
	struct pagehint_backend *backend;
	struct pagehint_gate *gate;
	struct pagehint_reporter *rep;
	struct ph_sys sys; /* what the reporter believes of the system */
	int64_t pid;
	int pri; /* what poll_pri answers */
	uint64_t polls;
	uint64_t now;
	uint64_t deadline;
	uint64_t steps;
	char lines[64][300];
	unsigned lines_n;
};

struct rig_how {
	uint64_t frames;
	uint32_t min_order;
	uint32_t order;
	int async;
	uint32_t max_runs;
	const struct pagehint_reporter_opts *opts;
};

void rig_start(struct rig *rig, const struct rig_how *how);
void rig_stop(struct rig *rig); /* drains (the backend must answer), checks, frees */
void rig_check(struct rig *rig);
void rig_step(struct rig *rig, uint64_t budget); /* at rig->now */
void rig_run(struct rig *rig, uint64_t until);   /* from deadline to deadline, up to and with `until` */
struct pagehint_reporter_stats rig_stats(const struct rig *rig);
void rig_explain(struct rig *rig);
int rig_said(const struct rig *rig, const char *prefix); /* some line of the last explanation begins so */

#endif
