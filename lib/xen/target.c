/*
 * target: the kernel's own balloon driver, through sysfs: a size goes in, and the kernel finds pages, wipes them and gives
 * them back in its own time. It needs no hypercall of ours, so it is what a guest agent should use.
 * Source: Linux Documentation/ABI/stable/sysfs-devices-system-xen_memory
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "xen/abi.h"
#include "xen/privcmd.h"

#define DIRECTORY "/sys/devices/system/xen_memory/xen_memory0/"

static int read_kib(const struct ph_sys *sys, const char *path, uint64_t *ret_bytes)
{
	char text[32], *end = NULL;
	int n = ph_xen_read_text(sys, path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ENODEV : n;
	unsigned long long kib = strtoull(text, &end, 10);
	if (end == text || *end != 0 || text[0] == '-' || kib > UINT64_MAX >> 10)
		return -EPROTO;
	*ret_bytes = (uint64_t)kib << 10;
	return 0;
}

int ph_xen_get_target_with(const struct ph_sys *sys, uint64_t *ret_target, uint64_t *ret_current)
{
	uint64_t target, current = 0;
	int r = ret_target == NULL ? -EINVAL : read_kib(sys, DIRECTORY "target_kb", &target);
	if (r == 0 && ret_current != NULL)
		r = read_kib(sys, DIRECTORY "info/current_kb", &current);
	if (r < 0)
		return r;
	*ret_target = target;
	if (ret_current != NULL)
		*ret_current = current;
	return 0;
}

static int write_frames(const struct ph_sys *sys, uint64_t frames)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%" PRIu64, frames << (PH_XEN_FRAME_SHIFT - 10));
	int fd = sys->open(sys->ctx, DIRECTORY "target_kb", O_WRONLY);
	if (fd < 0)
		return fd == -ENOENT ? -ENODEV : fd;
	int64_t n = sys->write(sys->ctx, fd, text, (size_t)length);
	(void)sys->close(sys->ctx, fd);
	return n < 0 ? (int)n : n == length ? 0 : -EIO;
}

int ph_xen_set_target_with(const struct ph_sys *sys, uint64_t bytes, uint64_t least, uint64_t most,
			   uint64_t *ret_target)
{
	/* the driver drops what is no whole frame, which must not lead it below `least` */
	const uint64_t low = least / PH_XEN_FRAME_BYTES + (least % PH_XEN_FRAME_BYTES != 0),
		       high = most >> PH_XEN_FRAME_SHIFT;
	const uint64_t frames = bytes >> PH_XEN_FRAME_SHIFT;
	if (low > high || high == 0)
		return -EINVAL;
	int r = write_frames(sys, frames < low ? low : frames > high ? high : frames);
	if (r == 0 && ret_target != NULL)
		r = ph_xen_get_target_with(sys, ret_target, NULL);
	return r;
}

int pagehint_xen_get_target(uint64_t *ret_target, uint64_t *ret_current)
{
	return ph_xen_get_target_with(&ph_sys_real, ret_target, ret_current);
}

int pagehint_xen_set_target(uint64_t bytes, uint64_t least, uint64_t most, uint64_t *ret_target)
{
	return ph_xen_set_target_with(&ph_sys_real, bytes, least, most, ret_target);
}
