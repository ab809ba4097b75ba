#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "place.h"

#define CODE 0x1000u
#define BASE 0x200000u

static const unsigned char code[] = {
	0x89, 0x47, 0x08,                   /* next: mov [edi + 8], eax */
	0x40,                               /*       inc eax */
	0x81, 0xc7, 0x00, 0x10, 0x00, 0x00, /*       add edi, 4096 */
	0x49,                               /*       dec ecx */
	0x75, 0xf3,                         /*       jnz next */
	0xf4,                               /*       hlt */
};

struct guest {
	int kvm, vm;
	unsigned char *page; /* the code's */
	size_t run_bytes;
	unsigned vcpus;
	int vcpu[THREADS_MAX];
	struct kvm_run *run[THREADS_MAX];
};

int guest_possible(void)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int set_slot(struct guest *g, uint32_t slot, uint64_t at, void *memory, uint64_t bytes)
{
	struct kvm_userspace_memory_region r = {
		.slot = slot, .guest_phys_addr = at, .memory_size = bytes, .userspace_addr = (uintptr_t)memory
	};
	return ioctl(g->vm, KVM_SET_USER_MEMORY_REGION, &r);
}

static struct kvm_segment flat(uint8_t type)
{
	return (struct kvm_segment) {
		.limit = 0xffffffff, .selector = 8, .type = type, .present = 1, .db = 1, .s = 1, .g = 1
	};
}

static int make_vcpu(struct guest *g, unsigned i)
{
	struct kvm_sregs s;
	g->vcpu[i] = ioctl(g->vm, KVM_CREATE_VCPU, i);
	if (g->vcpu[i] < 0 || ioctl(g->vcpu[i], KVM_GET_SREGS, &s) != 0)
		return -1;
	s.cs = flat(11);
	s.ds = s.es = s.ss = s.fs = s.gs = flat(3);
	s.cr0 |= 1;
	if (ioctl(g->vcpu[i], KVM_SET_SREGS, &s) != 0)
		return -1;
	g->run[i] = mmap(NULL, g->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu[i], 0);
	return g->run[i] == MAP_FAILED ? -1 : 0;
}

struct guest *guest_open(void *memory, uint64_t bytes, unsigned vcpus)
{
	struct guest *g = calloc(1, sizeof(*g));
	if (g == NULL)
		return NULL;
	g->vcpus = vcpus;
	g->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	g->vm = g->kvm < 0 ? -1 : ioctl(g->kvm, KVM_CREATE_VM, 0);
	g->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g->vm < 0 || g->page == MAP_FAILED)
		return NULL;
	memcpy(g->page, code, sizeof(code));
	int run_bytes = ioctl(g->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (run_bytes < 0 || set_slot(g, 0, CODE, g->page, PAGE) != 0 || set_slot(g, 1, BASE, memory, bytes) != 0)
		return NULL;
	g->run_bytes = (size_t)run_bytes;
	for (unsigned i = 0; i < vcpus; i++)
		if (make_vcpu(g, i) != 0)
			return NULL;
	return g;
}

int guest_touch(struct guest *g, unsigned vcpu, uint64_t first, uint64_t pages)
{
	struct kvm_regs r = { .rip = CODE, .rflags = 2, .rax = first, .rcx = pages, .rdi = BASE + first * PAGE };
	if (ioctl(g->vcpu[vcpu], KVM_SET_REGS, &r) != 0)
		return -1;
	for (;;) {
		if (ioctl(g->vcpu[vcpu], KVM_RUN, 0) != 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		if (g->run[vcpu]->exit_reason == KVM_EXIT_HLT)
			return 0;
		if (g->run[vcpu]->exit_reason != KVM_EXIT_INTR)
			return -1;
	}
}

void guest_close(struct guest *g)
{
	for (unsigned i = 0; i < g->vcpus; i++) {
		munmap(g->run[i], g->run_bytes);
		close(g->vcpu[i]);
	}
	close(g->vm);
	close(g->kvm);
	munmap(g->page, PAGE);
	free(g);
}
