/*
 * xencall.h: the way to the hypervisor through libxencall, which Xen keeps stable; in libpagehint-xen, a small library of
 * its own, so that nobody else has to link Xen's libraries. Everything else of a handle is in xen.h.
 */
#ifndef PAGEHINT_XENCALL_H
#define PAGEHINT_XENCALL_H

#include <pagehint/api.h>
#include <pagehint/xen.h>

PAGEHINT_BEGIN

/**
 * pagehint_xencall_open - a handle on a domain over libxencall; frames are wiped through libxenforeignmemory
 * @opts:    required; as for pagehint_xen_open, but OWN is not for this way
 * @ret_xen: the handle; pagehint_xen_free closes everything
 * For the hardware domain: in any other libxencall could wait for ever, see pagehint_xen_open.
 * Return: 0; -EINVAL as pagehint_xen_new, or OWN; -E2BIG; -ENOMEM; -ENODEV not Xen, or no such domain; -EOPNOTSUPP not the
 * hardware domain; -EPERM hypercalls are refused; else what libxencall gave.
 * Thread: init-only.   Cost: about fifteen syscalls.   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int pagehint_xencall_open(const struct pagehint_xen_opts *opts,
							   struct pagehint_xen **ret_xen);

PAGEHINT_END
#endif
