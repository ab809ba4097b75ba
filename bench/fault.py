#!/usr/bin/env python3
"""page_fault1 of will-it-scale (S1, test 3): map, touch every page, unmap, by 1 and more tasks. What does giving back cost it?"""
# needs: user-mode-linux busybox-static libjson-c-dev libseccomp-dev libcap-ng-dev procps
# builds: bench/bench-inside bench/bench-process bench/bench-balloon-plain tools/balloon/pagehint-balloon
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guests"))

import figures  # noqa: E402
import pairs  # noqa: E402

GUEST_CASES = {f"{tasks}{kind}": (tasks, kind) for tasks, kind in ((1, "p"), (4, "p"), (4, "t"))}
QUICK_CASES = {name: GUEST_CASES[name] for name in ("1p", "4t")}
PROCESS_CASES = {f"{tasks}t": ("fault", tasks) for tasks in (1, 2)}


def faults(guest, case, seconds):
    return guest.inside("fault", *case, seconds)


if __name__ == "__main__":
    figures.run(figures.Bench("fault", __doc__),
                lambda bench: pairs.in_processes(bench, "fault", PROCESS_CASES),
                lambda bench: pairs.in_guests(bench, "fault", QUICK_CASES if bench.args.quick else GUEST_CASES, faults),
                lambda bench: pairs.headline(bench, "fault"))
