#include "vhost/wire.h"

#include <errno.h>

void ph_vhost_wire_init(struct ph_vhost_wire *wire, const struct ph_sys *sys, int fd)
{
	memset(wire, 0, sizeof(*wire));
	wire->sys = sys;
	wire->fd = fd;
}

void ph_vhost_wire_drop(struct ph_vhost_wire *wire)
{
	ph_vhost_message_close(wire->sys, &wire->in);
	wire->have = 0;
}

static int breaks(struct ph_vhost_wire *wire, int why)
{
	ph_vhost_wire_drop(wire);
	wire->broken = why;
	return why;
}

/* Reads until `have` is `until`; `to` is where byte number `from` belongs. 0, or what stands in the way. */
static int fill(struct ph_vhost_wire *wire, uint32_t from, uint32_t until, unsigned char *to)
{
	const struct ph_sys *sys = wire->sys;
	while (wire->have < until) {
		struct ph_vhost_message *in = &wire->in;
		uint32_t came = 0;
		int64_t r = sys->receive(sys->ctx, wire->fd, to + (wire->have - from), until - wire->have,
					 in->fds + in->fds_n, PH_VHOST_FDS - in->fds_n, &came);
		if (r >= 0 || r == -EMSGSIZE)
			in->fds_n += came;
		if (r == -EAGAIN || r == -EWOULDBLOCK)
			return -EAGAIN;
		if (r == -EMSGSIZE)
			return breaks(wire, -EPROTO);
		if (r == 0 || r == -ECONNRESET || r == -EPIPE)
			return breaks(wire, -ENODEV);
		if (r < 0)
			return breaks(wire, (int)r);
		wire->have += (uint32_t)r;
	}
	return 0;
}

/* request, flags and size stand first in the message, one behind the other, as they do on the wire */
_Static_assert(offsetof(struct ph_vhost_message, size) == 8, "the header is read in place");

int ph_vhost_wire_receive(struct ph_vhost_wire *wire, struct ph_vhost_message *ret_message)
{
	struct ph_vhost_message *in = &wire->in;
	if (wire->broken != 0)
		return wire->broken;
	if (wire->pending != 0)
		return -EAGAIN;
	if (wire->have < PH_VHOST_HEADER) {
		int r = fill(wire, 0, PH_VHOST_HEADER, (unsigned char *)in);
		if (r != 0)
			return r;
	}
	if (in->size > PH_VHOST_PAYLOAD)
		return breaks(wire, -EPROTO);
	int r = fill(wire, PH_VHOST_HEADER, PH_VHOST_HEADER + in->size, in->payload);
	if (r != 0)
		return r;
	memset(in->payload + in->size, 0, PH_VHOST_PAYLOAD - in->size); /* nothing of the message before */
	*ret_message = *in;
	in->fds_n = 0;
	wire->have = 0;
	return 0;
}

int ph_vhost_wire_flush(struct ph_vhost_wire *wire)
{
	const struct ph_sys *sys = wire->sys;
	if (wire->broken != 0)
		return wire->broken;
	while (wire->pending != 0) {
		uint32_t n = wire->sent == 0 ? wire->out_fds_n : 0;
		int64_t r = sys->send(sys->ctx, wire->fd, wire->out + wire->sent, wire->pending, wire->out_fds, n);
		if (r == -EAGAIN || r == -EWOULDBLOCK)
			return -EAGAIN;
		if (r == -EPIPE || r == -ECONNRESET)
			return breaks(wire, -ENODEV);
		if (r <= 0)
			return breaks(wire, r == 0 ? -EIO : (int)r);
		wire->sent += (uint32_t)r;
		wire->pending -= (uint32_t)r;
	}
	return 0;
}

int ph_vhost_wire_send(struct ph_vhost_wire *wire, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
		       const int *fds, uint32_t fds_n)
{
	const uint32_t header[3] = { request, flags, size };
	if (wire->broken != 0)
		return wire->broken;
	if (wire->pending != 0)
		return -EBUSY;
	if (size > PH_VHOST_PAYLOAD || fds_n > PH_VHOST_FDS)
		return -EINVAL;
	memcpy(wire->out, header, sizeof(header));
	if (size != 0)
		memcpy(wire->out + PH_VHOST_HEADER, payload, size);
	wire->pending = PH_VHOST_HEADER + size;
	wire->sent = 0;
	wire->out_fds_n = fds_n;
	if (fds_n != 0)
		memcpy(wire->out_fds, fds, fds_n * sizeof(int));
	int r = ph_vhost_wire_flush(wire);
	return r == -EAGAIN ? 0 : r;
}
