/*
 * qemu: a QEMU whose virtio balloon is driven from outside: registers over its qtest socket, commands over QMP, guest memory
 * through the file that backs it. Its processor only halts.
 *
 * The problem: a driver core must be proven against a device that nobody here wrote, without booting a guest. Why this
 * shape: qtest does single register accesses of the machine; the shared file is the guest's memory, and its st_blocks say
 * what the host pays. Every wait has a deadline; a test that fails takes its QEMU with it.
 */
#ifndef TESTS_PEERS_QEMU_QEMU_H
#define TESTS_PEERS_QEMU_QEMU_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <json-c/json.h>

#define QEMU_WAIT_MS 20000 /* for any one answer */

struct qemu_stream {
	int fd;
	size_t n;
	char buffer[16384];
};

struct qemu {
	pid_t pid;
	struct qemu_stream qtest;
	struct qemu_stream qmp;
	int ram_fd;
	unsigned char *ram;
	uint64_t ram_bytes;
	char dir[64];
	int is_mmio;
};

struct qemu_ask {
	uint64_t ram_bytes;
	const char *device;   /* properties of the balloon, each with a comma before it; "" = none */
	const char *incoming; /* a file that `migrate exec:` wrote; NULL = a new machine */
	void *ram_at;         /* where its memory is to be mapped; NULL = anywhere */
	int is_mmio;
};

/* Starts it and connects; fails the test with what QEMU said when it does not come up. */
void qemu_start(struct qemu *q, const struct qemu_ask *ask);
void qemu_stop(struct qemu *q);

/* One command of the qtest protocol; returns the number that came back, if any. */
uint64_t qtest(struct qemu *q, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One QMP command, e.g. "{'execute':'cont'}" with ' for ". Returns the answer's "return"; fails the test on an error. The caller puts it. */
struct json_object *qmp(struct qemu *q, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same where only that it worked is of interest. */
void qmp_do(struct qemu *q, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number in the answer, by a path like "ram.normal"; -1 when it is not there. */
int64_t qmp_number(struct qemu *q, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What the host pays for guest memory [bytes]. */
uint64_t qemu_host_bytes(const struct qemu *q);

/* A pause while another process works. */
void qemu_pause(void);

/* Monotonic time. */
uint64_t qemu_now(void);

#endif
