"""coverage.py: rooms add up, a figure below its bound fails, and no file of lib/ is forgotten."""
import contextlib
import io
import json
import unittest
from unittest import mock

import coverage
from tree import tree


def entry(name, lines, branches=(1, 1)):
    return {"filename": name, "line_covered": lines[0], "line_total": lines[1],
            "branch_covered": branches[0], "branch_total": branches[1]}


class Coverage(unittest.TestCase):
    def run_on(self, entries, files=(), unmeasured=()):
        """What it printed, its exit code, and the stages it left."""
        named = {name: "" for name in files or [one["filename"] for one in entries]}
        with tree({**named, "summary.json": json.dumps({"files": entries})}) as root:
            argv = ["coverage.py", "--root", str(root), "--stages", str(root / "stages"), str(root / "summary.json")]
            out = io.StringIO()
            with mock.patch("sys.argv", argv), mock.patch.object(coverage, "UNMEASURED", dict(unmeasured)), \
                    contextlib.redirect_stdout(out):
                code = coverage.main()
            return out.getvalue(), code, (root / "stages").read_text(encoding="utf-8").splitlines()

    def test_rooms_add_up(self):
        out, code, stages = self.run_on([entry("lib/a/x.c", (95, 100)), entry("lib/a/y.h", (50, 50)), entry("lib/z.c", (50, 50))])
        self.assertEqual(code, 0, out)
        self.assertIn(["a", "150", "145", "96.7", "2", "2", "100.0"], [line.split() for line in out.splitlines()])
        self.assertIn("RESULT coverage.lines_pct 97.5\n", out)
        self.assertEqual(stages, ["passed coverage.files", "passed coverage.lines", "passed coverage.branches"])

    def test_below_a_bound(self):
        for lines, branches, failed in (((91, 100), (1, 1), "lines"), ((1, 1), (79, 100), "branches")):
            out, code, stages = self.run_on([entry("lib/a/x.c", lines, branches)])
            self.assertEqual(code, 1, out)
            self.assertEqual([stage for stage in stages if stage.startswith("failed")], [f"failed coverage.{failed}"])

    def test_nothing_measured(self):
        self.assertEqual(self.run_on([])[1:], (1, ["passed coverage.files", "failed coverage.lines", "failed coverage.branches"]))

    def test_a_file_that_nobody_measured(self):
        measured = [entry("lib/a/x.c", (1, 1))]
        out, code, stages = self.run_on(measured, ["lib/a/x.c", "lib/a/new.c"])
        self.assertEqual((code, stages[0]), (1, "failed coverage.files"))
        self.assertIn("lib/a/new.c: not measured", out)
        out, code, _ = self.run_on(measured, ["lib/a/x.c", "lib/a/new.c"], {"lib/a/new.c": "because"})
        self.assertEqual(code, 0, out)
        self.assertIn("because", out)

    def test_an_excuse_that_is_not_needed(self):
        for files in (["lib/a/x.c"], ["lib/b/y.c"]):
            out, code, _ = self.run_on([entry("lib/a/x.c", (1, 1))], files, {"lib/a/x.c": "because"})
            self.assertEqual(code, 1, out)
            self.assertIn("lib/a/x.c: excused", out)


if __name__ == "__main__":
    unittest.main()
