/*
 * guest: the same touches by vCPUs: a hand-made guest of a few instructions, in flat 32-bit mode, writes to each page of its
 * thread's part and halts. Faults reach the userfaultfd of the memory behind the slot.
 */
#ifndef BENCH_PAGING_GUEST_H
#define BENCH_PAGING_GUEST_H

#include <stdint.h>

struct guest;

int guest_possible(void); /* /dev/kvm can be opened */
struct guest *guest_open(void *memory, uint64_t bytes, unsigned vcpus);
/* Runs one vCPU over pages [first, first + pages): writes each page's number at its byte 8. 0, or -1. */
int guest_touch(struct guest *g, unsigned vcpu, uint64_t first, uint64_t pages);
void guest_close(struct guest *g);

#endif
