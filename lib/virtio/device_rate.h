/*
 * device_rate: real bytes a second, as a budget that may be overdrawn once.
 *
 * The problem: a limit in requests or pages lies, and a guest's request cannot be cut (a report is one piece). Why this shape: a
 * request may start while there is no debt, and is paid for afterwards; what turned out not to cost anything is paid back. So
 * in any time t no more goes back than rate * (t + 0.1 s) and one request. Owns nothing; times are the caller's.
 */
#ifndef PH_VIRTIO_DEVICE_RATE_H
#define PH_VIRTIO_DEVICE_RATE_H

#include <stdint.h>

struct ph_device_rate {
	uint64_t rate;  /* bytes a second; 0 = no limit */
	int64_t credit; /* bytes; below 0 = debt */
	uint64_t at_ns; /* credit is as of then */
};

void ph_device_rate_set(struct ph_device_rate *r, uint64_t now_ns, uint64_t rate);
/* When the next request may start; now_ns: at once. */
uint64_t ph_device_rate_when(struct ph_device_rate *r, uint64_t now_ns);
void ph_device_rate_take(struct ph_device_rate *r, uint64_t bytes);
void ph_device_rate_give_back(struct ph_device_rate *r, uint64_t bytes);
/* a later time, which does not wrap */
uint64_t ph_device_later(uint64_t now_ns, uint64_t ns);

#endif
