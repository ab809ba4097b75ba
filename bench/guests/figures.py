"""Arguments and results of a bench with guests: the same words and the same lines as the other benches have."""
import argparse
import json
import os
import pathlib
import statistics
import sys

from host import NotHere


class Bench:
    """Collects figures; prints RESULT lines; leaves every round in the JSON."""

    def __init__(self, name, description):
        parser = argparse.ArgumentParser(prog=name, description=description)
        parser.add_argument("--quick", action="store_true", help="few rounds: for a look, not for a figure")
        parser.add_argument("--rounds", type=int, help="rounds, instead of the usual number")
        parser.add_argument("--only", default="", help="cases whose names begin so")
        parser.add_argument("--json", help="where every round goes")
        self.args = parser.parse_args()
        sys.stdout.reconfigure(line_buffering=True)
        self.name, self.figures, self.rounds, self.series = name, {}, {}, {}

    def wants(self, case):
        """Of cases and of whole parts, whose names end with a dot."""
        return case.startswith(self.args.only) or (case.endswith(".") and self.args.only.startswith(case))

    def n_rounds(self, usual, quick):
        return self.args.rounds or (quick if self.args.quick else usual)

    def add(self, key, value):
        """One round's value."""
        self.rounds.setdefault(key, []).append(value)

    def spread(self, key):
        values, middle = self.rounds[key], statistics.median(self.rounds[key])
        return 100 * (max(values) - min(values)) / abs(middle) if middle else 0.0

    def publish(self, key, value, unit):
        self.figures[key] = value
        print(f"RESULT {key} {value:g} {unit}" if isinstance(value, float) else f"RESULT {key} {value} {unit}", flush=True)

    def publish_median(self, key, unit):
        """The median of what was added under this key; its spread goes into the line before."""
        values = self.rounds[key]
        print(f"{key}: {len(values)} rounds, least {min(values):g}, most {max(values):g}, spread {self.spread(key):.0f}%")
        self.publish(key, round(float(statistics.median(values)), 3), unit)

    def missing(self, why):
        print(f"not applicable: {why}", flush=True)

    def write(self):
        if self.args.json:
            machine = {"cpus": os.cpu_count(), "kernel": os.uname().release, "load": os.getloadavg()}
            pathlib.Path(self.args.json).write_text(json.dumps(
                {"bench": self.name, "quick": self.args.quick, "machine": machine, "figures": self.figures,
                 "rounds": self.rounds, "series": self.series}, indent=1) + "\n", encoding="utf-8")


def run(bench, *parts):
    """Runs the parts, each of which may find that the machine cannot do it. What one published stays published."""
    try:
        for part in parts:
            try:
                part(bench)
            except NotHere as why:
                bench.missing(f"{bench.name}: {why}")
    finally:
        bench.write()
