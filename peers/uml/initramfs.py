#!/usr/bin/env python3
"""Writes the initramfs of a guest: busybox, its applets, one init script and the files named. Needs no privilege.

usage: initramfs.py OUT BUSYBOX INIT [NAME=PATH..]

The format is cpio's "newc", gzipped: a header of hexadecimal fields, the name, the content, each padded to 4 bytes.
"""
import gzip
import pathlib
import stat
import sys

APPLETS = ("sh awk cat cut date dd dmesg echo free grep head insmod ls md5sum mkdir mount poweroff rm rmmod sed seq sleep "
           "stty sync tail test tr true uname wc").split()
DIRECTORIES = ("bin", "dev", "lib", "mod", "proc", "sys", "tmp")


class Archive:
    def __init__(self):
        self.parts = []
        self.entries = 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.entries += 1
        path = name.encode() + b"\0"
        fields = (self.entries, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + path, content):
            self.parts.append(part + b"\0" * (-len(part) % 4))

    def finish(self):
        self.add("TRAILER!!!", 0)
        return gzip.compress(b"".join(self.parts), 1)


def build(busybox, init, files):
    archive = Archive()
    for name in DIRECTORIES:
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("dev/null", stat.S_IFCHR | 0o666, device=(1, 3))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, pathlib.Path(busybox).read_bytes())
    for applet in APPLETS:
        archive.add(f"bin/{applet}", stat.S_IFLNK | 0o777, b"busybox")
    archive.add("init", stat.S_IFREG | 0o755, pathlib.Path(init).read_bytes())
    for name, path in files.items():
        archive.add(name, stat.S_IFREG | 0o644, pathlib.Path(path).read_bytes())
    return archive.finish()


def main():
    if len(sys.argv) < 4:
        print(__doc__)
        return 2
    out, busybox, init, *files = sys.argv[1:]
    pathlib.Path(out).write_bytes(build(busybox, init, dict(file.split("=", 1) for file in files)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
