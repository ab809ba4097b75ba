#!/usr/bin/env python3
"""iperf3 over a guest's loopback (S1, test 4): what does giving back cost a guest that hardly frees anything?"""
# needs: user-mode-linux busybox-static iperf3 libjson-c-dev libseccomp-dev libcap-ng-dev procps
# builds: bench/bench-inside bench/bench-process bench/bench-balloon-plain tools/balloon/pagehint-balloon
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guests"))

import figures  # noqa: E402
import pairs  # noqa: E402

IPERF = "/lib/ld-linux-x86-64.so.2 --library-path /lib /bin/iperf3"


def files():
    """iperf3 and what it is linked with, by their names in a guest."""
    lines = subprocess.run(["ldd", "/usr/bin/iperf3"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return {"bin/iperf3": "/usr/bin/iperf3", **{f"lib/{pathlib.Path(word).name}": word for word in lines if word.startswith("/")}}


def stream(guest, _, seconds):
    """Bytes that arrived. The server of a run ends with it."""
    guest.run(f"busybox ip link set lo up; chmod 755 /bin/iperf3 /lib/*; {IPERF} -s -1 -D")
    # a client that comes before the server listens is refused, and comes again
    said = guest.run(f"while {IPERF} -c 127.0.0.1 -J -t {seconds} >/tmp/said; grep -q refused /tmp/said; do :; done; cat /tmp/said",
                     300)
    report = json.loads(said[said.index("{"):said.rindex("}") + 1])
    if "error" in report:
        raise RuntimeError(f"iperf3 in a guest: {report['error']}")
    return float(report["end"]["sum_received"]["bytes"])


if __name__ == "__main__":
    figures.run(figures.Bench("net", __doc__),
                lambda bench: pairs.in_processes(bench, "net", {"stream": ("net", 1)}),
                lambda bench: pairs.in_guests(bench, "net", {"stream": None}, stream, **files()),
                lambda bench: pairs.headline(bench, "net"))
