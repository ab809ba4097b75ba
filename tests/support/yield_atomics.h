/*
 * yield_atomics.h: makes every atomic operation of a source file a place where another thread may go on; see turns.h.
 *
 * Put in front of a source file (`-include`), it takes the place of the generic functions of <stdatomic.h>. Only one thread runs
 * at a time, so plain accesses do; and all of them are in one order, so a memory order means nothing here.
 */
#ifndef TESTS_SUPPORT_YIELD_ATOMICS_H
#define TESTS_SUPPORT_YIELD_ATOMICS_H

#include <stdatomic.h>
#include <stdint.h>

enum { TURN_STORE, TURN_EXCHANGE, TURN_ADD, TURN_SUB, TURN_OR, TURN_AND };

uint64_t turn_load(const volatile void *p, uint32_t size, const char *func);
uint64_t turn_change(volatile void *p, uint32_t size, uint32_t how, uint64_t v, const char *func);
int turn_compare_exchange(volatile void *p, uint32_t size, void *expected, uint64_t v, const char *func);

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit

#define TURN_CHANGE(p, how, v) turn_change((p), sizeof(*(p)), (how), (v), __func__)

#define atomic_load(p) turn_load((p), sizeof(*(p)), __func__)
#define atomic_load_explicit(p, order) atomic_load(p)
#define atomic_store(p, v) ((void)TURN_CHANGE(p, TURN_STORE, v))
#define atomic_store_explicit(p, v, order) atomic_store(p, v)
#define atomic_exchange(p, v) TURN_CHANGE(p, TURN_EXCHANGE, v)
#define atomic_exchange_explicit(p, v, order) atomic_exchange(p, v)
#define atomic_fetch_add(p, v) TURN_CHANGE(p, TURN_ADD, v)
#define atomic_fetch_add_explicit(p, v, order) atomic_fetch_add(p, v)
#define atomic_fetch_sub(p, v) TURN_CHANGE(p, TURN_SUB, v)
#define atomic_fetch_sub_explicit(p, v, order) atomic_fetch_sub(p, v)
#define atomic_fetch_or(p, v) TURN_CHANGE(p, TURN_OR, v)
#define atomic_fetch_or_explicit(p, v, order) atomic_fetch_or(p, v)
#define atomic_fetch_and(p, v) TURN_CHANGE(p, TURN_AND, v)
#define atomic_fetch_and_explicit(p, v, order) atomic_fetch_and(p, v)
#define atomic_compare_exchange_strong(p, e, v) turn_compare_exchange((p), sizeof(*(p)), (e), (v), __func__)
#define atomic_compare_exchange_strong_explicit(p, e, v, success, failure) atomic_compare_exchange_strong(p, e, v)
#define atomic_compare_exchange_weak(p, e, v) atomic_compare_exchange_strong(p, e, v)
#define atomic_compare_exchange_weak_explicit(p, e, v, success, failure) atomic_compare_exchange_strong(p, e, v)

#endif
