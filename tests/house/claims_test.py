"""claims.py finds a test, a case or a fuzz target that is not there, a claim without any, and a table that is gone."""
import unittest

import claims
from tree import tree

TREE = {
    "tests/unit/gate_test.c": "cmocka_unit_test(test_open), cmocka_unit_test_setup_teardown(test_shut, a, b),\n/* test_said */",
    "tests/fault/a_b_test.c": "cmocka_unit_test(test_k)",
    "fuzz/ring.sh": "",
}
NAMES = {"unit-gate", "fault-a-b", "unit-lost"}


def check(*lines):
    text = "\n".join(["# S", "", claims.HEADING, "", "| claim | shown by |", "|---|---|", *lines, "", "## After", "| a | b |", ""])
    with tree(TREE) as root:
        return claims.check(text, claims.Tests(NAMES, root))


class Claims(unittest.TestCase):
    def test_right(self):
        self.assertEqual(check("| x | `unit-gate`, `unit-gate: test_shut` |", "| y | `fuzz ring`, `fault-a-b: test_k` |"), ([], 2))

    def test_missing(self):
        for named, why in [("unit-nope", "no such test"), ("unit-gate: test_said", "no such case"),
                           ("unit-gate: test_op", "no such case"), ("fuzz nope", "no such target"),
                           ("unit-lost: test_open", "is missing")]:
            wrong, _ = check(f"| x | `{named}` |")
            self.assertEqual(len(wrong), 1, named)
            self.assertIn(why, wrong[0])

    def test_without_a_test(self):
        self.assertEqual(len(check("| x | trust us |")[0]), 1)
        self.assertEqual(len(check("| x |")[0]), 1)

    def test_no_table(self):
        with tree(TREE) as root:
            self.assertEqual(claims.check("# S\n", claims.Tests(NAMES, root)), ([], 0))


if __name__ == "__main__":
    unittest.main()
