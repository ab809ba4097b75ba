/*
 * ledger: which frames of the domain have memory, and what the hypervisor calls them.
 *
 * Three books behind one face: the bitmap of what is present (TRANSLATED; may be missing, then nothing is known), the table
 * of machine frames (PV), the table of what own memory is out (OWN). They are the caller's; we write what the hypervisor did.
 */
#ifndef PH_XEN_LEDGER_H
#define PH_XEN_LEDGER_H

#include <stdint.h>

#include <pagehint/run.h>

#include "xen/reservation.h"

/* 1 when it is known which frames have memory. */
int ph_xen_knows(const struct pagehint_xen *x);

/* 0 when the books have room for all of the run, else -ERANGE. */
int ph_xen_covers(const struct pagehint_xen *x, const struct pagehint_run *run);

/*
 * The next run in [from, to) that has memory, or has none; 1, or 0 when there is no more. Where nothing is known all of it
 * may be either.
 */
int ph_xen_next_present(const struct pagehint_xen *x, uint64_t from, uint64_t to, struct pagehint_run *ret);
int ph_xen_next_absent(const struct pagehint_xen *x, uint64_t from, uint64_t to, struct pagehint_run *ret);

/* What a populate says for a frame, and a decrease (not for OWN, where own.h knows). */
uint64_t ph_xen_name_to_populate(const struct pagehint_xen *x, uint64_t frame);
uint64_t ph_xen_name_to_reclaim(const struct pagehint_xen *x, uint64_t frame);

/* An extent came, and is called `name`; a frame that was called `name` went. */
void ph_xen_came(struct pagehint_xen *x, uint64_t frame, uint32_t order, uint64_t name);
void ph_xen_went(struct pagehint_xen *x, uint64_t frame, uint64_t name);

#endif
