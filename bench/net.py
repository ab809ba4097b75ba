#!/usr/bin/env python3
"""A TCP stream over a guest's loopback (S1, test 4): what does giving back cost a guest that hardly frees anything?"""
# needs: user-mode-linux busybox-static libjson-c-dev libseccomp-dev libcap-ng-dev procps
# builds: bench/bench-inside bench/bench-process bench/bench-balloon-plain tools/balloon/pagehint-balloon
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guests"))

import figures  # noqa: E402
import pairs  # noqa: E402

SECONDS = 6

if __name__ == "__main__":
    figures.run(figures.Bench("net", __doc__),
                lambda bench: pairs.in_processes(bench, "net", {"stream": ("net", 1)}),
                lambda bench: pairs.in_guests(bench, "net", {"stream": ("net", SECONDS)}),
                lambda bench: pairs.headline(bench, "net"))
