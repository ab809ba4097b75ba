#include "peers/xen/domain.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <xenctrl.h>
#include <xenevtchn.h>
#include <xenforeignmemory.h>

#define PVH_PAGING_BYTES (UINT64_C(16) << 20)
#define GONE_WITHIN_NS UINT64_C(20000000000)
#define QUIET_WITHIN_NS UINT64_C(20000000000)
#define IDLE_NS 5000000

static xc_interface *control;
static xenforeignmemory_handle *foreign;
static xenevtchn_handle *events;

int host_open(void)
{
	control = xc_interface_open(NULL, NULL, 0);
	foreign = xenforeignmemory_open(NULL, 0);
	events = xenevtchn_open(NULL, 0);
	if (control == NULL || foreign == NULL || events == NULL)
		return -1;
	return xenevtchn_bind_virq(events, VIRQ_DOM_EXC) < 0 ? -1 : 0;
}

uint64_t host_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t host_free_frames(void)
{
	xc_physinfo_t info;
	memset(&info, 0, sizeof(info));
	return xc_physinfo(control, &info) < 0 ? 0 : info.free_pages;
}

/*
 * 1: all free memory is wiped; 0: not yet; -1: it is not said. Only the dump of the heap tells, which a key of the console asks
 * for: physinfo has a count of such frames, and it is always 0.
 */
static int wiped(void)
{
	static char text[32769]; /* twice the ring of the hypervisor's messages */
	static uint32_t read_to;
	unsigned n = sizeof(text) - 1;
	char *dump = NULL;
	if (xc_send_debug_keys(control, "H") < 0 || xc_readconsolering(control, text, &n, 0, 1, &read_to) < 0)
		return -1;
	text[n] = 0;
	for (char *at = text; (at = strstr(at, "dumping heap info")) != NULL; at++)
		dump = at;
	return dump == NULL ? -1 : strstr(dump, "unscrubbed pages") == NULL;
}

int host_quiet(uint32_t *ret_looks)
{
	/* no event says that it is done, and it is done when the processor has nothing else to do: so we let go of it */
	const struct timespec idle = { .tv_nsec = IDLE_NS };
	const uint64_t deadline = host_now() + QUIET_WITHIN_NS;
	uint32_t looks = 1;
	int r;
	for (; (r = wiped()) == 0 && host_now() < deadline; looks++)
		nanosleep(&idle, NULL);
	*ret_looks += looks;
	return r == 1 ? 0 : -1;
}

uint32_t domain_make(int pvh, uint64_t max_mib)
{
	struct xen_domctl_createdomain how;
	uint32_t domid = 0;
	memset(&how, 0, sizeof(how));
	how.flags = pvh ? XEN_DOMCTL_CDF_hvm | XEN_DOMCTL_CDF_hap : 0;
	how.max_vcpus = 1;
	how.max_evtchn_port = 1023;
	how.max_grant_frames = 4;
	how.grant_opts = XEN_DOMCTL_GRANT_version(1);
	how.arch.emulation_flags = pvh ? XEN_X86_EMU_LAPIC : 0;
	if (xc_domain_create(control, &domid, &how) < 0)
		return 0;
	if (domain_max(domid, max_mib) < 0 ||
	    (pvh && xc_set_paging_mempool_size(control, domid, PVH_PAGING_BYTES) < 0)) {
		domain_destroy(domid);
		return 0;
	}
	return domid;
}

static int exists(uint32_t domid)
{
	xc_dominfo_t info;
	return xc_domain_getinfo(control, domid, 1, &info) == 1 && info.domid == domid;
}

/* Waits until a domain dies, whichever; -1: none did. */
static int await_death(uint64_t deadline)
{
	const uint64_t now = host_now();
	struct pollfd p = { .fd = xenevtchn_fd(events), .events = POLLIN };
	if (now >= deadline || poll(&p, 1, (int)((deadline - now) / 1000000) + 1) != 1)
		return -1;
	xenevtchn_port_or_error_t port = xenevtchn_pending(events);
	return port < 0 ? -1 : xenevtchn_unmask(events, (evtchn_port_t)port);
}

int domain_destroy(uint32_t domid)
{
	const uint64_t deadline = host_now() + GONE_WITHIN_NS;
	if (xc_domain_destroy(control, domid) < 0)
		return -1;
	while (exists(domid))
		if (await_death(deadline) < 0)
			return -1;
	return 0;
}

uint64_t domain_frames(uint32_t domid)
{
	xc_dominfo_t info;
	if (xc_domain_getinfo(control, domid, 1, &info) != 1 || info.domid != domid)
		return UINT64_MAX;
	return info.nr_pages;
}

int domain_max(uint32_t domid, uint64_t max_mib)
{
	return xc_domain_setmaxmem(control, domid, max_mib << 10);
}

void *domain_map(uint32_t domid, const uint64_t *frames, uint32_t n)
{
	int errors[256];
	if (n > sizeof(errors) / sizeof(errors[0]))
		return NULL;
	void *at = xenforeignmemory_map(foreign, domid, PROT_READ | PROT_WRITE, n, frames, errors);
	for (uint32_t i = 0; at != NULL && i < n; i++)
		if (errors[i] != 0) {
			xenforeignmemory_unmap(foreign, at, n);
			return NULL;
		}
	return at;
}

void domain_unmap(void *at, uint32_t n)
{
	xenforeignmemory_unmap(foreign, at, n);
}

uint32_t domain_count(uint32_t domid, const uint64_t *frames, uint32_t n, unsigned char byte)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < n; i += 256) {
		uint32_t part = n - i < 256 ? n - i : 256;
		const unsigned char *at = domain_map(domid, frames + i, part);
		if (at == NULL)
			return UINT32_MAX;
		for (uint32_t j = 0; j < part; j++)
			found += at[(size_t)j * 4096] == byte;
		xenforeignmemory_unmap(foreign, (void *)(uintptr_t)at, part);
	}
	return found;
}
