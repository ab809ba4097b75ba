/*
 * clients: a few connections that send lines and get text back, none of which can hold the program up.
 *
 * The problem: whoever asks for the state of a balloon may be slow, silent, or send without end. Why this shape: a fixed number
 * of places with bounded room for one line each; an answer is kept until the client has taken it, and nothing is read from
 * it meanwhile; who sends a line that is too long, or comes when all places are taken, is let go.
 * Not here: what a line means. Owns: the connections; listening sockets are the caller's.
 */
#ifndef BALLOON_CLIENTS_H
#define BALLOON_CLIENTS_H

#include <poll.h>
#include <stddef.h>

#define CLIENTS_MAX 16
#define CLIENT_LINE 4096

enum client_kind {
	CLIENT_CONTROL, /* one answer a line, any number of lines */
	CLIENT_METRICS  /* HTTP: lines up to an empty one, then one answer, then the end */
};

struct client {
	int fd; /* -1 = free */
	enum client_kind kind;
	size_t have;
	char line[CLIENT_LINE];
	char *answer; /* NULL = none waits */
	size_t answer_n;
	size_t sent;
	int last; /* close when the answer is sent */
};

struct clients {
	struct client places[CLIENTS_MAX];
	void *ctx;
	/*
	 * A line without its end; one that holds a zero byte is told as "\001". Returns the answer, from malloc; NULL: no memory, the
	 * client is let go.
	 */
	char *(*answer)(void *ctx, enum client_kind kind, const char *line);
};

void clients_init(struct clients *clients, char *(*answer)(void *ctx, enum client_kind kind, const char *line),
		  void *ctx);
void clients_close(struct clients *clients);

/* Takes one connection from a listening socket. */
void clients_accept(struct clients *clients, int listener, enum client_kind kind);

/* What to poll for: fills at most CLIENTS_MAX entries, those of free places with fd -1. Returns CLIENTS_MAX. */
size_t clients_poll(const struct clients *clients, struct pollfd *fds);
/* The same entries, with what poll said. */
void clients_serve(struct clients *clients, const struct pollfd *fds);

#endif
