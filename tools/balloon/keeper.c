#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confine.h"
#include "journal.h"
#include "vhost/wire.h"
#include "worker.h"

#define ANSWER_MS 5000 /* a worker that takes longer is dead */
#define END_MS 2000    /* for a worker to end by itself */
#define DEATHS_MAX 8u  /* within */
#define DEATHS_MS 20000

struct keeper {
	const struct balloon_options *options;
	struct balloon_state *state;
	const struct keeper_sockets *sockets;
	int signals;
	int ending;
	pid_t worker;
	struct ph_vhost_wire down; /* to the worker; fd -1 = none */
	struct ph_vhost_wire up;   /* to the frontend; fd -1 = none */
	struct journal journal;
	int is_asked;                         /* the frontend waits for an answer, to */
	const struct ph_vhost_message *noted; /* this one of the journal, or, when NULL, */
	struct ph_vhost_message asked;        /* this one, with descriptors of its own */
	unsigned deaths;
	int64_t first_death; /* [ms] */
};

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void hang_up(struct ph_vhost_wire *wire)
{
	if (wire->fd < 0)
		return;
	ph_vhost_wire_drop(wire);
	close(wire->fd);
	wire->fd = -1;
}

/* ---- workers ---- */

static void be_worker(struct keeper *k, int channel)
{
	const struct worker_sockets sockets = { channel, k->sockets->control, k->sockets->metrics };
	journal_clear(&k->journal); /* copies: the keeper's own stay */
	hang_up(&k->up);
	close(k->signals);
	close(k->sockets->frontend);
	_exit(worker_run(k->options, k->state, &sockets));
}

/* Return: 0; -errno. */
static int make_worker(struct keeper *k)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	pid_t pid = fork();
	int error = errno;
	if (pid == 0) {
		close(pair[0]);
		be_worker(k, pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -error;
	}
	k->worker = pid;
	ph_vhost_wire_init(&k->down, &ph_sys_real, pair[0]);
	return 0;
}

/* Takes a signal, if there is one. */
static void take_signal(struct keeper *k)
{
	struct signalfd_siginfo info;
	if (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) && info.ssi_signo != SIGCHLD)
		k->ending = 1;
}

/* Waits for a worker whose channel is closed; one that does not end is killed. Return: its status, as wait(2) has it. */
static int end_worker(struct keeper *k)
{
	struct pollfd signals = { .fd = k->signals, .events = POLLIN };
	const int64_t deadline = now_ms() + END_MS;
	int status = 0;
	hang_up(&k->down);
	while (k->worker > 0) {
		pid_t ended = waitpid(k->worker, &status, WNOHANG);
		if (ended == k->worker || (ended < 0 && errno == ECHILD)) {
			k->worker = 0;
			break;
		}
		int64_t left = deadline - now_ms();
		if (left <= 0)
			kill(k->worker, SIGKILL);
		if (poll(&signals, 1, left > 0 ? (int)left : END_MS) > 0)
			take_signal(k); /* SIGCHLD, when it has ended */
	}
	return status;
}

/* ---- messages ---- */

/* Waits until something can be read, or (to_send) sent. Return: 0; -ETIMEDOUT. */
static int wait_for(int fd, int to_send)
{
	struct pollfd p = { .fd = fd, .events = to_send ? POLLOUT : POLLIN };
	int r;
	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	return r > 0 ? 0 : -ETIMEDOUT;
}

/* Passes a message on. Return: 0; else that side is gone. */
static int pass(struct ph_vhost_wire *wire, const struct ph_vhost_message *m)
{
	int r = ph_vhost_wire_send(wire, m->request, m->flags, m->payload, m->size, m->fds, m->fds_n);
	while (r == 0 && wire->pending != 0) {
		r = wait_for(wire->fd, 1);
		if (r == 0)
			r = ph_vhost_wire_flush(wire);
		r = r == -EAGAIN ? 0 : r;
	}
	return r;
}

static void close_fds(struct ph_vhost_message *m)
{
	ph_vhost_message_close(&ph_sys_real, m);
}

/* Passes an answer of the worker to the frontend. Return: 0; else the frontend is gone. */
static int answer(struct keeper *k, struct ph_vhost_message *m)
{
	int r = pass(&k->up, m);
	close_fds(m);
	if (k->noted == NULL) {
		journal_answered(&k->journal, &k->asked);
		close_fds(&k->asked);
	}
	k->is_asked = 0;
	return r;
}

/* Waits for a new worker's answer to a message that is said again; the frontend may have had it already. Return: 0; else gone. */
static int hear(struct keeper *k, const struct ph_vhost_message *said)
{
	struct ph_vhost_message m;
	int r;
	while ((r = ph_vhost_wire_receive(&k->down, &m)) == -EAGAIN)
		if (wait_for(k->down.fd, 0) != 0)
			return -ETIMEDOUT;
	if (r != 0)
		return r;
	if (k->is_asked && k->noted == said)
		(void)answer(k, &m); /* a frontend that is gone is noticed by its socket */
	close_fds(&m);
	return 0;
}

/* Tells a new worker all that the frontend has said, and asks again what was not answered. Return: 0; else it is gone. */
static int tell_again(struct keeper *k)
{
	const struct ph_vhost_message *m;
	uint32_t at = 0;
	int r = 0;
	while (r == 0 && (m = journal_next(&k->journal, &at)) != NULL) {
		r = pass(&k->down, m);
		if (r == 0 && journal_expects(&k->journal, m))
			r = hear(k, m);
	}
	return r == 0 && k->is_asked && k->noted == NULL ? pass(&k->down, &k->asked) : r;
}

/* Return: 1 too many died lately. */
static int count_death(struct keeper *k)
{
	int64_t at = now_ms();
	if (k->deaths == 0 || at - k->first_death > DEATHS_MS) {
		k->deaths = 0;
		k->first_death = at;
	}
	return ++k->deaths > DEATHS_MAX;
}

static void tell_death(int status)
{
	if (WIFSIGNALED(status))
		fprintf(stderr, "pagehint-balloon: a worker was killed by signal %d: replacing it\n", WTERMSIG(status));
	else
		fprintf(stderr, "pagehint-balloon: a worker ended with status %d: replacing it\n", WEXITSTATUS(status));
}

/* status: of the worker that ended. Return: 0 there is a worker that knows everything; -errno there cannot be one. */
static int replace_worker(struct keeper *k, int status)
{
	int r;
	do {
		tell_death(status);
		if (count_death(k)) {
			fprintf(stderr, "pagehint-balloon: %u workers died within %d s: giving up\n", k->deaths,
				DEATHS_MS / 1000);
			return -ECHILD;
		}
		k->state->restarts++;
		r = make_worker(k);
		if (r != 0)
			return r;
		r = tell_again(k);
		status = r != 0 ? end_worker(k) : 0;
	} while (r != 0);
	return 0;
}

/* The frontend is gone, and with it the guest: the next one finds everything new. */
static int begin_anew(struct keeper *k)
{
	hang_up(&k->up);
	(void)end_worker(k);
	if (k->is_asked && k->noted == NULL)
		close_fds(&k->asked);
	k->is_asked = 0;
	journal_clear(&k->journal);
	state_forget(k->state);
	return make_worker(k);
}

/* ---- what happens ---- */

static int from_frontend(struct keeper *k)
{
	struct ph_vhost_message m;
	int r = ph_vhost_wire_receive(&k->up, &m);
	if (r == -EAGAIN)
		return 0;
	if (r != 0)
		return begin_anew(k);
	k->noted = ph_vhost_message_check(&m) == 0 ? journal_note(&k->journal, &m) : NULL;
	k->is_asked = journal_expects(&k->journal, &m);
	k->asked = m;
	r = pass(&k->down, &m);
	if (!k->is_asked && k->noted == NULL)
		close_fds(&m); /* not to be said again: a worker that dies of it takes it along */
	return r != 0 ? replace_worker(k, end_worker(k)) : 0;
}

static int from_worker(struct keeper *k)
{
	struct ph_vhost_message m;
	int r = ph_vhost_wire_receive(&k->down, &m);
	if (r == -EAGAIN)
		return 0;
	if (r == 0)
		return answer(k, &m) != 0 ? begin_anew(k) : 0;
	int status = end_worker(k);
	/* it ends by itself only over a message that was none */
	return WIFEXITED(status) && WEXITSTATUS(status) == WORKER_DONE ? begin_anew(k) : replace_worker(k, status);
}

static void from_listener(struct keeper *k)
{
	int fd = accept4(k->sockets->frontend, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		ph_vhost_wire_init(&k->up, &ph_sys_real, fd);
}

static int turn(struct keeper *k)
{
	struct pollfd fds[] = {
		{ .fd = k->signals, .events = POLLIN },
		{ .fd = k->down.fd, .events = POLLIN },
		{ .fd = k->up.fd < 0 ? k->sockets->frontend : -1, .events = POLLIN },
		{ .fd = k->is_asked ? -1 : k->up.fd, .events = POLLIN }, /* one question at a time */
	};
	if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (fds[0].revents != 0)
		take_signal(k); /* a worker that died is noticed by its channel */
	if (fds[1].revents != 0)
		return from_worker(k); /* what stands in fds may be gone now */
	if (fds[2].revents != 0)
		from_listener(k);
	return fds[3].revents != 0 ? from_frontend(k) : 0;
}

static int watch_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int keeper_run(const struct balloon_options *options, struct balloon_state *state, const struct keeper_sockets *sockets)
{
	static struct keeper keeper;
	struct keeper *k = &keeper;
	*k = (struct keeper) { .options = options, .state = state, .sockets = sockets };
	k->up.fd = k->down.fd = -1;
	k->signals = watch_signals();
	int r = k->signals < 0 ? k->signals : 0;
	if (r == 0 && options->seccomp)
		r = confine_calls(CONFINE_KEEPER);
	if (r == 0)
		r = make_worker(k);
	while (r == 0 && !k->ending)
		r = turn(k);
	if (r != 0)
		fprintf(stderr, "pagehint-balloon: %s\n", strerror(-r));
	hang_up(&k->up);
	(void)end_worker(k);
	journal_clear(&k->journal);
	if (k->signals >= 0)
		close(k->signals);
	return r == 0 ? 0 : 1;
}
