"""The baseline keeps counts and never times, and says what is off: worse, better, missing, new. A JSON says where it was made."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "baseline"
sys.path.insert(0, str(HERE))

import baseline  # noqa: E402

KEPT = {"driver.kicks_vs_kernel": {"value": 0.5, "tolerance": 0.02}, "domain.4k.flushes_per_tib.block": {"value": 100.0, "tolerance": 0}}


class Baseline(unittest.TestCase):
    def off(self, wanted, **figures):
        wrong = baseline.compare(KEPT, {key.replace("__", "."): value for key, value in figures.items()})
        self.assertEqual(len(wrong), wanted, wrong)
        return wrong

    def test_within_and_beyond(self):
        self.off(0, driver__kicks_vs_kernel=0.509)
        self.off(1, driver__kicks_vs_kernel=0.511)
        self.off(1, driver__kicks_vs_kernel=0.4)  # better is off, too
        self.off(1, domain__4k__flushes_per_tib__block=100.001)

    def test_what_is_on_one_side_alone(self):
        wrong = self.off(2, domain__stamp_bits_per_frame=1.0)  # domain ran, without one figure and with a new one
        self.assertIn("was not measured", wrong[0])
        self.assertIn("does not have it", wrong[1])
        self.assertIn("does not have it", self.off(1, driver__kicks_per_gib=1.0, driver__kicks_vs_kernel=0.5)[0])
        self.off(0)  # nothing ran, nothing is missing

    def test_the_forms_of_benches_and_no_times(self):
        timed = {"value": 7, "unit": "s"}
        for data in [{"results": {"driver.kicks_per_gib": {"value": 7, "unit": ""}, "driver.ns": timed}}, {"driver.kicks_per_gib": 7.0,
                     "machine": {"cpus": 2}}, {"figures": {"driver.kicks_per_gib": 7, "fault.dip_pct.ours": 1}, "rounds": {}}]:
            self.assertEqual(baseline.figures(data), {"driver.kicks_per_gib": 7.0})

    def test_writing_replaces_a_bench_and_leaves_others(self):
        after = baseline.written(KEPT, {"driver.kicks_per_gib": 3.0})
        self.assertEqual(list(after), ["domain.4k.flushes_per_tib.block", "driver.kicks_per_gib"])

    def test_what_is_kept_in_this_tree(self):
        kept = json.loads(baseline.BASELINE.read_text(encoding="utf-8"))
        self.assertGreater(len(kept), 20)
        for key, entry in kept.items():
            self.assertEqual(entry["tolerance"], baseline.rule(key), key)

    def test_the_figures_of_the_readme_are_these(self):
        kept = json.loads(baseline.BASELINE.read_text(encoding="utf-8"))
        rows = re.findall(r"^\| `([\w.]+)` \| ([\d.]+) \|", (HERE.parent.parent / "README.md").read_text(encoding="utf-8"), re.M)
        self.assertGreaterEqual(len(rows), 3)
        for key, shown in rows:
            decimals = len(shown.partition(".")[2])
            self.assertEqual(f"{kept[key]['value']:.{decimals}f}", shown, key)

    def test_a_machine_is_described_and_what_a_bench_says_stays(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "bench.json"
            path.write_text('{"figures": {"a.b": 1}, "machine": {"load": [9]}}', encoding="utf-8")
            subprocess.run([sys.executable, HERE / "machine.py", path], check=True)
            data = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual((data["figures"], data["machine"]["load"]), ({"a.b": 1}, [9]))
        self.assertTrue({"cpus", "model", "memory_gib", "arch", "kernel", "compiler"} <= data["machine"].keys())


if __name__ == "__main__":
    unittest.main()
