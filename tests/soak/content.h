/*
 * content: what each frame of a piece of memory must hold, and who has it, written down beside the memory.
 *
 * Every word of a frame is the same: what its last owner wrote, or zero since it was discarded (what was there at first is the
 * opener's to say). An owner looks at what it gets and at what it gives back; who discards says what became of it, and is
 * told when it discards what somebody owns. Frames [0, base) lie one after the other; behind them come slots of CONTENT_SLOT
 * frames, each at the start of a section of its own, from section 1 on.
 */
#ifndef TESTS_SOAK_CONTENT_H
#define TESTS_SOAK_CONTENT_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/outcome.h>
#include <pagehint/run.h>
#include <pagehint/zone.h>

#define CONTENT_PAGE UINT64_C(4096)
#define CONTENT_SLOT UINT64_C(512)

struct content {
	const char *part;
	unsigned char *memory;
	int fd; /* of the file behind it, -1 = private memory */
	uint64_t base, slots;
	/* by place, not by frame; shared with processes that are forked later */
	_Atomic uint64_t *word;
	_Atomic unsigned char *maybe; /* 1: zero would be right, too */
	_Atomic unsigned char *owner; /* 1: somebody has it */
	_Atomic uint64_t gone;        /* frames that were said to be gone */
};

/* Memory of base + slots * CONTENT_SLOT frames, between pages that nobody may touch; all of it zero. 0 or -errno. */
int content_open(struct content *c, const char *part, int as_file, uint64_t base, uint64_t slots);
void content_close(struct content *c);
uint64_t content_bytes(const struct content *c);
uint64_t content_slot_frame(const struct content *c, uint64_t slot); /* its first frame */
unsigned char *content_at(const struct content *c, uint64_t frame);

/* A block is somebody's from now on: it must be nobody's, and hold what it must; it is filled with `word`. */
void content_take(struct content *c, uint64_t frame, uint64_t frames, uint64_t word);
/* It is given up: it must hold what it was filled with. */
void content_drop(struct content *c, uint64_t frame, uint64_t frames);
void content_look(struct content *c, uint64_t frame, uint64_t frames); /* the owner looks in between */

/* hooks of a backend; ctx is the content */
void content_discarded(void *ctx, const struct pagehint_run *run, const struct pagehint_outcome *outcome);

/* Frames whose memory is new. */
void content_is_zero(struct content *c, uint64_t frame, uint64_t frames);

/*
 * Everybody rests: all that can be seen without bringing memory back (the file, or what is present) is as it must be.
 * Returns how many frames are owned. `lazy`: what is in the file is not what is mapped, until it was touched.
 */
uint64_t content_walk(struct content *c, int lazy);

#endif
