/*
 * state: everything that is read back from bytes that somebody kept: a device's saved state, by itself and in a session; a pager's states
 * and its record of faults; a shared zone in a file. And what is written for others: a bitmap.
 */
#ifndef FUZZ_STATE_STATE_H
#define FUZZ_STATE_STATE_H

#include "input.h"

void state_device(struct input *in);
void state_session(struct input *in);
void state_pager(struct input *in);
void state_record(struct input *in);
void state_zone(struct input *in);
void state_bitmap(struct input *in);

#endif
