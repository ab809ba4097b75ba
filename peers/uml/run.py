#!/usr/bin/env python3
"""Boots User-Mode Linux guests, the real Linux driver in them, against pagehint-balloon, several at a time.

usage: run.py STAGES [CASE..]      writes a line `passed CASE` or `failed CASE` a case into STAGES, figures as RESULT lines
"""
import concurrent.futures
import os
import pathlib
import sys
import time
import traceback

import cases
import controls
from guest import Failure

AT_ONCE = 4


def all_cases():
    """Longest first, so that the last ones do not run alone."""
    found = {name.removeprefix("case_"): getattr(module, name)
             for module in (cases, controls) for name in vars(module) if name.startswith("case_")}
    first = ["report_orders", "keeper_mid_report", "keeper", "wrong_scribble", "module", "wrong_shift", "report_calls"]
    return {name: found[name] for name in sorted(found, key=lambda n: first.index(n) if n in first else len(first))}


def run_case(name, case):
    start = time.monotonic()
    try:
        figures, why = case(), ""
    except Failure as failure:
        figures, why = None, str(failure)
    except Exception:  # a case that breaks is a case that failed
        figures, why = None, traceback.format_exc()
    return name, figures, why, time.monotonic() - start


def results(figures):
    """RESULT lines from the figures of all cases."""
    reports = [figures["report"]["report"]] if figures.get("report") else []
    reports += figures["report_orders"]["reports"] if figures.get("report_orders") else []
    if reports:
        yield "uml.report.returned_pct", f"{100 * sum(r['returned'] for r in reports) / sum(r['freed'] for r in reports):.1f}"
        yield "uml.report.returned_pct_least", f"{min(100 * r['returned'] / r['freed'] for r in reports):.1f}"
        yield "uml.report.seconds_to_95pct", f"{max(r['seconds'] for r in reports):.1f}"
    calls = figures.get("report_calls")
    if calls:
        merged, plain = calls["contiguous"]
        yield "uml.report.calls_per_maximal_run", f"{calls['punched'] / calls['maximal']:.3f}"
        yield "uml.report.calls_vs_plain", f"{merged / plain:.3f}"
        yield "uml.report.calls_vs_plain_all", f"{calls['punched'] / calls['plain']:.3f}"
        yield "uml.report.requests", calls["requests"]
        yield "uml.report.cpu_ms_per_gib", f"{calls['cpu_ms_per_gib']:.2f}"
    if figures.get("balloon"):
        yield "uml.inflate.pages_per_s", f"{figures['balloon']['pages_per_s']:.0f}"
    yield "uml.corrupt_files", sum(f.get("corrupt", 0) for f in figures.values() if f)
    wrong = [name for name in figures if name.startswith("wrong_")]
    yield "uml.controls_detected", f"{sum(figures[name] is not None for name in wrong)}/{len(wrong)}"


def bounds(figures):
    """What the figures must keep to; a line for each that does not."""
    calls, reports = figures.get("report_calls"), []
    reports += [figures["report"]["report"]] if figures.get("report") else []
    reports += figures["report_orders"]["reports"] if figures.get("report_orders") else []
    for r in reports:
        if r["returned"] < 0.95 * r["freed"]:
            yield f"only {r['returned']} of {r['freed']} bytes came back"
    if calls and calls["punched"] != calls["maximal"]:
        yield f"{calls['punched']} calls for {calls['maximal']} maximal runs"
    if calls and calls["contiguous"][0] > 0.15 * calls["contiguous"][1]:
        yield f"contiguous requests: {calls['contiguous']} calls against a plain device's"


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    stages, wanted, known = pathlib.Path(sys.argv[1]), sys.argv[2:], all_cases()
    for name in wanted:
        if name not in known:
            print(f"no case {name}; there are: {' '.join(known)}")
            return 2
    chosen = {name: known[name] for name in wanted or known}
    figures, bad, start = {}, 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool, open(stages, "w", encoding="utf-8") as out:
        running = [pool.submit(run_case, name, case) for name, case in chosen.items()]
        for done in concurrent.futures.as_completed(running):
            name, figures[name], why, seconds = done.result()
            word = "failed" if figures[name] is None else "passed"
            bad += word == "failed"
            print(f"{word} {name} ({seconds:.0f} s)" + (f": {why}" if why else ""), flush=True)
            print(f"{word} {name}", file=out, flush=True)
        for key, value in results(figures):
            print(f"RESULT {key} {value}")
        print(f"RESULT uml.seconds {time.monotonic() - start:.0f}")
        for line in bounds(figures):
            bad += 1
            print(f"failed figures: {line}")
            print(f"failed figures: {line}", file=out)
    return 1 if bad else 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
