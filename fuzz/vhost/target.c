/*
 * A script of what a frontend and its guest do: messages of any shape with descriptors of several kinds, bytes anywhere in the
 * shared memory, kicks, time, hanging up. The first byte says whether the session is set up rightly first; so the script
 * begins in the middle, where most of the code is.
 *
 * Checked: the handle comes back from every step, and no descriptor is kept in the end.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pagehint/device_control.h>
#include <pagehint/vhost.h>

#include "base/sys.h"
#include "vhost/message.h"

#define RAM 0x40000u
#define USER UINT64_C(0x700000000000)
#define GUEST UINT64_C(0x100000)
#define RING(i) (0x2000u * (i))
#define SIZE 16u

struct input {
	const uint8_t *bytes;
	size_t left;
};

struct session {
	struct pagehint_vhost *vhost;
	int socket;
	int ram_fd;
	int event;
	unsigned char *ram;
	uint64_t now;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint32_t take(struct input *in, size_t n)
{
	uint32_t value = 0;
	for (size_t i = 0; i < n; i++) {
		value |= in->left > 0 ? (uint32_t)*in->bytes << 8 * i : 0;
		in->bytes += in->left > 0;
		in->left -= in->left > 0;
	}
	return value;
}

static size_t take_bytes(struct input *in, void *to, size_t n)
{
	n = n < in->left ? n : in->left;
	if (n != 0)
		memcpy(to, in->bytes, n);
	in->bytes += n;
	in->left -= n;
	return n;
}

static int open_fds(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	if (dir == NULL)
		abort();
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

static void connect_up(struct session *s)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 ||
	    pagehint_vhost_attach(s->vhost, pair[1]) != 0)
		abort();
	s->socket = pair[0];
}

static void step(struct session *s)
{
	unsigned char sink[4096];
	uint64_t deadline = 0;
	int r = 0;
	for (int i = 0; i < 8 && r == 0 && deadline <= s->now; i++)
		r = pagehint_vhost_step(s->vhost, s->now, &deadline, NULL);
	while (recv(s->socket, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
	if (r != 0) {
		close(s->socket);
		connect_up(s);
	}
}

static void send_message(struct session *s, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
			 const int *fds, uint32_t n)
{
	unsigned char bytes[PH_VHOST_HEADER + 1024];
	const uint32_t header[3] = { request, flags, size };
	size = size <= 1024 ? size : 1024;
	memcpy(bytes, header, sizeof(header));
	if (size != 0)
		memcpy(bytes + sizeof(header), payload, size);
	(void)ph_sys_real.send(NULL, s->socket, bytes, PH_VHOST_HEADER + size, fds, n);
	step(s);
}

static void say_u64(struct session *s, uint32_t request, uint64_t value, int fd)
{
	send_message(s, request, PH_VHOST_VERSION, &value, sizeof(value), &fd, fd >= 0);
}

static void say_ring(struct session *s, uint32_t request, uint32_t index, uint32_t num)
{
	const struct ph_vhost_vring_state said = { index, num };
	send_message(s, request, PH_VHOST_VERSION, &said, sizeof(said), NULL, 0);
}

static void say_memory(struct session *s)
{
	struct {
		uint32_t n, padding;
		struct ph_vhost_region region;
	} table = { 1, 0, { GUEST, RAM, USER, 0 } };
	send_message(s, PH_VHOST_SET_MEM_TABLE, PH_VHOST_VERSION, &table, sizeof(table), &s->ram_fd, 1);
}

static void set_up(struct session *s)
{
	say_u64(s, PH_VHOST_SET_PROTOCOL_FEATURES, PH_VHOST_P(REPLY_ACK) | PH_VHOST_P(CONFIG), -1);
	say_u64(s, PH_VHOST_SET_FEATURES, pagehint_device_features(pagehint_vhost_device(s->vhost)), -1);
	say_memory(s);
	for (uint32_t i = 0; i < 5; i++) {
		const struct ph_vhost_vring_addr addr = {
			i, 0, USER + RING(i), USER + RING(i) + 0x1000, USER + RING(i) + 0x800, 0
		};
		say_ring(s, PH_VHOST_SET_VRING_NUM, i, SIZE);
		send_message(s, PH_VHOST_SET_VRING_ADDR, PH_VHOST_VERSION, &addr, sizeof(addr), NULL, 0);
		say_u64(s, PH_VHOST_SET_VRING_CALL, i, s->event);
		say_u64(s, PH_VHOST_SET_VRING_KICK, i, s->event);
	}
}

static void any_message(struct session *s, struct input *in)
{
	unsigned char payload[1024];
	uint32_t request = take(in, 1), how = take(in, 1), size = take(in, 1);
	uint32_t flags = (how & 3) == 3 ? take(in, 1) : PH_VHOST_VERSION | ((how & 1) ? PH_VHOST_NEED_REPLY : 0);
	int fds[10];
	uint32_t n = (how >> 2 & 3) == 3 ? how >> 4 & 7 : how >> 2 & 3;
	for (uint32_t i = 0; i < n; i++)
		fds[i] = (how >> 4 & 1) ? s->event : s->ram_fd;
	if ((how >> 7 & 1) != 0)
		size *= 4;
	memset(payload, 0, sizeof(payload));
	take_bytes(in, payload, size < sizeof(payload) ? size : sizeof(payload));
	send_message(s, request, flags, payload, size, fds, n);
}

/* A descriptor, and a head that makes it available. */
static void any_buffer(struct session *s, struct input *in)
{
	uint32_t ring = take(in, 1) % 5, slot = take(in, 1) % SIZE;
	uint64_t addr = GUEST + ((uint64_t)take(in, 2) << 4);
	uint32_t length = take(in, 1) << (take(in, 1) % 25);
	uint16_t flags = (uint16_t)take(in, 1), next = (uint16_t)(take(in, 1) % (SIZE + 1)), idx, head = (uint16_t)slot;
	unsigned char *desc = s->ram + RING(ring) + 16 * slot, *avail = s->ram + RING(ring) + 0x1000;
	memcpy(desc, &addr, 8);
	memcpy(desc + 8, &length, 4);
	memcpy(desc + 12, &flags, 2);
	memcpy(desc + 14, &next, 2);
	memcpy(&idx, avail + 2, 2);
	memcpy(avail + 4 + 2 * (idx % SIZE), &head, 2);
	idx++;
	memcpy(avail + 2, &idx, 2);
}

static void act(struct session *s, struct input *in)
{
	const uint64_t one = 1;
	uint32_t at, n;
	switch (take(in, 1) % 8) {
	case 0:
	case 1:
		any_message(s, in);
		break;
	case 2: /* bytes anywhere */
		at = (take(in, 2) << 2) % RAM;
		(void)take(in, 1); /* the kept inputs have one there */
		n = take(in, 1) % 64;
		take_bytes(in, s->ram + at, n < RAM - at ? n : RAM - at);
		break;
	case 3:
	case 4:
		any_buffer(s, in);
		break;
	case 5:
		if (write(s->event, &one, sizeof(one)) < 0)
			abort();
		break;
	case 6:
		s->now += (uint64_t)take(in, 2) << 16;
		(void)!pagehint_device_set_target(pagehint_vhost_device(s->vhost), s->now, take(in, 1) * 4096, NULL);
		(void)!pagehint_device_hint_start(pagehint_vhost_device(s->vhost), NULL);
		(void)!pagehint_device_stats_request(pagehint_vhost_device(s->vhost));
		break;
	default:
		if (take(in, 1) % 8 == 0)
			shutdown(s->socket, SHUT_RDWR);
		break;
	}
	step(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	struct session s = { .now = 1000000000 };
	/* small, so that most of the time is not spent on making it */
	const struct pagehint_device_opts device = { .struct_size = sizeof(device),
						     .numbering = PAGEHINT_BALLOON_NUMBERING_NEGOTIATED,
						     .queue_size = 64,
						     .budget = 256,
						     .partial_blocks = 1 };
	const struct pagehint_vhost_opts opts = { .struct_size = sizeof(opts), .device = &device };
	int before = open_fds();
	s.ram_fd = memfd_create("guest", MFD_CLOEXEC);
	s.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s.ram_fd < 0 || s.event < 0 || ftruncate(s.ram_fd, RAM) != 0)
		abort();
	s.ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_SHARED, s.ram_fd, 0);
	if (s.ram == MAP_FAILED || pagehint_vhost_new(&opts, &s.vhost) != 0)
		abort();
	connect_up(&s);
	if (take(&in, 1) & 1)
		set_up(&s);
	for (int i = 0; i < 64 && in.left > 0; i++)
		act(&s, &in);
	close(s.socket);
	if (pagehint_vhost_free(s.vhost) != 0)
		abort();
	munmap(s.ram, RAM);
	close(s.ram_fd);
	close(s.event);
	if (open_fds() != before)
		abort();
	return 0;
}
