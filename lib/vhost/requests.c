/* What each message does. A handler that returns -EAGAIN is called again with the same message, from its start. */
#include <errno.h>
#include <stdlib.h>

#include "vhost/session.h"

#define OFFERED                                                                                  \
	(PH_VHOST_P(MQ) | PH_VHOST_P(REPLY_ACK) | PH_VHOST_P(BACKEND_REQ) | PH_VHOST_P(CONFIG) | \
	 PH_VHOST_P(INFLIGHT) | PH_VHOST_P(RESET_DEVICE) | PH_VHOST_P(MEM_SLOTS))

/* ---- answers ---- */

int ph_vhost_answer(struct pagehint_vhost *v, uint32_t request, const void *payload, uint32_t size)
{
	const uint32_t n = v->answer_fd >= 0;
	return ph_vhost_wire_send(&v->wire, request, PH_VHOST_VERSION | PH_VHOST_REPLY, payload, size, &v->answer_fd,
				  n);
}

static int answer_u64(struct pagehint_vhost *v, const struct ph_vhost_message *m, uint64_t value)
{
	return ph_vhost_answer(v, m->request, &value, sizeof(value));
}

/* ---- features ---- */

static int get_features(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	return answer_u64(v, m, pagehint_device_features(v->device) | PH_VHOST_F_PROTOCOL);
}

static int disable_all(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	(void)m;
	if (ph_vhost_rings_stop(v) != 0)
		return -EAGAIN;
	for (uint32_t i = 0; i < PH_VHOST_QUEUES; i++)
		v->rings[i].enabled = v->rings[i].started = v->rings[i].placed = 0;
	return 0;
}

/* A frontend that has no word for a reset says the features again when a driver begins anew. */
static int reset(struct pagehint_vhost *v)
{
	uint32_t poison = 0;
	if (pagehint_device_config_read(v->device, PAGEHINT_BALLOON_CONFIG_POISON_VAL, &poison, sizeof(poison)) == 0 &&
	    poison != 0)
		v->poison = poison;
	/* the old rings lie in memory that may be anything by now */
	if (disable_all(v, NULL) != 0 || pagehint_device_reset(v->device) == -EAGAIN)
		return -EAGAIN;
	free(v->state); /* of the driver before */
	v->state = NULL;
	v->ran = 0;
	v->met = UINT32_MAX;
	v->events |= PAGEHINT_VHOST_EVENT_RESET;
	return 0;
}

/* The poison of the driver before holds until the next one writes its own: the guest may just have been paused. */
static void keep_poison(struct pagehint_vhost *v, uint64_t features)
{
	uint32_t poison = v->poison;
	v->poison = 0;
	if (poison != 0 && (features & PAGEHINT_BALLOON_F_PAGE_POISON) != 0)
		(void)!pagehint_device_config_write(v->device, v->now_ns, PAGEHINT_BALLOON_CONFIG_POISON_VAL, &poison,
						    sizeof(poison));
}

static int set_features(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	uint64_t features = ph_vhost_u64(m), bits = features & ~PH_VHOST_F_PROTOCOL;
	int says_reset = (v->protocol & PH_VHOST_P(RESET_DEVICE)) != 0;
	if (v->ran && !says_reset && reset(v) != 0)
		return -EAGAIN;
	int r = pagehint_device_set_features(v->device, bits);
	if (r != 0)
		return r;
	v->features = features;
	keep_poison(v, bits);
	return ph_vhost_rings_sync(v);
}

static int get_protocol_features(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	return answer_u64(v, m, OFFERED);
}

static int set_protocol_features(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	uint64_t features = ph_vhost_u64(m);
	if ((features & ~OFFERED) != 0)
		return -EINVAL;
	v->protocol = features;
	return 0;
}

static int nothing(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	(void)v;
	(void)m;
	return 0;
}

static int reset_device(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	(void)m;
	int r = reset(v);
	v->poison = 0; /* this one is meant */
	return r;
}

/* ---- memory ---- */

static int set_mem_table(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	int r = 0;
	if (ph_vhost_rings_stop(v) != 0 || ph_vhost_memory_clear(&v->memory) != 0)
		return -EAGAIN;
	for (uint32_t i = 0; i < m->fds_n && r == 0; i++) {
		struct ph_vhost_region region;
		memcpy(&region, m->payload + 8 + i * sizeof(region), sizeof(region));
		r = ph_vhost_memory_add(&v->memory, &region, m->fds[i]);
		m->fds[i] = -1;
	}
	if (r != 0)
		(void)ph_vhost_memory_clear(&v->memory); /* nothing can be inside */
	v->events |= PAGEHINT_VHOST_EVENT_MEMORY;
	(void)ph_vhost_rings_sync(v); /* nothing runs that would have to be waited for */
	return r;
}

static int get_max_mem_slots(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	return answer_u64(v, m, PH_VHOST_SLOTS);
}

static int add_mem_reg(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_region region;
	memcpy(&region, m->payload + 8, sizeof(region));
	int r = ph_vhost_memory_add(&v->memory, &region, m->fds[0]);
	m->fds[0] = -1;
	if (r != 0)
		return r;
	v->events |= PAGEHINT_VHOST_EVENT_MEMORY;
	(void)ph_vhost_rings_sync(v);
	return 0;
}

static int rem_mem_reg(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_region region;
	memcpy(&region, m->payload + 8, sizeof(region));
	if (ph_vhost_rings_stop(v) != 0)
		return -EAGAIN;
	int r = ph_vhost_memory_remove(&v->memory, &region);
	if (r == -EBUSY)
		return -EAGAIN;
	v->events |= PAGEHINT_VHOST_EVENT_MEMORY;
	(void)ph_vhost_rings_sync(v);
	return r;
}

static int get_queue_num(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	return answer_u64(v, m, PH_VHOST_QUEUES);
}

/* ---- configuration, and what goes the other way ---- */

/* User-Mode Linux asks for all bytes up to the end of the member it wants. What lies behind our space reads as 0. */
static int get_config(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_config said;
	memcpy(&said, m->payload, sizeof(said));
	uint32_t end = PAGEHINT_BALLOON_CONFIG_BYTES, n = 0;
	memset(m->payload + sizeof(said), 0, said.size);
	if (said.offset < end)
		n = end - said.offset < said.size ? end - said.offset : said.size;
	if (n != 0 && pagehint_device_config_read(v->device, said.offset, m->payload + sizeof(said), n) != 0)
		return -EINVAL;
	return ph_vhost_answer(v, m->request, m->payload, m->size);
}

static int set_config(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_config said;
	memcpy(&said, m->payload, sizeof(said));
	if (said.size == 0)
		return 0;
	return pagehint_device_config_write(v->device, v->now_ns, said.offset, m->payload + sizeof(said), said.size);
}

static int set_backend_req_fd(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	int is_socket = ph_vhost_fd_kind(v, m->fds[0]);
	if (is_socket < 0)
		return is_socket;
	ph_vhost_close(v, v->backend_chan);
	v->backend_chan = m->fds[0];
	v->chan_is_socket = (uint32_t)is_socket;
	m->fds_n = 0;
	return 0;
}

static int get_inflight_fd(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_inflight_said said;
	int fd = -1;
	memcpy(&said, m->payload, sizeof(said));
	int r = ph_vhost_inflight_make(&v->inflight, v->sys, &said, &fd);
	if (r != 0)
		return r;
	v->answer_fd = fd; /* closed when it is sent */
	return ph_vhost_answer(v, m->request, &said, m->size);
}

static int set_inflight_fd(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	struct ph_vhost_inflight_said said;
	memcpy(&said, m->payload, sizeof(said));
	m->fds_n = 0;
	return ph_vhost_inflight_take(&v->inflight, v->sys, &said, m->fds[0]);
}

/* ---- dispatch ---- */

typedef int (*handler)(struct pagehint_vhost *v, struct ph_vhost_message *m);

static const handler handlers[PH_VHOST_REQUESTS] = {
	[PH_VHOST_GET_FEATURES] = get_features,
	[PH_VHOST_SET_FEATURES] = set_features,
	[PH_VHOST_SET_OWNER] = nothing,
	[PH_VHOST_RESET_OWNER] = disable_all,
	[PH_VHOST_SET_MEM_TABLE] = set_mem_table,
	[PH_VHOST_SET_VRING_NUM] = ph_vhost_on_ring_state,
	[PH_VHOST_SET_VRING_ADDR] = ph_vhost_on_ring_addr,
	[PH_VHOST_SET_VRING_BASE] = ph_vhost_on_ring_state,
	[PH_VHOST_GET_VRING_BASE] = ph_vhost_on_ring_base,
	[PH_VHOST_SET_VRING_KICK] = ph_vhost_on_ring_fd,
	[PH_VHOST_SET_VRING_CALL] = ph_vhost_on_ring_fd,
	[PH_VHOST_SET_VRING_ERR] = ph_vhost_on_ring_fd,
	[PH_VHOST_GET_PROTOCOL_FEATURES] = get_protocol_features,
	[PH_VHOST_SET_PROTOCOL_FEATURES] = set_protocol_features,
	[PH_VHOST_GET_QUEUE_NUM] = get_queue_num,
	[PH_VHOST_SET_VRING_ENABLE] = ph_vhost_on_ring_state,
	[PH_VHOST_SET_BACKEND_REQ_FD] = set_backend_req_fd,
	[PH_VHOST_GET_CONFIG] = get_config,
	[PH_VHOST_SET_CONFIG] = set_config,
	[PH_VHOST_GET_INFLIGHT_FD] = get_inflight_fd,
	[PH_VHOST_SET_INFLIGHT_FD] = set_inflight_fd,
	[PH_VHOST_RESET_DEVICE] = reset_device,
	[PH_VHOST_GET_MAX_MEM_SLOTS] = get_max_mem_slots,
	[PH_VHOST_ADD_MEM_REG] = add_mem_reg,
	[PH_VHOST_REM_MEM_REG] = rem_mem_reg,
};

/* A request that wants a payload and cannot have one: the protocol knows no way to say so, but for an empty one of GET_CONFIG. */
static int refuse(struct pagehint_vhost *v, const struct ph_vhost_message *m)
{
	const struct ph_vhost_inflight_said none = { 0 };
	if (m->request == PH_VHOST_GET_CONFIG)
		return ph_vhost_answer(v, m->request, NULL, 0);
	if (m->request == PH_VHOST_GET_INFLIGHT_FD)
		return ph_vhost_answer(v, m->request, &none, sizeof(none));
	return -EPROTO;
}

int ph_vhost_handle(struct pagehint_vhost *v, struct ph_vhost_message *m)
{
	int r = ph_vhost_message_check(m), answers = ph_vhost_message_answers(m->request);
	if (r == -EINVAL) {
		ph_vhost_message_close(v->sys, m);
		return -EPROTO;
	}
	v->stats.unknown += r == -EOPNOTSUPP;
	if (r == 0)
		r = handlers[m->request](v, m);
	if (r == -EAGAIN)
		return r;
	v->stats.messages++;
	ph_vhost_message_close(v->sys, m);
	if (r != 0) {
		v->stats.refused++;
		v->refused_request = m->request;
		v->refused_why = r;
	}
	if (v->wire.broken != 0)
		return v->wire.broken;
	if (r != 0 && answers)
		return refuse(v, m);
	/* whoever chooses REPLY_ACK may want to hear of that very message */
	int has_acks = (v->protocol & PH_VHOST_P(REPLY_ACK)) != 0 || m->request == PH_VHOST_SET_PROTOCOL_FEATURES;
	int wants_ack = has_acks && !answers && (m->flags & PH_VHOST_NEED_REPLY) != 0;
	return wants_ack ? answer_u64(v, m, r != 0) : 0;
}
