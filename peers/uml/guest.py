"""A User-Mode Linux guest on its console, and the balloon device that it is connected to."""
import json
import os
import pathlib
import queue
import re
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time

import initramfs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
BALLOON = BUILD / "tools" / "balloon" / "pagehint-balloon"
VARIANTS = BUILD / "tests" / "peers" / "uml"
PAGE = 4096
WHILE_S = 60
# what the kernel says on the console when its memory is not what it left there
COMPLAINT = re.compile(r"\bBUG: |\bOops|Kernel panic|Bad page |general protection|segfault at")


class Failure(Exception):
    """Something that must hold does not."""


class Panic(Failure):
    """The guest is gone or silent, its kernel complains, or a program fails in it that does not fail in a whole guest."""


def wait_until(what, condition, seconds=20, step=0.05):
    """Asks again and again, for states that nothing tells of when they come."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(step)


class Worker:
    """The worker that a balloon has now, by a descriptor that tells when it has ended."""

    def __init__(self, pid):
        self.pid = pid
        self.fd = os.pidfd_open(pid)

    def wait(self, seconds=20):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        ended = poll.poll(1000 * seconds)
        os.close(self.fd)
        if not ended:
            raise Failure(f"worker {self.pid} has not ended within {seconds} s")


class Balloon:
    """One pagehint-balloon, or a variant of it."""

    def __init__(self, directory, *options, program=BALLOON, env=None, pass_fds=(), wrapper=()):
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "vhost"
        self.control = self.directory / "control"
        self.log = open(self.directory / "balloon.log", "w", encoding="utf-8")
        command = [*wrapper, str(program), "--socket", str(self.socket), "--control", str(self.control), *options]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, pass_fds=pass_fds,
                                        env={**os.environ, **(env or {})})
        wait_until("the balloon listens", self._listens)

    def _must_live(self):
        if self.process.poll() is not None:
            raise Failure(f"the balloon ended with status {self.process.returncode}: {self.output()}")

    def _listens(self):
        self._must_live()
        return self.socket.exists() and self.control.exists()

    def ask(self, command, **arguments):
        """One command over a connection of its own. One that a worker took along when it died is made again, and waits at the
        keeper's socket for the next worker."""
        end = time.monotonic() + 10
        while True:
            self._must_live()
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(10)
                    s.connect(str(self.control))
                    s.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
                    line = s.makefile().readline()
                if line:
                    return json.loads(line)
            except (ConnectionError, TimeoutError):
                pass
            if time.monotonic() > end:
                raise Failure(f"the balloon does not answer: {self.output()}")

    def must(self, command, **arguments):
        answer = self.ask(command, **arguments)
        if not answer.get("ok"):
            raise Failure(f"{command} {arguments}: {answer}")
        return answer

    def stats(self):
        return self.must("stats")

    def worker(self):
        return self.stats()["program"]["pid"]

    def watch_worker(self):
        return Worker(self.worker())

    def output(self):
        self.log.flush()
        return (self.directory / "balloon.log").read_text(encoding="utf-8")

    def end(self):
        """Asks it to end. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.log.close()


class Guest:
    """A guest whose console takes lines of shell."""

    def __init__(self, balloon, memory="512M"):
        self.balloon = balloon
        directory = balloon.directory
        initrd = directory / "initrd.gz"
        module, = list(pathlib.Path("/usr/lib/uml/modules").glob("*/kernel/drivers/virtio/virtio_balloon.ko"))[-1:]
        initrd.write_bytes(initramfs.build("/bin/busybox", HERE / "init", {"mod/virtio_balloon.ko": module}))
        self.lines = queue.Queue()
        self.seen = []
        self.process = subprocess.Popen(
            ["linux.uml", f"uml_dir={directory}", f"mem={memory}", f"initrd={initrd}",
             f"virtio_uml.device={balloon.socket}:5", "con=null", "con0=fd:0,fd:1", "ssl=null", "quiet", "panic=-1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()
        self._until("ready")
        self.run("insmod /mod/virtio_balloon.ko")
        self.ram = wait_until("the guest's memory file", self._find_ram)

    def _read(self):
        for line in iter(self.process.stdout.readline, b""):
            self.lines.put(line.decode(errors="replace").rstrip("\r\n"))
        self.lines.put(None)

    def _until(self, mark, seconds=WHILE_S):
        """Lines up to <<mark>>; returns them, and what stood in the mark."""
        lines, end = [], time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Panic(f"the guest said no <<{mark}>>; last: {self.seen[-5:]}") from None
            if line is None:
                raise Panic(f"the guest ended; last: {self.seen[-5:]}")
            self.seen.append(line)
            if COMPLAINT.search(line):
                raise Panic(f"the guest's kernel complains: {line}")
            found = re.search(f"<<({mark})>>", line)
            if found:
                return lines, found.group(1)
            lines.append(line)

    def ask(self, line, seconds=WHILE_S):
        """Runs a line of shell. Returns its output and its status."""
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise Panic(f"the guest ended; last: {self.seen[-5:]}") from None
        lines, status = self._until(r"\d+", seconds)
        return "\n".join(lines), int(status)

    def run(self, line, seconds=WHILE_S):
        output, status = self.ask(line, seconds)
        if status != 0:
            raise Panic(f"guest: {line}: status {status}: {output}")
        return output

    def _find_ram(self):
        """The file that is the guest's memory: the largest deleted one that the process has open."""
        best = None
        directory = pathlib.Path(f"/proc/{self.process.pid}/fd")
        for fd in directory.iterdir():
            try:
                if "(deleted)" in os.readlink(fd):
                    size = os.stat(fd).st_size
                    best = max(best or (0, fd), (size, fd))
            except OSError:
                continue
        return best and best[1]

    def host_bytes(self):
        """What the host holds of the guest's memory, by the file system that has it."""
        return os.stat(self.ram).st_blocks * 512

    def free_blocks(self, order):
        """Bytes that the guest has free in blocks of 2^order pages and more, by its own account."""
        total = 0
        for line in self.run("cat /proc/buddyinfo").splitlines():
            counts = line.split("zone", 1)[-1].split()[1:]
            total += sum(int(n) << o for o, n in enumerate(counts) if n.isdigit() and o >= order)
        return total * PAGE

    def set_order(self, order):
        self.run(f"echo {order} >/sys/module/page_reporting/parameters/page_reporting_order")

    def end(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.write(b"poweroff -f\n")
                self.process.wait(10)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


class Files:
    """Files in the guest whose content is known by checksum, made and looked at inside the guest."""

    def __init__(self, guest):
        self.guest = guest
        self.sums = {}
        self.corrupt = 0

    def make(self, name, pieces, kib, source="/dev/urandom"):
        """`pieces` files name0.. of `kib` KiB; the order of making is the order of names."""
        self.guest.run(f"i=0; while [ $i -lt {pieces} ]; do dd if={source} of=/tmp/{name}$i bs={kib}k count=1 2>/dev/null "
                       f"|| break; i=$((i+1)); done; [ $i = {pieces} ]")

    def make_mixed(self, keep, drop, pieces, kib):
        """Files that stay and files that go, in turn: what is free after dropping lies in pieces."""
        self.guest.run(f"i=0; while [ $i -lt {pieces} ]; do "
                       f"dd if=/dev/urandom of=/tmp/{keep}$i bs={kib}k count=1 2>/dev/null && "
                       f"dd if=/dev/zero of=/tmp/{drop}$i bs={kib}k count=1 2>/dev/null || break; i=$((i+1)); done; "
                       f"[ $i = {pieces} ]")
        self.note(keep)

    def _sums(self, name):
        return dict(reversed(line.split()) for line in self.guest.run(f"md5sum /tmp/{name}*").splitlines())

    def note(self, name):
        self.sums[name] = self._sums(name)

    def drop(self, name):
        self.guest.run(f"rm /tmp/{name}*")

    def check(self):
        """Counts files that are not as they were."""
        for name, sums in self.sums.items():
            now = self._sums(name)
            self.corrupt += sum(now.get(path) != value for path, value in sums.items())
        return self.corrupt


class Pair:
    """A balloon with its guest, in a directory of their own."""

    def __init__(self, *options, memory="512M", **balloon):
        self.directory = tempfile.TemporaryDirectory(prefix="pagehint-uml-")
        os.chmod(self.directory.name, 0o777)
        self.balloon = Balloon(self.directory.name, *options, **balloon)
        self.guest = None
        try:
            self.guest = Guest(self.balloon, memory)
        except Failure:
            self.__exit__()
            raise
        self.files = Files(self.guest)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.guest:
            self.guest.end()
        if self.balloon.process.poll() is None:
            self.balloon.end()
        self.directory.cleanup()
