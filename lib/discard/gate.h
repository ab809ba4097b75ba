/*
 * gate: every reason why nothing may be discarded now; the inside of pagehint/gate.h.
 *
 * The problem: closing must not miss a discard that begins at the same moment, and entering must not wait.
 * Why this shape: whoever enters counts itself first and then looks at the reasons; whoever closes raises its reason first
 * and then looks at the count. Both sides are seq_cst, so one of the two always sees the other.
 * Not here: pins of one region (memory/map.h). Called from: the backend handle, the reporter, an embedder.
 */
#ifndef PH_DISCARD_GATE_H
#define PH_DISCARD_GATE_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagehint/gate.h>

struct pagehint_gate {
	_Alignas(64) _Atomic uint64_t in_flight;
	_Atomic uint64_t refused;
	_Alignas(64) _Atomic uint64_t holders; /* of all reasons; not 0 = closed */
	_Atomic uint64_t closed[PAGEHINT_INHIBIT_COUNT];
};

/* "post-copy", "snapshot", ...; "?" if unknown */
const char *ph_gate_reason_name(uint32_t reason);

#endif
