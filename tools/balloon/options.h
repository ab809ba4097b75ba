/*
 * options: what pagehint-balloon was told on its command line.
 *
 * Not here: what is done about it. Owns nothing: strings are those of argv.
 * Invariants: after a parse that succeeded every number is within its bounds.
 */
#ifndef BALLOON_OPTIONS_H
#define BALLOON_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

/* bounds of what can be tuned, here and while the program runs */
#define BALLOON_ORDER_MAX 18
#define BALLOON_HOLD_BACK_MS_MAX 3600000
#define BALLOON_STATS_S_MAX 86400

struct balloon_options {
	const char *socket;  /* path of the vhost-user socket; required */
	const char *control; /* path of the control socket, NULL = none */
	const char *metrics; /* path of a socket, or a port of 127.0.0.1; NULL = none */
	const char *user;    /* to become when started as root */
	uint64_t features;   /* PAGEHINT_BALLOON_F_* to offer */
	uint64_t target_bytes;
	uint64_t rate_bytes;   /* discarded a second at the most, 0 = any */
	uint32_t hold_back_ms; /* between two reports that are acted upon, at the least */
	uint32_t least_order;  /* smaller reports are acknowledged, not discarded */
	uint32_t numbering;    /* PAGEHINT_BALLOON_NUMBERING_* */
	uint32_t stats_ms;     /* statistics are asked for this often; 0 = when somebody wants them */
	uint32_t seccomp;      /* 0 = no filter */
};

#define BALLOON_PARSED 0
#define BALLOON_HELP 1 /* asked for: printed already */

/* Return: BALLOON_PARSED; BALLOON_HELP; -EINVAL, and why is on `err`. */
int balloon_options_parse(int argc, char **argv, struct balloon_options *ret_options, FILE *out, FILE *err);

/* A number of bytes with K, M, G or T. Return: 0; -EINVAL. */
int balloon_parse_bytes(const char *text, uint64_t *ret_bytes);

#endif
