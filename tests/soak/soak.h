/*
 * soak: what every part of the soak shares: how it says that something is wrong, chance, and threads that rest when told.
 *
 * A part is a piece of the library at work: a zone under load with somebody who takes its free memory away, a device, a pager,
 * a host. Its threads do one operation after the other (a turn). Every few seconds all of them rest, and each part walks its
 * invariants. Those whom others wait for (who serve faults, who play the device) rest last and start first.
 */
#ifndef TESTS_SOAK_SOAK_H
#define TESTS_SOAK_SOAK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define SOAK_MEMBERS 40u
#define SOAK_PARTS 12u

/* ---- judgement: shared with processes that are forked after soak_judge_open ---- */
int soak_judge_open(void);
/* Something is not as it must be. The first of them are printed; returns 0. */
int soak_bad(const char *part, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t soak_violations(const char *part); /* NULL = all */

/* Holds, or is a violation. */
#define SOAK_MUST(part, condition) \
	((condition) ? 1 : soak_bad((part), "%s:%d: %s is not so", __FILE__, __LINE__, #condition))

/* ---- chance ---- */
static inline uint64_t soak_below(uint64_t *chance, uint64_t n)
{
	*chance ^= *chance << 13;
	*chance ^= *chance >> 7;
	*chance ^= *chance << 17;
	return (*chance >> 11) % n;
}

/* ---- members ---- */
enum { SOAK_WORKER = 1, SOAK_SERVANT = 2 }; /* servants are waited for by workers */

struct soak_member {
	const char *name;
	uint32_t rank;  /* SOAK_WORKER .. */
	uint32_t index; /* of all members, from 1 on; names it in what it writes */
	uint64_t chance;
	/* One bounded operation; 0 = there was nothing to do. */
	int (*turn)(void *ctx, struct soak_member *member);
	void *ctx;
	_Atomic uint64_t operations;
	pthread_t thread;
};

/* Before soak_members_start. Returns the member. */
struct soak_member *soak_member_add(const char *name, uint32_t rank, int (*turn)(void *, struct soak_member *),
				    void *ctx);
void soak_members_seed(uint64_t seed);
int soak_members_start(void);
/* All rest, or one of them does not: it is named, and -1 returned. */
int soak_members_rest(void);
void soak_members_go_on(void);
void soak_members_end(void);
uint64_t soak_members_operations(void);
uint64_t soak_members_least(void); /* operations of the one that has done the fewest */

/* ---- parts ---- */
struct soak_part {
	const char *name;
	void (*walk)(void *ctx); /* everybody rests */
	/* Everybody rests: puts anew what comes and goes in this part; may be NULL. */
	void (*renew)(void *ctx);
	void (*close)(void *ctx);         /* all threads have ended: takes it apart, and judges what is left */
	uint64_t (*elsewhere)(void *ctx); /* operations of another process; may be NULL */
	const _Atomic uint64_t *gone;     /* frames that were discarded; may be NULL */
	void *ctx;
};

/* Each opens its part, adds its members, and fills `ret` in. 0; -errno; 1 = not on this machine (said on stdout). */
int soak_anon_open(struct soak_part *ret);
int soak_memfd_open(struct soak_part *ret);
int soak_paged_anon_open(struct soak_part *ret);
int soak_paged_memfd_open(struct soak_part *ret);
int soak_balloon_open(struct soak_part *ret);
int soak_host_open(struct soak_part *ret);
int soak_bitmap_open(struct soak_part *ret);

#endif
