/*
 * domain: an unstarted domain on the real hypervisor, made and destroyed through libxenctrl, and what the host says of it past the library.
 */
#ifndef TESTS_PEERS_XEN_DOMAIN_H
#define TESTS_PEERS_XEN_DOMAIN_H

#include <stdint.h>
#include <stdio.h>

#define MIB_FRAMES UINT64_C(256)
#define FIRST UINT64_C(0x10000) /* a guest frame at a multiple of 2 MiB */

/* A condition that ends a case. */
#define CHECK(c)                                                                 \
	do {                                                                     \
		if (!(c)) {                                                      \
			printf("%s:%d: %s is not so\n", __FILE__, __LINE__, #c); \
			return 1;                                                \
		}                                                                \
	} while (0)

/* 0 = libxenctrl has reached the hypervisor, and it will tell us of domains that die */
int host_open(void);
uint64_t host_free_frames(void);
/* of a clock that only goes forward [ns] */
uint64_t host_now(void);
/*
 * Waits until the hypervisor has wiped what dead domains left, which it does when nothing else runs: who gets it before pays for
 * that. *ret_looks grows by how often we looked: by more than 1 when there was something to wait for. 0, or -1 when it does not say or not end.
 */
int host_quiet(uint32_t *ret_looks);

/* Its number, or 0. */
uint32_t domain_make(int pvh, uint64_t max_mib);
/* 0 when it is gone */
int domain_destroy(uint32_t domid);
/* what the toolstack's own interface counts for it [frames] */
uint64_t domain_frames(uint32_t domid);
int domain_max(uint32_t domid, uint64_t max_mib);

/* The frames of a domain, mapped here; NULL = not all of them. */
void *domain_map(uint32_t domid, const uint64_t *frames, uint32_t n);
void domain_unmap(void *at, uint32_t n);

/* Of n frames: how many show this byte at their start? */
uint32_t domain_count(uint32_t domid, const uint64_t *frames, uint32_t n, unsigned char byte);

#endif
