/*
 * play: a source through one way of reporting, in the source's own time.
 *
 * Not here: what is played (source.h), the sums (account.h), what is published (order.c).
 */
#ifndef BENCH_ORDER_PLAY_H
#define BENCH_ORDER_PLAY_H

#include <stdint.h>

#include "source.h"

enum way {
	WAY_AGED,    /* zone and reporter: what stayed free from one look to the next */
	WAY_AT_ONCE, /* the same, at the first look */
	WAY_KERNEL,  /* the model of the Linux driver on its lists */
	WAY_NONE     /* the zone, and nobody reports: what the path of allocations costs by itself */
};

struct setting {
	enum way way;
	uint32_t order;    /* the least that is reported */
	uint64_t delay_ns; /* between two looks; of the driver: from a free to the report; 0 = the reporter's default */
};

struct figures {
	uint64_t requests;      /* of 32 runs or blocks at the most: exits */
	uint64_t returned;      /* bytes */
	uint64_t refaults;      /* bytes */
	uint64_t resent;        /* bytes given back again, untouched, with others of their granule or block */
	uint64_t rereported;    /* bytes: whole granules or blocks of that kind, for nothing */
	double to_95_s;         /* after all is freed at the end; -1: not within a minute */
	double unreturned_gibs; /* GiB-seconds */
	double unreturned;      /* of what it would be if nobody gave back */
	double path_ns;         /* CPU time of an allocation or a free */
	double path_most_ns;    /* the same; of whoever plays more than once: path_ns is then the least */
};

/* 0, or 1: said why on standard error */
int play(const struct source *source, const struct setting *setting, struct figures *ret_figures);

#endif
