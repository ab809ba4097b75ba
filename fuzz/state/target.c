/* See state.h; the first byte says what is read. */
#include "state.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagehint/bitmap.h>

#include "support/shared_zone.h"

/* A zone in a file whose pages say something else: whoever attaches refuses it, or stays in bounds. */
void state_zone(struct input *in)
{
	struct shared_sink sink = { .frames = SHARED_SECTION };
	struct pagehint_backend *backend;
	struct pagehint_reclaimer *r = NULL;
	struct pagehint_zone *zone = NULL;
	struct shared_zone s;
	uint64_t bytes, got, frame;
	SURE(shared_zone_make(&s, 1, 0, 9) == 0 && pagehint_zone_alloc(s.zone, 3, &frame) == 0);
	SURE(pagehint_zone_size(&s.opts, &bytes) == 0 && shared_backend(&sink, &backend) == 0);
	unsigned char *state = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	SURE(state != MAP_FAILED);
	uint32_t head = 0;
	for (uint32_t n = (uint32_t)take(in, 1) % 16; n > 0; n--) {
		uint32_t how = (uint32_t)take(in, 1);
		uint64_t at = ((how & 1) ? take(in, 1) : take(in, 2) * 8) * 8,
			 word = (how & 2) ? take(in, 8) : take(in, 1);
		if (at + 8 > bytes)
			continue;
		memcpy(state + at, &word, 8);
		head |= at < 65536;
	}
	int e = pagehint_zone_attach(s.fd, 0, &s.opts, 7, &zone);
	SURE(e == 0 || (e == -EINVAL && head && zone == NULL));
	if (e == 0 && pagehint_reclaimer_new(zone, backend, NULL, &r) == 0) {
		(void)!pagehint_reclaimer_hold(r, UINT64_C(64) << 20, &got);
		SURE(got <= UINT64_C(64) << 20);
		(void)!pagehint_reclaimer_step(r, 5, &got);
		pagehint_reclaimer_settle(r);
		pagehint_reclaimer_free(r);
	}
	pagehint_zone_detach(zone);
	SURE(pagehint_backend_free(backend) == 0 && munmap(state, bytes) == 0);
	shared_zone_close(&s);
}

/* What a bitmap writes for others says of each bit what it says itself. */
void state_bitmap(struct input *in)
{
	const struct pagehint_bitmap_opts opts = { .struct_size = sizeof(opts),
						   .span = 3 * PAGEHINT_BITMAP_SECTION_BITS - 77,
						   .max_sections = 2 };
	struct pagehint_bitmap *bitmap;
	SURE(pagehint_bitmap_new(&opts, &bitmap) == 0);
	while (in->left != 0) {
		uint32_t what = (uint32_t)take(in, 1);
		uint64_t first = take(in, 3), n = take(in, 2) * ((what & 16) ? 3 : 1), words = (n + 63) / 64;
		if ((what & 8) != 0)
			first &= 63;
		switch (what & 7) {
		case 0:
			(void)!pagehint_bitmap_add(bitmap, first, n);
			continue;
		case 1:
			(void)!pagehint_bitmap_remove(bitmap, first, n);
			continue;
		case 2:
			(void)!pagehint_bitmap_clear(bitmap, first, n, NULL);
			continue;
		case 3:
			break;
		default:
			(void)!pagehint_bitmap_set(bitmap, first, n, NULL);
			continue;
		}
		first &= (what & 32) != 0 ? ~UINT64_C(0) : ~UINT64_C(63);
		words -= (what & 64) != 0 && words != 0;
		uint64_t *out = malloc(words * 8 + 1);
		SURE(out != NULL);
		memset(out, 0xa5, words * 8);
		int r = pagehint_bitmap_export(bitmap, first, n, out, words);
		int wanted = first % 64 != 0 || words < (n + 63) / 64     ? -EINVAL
			     : first > opts.span || n > opts.span - first ? -ERANGE
									  : 0;
		SURE(r == wanted);
		for (uint64_t i = 0; r == 0 && i < words * 64; i++)
			SURE((((unsigned char *)out)[i / 8] >> i % 8 & 1) ==
			     (i < n && pagehint_bitmap_test(bitmap, first + i) == 1));
		free(out);
	}
	pagehint_bitmap_free(bitmap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static void (*const kinds[])(struct input *) = { state_device, state_session, state_pager,
							 state_record, state_zone,    state_bitmap };
	struct input in = { data, bytes };
	kinds[take(&in, 1) % (sizeof(kinds) / sizeof(*kinds))](&in);
	return 0;
}
