/*
 * taker: who takes free memory away: hooks that judge every discard of a backend, and a reporter under a pressure that changes.
 */
#ifndef TESTS_SOAK_TAKER_H
#define TESTS_SOAK_TAKER_H

#include <pagehint/backend.h>
#include <pagehint/reporter.h>
#include <pagehint/zone.h>

#include "content.h"
#include "soak.h"

struct taker {
	const char *part;
	struct content *content;
	struct pagehint_hooks hooks;
	struct pagehint_backend *judged; /* the backend that has the hooks */
	/* what the hooks were told, summed: the statistics must come to the same */
	struct pagehint_outcome told;
	/* a reporter, where there is one */
	struct pagehint_origin *origin;
	struct pagehint_reporter *reporter;
	uint64_t now;
	uint64_t breaks; /* errors of steps, each while a call was made to fail */
};

/* Hooks for the backend that is to be judged; put that into `judged`. */
const struct pagehint_hooks *taker_hooks(struct taker *t, const char *part, struct content *content);
/* A reporter of this zone over a backend. 0 or -errno. */
int taker_open(struct taker *t, struct pagehint_zone *zone, struct pagehint_backend *backend);
int taker_turn(void *taker, struct soak_member *m);
/* Everybody rests: the truth of the sums, of the backend's and of the reporter's. */
void taker_walk(const struct taker *t, const struct pagehint_zone *zone);
/* Nothing is in flight any more. */
void taker_drain(struct taker *t);
void taker_close(struct taker *t);

#endif
