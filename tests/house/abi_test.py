"""abi.py: an addition passes, a changed or removed function does not, and a struct that grows at its end may."""
import pathlib
import shutil
import subprocess
import sys
import unittest

from tree import tree

ROOT = pathlib.Path(__file__).parent.parent.parent
HEADER = "#include <stdint.h>\nstruct pagehint_a_opts { uint64_t struct_size; uint64_t a; };\n" \
         "int pagehint_a_do(const struct pagehint_a_opts *opts);\nint pagehint_a_end(void);\n"
SOURCE = '#include "x.h"\nint pagehint_a_do(const struct pagehint_a_opts *o) { return (int)o->struct_size; }\n' \
         "int pagehint_a_end(void) { return 0; }\n"


class Abi(unittest.TestCase):
    def compare(self, header, source):
        with tree({"old/x.h": HEADER, "old/x.c": SOURCE, "new/x.h": header, "new/x.c": source}) as root:
            for side in ("old", "new"):
                subprocess.run(["cc", "-g", "-shared", "-fPIC", "x.c", "-o", "libx.so"], cwd=root / side, check=True)
            abi = [sys.executable, ROOT / "tools" / "abi.py"]
            subprocess.run([*abi, "dump", root / "old/libx.so", root / "x.abi", "--include", root / "old"], check=True)
            done = subprocess.run([*abi, "check", root / "new/libx.so", root / "x.abi", "--include", root / "new",
                                   "--suppressions", ROOT / "abi" / "suppressions.ini"], capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def assert_code(self, code, header, source):
        self.assertNotEqual((header, source), (None, None))
        got, output = self.compare(header, source)
        self.assertEqual(got, code, output)

    def test_same(self):
        self.assert_code(0, HEADER, SOURCE)

    def test_added(self):
        self.assert_code(0, HEADER + "int pagehint_a_new(void);\n", SOURCE + "int pagehint_a_new(void) { return 1; }\n")

    def test_removed(self):
        self.assert_code(1, HEADER, SOURCE.replace("int pagehint_a_end", "static __attribute__((used)) int pagehint_a_end2"))

    def test_changed(self):
        self.assert_code(1, HEADER.replace("_end(void)", "_end(long x)"), SOURCE.replace("_end(void)", "_end(long x)"))

    def test_struct_grows_at_its_end(self):
        self.assert_code(0, HEADER.replace("uint64_t a;", "uint64_t a; uint64_t b;"), SOURCE)

    def test_struct_grows_elsewhere(self):
        self.assert_code(1, HEADER.replace("uint64_t a;", "uint64_t b; uint64_t a;"), SOURCE)

    def test_no_dump_is_told(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "abi.py", "check", "none.so", "none.abi", "--include", "."],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("no release to compare with", done.stdout)


if __name__ == "__main__":
    if shutil.which("abidw") is None:
        print("not applicable: abigail-tools is not installed")
        sys.exit(77)
    unittest.main()
