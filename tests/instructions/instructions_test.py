"""Instructions of the hot paths, counted by callgrind: they do not depend on the machine's speed or load.

usage: instructions_test.py VALGRIND HOT_PATHS [--json FILE]      FILE: what was counted, for bench/baseline
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

VALGRIND, PROGRAM = "", ""
COUNTED = {}


def per_op(what, *more):
    """Instructions per operation, the loop around the calls included."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        done = subprocess.run(
            [VALGRIND, "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect=count_{what}",
             f"--callgrind-out-file={out}", PROGRAM, what, *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        total = next(line for line in out.read_text().splitlines() if line.startswith(("summary:", "totals:")))
    ops = int(done.stdout)
    count = int(total.split()[1]) / ops
    print(f"{' '.join([what, *more])}: {count:.1f} instructions", file=sys.stderr)
    assert count > 2, "the counted function was not found"
    COUNTED[".".join(["instructions", what, *more])] = round(count, 2)
    return count


class Instructions(unittest.TestCase):
    def test_cached_pair(self):
        self.assertLessEqual(per_op("pairs"), 100)

    def test_bulk(self):
        self.assertLessEqual(per_op("bulk"), 80)

    def test_bulk_of_blocks(self):
        self.assertLessEqual(per_op("bulk9"), 560)

    def test_untracked_costs_less(self):
        self.assertLess(per_op("pairs", "untracked"), per_op("pairs"))
        self.assertLess(per_op("bulk", "untracked"), per_op("bulk"))


if __name__ == "__main__":
    VALGRIND, PROGRAM = sys.argv[1:3]
    del sys.argv[1:3]
    out = sys.argv.pop(2) if sys.argv[1:2] == ["--json"] else None
    if out:
        del sys.argv[1]
    ran = unittest.main(exit=False).result
    if out:
        pathlib.Path(out).write_text(json.dumps(COUNTED, indent=1) + "\n", encoding="utf-8")
    sys.exit(not ran.wasSuccessful())
