/*
 * Who of many guests has how much: asks each guest's pagehint-balloon what the guest works with, has pagehint_policy_targets say
 * who gives and who gets, and tells the balloons, again and again. All that it decides is in that one call; the rest is asking
 * and telling.
 *
 * usage: arbiter CAPACITY_MIB PERIOD_MS ROUNDS SOCKET..
 *   CAPACITY_MIB   for all guests together
 *   PERIOD_MS      between two rounds; 1000 is usual
 *   ROUNDS         how often; 0 = until it is ended
 *   SOCKET         the control socket of a guest's pagehint-balloon (its option --control)
 *
 * Prints a line a guest and round: what it has, works with and should have. A guest that does not answer keeps what it was last
 * known to have: that is not promised to anybody else. One that never answered counts as having nothing. Exit 0: every guest answered in the last round; 1 if not; 2: usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include <pagehint/policy.h>

#define MIB (UINT64_C(1) << 20)
#define PAGE 4096u
#define GUESTS 64
#define ROOM (64 * MIB)      /* beside what a guest uses: to start something, and to cache files */
#define FLOOR (128 * MIB)    /* less than that and its kernel struggles */
#define STEP (256 * MIB)     /* that one guest gives in a round */
#define BAND (16 * MIB)      /* smaller moves are not worth a request */
#define STALE_NS 10000000000 /* older statistics say nothing */
#define WAIT_S 2             /* for an answer */
#define ANSWER 65536

struct guest {
	const char *path;
	int fd; /* -1: it has not answered, and is tried again next time */
};

static void hang_up(struct guest *guest)
{
	if (guest->fd >= 0)
		close(guest->fd);
	guest->fd = -1;
}

static int dial(struct guest *guest)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval wait = { .tv_sec = WAIT_S };
	if (guest->fd >= 0)
		return 0;
	if (strlen(guest->path) >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, guest->path, strlen(guest->path));
	guest->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (guest->fd >= 0 && connect(guest->fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    setsockopt(guest->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0)
		return 0;
	hang_up(guest);
	return -1;
}

/* One command, one line of answer, which says "ok": true. NULL: it did not; the line is cut, so that an answer that comes late is not
   taken for that of the next command. */
static json_object *ask(struct guest *guest, const char *command)
{
	char answer[ANSWER];
	size_t n = 0;
	if (dial(guest) != 0)
		return NULL;
	if (send(guest->fd, command, strlen(command), MSG_NOSIGNAL) == (ssize_t)strlen(command)) {
		while (n < sizeof(answer) - 1 && (n == 0 || answer[n - 1] != '\n')) {
			ssize_t got = recv(guest->fd, answer + n, sizeof(answer) - 1 - n, 0);
			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				break;
			n += (size_t)got;
		}
	}
	answer[n] = 0;
	json_object *said = n > 0 && answer[n - 1] == '\n' ? json_tokener_parse(answer) : NULL;
	json_object *ok;
	if (said != NULL && json_object_object_get_ex(said, "ok", &ok) && json_object_get_boolean(ok))
		return said;
	json_object_put(said);
	hang_up(guest);
	return NULL;
}

/* 1 and the number, or 0: the answer does not have it */
static int number(json_object *said, const char *group, const char *name, uint64_t *ret)
{
	json_object *members, *value;
	if (!json_object_object_get_ex(said, group, &members) || !json_object_object_get_ex(members, name, &value))
		return 0;
	int64_t v = json_object_get_int64(value);
	*ret = v < 0 ? 0 : (uint64_t)v;
	return 1;
}

/* What the guest has and works with. On failure *known stays as it was last, but its need is unknown: it keeps what it has. */
static int look(struct guest *guest, struct pagehint_policy_guest *known)
{
	uint64_t pages, actual, total, available, age;
	json_object *said = ask(guest, "{\"command\": \"stats\", \"refresh\": true}\n");
	known->flags = PAGEHINT_POLICY_NEED_UNKNOWN;
	if (said == NULL)
		return -1;
	int r = number(said, "progress", "memory_pages", &pages) && number(said, "progress", "actual_pages", &actual)
			? 0
			: -1;
	if (r == 0) {
		known->size = pages * PAGE;
		known->held = actual < pages ? (pages - actual) * PAGE : 0;
		known->floor = FLOOR < known->size ? FLOOR : known->size;
		if (number(said, "guest", "total", &total) && number(said, "guest", "available", &available) &&
		    number(said, "guest", "age_ns", &age) && age <= STALE_NS && available <= total) {
			known->need = total - available + ROOM;
			known->flags = 0;
		}
	}
	json_object_put(said);
	return r;
}

static int tell(struct guest *guest, const struct pagehint_policy_guest *known, uint64_t target)
{
	char command[96];
	if (target == known->held)
		return 0;
	snprintf(command, sizeof(command), "{\"command\": \"target\", \"bytes\": %" PRIu64 "}\n", known->size - target);
	json_object *said = ask(guest, command);
	json_object_put(said);
	return said != NULL ? 0 : -1;
}

/* Returns how many guests did not answer; -1: the numbers cannot be planned with. */
static int arbitrate(struct guest *guests, struct pagehint_policy_guest *known, uint32_t n, uint64_t capacity)
{
	static const char *const states[] = { "slack", "tight", "short" };
	const struct pagehint_policy_host host = {
		.struct_size = sizeof(host), .capacity = capacity, .step = STEP, .band = BAND, .align = MIB
	};
	uint64_t targets[GUESTS];
	uint32_t state;
	int silent[GUESTS], missing = 0;
	for (uint32_t i = 0; i < n; i++)
		silent[i] = look(&guests[i], &known[i]) != 0;
	int r = pagehint_policy_targets(&host, known, n, targets, &state);
	if (r < 0) {
		fprintf(stderr, "arbiter: %s\n", strerror(-r));
		return -1;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!silent[i])
			silent[i] = tell(&guests[i], &known[i], targets[i]) != 0;
		missing += silent[i];
		printf("%s: %s: has %" PRIu64 " MiB, works with ", states[state], guests[i].path, known[i].held / MIB);
		if (known[i].flags & PAGEHINT_POLICY_NEED_UNKNOWN)
			printf("an unknown amount");
		else
			printf("%" PRIu64, known[i].need / MIB);
		printf(", should have %" PRIu64 "%s\n", targets[i] / MIB, silent[i] ? " (does not answer)" : "");
	}
	fflush(stdout);
	return missing;
}

/* 0, or -1: not a number up to `most` */
static int take_number(const char *text, uint64_t most, uint64_t *ret)
{
	char *end;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno != 0 || text[0] < '0' || text[0] > '9' || *end != 0 || *ret > most ? -1 : 0;
}

int main(int argc, char **argv)
{
	static struct guest guests[GUESTS];
	static struct pagehint_policy_guest known[GUESTS];
	uint64_t capacity, period_ms, rounds;
	int n = argc - 4, missing = 0;
	if (n < 1 || n > GUESTS || take_number(argv[1], UINT64_MAX / MIB, &capacity) != 0 ||
	    take_number(argv[2], 3600000, &period_ms) != 0 || take_number(argv[3], UINT64_MAX, &rounds) != 0)
		return fprintf(stderr, "usage: arbiter CAPACITY_MIB PERIOD_MS ROUNDS SOCKET.. (at most %d)\n", GUESTS),
		       2;
	const struct timespec period = { (time_t)(period_ms / 1000), (long)(period_ms % 1000) * 1000000 };
	for (int i = 0; i < n; i++)
		guests[i] = (struct guest) { .path = argv[4 + i], .fd = -1 };
	for (uint64_t i = 0; missing >= 0 && (rounds == 0 || i < rounds); i++) {
		if (i != 0)
			nanosleep(&period, NULL);
		missing = arbitrate(guests, known, (uint32_t)n, capacity * MIB);
	}
	for (int i = 0; i < n; i++)
		hang_up(&guests[i]);
	return missing == 0 ? 0 : 1;
}
