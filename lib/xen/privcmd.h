/*
 * privcmd: the raw way to the hypervisor: ioctls on /dev/xen/privcmd, buffers from /dev/xen/hypercall, and nothing but the
 * kernel between. Opening it is open.c's affair.
 *
 * Buffers are pages of the kernel's that never move; ordinary memory could be migrated in the middle of a hypercall.
 */
#ifndef PH_XEN_PRIVCMD_H
#define PH_XEN_PRIVCMD_H

#include "base/sys.h"
#include "xen/reservation.h"

/* Takes over an open /dev/xen/privcmd; opens the other. 0 (fd is owned) or -errno (fd is not closed). */
int ph_xen_privcmd(const struct ph_sys *sys, int fd, struct pagehint_xen_calls *ret_calls, void **ret_ctx);

/* Reads a small file of the kernel's as text: length, or -errno. The text ends with a 0, and has no newline at the end. */
int ph_xen_read_text(const struct ph_sys *sys, const char *path, char *text, size_t size);

/* pagehint_xen_open, pagehint_xen_get_target and pagehint_xen_set_target with another operating system beneath. */
int ph_xen_open_with(const struct ph_sys *sys, const struct pagehint_xen_opts *opts, struct pagehint_xen **ret_xen);
int ph_xen_get_target_with(const struct ph_sys *sys, uint64_t *ret_target, uint64_t *ret_current);
int ph_xen_set_target_with(const struct ph_sys *sys, uint64_t bytes, uint64_t least, uint64_t most,
			   uint64_t *ret_target);

#endif
