#!/usr/bin/env python3
"""How much of lib/ the tests run: a table a room, the two figures, and whether they hold.

usage: coverage.py [--root DIR] [--stages FILE] SUMMARY

SUMMARY   gcovr's --json-summary, with file names that are relative to the root
--stages  where to leave `passed NAME` or `failed NAME` for each figure and for the files, for count.py

Every .c file of lib/ must be in the summary, or in UNMEASURED with a reason: a file that no build compiled would otherwise
raise the figures. Exit 1 when a figure is below its bound, or the files and UNMEASURED do not agree.
"""
import argparse
import collections
import json
import pathlib
import sys

BOUNDS = {"lines": 92.0, "branches": 80.0}
UNMEASURED = {
    "lib/xencall/xencall.c": "needs libxencall and a hypervisor: `./dev peers xen xencall` runs it",
}


def percent(covered, total):
    return 100.0 * covered / total if total else 100.0


def rooms(files):
    """{room: Counter}; what lies in lib/ itself is the room `lib`."""
    found = collections.defaultdict(collections.Counter)
    for entry in files:
        parts = pathlib.PurePath(entry["filename"]).parts
        room = parts[1] if len(parts) > 2 else "lib"
        for what in ("line_covered", "line_total", "branch_covered", "branch_total"):
            found[room][what] += entry[what]
    return found


def table(found):
    yield f"{'room':<10}{'lines':>8}{'run':>8}{'%':>8}{'branches':>10}{'taken':>8}{'%':>8}"
    for room, n in sorted(found.items()):
        yield (f"{room:<10}{n['line_total']:>8}{n['line_covered']:>8}{percent(n['line_covered'], n['line_total']):>8.1f}"
               f"{n['branch_total']:>10}{n['branch_covered']:>8}{percent(n['branch_covered'], n['branch_total']):>8.1f}")


def disagreements(root, files):
    """What is neither measured nor excused, and what is excused for nothing."""
    measured = {entry["filename"] for entry in files}
    ran = {entry["filename"] for entry in files if entry["line_covered"] != 0}  # where its library is, a file is built all the same
    there = {path.relative_to(root).as_posix() for path in (root / "lib").rglob("*.c")}
    for name in sorted(there - measured - set(UNMEASURED)):
        yield f"{name}: not measured, and no reason is given"
    for name in sorted((there & ran & set(UNMEASURED)) | (set(UNMEASURED) - there)):
        yield f"{name}: excused, but it ran or is not there"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--stages", type=pathlib.Path)
    parser.add_argument("summary", type=pathlib.Path)
    args = parser.parse_args()
    files = json.loads(args.summary.read_text(encoding="utf-8"))["files"]
    found = rooms(files)
    print("\n".join(table(found)))
    for name, why in UNMEASURED.items():
        print(f"not measured: {name}: {why}")
    wrong = list(disagreements(args.root, files))
    print("".join(line + "\n" for line in wrong), end="")

    total = sum(found.values(), collections.Counter())
    stages = ["failed coverage.files" if wrong else "passed coverage.files"]
    for what, kind in (("lines", "line"), ("branches", "branch")):
        share = percent(total[kind + "_covered"], total[kind + "_total"]) if total[kind + "_total"] else 0.0
        print(f"RESULT coverage.{what}_pct {share:.1f}")
        if share < BOUNDS[what]:
            print(f"below the bound of {BOUNDS[what]:.0f} % of {what}")
        stages.append(f"{'passed' if share >= BOUNDS[what] else 'failed'} coverage.{what}")
    if args.stages:
        args.stages.write_text("\n".join(stages) + "\n", encoding="utf-8")
    return 1 if any(stage.startswith("failed") for stage in stages) else 0


if __name__ == "__main__":
    sys.exit(main())
