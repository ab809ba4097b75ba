"""headers.py refuses a header that needs another one first, is not C++, or hides padding."""
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

    def test_no_headers(self):
        with tree({"include/pagehint/readme": ""}) as root:
            done = subprocess.run([sys.executable, TOOL, "--include", root / "include", "gcc"], capture_output=True)
            self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
