/*
 * vhost_frontend: a frontend in the test's own process: guest memory in a memfd, rings in it with a driver's end each, and a
 * vhost handle at the other end of a socket pair. Nothing waits: whoever wants an answer steps the handle first.
 *
 * Guest addresses begin at FE_GUEST, the frontend's own (which ring addresses are given in) at FE_USER.
 */
#ifndef TESTS_SUPPORT_VHOST_FRONTEND_H
#define TESTS_SUPPORT_VHOST_FRONTEND_H

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/balloon.h>
#include <pagehint/device_control.h>
#include <pagehint/vhost.h>

#include "vhost/message.h"
#include "vhost/session.h"
#include "vhost/wire.h"
#include "virtio/ring_driver.h"

#define FE_BYTES (UINT64_C(16) << 20)
#define FE_GUEST UINT64_C(0x40000000)
#define FE_USER UINT64_C(0x7f1200000000)
#define FE_SIZE 64u                         /* entries of a ring */
#define FE_DATA (UINT64_C(1) << 20)         /* where memory for buffers begins */
#define FE_RING(i) (UINT64_C(0x8000) * (i)) /* where ring i lies */

#define FE_FEATURES \
	(PAGEHINT_DEVICE_FEATURES_DEFAULT & ~(PAGEHINT_BALLOON_F_PAGE_POISON | PAGEHINT_VIRTIO_F_INDIRECT_DESC))

struct frontend {
	struct pagehint_vhost *vhost;
	struct ph_vhost_wire wire;
	unsigned char *ram;
	int ram_fd;
	int kick[PAGEHINT_BALLOON_Q_COUNT];
	int call[PAGEHINT_BALLOON_Q_COUNT];
	int channel; /* our end of the backend's channel, -1 = none */
	uint64_t now;
	uint64_t deadline;
	uint32_t events;
	struct ph_ring_driver drivers[PAGEHINT_BALLOON_Q_COUNT];
	void *driver_memory[PAGEHINT_BALLOON_Q_COUNT];
};

static inline int fe_open_fds(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* Steps until nothing is due. Returns what the last step did: 0 or -ENODEV. */
static inline int fe_step(struct frontend *f)
{
	for (int i = 0; i < 1000; i++) {
		struct pollfd p = { .fd = pagehint_vhost_fd(f->vhost), .events = POLLIN };
		uint32_t events = 0;
		int r = pagehint_vhost_step(f->vhost, f->now, &f->deadline, &events);
		f->events |= events;
		if (r != 0)
			return r;
		if (f->deadline > f->now && poll(&p, 1, 0) == 0)
			return 0;
	}
	fail_msg("the handle does not come to rest");
	return 0;
}

static inline void fe_connect(struct frontend *f)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pagehint_vhost_attach(f->vhost, pair[1]), 0);
	ph_vhost_wire_init(&f->wire, &ph_sys_real, pair[0]);
}

static inline void fe_open(struct frontend *f, const struct pagehint_vhost_opts *opts)
{
	memset(f, 0, sizeof(*f));
	f->channel = -1;
	f->now = 1000000000;
	f->ram_fd = memfd_create("guest", MFD_CLOEXEC);
	assert_true(f->ram_fd >= 0 && ftruncate(f->ram_fd, (off_t)FE_BYTES) == 0);
	f->ram = mmap(NULL, FE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->ram_fd, 0);
	assert_true(f->ram != MAP_FAILED);
	for (int i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++)
		f->kick[i] = f->call[i] = -1;
	assert_int_equal(pagehint_vhost_new(opts, &f->vhost), 0);
	fe_connect(f);
}

static inline void fe_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static inline void fe_hang_up(struct frontend *f)
{
	ph_vhost_wire_drop(&f->wire);
	close(f->wire.fd);
	for (int i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++) {
		fe_close_fd(&f->kick[i]);
		fe_close_fd(&f->call[i]);
	}
	fe_close_fd(&f->channel);
}

static inline void fe_close(struct frontend *f)
{
	fe_hang_up(f);
	assert_int_equal(pagehint_vhost_free(f->vhost), 0);
	for (int i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++)
		free(f->driver_memory[i]);
	munmap(f->ram, FE_BYTES);
	close(f->ram_fd);
}

/* The process dies; another one, with these options, finds the guest's memory as it is. */
static inline void fe_replace(struct frontend *f, const struct pagehint_vhost_opts *opts)
{
	fe_hang_up(f);
	assert_int_equal(pagehint_vhost_free(f->vhost), 0);
	assert_int_equal(pagehint_vhost_new(opts, &f->vhost), 0);
	fe_connect(f);
}

/* A frontend for one test. */
static inline int fe_set_up(void **state)
{
	struct frontend *f = malloc(sizeof(*f));
	if (f == NULL)
		return -1;
	fe_open(f, NULL);
	*state = f;
	return 0;
}

static inline int fe_tear_down(void **state)
{
	fe_close(*state);
	free(*state);
	return 0;
}

/* ---- messages ---- */

static inline void fe_send_fds(struct frontend *f, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
			       const int *fds, uint32_t n)
{
	assert_int_equal(ph_vhost_wire_send(&f->wire, request, PH_VHOST_VERSION | flags, payload, size, fds, n), 0);
}

static inline void fe_send(struct frontend *f, uint32_t request, const void *payload, uint32_t size, int fd)
{
	fe_send_fds(f, request, 0, payload, size, &fd, fd >= 0);
}

/* Takes an answer to `request`; -EAGAIN: there is none. */
static inline int fe_answer(struct frontend *f, uint32_t request, struct ph_vhost_message *answer)
{
	assert_int_equal(fe_step(f), 0);
	int r = ph_vhost_wire_receive(&f->wire, answer);
	if (r == 0) {
		assert_int_equal(answer->request, request);
		assert_int_equal(answer->flags, PH_VHOST_VERSION | PH_VHOST_REPLY);
	}
	return r;
}

/* Sends with NEED_REPLY. Returns what the answer says: 0 = done. */
static inline uint64_t fe_ask(struct frontend *f, uint32_t request, const void *payload, uint32_t size, int fd)
{
	struct ph_vhost_message answer;
	fe_send_fds(f, request, PH_VHOST_NEED_REPLY, payload, size, &fd, fd >= 0);
	assert_int_equal(fe_answer(f, request, &answer), 0);
	assert_int_equal(answer.size, 8);
	return ph_vhost_u64(&answer);
}

static inline uint64_t fe_ask_u64(struct frontend *f, uint32_t request, uint64_t value, int fd)
{
	return fe_ask(f, request, &value, sizeof(value), fd);
}

static inline uint64_t fe_get_u64(struct frontend *f, uint32_t request)
{
	struct ph_vhost_message answer;
	fe_send(f, request, NULL, 0, -1);
	assert_int_equal(fe_answer(f, request, &answer), 0);
	return ph_vhost_u64(&answer);
}

static inline uint64_t fe_ring_word(struct frontend *f, uint32_t request, uint32_t index, uint32_t num)
{
	const struct ph_vhost_vring_state said = { index, num };
	return fe_ask(f, request, &said, sizeof(said), -1);
}

/* One region, the whole of the memory, unless a test says otherwise. */
static inline struct ph_vhost_region fe_region(void)
{
	return (struct ph_vhost_region) { .guest = FE_GUEST, .size = FE_BYTES, .user = FE_USER };
}

static inline uint64_t fe_table(struct frontend *f, const struct ph_vhost_region *regions, uint32_t n, const int *fds)
{
	struct ph_vhost_message answer;
	unsigned char payload[8 + PH_VHOST_FDS * sizeof(*regions)];
	memset(payload, 0, 8);
	memcpy(payload, &n, sizeof(n));
	memcpy(payload + 8, regions, n * sizeof(*regions));
	fe_send_fds(f, PH_VHOST_SET_MEM_TABLE, PH_VHOST_NEED_REPLY, payload, 8 + n * (uint32_t)sizeof(*regions), fds,
		    n);
	assert_int_equal(fe_answer(f, PH_VHOST_SET_MEM_TABLE, &answer), 0);
	return ph_vhost_u64(&answer);
}

static inline void fe_share_memory(struct frontend *f)
{
	const struct ph_vhost_region region = fe_region();
	assert_int_equal(fe_table(f, &region, 1, &f->ram_fd), 0);
}

/* Everything but the rings. */
static inline void fe_greet(struct frontend *f, uint64_t features)
{
	int pair[2];
	assert_true(fe_get_u64(f, PH_VHOST_GET_FEATURES) & PH_VHOST_F_PROTOCOL);
	uint64_t protocol = fe_get_u64(f, PH_VHOST_GET_PROTOCOL_FEATURES);
	assert_true(protocol & PH_VHOST_P(REPLY_ACK));
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_PROTOCOL_FEATURES, protocol, -1), 0);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_OWNER, NULL, 0, -1), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_BACKEND_REQ_FD, NULL, 0, pair[1]), 0);
	close(pair[1]);
	f->channel = pair[0];
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_FEATURES, features | PH_VHOST_F_PROTOCOL, -1), 0);
}

/* ---- rings ---- */

static inline struct ph_ring_place fe_place(const struct frontend *f, uint32_t i)
{
	unsigned char *at = f->ram + FE_RING(i);
	return (struct ph_ring_place) { .desc = at,
					.driver = at + 0x4000,
					.device = at + 0x5000,
					.desc_bytes = 0x4000,
					.driver_bytes = 0x1000,
					.device_bytes = 0x1000 };
}

static inline struct ph_vhost_vring_addr fe_addr(uint32_t i)
{
	return (struct ph_vhost_vring_addr) { .index = i,
					      .desc = FE_USER + FE_RING(i),
					      .avail = FE_USER + FE_RING(i) + 0x4000,
					      .used = FE_USER + FE_RING(i) + 0x5000 };
}

/* A driver with an empty ring. */
static inline void fe_driver(struct frontend *f, uint32_t i)
{
	const struct ph_ring_driver_setup setup = { .place = fe_place(f, i),
						    .form = PH_RING_EVENT_IDX,
						    .size = FE_SIZE };
	free(f->driver_memory[i]);
	f->driver_memory[i] = malloc(ph_ring_driver_memory(FE_SIZE, 0));
	assert_non_null(f->driver_memory[i]);
	assert_int_equal(ph_ring_driver_init(&f->drivers[i], &setup, f->driver_memory[i]), 0);
}

/* Tells the device of a ring, whatever is in it. Kick and call are eventfds. */
static inline void fe_tell_ring(struct frontend *f, uint32_t i)
{
	const struct ph_vhost_vring_addr addr = fe_addr(i);
	fe_close_fd(&f->kick[i]);
	fe_close_fd(&f->call[i]);
	f->kick[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->call[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_NUM, i, FE_SIZE), 0);
	assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_BASE, i, 0), 0);
	assert_int_equal(fe_ask(f, PH_VHOST_SET_VRING_ADDR, &addr, sizeof(addr), -1), 0);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_CALL, i, f->call[i]), 0);
	assert_int_equal(fe_ask_u64(f, PH_VHOST_SET_VRING_KICK, i, f->kick[i]), 0);
	assert_int_equal(fe_ring_word(f, PH_VHOST_SET_VRING_ENABLE, i, 1), 0);
}

static inline void fe_rings(struct frontend *f)
{
	for (uint32_t i = 0; i < PAGEHINT_BALLOON_Q_COUNT; i++) {
		fe_driver(f, i);
		fe_tell_ring(f, i);
	}
}

static inline void fe_start(struct frontend *f, uint64_t features)
{
	fe_greet(f, features);
	fe_share_memory(f);
	fe_rings(f);
}

static inline void fe_kick(struct frontend *f, uint32_t i)
{
	const uint64_t one = 1;
	assert_int_equal(write(f->kick[i], &one, sizeof(one)), sizeof(one));
}

/* Makes a buffer available; the device is not told yet. */
static inline void fe_submit(struct frontend *f, uint32_t i, uint64_t guest, uint32_t bytes, int writable,
			     uint64_t cookie)
{
	const struct ph_ring_buffer buffer = { .addr = guest, .len = bytes };
	assert_int_equal(ph_ring_driver_submit(&f->drivers[i], &buffer, !writable, (uint32_t)writable, cookie), 0);
	(void)ph_ring_driver_publish(&f->drivers[i]);
}

/* How many requests came back from a queue. */
static inline uint32_t fe_reap(struct frontend *f, uint32_t i)
{
	uint64_t cookie;
	uint32_t bytes, n = 0;
	while (ph_ring_driver_reap(&f->drivers[i], &cookie, &bytes) == 0)
		n++;
	(void)ph_ring_driver_arm(&f->drivers[i]);
	return n;
}

/* One request from beginning to end. */
static inline void fe_do(struct frontend *f, uint32_t i, uint64_t guest, uint32_t bytes, int writable, uint64_t cookie)
{
	fe_submit(f, i, guest, bytes, writable, cookie);
	fe_kick(f, i);
	assert_int_equal(fe_step(f), 0);
	assert_int_equal(fe_reap(f, i), 1);
}

/* Interrupts of a queue since the last look. */
static inline uint64_t fe_interrupts(struct frontend *f, uint32_t i)
{
	uint64_t n = 0;
	return read(f->call[i], &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* What the host holds of the memory. */
static inline uint64_t fe_held(const struct frontend *f)
{
	struct stat st;
	assert_int_equal(fstat(f->ram_fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static inline struct pagehint_vhost_stats fe_stats(const struct frontend *f)
{
	struct pagehint_vhost_stats stats = { .struct_size = sizeof(stats) };
	assert_int_equal(pagehint_vhost_stats(f->vhost, &stats), 0);
	return stats;
}

#endif
