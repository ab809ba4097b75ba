/*
 * replay: plays a trace against an engine over one backing, on the trace's own clock, and watches from outside.
 *
 * Every allocation of the trace becomes one of the zone, its pages are written; every free is checked and given to the zone.
 * The reporter is stepped at its deadlines; the host is asked between the steps, in the middle of every interval, and before
 * and after each step. After the last event the reporter gets two intervals; then the host wants everything
 * (PAGEHINT_PRESSURE_FULL) and the reporter gets two more.
 */
#ifndef GIVEBACK_REPLAY_H
#define GIVEBACK_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include <pagehint/backend.h>
#include <pagehint/host.h>
#include <pagehint/reporter.h>

#include "../trace.h"
#include "backing.h"
#include "naive.h"

#define REPLAY_INTERVAL_NS UINT64_C(100000000)

/* Bytes, at one moment of the trace. */
struct replay_sample {
	uint64_t now_ns;
	uint64_t live;
	uint64_t host;
	uint64_t never;  /* what the host would hold had nothing been returned */
	uint64_t oracle; /* what it would hold with perfect knowledge */
};

struct replay_result {
	struct pagehint_backend_stats backend;
	struct pagehint_madvise_stats calls;
	struct pagehint_reporter_stats reporter;
	struct replay_sample *samples;
	size_t n_samples;
	struct replay_sample ended;   /* two intervals after the last event */
	struct replay_sample pressed; /* two intervals after the pressure began */
	int64_t host_freed_bytes;
	uint64_t step_ns;   /* real time in the reporter's steps */
	uint64_t inside_ns; /* of it, in the backend: probing residency and the calls themselves */
	uint64_t events;
	uint64_t foreign;
	uint64_t allocated_pages;
	uint64_t checked_pages;
	uint64_t corrupt_pages;
	uint64_t violations; /* of the zone's invariants */
	uint64_t rereported;
	uint64_t resent_untouched;
	uint64_t refault;
};

/*
 * Plays the first `events` of the trace. naive records what was given back. 0; -errno with *why. The samples belong to the
 * caller (replay_result_free), also on failure.
 */
int replay_run(const struct trace *trace, size_t events, const struct backing *backing, struct naive *naive,
	       struct replay_result *result, struct why *why);

void replay_result_free(struct replay_result *result);

/* The memory a replay of these events needs behind it, a multiple of 64 MiB. */
uint64_t replay_bytes(const struct trace *trace, size_t events);

/* Over all samples: what the host held beyond what was live, as a share of what it would have held returning nothing. */
double replay_unreturned_share(const struct replay_result *result);
double replay_oracle_share(const struct replay_result *result);

#endif
