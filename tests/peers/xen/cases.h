/*
 * cases: what is shown on the real hypervisor; each returns 0 when it is so, and prints what is not.
 */
#ifndef TESTS_PEERS_XEN_CASES_H
#define TESTS_PEERS_XEN_CASES_H

#include <stdint.h>

#include <pagehint/xen.h>

/* A handle on a domain through the raw way; of a PV domain with its table. */
struct subject {
	uint32_t domid;
	struct pagehint_xen *xen;
	struct pagehint_bitmap *present;
	uint64_t *p2m;
};

#define KNOWS 1u /* with a bitmap of what is present (PV domains always know) */
int subject_open(struct subject *s, int pvh, uint64_t max_mib, uint32_t flags, uint32_t how);
/* 0 when nothing went wrong and the domain is gone */
int subject_close(struct subject *s);

int case_populate_pvh(void); /* populate, reclaim, populate, destroy: no leak */
int case_populate_pv(void);  /* the same for a PV domain */
int case_limit(void);        /* more than it may have: refused at once, and half way */
int case_holes(void);        /* what is not there, with and without knowing */
int case_mapped(void);       /* a frame that is mapped elsewhere */
int case_gone(void);         /* the domain is destroyed */
int case_scrub(void);        /* content is seen without wiping, and not with it */
int case_reporter(void);     /* zone, reporter, backend */
int case_xencall(void);      /* the same through libxencall */
int case_self(void);         /* PV: frames of our own that nobody has mapped */
int case_own(void);          /* PVH: locked memory of our own */
int case_target(void);       /* the kernel's balloon driver */
int case_examples(void);     /* the example programs, here */
int case_measure(void);      /* RESULT lines */

#endif
