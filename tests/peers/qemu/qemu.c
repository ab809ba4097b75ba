#include "qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t qemu_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void qemu_pause(void)
{
	(void)poll(NULL, 0, 1);
}

/* ---- the process ---- */

/* A BIOS that halts: the reset vector jumps nowhere. */
static void write_bios(const struct qemu *q)
{
	static const unsigned char reset[] = { 0xfa, 0xf4, 0xeb, 0xfd }; /* cli; hlt; jmp back */
	char path[96];
	unsigned char *rom = malloc(65536);
	assert_non_null(rom);
	memset(rom, 0xf4, 65536);
	memcpy(rom + 0xfff0, reset, sizeof(reset));
	snprintf(path, sizeof(path), "%s/bios", q->dir);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, rom, 65536), 65536);
	close(fd);
	free(rom);
}

struct line {
	char *argv[64];
	char text[64][256];
	int n;
};

static void add(struct line *line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(line->text[line->n], sizeof(line->text[0]), format, args);
	va_end(args);
	line->argv[line->n] = line->text[line->n];
	line->n++;
}

static void command_line(const struct qemu *q, const struct qemu_ask *ask, struct line *line)
{
	const char *d = q->dir;
	add(line, "qemu-system-x86_64");
	add(line, "-nodefaults");
	add(line, "-no-user-config");
	add(line, "-display");
	add(line, "none");
	add(line, "-m");
	add(line, "%llu", (unsigned long long)(ask->ram_bytes >> 20));
	add(line, "-machine");
	add(line, "%s,accel=tcg,memory-backend=m", ask->is_mmio ? "microvm" : "pc");
	add(line, "-object");
	add(line, "memory-backend-file,id=m,size=%lluM,share=on,mem-path=%s/ram",
	    (unsigned long long)(ask->ram_bytes >> 20), d);
	add(line, "-object");
	add(line, "iothread,id=io0");
	add(line, "-bios");
	add(line, "%s/bios", d);
	add(line, "-qtest");
	add(line, "unix:%s/qtest,server=on,wait=off", d);
	add(line, "-qtest-log");
	add(line, "/dev/null");
	add(line, "-qmp");
	add(line, "unix:%s/qmp,server=on,wait=off", d);
	if (ask->is_mmio) {
		add(line, "-global");
		add(line, "virtio-mmio.force-legacy=false");
	}
	add(line, "-device");
	if (ask->is_mmio)
		add(line, "virtio-balloon-device,id=b0,iothread=io0%s", ask->device);
	else
		add(line, "virtio-balloon-pci,id=b0,addr=4,disable-legacy=on,iothread=io0%s", ask->device);
	if (ask->incoming != NULL) {
		add(line, "-incoming");
		add(line, "exec:cat %s", ask->incoming);
	}
}

static void spawn(struct qemu *q, const struct qemu_ask *ask)
{
	struct line line;
	char err[96];
	memset(&line, 0, sizeof(line));
	command_line(q, ask, &line);
	snprintf(err, sizeof(err), "%s/stderr", q->dir);
	pid_t parent = getpid();
	q->pid = fork();
	assert_true(q->pid >= 0);
	if (q->pid != 0)
		return;
	int fd = open(err, O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(126);
	dup2(fd, 2);
	execvp(line.argv[0], line.argv);
	_exit(127);
}

/* What QEMU said before it ended. */
static void blame(const struct qemu *q, const char *what)
{
	char path[96], text[1024] = "";
	snprintf(path, sizeof(path), "%s/stderr", q->dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		close(fd);
	}
	fail_msg("%s: %s", what, text);
}

static void connect_to(struct qemu *q, struct qemu_stream *stream, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	uint64_t give_up = qemu_now() + QEMU_WAIT_MS * UINT64_C(1000000);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", q->dir, name);
	for (;;) {
		stream->n = 0;
		stream->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_true(stream->fd >= 0);
		if (connect(stream->fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0)
			return;
		close(stream->fd);
		if (waitpid(q->pid, NULL, WNOHANG) != 0 || qemu_now() > give_up)
			blame(q, "QEMU did not come up");
		qemu_pause();
	}
}

static void map_ram(struct qemu *q, const struct qemu_ask *ask)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/ram", q->dir);
	q->ram_fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(q->ram_fd >= 0);
	q->ram_bytes = ask->ram_bytes;
	q->ram = mmap(ask->ram_at, (size_t)q->ram_bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | (ask->ram_at != NULL ? MAP_FIXED : 0), q->ram_fd, 0);
	assert_ptr_not_equal(q->ram, MAP_FAILED);
}

/* ---- what is left over when a test fails ---- */

#define MACHINES 16
static char live[MACHINES][sizeof(((struct qemu *)0)->dir)];

static void remove_files(const char *dir)
{
	static const char *const files[] = { "bios", "qtest", "qmp", "ram", "stderr" };
	char path[96];
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%.63s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* A failed test does not come to qemu_stop; its QEMU ends with this process, its files here. */
static void clean_up(void)
{
	for (size_t i = 0; i < MACHINES; i++)
		if (live[i][0] != '\0')
			remove_files(live[i]);
}

static void note(const char *dir, const char *as)
{
	for (size_t i = 0; i < MACHINES; i++)
		if (strcmp(live[i], dir) == 0) {
			strcpy(live[i], as);
			return;
		}
}

void qemu_start(struct qemu *q, const struct qemu_ask *ask)
{
	static int is_registered;
	if (!is_registered)
		is_registered = atexit(clean_up) == 0;
	memset(q, 0, sizeof(*q));
	strcpy(q->dir, "/dev/shm/pagehint-qemu-XXXXXX");
	assert_non_null(mkdtemp(q->dir));
	note("", q->dir);
	q->is_mmio = ask->is_mmio;
	write_bios(q);
	spawn(q, ask);
	connect_to(q, &q->qtest, "qtest");
	connect_to(q, &q->qmp, "qmp");
	qmp_do(q, "{'execute':'qmp_capabilities'}");
	map_ram(q, ask); /* QEMU has made the file: it answers only afterwards */
}

void qemu_stop(struct qemu *q)
{
	kill(q->pid, SIGKILL);
	waitpid(q->pid, NULL, 0);
	close(q->qtest.fd);
	close(q->qmp.fd);
	munmap(q->ram, (size_t)q->ram_bytes);
	close(q->ram_fd);
	remove_files(q->dir);
	note(q->dir, "");
}

uint64_t qemu_host_bytes(const struct qemu *q)
{
	struct stat st;
	assert_int_equal(fstat(q->ram_fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* ---- lines over a socket ---- */

static void send_line(const struct qemu_stream *stream, const char *text)
{
	size_t n = strlen(text);
	assert_int_equal(write(stream->fd, text, n), n);
	assert_int_equal(write(stream->fd, "\n", 1), 1);
}

/* The next line, without its end; it replaces the one before. */
static void read_line(const struct qemu *q, struct qemu_stream *stream, char *line, size_t room)
{
	for (;;) {
		char *end = memchr(stream->buffer, '\n', stream->n);
		if (end != NULL) {
			size_t n = (size_t)(end - stream->buffer);
			assert_true(n < room);
			memcpy(line, stream->buffer, n);
			line[n] = '\0';
			stream->n -= n + 1;
			memmove(stream->buffer, end + 1, stream->n);
			return;
		}
		struct pollfd wait = { .fd = stream->fd, .events = POLLIN };
		if (poll(&wait, 1, QEMU_WAIT_MS) != 1)
			blame(q, "QEMU does not answer");
		ssize_t n = read(stream->fd, stream->buffer + stream->n, sizeof(stream->buffer) - stream->n);
		if (n <= 0)
			blame(q, "QEMU is gone");
		stream->n += (size_t)n;
	}
}

uint64_t qtest(struct qemu *q, const char *format, ...)
{
	char text[256];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	send_line(&q->qtest, text);
	read_line(q, &q->qtest, text, sizeof(text));
	if (strncmp(text, "OK", 2) != 0)
		fail_msg("qtest: %s", text);
	return text[2] == ' ' ? strtoull(text + 3, NULL, 0) : 0;
}

static struct json_object *qmp_va(struct qemu *q, const char *format, va_list args)
{
	char text[16384];
	struct json_object *answer, *result;
	vsnprintf(text, sizeof(text), format, args);
	for (char *c = text; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	send_line(&q->qmp, text);
	for (;;) {
		read_line(q, &q->qmp, text, sizeof(text));
		answer = json_tokener_parse(text);
		assert_non_null(answer);
		if (json_object_object_get_ex(answer, "error", NULL))
			fail_msg("QMP: %s", text);
		if (json_object_object_get_ex(answer, "return", &result))
			break;
		json_object_put(answer); /* the greeting, or an event */
	}
	json_object_get(result);
	json_object_put(answer);
	return result;
}

struct json_object *qmp(struct qemu *q, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	struct json_object *result = qmp_va(q, format, args);
	va_end(args);
	return result;
}

void qmp_do(struct qemu *q, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	json_object_put(qmp_va(q, format, args));
	va_end(args);
}

int64_t qmp_number(struct qemu *q, const char *path, const char *format, ...)
{
	char name[64];
	va_list args;
	va_start(args, format);
	struct json_object *result = qmp_va(q, format, args), *at = result;
	va_end(args);
	while (at != NULL && *path != '\0') {
		size_t n = strcspn(path, ".");
		assert_true(n < sizeof(name));
		memcpy(name, path, n);
		name[n] = '\0';
		path += n + (path[n] == '.');
		if (!json_object_object_get_ex(at, name, &at))
			at = NULL;
	}
	int64_t number = at == NULL ? -1 : json_object_get_int64(at);
	json_object_put(result);
	return number;
}
