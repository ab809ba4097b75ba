#!/usr/bin/env python3
"""Writes an initramfs, without being root.

usage: initramfs.py OUT NAME=FILE..      OUT is gzipped cpio (newc); /bin/busybox gets the links that a small init needs
"""
import gzip
import pathlib
import stat
import sys

APPLETS = ["sh", "mount", "cat", "echo", "insmod", "poweroff"]


class Archive:
    def __init__(self):
        self.parts = []
        self.inode = 1

    def add(self, name, mode, data=b"", device=(0, 0)):
        raw = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(raw), 0)
        entry = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
        self.parts.append(entry + b"\0" * (-len(entry) % 4) + data + b"\0" * (-len(data) % 4))
        self.inode += 1

    def bytes(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)


def main():
    if len(sys.argv) < 3 or any("=" not in word for word in sys.argv[2:]):
        print(__doc__)
        return 2
    archive = Archive()
    for name in ["bin", "dev", "proc", "sys"]:
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    for applet in APPLETS:
        archive.add(f"bin/{applet}", stat.S_IFLNK | 0o777, b"busybox")
    for word in sys.argv[2:]:
        name, _, path = word.partition("=")
        archive.add(name, stat.S_IFREG | 0o755, pathlib.Path(path).read_bytes())
    pathlib.Path(sys.argv[1]).write_bytes(gzip.compress(archive.bytes(), 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
