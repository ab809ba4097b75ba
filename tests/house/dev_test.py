"""./dev lists its verbs, and says no to what it does not know. Nothing here builds or installs."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERBS = ["setup", "build", "demo", "test", "check", "bench", "peers", "soak", "fuzz", "coverage", "mutants", "package", "format",
         "abi"]


def dev(*args):
    done = subprocess.run([ROOT / "dev", *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Dev(unittest.TestCase):
    def test_lists_every_verb_once(self):
        code, out, _ = dev()
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[0] for line in out.splitlines() if re.match("  [a-z]", line)], VERBS)

    def test_unknown_verb(self):
        code, out, err = dev("nope")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("usage", err)

    def test_unknown_names(self):
        for kind in ("bench", "peers", "fuzz"):
            code, out, _ = dev(kind, "no-such-name")
            self.assertEqual(code, 1, out)
            self.assertIn("no-such-name", out)

    def test_soak_wants_a_time(self):
        code, out, _ = dev("soak", "soon")
        self.assertEqual(code, 1)
        self.assertIn("soon", out)

    def test_empty_listings_count(self):
        for kind in ("peers", "fuzz"):
            code, out, _ = dev(kind)
            self.assertEqual(code, 0)
            if not list((ROOT / kind).glob("*.sh")):
                self.assertEqual(out.splitlines()[-1], "0 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
