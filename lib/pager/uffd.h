/*
 * uffd: the calls of a userfaultfd, each with its progress told apart from its error.
 *
 * The problem: the kernel answers in several ways: a negative count inside the argument, a count of zero, a part of the range
 * with EAGAIN. Why this shape: every function here returns 0 or -errno and says in *ret_done how many bytes are settled,
 * never less than none; who calls need not know which kernel it is.
 * Not here: what to do about an error (install.h). Owns: nothing.
 */
#ifndef PH_PAGER_UFFD_H
#define PH_PAGER_UFFD_H

#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>

#include "base/sys.h"

/* features and calls of newer headers */
#define PH_UFFD_FEATURE_POISON (UINT64_C(1) << 14)
#define PH_UFFD_FEATURE_MOVE (UINT64_C(1) << 16)

/* a region's ways to be filled, as UFFDIO_REGISTER says them */
#define PH_UFFD_CAN_COPY 1u
#define PH_UFFD_CAN_ZERO 2u
#define PH_UFFD_CAN_CONTINUE 4u
#define PH_UFFD_CAN_PROTECT 8u
#define PH_UFFD_CAN_POISON 16u
#define PH_UFFD_CAN_MOVE 32u

/* modes of the calls below */
#define PH_UFFD_DONTWAKE 1u
#define PH_UFFD_PROTECT 2u /* install write-protected */

/* Opens one and agrees on features (those of `want` that the kernel has). Returns the fd or -errno. */
int ph_uffd_open(const struct ph_sys *sys, uint64_t need, uint64_t want, uint64_t *ret_features);

/* Registers [addr, addr + bytes) with UFFDIO_REGISTER_MODE_*; says what may be done there. */
int ph_uffd_register(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes, uint64_t mode, uint32_t *ret_can);
int ph_uffd_unregister(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes);

int ph_uffd_copy(const struct ph_sys *sys, int fd, uint64_t to, const void *from, uint64_t bytes, uint32_t mode,
		 uint64_t *ret_done);
int ph_uffd_zero(const struct ph_sys *sys, int fd, uint64_t to, uint64_t bytes, uint32_t mode, uint64_t *ret_done);
int ph_uffd_continue(const struct ph_sys *sys, int fd, uint64_t to, uint64_t bytes, uint32_t mode, uint64_t *ret_done);
int ph_uffd_poison(const struct ph_sys *sys, int fd, uint64_t to, uint64_t bytes, uint32_t mode, uint64_t *ret_done);
int ph_uffd_move(const struct ph_sys *sys, int fd, uint64_t to, void *from, uint64_t bytes, uint32_t mode,
		 uint64_t *ret_done);

/* on = 0: allows writing and wakes; 1: protects */
int ph_uffd_protect(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes, uint32_t on);
int ph_uffd_wake(const struct ph_sys *sys, int fd, uint64_t addr, uint64_t bytes);

#endif
