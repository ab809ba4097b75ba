#include "clients.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void let_go(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->answer);
	c->answer = NULL;
	c->fd = -1;
}

void clients_init(struct clients *clients, char *(*answer)(void *ctx, enum client_kind kind, const char *line),
		  void *ctx)
{
	memset(clients, 0, sizeof(*clients));
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		clients->places[i].fd = -1;
	clients->answer = answer;
	clients->ctx = ctx;
}

void clients_close(struct clients *clients)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		let_go(&clients->places[i]);
}

void clients_accept(struct clients *clients, int listener, enum client_kind kind)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &clients->places[i];
		if (c->fd >= 0)
			continue;
		*c = (struct client) { .fd = fd, .kind = kind };
		return;
	}
	close(fd);
}

size_t clients_poll(const struct clients *clients, struct pollfd *fds)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		const struct client *c = &clients->places[i];
		fds[i] = (struct pollfd) { .fd = c->fd, .events = c->answer != NULL ? POLLOUT : POLLIN };
	}
	return CLIENTS_MAX;
}

static void send_answer(struct client *c)
{
	while (c->sent < c->answer_n) {
		ssize_t n = send(c->fd, c->answer + c->sent, c->answer_n - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			let_go(c);
			return;
		}
		c->sent += (size_t)n;
	}
	free(c->answer);
	c->answer = NULL;
	if (c->last)
		let_go(c);
}

/* Asks for the answer to a line, unless it is one of the lines that HTTP has before the empty one. */
static void take_line(struct clients *clients, struct client *c, const char *line)
{
	if (c->kind == CLIENT_METRICS && *line != 0)
		return;
	c->answer = clients->answer(clients->ctx, c->kind, line);
	if (c->answer == NULL) {
		let_go(c);
		return;
	}
	c->answer_n = strlen(c->answer);
	c->sent = 0;
	c->last = c->kind == CLIENT_METRICS;
	send_answer(c);
}

/* What is no text becomes a line that means nothing: what follows a zero byte must not be hidden by it. */
static void refuse_zeros(char *line, size_t n)
{
	if (memchr(line, 0, n) != NULL)
		memcpy(line, "\001", 2);
}

/* The whole lines that are here, one after the other, as long as their answers are taken. */
static void take_lines(struct clients *clients, struct client *c)
{
	while (c->fd >= 0 && c->answer == NULL) {
		char line[CLIENT_LINE];
		const char *end = memchr(c->line, '\n', c->have);
		if (end == NULL)
			break;
		size_t n = (size_t)(end - c->line), used = n + 1;
		memcpy(line, c->line, n);
		while (n > 0 && line[n - 1] == '\r')
			n--;
		line[n] = 0;
		refuse_zeros(line, n);
		c->have -= used;
		memmove(c->line, c->line + used, c->have);
		take_line(clients, c, line);
	}
	if (c->fd >= 0 && c->answer == NULL && c->have == sizeof(c->line))
		let_go(c); /* no line is that long */
}

static void receive(struct clients *clients, struct client *c)
{
	ssize_t n = recv(c->fd, c->line + c->have, sizeof(c->line) - c->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		let_go(c);
		return;
	}
	c->have += (size_t)n;
	take_lines(clients, c);
}

void clients_serve(struct clients *clients, const struct pollfd *fds)
{
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &clients->places[i];
		if (c->fd < 0 || fds[i].fd != c->fd || fds[i].revents == 0)
			continue;
		if (c->answer == NULL) {
			receive(clients, c);
			continue;
		}
		send_answer(c);
		if (c->fd >= 0 && c->answer == NULL)
			take_lines(clients, c);
	}
}
