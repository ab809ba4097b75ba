#include "peer.h"

#include <errno.h>

#include <sys/socket.h>
#include <unistd.h>

#include <json-c/json.h>

void peer_connect(struct peer *peer, const void *address, size_t address_bytes)
{
	peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	SURE(peer->fd >= 0 && connect(peer->fd, address, (socklen_t)address_bytes) == 0);
}

static void note(struct peer *peer, unsigned char byte)
{
	if (peer->doomed)
		return;
	if (byte != '\n') {
		peer->zero |= byte == 0;
		peer->other |= byte != '\r';
		peer->doomed = ++peer->line == CLIENT_LINE;
		return;
	}
	if (peer->kind == CLIENT_METRICS && peer->other == 0)
		peer->lines = 1;
	if (peer->kind == CLIENT_CONTROL) {
		SURE(peer->lines < PEER_LINES);
		peer->refused[peer->lines++] = (uint8_t)peer->zero;
	}
	peer->line = 0;
	peer->zero = peer->other = 0;
}

void peer_send(struct peer *peer, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	size_t lines = 0;
	for (size_t i = 0; i < n; i++)
		lines += at[i] == '\n';
	if (peer->fd < 0 || peer->lines + lines >= PEER_LINES)
		return;
	ssize_t sent = send(peer->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (ssize_t i = 0; i < sent; i++)
		if (peer->kind == CLIENT_CONTROL || peer->lines == 0)
			note(peer, at[i]);
}

size_t peer_receive(struct peer *peer)
{
	char bytes[4096];
	ssize_t n;
	if (peer->fd < 0)
		return 0;
	n = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n <= 0)
		return 0;
	peer->got = realloc(peer->got, peer->got_n + (size_t)n + 1);
	SURE(peer->got != NULL);
	memcpy(peer->got + peer->got_n, bytes, (size_t)n);
	peer->got_n += (size_t)n;
	peer->got[peer->got_n] = 0;
	return (size_t)n;
}

int answer_is_ok(const char *answer)
{
	struct json_object *object = json_tokener_parse(answer), *ok, *error;
	SURE(object != NULL && json_object_object_get_ex(object, "ok", &ok) &&
	     json_object_is_type(ok, json_type_boolean));
	int r = json_object_get_boolean(ok);
	SURE(json_object_object_get_ex(object, "error", &error) == !r);
	json_object_put(object);
	return r;
}

static void judge_lines(const struct peer *peer)
{
	char *at = peer->got;
	uint32_t n = 0;
	for (; at != NULL && *at != 0; n++) {
		char *end = strchr(at, '\n');
		SURE(end != NULL && n < peer->lines);
		*end = 0;
		SURE(!answer_is_ok(at) || !peer->refused[n]);
		at = end + 1;
	}
	SURE(n == peer->lines);
}

void peer_judge(struct peer *peer)
{
	char byte;
	if (peer->fd < 0)
		return;
	SURE(peer->got_n == (peer->got == NULL ? 0 : strlen(peer->got)));
	if (peer->kind == CLIENT_CONTROL)
		judge_lines(peer);
	else
		SURE(peer->lines == 0 ? peer->got_n == 0 : strncmp(peer->got, "HTTP/1.0 200 OK\r\n", 17) == 0);
	/* let go, or there still */
	int gone = peer->doomed || (peer->kind == CLIENT_METRICS && peer->lines != 0);
	ssize_t r = recv(peer->fd, &byte, 1, MSG_DONTWAIT);
	SURE(gone ? r == 0 || (r < 0 && errno == ECONNRESET) : r < 0 && errno == EAGAIN);
	peer_close(peer);
}

void peer_close(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	free(peer->got);
	memset(peer, 0, sizeof(*peer));
	peer->fd = -1;
}
