#!/usr/bin/env python3
"""Takes the ELF kernel out of a bzImage: Xen then need not unpack it, which an emulator does slowly.

usage: vmlinux.py BZIMAGE OUT
Source: Linux Documentation/arch/x86/boot.rst (setup_sects, payload_offset, payload_length)
"""
import lzma
import pathlib
import struct
import sys
import zlib


def payload(image):
    sectors = image[0x1f1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    return image[start:start + length]


def unpack(data):
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(data)
    raise SystemExit("vmlinux.py: compressed in a way that is not known here")


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    kernel = unpack(payload(pathlib.Path(sys.argv[1]).read_bytes()))
    if not kernel.startswith(b"\x7fELF"):
        raise SystemExit("vmlinux.py: no ELF inside")
    pathlib.Path(sys.argv[2]).write_bytes(kernel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
