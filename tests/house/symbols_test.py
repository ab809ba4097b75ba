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
        self.assert_one(self.found(symbol_map=MAP.replace("  pagehint_a_name;", "")), "not in the map")
        self.assert_one(self.found(page=PAGE.replace("*pagehint_a_name*", "pagehint_a_name")), "not in the man pages")
        self.assert_one(self.found(header=HEADER.replace("PAGEHINT_API const", "const")), "not in the headers")
        self.assert_one(self.found(source=SOURCE.replace("V const", "static __attribute__((used)) const")),
                        "pagehint_a_name: not in the library")

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

    def test_small_library(self):
        header = HEADER + "PAGEHINT_API int pagehint_b_do(void);\n"
        page = PAGE.replace("# DESCRIPTION", "int *pagehint_b_do*(void);\n# DESCRIPTION")
        small = "V int pagehint_b_do(void) { return 0; }\n"

        def found(symbol_map="X { global: pagehint_b_do; local: *; };\n", header=header, page=page, more=""):
            files = {"include/pagehint/a.h": header, "lib/pagehint.map": MAP, "man/pagehint_a.3.scd": page,
                     "lib/b/pagehint-b.map": symbol_map, "a.c": SOURCE, "b.c": SOURCE.splitlines()[0] + "\n" + small + more}
            with tree(files) as root:
                for name, out in [("a", "a.so"), ("b", "libpagehint-b.so.0.1.0")]:
                    subprocess.run(["cc", "-shared", "-fPIC", "-fvisibility=hidden", f"{name}.c", "-o", out], cwd=root, check=True)
                return list(symbols.check(root, root / "a.so", None, [root / "libpagehint-b.so.0.1.0"]))

        self.assertEqual(found(), [])
        self.assert_one(found(header=HEADER), "pagehint_b_do: not in the headers (but in lib/b/pagehint-b.map)")
        self.assert_one(found(page=PAGE), "pagehint_b_do: not in the man pages")
        self.assert_one(found(more="V int pagehint_c_do(void) { return 0; }\n"), "pagehint_c_do: not in its map")
        self.assertTrue(any("nothing was checked" in line for line in found(symbol_map="X { local: *; };\n")))

    def test_empty_tree(self):
        with tree({"lib/pagehint.map": "X {};\n", "include/pagehint/a.h": "", "man/x.3.scd": "x(3)\n"}) as root:
            self.assertTrue(any("nothing was checked" in line for line in symbols.check(root, None, None)))


if __name__ == "__main__":
    unittest.main()
