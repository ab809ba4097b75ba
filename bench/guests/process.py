"""Guests that are no guests: a process each, with a zone and a reporter on a memfd (process/work.c)."""
import contextlib
import subprocess
import time

import host
import uml

PROGRAM = uml.BUILD / "bench" / "bench-process"
MODES = ("none", "plain", "bitmap", "ours")
PAIR_MODES = ("none", "plain", "ours")
SIZE_MIB = 512  # a third of the budget, as S1's were of their host
FILL_MIB = 410  # four fifths


class Process:
    """One that fills its memory, frees it, and idles until it is told to end."""

    def __init__(self, mode, group, size, fill):
        self.process = subprocess.Popen([*group.wrapper, PROGRAM, "guest", mode, str(size), str(fill)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.seconds = float(self.process.stdout.readline())

    def settled(self):
        """It says so when all that it will give back is back; the others never do."""
        return self.process.stdout.readline()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def density(mode, limit, most):
    with contextlib.ExitStack() as stack:
        group = host.Group(limit)
        stack.callback(group.close)
        n = held = 0
        while n < most:
            guest = Process(mode, group, SIZE_MIB, FILL_MIB)
            stack.callback(guest.end)
            if group.swap_bytes():
                break
            guest.settled()
            n += 1
            held = group.held_bytes() / host.MIB / n
        return n, held


def memhog(mode, limit):
    with contextlib.ExitStack() as stack:
        group = host.Group(limit)
        stack.callback(group.close)
        seconds = []
        for _ in range(3):
            guest = Process(mode, group, SIZE_MIB, 500)
            stack.callback(guest.end)
            seconds.append(guest.seconds)
            guest.settled()
        return seconds, group.swap_bytes() >> 20


def pair(mode, what, tasks):
    """Work, seconds of CPU time, seconds by the wall."""
    start = time.monotonic()
    done = subprocess.run([PROGRAM, what, mode, str(tasks)], stdout=subprocess.PIPE, text=True, check=True)
    work, cpu_s = map(float, done.stdout.split())
    return work, cpu_s, time.monotonic() - start
