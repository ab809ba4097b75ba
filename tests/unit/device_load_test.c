/* Loading is total: a blob with a wrong byte, or less of it, or a right checksum over what cannot be, is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/guest.h"
#include "virtio/device_blob.h"
#include "virtio/device_state.h"

#define F GUEST_FREE

static struct guest *with_state(struct guest_blob *b)
{
	struct guest_how how = { .bare = 1, .host_page_shift = 16 };
	struct guest *g = guest_open(&how);
	unsigned char stat[10] = { 4, 0, 55 };
	uint32_t pfns[2] = { (uint32_t)F, (uint32_t)F + 1024 };
	guest_boot(g, 0);
	struct ph_ring_buffer list = { .addr = guest_list(g, stat, 10), .len = 10 };
	guest_put(g, PAGEHINT_BALLOON_Q_STATS, &list, 1, 0, 1);
	assert_int_equal(guest_kick(g, PAGEHINT_BALLOON_Q_STATS), 0);
	guest_inflate(g, pfns, 2);
	*b = guest_save(g);
	guest_replace(g, 3);
	return g;
}

static void every_wrong_byte_and_every_truncation_is_refused(void **state)
{
	(void)state;
	struct guest_blob b;
	struct guest *g = with_state(&b);
	struct guest_blob before = guest_save(g);
	unsigned char *exact = malloc(b.length + 1);
	assert_non_null(exact);
	for (uint64_t i = 0; i < b.length; i++)
		for (uint32_t wrong = 1; wrong < 256; wrong++) {
			b.bytes[i] ^= (unsigned char)wrong;
			assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), -EINVAL);
			b.bytes[i] ^= (unsigned char)wrong;
		}
	for (uint64_t n = 0; n < b.length; n++) {
		unsigned char *cut = malloc(n == 0 ? 1 : n); /* so that a step beyond is seen */
		assert_non_null(cut);
		memcpy(cut, b.bytes, n);
		assert_int_equal(pagehint_device_load(g->device, g->now, cut, n), -EINVAL);
		free(cut);
	}
	memcpy(exact, b.bytes, b.length);
	exact[b.length] = 0;
	assert_int_equal(pagehint_device_load(g->device, g->now, exact, b.length + 1), -EINVAL);
	assert_int_equal(pagehint_device_load(g->device, g->now, NULL, b.length), -EINVAL);
	struct guest_blob after = guest_save(g); /* nothing of all that left a trace */
	assert_memory_equal(before.bytes, after.bytes, before.length);
	assert_int_equal(pagehint_device_load(g->device, g->now, exact, b.length), 0);
	free(exact);
	guest_close(g);
}

static int load_with(struct guest *g, const struct guest_blob *b, uint64_t at, uint64_t value, uint64_t bytes)
{
	struct guest_blob c = *b;
	for (uint64_t i = 0; i < bytes; i++)
		c.bytes[at + i] = (unsigned char)(value >> 8 * i);
	ph_bytes_put_le32(c.bytes + c.length - 4, ph_blob_crc(c.bytes, c.length - 4));
	int r = pagehint_device_load(g->device, g->now, c.bytes, c.length);
	if (r == 0)
		assert_int_equal(pagehint_device_reset(g->device), 0);
	return r;
}

#define WORD(member) (PH_STATE_HEADER + offsetof(struct ph_device_state, member))

/* a right checksum over what cannot be */
static void a_checksum_makes_no_truth(void **state)
{
	(void)state;
	const struct {
		uint64_t at, value;
	} bad[] = {
		{ WORD(negotiated), UINT64_C(1) << 6 },
		{ WORD(negotiated), UINT64_MAX },
		{ WORD(features_set), 2 },
		{ WORD(features_set), 0 }, /* with queues */
		{ WORD(numbering), 1 },
		{ WORD(status), 256 },
		{ WORD(status), 64 },
		{ WORD(broken), 1 },
		{ WORD(broken), 2 },
		{ WORD(events), 16 },
		{ WORD(interrupts), 32 },
		{ WORD(target), UINT64_C(1) << 32 },
		{ WORD(actual), UINT64_C(1) << 32 },
		{ WORD(best), UINT64_MAX },
		{ WORD(poison), UINT64_C(1) << 32 },
		{ WORD(hint_state), 4 },
		{ WORD(hint_state), 1 },
		{ WORD(hint_id), 1 },
		{ WORD(hint_id), UINT64_C(1) << 32 },
		{ WORD(hint_oldest), 5 },
		{ WORD(sample_known), 1 << 16 },
		{ WORD(sample_value), 7 }, /* not known, and yet a value */
		{ WORD(samples), 0 },
		{ WORD(sample_age_ns), UINT64_MAX },
		{ WORD(stats_repeat), 2 },
		{ WORD(queue), 1 },
		{ WORD(queue), UINT64_C(2) << 32 },
		{ WORD(blocks), 3 },
		{ WORD(blocks), 1 },
		{ WORD(blocks), UINT64_MAX },
		{ WORD(blocks) + 8, UINT64_MAX },             /* a page beyond all memory */
		{ WORD(blocks) + 16, 0 },                     /* larger pages of one page */
		{ WORD(blocks) + 16, 19 },                    /* of 2 GiB */
		{ WORD(blocks) + 16, 4 | UINT64_C(1) << 32 }, /* a second level for small ones */
		{ WORD(blocks) + 16, 4 | UINT64_C(2) << 32 },
		{ WORD(blocks) + 16, 4 | UINT64_C(65536) << 32 },
		{ WORD(blocks) + 24, 0 },      /* an empty block */
		{ WORD(blocks) + 24, 0xffff }, /* a whole page */
	};
	struct guest_blob b;
	struct guest *g = with_state(&b);
	assert_int_equal(load_with(g, &b, WORD(target), 5, 8), 0); /* the method works */
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (load_with(g, &b, bad[i].at, bad[i].value, 8) != -EINVAL)
			fail_msg("case %u was taken", (unsigned)i);
	assert_int_equal(load_with(g, &b, 0, 0, 4), -EINVAL); /* magic */
	assert_int_equal(load_with(g, &b, 4, 2, 4), -EINVAL); /* another version */
	assert_int_equal(load_with(g, &b, 8, b.length + 1, 4), -EINVAL);
	guest_close(g);
}

static void only_a_device_at_rest_loads(void **state)
{
	(void)state;
	struct guest_blob b;
	struct guest *g = with_state(&b);
	uint64_t length = 77;
	guest_boot(g, 0);
	assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), -EBUSY);
	assert_int_equal(pagehint_device_save(g->device, g->now, b.bytes, b.length / 2, &length), -ENOSPC);
	assert_int_equal(length, 77);
	assert_int_equal(pagehint_device_save(g->device, g->now, NULL, 10, &length), -EINVAL);
	guest_close(g);
	/* another device's features, another numbering */
	struct guest_how other = { .bare = 1, .opts.features = PAGEHINT_VIRTIO_F_VERSION_1 };
	g = guest_open(&other);
	assert_int_equal(pagehint_device_load(g->device, g->now, b.bytes, b.length), -EINVAL);
	guest_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_byte_and_every_truncation_is_refused),
		cmocka_unit_test(a_checksum_makes_no_truth),
		cmocka_unit_test(only_a_device_at_rest_loads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
