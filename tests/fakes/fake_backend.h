/*
 * fake_backend: a backend that does as it is told: well or badly, now or later, in order or not.
 *
 * It checks that every run it gets is out of the allocator's reach at that moment (`wrong`), and remembers what it holds, so
 * that "isolated = in flight" can be asked from outside the reporter.
 */
#ifndef FAKES_FAKE_BACKEND_H
#define FAKES_FAKE_BACKEND_H

#include <stdint.h>

#include <pagehint/backend.h>

#include "fakes/model_origin.h"

/* what becomes of a run */
enum { ANSWER_FREED, ANSWER_KEPT, ANSWER_FAILED, ANSWER_LAZY, ANSWER_HALF, ANSWER_LIE, ANSWER_COUNT };

#define FAKE_SLOTS 64
#define FAKE_RUNS 512

struct fake_batch {
	uint64_t id;
	uint64_t frames;
	uint32_t n;
	struct pagehint_run runs[FAKE_RUNS];
};

struct fake_region {
	uint64_t frame, frames, least;
};

struct fake {
	struct model *model;
	uint32_t answer;    /* ANSWER_*; what every run gets */
	uint32_t why;       /* of kept and failed */
	uint32_t half_why;  /* of the kept half of ANSWER_HALF */
	uint64_t kept_from; /* runs that begin in [kept_from, kept_to) are kept, whatever `answer` says */
	uint64_t kept_to;
	int error;          /* discard and submit return it when not 0 */
	int reap_error;     /* reap returns it when not 0 */
	uint32_t short_by;  /* a discard deals with so many runs fewer */
	uint32_t capacity;  /* async: batches it takes; more: -EAGAIN */
	uint32_t silent;    /* async: never answers */
	uint32_t backwards; /* async: the last batch is answered first */
	uint32_t invents;   /* async: so many answers to nothing first */
	uint64_t fail_at;   /* the call with this number fails; 0 = none */
	int fail_with;
	void (*during)(void *ctx); /* in every discard, submit, reap, extent */
	void *during_ctx;
	struct fake_region regions[8];
	uint32_t regions_n; /* 0 = no regions: anything goes */
	struct fake_batch held[FAKE_SLOTS];
	uint32_t held_n;
	uint64_t calls, batches, runs, frames, held_frames, wrong;
	uint64_t largest; /* frames of the largest batch */
	uint64_t extents;
	uint32_t last_flags;
};

struct fake *fake_new(struct model *model);
struct pagehint_backend *fake_backend(struct fake *fake, int async, uint32_t max_runs, struct pagehint_gate *gate);

#endif
