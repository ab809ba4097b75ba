/*
 * The few words of cmocka that the tests of tests.list use, for machines where the real one is not. A condition that is not
 * so ends the program.
 */
#ifndef TESTS_CROSS_CMOCKA_H
#define TESTS_CROSS_CMOCKA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*run)(void **state);
};

static inline void cross_require(int so, const char *what, const char *file, int line)
{
	if (so)
		return;
	printf("%s:%d: not so: %s\n", file, line, what);
	exit(1);
}

#define CROSS_REQUIRE(cond, what) cross_require((cond) != 0, (what), __FILE__, __LINE__)
#define assert_true(cond) CROSS_REQUIRE(cond, #cond)
#define assert_false(cond) CROSS_REQUIRE(!(cond), "not " #cond)
#define assert_int_equal(a, b) CROSS_REQUIRE((uintmax_t)(a) == (uintmax_t)(b), #a " == " #b)
#define assert_int_not_equal(a, b) CROSS_REQUIRE((uintmax_t)(a) != (uintmax_t)(b), #a " != " #b)
#define assert_null(a) CROSS_REQUIRE((a) == NULL, #a " is NULL")
#define assert_non_null(a) CROSS_REQUIRE((a) != NULL, #a " is not NULL")
#define assert_in_range(a, least, most) \
	CROSS_REQUIRE((uintmax_t)(a) >= (uintmax_t)(least) && (uintmax_t)(a) <= (uintmax_t)(most), #a " is in range")
#define assert_ptr_equal(a, b) CROSS_REQUIRE((a) == (b), #a " == " #b)
#define assert_string_equal(a, b) CROSS_REQUIRE(strcmp((a), (b)) == 0, #a " == " #b)
#define assert_string_not_equal(a, b) CROSS_REQUIRE(strcmp((a), (b)) != 0, #a " != " #b)
#define assert_memory_equal(a, b, bytes) CROSS_REQUIRE(memcmp((a), (b), (bytes)) == 0, #a " == " #b)
#define fail() CROSS_REQUIRE(0, "fail()")

#define cmocka_unit_test(function)  \
	{                           \
#function, function \
	}

static inline int cross_run(const struct CMUnitTest *tests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		void *state = NULL;
		printf("%s\n", tests[i].name);
		tests[i].run(&state);
	}
	return n == 0;
}

#define cmocka_run_group_tests(tests, set_up, tear_down) cross_run((tests), sizeof(tests) / sizeof((tests)[0]))

#endif
