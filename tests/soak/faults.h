/*
 * faults: the system as the parts of the soak see it: every so often a call of it fails.
 *
 * A kind of call is drawn, and a number k; the k-th call of that kind fails, with an error that the call may really give; then both
 * are drawn anew. So each kind has its turn, however rare it is. The numbers follow from the seed.
 * What a call of the library may return follows: an error, only when a call of this thread was made to fail meanwhile.
 */
#ifndef TESTS_SOAK_FAULTS_H
#define TESTS_SOAK_FAULTS_H

#include "base/sys.h"

const struct ph_sys *faults_sys(void);
void faults_seed(uint64_t seed);
void faults_arm(int on); /* off: nothing fails */
uint64_t faults_injected(void);
/* Calls that were made to fail in this thread, ever. */
uint64_t faults_mine(void);
/* Descriptors and bytes that the library has through the table now. */
int64_t faults_fds(void);
int64_t faults_mapped(void);

/* POLLPRI on this descriptor comes and goes by itself: a host whose memory gets short, and is enough again. */
#define FAULTS_PSI_FD 0

#endif
