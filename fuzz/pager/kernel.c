#include "kernel.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>

#define FD 100

uint64_t kernel_source(uint64_t page)
{
	return page % 8 == 7 ? 0 : 1000 + page;
}

int kernel_is_region(uint64_t page)
{
	return page < KERNEL_FIRST || (page >= KERNEL_FIRST + KERNEL_GAP && page < KERNEL_PAGES);
}

/* ---- threads and events ---- */

static void put_event(struct kernel *k, uint32_t fd, const void *message, uint64_t first, uint64_t end)
{
	struct kernel_event *e = &k->events[fd][k->tail[fd] % KERNEL_EVENTS];
	SURE(k->tail[fd] - k->head[fd] < KERNEL_EVENTS);
	k->tail[fd]++;
	memcpy(e->bytes, message, sizeof(e->bytes));
	e->first = first;
	e->end = end;
}

static int has_room(const struct kernel *k, uint32_t fd, uint32_t n)
{
	return KERNEL_EVENTS - (k->tail[fd] - k->head[fd]) > n;
}

static int is_content(const struct kernel_page *p)
{
	return p->poisoned || p->unmapped || (p->here && !(p->protected && (p->waits & 2) != 0));
}

/* The page is looked at once more by who waits: it is there, or a message says that it is not. */
static void fault(struct kernel *k, uint64_t page)
{
	struct kernel_page *p = &k->pages[page];
	struct uffd_msg m = { .event = UFFD_EVENT_PAGEFAULT };
	if (p->waits == 0 || p->fd == 0 || is_content(p)) {
		p->waits = 0;
		return;
	}
	if (p->queued || !has_room(k, p->fd - 1, KERNEL_PAGES / 2))
		return;
	p->queued = 1;
	m.arg.pagefault.address = KERNEL_BASE + page * 4096;
	m.arg.pagefault.flags = (p->waits & 2) != 0 ? UFFD_PAGEFAULT_FLAG_WRITE : 0;
	if (p->here)
		m.arg.pagefault.flags |= UFFD_PAGEFAULT_FLAG_WP;
	put_event(k, p->fd - 1, &m, page, page + 1);
}

static void wake(struct kernel *k, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end && i < KERNEL_PAGES; i++)
		if (!k->pages[i].queued) /* who has not been read of cannot be woken */
			fault(k, i);
}

void kernel_touch(struct kernel *k, uint64_t page, int write)
{
	struct kernel_page *p = &k->pages[page];
	if (!kernel_is_region(page) || p->unmapped || !has_room(k, 0, KERNEL_PAGES / 2) ||
	    !has_room(k, 1, KERNEL_PAGES / 2))
		return;
	p->waits |= write ? 2 : 1;
	if (!p->queued)
		fault(k, page);
}

void kernel_take_away(struct kernel *k, uint64_t first, uint64_t pages, int unmap)
{
	struct uffd_msg m = { .event = unmap ? UFFD_EVENT_UNMAP : UFFD_EVENT_REMOVE };
	uint64_t end = first + pages;
	if (end > KERNEL_PAGES || !has_room(k, 0, 2) || k->pages[first].fd == 0)
		return;
	for (uint64_t i = first; i < end; i++)
		if (!kernel_is_region(i) || k->pages[i].fd != k->pages[first].fd || k->pages[i].unmapped)
			return;
	m.arg.remove.start = KERNEL_BASE + first * 4096;
	m.arg.remove.end = KERNEL_BASE + end * 4096;
	for (uint64_t i = first; i < end; i++)
		k->pages[i].unmapped |= unmap;
	put_event(k, k->pages[first].fd - 1, &m, first, end);
	k->changing++;
}

void kernel_drop(struct kernel *k, uint64_t first, uint64_t pages)
{
	for (uint64_t i = first; i < first + pages; i++) {
		SURE(i < KERNEL_PAGES);
		k->pages[i].here = k->pages[i].protected = k->pages[i].poisoned = 0;
		k->pages[i].removed = 1;
	}
}

void kernel_forge(struct kernel *k, uint32_t fd, const unsigned char bytes[32])
{
	struct uffd_msg m;
	memcpy(&m, bytes, sizeof(m));
	if (!has_room(k, fd, 2))
		return;
	if (m.event == UFFD_EVENT_REMOVE || m.event == UFFD_EVENT_UNMAP)
		for (uint64_t i = 0; i < KERNEL_PAGES; i++) {
			uint64_t addr = KERNEL_BASE + i * 4096;
			k->pages[i].anything |= m.arg.remove.start < addr + 4096 && m.arg.remove.end > addr;
		}
	put_event(k, fd, bytes, 0, 0);
}

uint32_t kernel_waiting(const struct kernel *k)
{
	uint32_t n = 0;
	for (uint64_t i = 0; i < KERNEL_PAGES; i++)
		n += k->pages[i].waits != 0 && !is_content(&k->pages[i]);
	return n;
}

static int64_t say_read(void *ctx, int fd, void *buffer, size_t length)
{
	struct kernel *k = ctx;
	uint32_t at = (uint32_t)(fd - FD), n = 0, removals = 0;
	SURE(at < 2 && length % sizeof(struct uffd_msg) == 0);
	if (k->interrupt != 0) {
		k->interrupt--;
		return -EINTR;
	}
	for (; n < length / sizeof(struct uffd_msg) && k->head[at] != k->tail[at]; n++) {
		struct kernel_event *e = &k->events[at][k->head[at]++ % KERNEL_EVENTS];
		uint8_t event = e->bytes[0];
		memcpy((unsigned char *)buffer + n * sizeof(e->bytes), e->bytes, sizeof(e->bytes));
		if (e->end == 0)
			continue;
		if (event == UFFD_EVENT_PAGEFAULT) {
			k->pages[e->first].queued = 0;
		} else {
			removals++;
			kernel_drop(k, e->first, e->end - e->first);
		}
	}
	k->changing -= removals;
	if (n == 0)
		return -EAGAIN;
	int64_t r = (int64_t)(n * sizeof(struct uffd_msg));
	if (n < length / sizeof(struct uffd_msg)) {
		r += k->odd_bytes % sizeof(struct uffd_msg);
		k->odd_bytes = 0;
	}
	return r;
}

static int say_poll_in(void *ctx, int fd)
{
	struct kernel *k = ctx;
	return k->head[fd - FD] != k->tail[fd - FD];
}

/* ---- installing ---- */

static void judge(const struct kernel_page *p, uint64_t page, uint64_t content)
{
	uint64_t wanted = kernel_source(page);
	if (p->anything || (content == wanted && !p->removed))
		return;
	if (content != 0 || !(p->removed || p->may_be_zero))
		fprintf(stderr, "page %llu: content %llu (removed %u)\n", (unsigned long long)page,
			(unsigned long long)content, p->removed);
	SURE(content == 0 && (p->removed || p->may_be_zero));
}

/* What is common to all ways in: pages [dst, dst + len) one after the other, until one cannot be. `from`: NULL = zeros */
static int64_t install(struct kernel *k, int fd, uint64_t dst, uint64_t len, unsigned char *from, int protect,
		       int awake, int64_t *ret_done)
{
	uint64_t first = (dst - KERNEL_BASE) / 4096, n = len / 4096, i;
	int64_t r = 0;
	SURE(dst % 4096 == 0 && len % 4096 == 0 && n != 0 && dst >= KERNEL_BASE && first + n <= KERNEL_PAGES);
	for (i = 0; i < n && r == 0; i++) {
		struct kernel_page *p = &k->pages[first + i];
		uint64_t content = 0;
		SURE(p->fd == fd - FD + 1); /* never by a descriptor that does not serve it */
		if (k->fail_times != 0 && k->fail_after-- == 0) {
			k->fail_times--;
			k->fail_after = 0;
			r = k->fail_error;
			break;
		}
		r = k->changing != 0 ? -EAGAIN : p->unmapped ? -ENOENT : p->here || p->poisoned ? -EEXIST : 0;
		if (r != 0)
			break;
		if (from != NULL)
			memcpy(&content, from + i * 4096, sizeof(content));
		judge(p, first + i, content);
		p->content = content;
		p->here = 1;
		p->protected = (uint8_t)protect;
	}
	*ret_done = i != 0 ? (int64_t)(i * 4096) : r;
	if (awake)
		wake(k, first, first + i);
	return i == n ? 0 : i != 0 ? -EAGAIN : r;
}

struct move {
	uint64_t dst, src, len, mode;
	int64_t moved;
};

static int64_t move(struct kernel *k, int fd, struct move *m)
{
	int64_t r =
		install(k, fd, m->dst, m->len, (unsigned char *)(uintptr_t)m->src, 0, (m->mode & 1) == 0, &m->moved);
	for (int64_t i = 0; i < m->moved; i += 4096) /* it has left */
		memset((unsigned char *)(uintptr_t)m->src + i, 0, 8);
	return r;
}

struct poison {
	struct uffdio_range range;
	uint64_t mode;
	int64_t updated;
};

static int64_t poison(struct kernel *k, struct poison *m)
{
	uint64_t first = (m->range.start - KERNEL_BASE) / 4096, n = m->range.len / 4096, i = 0;
	int r = 0;
	for (; i < n && r == 0; i++) {
		struct kernel_page *p = &k->pages[first + i];
		SURE(first + i < KERNEL_PAGES && p->fd != 0);
		r = k->changing != 0 ? -EAGAIN : p->unmapped ? -ENOENT : p->here || p->poisoned ? -EEXIST : 0;
		if (r != 0)
			break;
		SURE(p->may_be_lost || p->anything);
		p->poisoned = 1;
	}
	m->updated = i != 0 ? (int64_t)(i * 4096) : r;
	if ((m->mode & 1) == 0)
		wake(k, first, first + i);
	return i == n ? 0 : i != 0 ? -EAGAIN : r;
}

static int64_t protect(struct kernel *k, struct uffdio_writeprotect *w)
{
	uint64_t first = (w->range.start - KERNEL_BASE) / 4096, n = w->range.len / 4096;
	int on = (w->mode & UFFDIO_WRITEPROTECT_MODE_WP) != 0;
	SURE(first + n <= KERNEL_PAGES);
	if (k->changing != 0)
		return -EAGAIN;
	for (uint64_t i = first; i < first + n; i++)
		k->pages[i].protected = k->pages[i].here && on;
	if (!on && (w->mode & UFFDIO_WRITEPROTECT_MODE_DONTWAKE) == 0)
		wake(k, first, first + n);
	return 0;
}

static int64_t enroll(struct kernel *k, int fd, struct uffdio_register *all)
{
	uint64_t first = (all->range.start - KERNEL_BASE) / 4096, n = all->range.len / 4096;
	SURE(first + n <= KERNEL_PAGES && fd >= FD && fd < FD + 2);
	for (uint64_t i = first; i < first + n; i++)
		k->pages[i].fd = (uint8_t)(fd - FD + 1);
	all->ioctls = 1 << _UFFDIO_COPY | 1 << _UFFDIO_ZEROPAGE | 1 << _UFFDIO_WRITEPROTECT | 1 << 0x05 | 1 << 0x08;
	return 0;
}

static int64_t say_ioctl(void *ctx, int fd, unsigned long request, void *arg)
{
	struct kernel *k = ctx;
	struct uffdio_copy *c = arg;
	struct uffdio_zeropage *z = arg;
	struct uffdio_range *range = arg;
	switch (request & 0xff) {
	case _UFFDIO_API:
		((struct uffdio_api *)arg)->features = ~UINT64_C(0);
		return 0;
	case _UFFDIO_REGISTER:
		return enroll(k, fd, arg);
	case _UFFDIO_UNREGISTER:
		return 0;
	case _UFFDIO_WAKE:
		wake(k, (range->start - KERNEL_BASE) / 4096, (range->start + range->len - KERNEL_BASE) / 4096);
		return 0;
	case _UFFDIO_COPY:
		return install(k, fd, c->dst, c->len, (unsigned char *)(uintptr_t)c->src,
			       (c->mode & UFFDIO_COPY_MODE_WP) != 0, (c->mode & UFFDIO_COPY_MODE_DONTWAKE) == 0,
			       (int64_t *)&c->copy);
	case _UFFDIO_ZEROPAGE:
		return install(k, fd, z->range.start, z->range.len, NULL, 0,
			       (z->mode & UFFDIO_ZEROPAGE_MODE_DONTWAKE) == 0, (int64_t *)&z->zeropage);
	case 0x05:
		return move(k, fd, arg);
	case _UFFDIO_WRITEPROTECT:
		return protect(k, arg);
	default:
		SURE((request & 0xff) == 0x08);
		return poison(k, arg);
	}
}

/* ---- the rest ---- */

static int open_one(void *ctx, int flags)
{
	(void)flags;
	return FD + (int)((struct kernel *)ctx)->open_fds++;
}

static int say_close(void *ctx, int fd)
{
	struct kernel *k = ctx;
	SURE(fd >= FD && k->open_fds != 0);
	k->open_fds--;
	return 0;
}

static int64_t say_pid(void *ctx)
{
	(void)ctx;
	return 7;
}

static int64_t say_time(void *ctx)
{
	(void)ctx;
	return 0;
}

static int say_madvise(void *ctx, void *addr, size_t length, int advice)
{
	(void)ctx;
	(void)addr;
	(void)length;
	(void)advice;
	return 0;
}

static void *give_memory(void *ctx, size_t length)
{
	void *p = ph_sys_real.map_memory(NULL, length);
	((struct kernel *)ctx)->mapped += p != NULL;
	return p;
}

static void take_memory(void *ctx, void *addr, size_t length)
{
	((struct kernel *)ctx)->mapped--;
	ph_sys_real.unmap_memory(NULL, addr, length);
}

void kernel_open(struct kernel *k)
{
	memset(k->pages, 0, sizeof(*k) - offsetof(struct kernel, pages));
	k->sys = (struct ph_sys) {
		.ctx = k,
		.getpid = say_pid,
		.clock_ns = say_time,
		.madvise = say_madvise,
		.userfaultfd = open_one,
		.close = say_close,
		.ioctl = say_ioctl,
		.read = say_read,
		.poll_in = say_poll_in,
		.map_memory = give_memory,
		.unmap_memory = take_memory,
	};
}
