/*
 * open: is this Xen, may we, and for how long do we wait for it.
 *
 * In the hardware domain (Domain-0) privcmd opens at once. In any other domain the open may wait for xenstored, which may never answer, and
 * whether hypercalls are allowed is told only by one. So there it is done when asked for, and with a deadline.
 * Source: XSA-482; Linux Documentation/ABI/stable/sysfs-hypervisor-xen
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "xen/abi.h"
#include "xen/privcmd.h"

#define DEFAULT_TIMEOUT_NS INT64_C(1000000000)
#define PRIVCMD "/dev/xen/privcmd"

/* A 64-bit caller on an architecture whose frame numbers and handles are 64 bits, as abi.h has them. */
#if !defined(PH_NO_XEN) && (defined(__x86_64__) || defined(__aarch64__)) && UINTPTR_MAX == UINT64_MAX
#define CALLS_KNOWN 1
#else
#define CALLS_KNOWN 0
#endif

int ph_xen_read_text(const struct ph_sys *sys, const char *path, char *text, size_t size)
{
	int fd = sys->open(sys->ctx, path, O_RDONLY);
	if (fd < 0)
		return fd;
	int64_t n = sys->read(sys->ctx, fd, text, size - 1);
	(void)sys->close(sys->ctx, fd);
	if (n < 0)
		return (int)n;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	return (int)n;
}

static int is_xen(const struct ph_sys *sys)
{
	char text[16];
	return ph_xen_read_text(sys, "/sys/hypervisor/type", text, sizeof(text)) > 0 && strcmp(text, "xen") == 0;
}

static int is_hardware_domain(const struct ph_sys *sys)
{
	char text[32];
	if (ph_xen_read_text(sys, "/sys/hypervisor/properties/features", text, sizeof(text)) <= 0)
		return 0;
	return (strtoull(text, NULL, 16) & PH_XEN_FEATURE_DOM0) != 0;
}

/* A page of a PV guest stays referenced while it is mapped: nothing could be given back. */
static int is_pv(const struct ph_sys *sys)
{
	char text[16];
	return ph_xen_read_text(sys, "/sys/hypervisor/guest_type", text, sizeof(text)) > 0 && strcmp(text, "PV") == 0;
}

static int open_device(const struct ph_sys *sys, const struct pagehint_xen_opts *how)
{
	uint64_t timeout = how->open_timeout_ns;
	if (is_hardware_domain(sys))
		return sys->open(sys->ctx, PRIVCMD, O_RDWR);
	if ((how->flags & PAGEHINT_XEN_GUEST_PRIVCMD) == 0)
		return -EOPNOTSUPP;
	if (timeout == 0 || timeout > INT64_MAX)
		timeout = timeout == 0 ? (uint64_t)DEFAULT_TIMEOUT_NS : (uint64_t)INT64_MAX;
	return sys->open_within(sys->ctx, PRIVCMD, O_RDWR, (int64_t)timeout);
}

int ph_xen_open_with(const struct ph_sys *sys, const struct pagehint_xen_opts *opts, struct pagehint_xen **ret_xen)
{
	struct pagehint_xen_calls calls;
	struct pagehint_xen_opts how;
	void *ctx = NULL;
	int r = ret_xen == NULL ? -EINVAL : ph_xen_check_opts(opts, &how);
	if (r < 0)
		return r;
	if (!CALLS_KNOWN)
		return -EOPNOTSUPP;
	if (!is_xen(sys))
		return -ENODEV;
	if (how.kind == PAGEHINT_XEN_OWN && is_pv(sys))
		return -EOPNOTSUPP;
	int fd = open_device(sys, &how);
	if (fd < 0)
		return fd == -ENOENT ? -ENODEV : fd;
	r = ph_xen_privcmd(sys, fd, &calls, &ctx);
	if (r < 0) {
		(void)sys->close(sys->ctx, fd);
		return r == -ENOENT ? -ENODEV : r;
	}
	how.struct_size = sizeof(how);
	r = ph_xen_new_with(&calls, ctx, &how, sys, ret_xen);
	if (r < 0)
		calls.destroy(ctx);
	return r;
}

int pagehint_xen_open(const struct pagehint_xen_opts *opts, struct pagehint_xen **ret_xen)
{
	return ph_xen_open_with(&ph_sys_real, opts, ret_xen);
}
