/*
 * opts.h: reading and writing the size-prefixed structs of the public headers.
 *
 * Inputs: NULL or shorter = the missing part is zero (default); longer = accepted when the tail is zero, else -E2BIG.
 * Outputs: the caller's struct_size says how much room there is; the rest of ours is dropped, the rest of theirs zeroed.
 */
#ifndef PH_BASE_OPTS_H
#define PH_BASE_OPTS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PH_OPTS_MAX 4096u

/* Copies the caller's struct (or nothing, for NULL) into `to`, which is `size` bytes; its size is `from_size` bytes. */
static inline int ph_opts_in(void *to, size_t size, const void *from, uint64_t from_size, size_t prefix)
{
	memset(to, 0, size);
	if (from == NULL)
		return 0;
	if (from_size < prefix || from_size > SIZE_MAX)
		return -EINVAL;
	if (from_size > PH_OPTS_MAX)
		return -E2BIG; /* no struct of any version: rather an uninitialised struct_size */
	const unsigned char *bytes = from;
	for (size_t i = size; i < from_size; i++)
		if (bytes[i] != 0)
			return -E2BIG;
	memcpy(to, from, from_size < size ? (size_t)from_size : size);
	return 0;
}

/* Writes `size` bytes of `from` into the caller's struct of `to_size` bytes; keeps its prefix (struct_size) as it was. */
static inline int ph_opts_out(void *to, uint64_t to_size, const void *from, size_t size, size_t prefix)
{
	if (to == NULL || to_size < prefix || to_size > SIZE_MAX)
		return -EINVAL;
	size_t room = (size_t)to_size, n = room < size ? room : size;
	memcpy((unsigned char *)to + prefix, (const unsigned char *)from + prefix, n - prefix);
	if (room > size)
		memset((unsigned char *)to + size, 0, room - size);
	return 0;
}

/* The size as the struct itself says it; 0 for NULL. Works for size_t and uint64_t prefixes alike. */
#define PH_OPTS_IN(to, from) \
	ph_opts_in(&(to), sizeof(to), (from), (from) == NULL ? 0 : (from)->struct_size, sizeof((from)->struct_size))
#define PH_OPTS_OUT(to, from) \
	ph_opts_out((to), (to) == NULL ? 0 : (to)->struct_size, &(from), sizeof(from), sizeof((from).struct_size))

#endif
