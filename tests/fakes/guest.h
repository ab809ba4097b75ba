/*
 * guest: a small machine with a balloon: memory with a pattern in every page, the driver ends of five rings, and a backend that
 * writes down what it is told to discard, and really wipes it.
 *
 * Memory, in 4 KiB pages: LOW, GUEST_LOW of them, of which the first GUEST_RINGS hold rings and lists; HIGH, right after it and
 * a region of its own; a hole; ROM, pinned. Whatever is wiped must have been given (guest_give), or guest_check fails.
 */
#ifndef FAKES_GUEST_H
#define FAKES_GUEST_H

#include <stdint.h>

#include <pagehint/device.h>
#include <pagehint/device_control.h>
#include <pagehint/map.h>

#include "virtio/ring_driver.h"

#define GUEST_PAGE UINT64_C(0x40000) /* first page of LOW: 1 GiB */
#define GUEST_LOW UINT64_C(4096)     /* 16 MiB */
#define GUEST_HIGH UINT64_C(512)     /* 2 MiB */
#define GUEST_ROM UINT64_C(64)
#define GUEST_RINGS UINT64_C(512)
#define GUEST_HIGH_PAGE (GUEST_PAGE + GUEST_LOW)
#define GUEST_HOLE_PAGE (GUEST_HIGH_PAGE + GUEST_HIGH)
#define GUEST_ROM_PAGE (GUEST_HOLE_PAGE + 512)
#define GUEST_ALL (GUEST_LOW + GUEST_HIGH + 512 + GUEST_ROM) /* with the hole */
#define GUEST_FREE (GUEST_PAGE + GUEST_RINGS)                /* the first page that is nobody's */
#define GUEST_RUNS 8192u

struct guest_how {
	uint32_t host_page_shift; /* pretended; 0 = 12 */
	uint32_t frame_shift;     /* 0 = 12 */
	uint32_t async;
	uint32_t max_runs;
	uint32_t ring_size; /* 0 = 64 */
	uint32_t no_extent;
	uint32_t reads_zero;
	uint32_t backend_gate;            /* the backend has the gate too */
	uint32_t no_gate;                 /* the device has none */
	uint32_t bare;                    /* no pattern: quick to open, and guest_check cannot be asked */
	struct pagehint_device_opts opts; /* struct_size is filled in */
};

struct guest_batch {
	uint64_t cookie;
	uint32_t n;
	uint32_t from; /* in runs */
};

struct guest {
	struct guest_how how;
	unsigned char *memory; /* GUEST_ALL pages */
	int fd;
	uint64_t low, high, rom; /* regions */
	struct pagehint_map *map;
	struct pagehint_gate *gate;
	struct pagehint_backend *backend;
	struct pagehint_device *device;
	uint64_t now;
	/* the driver */
	struct ph_ring_driver ring[PAGEHINT_BALLOON_Q_COUNT];
	void *ring_memory[PAGEHINT_BALLOON_Q_COUNT];
	uint64_t list_at;                 /* where the next list goes [byte in the ring area] */
	uint32_t used;                    /* of the last guest_got */
	struct pagehint_device_work work; /* of the last call; bits of all since guest_forget_work */
	uint32_t interrupts, events;
	uint32_t filled;
	unsigned char given[GUEST_ALL];
	/* the backend */
	struct pagehint_run runs[GUEST_RUNS];
	uint32_t n_runs;
	struct pagehint_run populated[GUEST_RUNS];
	uint32_t n_populated;
	struct guest_batch batch[64]; /* asynchronous: held until guest_answer */
	uint32_t n_batches;
	uint32_t answers; /* how many of them may be reaped */
	uint32_t newest;  /* reap the newest first */
	uint32_t room;    /* batches it takes; 0 = 64 */
	uint32_t calls;   /* discard or submit */
	uint32_t fail_at; /* the call with this number fails; 0 = none */
	int32_t fail_with;
	uint32_t keeps; /* everything is kept, nothing is wiped */
	uint32_t wrong; /* runs that are not in one unpinned region */
	void (*inside)(struct guest *g);
	struct pagehint_device_hooks hooks;
	struct pagehint_run hinted[GUEST_RUNS];
	uint32_t n_hinted;
	uint32_t hint_id;
	uint32_t lines;
	char line[256];
};

struct guest *guest_open(const struct guest_how *how);
void guest_close(struct guest *g);

void *guest_at(struct guest *g, uint64_t page);
/* Where a ring lies; its areas are 4 KiB apart from each other. */
struct ph_ring_place guest_place(struct guest *g, uint32_t role, uint32_t form, uint32_t size);
uint32_t guest_form(const struct guest *g);

/* Accepts features (0 = all that is offered) and starts every queue they bring. */
void guest_boot(struct guest *g, uint64_t features);
/* The wire index of a role, or -1. */
int guest_index(const struct guest *g, uint32_t role);
/* Starts a queue where its ring is; the driver end is made anew with `fresh`. Returns what the device said. */
int guest_start(struct guest *g, uint32_t role, uint32_t flags, uint32_t base, int fresh);

/* ---- the driver ---- */
uint64_t guest_list(struct guest *g, const void *bytes, uint32_t n); /* address of a copy in guest memory */
uint64_t guest_pfns(struct guest *g, const uint32_t *pfns, uint32_t n);
void guest_put(struct guest *g, uint32_t role, const struct ph_ring_buffer *buffers, uint32_t readable,
	       uint32_t writable, uint64_t cookie);
int guest_kick(struct guest *g, uint32_t role); /* what the device said; work is summed up */
int guest_step(struct guest *g);
void guest_settle(struct guest *g); /* steps until nothing is left to do at once */
/* The cookie of a request that came back, or -1. */
int64_t guest_got(struct guest *g, uint32_t role);

/* The whole of it: put, kick, and it comes back at once, with used length 0. */
void guest_inflate(struct guest *g, const uint32_t *pfns, uint32_t n);
void guest_deflate(struct guest *g, const uint32_t *pfns, uint32_t n);
void guest_report(struct guest *g, const struct pagehint_run *pages, uint32_t n);
void guest_report_bytes(struct guest *g, uint64_t addr, uint32_t len);

/* ---- judging ---- */
void guest_give(struct guest *g, uint64_t page, uint64_t pages); /* may be wiped from now on */
void guest_refill(struct guest *g); /* the pattern again, nothing given, no runs remembered */
/* No page that was not given is changed, the backend saw nothing wrong, no ring is broken. */
void guest_check(struct guest *g);
/* The runs discarded since guest_refill are exactly these. */
void guest_expect(struct guest *g, const struct pagehint_run *runs, uint32_t n);
int guest_is_wiped(struct guest *g, uint64_t page);
struct pagehint_device_stats guest_stats(struct guest *g);
uint64_t guest_dropped(struct guest *g, uint32_t drop);

/* ---- saved state ---- */
struct guest_blob {
	uint64_t length;
	unsigned char bytes[16384];
};
struct guest_blob guest_save(struct guest *g);
/* The same memory and rings, another process: a fresh engine in place of the old one, which is drained, and another clock. */
void guest_replace(struct guest *g, uint64_t clock);

/* ---- the backend ---- */
struct pagehint_backend *guest_make_backend(struct guest *g);
void guest_answer(struct guest *g, uint32_t batches);

#endif
