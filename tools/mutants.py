#!/usr/bin/env python3
"""Whether the tests notice small wrong changes of the library.

usage: mutants.py [--root DIR] [--file PATTERN] [N] [SEED]

N         mutants that count (default 200)
SEED      which ones; printed, so that a run can be had again
--file    only files of lib/ whose path has this in it

Changes are made by the rules of mutate.py, spread over all files of lib/ by how much there is to change. One that does not
compile, or that makes no other object code, is drawn again. A mutant is killed when a test fails, crashes or does not come to
an end. Survivors are printed: each wants a test, or, when no test can tell it from the original, a line in
tools/mutants.equivalent:

	FILE: RULE: LINE BEFORE ==> LINE AFTER
		why nobody can tell

Those are drawn again, too, and listed. Fails when fewer than 90 of 100 are killed, when a test fails without any change, and when
tools/mutants.equivalent names what is not there. Memory orders count where this machine's instructions differ;
what it does not show, ThreadSanitizer and the tests on other machines look for.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import queue
import random
import re
import secrets
import sys

import mutate
from mutant_runs import Failed, Worker

BOUND = 90.0
WORKERS = 2
DRAWS = 30  # times as many mutants are drawn as counted, at the most


def all_mutants(root, pattern=""):
    found = []
    for path in sorted([*(root / "lib").rglob("*.c"), *(root / "lib").rglob("*.h")]):
        name = path.relative_to(root).as_posix()
        if pattern in name:
            found += mutate.mutants(name, path.read_text(encoding="utf-8"))
    return found


def spread(found, n, rng):
    """All mutants, in an order whose first n lie evenly over the files, as do the next n, and so on."""
    by_file = collections.defaultdict(list)
    for mutant in found:
        by_file[mutant.file].append(mutant)
    row = []
    for name in sorted(by_file):
        rng.shuffle(by_file[name])
        row += by_file[name]
    step = max(1, len(row) // n)
    rounds = list(range(step))
    rng.shuffle(rounds)
    for first in rounds:
        turn = row[first::step]
        rng.shuffle(turn)
        yield from turn


def equivalents(path):
    """{(file, rule, before, after): why}"""
    found, key = {}, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("\t") and key:
            found[key] = (found[key] + " " + line.strip()).strip()
            continue
        m = re.fullmatch(r"(\S+): (\w+): (.+) ==> (.+)", line)
        if not m:
            raise Failed(f"{path}:{number}: neither a mutant nor a reason")
        key = m.groups()
        found[key] = ""
    for key, why in found.items():
        if not why:
            raise Failed(f"{path}: no reason for {key[0]}: {key[2]}")
    return found


class Campaign:
    """Draws, judges and counts; several workers take from one row."""

    def __init__(self, n, row, excused, log):
        self.n, self.row, self.excused, self.log = n, row, excused, log
        self.drawn = self.again = 0
        self.results = []
        self.listed = []

    def next(self):
        """A mutant that may count, or None; called by one thread."""
        for mutant in self.row:
            self.drawn += 1
            if self.drawn > DRAWS * self.n:
                return None
            if mutant.key() not in self.excused:
                return mutant
            if mutant not in self.listed:
                self.listed.append(mutant)
        return None

    def run(self, workers):
        idle = queue.Queue()
        for worker in workers:
            idle.put(worker)
        with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
            running = set()
            while True:
                while len(running) < len(workers) and len(self.results) + len(running) < self.n and (mutant := self.next()):
                    running.add(pool.submit(self.one, idle, mutant))
                if not running:
                    return
                done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    self.note(*future.result())

    @staticmethod
    def one(idle, mutant):
        worker = idle.get()
        try:
            unusable = worker.change(mutant)
            return mutant, unusable, None if unusable else worker.judge(mutant)
        finally:
            worker.restore()
            idle.put(worker)

    def note(self, mutant, unusable, killer):
        if unusable:
            self.again += 1
            return
        self.results.append((mutant, killer))
        word = f"killed by {killer[0]} ({killer[1]})" if killer else "survived"
        self.log(f"{len(self.results):4} {mutant.file}:{mutant.line} {mutant.rule}: {word}" +
                 ("" if killer else f"\n    - {mutant.before}\n    + {mutant.after}"))


def show(mutant):
    return f"{mutant.file}:{mutant.line}: {mutant.rule}\n    - {mutant.before}\n    + {mutant.after}"


def report(campaign):
    survivors = [mutant for mutant, killer in campaign.results if killer is None]
    n, killed = len(campaign.results), len(campaign.results) - len(survivors)
    late = sum(killer is not None and killer[1] == "timeout" for _, killer in campaign.results)
    share = 100.0 * killed / n if n else 0.0
    yield ""
    for mutant in survivors:
        yield "survived " + show(mutant)
    for mutant in campaign.listed:
        yield f"equivalent {show(mutant)}\n    {campaign.excused[mutant.key()]}"
    yield (f"{n} mutants: {killed} killed ({late} by a timeout), {len(survivors)} survived; not counted: {campaign.again} that do "
           f"not compile or are the same code, {len(campaign.listed)} listed as equivalent")
    yield f"RESULT mutants.killed_pct {share:.1f}"
    good = share >= BOUND and n == campaign.n
    if n < campaign.n:
        yield f"only {n} of {campaign.n} mutants could be made"
    yield f"{int(good)} passed, {int(not good)} failed, 0 skipped"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--file", default="")
    parser.add_argument("n", type=int, nargs="?", default=200)
    parser.add_argument("seed", type=int, nargs="?", default=None)
    args = parser.parse_args()
    if args.n < 1:
        parser.error("N is at least 1")
    seed = secrets.randbelow(1 << 31) if args.seed is None else args.seed
    root = args.root.resolve()
    try:
        excused = equivalents(root / "tools" / "mutants.equivalent")
        everything = all_mutants(root)
        if stale := set(excused) - {mutant.key() for mutant in everything}:
            raise Failed("tools/mutants.equivalent names what is not there:\n" + "\n".join(": ".join(key[:3]) for key in sorted(stale)))
        found = [mutant for mutant in everything if args.file in mutant.file]
        print(f"seed {seed}: {args.n} of {len(found)} mutants in {len({m.file for m in found})} files", flush=True)
        workers = [Worker(root, root / "build-mutants", i) for i in range(WORKERS)]
        for worker in workers:
            worker.prepare()
        measured, left_out = workers[0].baseline(root / "build-mutants" / "baseline.json")
        for worker in workers:
            worker.choose(measured)
        if not measured:
            raise Failed("there are no tests")
        print(f"{len(measured)} tests, {sum(measured.values()):.0f} s" + (f"; too long: {', '.join(left_out)}" if left_out else ""))
        campaign = Campaign(args.n, spread(found, args.n, random.Random(seed)), excused, lambda line: print(line, flush=True))
        campaign.run(workers)
    except Failed as failed:
        print(f"failed: {failed}")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    *text, last = report(campaign)
    print("\n".join([*text, last]))
    return 0 if last.startswith("1 passed") else 1


if __name__ == "__main__":
    sys.exit(main())
