/*
 * control: what may be asked of a running balloon: one JSON object a line, one JSON object back.
 *
 *	{"command": "target", "bytes": N}                           how much the balloon is to hold
 *	{"command": "stats", "refresh": true|false}                 everything that is counted; refresh: ask the guest anew
 *	{"command": "tune", "rate": N, "order": N, "hold_back_ms": N, "stats_interval_s": N}     each may be left out
 *	{"command": "pause"}, {"command": "resume"}                 no discards until resumed
 *	{"command": "hint", "action": "start"|"stop"|"done"}        a run of free page hints
 *	{"command": "explain"}                                      what is in the way of memory going back, a line each
 *
 * Answers have "ok": true and what was asked for, or "ok": false and "error". Any bytes get an answer.
 * Not here: connections (clients.h). Owns nothing.
 */
#ifndef BALLOON_CONTROL_H
#define BALLOON_CONTROL_H

#include "engine.h"

/* Return: the answer, a line from malloc; NULL: no memory. */
char *control_answer(struct engine *engine, const char *line);

#endif
