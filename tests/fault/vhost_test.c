/* Every system call of a vhost-user session fails once: nothing leaks, nothing is discarded that was not reported. */
#include "support/vhost_frontend.h"

#define MIB (UINT64_C(1) << 20)
#define REPORT 4u

/* The real system, whose k-th call fails. */
struct faulty {
	uint64_t calls, fail_at; /* 0 = none */
	int mapped;
};

static int fails(void *ctx)
{
	struct faulty *f = ctx;
	return ++f->calls == f->fail_at;
}

#define REAL (&ph_sys_real)

static int64_t f_getpid(void *ctx)
{
	(void)ctx;
	return REAL->getpid(NULL);
}

static int64_t f_clock(void *ctx)
{
	(void)ctx;
	return REAL->clock_ns(NULL);
}

static int f_madvise(void *ctx, void *addr, size_t length, int advice)
{
	return fails(ctx) ? -EIO : REAL->madvise(NULL, addr, length, advice);
}

static int64_t f_process_madvise(void *ctx, int pidfd, const struct iovec *iov, size_t n, int advice)
{
	return fails(ctx) ? -EIO : REAL->process_madvise(NULL, pidfd, iov, n, advice);
}

static int f_pidfd_open(void *ctx, int64_t pid)
{
	return fails(ctx) ? -EIO : REAL->pidfd_open(NULL, pid);
}

static int f_mincore(void *ctx, void *addr, size_t length, unsigned char *in_core)
{
	return fails(ctx) ? -EIO : REAL->mincore(NULL, addr, length, in_core);
}

static int f_fallocate(void *ctx, int fd, int mode, uint64_t offset, uint64_t length)
{
	return fails(ctx) ? -EIO : REAL->fallocate(NULL, fd, mode, offset, length);
}

static int f_open(void *ctx, const char *path, int flags)
{
	return fails(ctx) ? -EIO : REAL->open(NULL, path, flags);
}

static int64_t f_read(void *ctx, int fd, void *buffer, size_t length)
{
	return fails(ctx) ? -EIO : REAL->read(NULL, fd, buffer, length);
}

static int64_t f_pread(void *ctx, int fd, void *buffer, size_t length, uint64_t offset)
{
	return fails(ctx) ? -EIO : REAL->pread(NULL, fd, buffer, length, offset);
}

static int64_t f_lseek(void *ctx, int fd, int64_t offset, int whence)
{
	return fails(ctx) ? -EIO : REAL->lseek(NULL, fd, offset, whence);
}

/* A close that fails has closed all the same, as on Linux. */
static int f_close(void *ctx, int fd)
{
	int r = REAL->close(NULL, fd);
	return fails(ctx) ? -EIO : r;
}

static int f_fstat(void *ctx, int fd, struct stat *st)
{
	return fails(ctx) ? -EIO : REAL->fstat(NULL, fd, st);
}

static int f_fstatfs(void *ctx, int fd, struct statfs *st)
{
	return fails(ctx) ? -EIO : REAL->fstatfs(NULL, fd, st);
}

static int64_t f_page_size(void *ctx)
{
	return fails(ctx) ? -EIO : REAL->page_size(NULL);
}

static void *f_map_memory(void *ctx, size_t length)
{
	struct faulty *f = ctx;
	void *at = fails(f) ? NULL : REAL->map_memory(NULL, length);
	f->mapped += at != NULL;
	return at;
}

static void f_unmap_memory(void *ctx, void *addr, size_t length)
{
	struct faulty *f = ctx;
	f->mapped--;
	REAL->unmap_memory(NULL, addr, length);
}

static int f_map_shared(void *ctx, int fd, size_t length, uint64_t offset, void **ret_addr)
{
	struct faulty *f = ctx;
	int r = fails(f) ? -ENOMEM : REAL->map_shared(NULL, fd, length, offset, ret_addr);
	f->mapped += r == 0;
	return r;
}

static int f_memfd(void *ctx, const char *name, uint64_t length)
{
	return fails(ctx) ? -EMFILE : REAL->memfd(NULL, name, length);
}

static int64_t f_receive(void *ctx, int fd, void *buffer, size_t length, int *fds, uint32_t max_fds, uint32_t *ret_fds)
{
	return fails(ctx) ? -EIO : REAL->receive(NULL, fd, buffer, length, fds, max_fds, ret_fds);
}

static int64_t f_send(void *ctx, int fd, const void *buffer, size_t length, const int *fds, uint32_t n)
{
	return fails(ctx) ? -EIO : REAL->send(NULL, fd, buffer, length, fds, n);
}

static int f_nonblock(void *ctx, int fd)
{
	return fails(ctx) ? -EIO : REAL->nonblock(NULL, fd);
}

static int64_t f_write(void *ctx, int fd, const void *buffer, size_t length)
{
	return fails(ctx) ? -EIO : REAL->write(NULL, fd, buffer, length);
}

static int f_epoll_new(void *ctx)
{
	return fails(ctx) ? -EMFILE : REAL->epoll_new(NULL);
}

static int f_epoll_set(void *ctx, int epoll, int op, int fd, uint32_t events, uint64_t data)
{
	return fails(ctx) ? -ENOMEM : REAL->epoll_set(NULL, epoll, op, fd, events, data);
}

static int f_epoll_look(void *ctx, int epoll, struct epoll_event *events, int max)
{
	return fails(ctx) ? -EIO : REAL->epoll_look(NULL, epoll, events, max);
}

static struct ph_sys faulty_sys(struct faulty *f)
{
	struct ph_sys sys = *REAL;
	sys.ctx = f;
	sys.getpid = f_getpid;
	sys.clock_ns = f_clock;
	sys.madvise = f_madvise;
	sys.process_madvise = f_process_madvise;
	sys.pidfd_open = f_pidfd_open;
	sys.mincore = f_mincore;
	sys.fallocate = f_fallocate;
	sys.open = f_open;
	sys.read = f_read;
	sys.pread = f_pread;
	sys.lseek = f_lseek;
	sys.close = f_close;
	sys.fstat = f_fstat;
	sys.fstatfs = f_fstatfs;
	sys.page_size = f_page_size;
	sys.map_memory = f_map_memory;
	sys.unmap_memory = f_unmap_memory;
	sys.map_shared = f_map_shared;
	sys.memfd = f_memfd;
	sys.receive = f_receive;
	sys.send = f_send;
	sys.nonblock = f_nonblock;
	sys.write = f_write;
	sys.epoll_new = f_epoll_new;
	sys.epoll_set = f_epoll_set;
	sys.epoll_look = f_epoll_look;
	return sys;
}

/* Steps a few times. Returns 0; -ENODEV it hung up; any other error is passed over: the next step goes on. */
static int go_on(struct frontend *f)
{
	unsigned char sink[2048];
	uint64_t deadline;
	for (int i = 0; i < 6; i++)
		if (pagehint_vhost_step(f->vhost, f->now, &deadline, NULL) == -ENODEV)
			return -ENODEV;
	while (recv(f->wire.fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
	return 0;
}

static int say(struct frontend *f, uint32_t request, const void *payload, uint32_t size, int fd)
{
	if (ph_vhost_wire_send(&f->wire, request, PH_VHOST_VERSION | PH_VHOST_NEED_REPLY, payload, size, &fd,
			       fd >= 0) != 0)
		return -ENODEV;
	return go_on(f);
}

static int say_ring(struct frontend *f, uint32_t request, uint32_t num)
{
	const struct ph_vhost_vring_state said = { REPORT, num };
	return say(f, request, &said, sizeof(said), -1);
}

/* As far as it goes: a session in which one ring reports. */
static void whole_session(struct frontend *f)
{
	const uint64_t features = FE_FEATURES, index = REPORT, acks = PH_VHOST_P(REPLY_ACK) | PH_VHOST_P(INFLIGHT);
	const struct ph_vhost_inflight_said inflight = { .queues = 5, .queue_size = FE_SIZE };
	const struct ph_vhost_vring_addr addr = fe_addr(REPORT);
	struct {
		uint32_t n, padding;
		struct ph_vhost_region region;
	} table = { 1, 0, fe_region() };
	if (say(f, PH_VHOST_SET_PROTOCOL_FEATURES, &acks, 8, -1) != 0 ||
	    say(f, PH_VHOST_SET_FEATURES, &features, 8, -1) != 0 ||
	    say(f, PH_VHOST_GET_INFLIGHT_FD, &inflight, sizeof(inflight), -1) != 0 ||
	    say(f, PH_VHOST_SET_MEM_TABLE, &table, sizeof(table), f->ram_fd) != 0 ||
	    say_ring(f, PH_VHOST_SET_VRING_NUM, FE_SIZE) != 0 || say_ring(f, PH_VHOST_SET_VRING_BASE, 0) != 0 ||
	    say(f, PH_VHOST_SET_VRING_ADDR, &addr, sizeof(addr), -1) != 0 ||
	    say(f, PH_VHOST_SET_VRING_CALL, &index, 8, f->call[REPORT]) != 0 ||
	    say(f, PH_VHOST_SET_VRING_KICK, &index, 8, f->kick[REPORT]) != 0)
		return;
	fe_submit(f, REPORT, FE_GUEST + FE_DATA, MIB, 1, 1);
	fe_kick(f, REPORT);
	if (go_on(f) == 0)
		(void)say_ring(f, PH_VHOST_GET_VRING_BASE, 0);
}

/* Everything but what was reported is as it was; whether that went depends on what failed. */
static void check_memory(const struct frontend *f)
{
	for (uint64_t i = FE_DATA; i < FE_BYTES; i += 64)
		if (i < FE_DATA || i >= FE_DATA + MIB)
			assert_int_equal(f->ram[i], 0x5a);
}

/* Returns how many calls there were. */
static uint64_t with_fault(struct frontend *f, uint64_t fail_at)
{
	struct faulty faulty = { .fail_at = fail_at };
	const struct ph_sys sys = faulty_sys(&faulty);
	int before = fe_open_fds(), pair[2];
	memset(f->ram, 0, FE_DATA);
	memset(f->ram + FE_DATA, 0x5a, FE_BYTES - FE_DATA);
	fe_driver(f, REPORT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	f->vhost = NULL;
	int r = ph_vhost_new_with(NULL, &sys, &f->vhost);
	if (r == 0) {
		r = pagehint_vhost_attach(f->vhost, pair[1]);
		if (r == 0) {
			ph_vhost_wire_init(&f->wire, REAL, pair[0]);
			whole_session(f);
			ph_vhost_wire_drop(&f->wire);
		}
		assert_int_equal(pagehint_vhost_free(f->vhost), 0);
	} else {
		assert_null(f->vhost);
	}
	if (r != 0)
		close(pair[1]); /* left alone on failure */
	close(pair[0]);
	check_memory(f);
	assert_int_equal(fe_open_fds(), before);
	assert_int_equal(faulty.mapped, 0);
	return faulty.calls;
}

static void test_every_call(void **state)
{
	struct frontend f = { .channel = -1, .now = 1000000000 };
	(void)state;
	f.ram_fd = memfd_create("guest", MFD_CLOEXEC);
	assert_true(f.ram_fd >= 0 && ftruncate(f.ram_fd, (off_t)FE_BYTES) == 0);
	f.ram = mmap(NULL, FE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f.ram_fd, 0);
	assert_true(f.ram != MAP_FAILED);
	f.kick[REPORT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f.call[REPORT] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	uint64_t calls = with_fault(&f, 0);
	assert_int_equal(fe_reap(&f, REPORT), 1);
	assert_int_equal(f.ram[FE_DATA], 0);
	for (uint64_t k = 1; k <= calls; k++)
		(void)with_fault(&f, k);
	free(f.driver_memory[REPORT]);
	close(f.kick[REPORT]);
	close(f.call[REPORT]);
	munmap(f.ram, FE_BYTES);
	close(f.ram_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
