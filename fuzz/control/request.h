/*
 * request: a request to the balloon's control socket of which it is known what must come of it.
 *
 * It is put together from words that are right, nearly right and wrong; the grammar stands here once more, in the plainest way.
 */
#ifndef FUZZ_CONTROL_REQUEST_H
#define FUZZ_CONTROL_REQUEST_H

#include "input.h"
#include "state.h"

enum request_what { REQUEST_TARGET, REQUEST_TUNE, REQUEST_PAUSE, REQUEST_RESUME, REQUEST_LOOK, REQUEST_KINDS };

struct request {
	char line[400]; /* without its newline */
	int ok;
	enum request_what what;
	int has[4]; /* of tune: rate, order, hold_back_ms, stats_interval_s; of target: the first, bytes */
	uint64_t value[4];
};

void request_make(struct request *request, struct input *in);

/* The state as it was, and as it must be after an answer that said ok. */
void request_judge(const struct request *request, const struct balloon_state *before,
		   const struct balloon_state *after);

#endif
