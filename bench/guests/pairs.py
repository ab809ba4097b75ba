"""The same work with and without giving back, in interleaved pairs: how much slower is it with?

A guest for each mode is up all the time; in each round every mode runs every case once, in an order drawn anew. What is compared
is work for a second of CPU time of a guest and its device, so that whoever else is busy on this machine weighs little; the same by
the clock on the wall stands beside it.
"""
import random
import statistics
import time

import host
import process
import uml

WARM_S = 1  # and at least one pass over the memory
SECONDS = 5  # the driver of a guest looks every 2 s


def dips(bench, name, kind, modes, cases):
    """Publishes, for every mode but none, the median of the pairs' dips, over all cases and for each."""
    for mode in modes[1:]:
        every, wall = [], []
        for case in cases:
            key = f"{name}.{kind}.{case}"
            for clock, into in (("cpu", every), ("wall", wall)):
                pairs = zip(bench.rounds[f"{key}.none.{clock}"], bench.rounds[f"{key}.{mode}.{clock}"])
                into.append([100 * (1 - with_it / without) for without, with_it in pairs])
            bench.publish(f"{name}.{kind}.dip_pct.{case}.{mode}", round(statistics.median(every[-1]), 2), "%")
        flat = sorted(value for values in every for value in values)
        quarter = len(flat) // 4
        print(f"{name}.{kind}.{mode}: {len(flat)} pairs, quartiles {flat[quarter]:.2f} and {flat[-1 - quarter]:.2f}, "
              f"least {flat[0]:.2f}, most {flat[-1]:.2f}; by the wall {statistics.median(sum(wall, [])):.2f}")
        bench.publish(f"{name}.{kind}.dip_pct.{mode}", round(statistics.median(flat), 2), "%")
        bench.publish(f"{name}.{kind}.dip_quartiles_pct.{mode}", round(flat[-1 - quarter] - flat[quarter], 2), "%")


def rounds_of(bench, name, kind, modes, cases, measure, count):
    for _ in range(count):
        for case in cases:
            for mode in random.sample(modes, len(modes)):
                work, cpu_s, wall_s = measure(mode, case)
                bench.add(f"{name}.{kind}.{case}.{mode}.cpu", work / cpu_s)
                bench.add(f"{name}.{kind}.{case}.{mode}.wall", work / wall_s)
    dips(bench, name, kind, modes, cases)


def in_guests(bench, name, cases, work_for, **files):
    """cases: name -> what `work_for` is told; it works in a guest for so many seconds, and says how much it got done."""
    if not bench.wants("uml."):
        return
    initrd, guests, meters = uml.initrd_file(uml.BUILD, **files), {}, {}
    try:
        for mode in uml.MODES:
            meters[mode] = host.Meter()
            guests[mode] = uml.Guest(mode, initrd, meters[mode])
            guests[mode].inside("touch", 200)  # what it will use is there
            guests[mode].settle()

        def measure(mode, case):
            # warm, as will-it-scale does it: a guest that was idle gave its memory back, and fetches it once, whatever it then does
            work_for(guests[mode], cases[case], WARM_S)
            before, start = meters[mode].seconds(), time.monotonic()
            work = work_for(guests[mode], cases[case], SECONDS)
            return work, meters[mode].seconds() - before, time.monotonic() - start

        rounds_of(bench, name, "uml", uml.MODES, list(cases), measure, bench.n_rounds(9, 3))
        for mode in uml.MODES[1:]:
            device = guests[mode].balloon.stats()["device"]
            print(f"{name}.uml.{mode}: {device['report_ranges']} ranges, {device['report_bytes'] >> 20} MiB reported")
    finally:
        for guest in guests.values():
            guest.end()
        for meter in meters.values():
            meter.close()


def in_processes(bench, name, cases):
    if bench.wants("process."):
        rounds_of(bench, name, "process", process.PAIR_MODES, list(cases), lambda mode, case: process.pair(mode, *cases[case]),
                  bench.n_rounds(15, 5))


def headline(bench, name):
    """The figures under the names that stand for the experiment: the guests' where there are some."""
    for mode in ("ours", "plain"):
        for kind in ("uml", "process"):
            if f"{name}.{kind}.dip_pct.{mode}" in bench.figures:
                bench.publish(f"{name}.dip_pct.{mode}", bench.figures[f"{name}.{kind}.dip_pct.{mode}"], "%")
                break
