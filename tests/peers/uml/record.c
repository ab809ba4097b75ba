/*
 * Writes down every report as it comes off the ring, before the device has made anything of it: a line "request", then a line
 * "address bytes" a buffer, to the descriptor that PEER_RECORD_FD names. So the suite can count for itself what the fewest calls
 * would have been.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "virtio/ring_device.h"

int __real_ph_ring_device_pop(struct ph_ring_device *ring, uint32_t *budget, struct ph_chain *ret_chain);
int __wrap_ph_ring_device_pop(struct ph_ring_device *ring, uint32_t *budget, struct ph_chain *ret_chain);

static void put(int fd, const char *text, int n)
{
	if (write(fd, text, (size_t)n) != n)
		abort(); /* half a record would be believed */
}

int __wrap_ph_ring_device_pop(struct ph_ring_device *ring, uint32_t *budget, struct ph_chain *ret_chain)
{
	const char *name = getenv("PEER_RECORD_FD");
	int r = __real_ph_ring_device_pop(ring, budget, ret_chain), fd = name != NULL ? atoi(name) : -1;
	char line[64];
	if (r != 0 || fd < 0 || ret_chain->n_readable != 0)
		return r;
	put(fd, "request\n", 8);
	for (uint32_t i = 0; i < ret_chain->n_writable; i++)
		put(fd, line,
		    snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu32 "\n", ret_chain->segments[i].addr,
			     ret_chain->segments[i].len));
	return r;
}
