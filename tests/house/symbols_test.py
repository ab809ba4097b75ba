"""symbols.py notices a function that is missing in any one of the four places, and an error without its cause."""
import pathlib
import subprocess
import unittest

import symbols
from tree import tree

HEADER = """#define PAGEHINT_API __attribute__((visibility("default")))
/* PAGEHINT_API int pagehint_in_a_comment(void); */
/**
 * pagehint_a_do - does it
 * Return: 0; -EINVAL no; -ENOMEM
 * none left.
 * Thread: any (never -EBUSY).   Since: 0.1
 */
PAGEHINT_API PAGEHINT_MUST_CHECK int
pagehint_a_do(int (*callback)(void *ctx));
/** pagehint_a_name - its name. Thread: any. */
PAGEHINT_API const char *pagehint_a_name(void);
"""
MAP = "X {\n global:\n  pagehint_a_do;\n  pagehint_a_name; /* pagehint_gone; */\n local: *;\n};\n"
PAGE = """pagehint_a(3)

# NAME
x
# SYNOPSIS
int *pagehint_a_do*(void); const char \\**pagehint_a_name*(void);
# DESCRIPTION
x
# RETURN VALUE
x
# ERRORS
*EINVAL* no. *ENOMEM* none left.
# THREADS
x
# EXAMPLE
x
# SEE ALSO
x
"""
SOURCE = """#define V __attribute__((visibility("default")))
int ph_inner;
V int pagehint_a_do(int (*c)(void *)) { return c == 0; }
V const char *pagehint_a_name(void) { return "a"; }
"""


class Symbols(unittest.TestCase):
    def found(self, header=HEADER, symbol_map=MAP, page=PAGE, source=SOURCE):
        files = {"include/pagehint/a.h": header, "lib/pagehint.map": symbol_map, "man/pagehint_a.3.scd": page,
                 "a.c": source}
        with tree(files) as root:
            subprocess.run(["cc", "-shared", "-fPIC", "-fvisibility=hidden", "a.c", "-o", "a.so"], cwd=root, check=True)
            subprocess.run(["cc", "-c", "a.c"], cwd=root, check=True)
            subprocess.run(["ar", "rcs", "a.a", "a.o"], cwd=root, check=True)
            return list(symbols.check(root, root / "a.so", root / "a.a"))

    def assert_one(self, found, part):
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_right_tree(self):
        self.assertEqual(self.found(), [])

    def test_missing_in_one_place(self):
        found = self.found(symbol_map=MAP.replace("  pagehint_a_name;", ""))
        self.assertEqual([line.split(" (")[0] for line in found],
                         ["pagehint_a_name: not in pagehint.map", "pagehint_a_name: not in the maps"])
        self.assert_one(self.found(page=PAGE.replace("*pagehint_a_name*", "pagehint_a_name")), "not in the man pages")
        self.assert_one(self.found(header=HEADER.replace("PAGEHINT_API const", "const")), "not in the headers")
        self.assert_one(self.found(source=SOURCE.replace("V const", "static __attribute__((used)) const")),
                        "pagehint_a_name: not in the library")

    def test_small_library(self):
        """Its names stand in its own map, and only there."""
        with tree({"include/pagehint/a.h": HEADER, "man/pagehint_a.3.scd": PAGE, "a.c": SOURCE,
                   "lib/pagehint.map": MAP.replace("  pagehint_a_name;", ""), "lib/b/b.map": "Y { global: pagehint_a_name; };",
                   "b.c": SOURCE.replace("V const", "const")}) as root:
            for name in "ab":
                subprocess.run(["cc", "-shared", "-fPIC", "-fvisibility=hidden", f"{name}.c", "-o", f"lib{name}.so"],
                               cwd=root, check=True)
            found = list(symbols.check_side(root, root / "libb.so"))
            self.assertEqual({line.split(":")[0] for line in found}, {"pagehint_a_do", "pagehint_a_name"})
            self.assertEqual(list(symbols.check_side(root, root / "liba.so")), ["liba.so: no a.map under lib/"])
            self.assertEqual(list(symbols.check(root, None, None)), [])

    def test_archive_name(self):
        self.assert_one(self.found(source=SOURCE + "int helper(void) { return 1; }\n"), "defines helper")

    def test_error_without_cause(self):
        self.assert_one(self.found(page=PAGE.replace("*ENOMEM*", "x")), "does not have ENOMEM")

    def test_section_missing(self):
        self.assert_one(self.found(page=PAGE.replace("# THREADS", "x")), "no section THREADS")

    def test_comments_declare_nothing(self):
        with tree({"include/pagehint/a.h": HEADER}) as root:
            self.assertEqual(symbols.from_headers(root), {"pagehint_a_do", "pagehint_a_name"})
            self.assertEqual(symbols.errors_of(root), {"pagehint_a_do": {"EINVAL", "ENOMEM"}})

    def test_empty_tree(self):
        with tree({"lib/pagehint.map": "X {};\n", "include/pagehint/a.h": "", "man/x.3.scd": "x(3)\n"}) as root:
            self.assertTrue(any("nothing was checked" in line for line in symbols.check(root, None, None)))


if __name__ == "__main__":
    unittest.main()
