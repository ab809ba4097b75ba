/*
 * own: a guest's own memory: what the hypervisor calls the page behind an address of this process.
 *
 * The problem: the guest frame number of a page is in pagemap alone, and only as long as the page does not move. Why this
 * shape: wiped through the mapping, looked up anew for every discard (after the wiping, which may put another page there), and
 * remembered in p2m while the frame is out. Only locked memory is taken, since the kernel would otherwise swap a page in whose
 * frame is gone; and only pages that nobody else has mapped, since a frame that goes is gone for all of them.
 * Source: proc_pid_pagemap(5)
 */
#ifndef PH_XEN_OWN_H
#define PH_XEN_OWN_H

#include <pagehint/run.h>

#include "xen/release.h"

/* Adds what can go of frames [run.frame, + frames), none of which is out; books the rest. Everything is sent on return. */
void ph_xen_own_release(struct ph_xen_release *r, uint32_t index, const struct pagehint_run *run);

#endif
