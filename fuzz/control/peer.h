/*
 * peer: a client of the balloon's sockets, which sends any bytes, and knows what must come back.
 *
 * Of a control socket: an answer a line, in order; a line that holds a zero byte gets one that refuses. Of a metrics socket: one answer
 * after the first empty line, and the end. Who sends a line that is too long is let go.
 */
#ifndef FUZZ_CONTROL_PEER_H
#define FUZZ_CONTROL_PEER_H

#include "clients.h"
#include "input.h"

#define PEER_LINES 4096u

struct peer {
	int fd; /* -1: not there */
	enum client_kind kind;
	size_t line;                 /* bytes of the line that is being sent */
	int zero, other;             /* it has a zero byte; it has any but carriage returns */
	int doomed;                  /* it became too long */
	uint8_t refused[PEER_LINES]; /* of each whole line: a refusal is the only answer */
	uint32_t lines;
	char *got;
	size_t got_n;
};

void peer_connect(struct peer *peer, const void *address, size_t address_bytes);
void peer_send(struct peer *peer, const void *bytes, size_t n);
/* Takes what is there; returns how much that was. */
size_t peer_receive(struct peer *peer);
/* Nothing moves any more: is everything here? Then it hangs up. */
void peer_judge(struct peer *peer);
void peer_close(struct peer *peer);

/* An answer: 1 when it says that it is ok. */
int answer_is_ok(const char *answer);

#endif
