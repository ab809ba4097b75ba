#!/usr/bin/env python3
"""Says in a bench's JSON on which machine it ran, so that nobody compares its times with another's.

usage: machine.py JSON [BUILD]      adds "machine": CPUs, model, memory, kernel, load now, and the compiler of BUILD
"""
import json
import os
import pathlib
import platform
import subprocess
import sys


def model():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def compiler(build):
    """As the compiler that BUILD uses calls itself."""
    path = pathlib.Path(build) / "compile_commands.json"
    if not path.is_file():
        return "unknown"
    words = json.loads(path.read_text(encoding="utf-8"))[0]["command"].split()
    program = next(word for word in words if pathlib.Path(word).name != "ccache")
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def describe(build):
    memory = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
    return {"cpus": os.cpu_count(), "model": model(), "memory_gib": int(memory) >> 20, "arch": platform.machine(),
            "kernel": platform.release(), "load": os.getloadavg(), "compiler": compiler(build)}


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__)
        return 2
    path = pathlib.Path(sys.argv[1])
    data = json.loads(path.read_text(encoding="utf-8"))
    data["machine"] = describe(sys.argv[2] if len(sys.argv) == 3 else "") | data.get("machine", {})  # what a bench says itself stays
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
