/*
 * model_origin: an allocator as slow and simple as possible, as an origin: one byte a frame.
 *
 * It checks what the reporter does to it: every release is of frames that are out, `wrong` counts those that were not; every
 * harvest stays within what the contract allows (`unfair` counts those that did not).
 */
#ifndef FAKES_MODEL_ORIGIN_H
#define FAKES_MODEL_ORIGIN_H

#include <stdint.h>

#include <pagehint/origin.h>

enum { FRAME_ABSENT = 0, FRAME_USED = 1, FRAME_FREE = 2, FRAME_REPORTED = 3, FRAME_TAKEN = 4 };

struct model {
	uint64_t frames;
	uint8_t *state; /* FRAME_* */
	uint8_t *aged;  /* free at the last look, untouched since */
	uint32_t order;
	uint32_t min_order;
	uint64_t hidden;
	uint64_t taken; /* frames in FRAME_TAKEN */
	uint64_t departed;
	uint64_t returned;
	uint64_t handed_out;
	uint64_t calls; /* of any op */
	uint64_t harvests;
	uint64_t work; /* words looked at since the last reset */
	uint64_t quiesced;
	uint64_t wrong;
	uint64_t unfair;
	uint64_t destroyed;
	uint32_t last_order;
	uint32_t last_flags;
	uint64_t fail_at; /* the call with this number fails (1 = the next); 0 = none */
	int fail_with;
	void (*during)(void *ctx); /* called in every harvest and release */
	void *during_ctx;
};

struct model *model_new(uint64_t frames, uint32_t min_order, uint32_t order);
void model_free(struct model *model);
struct pagehint_origin *model_origin(struct model *model); /* with every op */
void model_ops(const struct model *model, struct pagehint_origin_ops *ops);

void model_set(struct model *model, uint64_t frame, uint64_t frames, uint8_t state);
int model_alloc(struct model *model, uint64_t frame, uint64_t frames); /* 0, or -1: not all free */
void model_give(struct model *model, uint64_t frame, uint64_t frames); /* free used frames */
uint64_t model_count(const struct model *model, uint8_t state);
int model_is(const struct model *model, uint64_t frame, uint64_t frames, uint8_t state);

#endif
