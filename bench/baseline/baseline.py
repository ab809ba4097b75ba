#!/usr/bin/env python3
"""Figures that are the same on every machine, kept in bench/baseline.json, and compared with what benches say now.

usage: baseline.py write JSON..      keeps what these say (and what the file has of other benches)
       baseline.py compare JSON..    exit 1 when a figure is off by more than its tolerance, or is on one side alone

Only counts and ratios of counts are kept: RULES lists them, with the tolerance that `write` gives them. Times, and ratios of times,
depend on the machine. A figure that became better is off, too: write the baseline anew, in the commit that made it so.
"""
import json
import pathlib
import re
import sys

BASELINE = pathlib.Path(__file__).resolve().parent.parent / "baseline.json"
RULES = [  # of a key; the tolerance is a part of the value
    (r"driver\.kicks_.*", 0.02),
    (r"device\.allocs_per_request", 0.0),
    (r"domain\.\w+\.flushes_per_tib\.\w+", 0.0),
    (r"domain\.stamp_bits_per_frame", 0.01),
    (r"order\..*(requests_per_gib|kernel_policy\b).*", 0.02),
    (r"order\.re(reported|sent)_bytes.*", 0.02),
    (r"instructions\..*", 0.1),
]


def rule(key):
    """The tolerance of a key; None: it is not kept."""
    return next((tolerance for pattern, tolerance in RULES if re.fullmatch(pattern, key)), None)


def figures(data):
    """{key: value} of what a bench wrote, in any of the three forms that they write; only what is kept."""
    found = data.get("results") or data.get("figures") or data
    values = {key: each["value"] if isinstance(each, dict) else each for key, each in found.items() if rule(key) is not None}
    return {key: float(value) for key, value in values.items()}


def bench_of(key):
    return key.split(".")[0]


def written(kept, now):
    """The baseline after `write`: the figures of the benches that ran are replaced, others stay."""
    ran = {bench_of(key) for key in now}
    after = {key: entry for key, entry in kept.items() if bench_of(key) not in ran}
    after |= {key: {"value": value, "tolerance": rule(key)} for key, value in now.items()}
    return dict(sorted(after.items()))


def compare(kept, now):
    """A line for each thing that is wrong. Figures of benches that did not run are not looked at."""
    ran = {bench_of(key) for key in now}
    wrong = [f"{key}: the baseline has it, and it was not measured" for key in kept if bench_of(key) in ran and key not in now]
    for key, value in now.items():
        if key not in kept:
            wrong.append(f"{key}: {value:g}: the baseline does not have it")
            continue
        was, tolerance = kept[key]["value"], kept[key]["tolerance"]
        if abs(value - was) > tolerance * abs(was):
            wrong.append(f"{key}: {value:g}, {was:g} was kept, with a tolerance of {100 * tolerance:g}%")
    return wrong


def text_of(kept):
    """A line for each figure, so that a change is a line of a diff."""
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(entry)}" for key, entry in kept.items()) + "\n}\n"


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "compare"):
        print(__doc__)
        return 2
    now = {}
    for name in sys.argv[2:]:
        found = figures(json.loads(pathlib.Path(name).read_text(encoding="utf-8")))
        if not found and sys.argv[1] == "write":
            print(f"{name}: nothing in it is kept")
        now |= found
    kept = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.is_file() else {}
    if sys.argv[1] == "write":
        BASELINE.write_text(text_of(written(kept, now)), encoding="utf-8")
        print(f"baseline: {len(now)} figures written")
        return 0 if now else 1
    wrong = compare(kept, now)
    print("\n".join(wrong))
    print(f"baseline: {len(now)} figures compared, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
