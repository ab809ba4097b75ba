/*
 * The flush filter beside a zone, against CPUs with real (simulated) translations, a byte a frame and CPU: no batch is handed
 * out while any CPU can still reach a frame of it, one flush a batch is enough, and no CPU is asked that need not be.
 * The same with each rule of flush.h broken in turn: then the oracle must find something, or it would prove nothing.
 * Usage: model-flush [seed [rounds]]; the seed is printed. PAGEHINT_TEST_ROUNDS_PCT scales the rounds.
 */
#include "flush_oracle.h"
#include "support/rounds.h"

/* All translations to the batch that any CPU still has; and frames whose content is not what its new owner was promised. */
static void judge(const struct batch *b, uint8_t owner)
{
	for (uint32_t k = 0; k < b->n; k++)
		for (uint32_t i = b->blocks[k].first; i < b->blocks[k].first + (1u << b->blocks[k].order); i++) {
			REQUIRE(m.pte[i] == 0);
			for (uint32_t cpu = 0; cpu < CPUS; cpu++)
				m.stale += m.tlb[cpu][i] != 0;
			m.dirty += m.content[i] != owner;
		}
}

/* Content comes through translations that linger at the writer, or through a mapping that stays. */
static void write_content(const struct batch *b, uint8_t owner, int lingers, uint32_t cpu)
{
	for (uint32_t k = 0; k < b->n; k++)
		for (uint32_t i = b->blocks[k].first; i < b->blocks[k].first + (1u << b->blocks[k].order); i++) {
			m.content[i] = owner;
			if (lingers)
				m.tlb[cpu][i] = WRITER;
		}
}

/* Exactly the CPUs that have not flushed since the newest free of what was taken, as whole times tell. */
static void expect_exactly(const struct batch *b, const uint64_t *cpus)
{
	for (uint32_t cpu = 0; cpu < CPUS; cpu++) {
		int asked = (int)(cpus[cpu / 64] >> (cpu % 64) & 1);
		int wanted = b->newest != 0 && m.done[cpu] <= b->newest;
		REQUIRE(asked >= wanted);
		if (!m.loose && !b->loose)
			REQUIRE(asked == wanted);
	}
}

static void flush_batch(const struct batch *b, int writer)
{
	uint64_t cpus[WORDS];
	uint32_t n;
	REQUIRE(pagehint_flush_need(m.flush, &b->filter, NULL, WORDS, cpus, &n) == 0);
	expect_exactly(b, cpus);
	m.asked += n != 0;
	m.cpus_asked += n;
	if (writer >= 0)
		cpus[writer / 64] |= UINT64_C(1) << (writer % 64);
	uint64_t tick = pagehint_flush_tick(m.flush);
	noise(2); /* flushing takes time, and others go on */
	for (uint32_t cpu = 0; cpu < CPUS; cpu++)
		if (cpus[cpu / 64] >> (cpu % 64) & 1)
			flush_now(cpu, tick);
	REQUIRE(pagehint_flush_need(m.flush, &b->filter, NULL, WORDS, cpus, &n) == 0);
	REQUIRE(n == 0); /* one was enough */
}

static void op_batch(void)
{
	struct batch b = { .n = 0 };
	uint8_t owner = (uint8_t)(1 + rnd(OWNERS));
	uint32_t writer = (uint32_t)rnd(CPUS);
	take_batch(&b);
	m.batches++;
	switch (m.how) {
	case STOPPED:
	case STAMP_TOO_EARLY:
		write_content(&b, owner, 1, writer);
		noise(2);
		flush_batch(&b, (int)writer);
		break;
	case FLUSH_TOO_EARLY:
		flush_batch(&b, -1);
		write_content(&b, owner, 1, writer);
		break;
	case RUNNING:
		flush_batch(&b, -1);
		write_content(&b, owner, 0, writer);
		noise(2);
		break;
	case CONTENT_TOO_EARLY:
		write_content(&b, owner, 0, writer);
		noise(2);
		flush_batch(&b, -1);
		break;
	default:
		write_content(&b, owner, 0, writer); /* no flush at all */
	}
	judge(&b, owner);
	hand_over(&b, owner);
}

static void run(uint64_t seed, unsigned rounds, int how, uint32_t sections)
{
	begin(seed, how, sections);
	for (m.round = 0; m.round < rounds; m.round++) {
		if (rnd(3) == 0)
			op_batch();
		noise(3);
		if (m.n_blocks > MAX_BLOCKS / 2)
			op_free();
	}
	REQUIRE(pagehint_zone_check(m.zone, NULL) == 0);
	printf("%-18s seed %" PRIu64 ", %u sections with stamps: %" PRIu64 " batches, %" PRIu64 " flushes of %" PRIu64
	       " CPUs, %" PRIu64 " stale, %" PRIu64 " dirty, %" PRIu64 " turns of the clock\n",
	       names[how], seed, sections, m.batches, m.asked, m.cpus_asked, m.stale, m.dirty,
	       pagehint_flush_clock(m.flush) >> 32);
	REQUIRE(m.asked <= m.batches);
	REQUIRE(m.replugged > 10 || rounds < 1000);
	REQUIRE(pagehint_flush_clock(m.flush) >> 32 > 3 || rounds < 1000);
	pagehint_flush_free(m.flush);
	pagehint_zone_destroy(m.zone);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20261204;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : (unsigned)rounds_scaled(6000);
	for (unsigned i = 0; i < 2; i++)
		for (uint32_t sections = 1; sections <= 3; sections += 2) {
			for (int how = STOPPED; how <= RUNNING; how++) {
				run(seed + i, rounds, how, sections);
				REQUIRE(m.stale == 0 && m.dirty == 0);
				if (rounds < 500)
					continue; /* too few for the following to be certain */
				REQUIRE(m.asked > m.batches / 20 && m.asked < m.batches); /* some need one, some none */
				REQUIRE(m.cpus_asked < m.asked * CPUS);                   /* and not of everybody */
			}
		}
	for (int how = STAMP_TOO_EARLY; how <= NO_FLUSH; how++) {
		run(seed, 6000, how, 3); /* always so many: to find a mistake takes a while */
		REQUIRE((how == CONTENT_TOO_EARLY ? m.dirty : m.stale) != 0);
	}
	return 0;
}
