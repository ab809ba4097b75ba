/*
 * The two ends of a ring in two threads, with nothing between them but the ring and the notifications it asks for. A side
 * sleeps only when the ring says that it may; if a notification were lost, both would sleep for ever. What the requests
 * carry is plain memory: ThreadSanitizer sees it when the ring does not order it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "support/meeting.h"
#include "support/ring_traffic.h"
#include "support/rounds.h"

#define REQUESTS 2000000ul /* over all forms */
#define FORMS 8u
#define CROSSINGS (MEETINGS / 2)
#define LOST (UINT64_C(1) << 24) /* yields after which a sleeper is taken for forgotten */

struct doorbell {
	_Atomic uint64_t rung;
};

struct pair {
	struct traffic t;
	struct doorbell kick, interrupt;
	_Atomic int done;
	_Atomic int forgotten;
};

static void ring_it(struct doorbell *bell)
{
	atomic_fetch_add(&bell->rung, 1);
}

/* until it rings once more than `heard` says, or all is over */
static void sleep_until(struct pair *p, struct doorbell *bell, uint64_t *heard)
{
	for (uint64_t yields = 0; atomic_load(&bell->rung) == *heard && !atomic_load(&p->done); yields++) {
		if (yields == LOST) {
			atomic_store(&p->forgotten, 1);
			atomic_store(&p->done, 1);
		}
		sched_yield();
	}
	*heard = atomic_load(&bell->rung);
}

static void *drive(void *arg)
{
	struct pair *p = arg;
	uint64_t heard = 0;
	int kick = 0;
	while (p->t.reaped < p->t.total && !atomic_load(&p->done)) {
		int awake = traffic_drive(&p->t, &kick);
		if (kick)
			ring_it(&p->kick);
		if (!awake)
			sleep_until(p, &p->interrupt, &heard);
		if (p->t.driver_fault != 0)
			break;
	}
	atomic_store(&p->done, 1);
	return NULL;
}

static void *serve(void *arg)
{
	struct pair *p = arg;
	uint64_t heard = 0;
	int interrupt = 0;
	while (!atomic_load(&p->done) && p->t.device_fault == 0) {
		int awake = traffic_serve(&p->t, &interrupt);
		if (interrupt)
			ring_it(&p->interrupt);
		if (!awake)
			sleep_until(p, &p->kick, &heard);
	}
	if (p->t.device_fault != 0)
		atomic_store(&p->done, 1);
	return NULL;
}

static void run(uint32_t form, uint32_t size, uint64_t total, uint64_t seed)
{
	static struct pair p;
	pthread_t driver, device;
	memset(&p, 0, sizeof(p));
	traffic_open(&p.t, form, size, total, seed);
	assert_int_equal(pthread_create(&driver, NULL, drive, &p), 0);
	assert_int_equal(pthread_create(&device, NULL, serve, &p), 0);
	pthread_join(driver, NULL);
	pthread_join(device, NULL);
	if (p.t.driver_fault != 0 || p.t.device_fault != 0 || p.forgotten)
		printf("form %" PRIu32 ", size %" PRIu32 ", seed %" PRIu64 ": line %d or %d of ring_traffic.h%s\n",
		       form, size, seed, p.t.driver_fault, p.t.device_fault,
		       p.forgotten ? ", a sleeper was forgotten" : "");
	assert_int_equal(p.forgotten, 0);
	assert_int_equal(p.t.driver_fault, 0);
	assert_int_equal(p.t.device_fault, 0);
	assert_int_equal(p.t.reaped, total);
	assert_int_equal(p.t.served, total);
	assert_int_equal(p.t.rig.driver.in_flight, 0);
	assert_int_equal(p.t.rig.device.out, 0);
	traffic_close(&p.t);
}

static void test_two_threads(void **state)
{
	(void)state;
	uint64_t total = rounds_scaled(REQUESTS) / FORMS / 4 + 1, seed = (uint64_t)time(NULL);
	for (uint32_t form = 0; form < FORMS; form++) {
		run(form, 256, 2 * total, ++seed);
		run(form, 16, total, ++seed);
		run(form, 4, total, ++seed);
	}
}

/* ---- one side shows something at the moment when the other asks to be told: one of them must notice ---- */

struct crossing {
	struct ring_rig rig;
	_Atomic uint32_t turn;
	_Atomic int asked; /* what arm said */
	int shown;         /* what publish or flush said */
	uint32_t unnoticed;
	int at_driver; /* 1 the driver asks, the device shows; 0 the other way round */
};

static void *ask(void *arg)
{
	struct crossing *c = arg;
	for (uint32_t turn = 1; turn <= CROSSINGS; turn++) {
		await(&c->turn, 2 * turn - 1);
		stroll(turn % 16);
		atomic_store(&c->asked,
			     c->at_driver ? ph_ring_driver_arm(&c->rig.driver) : ph_ring_device_arm(&c->rig.device));
		atomic_store(&c->turn, 2 * turn);
	}
	return NULL;
}

static void one_round_trip(struct crossing *c, uint32_t turn)
{
	struct ring_rig *rig = &c->rig;
	const struct ph_ring_buffer buffer = { .addr = rig->data, .len = 8 };
	struct ph_chain chain;
	uint64_t cookie = 0;
	uint32_t budget = 8, used = 0;
	assert_int_equal(ph_ring_driver_submit(&rig->driver, &buffer, 1, 0, turn), 0);
	if (c->at_driver) {
		ph_ring_driver_publish(&rig->driver);
		assert_int_equal(ph_ring_device_pop(&rig->device, &budget, &chain), 0);
		assert_int_equal(ph_ring_device_complete(&rig->device, chain.ticket, 0), 0);
	}
	atomic_store(&c->turn, 2 * turn - 1);
	stroll(turn / 16 % 256);
	c->shown = c->at_driver ? ph_ring_device_flush(&rig->device) : ph_ring_driver_publish(&rig->driver);
	await(&c->turn, 2 * turn);
	c->unnoticed += c->shown != 1 && c->asked != 1;
	if (!c->at_driver) {
		assert_int_equal(ph_ring_device_pop(&rig->device, &budget, &chain), 0);
		assert_int_equal(ph_ring_device_complete(&rig->device, chain.ticket, 0), 0);
		ph_ring_device_flush(&rig->device);
	}
	assert_int_equal(ph_ring_driver_reap(&rig->driver, &cookie, &used), 0);
	assert_int_equal(cookie, turn);
	ph_ring_driver_disarm(&rig->driver);
	ph_ring_device_disarm(&rig->device);
}

static void cross(uint32_t form, int at_driver)
{
	static struct crossing c;
	pthread_t asker;
	memset(&c, 0, sizeof(c));
	rig_lay_out(&c.rig, form, 4, 0, 64);
	rig_open_driver(&c.rig, 0, 0);
	rig_open_device(&c.rig);
	c.at_driver = at_driver;
	ph_ring_driver_disarm(&c.rig.driver);
	ph_ring_device_disarm(&c.rig.device);
	assert_int_equal(pthread_create(&asker, NULL, ask, &c), 0);
	for (uint32_t turn = 1; turn <= CROSSINGS; turn++)
		one_round_trip(&c, turn);
	pthread_join(asker, NULL);
	assert_int_equal(c.unnoticed, 0);
	rig_close(&c.rig);
}

static void test_show_and_ask_at_once(void **state)
{
	(void)state;
	for (uint32_t form = 0; form < 4; form++) {
		cross(form, 0);
		cross(form, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_threads),
		cmocka_unit_test(test_show_and_ask_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
