/*
 * models: the two allocators that the library is measured against and that are ours. Calls, not inlines: each operation
 * costs a call, as it does into a library.
 *
 * Why models: the allocator of a kernel cannot be run beside ours, on the same work, in one process; what it does for a
 * block can. Not here: what they are (model_list.c, model_linux.c).
 */
#ifndef BENCH_ALLOC_MODELS_H
#define BENCH_ALLOC_MODELS_H

#include <stdint.h>

struct list_model;

struct list_model *list_model_new(uint64_t frames);
void list_model_destroy(struct list_model *m);
uint64_t list_model_alloc(struct list_model *m, uint32_t order); /* SUBJECT_NONE = none left */
void list_model_free(struct list_model *m, uint64_t frame, uint32_t order);
int list_model_huge_blocks(const struct list_model *m, uint64_t *bitmap);

struct linux_model;

struct linux_model *linux_model_new(uint64_t frames);
void linux_model_destroy(struct linux_model *m);
uint64_t linux_model_alloc(struct linux_model *m, unsigned cpu, uint32_t order);
void linux_model_free(struct linux_model *m, unsigned cpu, uint64_t frame, uint32_t order);
void linux_model_drain(struct linux_model *m, unsigned cpu);
int linux_model_huge_blocks(const struct linux_model *m, uint64_t *bitmap);

#endif
