/*
 * The sockets of pagehint-balloon: a script of what clients send, in any pieces, and in which order they take answers and hang up.
 *
 * Checked: what peer.h says of answers; a refusal changes nothing of what was asked for before, and a request of request.h that is right does
 * what it says, and nothing else; no descriptor is kept in the end.
 */
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control.h"
#include "peer.h"
#include "report.h"
#include "request.h"

#define PEERS 3u
#define STEPS 96u

static struct {
	int listener;
	struct sockaddr_un address;
	socklen_t address_bytes;
	struct balloon_state *kept;
	struct engine engine;
	struct clients clients;
	struct peer peers[PEERS];
	struct request requests[STEPS];
	uint32_t n_requests;
} w;

static char *answer(void *ctx, enum client_kind kind, const char *line)
{
	static struct balloon_state before; /* the slots of it are not looked at */
	struct balloon_state *after = w.engine.state;
	SURE(ctx == &w);
	memcpy((void *)&before, (const void *)after, offsetof(struct balloon_state, slots));
	if (kind == CLIENT_METRICS)
		return report_metrics(&w.engine);
	char *text = control_answer(&w.engine, line);
	SURE(text != NULL && strchr(text, '\n') == text + strlen(text) - 1);
	int ok = answer_is_ok(text);
	if (!ok)
		SURE(memcmp((const void *)&before, (const void *)after, offsetof(struct balloon_state, slots)) == 0);
	for (uint32_t i = 0; i < w.n_requests; i++)
		if (strcmp(w.requests[i].line, line) == 0) {
			SURE(ok == w.requests[i].ok);
			if (ok)
				request_judge(&w.requests[i], &before, after);
		}
	SURE((pagehint_gate_closed(w.engine.gate) >> PAGEHINT_INHIBIT_EMBEDDER & 1) == after->paused);
	return text;
}

/* Once: the listener, and the memory of the state. */
static void set_up(void)
{
	const struct balloon_options options = { .features = PAGEHINT_BALLOON_F_ALL };
	if (w.kept != NULL)
		return;
	w.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	w.address.sun_family = AF_UNIX;
	w.address_bytes = sizeof(w.address);
	/* the kernel finds a name that belongs to no file */
	SURE(w.listener >= 0 && bind(w.listener, (struct sockaddr *)&w.address, sizeof(sa_family_t)) == 0);
	SURE(getsockname(w.listener, (struct sockaddr *)&w.address, &w.address_bytes) == 0);
	SURE(listen(w.listener, 8) == 0 && (w.kept = state_new(&options)) != NULL);
	for (uint32_t i = 0; i < PEERS; i++)
		w.peers[i].fd = -1;
}

static void connect_up(struct peer *peer, uint32_t kind)
{
	if (peer->fd >= 0)
		return;
	peer->kind = kind % 4 == 3 ? CLIENT_METRICS : CLIENT_CONTROL;
	peer_connect(peer, &w.address, w.address_bytes);
	clients_accept(&w.clients, w.listener, peer->kind);
}

static int serve(void)
{
	struct pollfd fds[CLIENTS_MAX];
	clients_poll(&w.clients, fds);
	int n = poll(fds, CLIENTS_MAX, 0);
	clients_serve(&w.clients, fds);
	return n;
}

static void act(struct input *in)
{
	unsigned char bytes[5000];
	uint32_t what = (uint32_t)take(in, 1);
	struct peer *peer = &w.peers[(what >> 4) % PEERS];
	switch (what & 15) {
	case 0:
	case 1:
	case 2: /* any bytes */
		what = (uint32_t)take(in, 1);
		take_bytes(in, bytes, what);
		peer_send(peer, bytes, what);
		break;
	case 3: /* many of the same */
		memset(bytes, (int)take(in, 1), sizeof(bytes));
		peer_send(peer, bytes, take(in, 2) % sizeof(bytes));
		break;
	case 4:
		peer_send(peer, "\r\n", 2);
		break;
	case 5:
	case 6:
		(void)peer_receive(peer);
		break;
	case 7:
		peer_close(peer);
		break;
	case 8:
		connect_up(peer, what >> 4);
		break;
	case 9:
	case 10:
		(void)serve();
		break;
	default:
		request_make(&w.requests[w.n_requests], in);
		peer_send(peer, w.requests[w.n_requests].line, strlen(w.requests[w.n_requests].line));
		peer_send(peer, "\n", 1);
		w.n_requests++;
	}
}

/* Everything that was sent is read, and every answer is taken. */
static void settle(void)
{
	size_t moved;
	do {
		moved = (size_t)serve();
		for (uint32_t i = 0; i < PEERS; i++)
			while (w.peers[i].fd >= 0) {
				size_t n = peer_receive(&w.peers[i]);
				moved += n;
				if (n == 0)
					break;
			}
	} while (moved != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct balloon_options options = { .features = PAGEHINT_BALLOON_F_ALL };
	struct input in = { data, bytes };
	set_up();
	int before = dup(0);
	memset((void *)w.kept, 0, offsetof(struct balloon_state, slots));
	SURE(before >= 0 && engine_open(&w.engine, &options, w.kept) == 0);
	clients_init(&w.clients, answer, &w);
	w.n_requests = 0;
	for (uint32_t i = 0; i < PEERS; i++)
		connect_up(&w.peers[i], (uint32_t)take(&in, 1));
	for (uint32_t i = 0; i < STEPS && in.left != 0; i++)
		act(&in);
	settle();
	for (uint32_t i = 0; i < PEERS; i++)
		peer_judge(&w.peers[i]);
	clients_close(&w.clients);
	engine_close(&w.engine);
	close(before);
	int after = dup(0); /* the lowest number that is free */
	SURE(after == before);
	close(after);
	return 0;
}
