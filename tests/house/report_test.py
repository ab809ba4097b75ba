#!/usr/bin/env python3
"""The report of the benches: what it says of what is there, of what is not, and how dips come about."""
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
for part in ("report", "guests"):
    sys.path.insert(0, str(ROOT / "bench" / part))

import report  # noqa: E402


class Page(unittest.TestCase):
    def page(self, **benches):
        with tempfile.TemporaryDirectory() as directory:
            for name, data in benches.items():
                (pathlib.Path(directory) / f"bench-{name}.json").write_text(json.dumps(data), encoding="utf-8")
            return "\n".join(report.page(pathlib.Path(directory)))

    @staticmethod
    def guests(quick=False):
        return {"bench": "memhog", "quick": quick, "machine": {"load": [1.5, 1, 1]}, "series": {},
                "figures": {"memhog.uml.third_vs_first.none": 3.25, "memhog.uml.third_vs_first.ours": 1.125},
                "rounds": {"memhog.uml.third_vs_first.none": [3, 3.25, 4]}}

    def test_a_figure_stands_with_its_rounds(self):
        page = self.page(memhog=self.guests())
        self.assertIn("| `memhog.uml.third_vs_first.none` | 3.25 | 3 | 4 | 3 |", page)
        self.assertIn("| `memhog.uml.third_vs_first.ours` | 1.125 |", page)
        self.assertNotIn("quick run", page)

    def test_what_was_not_measured_is_said(self):
        page = self.page(memhog=self.guests())
        self.assertEqual(page.count("Not measured here."), len(report.BENCHES) - 1)

    def test_a_quick_run_is_no_figure(self):
        self.assertIn("A quick run", self.page(memhog=self.guests(quick=True)))

    def test_the_orders_make_a_table(self):
        order = {f"order.9.{what}.aged": n for n, what in enumerate(
            ("requests_per_gib", "refaults_mib", "seconds_to_95pct", "unreturned_pct"), 1)}
        page = self.page(order={**order, "order.rereported_bytes": 0})
        self.assertIn("| recorded build | 9 | aged | 1.0 | 2.0 | 3.0 | 4.0 |", page)
        self.assertIn("| `order.rereported_bytes` | 0 |", page)
        self.assertNotIn("| churn |", page)


class Dips(unittest.TestCase):
    def test_pairs_are_compared_within_their_round(self):
        try:
            import pairs  # pylint: disable=import-outside-toplevel
        except ImportError as why:
            self.skipTest(f"not applicable: {why}")

        class Bench:
            rounds = {"f.k.c.none.cpu": [100, 200, 100], "f.k.c.ours.cpu": [99, 190, 90],
                      "f.k.c.none.wall": [10, 10, 10], "f.k.c.ours.wall": [10, 10, 10]}
            found = {}

            def publish(self, key, value, unit):
                self.found[key] = (value, unit)

        pairs.dips(Bench(), "f", "k", ("none", "ours"), ["c"])
        self.assertEqual(Bench.found["f.k.dip_pct.ours"], (5.0, "%"))  # of 1, 5 and 10
        self.assertEqual(Bench.found["f.k.dip_pct.c.ours"], (5.0, "%"))


if __name__ == "__main__":
    unittest.main(verbosity=0)
