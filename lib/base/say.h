/*
 * say: lines of an explanation, written as printf does. Lines that are too long are cut: they are for people.
 */
#ifndef PH_BASE_SAY_H
#define PH_BASE_SAY_H

#include <pagehint/sink.h>

__attribute__((format(printf, 2, 3))) void ph_say(const struct pagehint_sink *sink, const char *format, ...);

#endif
