/*
 * tiny-vmm: a virtual machine of a few instructions whose memory comes in on demand, and goes again.
 *
 * The guest (16-bit code, written by hand) adds up the first word of 64 pages that only the snapshot has, says the sum on a
 * port, gives the pages back on another, adds them up again, and halts. The first sum is the snapshot's; the second is
 * zero, since what was given back does not come from the snapshot again.
 *
 * Exit code 0: so it was. 77: this machine has no /dev/kvm, or no userfaultfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagehint/host.h>
#include <pagehint/map.h>
#include <pagehint/pager.h>
#include <pagehint/pager_backend.h>
#include <pagehint/source.h>

#define BYTES ((uint64_t)2 << 20)
#define CODE 0x1000u
#define FIRST 0x10000u /* what the guest adds up */
#define PAGES 64u
#define PORT_SUM 0x10u
#define PORT_FREE 0x11u

/* newer than some headers */
#define EXIT_MEMORY_FAULT 39u

static const unsigned char code[] = {
	0x31, 0xdb,                  /*        xor bx, bx */
	0xb8, 0x00,      0x10,       /*        mov ax, 0x1000 */
	0xb9, PAGES,     0x00,       /*        mov cx, PAGES */
	0x8e, 0xd8,                  /* first: mov ds, ax */
	0x03, 0x1e,      0x00, 0x00, /*        add bx, [0] */
	0x05, 0x00,      0x01,       /*        add ax, 0x100 */
	0xe2, 0xf5,                  /*        loop first */
	0x89, 0xd8,                  /*        mov ax, bx */
	0xe7, PORT_SUM,              /*        out PORT_SUM, ax */
	0xe7, PORT_FREE,             /*        out PORT_FREE, ax */
	0x31, 0xdb,                  /*        xor bx, bx */
	0xb8, 0x00,      0x10,       /*        mov ax, 0x1000 */
	0xb9, PAGES,     0x00,       /*        mov cx, PAGES */
	0x8e, 0xd8,                  /* again: mov ds, ax */
	0x03, 0x1e,      0x00, 0x00, /*        add bx, [0] */
	0x05, 0x00,      0x01,       /*        add ax, 0x100 */
	0xe2, 0xf5,                  /*        loop again */
	0x89, 0xd8,                  /*        mov ax, bx */
	0xe7, PORT_SUM,              /*        out PORT_SUM, ax */
	0xf4,                        /*        hlt */
};

struct vmm {
	unsigned char *snapshot, *memory;
	struct pagehint_map *map;
	struct pagehint_source *source;
	struct pagehint_pager *pager;
	struct pagehint_backend *inner, *backend;
	pthread_t server;
	_Atomic int stop;
	int vm, vcpu;
	struct kvm_run *run;
	unsigned sums[2], sums_n;
};

static void not_applicable(const char *why)
{
	printf("not applicable: %s\n", why);
	exit(77);
}

static void need(int result, const char *what)
{
	if (result == 0)
		return;
	if (result == -EPERM || result == -ENOSYS)
		not_applicable("this process may have no userfaultfd");
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

#define NEED(what) need((what), #what)
#define CALL(what) need((what) < 0 ? -errno : 0, #what)

static uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *serve(void *arg)
{
	struct vmm *v = arg;
	struct pollfd fd = { .events = POLLIN };
	uint64_t deadline;
	NEED(pagehint_pager_fd(v->pager, 0, &fd.fd));
	while (!atomic_load(&v->stop)) {
		(void)poll(&fd, 1, 10);
		NEED(pagehint_pager_step(v->pager, 0, clock_ns(), &deadline));
	}
	return NULL;
}

static unsigned write_snapshot(struct vmm *v)
{
	unsigned sum = 0;
	memcpy(v->snapshot + CODE, code, sizeof(code));
	for (unsigned i = 0; i < PAGES; i++) {
		uint16_t word = (uint16_t)(i * 3 + 1);
		memcpy(v->snapshot + FIRST + i * 4096, &word, sizeof(word));
		sum += word;
	}
	return sum & 0xffff;
}

static void open_memory(struct vmm *v)
{
	struct pagehint_region_desc desc = {
		.struct_size = sizeof(desc), .frames = BYTES / 4096, .fd = -1, .flags = PAGEHINT_REGION_UFFD_OWN
	};
	struct pagehint_pager_region region = { .struct_size = sizeof(region), .frames = BYTES / 4096 };
	uint64_t id;
	desc.host_addr = (uintptr_t)v->memory;
	NEED(pagehint_map_new(NULL, &v->map));
	NEED(pagehint_map_add(v->map, &desc, &id));
	NEED(pagehint_source_memory_new(v->snapshot, BYTES, &v->source));
	struct pagehint_pager_opts opts = { .struct_size = sizeof(opts), .map = v->map };
	NEED(pagehint_pager_new(&opts, &v->pager));
	region.source = v->source;
	NEED(pagehint_pager_add(v->pager, &region));
	NEED(pagehint_madvise_new(v->map, NULL, NULL, &v->inner));
	NEED(pagehint_pager_backend_new(v->pager, v->inner, NULL, &v->backend));
	need(-pthread_create(&v->server, NULL, serve, v), "a thread");
}

static void open_vcpu(struct vmm *v, int kvm)
{
	struct kvm_userspace_memory_region slot = { .memory_size = BYTES, .userspace_addr = (uintptr_t)v->memory };
	struct kvm_sregs s;
	struct kvm_regs r = { .rip = CODE, .rflags = 2 };
	CALL(v->vm = ioctl(kvm, KVM_CREATE_VM, 0));
	CALL(ioctl(v->vm, KVM_SET_USER_MEMORY_REGION, &slot));
	CALL(v->vcpu = ioctl(v->vm, KVM_CREATE_VCPU, 0));
	int bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	CALL(bytes);
	v->run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->vcpu, 0);
	need(v->run == MAP_FAILED ? -errno : 0, "the vCPU's page");
	CALL(ioctl(v->vcpu, KVM_GET_SREGS, &s));
	s.cs.base = 0;
	s.cs.selector = 0;
	CALL(ioctl(v->vcpu, KVM_SET_SREGS, &s));
	CALL(ioctl(v->vcpu, KVM_SET_REGS, &r));
}

/* A page that is just arriving is kept; who needs all of them gone asks again. */
static void give_back(struct vmm *v)
{
	const struct pagehint_run run = { FIRST / 4096, PAGES };
	struct pagehint_outcome out;
	uint64_t freed = 0;
	do {
		NEED(pagehint_backend_discard(v->backend, &run, 1, PAGEHINT_DISCARD_PROBE, &out, NULL, NULL));
		freed += out.freed;
	} while (out.kept != 0 && out.kept_why == PAGEHINT_WHY_IN_FLIGHT);
	printf("the guest gave %u pages back: %u KiB freed\n", PAGES, (unsigned)(freed >> 10));
}

static void port(struct vmm *v)
{
	uint16_t value;
	memcpy(&value, (unsigned char *)v->run + v->run->io.data_offset, sizeof(value));
	if (v->run->io.port == PORT_FREE)
		give_back(v);
	else if (v->sums_n < 2)
		v->sums[v->sums_n++] = value;
}

/* A fault that left the guest, in any of its three shapes: with userfaultfd events it rarely does. */
static void missing(struct vmm *v, uint32_t kind, uint64_t gpa, uint64_t bytes)
{
	uint32_t action;
	int r = pagehint_pager_exit(v->pager, kind, gpa, bytes, &action);
	if (r != 0 && r != -EAGAIN)
		need(r, "an exit");
}

static void run(struct vmm *v)
{
	for (;;) {
		if (ioctl(v->vcpu, KVM_RUN, 0) < 0 && errno != EINTR) {
			uint64_t fault[3];
			int error = errno, known = v->run->exit_reason == EXIT_MEMORY_FAULT;
			if (error != EFAULT && !known)
				need(-error, "KVM_RUN");
			memcpy(fault, &v->run->mmio,
			       sizeof(fault)); /* flags, gpa, size stand where every exit's words do */
			missing(v, known ? PAGEHINT_EXIT_MEMORY_FAULT : PAGEHINT_EXIT_EFAULT, known ? fault[1] : 0,
				known ? fault[2] : 0);
			continue;
		}
		switch (v->run->exit_reason) {
		case KVM_EXIT_HLT:
			return;
		case KVM_EXIT_IO:
			port(v);
			break;
		case KVM_EXIT_INTR:
			break;
		default:
			fprintf(stderr, "exit %u\n", (unsigned)v->run->exit_reason);
			exit(1);
		}
	}
}

static void *room(void)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(p == MAP_FAILED ? -errno : 0, "memory");
	(void)madvise(p, BYTES, MADV_NOHUGEPAGE);
	return p;
}

int main(void)
{
	static struct vmm v;
	struct pagehint_pager_stats stats = { .struct_size = sizeof(stats) };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		not_applicable("this machine has no /dev/kvm that this process may open: no guest can run");
	v.snapshot = room();
	v.memory = room();
	unsigned wanted = write_snapshot(&v);
	open_memory(&v);
	open_vcpu(&v, kvm);
	run(&v);
	atomic_store(&v.stop, 1);
	pthread_join(v.server, NULL);
	NEED(pagehint_pager_stats(v.pager, &stats));
	printf("sums: %u from the snapshot (%u wanted), then %u\n", v.sums[0], wanted, v.sums[1]);
	printf("faults %llu, pages %llu from the snapshot, %llu of zeros\n", (unsigned long long)stats.faults,
	       (unsigned long long)stats.installed, (unsigned long long)stats.zeroed);
	return v.sums_n == 2 && v.sums[0] == wanted && v.sums[1] == 0 && stats.zeroed >= PAGES ? 0 : 1;
}
