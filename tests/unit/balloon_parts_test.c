/* The parts of pagehint-balloon on their own: its options, the state that outlives a worker, its clients, its journal. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagehint/balloon.h>

#include "clients.h"
#include "journal.h"
#include "listen.h"
#include "options.h"
#include "state.h"

/* ---- options ---- */

static int parse(struct balloon_options *options, const char *line)
{
	char words[512], *argv[32] = { NULL }, *rest = words, *word;
	char said[512] = "";
	int argc = 0;
	snprintf(words, sizeof(words), "%s", line);
	while ((word = strsep(&rest, " ")) != NULL)
		argv[argc++] = word;
	FILE *out = fmemopen(said, sizeof(said), "w");
	assert_non_null(out);
	int r = balloon_options_parse(argc, argv, options, out, out);
	fclose(out);
	assert_int_equal(r == BALLOON_PARSED, said[0] == 0); /* what is wrong is said */
	return r;
}

static void test_options(void **context)
{
	(void)context;
	static char line[512];
	struct balloon_options o;
	assert_int_equal(parse(&o, "x --socket /s"), BALLOON_PARSED);
	assert_int_equal(o.features, PAGEHINT_BALLOON_F_ALL & ~PAGEHINT_BALLOON_F_PAGE_POISON);
	assert_int_equal(o.numbering, PAGEHINT_BALLOON_NUMBERING_NEGOTIATED);
	assert_int_equal(o.seccomp, 1);
	strcpy(line, "x --socket /s --features stats,reporting --target 2G --order 9 --rate 64M --hold-back 250 "
		     "--numbering qemu --stats-interval 5 --no-seccomp");
	assert_int_equal(parse(&o, line), BALLOON_PARSED);
	assert_int_equal(o.features, PAGEHINT_BALLOON_F_STATS_VQ | PAGEHINT_BALLOON_F_PAGE_REPORTING);
	assert_int_equal(o.target_bytes, UINT64_C(2) << 30);
	assert_int_equal(o.least_order, 9);
	assert_int_equal(o.rate_bytes, UINT64_C(64) << 20);
	assert_int_equal(o.hold_back_ms, 250);
	assert_int_equal(o.numbering, PAGEHINT_BALLOON_NUMBERING_QEMU);
	assert_int_equal(o.stats_ms, 5000);
	assert_int_equal(o.seccomp, 0);
	assert_int_equal(parse(&o, "x --help"), BALLOON_HELP);
	assert_int_equal(parse(&o, "x --version"), BALLOON_HELP);
	static const char *const wrong[] = {
		"x",
		"x --socket",
		"x --socket /s left",
		"x --socket /s --target x",
		"x --socket /s --target -1",
		"x --socket /s --target 1KB",
		"x --socket /s --target 18446744073709551616",
		"x --socket /s --target 99999999999G",
		"x --socket /s --order 19",
		"x --socket /s --order 1K",
		"x --socket /s --features all",
		"x --socket /s --numbering linux",
		"x --socket /s --colour red",
		"x --socket /s --stats-interval 100000",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memset(&o, 0x5a, sizeof(o));
		assert_int_equal(parse(&o, wrong[i]), -EINVAL);
		assert_int_equal(o.seccomp, 0x5a5a5a5a);
	}
}

/* ---- state ---- */

static void test_state(void **context)
{
	(void)context;
	const struct balloon_options options = { .target_bytes = 7 };
	struct balloon_state *state = state_new(&options);
	uint64_t bytes = 0;
	assert_non_null(state);
	assert_int_equal(state->target_bytes, 7);
	assert_null(state_newest(state, &bytes));
	for (unsigned char i = 1; i < 5; i++) {
		memset(state_room(state), i, i);
		if (i > 1) { /* one that is being written is not the newest, nor harms it */
			const unsigned char *newest = state_newest(state, &bytes);
			assert_int_equal(bytes, i - 1);
			assert_int_equal(newest[0], i - 1);
		}
		state_publish(state, i);
		assert_int_equal(((const unsigned char *)state_newest(state, &bytes))[i - 1], i);
	}
	state_forget(state);
	assert_null(state_newest(state, &bytes));
	munmap(state, sizeof(*state));
}

/* ---- clients ---- */

static unsigned lines;

static char *echo(void *ctx, enum client_kind kind, const char *line)
{
	(void)ctx;
	lines++;
	return strdup(kind == CLIENT_CONTROL ? line : "metrics");
}

static void turn(struct clients *clients)
{
	struct pollfd fds[CLIENTS_MAX];
	for (int i = 0; i < 50; i++) {
		clients_poll(clients, fds);
		if (poll(fds, CLIENTS_MAX, 0) <= 0)
			return;
		clients_serve(clients, fds);
	}
}

static int client(struct clients *clients, size_t place, enum client_kind kind)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	clients->places[place].fd = pair[1];
	clients->places[place].kind = kind;
	return pair[0];
}

static void test_clients(void **context)
{
	static struct clients clients;
	static char text[3 * CLIENT_LINE];
	(void)context;
	clients_init(&clients, echo, NULL);
	int fd = client(&clients, 0, CLIENT_CONTROL), web = client(&clients, 1, CLIENT_METRICS),
	    flood = client(&clients, 2, CLIENT_CONTROL);
	assert_int_equal(write(fd, "on", 2), 2);
	turn(&clients);
	assert_int_equal(read(fd, text, sizeof(text)), -1);
	assert_int_equal(write(fd, "e\r\ntwo\nthr", 10), 10);
	turn(&clients);
	assert_int_equal(read(fd, text, sizeof(text)), 6);
	assert_memory_equal(text, "onetwo", 6);
	/* nothing hides behind a zero byte, and an empty line has none */
	assert_int_equal(write(fd, "ee\none\0two\n\0\n", 13), 13);
	turn(&clients);
	assert_int_equal(read(fd, text, sizeof(text)), 7);
	assert_memory_equal(text, "three\1\1", 7);
	assert_int_equal(write(web, "GET / HTTP/1.1\r\nHost: x\r\n\0\n\r\n", 29), 29);
	turn(&clients);
	assert_int_equal(read(web, text, sizeof(text)), 7);
	assert_int_equal(read(web, text, sizeof(text)), 0); /* and the end */
	memset(text, 'x', sizeof(text));
	assert_int_equal(write(flood, text, sizeof(text)), sizeof(text)); /* no line is that long */
	turn(&clients);
	assert_int_equal(clients.places[2].fd, -1);
	assert_int_equal(lines, 6);
	clients_close(&clients);
	close(fd);
	close(web);
	close(flood);
}

/* ---- sockets ---- */

static void test_listen(void **context)
{
	char directory[] = "/tmp/pagehint-listen-XXXXXX", path[64];
	(void)context;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/socket", directory);
	int fd = listen_path(path);
	assert_true(fd >= 0);
	assert_int_equal(listen_path(path), -EADDRINUSE); /* somebody is there */
	close(fd);
	fd = listen_path(path); /* left over */
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(listen_path(path), -EADDRINUSE); /* a file of somebody's */
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	rmdir(directory);
	assert_int_equal(listen_anywhere("0"), -EINVAL);
	assert_int_equal(listen_anywhere("65536"), -EINVAL);
}

/* ---- journal ---- */

static struct ph_vhost_message said(uint32_t request, uint32_t index, uint32_t num, int with_fd)
{
	struct ph_vhost_message message = { .request = request, .flags = PH_VHOST_VERSION, .size = 8 };
	memcpy(message.payload, &index, 4);
	memcpy(message.payload + 4, &num, 4);
	if (with_fd) {
		message.fds_n = 1;
		message.fds[0] = dup(0);
		assert_true(message.fds[0] >= 0);
	}
	return message;
}

static void note(struct journal *journal, uint32_t request, uint32_t index, uint32_t num, int with_fd)
{
	const struct ph_vhost_message message = said(request, index, num, with_fd);
	assert_non_null(journal_note(journal, &message));
}

/* What would be said again, as "request/index " */
static const char *again(const struct journal *journal)
{
	static char text[2048];
	const struct ph_vhost_message *message;
	uint32_t at = 0;
	text[0] = 0;
	while ((message = journal_next(journal, &at)) != NULL) {
		uint32_t index;
		memcpy(&index, message->payload, sizeof(index));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u/%u ", message->request, index);
	}
	return text;
}

static void test_journal(void **context)
{
	static struct journal journal;
	(void)context;
	int before = dup(0);
	close(before);
	note(&journal, PH_VHOST_SET_FEATURES, 5, 0, 0);
	note(&journal, PH_VHOST_SET_PROTOCOL_FEATURES, 1u << PH_VHOST_P_REPLY_ACK, 0, 0);
	note(&journal, PH_VHOST_SET_VRING_KICK, 1, 0, 1);
	note(&journal, PH_VHOST_SET_VRING_NUM, 1, 64, 0);
	note(&journal, PH_VHOST_SET_VRING_NUM, 0, 64, 0);
	note(&journal, PH_VHOST_SET_VRING_KICK, 1, 0, 1); /* instead of the one before */
	assert_string_equal(again(&journal), "16/8 2/5 8/0 8/1 12/1 ");
	struct ph_vhost_message base = said(PH_VHOST_GET_VRING_BASE, 1, 0, 0);
	assert_null(journal_note(&journal, &base));
	assert_true(journal_expects(&journal, &base));
	assert_string_equal(again(&journal), "16/8 2/5 8/0 8/1 12/1 "); /* until it is answered */
	journal_answered(&journal, &base);
	assert_string_equal(again(&journal), "16/8 2/5 8/0 8/1 ");
	note(&journal, PH_VHOST_SET_VRING_KICK, 1, 0, 1);
	note(&journal, PH_VHOST_SET_VRING_ENABLE, 1, 1, 0);
	note(&journal, PH_VHOST_SET_FEATURES, 4, 0,
	     0); /* another driver: nothing of the old one's rings is said again */
	assert_string_equal(again(&journal), "16/8 2/4 8/0 8/1 ");
	base = said(PH_VHOST_SET_FEATURES, 0, 0, 0);
	assert_false(journal_expects(&journal, &base));
	base.flags |= PH_VHOST_NEED_REPLY;
	assert_true(journal_expects(&journal, &base));
	journal_clear(&journal);
	assert_string_equal(again(&journal), "");
	int after = dup(0);
	assert_int_equal(before, after); /* every descriptor is closed */
	close(after);
}

static struct ph_vhost_message table(uint32_t request, uint32_t regions, uint64_t first)
{
	struct ph_vhost_message message = { .request = request, .flags = PH_VHOST_VERSION, .size = 8 + 32 * regions };
	memcpy(message.payload, &regions, 4);
	for (uint32_t i = 0; i < regions; i++) {
		const struct ph_vhost_region region = { first + i, 1, first + i, 0 };
		memcpy(message.payload + 8 + 32 * i, &region, sizeof(region));
		if (request != PH_VHOST_REM_MEM_REG)
			message.fds[message.fds_n++] = dup(0);
	}
	return message;
}

/* Of the configuration the poison is kept, over a new driver too (it may just be a pause), until a reset that is meant. */
static void test_journal_poison(void **context)
{
	static struct journal journal;
	struct ph_vhost_message m = { .request = PH_VHOST_SET_CONFIG, .flags = PH_VHOST_VERSION, .size = 16 };
	struct ph_vhost_config actual = { PAGEHINT_BALLOON_CONFIG_ACTUAL, 4, 0 },
			       poison = { PAGEHINT_BALLOON_CONFIG_POISON_VAL, 4, 0 };
	(void)context;
	note(&journal, PH_VHOST_SET_FEATURES, 16, 0, 0);
	memcpy(m.payload, &poison, sizeof(poison));
	assert_non_null(journal_note(&journal, &m));
	note(&journal, PH_VHOST_SET_OWNER, 0, 0, 0);
	memcpy(m.payload, &actual, sizeof(actual));
	assert_null(journal_note(&journal, &m));
	note(&journal, PH_VHOST_SET_FEATURES, 17, 0, 0);
	assert_string_equal(again(&journal), "3/0 2/17 25/12 ");
	const struct ph_vhost_message reset = said(PH_VHOST_RESET_DEVICE, 0, 0, 0);
	assert_null(journal_note(&journal, &reset));
	assert_string_equal(again(&journal), "3/0 2/17 ");
	actual.size = 12; /* one that writes both */
	memcpy(m.payload, &actual, sizeof(actual));
	m.size = 24;
	assert_non_null(journal_note(&journal, &m));
	assert_string_equal(again(&journal), "3/0 2/17 25/4 ");
	journal_clear(&journal);
}

static void test_journal_regions(void **context)
{
	static struct journal journal;
	struct ph_vhost_message message = table(PH_VHOST_SET_MEM_TABLE, 3, 10);
	(void)context;
	assert_non_null(journal_note(&journal, &message));
	message = table(PH_VHOST_ADD_MEM_REG, 1, 20);
	assert_non_null(journal_note(&journal, &message));
	assert_string_equal(again(&journal), "5/3 37/1 ");
	message = table(PH_VHOST_REM_MEM_REG, 1, 10);
	assert_null(journal_note(&journal, &message));
	message = table(PH_VHOST_REM_MEM_REG, 1, 20);
	assert_null(journal_note(&journal, &message));
	assert_string_equal(again(&journal), "5/2 ");
	uint32_t at = 0;
	assert_int_equal(ph_vhost_message_check(journal_next(&journal, &at)), 0); /* what is left is whole */
	message = table(PH_VHOST_SET_MEM_TABLE, 1, 30);
	assert_non_null(journal_note(&journal, &message));
	assert_string_equal(again(&journal), "5/1 ");
	for (uint64_t i = 0; i < PH_VHOST_SLOTS; i++) {
		message = table(PH_VHOST_ADD_MEM_REG, 1, 40 + i);
		assert_non_null(journal_note(&journal, &message));
	}
	message = table(PH_VHOST_ADD_MEM_REG, 1, 100);
	assert_null(journal_note(&journal, &message)); /* the backend has no more slots either */
	close(message.fds[0]);
	journal_clear(&journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),        cmocka_unit_test(test_state),
		cmocka_unit_test(test_clients),        cmocka_unit_test(test_listen),
		cmocka_unit_test(test_journal),        cmocka_unit_test(test_journal_regions),
		cmocka_unit_test(test_journal_poison),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
