/*
 * compiler.h: the few words of the compiler that the rooms use, under our own names.
 */
#ifndef PH_BASE_COMPILER_H
#define PH_BASE_COMPILER_H

#define ph_likely(x) __builtin_expect(!!(x), 1)
#define ph_unlikely(x) __builtin_expect(!!(x), 0)
#define PH_NOINLINE __attribute__((noinline))

#endif
