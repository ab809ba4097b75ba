#include "vhost/message.h"

#include <errno.h>
#include <stddef.h>

/* sizes of the payload and numbers of descriptors that are right */
struct shape {
	const char *name;
	uint16_t least;
	uint16_t most;
	uint8_t fds_least;
	uint8_t fds_most;
	uint8_t answers;
};

#define TABLE_LEAST (8 + sizeof(struct ph_vhost_region))
#define TABLE_MOST (8 + PH_VHOST_FDS * sizeof(struct ph_vhost_region))
#define ONE_REGION (8 + sizeof(struct ph_vhost_region))
#define STATE sizeof(struct ph_vhost_vring_state)
#define ADDR sizeof(struct ph_vhost_vring_addr)
#define CONFIG sizeof(struct ph_vhost_config)
#define INFLIGHT_LEAST 20u /* senders leave the padding out */
#define INFLIGHT sizeof(struct ph_vhost_inflight_said)

static const struct shape shapes[PH_VHOST_REQUESTS] = {
	[PH_VHOST_GET_FEATURES] = { "GET_FEATURES", 0, 8, 0, 0, 1 },
	[PH_VHOST_SET_FEATURES] = { "SET_FEATURES", 8, 8, 0, 0, 0 },
	[PH_VHOST_SET_OWNER] = { "SET_OWNER", 0, 8, 0, 0, 0 },
	[PH_VHOST_RESET_OWNER] = { "RESET_OWNER", 0, 8, 0, 0, 0 },
	[PH_VHOST_SET_MEM_TABLE] = { "SET_MEM_TABLE", TABLE_LEAST, TABLE_MOST, 1, PH_VHOST_FDS, 0 },
	[PH_VHOST_SET_VRING_NUM] = { "SET_VRING_NUM", STATE, STATE, 0, 0, 0 },
	[PH_VHOST_SET_VRING_ADDR] = { "SET_VRING_ADDR", ADDR, ADDR, 0, 0, 0 },
	[PH_VHOST_SET_VRING_BASE] = { "SET_VRING_BASE", STATE, STATE, 0, 0, 0 },
	[PH_VHOST_GET_VRING_BASE] = { "GET_VRING_BASE", STATE, STATE, 0, 0, 1 },
	[PH_VHOST_SET_VRING_KICK] = { "SET_VRING_KICK", 8, 8, 0, 1, 0 },
	[PH_VHOST_SET_VRING_CALL] = { "SET_VRING_CALL", 8, 8, 0, 1, 0 },
	[PH_VHOST_SET_VRING_ERR] = { "SET_VRING_ERR", 8, 8, 0, 1, 0 },
	[PH_VHOST_GET_PROTOCOL_FEATURES] = { "GET_PROTOCOL_FEATURES", 0, 8, 0, 0, 1 },
	[PH_VHOST_SET_PROTOCOL_FEATURES] = { "SET_PROTOCOL_FEATURES", 8, 8, 0, 0, 0 },
	[PH_VHOST_GET_QUEUE_NUM] = { "GET_QUEUE_NUM", 0, 8, 0, 0, 1 },
	[PH_VHOST_SET_VRING_ENABLE] = { "SET_VRING_ENABLE", STATE, STATE, 0, 0, 0 },
	[PH_VHOST_SET_BACKEND_REQ_FD] = { "SET_BACKEND_REQ_FD", 0, 8, 1, 1, 0 },
	[PH_VHOST_GET_CONFIG] = { "GET_CONFIG", CONFIG, CONFIG + PH_VHOST_CONFIG, 0, 0, 1 },
	[PH_VHOST_SET_CONFIG] = { "SET_CONFIG", CONFIG, CONFIG + PH_VHOST_CONFIG, 0, 0, 0 },
	[PH_VHOST_GET_INFLIGHT_FD] = { "GET_INFLIGHT_FD", INFLIGHT_LEAST, INFLIGHT, 0, 0, 1 },
	[PH_VHOST_SET_INFLIGHT_FD] = { "SET_INFLIGHT_FD", INFLIGHT_LEAST, INFLIGHT, 1, 1, 0 },
	[PH_VHOST_RESET_DEVICE] = { "RESET_DEVICE", 0, 8, 0, 0, 0 },
	[PH_VHOST_GET_MAX_MEM_SLOTS] = { "GET_MAX_MEM_SLOTS", 0, 8, 0, 0, 1 },
	[PH_VHOST_ADD_MEM_REG] = { "ADD_MEM_REG", ONE_REGION, ONE_REGION, 1, 1, 0 },
	[PH_VHOST_REM_MEM_REG] = { "REM_MEM_REG", ONE_REGION, ONE_REGION, 0, 1, 0 },
};

static const struct shape *known(uint32_t request)
{
	return request < PH_VHOST_REQUESTS && shapes[request].name != NULL ? &shapes[request] : NULL;
}

/* A descriptor comes exactly when the payload does not say that there is none. */
static int fd_is_as_said(const struct ph_vhost_message *m)
{
	int none = (ph_vhost_u64(m) & PH_VHOST_VRING_NOFD) != 0;
	return m->fds_n == (none ? 0 : 1);
}

static int counts_fit(const struct ph_vhost_message *m)
{
	struct ph_vhost_config config;
	uint32_t regions;
	switch (m->request) {
	case PH_VHOST_SET_VRING_KICK:
	case PH_VHOST_SET_VRING_CALL:
	case PH_VHOST_SET_VRING_ERR:
		return fd_is_as_said(m);
	case PH_VHOST_SET_MEM_TABLE:
		memcpy(&regions, m->payload, sizeof(regions));
		/* User-Mode Linux sends its whole array, however many of it are meant */
		return regions == m->fds_n && m->size >= 8 + regions * sizeof(struct ph_vhost_region);
	case PH_VHOST_GET_CONFIG:
	case PH_VHOST_SET_CONFIG:
		memcpy(&config, m->payload, sizeof(config));
		return config.size == m->size - sizeof(config);
	default:
		return 1;
	}
}

int ph_vhost_message_check(const struct ph_vhost_message *m)
{
	if ((m->flags & PH_VHOST_VERSION_MASK) != PH_VHOST_VERSION || (m->flags & PH_VHOST_REPLY) != 0 ||
	    m->size > PH_VHOST_PAYLOAD || m->fds_n > PH_VHOST_FDS)
		return -EINVAL;
	const struct shape *shape = known(m->request);
	if (shape == NULL)
		return -EOPNOTSUPP;
	if (m->size < shape->least || m->size > shape->most || m->fds_n < shape->fds_least ||
	    m->fds_n > shape->fds_most || !counts_fit(m))
		return -EPROTO;
	return 0;
}

int ph_vhost_message_answers(uint32_t request)
{
	const struct shape *shape = known(request);
	return shape != NULL && shape->answers;
}

const char *ph_vhost_message_name(uint32_t request)
{
	const struct shape *shape = known(request);
	return shape != NULL ? shape->name : "?";
}

void ph_vhost_message_close(const struct ph_sys *sys, struct ph_vhost_message *m)
{
	for (uint32_t i = 0; i < m->fds_n; i++)
		if (m->fds[i] >= 0)
			(void)sys->close(sys->ctx, m->fds[i]);
	m->fds_n = 0;
}
