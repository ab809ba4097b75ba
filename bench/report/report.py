#!/usr/bin/env python3
"""Writes one page about what guests gain and what it costs, from what the benches left: report.md, and an SVG a picture.

usage: report.py DIRECTORY      which has bench-NAME.json of order, density, memhog, fault, net; a missing one is said to be missing
"""
import json
import os
import pathlib
import platform
import statistics
import sys

from pictures import Pictures

BENCHES = ("density", "memhog", "fault", "net", "order")
PUBLISHED = {
    "density": "S1, 2019, guests of 5 GB on 15 GB: 2 without hinting, 4 with reported pages on the free lists, 5 with a bitmap.",
    "memhog": "S1, seconds of the three guests: 40, 65, 398 without; 32, 58, 35 with lists; 42, 47, 32 with a bitmap. Third over "
              "first: 10.0, 1.1, 0.8.",
    "fault": "S1, page_fault1: one task 459168 without, 292183 with lists (-36%), 467693 with a bitmap.",
    "net": "S1, 10^6 bit/s: 14842 without, 13487 with lists (-9%), 14344 with a bitmap (-3%).",
    "order": "S3: a dip of 1.3% (processes) and 5.7% (threads) at MAX_ORDER - 1 became 5% and 20% at pageblock order.",
}
WHAT = {
    "density": "Guests that came and went before the host's first use of swap.",
    "memhog": "Three guests fill their memory one after the other: the third's time over the first's.",
    "fault": "Work for a second of CPU time lost to giving back, page_fault1.",
    "net": "Work for a second of CPU time lost to giving back, a stream over loopback.",
    "order": "Requests, memory and time, by least order. A request is an exit of the guest.",
}


def load(directory, name):
    path = directory / f"bench-{name}.json"
    if not path.is_file():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    if "figures" in data:
        return data
    return {"figures": {key: value for key, value in data.items() if key != "machine"}, "rounds": {}, "series": {}}


def figure_rows(data):
    """Every figure with the spread of its rounds, where it has some."""
    yield "| figure | value | least | most | rounds |"
    yield "|---|---|---|---|---|"
    for key, value in data["figures"].items():
        values = data["rounds"].get(key)
        spread = f"{min(values):.4g} | {max(values):.4g} | {len(values)}" if values else " | | "
        yield f"| `{key}` | {value:.4g} | {spread} |"


def order_rows(figures):
    """One table of the orders, at a delay of 2 s; all of the figures are in the JSON."""
    yield "| work | least order | way | requests/GiB | refaults MiB | s to 95% | unreturned % |"
    yield "|---|---|---|---|---|---|---|"
    for work, prefix in (("recorded build", "order."), ("churn", "order.churn.")):
        for order in (0, 4, 9, 10):
            for way in ("aged", "unaged", "kernel"):
                cells = [figures.get(f"{prefix}{order}.{what}.{way}")
                         for what in ("requests_per_gib", "refaults_mib", "seconds_to_95pct", "unreturned_pct")]
                if None not in cells:
                    yield f"| {work} | {order} | {way} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |"
    yield ""
    yield "| figure | value |"
    yield "|---|---|"
    for key in figures:
        if "vs_" in key or "bytes" in key:
            yield f"| `{key}` | {figures[key]:.4g} |"


def machine_lines(found):
    memory = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").split()[1]
    model = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
             if line.startswith("model name")]
    yield f"Machine: {os.cpu_count()} CPUs ({model[0] if model else platform.machine()}), {int(memory) >> 20} GiB, " \
          f"Linux {platform.release()}."
    loads = [data["machine"]["load"][0] for data in found.values() if data and "machine" in data]
    if loads:
        yield f"Load when the benches with guests ended: {statistics.median(loads):.1f} (0 to 2 is a machine that was ours alone)."
    if any(data and data.get("quick") for data in found.values()):
        yield "**A quick run: few rounds. For a look, not for a figure.**"


def page(directory):
    found = {name: load(directory, name) for name in BENCHES}
    pictures = Pictures(directory)
    yield "# What guests gain, and what it costs"
    yield ""
    yield from machine_lines(found)
    yield ""
    yield "Medians; least and most are of the rounds. What each figure means is in bench/README.md. `none`: nothing is given back; "
    yield "`plain`: as balloon devices do it, a call for each reported buffer; `bitmap`: an allocator's bitmap with a threshold; "
    yield "`ours`: the library."
    for name, data in found.items():
        yield f"\n## {name}\n\n{WHAT[name]} Published: {PUBLISHED[name]}\n"
        if data is None or not data["figures"]:
            yield "Not measured here."
            continue
        for title, file in pictures.draw(name, data):
            yield f"![{title}]({file})\n"
        yield from order_rows(data["figures"]) if name == "order" else figure_rows(data)


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    directory = pathlib.Path(sys.argv[1])
    (directory / "report.md").write_text("\n".join(page(directory)) + "\n", encoding="utf-8")
    print(f"report: {directory / 'report.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
