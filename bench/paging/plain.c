/*
 * The handler that most have: one userfaultfd, one page a message, and one thread that reads it, or several.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "place.h"

struct plain {
	struct place *place;
	int uffd;
	unsigned next; /* index of the next reader */
	pthread_mutex_t lock;
};

static int install(struct plain *h, uint64_t addr)
{
	struct place *p = h->place;
	uint64_t page = (addr - (uintptr_t)p->memory) / PAGE;
	uint64_t at = (uintptr_t)p->memory + page * PAGE;
	if (p->shape.memory == MINOR) {
		struct uffdio_continue c = { .range = { at, PAGE } };
		return ioctl(h->uffd, UFFDIO_CONTINUE, &c);
	}
	struct uffdio_copy c = { .dst = at, .src = (uintptr_t)p->snapshot + page * PAGE, .len = PAGE };
	return ioctl(h->uffd, UFFDIO_COPY, &c);
}

static void *read_one_by_one(void *arg)
{
	struct plain *h = arg;
	pthread_mutex_lock(&h->lock);
	unsigned index = h->next++;
	pthread_mutex_unlock(&h->lock);
	pin_to(index % h->place->cpus);
	struct pollfd fds[2] = { { .fd = h->uffd, .events = POLLIN }, { .fd = h->place->stop[0], .events = POLLIN } };
	for (;;) {
		struct uffd_msg m;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (fds[1].revents != 0)
			return NULL;
		if (read(h->uffd, &m, sizeof(m)) != sizeof(m))
			continue; /* another reader was first */
		if (install(h, m.arg.pagefault.address) != 0) {
			struct uffdio_range all = { m.arg.pagefault.address & ~(uint64_t)(PAGE - 1), PAGE };
			if (errno != EEXIST)
				h->place->failed = 1;
			(void)ioctl(h->uffd, UFFDIO_WAKE, &all);
		}
	}
}

static int plain_open(struct place *p)
{
	struct plain *h = calloc(1, sizeof(*h));
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = {
		.range = { (uintptr_t)p->memory, PLACE_BYTES },
		.mode = p->shape.memory == MINOR ? UFFDIO_REGISTER_MODE_MINOR : UFFDIO_REGISTER_MODE_MISSING,
	};
	if (h == NULL)
		return -1;
	if (p->shape.memory == MINOR)
		api.features = UFFD_FEATURE_MINOR_SHMEM;
	h->place = p;
	h->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	p->stop[0] = eventfd(0, EFD_CLOEXEC);
	if (h->uffd < 0 || ioctl(h->uffd, UFFDIO_API, &api) != 0 || ioctl(h->uffd, UFFDIO_REGISTER, &all) != 0)
		return -1;
	pthread_mutex_init(&h->lock, NULL);
	p->way_ctx = h;
	p->readers_n = p->shape.readers == 0 ? 1 : p->shape.readers;
	for (unsigned i = 0; i < p->readers_n; i++)
		if (pthread_create(&p->readers[i], NULL, read_one_by_one, h) != 0)
			return -1;
	return 0;
}

static void plain_close(struct place *p)
{
	struct plain *h = p->way_ctx;
	uint64_t one = 1;
	if (write(p->stop[0], &one, sizeof(one)) != sizeof(one))
		abort();
	for (unsigned i = 0; i < p->readers_n; i++)
		pthread_join(p->readers[i], NULL);
	close(p->stop[0]);
	close(h->uffd);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

const struct way way_plain = { plain_open, plain_close, NULL };
