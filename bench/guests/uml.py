"""Guests for benches: stock User-Mode Linux with our program inside, in a cgroup, on a balloon device of one of the modes."""
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = ROOT / "peers" / "uml"
sys.path.insert(0, str(PEER))

import guest as peer  # noqa: E402
import initramfs  # noqa: E402

BUILD = ROOT / "build-bench"
PROGRAMS = {"plain": BUILD / "bench" / "bench-balloon-plain", "ours": BUILD / "tools" / "balloon" / "pagehint-balloon"}
INSIDE = BUILD / "bench" / "bench-inside"
MODES = ("none", "plain", "ours")


def initrd_file(directory, **more):
    """One for all guests of a run: its page cache is nobody's in particular. `more`: names of other files, and where they are."""
    module, = list(pathlib.Path("/usr/lib/uml/modules").glob("*/kernel/drivers/virtio/virtio_balloon.ko"))[-1:]
    path = pathlib.Path(directory) / "initrd.gz"
    path.write_bytes(initramfs.build("/bin/busybox", PEER / "init", {"mod/virtio_balloon.ko": module, "bin/inside": INSIDE, **more}))
    return path


class Guest(peer.Guest):
    """peer.Guest, but with a program inside, in cgroups, and, in mode none, without a balloon device."""

    def __init__(self, mode, initrd, *groups, memory="512M", order=None):  # pylint: disable=super-init-not-called
        self.directory = tempfile.mkdtemp(prefix="pagehint-bench-")
        os.chmod(self.directory, 0o777)
        wrapper = tuple(word for group in groups for word in group.wrapper)
        self.lines, self.seen, self.process, self.balloon = queue.Queue(), [], None, None
        command = [*wrapper, "linux.uml", f"uml_dir={self.directory}", f"mem={memory}", f"initrd={initrd}", "con=null",
                   "con0=fd:0,fd:1", "ssl=null", "quiet", "panic=-1"]
        try:
            if mode != "none":
                self.balloon = peer.Balloon(self.directory, "--features", "stats,deflate-on-oom,reporting",
                                            program=PROGRAMS[mode], wrapper=wrapper)
                command.append(f"virtio_uml.device={self.balloon.socket}:5")
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            bufsize=0, start_new_session=True)
            threading.Thread(target=self._read, daemon=True).start()
            self._until("ready")
            self.run("busybox chmod 755 /bin/inside")
            if mode != "none":
                self.run("insmod /mod/virtio_balloon.ko")
            if order is not None and mode != "none":
                self.set_order(order)
            self.ram = peer.wait_until("the guest's memory file", self._find_ram)
        except BaseException:
            self.end()
            raise

    def inside(self, *words):
        """Runs our program in it; returns the number that it prints."""
        return float(self.run("inside " + " ".join(map(str, words)), 300).strip().splitlines()[-1])

    def settle(self, quiet_s=2.5, most_s=15):
        """Until the host has got no more of it back for a while. Nothing says so: the driver looks every 2 s, and that it finds
        nothing is no event. So the host's figure is asked again and again, for longer than such an interval."""
        end, last, since = time.monotonic() + most_s, None, time.monotonic()
        while time.monotonic() - since < quiet_s:
            if time.monotonic() > end:
                print(f"a guest still gives back after {most_s} s", flush=True)
                return
            now = self.host_bytes() >> 20
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.1)

    def end(self):
        if self.process:
            super().end()
        if self.balloon and self.balloon.process.poll() is None:
            self.balloon.end()
        shutil.rmtree(self.directory, ignore_errors=True)
