#include "peers/xen/domain.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <xenctrl.h>
#include <xenforeignmemory.h>

#define PVH_PAGING_BYTES (UINT64_C(16) << 20)
#define GONE_WITHIN_MS 20000
#define QUIET_NS_A_FRAME 4000u

static xc_interface *control;
static xenforeignmemory_handle *foreign;

int host_open(void)
{
	control = xc_interface_open(NULL, NULL, 0);
	foreign = xenforeignmemory_open(NULL, 0);
	return control != NULL && foreign != NULL ? 0 : -1;
}

uint64_t host_free_frames(void)
{
	xc_physinfo_t info;
	memset(&info, 0, sizeof(info));
	return xc_physinfo(control, &info) < 0 ? 0 : info.free_pages;
}

void host_quiet(uint64_t frames)
{
	uint64_t ns = 100000000 + frames * QUIET_NS_A_FRAME;
	const struct timespec time = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
	nanosleep(&time, NULL);
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

int domain_destroy(uint32_t domid)
{
	const struct timespec tick = { .tv_nsec = 1000000 };
	if (xc_domain_destroy(control, domid) < 0)
		return -1;
	for (int i = 0; exists(domid); i++) {
		if (i == GONE_WITHIN_MS)
			return -1;
		nanosleep(&tick, NULL);
	}
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
	xen_pfn_t names[512];
	int errors[512];
	for (uint32_t i = 0; i < n; i++)
		names[i] = frames[i];
	void *at = xenforeignmemory_map(foreign, domid, PROT_READ | PROT_WRITE, n, names, errors);
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
