"""tools/freestanding.sh: what is to be freestanding is, and what is not is named."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "lib/virtio/freestanding.list"


def freestanding(*args):
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(["bash", ROOT / "tools/freestanding.sh", "--out", out, *args], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class Freestanding(unittest.TestCase):
    def check(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
            source.write(text)
            source.flush()
            return freestanding("--sources", source.name, "gcc")

    def test_this_tree(self):
        code, out = freestanding("gcc", "clang")
        self.assertEqual(code, 0, out)
        self.assertIn("gcc: needs", out)
        self.assertIn("clang: needs", out)

    def test_mem_functions_are_allowed(self):
        code, out = self.check("#include <string.h>\nvoid f(char *p, size_t n);\nvoid f(char *p, size_t n) { memmove(p, p + 1, n); }\n")
        self.assertEqual(code, 0, out)
        self.assertIn("needs memmove", out)

    def test_anything_else_is_named(self):
        code, out = self.check("int puts(const char *);\nint g(void);\nint f(void);\nint f(void) { return puts(\"\") + g(); }\n")
        self.assertEqual(code, 1, out)
        self.assertIn("not freestanding: g puts", out)

    def test_what_does_not_compile_fails(self):
        code, out = self.check("int f(\n")
        self.assertNotEqual(code, 0, out)

    def test_nothing_to_do_is_misuse(self):
        self.assertEqual(freestanding()[0], 2)

    def test_list_is_sorted_and_real(self):
        names = LIST.read_text(encoding="utf-8").split()
        self.assertEqual(names, sorted(set(names)))
        for name in names:
            self.assertTrue((LIST.parent / name).is_file(), name)


if __name__ == "__main__":
    unittest.main()
