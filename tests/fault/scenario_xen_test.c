/*
 * The raw way to the hypervisor, with one failure in it: is this Xen, may we, the device and its buffers, memory that is given away and
 * comes back, wiped before it goes, and the kernel's own balloon. As Domain-0, and as a guest that must wait for the device.
 */
#include "fakes/xen_os.h"

#include <pagehint/pagehint.h>
#include <pagehint/xen.h>

#include "support/scenario.h"

static int is_guest;

/* What Xen is asked before anything else may be answered wrongly: then it is not Xen, or not a guest that may. */
static int is_no(const struct scenario *s, int error)
{
	return scenario_explains(s, error) || (s->kind == SCENARIO_CALL && (error == -ENODEV || error == -EOPNOTSUPP));
}

static struct pagehint_xen *open_xen(struct scenario *s)
{
	struct pagehint_xen_opts opts = { .struct_size = sizeof(opts), .domid = FAKE_DOMID };
	struct pagehint_xen *x = NULL;
	opts.flags = is_guest ? PAGEHINT_XEN_GUEST_PRIVCMD : 0;
	int r = ph_xen_open_with(s->sys, &opts, &x);
	if (r != 0) {
		assert_null(x);
		if (!is_no(s, r))
			scenario_unexplained(s, "open", r);
		r = ph_xen_open_with(s->sys, &opts, &x);
	}
	assert_int_equal(r, 0);
	return x;
}

/* Frames go, wiped, and come back; a failure has a reason, and what it left undone can be done again. */
static void goes_and_comes_back(struct scenario *s, struct pagehint_xen *x)
{
	struct pagehint_backend *backend = NULL;
	const struct pagehint_run run = { 16, 8 };
	struct pagehint_outcome o;
	uint32_t done = 0;
	ATTEMPT(s, pagehint_xen_backend_new(x, NULL, &backend));
	for (int tries = 0; tries < 2; tries++) {
		int r = pagehint_backend_discard(backend, &run, 1, 0, &o, NULL, NULL);
		assert_int_equal(o.freed + o.absent + o.accepted + o.kept + o.lazy + o.failed, o.asked);
		if (r != 0 && !scenario_explains(s, r))
			scenario_unexplained(s, "discard", r);
		if (o.failed + o.kept == 0)
			break;
		/* one frame cannot be wiped here; whatever else stays is the failure's */
		assert_true(o.failed == 0 || o.error != 0);
	}
	ATTEMPT(s, pagehint_backend_populate(backend, &run, 1, &done));
	ATTEMPT(s, pagehint_backend_free(backend));
}

static void balloon(struct scenario *s)
{
	uint64_t target = 0, current = 0;
	ATTEMPT(s,
		ph_xen_set_target_with(s->sys, UINT64_C(768) << 20, UINT64_C(256) << 20, UINT64_C(1) << 30, &target));
	assert_int_equal(target, UINT64_C(768) << 20);
	ATTEMPT(s, ph_xen_get_target_with(s->sys, &target, &current));
	assert_int_equal(target, UINT64_C(768) << 20);
	assert_int_equal(current, UINT64_C(512) << 20);
}

static struct scenario *here;

/* A hypercall buffer is memory of the fake's. */
static int map_file(void *ctx, int fd, size_t length, void **ret_addr)
{
	scenario_apart(here, 1);
	int r = os_map_file(ctx, fd, length, ret_addr);
	scenario_apart(here, 0);
	return r;
}

static void session(struct scenario *s)
{
	void *none = NULL;
	here = s;
	scenario_apart(s, 1);
	assert_int_equal(os_setup(&none), 0);
	scenario_apart(s, 0);
	os.sys.map_file = map_file;
	if (is_guest)
		say(1, "/sys/hypervisor/properties/features", "00000604\n");
	s->faulty.below = &os.sys;
	struct pagehint_xen *x = open_xen(s);
	goes_and_comes_back(s, x);
	balloon(s);
	ATTEMPT(s, pagehint_xen_free(x));
	assert_int_equal(os_teardown(&none), 0);
}

static void test_every_point_fails(void **state)
{
	static const int errors[] = { -EXDEV, -ENOMEM, -EPERM };
	static struct scenario s;
	(void)state;
	if ((pagehint_features() & PAGEHINT_FEATURE_XEN) == 0)
		return; /* built without hypercalls: the unit test says so */
	for (is_guest = 0; is_guest < 2; is_guest++) {
		/* the last one by a guest alone */
		static const enum faulty_call reached[] = { FAULTY_OPEN,   FAULTY_READ,       FAULTY_WRITE,
							    FAULTY_CLOSE,  FAULTY_MAP_FILE,   FAULTY_IOCTL,
							    FAULTY_GETPID, FAULTY_OPEN_WITHIN };
		unsigned n = sizeof(reached) / sizeof(reached[0]) - !is_guest;
		assert_true(scenario_sweep(&s, session, errors, 3, reached, n) > 3 * 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_point_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
