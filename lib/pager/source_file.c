/*
 * source_file: a file that is read with pread, whose holes are known to be zero and are not read.
 *
 * Why a descriptor of its own: SEEK_DATA moves the position of a descriptor, and that of the embedder's is not ours to move.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "pager/source.h"

struct file {
	const struct ph_sys *sys;
	uint64_t offset;
	uint64_t bytes;
	int fd;
	int seek_fd; /* -1: holes cannot be told */
};

/* What is beyond the end is zero; what the file should have and has not is an error. */
static int file_fetch(void *ctx, struct pagehint_fetch *fetch)
{
	const struct file *f = ctx;
	uint64_t have = fetch->offset < f->bytes ? f->bytes - fetch->offset : 0, got = 0;
	have = have < fetch->bytes ? have : fetch->bytes;
	fetch->done = fetch->bytes;
	if (have == 0)
		return 0;
	fetch->data = fetch->buffer;
	while (got < have) {
		int64_t r = f->sys->pread(f->sys->ctx, f->fd, (unsigned char *)fetch->buffer + got,
					  (size_t)(have - got), f->offset + fetch->offset + got);
		if (r == 0)
			r = -EIO; /* shorter than it was said to be */
		if (r < 0) {
			fetch->done = got;
			return got == 0 ? (int)r : 0; /* what has come is an answer */
		}
		got += (uint64_t)r;
	}
	memset((unsigned char *)fetch->buffer + have, 0, (size_t)(fetch->bytes - have));
	return 0;
}

static int file_extent(void *ctx, uint64_t offset, uint64_t bytes, uint64_t *ret_bytes, uint32_t *ret_is_zero)
{
	const struct file *f = ctx;
	uint64_t at = f->offset + offset;
	*ret_bytes = bytes;
	*ret_is_zero = offset >= f->bytes;
	if (*ret_is_zero || f->seek_fd < 0)
		return 0;
	int64_t data = f->sys->lseek(f->sys->ctx, f->seek_fd, (int64_t)at, SEEK_DATA);
	if (data == -ENXIO) { /* nothing but a hole up to the end */
		*ret_is_zero = 1;
		return 0;
	}
	if (data < 0)
		return (int)data;
	if ((uint64_t)data > at) {
		*ret_is_zero = 1;
		*ret_bytes = (uint64_t)data - at < bytes ? (uint64_t)data - at : bytes;
		return 0;
	}
	int64_t hole = f->sys->lseek(f->sys->ctx, f->seek_fd, (int64_t)at, SEEK_HOLE);
	if (hole > (int64_t)at && (uint64_t)hole - at < bytes)
		*ret_bytes = (uint64_t)hole - at;
	return 0;
}

static void file_destroy(void *ctx)
{
	struct file *f = ctx;
	if (f->seek_fd >= 0)
		(void)f->sys->close(f->sys->ctx, f->seek_fd);
	free(f);
}

int ph_source_file_new_with(int fd, uint64_t offset, uint64_t bytes, const struct ph_sys *sys,
			    struct pagehint_source **ret_source)
{
	static const struct pagehint_source_ops ops = {
		.struct_size = sizeof(ops),
		.name = "file",
		.caps = PAGEHINT_SOURCE_SIGNAL_SAFE,
		.fetch = file_fetch,
		.extent = file_extent,
		.destroy = file_destroy,
	};
	char path[48];
	if (fd < 0 || ret_source == NULL || offset > INT64_MAX || bytes > INT64_MAX - offset)
		return -EINVAL;
	struct file *f = malloc(sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*f = (struct file) { sys, offset, bytes, fd, sys->open(sys->ctx, path, O_RDONLY) };
	int r = pagehint_source_new(&ops, f, ret_source);
	if (r < 0)
		file_destroy(f);
	return r;
}

int pagehint_source_file_new(int fd, uint64_t offset, uint64_t bytes, struct pagehint_source **ret_source)
{
	return ph_source_file_new_with(fd, offset, bytes, &ph_sys_real, ret_source);
}
