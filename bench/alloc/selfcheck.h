/*
 * selfcheck: the bench on itself: each case once, and an allocator that is broken on purpose, which the checks must notice.
 */
#ifndef BENCH_ALLOC_SELFCHECK_H
#define BENCH_ALLOC_SELFCHECK_H

#include "../shim/shim.h"

/* cases whose name begins with `only`; returns the exit code of the program; the last line counts what was run */
int selfcheck(const struct bench_case *cases, size_t n, const char *only);

#endif
