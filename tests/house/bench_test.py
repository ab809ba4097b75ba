"""The bench shim on a bench of known work: counts and output, never times.

usage: bench_test.py SHIM_SELFTEST
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


def run(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, text=True)
    results = {}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            key, value, unit = line.split()[1:]
            results[key] = (float(value), unit)
    return done, results


class Shim(unittest.TestCase):
    def test_rounds_and_output(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "out.json"
            done, results = run("--rounds", "7", "--seed", "5", "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            data = json.loads(path.read_text())
        self.assertEqual(results["shim_selftest.setups"], (14, "calls"))
        self.assertEqual(results["shim_selftest.unbalanced"], (0, "calls"))
        # two in each round, in a drawn order: never three of a kind in a row
        self.assertLessEqual(results["shim_selftest.longest_stretch"][0], 2)
        self.assertEqual([len(c["ns"]) for c in data["cases"]], [7, 7])
        self.assertEqual(data["results"]["shim_selftest.setups"], {"value": 14, "unit": "calls"})
        for case in data["cases"]:
            name = "shim_selftest." + case["name"]
            self.assertAlmostEqual(results[name + ".min"][0], min(case["ns"]), delta=min(case["ns"]) * 1e-3)
            self.assertAlmostEqual(results[name + ".median"][0], sorted(case["ns"])[3], delta=sorted(case["ns"])[3] * 1e-3)
        ratio = min(data["cases"][1]["ns"]) / min(data["cases"][0]["ns"])
        self.assertAlmostEqual(results["shim_selftest.double.min_ratio"][0], ratio, delta=ratio * 1e-3)
        self.assertNotIn("shim_selftest.single.min_ratio", results)
        self.assertIn("double", done.stdout.split("RESULT")[0])

    def test_default_is_at_least_seven_rounds(self):
        done, results = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(results["shim_selftest.setups"][0], 14)

    def test_quick_and_only(self):
        done, results = run("--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(results["shim_selftest.setups"], (6, "calls"))
        self.assertIn("too few rounds", done.stdout)
        # a case takes its baseline along; a baseline goes alone
        for name, cases in [("double", 2), ("doub", 2), ("single", 1)]:
            done, results = run("--only", name, "--rounds", "7")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(results["shim_selftest.cases"], (cases, "cases"), name)
            self.assertEqual(results["shim_selftest.setups"], (7 * cases, "calls"), name)
        done, results = run("--only", "ouble")
        self.assertEqual((done.returncode, results), (2, {}))
        self.assertIn("ouble", done.stderr)

    def test_own_clock_and_argument(self):
        """`open` with its argument instead of setup, `timed` instead of batch: the time is the case's own."""
        done, results = run("--own-clock")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(results["shim_selftest.setups"], (18, "calls"))
        # the case says 2 ns an operation, whatever the clock on the wall says
        self.assertAlmostEqual(results["shim_selftest.double.min"][0], 2, delta=1e-6)
        self.assertAlmostEqual(results["shim_selftest.double.spread"][0], 0, delta=1e-6)

    def test_failed_check_and_setup_fail_the_bench(self):
        for how, why in [("--fail-check", "check failed"), ("--fail-setup", "setup failed")]:
            done, results = run(how)
            self.assertEqual(done.returncode, 1, how)
            self.assertIn(f"shim_selftest.double: {why}", done.stderr)
            self.assertEqual(results, {}, "a failed bench publishes nothing")

    def test_wrong_arguments_and_tables(self):
        for args in (["--rounds", "6"], ["--rounds"], ["--rounds", "x"], ["--what"], ["--json"], ["--only"], ["--no-baseline"]):
            self.assertEqual(run(*args)[0].returncode, 2, args)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
