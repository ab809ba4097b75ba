"""mutate.py's rules say what they change and leave alone what is no code; mutants.py finds what the tests of a tree miss."""
import contextlib
import io
import pathlib
import random
import tempfile
import unittest
from unittest import mock

import mutant_runs
import mutants
import mutate
from tree import tree


def body(*lines):
    return "int f(int a, int b)\n{\n" + "".join(f"\t{line}\n" for line in lines) + "}\n"


def changes(rule, *lines):
    """The lines that a rule makes of the first line of a function."""
    return [m.after for m in mutate.mutants("x.c", body(*lines)) if m.rule == rule]


class Rules(unittest.TestCase):
    def test_each_rule(self):
        for rule, line, after in [
            ("comparison", "return a < b;", ["return a <= b;"]),
            ("arithmetic", "return a + b;", ["return a - b;"]),
            ("bits", "return a << b;", ["return a >> b;"]),
            ("logic", "return a && b;", ["return a || b;"]),
            ("step", "a++;", ["a--;"]),
            ("complement", "return ~a;", ["return a;"]),
            ("bound", "return a < b;", ["return a < 1 + b;", "return a < -1 + b;"]),
            ("bound", "return a < 0;", ["return a < 1 + 0;"]),
            ("condition", "while (a != b)", ["while (!(a != b))"]),
            ("dropped", "g(a);", [";"]),
            ("arguments", "g(a, h(b, 1), a);", ["g(h(b, 1), a, a);", "g(a, a, h(b, 1));", "g(a, h(1, b), a);"]),
            ("constant", "return 7;", ["return 8;", "return 6;"]),
            ("order", "atomic_store_explicit(p, a, memory_order_release);", ["atomic_store_explicit(p, a, memory_order_relaxed);"]),
            ("order", "atomic_store(p, a);", ["atomic_store_explicit(p, a, memory_order_relaxed);"]),
        ]:
            self.assertEqual(sorted(changes(rule, line)), sorted(after), rule)

    def test_every_rule_is_tried_above(self):
        self.assertEqual(len(mutate.RULES), 12)

    def test_what_is_left_alone(self):
        self.assertEqual(mutate.mutants("x.c", "int a = 1 + 2;\nint f(int a, int b);\n#if A < 3\n#endif\n"), [])
        self.assertEqual(mutate.mutants("x.c", body('/* a < b */ // 1 + 2', 'static_assert(1 < 2, "x");')), [])
        self.assertEqual(mutate.mutants("x.c", body('g("a < 1");')), [])
        self.assertEqual(changes("comparison", "return a < b ? a : b;"), [])
        self.assertEqual(changes("comparison", "return a < b ? a : 2;"), ["return a <= b ? a : 2;"])

    def test_values_of_macros(self):
        found = mutate.mutants("x.h", "#define MOST 64 /* of 9 */\n#define F(a) (a + 1)\n")
        self.assertEqual([m.after.split()[2] for m in found], ["63", "65"])

    def test_a_change_changes_one_place(self):
        text = body("a = b;", "return a < b;")
        m = [m for m in mutate.mutants("x.c", text) if m.rule == "comparison"][0]
        self.assertEqual((m.line, m.apply(text)), (4, text.replace("a < b", "a <= b")))


class Drawing(unittest.TestCase):
    def test_spread_over_all_files_and_had_again(self):
        found = [mutate.Mutant(f"lib/{name}.c", i, "r", i, i, "", "", "") for name in "abcd" for i in range(100)]
        rows = [list(mutants.spread(list(found), 8, random.Random(seed))) for seed in (1, 1, 2)]
        self.assertEqual(rows[0], rows[1])
        self.assertNotEqual(rows[0], rows[2])
        self.assertEqual({m.file for m in rows[0][:8]}, {m.file for m in found})
        self.assertEqual(set(rows[0]), set(found))


LIBRARY = """#include "room/x.h"
int smaller(int a, int b)
{
	if (a < b)
		return a;
	return b;
}
"""
MESON = {
    "meson.build": "project('x', 'c')\ninc = include_directories('lib')\nsubdir('lib')\nsubdir('tests')\n",
    "lib/meson.build": "core = static_library('core', 'room/x.c', include_directories: inc)\n",
    "lib/room/x.h": "int smaller(int a, int b);\n",
    "lib/room/x.c": LIBRARY,
    "tests/meson.build": "test('unit-room', executable('room', 'room_test.c', link_with: core, include_directories: inc),"
                         " suite: 'unit')\n",
}


def test_program(*checks):
    return '#include "room/x.h"\nint main(void)\n{\n\treturn !(' + " && ".join(checks) + ");\n}\n"


BLIND = test_program("smaller(1, 1) == 1")
SEEING = test_program("smaller(1, 2) == 1", "smaller(2, 1) == 1", "smaller(0, 1) == 0", "smaller(-1, 0) == -1")
SAME = "lib/room/x.c: comparison: if (a < b) ==> if (a <= b)\n\tthe two are equal\n"
MORE = "lib/room/x.c: bound: if (a < b) ==> if (a < 1 + b)\n\tthe two are equal\n"


class WrongTree(unittest.TestCase):
    def run_on(self, program, listed="", n=1):
        with tree({**MESON, "tests/room_test.c": program, "tools/mutants.equivalent": listed}) as root:
            out = io.StringIO()
            argv = ["mutants.py", "--root", str(root), str(n), "7"]
            with mock.patch.object(mutants, "WORKERS", 1), mock.patch("sys.argv", argv), contextlib.redirect_stdout(out):
                code = mutants.main()
            untouched = (root / "lib/room/x.c").read_text(encoding="utf-8") == LIBRARY
        self.assertTrue(untouched)
        return out.getvalue(), code

    def test_blind_tests_let_all_survive(self):
        out, code = self.run_on(BLIND, SAME + MORE, n=2)
        self.assertEqual(code, 1, out)
        self.assertIn("RESULT mutants.killed_pct 0.0\n", out)
        self.assertIn("survived lib/room/x.c:4: condition\n    - if (a < b)\n    + if (!(a < b))\n", out)
        self.assertEqual(out.splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    def test_tests_that_see_kill_all_but_what_is_the_same(self):
        out, code = self.run_on(SEEING, SAME + MORE, n=2)
        self.assertEqual(code, 0, out)
        self.assertIn("killed by unit-room (exit 1)", out)
        self.assertIn("RESULT mutants.killed_pct 100.0\n", out)
        self.assertIn("equivalent lib/room/x.c:4: comparison", out)
        self.assertEqual(out.splitlines()[-1], "1 passed, 0 failed, 0 skipped")

    def test_a_list_that_is_wrong(self):
        for listed, said in ((SAME.replace("a < b", "a < c"), "names what is not there"),
                             (SAME.splitlines()[0] + "\n", "no reason"), ("rubbish\n", "neither")):
            out, code = self.run_on(SEEING, listed)
            self.assertEqual((code, out.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"), out)
            self.assertIn(said, out)

    def test_tests_that_fail_anyway(self):
        out, code = self.run_on(test_program("0"))
        self.assertEqual(code, 1, out)
        self.assertIn("unit-room fails on the tree as it is", out)

    def test_a_machine_without_git(self):
        with mock.patch("shutil.which", return_value=None), tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "lib").mkdir()
            (root / "lib" / "x.c").write_text("int x;\n")
            mutant_runs.copy_tree(root, root / "out" / "tree0")
            self.assertEqual((root / "out" / "tree0" / "lib" / "x.c").read_text(), "int x;\n")

    def test_more_than_there_are(self):
        out, code = self.run_on(SEEING, SAME + MORE, n=50)
        self.assertEqual(code, 1, out)
        self.assertIn("of 50 mutants could be made", out)


if __name__ == "__main__":
    unittest.main()
