"""What the host must have for benches with guests: a memory cgroup of either version, and a swap file. Taken down at the end."""
import contextlib
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


class NotHere(Exception):
    """This machine cannot do it; says why."""


def _mounts():
    for line in pathlib.Path("/proc/mounts").read_text(encoding="ascii").splitlines():
        _, where, kind, options, *_ = line.split()
        yield pathlib.Path(where), kind, options.split(",")


class Swap:
    """A swap file on the disk that has the build directory."""

    def __init__(self, directory, mib):
        if os.geteuid() != 0:
            raise NotHere("swapon needs root")
        fd, path = tempfile.mkstemp(prefix="swap-", dir=directory)
        self.path, self.on = pathlib.Path(path), False
        try:
            os.posix_fallocate(fd, 0, mib * MIB)
            os.close(fd)
            for command in (["mkswap", path], ["swapon", path]):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise NotHere(f"{command[0]}: {done.stderr.strip()}")
            self.on = True
        except (OSError, NotHere) as why:
            self.path.unlink()
            raise NotHere(f"no swap file: {why}") from None

    def close(self):
        if self.on:
            subprocess.run(["swapoff", str(self.path)], check=False)
        self.path.unlink(missing_ok=True)


def joining(path):
    """A program that joins a cgroup, and becomes the one that is named."""
    return ("sh", "-c", f'echo $$ >{path}/cgroup.procs && exec "$@"', "sh")


class Meter:
    """CPU time of everybody in a cgroup, also of those that are gone."""

    count = 0

    def __init__(self):
        parent, self.version = None, 0
        for where, kind, options in _mounts():
            if kind == "cgroup" and "cpuacct" in options:
                parent, self.version = where, 1
            elif kind == "cgroup2" and not self.version:
                parent, self.version = where, 2
        if not parent:
            raise NotHere("no cgroup counts CPU time")
        Meter.count += 1
        self.path = parent / f"pagehint-meter-{os.getpid()}-{Meter.count}"
        try:
            self.path.mkdir()
        except OSError as why:
            raise NotHere(f"no cgroup of our own: {why}") from None
        self.wrapper = joining(self.path)

    def seconds(self):
        if self.version == 1:
            return int((self.path / "cpuacct.usage").read_text("ascii")) / 1e9
        stat = dict(line.split() for line in (self.path / "cpu.stat").read_text("ascii").splitlines())
        return int(stat["usage_usec"]) / 1e6

    def close(self):
        remove(self.path)


def remove(path, seconds=10):
    """Takes a group away once its last process has gone; says so when one does not go."""
    end = time.monotonic() + seconds
    for pid in (path / "cgroup.procs").read_text("ascii").split():
        with contextlib.suppress(ProcessLookupError):  # gone meanwhile
            gone = os.pidfd_open(int(pid))
            try:
                select.select([gone], [], [], max(0, end - time.monotonic()))
            finally:
                os.close(gone)
    try:
        path.rmdir()
    except OSError as why:
        print(f"{path} stays: {why}", file=sys.stderr)


class Group:
    """A memory cgroup with a limit on memory, and none on swap."""

    def __init__(self, mib):
        self.path, self.version = None, 0
        for where, kind, options in _mounts():
            if kind == "cgroup" and "memory" in options:
                self.path, self.version = where, 1
            elif kind == "cgroup2" and not self.version and "memory" in (where / "cgroup.controllers").read_text("ascii"):
                self.path, self.version = where, 2
        if not self.version:
            raise NotHere("no memory controller of either version is mounted")
        parent, self.path = self.path, self.path / f"pagehint-bench-{os.getpid()}"
        try:
            if self.version == 2:
                (parent / "cgroup.subtree_control").write_text("+memory", "ascii")
            self.path.mkdir()
            self._write("memory.limit_in_bytes" if self.version == 1 else "memory.max", mib * MIB)
        except OSError as why:
            if self.path.is_dir():
                self.path.rmdir()
            raise NotHere(f"no cgroup of our own: {why}") from None
        self.wrapper = joining(self.path)

    def _write(self, name, value):
        (self.path / name).write_text(str(value), "ascii")

    def _stat(self):
        return dict(line.split() for line in (self.path / "memory.stat").read_text("ascii").splitlines())

    def swap_bytes(self):
        """Swap of the group, once it has run into its limit: before, somebody else made the host swap."""
        if not self._hit_limit():
            return 0
        if self.version == 1:
            stat = self._stat()
            if "swap" not in stat:
                raise NotHere("the cgroup does not account for swap")
            return int(stat["swap"])
        return int((self.path / "memory.swap.current").read_text("ascii"))

    def _hit_limit(self):
        if self.version == 1:
            return int((self.path / "memory.failcnt").read_text("ascii")) > 0
        events = dict(line.split() for line in (self.path / "memory.events").read_text("ascii").splitlines())
        return int(events["max"]) > 0

    def held_bytes(self):
        """Memory of the group but for page cache that nobody would miss: shared memory and anonymous."""
        stat = self._stat()
        return int(stat["shmem"]) + int(stat["rss" if self.version == 1 else "anon"])

    def state(self):
        """For people: what the group has."""
        used = int((self.path / ("memory.usage_in_bytes" if self.version == 1 else "memory.current")).read_text("ascii"))
        return f"{used >> 20} MiB used, {self.held_bytes() >> 20} of them held, {self.swap_bytes() >> 20} in swap"

    def close(self):
        remove(self.path)
