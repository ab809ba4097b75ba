"""headers.py refuses a header that needs another one first, is not C++, hides padding, or says what another one says."""
import pathlib
import subprocess
import sys
import unittest

from tree import tree

TOOL = pathlib.Path(__file__).parent.parent.parent / "tools" / "headers.py"


class Headers(unittest.TestCase):
    def run_on(self, text):
        with tree({"include/pagehint/x.h": text}) as root:
            done = subprocess.run([sys.executable, TOOL, "--include", root / "include", "gcc"], capture_output=True, text=True)
            return done.returncode, done.stdout

    def test_right(self):
        code, out = self.run_on("#include <stdint.h>\nstruct x { uint64_t a; uint32_t b, c; };\nint f(void);\n")
        self.assertEqual(code, 0, out)

    def test_wrong(self):
        for text, way in [
            ("uint64_t f(void);\n", "c11"),
            ("struct x { long long a; int b; };\n", "c11 padded"),
            ("int f(int class);\n", "c++17"),
            ("int f();\n", "c17"),
            ("__extension__ typedef int ok; int f(int a[static 2]);\n", "c++17"),
        ]:
            code, out = self.run_on(text)
            self.assertEqual(code, 1, text)
            self.assertIn(f"x.h as {way}", out)

    def test_one_place_for_each_macro(self):
        for second, code in (("#define A 1u\n", 1), ("  #  define A(x) (x)\n", 1), ("#define B 1u\n", 0), ("/* A */\n", 0)):
            with tree({"include/pagehint/x.h": "#define A 1u\n", "include/pagehint/y.h": second}) as root:
                done = subprocess.run([sys.executable, TOOL, "--include", root / "include", "gcc"], capture_output=True,
                                      text=True)
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertEqual("A is defined in x.h, y.h" in done.stdout, code == 1, done.stdout)

    def test_no_headers(self):
        with tree({"include/pagehint/readme": ""}) as root:
            done = subprocess.run([sys.executable, TOOL, "--include", root / "include", "gcc"], capture_output=True)
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
