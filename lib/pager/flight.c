#include "pager/flight.h"

#define STATE_BITS 3
#define INDEX_BITS 8

static uint64_t word_of(uint64_t generation, uint32_t state)
{
	return generation << STATE_BITS | state;
}

/* Between FREE and FETCHING it is REVOKED: nobody may answer it, and nobody else may take it. */
struct ph_flight *ph_flight_take(struct pagehint_pager *p, uint32_t first_too, uint64_t *ret_generation)
{
	for (uint32_t i = first_too ? 0 : 1; i < p->flights_n; i++) {
		struct ph_flight *f = &p->flights[i];
		uint64_t use = atomic_load(&f->use), generation = (use >> STATE_BITS) + 1;
		if (use != word_of(use >> STATE_BITS, PH_FLIGHT_FREE) ||
		    !atomic_compare_exchange_strong(&f->use, &use, word_of(generation, PH_FLIGHT_REVOKED)))
			continue;
		*ret_generation = generation;
		return f;
	}
	return NULL;
}

uint64_t ph_flight_start(struct pagehint_pager *p, struct ph_flight *f, uint64_t generation, const struct ph_range *g,
			 uint64_t first, uint64_t pages)
{
	atomic_store_explicit(&f->region, ph_range_index(p, g), memory_order_relaxed);
	atomic_store_explicit(&f->first, first, memory_order_relaxed);
	atomic_store_explicit(&f->pages, pages, memory_order_relaxed);
	atomic_store_explicit(&f->since, atomic_load_explicit(&p->now, memory_order_relaxed), memory_order_relaxed);
	atomic_store(&f->use, word_of(generation, PH_FLIGHT_FETCHING));
	return generation << INDEX_BITS | (uint64_t)(f - p->flights);
}

int ph_flight_turn(struct ph_flight *f, uint64_t generation, uint32_t from, uint32_t to)
{
	uint64_t use = word_of(generation, from);
	return atomic_compare_exchange_strong(&f->use, &use, word_of(generation, to));
}

void ph_flight_end(struct ph_flight *f, uint64_t generation)
{
	atomic_store(&f->use, word_of(generation, PH_FLIGHT_FREE));
}

struct ph_flight *ph_flight_of(struct pagehint_pager *p, uint64_t cookie, uint64_t *ret_generation)
{
	uint64_t index = cookie & ((1u << INDEX_BITS) - 1);
	*ret_generation = cookie >> INDEX_BITS;
	return index < p->flights_n ? &p->flights[index] : NULL;
}

int ph_flight_is(const struct ph_flight *f, uint64_t generation)
{
	uint64_t use = atomic_load(&f->use);
	return use == word_of(generation, PH_FLIGHT_FETCHING) || use == word_of(generation, PH_FLIGHT_WAITING);
}
