/*
 * Random hosts full of guests: whatever the numbers are, the promises of policy.h hold in every step; guests that do as they are
 * told come to rest, and a step in what one of them needs moves nobody back and forth.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <pagehint/policy.h>

#include "support/chance.h"
#include "support/rounds.h"

#define GUESTS 12u
#define STEPS 400u

static struct {
	uint64_t seed;
	unsigned round;
	uint32_t n;
	struct pagehint_policy_host host;
	struct pagehint_policy_guest guest[GUESTS];
	uint64_t targets[GUESTS];
	uint32_t how;
} m;

static uint64_t some_bytes(void)
{
	return rnd(2) != 0 ? rnd(UINT64_C(1) << (10 + rnd(44))) : rnd(64) << 30;
}

static void draw(void)
{
	memset(&m.host, 0, sizeof(m.host));
	m.host.struct_size = sizeof(m.host);
	m.host.capacity = some_bytes();
	m.host.reserve = rnd(3) == 0 ? some_bytes() : 0;
	m.host.step = rnd(2) == 0 ? some_bytes() : 0;
	m.host.band = rnd(2) == 0 ? rnd(256) << 20 : 0;
	m.host.align = rnd(2) == 0 ? UINT64_C(1) << rnd(31) : 0;
	m.n = 1 + (uint32_t)rnd(GUESTS);
	for (uint32_t i = 0; i < m.n; i++) {
		struct pagehint_policy_guest *g = &m.guest[i];
		memset(g, 0, sizeof(*g));
		g->size = some_bytes();
		g->floor = rnd(3) == 0 && g->size != 0 ? rnd(g->size) : 0;
		g->need = some_bytes();
		g->held = rnd(2) == 0 ? some_bytes() : 0;
		g->weight = rnd(3) == 0 ? (uint32_t)rnd(1000) : 1;
		g->flags = rnd(5) == 0 ? PAGEHINT_POLICY_NEED_UNKNOWN : 0;
	}
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t held(uint32_t i)
{
	return smaller(m.guest[i].held, m.guest[i].size);
}

/* The need as the header defines it, written down a second time. */
static uint64_t need(uint32_t i)
{
	uint64_t n = m.guest[i].flags != 0 ? held(i) : m.guest[i].need;
	if (n < m.guest[i].floor)
		n = m.guest[i].floor;
	return smaller(n, m.guest[i].size);
}

static uint64_t available(void)
{
	return m.host.reserve >= m.host.capacity ? 0 : m.host.capacity - m.host.reserve;
}

static void ask(void)
{
	REQUIRE(pagehint_policy_targets(&m.host, m.guest, m.n, m.targets, &m.how) == 0);
}

static void judge(void)
{
	uint64_t needs = 0, floors = 0, holds = 0, both = 0;
	for (uint32_t i = 0; i < m.n; i++) {
		needs += need(i);
		floors += m.guest[i].floor;
		holds += held(i);
		both += m.targets[i] > held(i) ? m.targets[i] : held(i);
		REQUIRE(m.targets[i] <= m.guest[i].size);
		REQUIRE(m.host.step == 0 || held(i) <= m.targets[i] || held(i) - m.targets[i] <= m.host.step);
	}
	REQUIRE(m.how == (needs <= available()    ? PAGEHINT_POLICY_SLACK
			  : floors <= available() ? PAGEHINT_POLICY_TIGHT
						  : PAGEHINT_POLICY_SHORT));
	REQUIRE(both <= (holds > available() ? holds : available()));
	for (uint32_t i = 0; i < m.n; i++) {
		const uint64_t low = m.how == PAGEHINT_POLICY_SLACK   ? need(i)
				     : m.how == PAGEHINT_POLICY_TIGHT ? m.guest[i].floor
								      : 0;
		if (held(i) >= low)
			REQUIRE(m.targets[i] >= low); /* nobody is driven below it */
		else
			REQUIRE(m.targets[i] >= held(i));
	}
}

/* Guests that obey come to rest, and then have what the state promises. An unknown need follows what is held: left out. */
static void settle(void)
{
	uint32_t still = 0;
	for (uint32_t i = 0; i < m.n; i++) {
		m.guest[i].flags = 0;
		m.guest[i].held = held(i);
	}
	m.host.step = m.host.step != 0 && m.host.step < m.host.capacity / 64 ? m.host.capacity / 64 + 1 : m.host.step;
	for (uint32_t steps = 0; steps < STEPS && still < 2; steps++) {
		uint32_t moved = 0;
		ask();
		judge();
		for (uint32_t i = 0; i < m.n; i++) {
			moved += m.guest[i].held != m.targets[i];
			m.guest[i].held = m.targets[i];
		}
		still = moved == 0 ? still + 1 : 0;
	}
	REQUIRE(still >= 2 || m.host.step != 0); /* a step may be small beside what somebody holds */
	if (still < 2)
		return;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < m.n; i++) {
		sum += held(i);
		if (m.how == PAGEHINT_POLICY_SLACK)
			REQUIRE(held(i) >= need(i));
		if (m.how == PAGEHINT_POLICY_TIGHT)
			REQUIRE(held(i) >= m.guest[i].floor);
	}
	REQUIRE(sum <= available());
}

/* One guest needs more all of a sudden: each target goes one way only. */
static void respond(void)
{
	uint64_t last[GUESTS];
	int way[GUESTS] = { 0 };
	const uint32_t who = (uint32_t)rnd(m.n);
	m.guest[who].need = m.guest[who].size;
	for (uint32_t i = 0; i < m.n; i++)
		last[i] = held(i);
	for (uint32_t steps = 0; steps < STEPS; steps++) {
		ask();
		judge();
		for (uint32_t i = 0; i < m.n; i++) {
			const int now = m.targets[i] > last[i] ? 1 : m.targets[i] < last[i] ? -1 : way[i];
			REQUIRE(way[i] == 0 || now == way[i]);
			way[i] = now;
			last[i] = m.guest[i].held = m.targets[i];
		}
	}
}

int main(void)
{
	const unsigned long rounds = rounds_scaled(3000);
	m.seed = (uint64_t)time(NULL) | 1;
	state = m.seed;
	printf("seed %" PRIu64 ", %lu hosts\n", m.seed, rounds);
	for (m.round = 0; m.round < rounds; m.round++) {
		draw();
		ask();
		judge();
		settle();
		respond();
	}
	return 0;
}
