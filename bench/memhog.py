#!/usr/bin/env python3
"""Three guests one after the other, each timed filling its memory (S1, test 2): the third pays for what the others kept.

They share a cgroup of two and a half times one guest's memory, as S1's three shared a host of 15 GB.
"""
# needs: user-mode-linux busybox-static libjson-c-dev libseccomp-dev libcap-ng-dev procps
# builds: bench/bench-inside bench/bench-process bench/bench-balloon-plain tools/balloon/pagehint-balloon
import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guests"))

import figures  # noqa: E402
import host  # noqa: E402
import process  # noqa: E402
import rounds  # noqa: E402
import uml  # noqa: E402

LIMIT_MIB = 1280
FILL_MIB = 440


def one_uml(mode):
    """Seconds of each guest, and MiB of swap at the end."""
    with contextlib.ExitStack() as stack:
        group = host.Group(LIMIT_MIB)
        stack.callback(group.close)
        initrd, seconds = uml.initrd_file(uml.BUILD), []
        for _ in range(3):
            guest = uml.Guest(mode, initrd, group)
            stack.callback(guest.end)
            seconds.append(guest.inside("touch", FILL_MIB))
            if mode != "none":
                guest.settle()
        return seconds, group.swap_bytes() >> 20


def memhog(bench, kind, modes, measure):
    def one(mode, label):
        seconds, swapped = measure(mode)
        print(f"{label}: {', '.join(f'{s:.2f}' for s in seconds)} s, {swapped} MiB of swap", flush=True)
        return seconds[2] / seconds[0], swapped

    rounds.in_swap(bench, kind, modes, ((f"memhog.{kind}.third_vs_first", "ratio"), (f"memhog.{kind}.swap_mib", "MiB")), one)


if __name__ == "__main__":
    figures.run(figures.Bench("memhog", __doc__),
                lambda bench: memhog(bench, "process", process.MODES, lambda mode: process.memhog(mode, LIMIT_MIB)),
                lambda bench: memhog(bench, "uml", uml.MODES, one_uml))
