#!/usr/bin/env python3
"""How many guests fit before the host swaps (S1, test 1): each runs a program that takes 400 of its 512 MiB, and exits.

Guests are real kernels, User-Mode Linux, in a memory cgroup of 1.5 GiB with a swap file; and, without guests, processes that each
have a zone and a reporter on a memfd. Launched one after the other until swap is used.
"""
# needs: user-mode-linux busybox-static libjson-c-dev libseccomp-dev libcap-ng-dev procps
# builds: bench/bench-inside bench/bench-process bench/bench-balloon-plain tools/balloon/pagehint-balloon
import contextlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guests"))

import figures  # noqa: E402
import host  # noqa: E402
import process  # noqa: E402
import rounds  # noqa: E402
import uml  # noqa: E402

LIMIT_MIB = 1536
FILL_MIB = 400
MOST = 18        # guests; a mode that gets there has not been brought to swap
MOST_QUICK = 16
MOST_PROCESSES = 60

# the order ladder of the guests' agents: the share of the limit that is held, and the order from there on
LADDER = ((0.75, 0), (0.5, 4), (0.0, 10))


class Ladder:
    """What an agent in each guest does on the host's word: it reports smaller blocks the less memory is left."""

    def __init__(self):
        self.order = 10

    def climb(self, guests, held):
        order = next(order for share, order in LADDER if held >= share * LIMIT_MIB * host.MIB)
        if order == self.order:
            return
        self.order = order
        for guest in guests:
            guest.set_order(order)
            guest.inside("touch", 1)  # a free, so that the driver looks
        if guests:
            guests[-1].settle()


def one_uml(bench, mode, most, label):
    """Returns how many guests came and went before the first use of swap, and MiB an idle one held."""
    with contextlib.ExitStack() as stack:
        group = host.Group(LIMIT_MIB)
        stack.callback(group.close)
        initrd, guests, idle, ladder = uml.initrd_file(uml.BUILD), [], [], Ladder()
        stack.callback(lambda: [guest.end() for guest in guests])
        start, series = time.monotonic(), []
        while len(guests) < most:
            before = group.held_bytes()
            guests.append(uml.Guest(mode, initrd, group, order=ladder.order if mode == "ours" else None))
            guests[-1].inside("touch", FILL_MIB)
            if group.swap_bytes():
                print(f"{label}: swap with guest {len(guests)}: {group.state()}", flush=True)
                break
            if mode != "none":
                guests[-1].settle()
            if mode == "ours":
                ladder.climb(guests, group.held_bytes())
            held = group.held_bytes()
            idle.append((held - before) / host.MIB)
            series.append((round(time.monotonic() - start, 1), len(guests), held >> 20, group.swap_bytes() >> 20))
            if group.swap_bytes():
                print(f"{label}: swap after guest {len(guests)}: {group.state()}", flush=True)
                break
        fitted = len(guests) - bool(group.swap_bytes())
        held = series[-1][2] / series[-1][1] if series else 0.0
        requests = [guest.balloon.stats()["device"] for guest in guests[:3]] if mode != "none" else []
        bench.series[label] = series
        seconds = time.monotonic() - start
        print(f"{label}: {fitted} guests" + (" and no swap yet" if fitted == most else "") + f", {held:.0f} MiB each, "
              f"{seconds:.0f} s" + (f", {sum(r['report_ranges'] for r in requests) / len(requests):.0f} ranges a guest"
                                    if requests else ""), flush=True)
        return fitted, held


def density_uml(bench):
    most = MOST_QUICK if bench.args.quick else MOST
    modes = rounds.in_swap(bench, "uml", uml.MODES, (("density.uml", "guests"), ("density.uml.mib_per_idle_guest", "MiB")),
                           lambda mode, label: one_uml(bench, mode, most, label))
    if modes == list(uml.MODES):
        none, ours = bench.figures["density.uml.none"], bench.figures["density.uml.ours"]
        bench.publish("density.uml.ours_vs_none", round(ours / none, 2), "ratio")
        print("density.uml.bitmap: none, a stock kernel keeps lists; density.process.bitmap has one. Published: 2 without, 4 with "
              "lists, 5 with a bitmap")


def density_process(bench):
    """S1's proportions: a budget of three guests, each of which fills four fifths of what it has."""
    most = MOST_QUICK if bench.args.quick else MOST_PROCESSES

    def one(mode, label):
        fitted, held = process.density(mode, LIMIT_MIB, most)
        print(f"{label}: {fitted} processes" + (" and no swap yet" if fitted == most else "") + f", {held:.1f} MiB each", flush=True)
        return fitted, held

    rounds.in_swap(bench, "process", process.MODES,
                   (("density.process", "processes"), ("density.process.mib_per_idle_guest", "MiB")), one)


if __name__ == "__main__":
    figures.run(figures.Bench("density", __doc__), density_process, density_uml)
