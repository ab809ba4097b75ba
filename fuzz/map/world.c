#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/sysmacros.h>

#define NO_FD (-1)
#define SMAPS 100

static const struct mapping {
	uint64_t from, pages; /* of the world */
	uint64_t offset;      /* pages in its file */
	int fd;
	uint32_t inode, major;
	uint32_t backing, flags;
	const char *how, *name, *vm_flags;
} mappings[] = {
	{ 0, 64, 0, NO_FD, 0, 0, PAGEHINT_BACKING_ANON, 0, "rw-p", "", "rd wr" },
	{ 64, 32, 0, NO_FD, 0, 0, PAGEHINT_BACKING_ANON, PAGEHINT_REGION_LOCKED, "rw-p", "[heap]", "rd lo" },
	/* a hole of 8 pages */
	{ 104, 64, 8, 5, 77, 0, PAGEHINT_BACKING_SHARED, 0, "rw-s", "/memfd:x (deleted)", "rd sh ms" },
	{ 168, 32, 0, 6, 78, 8, PAGEHINT_BACKING_FILE_PRIVATE, 0, "rw-p", "/data", "rd wr" },
	{ 200, 16, 0, 7, 79, 8, PAGEHINT_BACKING_DEVICE, 0, "rw-s", "/disk", "rd sh ms" },
	{ 216, 16, 0, NO_FD, 0, 0, PAGEHINT_BACKING_ANON, PAGEHINT_REGION_UFFD, "rw-p", "", "rd um" },
};
#define MAPPINGS (sizeof(mappings) / sizeof(*mappings))

static char truth[2048];

/* ---- what the map asks ---- */

static int64_t say_pid(void *ctx)
{
	return ((struct world *)ctx)->pid;
}

static int64_t say_page_size(void *ctx)
{
	(void)ctx;
	return 4096;
}

static int say_open(void *ctx, const char *path, int flags)
{
	struct world *w = ctx;
	(void)flags;
	if (strcmp(path, "/proc/self/smaps") != 0)
		return -ENOENT;
	w->at = 0;
	w->open_fds++;
	return SMAPS;
}

static int64_t say_read(void *ctx, int fd, void *buffer, size_t length)
{
	struct world *w = ctx;
	const void *text = w->text != NULL ? (const void *)w->text : truth;
	size_t left = (w->text != NULL ? w->text_bytes : strlen(truth)) - w->at;
	SURE(fd == SMAPS);
	length = length < left ? length : left;
	memcpy(buffer, (const char *)text + w->at, length);
	w->at += length;
	return (int64_t)length;
}

static int say_close(void *ctx, int fd)
{
	SURE(fd == SMAPS && ((struct world *)ctx)->open_fds-- == 1);
	return 0;
}

static int say_fstat(void *ctx, int fd, struct stat *st)
{
	(void)ctx;
	memset(st, 0, sizeof(*st));
	if (fd < WORLD_FDS || fd > WORLD_GUEST_FD)
		return -EBADF;
	st->st_mode = S_IFREG | 0600;
	st->st_ino = (ino_t)(77 + fd - WORLD_FDS);
	st->st_dev = makedev(fd == 6 || fd == 7 ? 8 : 0, 1);
	st->st_size = (off_t)(fd == WORLD_GUEST_FD ? WORLD_GUEST_PAGES : 4096) * 4096;
	return 0;
}

static int say_fstatfs(void *ctx, int fd, struct statfs *st)
{
	static const uint32_t magic[] = { 0x01021994, 0xef53, 0xef53, 0x474d454d };
	(void)ctx;
	memset(st, 0, sizeof(*st));
	st->f_type = magic[fd - WORLD_FDS];
	return 0;
}

static void *give_memory(void *ctx, size_t length)
{
	struct world *w = ctx;
	void *memory = w->no_memory ? NULL : calloc(1, length);
	w->mapped += memory != NULL;
	return memory;
}

static void take_memory(void *ctx, void *addr, size_t length)
{
	((struct world *)ctx)->mapped--;
	memset(addr, 0xee, length); /* all of it was given */
	free(addr);
}

void world_open(struct world *w)
{
	size_t at = 0;
	memset(w, 0, sizeof(*w));
	w->pid = 7;
	for (size_t i = 0; i < MAPPINGS; i++) {
		const struct mapping *m = &mappings[i];
		uint64_t start = (WORLD_PAGE + m->from) * 4096;
		at += (size_t)snprintf(truth + at, sizeof(truth) - at,
				       "%" PRIx64 "-%" PRIx64 " %s %08" PRIx64 " %02x:%02x %u %s\n"
				       "KernelPageSize: 4 kB\nVmFlags: %s\n",
				       start, start + m->pages * 4096, m->how, m->offset * 4096, m->major,
				       m->inode != 0, m->inode, m->name, m->vm_flags);
	}
	SURE(at < sizeof(truth));
	w->sys = (struct ph_sys) {
		.ctx = w,
		.getpid = say_pid,
		.page_size = say_page_size,
		.open = say_open,
		.read = say_read,
		.close = say_close,
		.fstat = say_fstat,
		.fstatfs = say_fstatfs,
		.map_memory = give_memory,
		.unmap_memory = take_memory,
	};
}

/* ---- what it must find ---- */

static const struct mapping *mapping_at(uint64_t addr)
{
	for (size_t i = 0; i < MAPPINGS; i++) {
		uint64_t from = (WORLD_PAGE + mappings[i].from) * 4096;
		if (addr >= from && addr < from + mappings[i].pages * 4096)
			return &mappings[i];
	}
	return NULL;
}

int world_judge(const struct pagehint_region_desc *d, uint64_t bytes, uint32_t *ret_backing, uint32_t *ret_flags)
{
	const struct mapping *first = mapping_at(d->host_addr);
	if (d->fd != NO_FD && (d->fd < WORLD_FDS || d->fd > WORLD_GUEST_FD))
		return -EBADF;
	*ret_flags = 0;
	if (d->host_addr == 0) {
		*ret_backing = PAGEHINT_BACKING_GUEST_MEMFD;
		return d->fd == WORLD_GUEST_FD && d->fd_offset + bytes <= WORLD_GUEST_PAGES * 4096 ? 0 : -EINVAL;
	}
	for (uint64_t i = 0; i < bytes; i += 4096) {
		uint64_t addr = d->host_addr + i;
		const struct mapping *m = mapping_at(addr);
		if (m == NULL || m->inode != first->inode)
			return -EINVAL;
		uint64_t offset = (m->offset - m->from - WORLD_PAGE) * 4096 + addr;
		if (d->fd != NO_FD && (m->fd != d->fd || offset != d->fd_offset + i))
			return -EINVAL;
		*ret_flags |= m->flags;
	}
	*ret_backing = first->backing;
	return 0;
}
