"""The pictures of the report, by gnuplot: data goes in with the commands, an SVG comes out. Without gnuplot there are none."""
import shutil
import subprocess

HEAD = "set terminal svg size 760,420 font 'sans,12' background '#ffffff'\nset grid ytics\nset key outside top center horizontal\n"
MODES = ("none", "plain", "bitmap", "ours")


def block(name, rows):
    """A named block of data."""
    return f"${name} << END\n" + "".join(" ".join(f'"{cell}"' if isinstance(cell, str) else f"{cell:g}" for cell in row) + "\n"
                                         for row in rows) + "END\n"


def bars(title, unit, columns, rows):
    """Grouped bars: a row is a label and a number a column."""
    plots = ", ".join(f"$d using {i + 2}{':xtic(1)' if i == 0 else ''} title '{column}'" for i, column in enumerate(columns))
    return (f"set title '{title}'\nset ylabel '{unit}'\nset style data histograms\nset style fill solid 0.7\n"
            f"set yrange [{'*' if any(cell < 0 for row in rows for cell in row[1:]) else 0}:*]\n" + block("d", rows) + f"plot {plots}\n")


class Pictures:
    def __init__(self, directory):
        self.directory = directory
        self.gnuplot = shutil.which("gnuplot")

    def draw(self, name, data):
        """Draws what there is of one bench. Yields title and file."""
        for file, title, commands in getattr(self, "_" + name)(data):
            path = f"report-{file}.svg"
            if not self.gnuplot:
                continue
            done = subprocess.run([self.gnuplot], input=f"{HEAD}set output '{self.directory / path}'\n{commands}", text=True,
                                  capture_output=True, check=False)
            if done.returncode == 0:
                yield title, path
            else:
                print(f"report: {file}: {done.stderr.strip()}")

    @staticmethod
    def _by_mode(figures, prefix):
        return [(mode, figures[prefix + mode]) for mode in MODES if prefix + mode in figures]

    def _density(self, data):
        for kind in ("uml", "process"):
            rows = self._by_mode(data["figures"], f"density.{kind}.")
            if rows:
                title = f"Guests before the first swap ({kind})"
                yield f"density-{kind}", title, bars(title, "guests", ["median"], rows)
        series = {label: rows for label, rows in data["series"].items() if label.endswith(".0") and rows}
        if series:
            blocks = "".join(block(f"s{i}", rows) for i, rows in enumerate(series.values()))
            for file, title, x, unit in (("density-memory", "Memory that the guests hold, as they come and go", 2, "guests"),
                                         ("density-time", "The same over time", 1, "s")):
                lines = ", ".join(f"$s{i} using {x}:3 with linespoints lw 2 title '{label.split('.')[1]}'"
                                  for i, label in enumerate(series))
                yield (file, title, f"set title '{title}'\nset xlabel '{unit}'\nset ylabel 'MiB'\nset yrange [0:*]\n"
                       + blocks + f"plot {lines}\n")

    def _memhog(self, data):
        for kind in ("uml", "process"):
            rows = self._by_mode(data["figures"], f"memhog.{kind}.third_vs_first.")
            if rows:
                title = f"The third guest filling its memory, over the first ({kind})"
                yield f"memhog-{kind}", title, bars(title, "ratio", ["median"], rows)

    def _dips(self, name, data):
        figures = data["figures"]
        for kind in ("uml", "process"):
            start = f"{name}.{kind}.dip_pct."
            cases = sorted({key[len(start):].split(".")[0] for key in figures if key.startswith(start) and key.count(".") == 4})
            modes = [mode for mode in MODES[1:] if cases and f"{start}{cases[0]}.{mode}" in figures]
            if modes:
                title = f"{name}: dip by tasks ({kind})"
                yield (f"{name}-{kind}", title,
                       bars(title, "%", modes, [(case, *(figures[f"{start}{case}.{mode}"] for mode in modes)) for case in cases]))

    def _fault(self, data):
        return self._dips("fault", data)

    def _net(self, data):
        return self._dips("net", data)

    def _order(self, data):
        figures, ways = data["figures"], ("aged", "unaged", "kernel")
        for work, prefix in (("trace", "order."), ("churn", "order.churn.")):
            rows = [(f"order {order}", *(figures[f"{prefix}{order}.requests_per_gib.{way}"] for way in ways))
                    for order in (0, 4, 9, 10) if all(f"{prefix}{order}.requests_per_gib.{way}" in figures for way in ways)]
            if rows:
                title = f"Exits for each GiB given back, by least order ({work}, a look every 2 s)"
                yield f"order-{work}", title, "set logscale y\n" + bars(title, "requests", ways, rows).replace("[0:*]", "[1:*]")
