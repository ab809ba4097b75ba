#include "memory/detect.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/bits.h"
#include "memory/smaps.h"
#include "memory/thp.h"

/* file systems, as fstatfs names them */
#define MAGIC_TMPFS 0x01021994u
#define MAGIC_ANON_INODE 0x09041934u
#define MAGIC_GUEST_MEMFD 0x474d454du
#define MAGIC_BTRFS 0x9123683eu
#define MAGIC_OVERLAY 0x794c7630u

struct file {
	struct stat st;
	uint32_t magic;
	int present;
};

static int look_at_fd(const struct ph_sys *sys, int fd, struct file *f)
{
	struct statfs fs;
	memset(f, 0, sizeof(*f));
	if (fd < 0)
		return 0;
	int r = sys->fstat(sys->ctx, fd, &f->st);
	if (r == 0)
		r = sys->fstatfs(sys->ctx, fd, &fs);
	if (r != 0)
		return r;
	f->magic = (uint32_t)fs.f_type;
	f->present = 1;
	return 0;
}

/* Older kernels keep guest_memfd among the anonymous inodes, where nothing else is a regular file with a size. */
static int is_guest_memfd(const struct file *f)
{
	if (!f->present || !S_ISREG(f->st.st_mode))
		return 0;
	return f->magic == MAGIC_GUEST_MEMFD || (f->magic == MAGIC_ANON_INODE && f->st.st_size > 0);
}

static uint32_t backing_of(const struct ph_mapping *m, const struct file *f)
{
	if ((m->flags & PH_MAPPING_IO) != 0)
		return PAGEHINT_BACKING_DEVICE;
	if ((m->flags & PH_MAPPING_SHARED) != 0) {
		if ((m->flags & PH_MAPPING_HUGETLB) != 0)
			return PAGEHINT_BACKING_HUGETLB;
		if (is_guest_memfd(f))
			return PAGEHINT_BACKING_GUEST_MEMFD;
		if (f->present ? f->magic == MAGIC_TMPFS : m->name == PH_NAME_SHMEM)
			return PAGEHINT_BACKING_SHARED;
		return PAGEHINT_BACKING_DEVICE;
	}
	if ((m->flags & PH_MAPPING_HUGETLB) != 0)
		return PAGEHINT_BACKING_DEVICE;
	if (m->inode == 0)
		return m->name == PH_NAME_ANON ? PAGEHINT_BACKING_ANON : PAGEHINT_BACKING_DEVICE;
	if (f->present && !S_ISREG(f->st.st_mode))
		return PAGEHINT_BACKING_DEVICE;
	return m->name == PH_NAME_FILE || m->name == PH_NAME_SHMEM ? PAGEHINT_BACKING_FILE_PRIVATE
								   : PAGEHINT_BACKING_DEVICE;
}

/* The fd must be the file of the mapping. Two file systems show another device number in /proc than in fstat: there the
 * inode must do, and only for private mappings, whose fd is never punched. */
static int same_file(const struct ph_mapping *m, const struct file *f)
{
	if (m->inode == 0 || m->inode != (uint64_t)f->st.st_ino)
		return 0;
	if (major(f->st.st_dev) == m->major && minor(f->st.st_dev) == m->minor)
		return 1;
	return (m->flags & PH_MAPPING_SHARED) == 0 && (f->magic == MAGIC_BTRFS || f->magic == MAGIC_OVERLAY);
}

static int check_file(const struct ph_mapping *m, const struct file *f, const struct pagehint_region_desc *desc,
		      uint64_t at)
{
	if (!f->present)
		return 0;
	uint64_t wanted = desc->fd_offset + (at - desc->host_addr);
	return same_file(m, f) && m->offset + (at - m->start) == wanted ? 0 : -EINVAL;
}

static int same_kind(const struct ph_mapping *a, const struct ph_mapping *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor && a->page_bytes == b->page_bytes &&
	       (a->inode == 0 || b->offset - a->offset == b->start - a->start);
}

/* Adds mapping m, which covers the range from `at` on, to what is known. */
static int take_mapping(const struct ph_sys *sys, const struct pagehint_region_desc *desc, const struct file *f,
			uint64_t at, const struct ph_mapping *m, const struct ph_mapping *first, struct ph_detected *d)
{
	uint32_t backing = backing_of(m, f);
	int r = check_file(m, f, desc, at);
	if (r < 0)
		return r;
	if (first != NULL && (backing != d->backing || !same_kind(first, m)))
		return -EINVAL;
	d->backing = backing;
	d->host_page_bytes = m->page_bytes > d->host_page_bytes ? m->page_bytes : d->host_page_bytes;
	if ((m->flags & PH_MAPPING_LOCKED) != 0)
		d->flags |= PAGEHINT_REGION_LOCKED;
	if ((m->flags & PH_MAPPING_UFFD) != 0)
		d->flags |= PAGEHINT_REGION_UFFD;
	if (backing != PAGEHINT_BACKING_ANON && backing != PAGEHINT_BACKING_SHARED)
		return 0;
	r = ph_thp_possible(sys, m);
	if (r > 0)
		d->flags |= PAGEHINT_REGION_THP;
	return r < 0 ? r : 0;
}

static int walk(const struct ph_sys *sys, struct ph_smaps *smaps, const struct pagehint_region_desc *desc,
		const struct file *f, uint64_t bytes, struct ph_detected *d)
{
	struct ph_mapping m, first;
	uint64_t at = desc->host_addr, end = desc->host_addr + bytes;
	const struct ph_mapping *known = NULL;
	while (at < end) {
		int r = ph_smaps_next(smaps, &m);
		if (r < 0)
			return r;
		if (r == 0 || m.start > at)
			return -EINVAL; /* a hole */
		if (m.end <= at)
			continue;
		r = take_mapping(sys, desc, f, at, &m, known, d);
		if (r < 0)
			return r;
		if (known == NULL) {
			first = m;
			known = &first;
		}
		at = m.end;
	}
	return 0;
}

static int detect_mapped(const struct ph_sys *sys, const struct pagehint_region_desc *desc, const struct file *f,
			 uint64_t bytes, struct ph_detected *d)
{
	struct ph_smaps smaps;
	int r = ph_smaps_open(&smaps, sys);
	if (r < 0)
		return r;
	r = walk(sys, &smaps, desc, f, bytes, d);
	ph_smaps_close(&smaps);
	if (r == 0 && d->backing == PAGEHINT_BACKING_HUGETLB && !f->present)
		return -EINVAL;
	return r;
}

int ph_detect(const struct ph_sys *sys, const struct pagehint_region_desc *desc, uint64_t bytes, uint64_t page_bytes,
	      struct ph_detected *ret_detected)
{
	struct ph_detected d = { .host_page_bytes = page_bytes, .backing = PAGEHINT_BACKING_GUEST_MEMFD };
	struct file f;
	int r = look_at_fd(sys, desc->fd, &f);
	if (r < 0)
		return r;
	if (desc->host_addr != 0) {
		r = detect_mapped(sys, desc, &f, bytes, &d);
		if (r < 0)
			return r;
	} else if (!is_guest_memfd(&f)) {
		return -EINVAL;
	}
	if (d.backing == PAGEHINT_BACKING_GUEST_MEMFD && (uint64_t)f.st.st_size < desc->fd_offset + bytes)
		return -EINVAL;
	if (desc->backing != PAGEHINT_BACKING_AUTO && desc->backing != d.backing)
		return -EINVAL;
	d.least_bytes = d.host_page_bytes;
	if ((d.flags & PAGEHINT_REGION_THP) != 0 && d.least_bytes < PH_THP_BYTES)
		d.least_bytes = PH_THP_BYTES;
	*ret_detected = d;
	return 0;
}
