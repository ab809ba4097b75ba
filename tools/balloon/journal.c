#include "journal.h"

#include <string.h>
#include <unistd.h>

#include <pagehint/balloon.h>

#define NOWHERE JOURNAL_PLACES
#define REGIONS JOURNAL_ONCE
#define RINGS (JOURNAL_ONCE + PH_VHOST_SLOTS)

static void forget(struct journal *journal, uint32_t place)
{
	if (journal->used[place])
		ph_vhost_message_close(&ph_sys_real, &journal->places[place]);
	journal->used[place] = 0;
}

/* Places in the order in which they can be said again. */
static uint32_t once(uint32_t request)
{
	static const uint8_t order[JOURNAL_ONCE] = {
		PH_VHOST_SET_PROTOCOL_FEATURES, PH_VHOST_SET_OWNER,  PH_VHOST_SET_BACKEND_REQ_FD,
		PH_VHOST_SET_FEATURES,          PH_VHOST_SET_CONFIG, PH_VHOST_SET_INFLIGHT_FD,
		PH_VHOST_SET_MEM_TABLE,
	};
	uint32_t i = 0;
	while (i < JOURNAL_ONCE && order[i] != request)
		i++;
	return i < JOURNAL_ONCE ? i : NOWHERE;
}

static uint32_t ring_kind(uint32_t request)
{
	static const uint8_t order[JOURNAL_RING_KINDS] = {
		PH_VHOST_SET_VRING_NUM, PH_VHOST_SET_VRING_BASE, PH_VHOST_SET_VRING_ADDR,   PH_VHOST_SET_VRING_CALL,
		PH_VHOST_SET_VRING_ERR, PH_VHOST_SET_VRING_KICK, PH_VHOST_SET_VRING_ENABLE,
	};
	uint32_t i = 0;
	while (i < JOURNAL_RING_KINDS && order[i] != request)
		i++;
	return i;
}

static uint32_t ring_place(uint32_t index, uint32_t request)
{
	uint32_t kind = ring_kind(request);
	return index < JOURNAL_QUEUES && kind < JOURNAL_RING_KINDS ? RINGS + index * JOURNAL_RING_KINDS + kind
								   : NOWHERE;
}

static uint32_t index_of(const struct ph_vhost_message *m)
{
	int is_fd = m->request == PH_VHOST_SET_VRING_KICK || m->request == PH_VHOST_SET_VRING_CALL ||
		    m->request == PH_VHOST_SET_VRING_ERR;
	uint32_t index;
	memcpy(&index, m->payload, sizeof(index));
	return is_fd ? (uint32_t)(ph_vhost_u64(m) & PH_VHOST_VRING_INDEX) : index;
}

static uint32_t free_region(const struct journal *journal)
{
	for (uint32_t i = REGIONS; i < RINGS; i++)
		if (!journal->used[i])
			return i;
	return NOWHERE;
}

static int is_same_region(const unsigned char *a, const unsigned char *b)
{
	struct ph_vhost_region x, y;
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x.guest == y.guest && x.user == y.user && x.size == y.size;
}

/* Takes a region out of the memory table. */
static void shrink_table(struct journal *journal, const unsigned char *region)
{
	const uint32_t table = once(PH_VHOST_SET_MEM_TABLE), bytes = sizeof(struct ph_vhost_region);
	struct ph_vhost_message *m = &journal->places[table];
	if (!journal->used[table])
		return;
	for (uint32_t i = 0; i < m->fds_n; i++) {
		if (!is_same_region(m->payload + 8 + i * bytes, region))
			continue;
		uint32_t last = m->fds_n - 1;
		close(m->fds[i]);
		m->fds[i] = m->fds[last];
		memmove(m->payload + 8 + i * bytes, m->payload + 8 + last * bytes, bytes);
		memcpy(m->payload, &last, sizeof(last));
		m->fds_n = last;
		m->size -= bytes;
		break;
	}
	if (m->fds_n == 0)
		forget(journal, table);
}

static void forget_region(struct journal *journal, const unsigned char *region)
{
	for (uint32_t i = REGIONS; i < RINGS; i++)
		if (journal->used[i] && is_same_region(journal->places[i].payload + 8, region))
			forget(journal, i);
	shrink_table(journal, region);
}

/* What is over when this is said. */
static void undo(struct journal *journal, const struct ph_vhost_message *m)
{
	if (m->request == PH_VHOST_SET_MEM_TABLE)
		for (uint32_t i = REGIONS; i < RINGS; i++)
			forget(journal, i);
	if (m->request == PH_VHOST_REM_MEM_REG)
		forget_region(journal, m->payload + 8);
	/* a frontend without a word for a reset says the features when a driver begins anew */
	if (m->request == PH_VHOST_RESET_DEVICE)
		forget(journal, once(PH_VHOST_SET_CONFIG));
	int begins = m->request == PH_VHOST_SET_FEATURES && (journal->protocol & PH_VHOST_P(RESET_DEVICE)) == 0;
	if (begins || m->request == PH_VHOST_RESET_DEVICE || m->request == PH_VHOST_RESET_OWNER)
		for (uint32_t i = 0; i < JOURNAL_QUEUES; i++) {
			forget(journal, ring_place(i, PH_VHOST_SET_VRING_ADDR));
			forget(journal, ring_place(i, PH_VHOST_SET_VRING_KICK));
			forget(journal, ring_place(i, PH_VHOST_SET_VRING_ENABLE));
		}
}

/* The poison is all of the configuration that nobody else remembers. */
static int is_poison(const struct ph_vhost_message *m)
{
	struct ph_vhost_config said;
	memcpy(&said, m->payload, sizeof(said));
	return said.offset <= PAGEHINT_BALLOON_CONFIG_POISON_VAL &&
	       said.offset + (uint64_t)said.size >= PAGEHINT_BALLOON_CONFIG_POISON_VAL + 4;
}

const struct ph_vhost_message *journal_note(struct journal *journal, const struct ph_vhost_message *m)
{
	uint32_t place = once(m->request);
	if (m->request == PH_VHOST_SET_CONFIG && !is_poison(m))
		return NULL;
	undo(journal, m);
	if (place == NOWHERE && ring_kind(m->request) < JOURNAL_RING_KINDS)
		place = ring_place(index_of(m), m->request);
	if (place == NOWHERE && m->request == PH_VHOST_ADD_MEM_REG)
		place = free_region(journal);
	if (place == NOWHERE)
		return NULL;
	forget(journal, place);
	journal->places[place] = *m;
	journal->used[place] = 1;
	if (m->request == PH_VHOST_SET_PROTOCOL_FEATURES)
		journal->protocol = ph_vhost_u64(m);
	return &journal->places[place];
}

void journal_answered(struct journal *journal, const struct ph_vhost_message *m)
{
	if (m->request == PH_VHOST_GET_VRING_BASE && index_of(m) < JOURNAL_QUEUES)
		forget(journal, ring_place(index_of(m), PH_VHOST_SET_VRING_KICK));
}

const struct ph_vhost_message *journal_next(const struct journal *journal, uint32_t *at)
{
	while (*at < JOURNAL_PLACES && !journal->used[*at])
		(*at)++;
	return *at < JOURNAL_PLACES ? &journal->places[(*at)++] : NULL;
}

int journal_expects(const struct journal *journal, const struct ph_vhost_message *m)
{
	int has_acks = (journal->protocol & PH_VHOST_P(REPLY_ACK)) != 0 || m->request == PH_VHOST_SET_PROTOCOL_FEATURES;
	return ph_vhost_message_answers(m->request) || (has_acks && (m->flags & PH_VHOST_NEED_REPLY) != 0);
}

void journal_clear(struct journal *journal)
{
	for (uint32_t i = 0; i < JOURNAL_PLACES; i++)
		forget(journal, i);
	journal->protocol = 0;
}
