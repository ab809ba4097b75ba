/*
 * Every struct of options, of any size and with any content, into what takes it.
 *
 * Checked: a size below 8, one that no struct ever has, and a tail that is not zero are refused, with nothing read beyond the
 * caller's memory; a shorter struct does what the whole one with zeros does, and so does a longer one; what is accepted works, and can be
 * freed; in the end nothing is left, of memory, mappings and descriptors.
 */
#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kinds.h"

#define MOST 512u /* no kind is larger */

const char *__asan_default_options(void);

/* What cannot be had is an answer, not an end. */
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

/* ---- what is mapped ---- */

static uint64_t mapped;

void *__real_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t length);
int __wrap_munmap(void *addr, size_t length);

void *__wrap_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *p = __real_mmap64(addr, length, prot, flags, fd, offset);
	mapped += p != MAP_FAILED && (flags & MAP_FIXED) == 0 ? length : 0;
	return p;
}

int __wrap_munmap(void *addr, size_t length)
{
	mapped -= length;
	return __real_munmap(addr, length);
}

/* ---- one struct ---- */

static const struct kind *kind_of(uint32_t i)
{
	const struct {
		const struct kind *kinds;
		uint32_t n;
	} all[] = {
		{ alloc_kinds, alloc_kinds_n },
		{ give_kinds, give_kinds_n },
		{ virtio_kinds, virtio_kinds_n },
		{ page_kinds, page_kinds_n },
	};
	i %= alloc_kinds_n + give_kinds_n + virtio_kinds_n + page_kinds_n;
	for (uint32_t k = 0;; i -= all[k++].n)
		if (i < all[k].n)
			return &all[k].kinds[i];
}

/* Mostly zero, with some numbers here and there: all of it at random would be refused for the first member. */
static void fill(unsigned char *full, uint32_t size, struct input *in)
{
	memset(full, 0, size);
	for (uint32_t n = (uint32_t)take(in, 1) % 12; n > 0; n--) {
		uint32_t how = (uint32_t)take(in, 1), width = how & 1 ? 4 : how & 2 ? 8 : 1, at = (uint32_t)take(in, 1);
		uint64_t value = how & 64 ? UINT64_C(1) << (take(in, 1) & 63) : take(in, (how >> 2 & 7) + 1);
		value -= how >> 7;
		at = at % size / width * width;
		memcpy(full + at, &value, width);
	}
}

/* Makes it from exactly `size` bytes, which are those of `full`, and a tail with `odd` at its end. */
static int make_sized(const struct kind *kind, const unsigned char *full, uint64_t size, uint64_t room,
		      unsigned char odd)
{
	unsigned char *opts = calloc(1, room);
	SURE(opts != NULL && room >= 8);
	memcpy(opts, full, room < kind->size ? room : kind->size);
	memcpy(opts, &size, 8);
	if (odd != 0)
		opts[room - 1] = odd;
	int r = kind->make(opts);
	free(opts);
	return r;
}

static uint64_t any_size(const struct kind *kind, struct input *in)
{
	uint64_t how = take(in, 1);
	if (how < 96)
		return kind->size;
	if (how < 192)
		return 8 + take(in, 1) % (kind->size - 7);
	if (how < 224)
		return kind->size + take(in, 2) % (4200 - kind->size);
	return how < 240 ? how % 8 : how < 250 ? 4097 + take(in, 2) : UINT64_MAX - take(in, 1);
}

static void try(const struct kind *kind, struct input *in)
{
	unsigned char full[MOST];
	uint64_t size = any_size(kind, in), how = take(in, 2);
	SURE(kind->size <= MOST);
	fill(full, kind->size, in);
	if (kind->point != NULL)
		kind->point(full, how);
	if (size < 8 || size > 4096) { /* a lie: nothing but the size is there */
		SURE(make_sized(kind, full, size, 8, 0) == (size < 8 ? -EINVAL : -E2BIG));
		return;
	}
	if (size > kind->size && (how & 0x8000) != 0) {
		SURE(make_sized(kind, full, size, size, (unsigned char)how | 1) == -E2BIG);
		return;
	}
	if (size < kind->size) { /* what is not said is zero; no half of a pointer */
		uint64_t whole = kind->point == NULL ? size : size & ~UINT64_C(7);
		memset(full + whole, 0, kind->size - whole);
	}
	int r = make_sized(kind, full, size, size, 0);
	SURE(r == 0 || r == -EINVAL || r == -E2BIG || r == -ENOMEM || r == -EOPNOTSUPP || r == -ENODEV || r == -ERANGE);
	SURE(make_sized(kind, full, kind->size, kind->size, 0) == r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	const struct kind *kind = kind_of((uint32_t)take(&in, 1));
	static uint32_t began;
	if (!began++) { /* what lives for ever is made now */
		struct input none = { data, 0 };
		for (uint32_t i = 0; i < alloc_kinds_n + give_kinds_n + virtio_kinds_n + page_kinds_n; i++)
			try(kind_of(i), &none);
	}
	size_t heap = __sanitizer_get_current_allocated_bytes();
	uint64_t was_mapped = mapped;
	int lowest = dup(0);
	close(lowest);
	try(kind, &in);
	if (__sanitizer_get_current_allocated_bytes() != heap || mapped != was_mapped)
		fprintf(stderr, "%s: %zu bytes of heap were %zu, %llu mapped were %llu\n", kind->name,
			__sanitizer_get_current_allocated_bytes(), heap, (unsigned long long)mapped,
			(unsigned long long)was_mapped);
	SURE(__sanitizer_get_current_allocated_bytes() == heap && mapped == was_mapped);
	int now = dup(0);
	SURE(now == lowest);
	close(now);
	return 0;
}
