"""What a figure or table of a paper is: what is measured, what the paper says of it, a CSV and a plot."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Row = dict[str, float | int | str]


@dataclass(frozen=True)
class Claim:
    """What the paper says of a figure, or what Penstock wants to reach; what we found; whether it agrees.

    ``agrees`` is None where the run cannot tell, as of a stream that is generated to have the property.
    ``why`` explains a difference, or what the agreement is worth.
    """

    says: str
    ours: str
    agrees: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In a word or two."""
        return "no evidence" if self.agrees is None else "yes" if self.agrees else "no"


@dataclass(frozen=True)
class Scale:
    """How much is run: everything, or little of it to see that it runs."""

    quick: bool = False

    def tuples(self, count: int) -> int:
        return max(count // 40, 4_000) if self.quick else count

    def seeds(self, count: int) -> range:
        return range(1, 2 if self.quick else 1 + count)

    def some(self, values: Sequence[int]) -> list[int]:
        return [values[0], values[-1]] if self.quick else list(values)


@dataclass(frozen=True)
class Figure:
    """``measure`` makes rows, ``claims`` judges them; ``y`` is plotted over ``x``, a line for each ``by``.

    ``claims`` reads nothing but the rows, so that a run can be judged again later. ``notes`` are what a
    reader must know to read it: settings that the paper does not print, streams that are not public.
    """

    number: str
    title: str
    x: str
    y: tuple[str, ...]
    measure: Callable[[Scale], list[Row]]
    claims: Callable[[list[Row]], list[Claim]]
    by: str = "algorithm"
    log_x: bool = False
    log_y: bool = False
    kind: str = "lines"
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its files."""
        if " " in self.number and not self.number.startswith("table"):
            return self.number.replace(" ", "_")
        chapter, number = self.number.removeprefix("table ").split(".")
        return f"ch{chapter}_table_{number}" if self.number.startswith("table") else f"ch{chapter}_{number}"


def write_csv(rows: list[Row], path: Path) -> None:
    """The rows, with a heading."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def plot(figure: Figure, rows: list[Row], path: Path) -> None:
    """The figure as an image, a panel for each y."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(5.5 * len(figure.y), 4), layout="constrained")
    panels = canvas.subplots(1, len(figure.y), squeeze=False)[0]
    for y, axes in zip(figure.y, panels, strict=True):
        for at, line in enumerate(dict.fromkeys(r[figure.by] for r in rows)):
            mine = [r for r in rows if r[figure.by] == line and y in r]
            if not mine:
                continue
            xs, ys = [r[figure.x] for r in mine], [r[y] for r in mine]
            if figure.kind == "bars":
                width = 0.8 / len({r[figure.by] for r in rows})
                axes.bar([i + at * width for i in range(len(xs))], ys, width, label=str(line))
                axes.set_xticks(range(len(xs)), [str(x) for x in xs])
            else:
                points = figure.kind == "points"
                marker = "o" if points or len(xs) < 40 else None
                style = "none" if points else "-"
                axes.plot(xs, ys, label=str(line), marker=marker, markersize=3, linestyle=style)
        axes.set_xlabel(figure.x.replace("_", " "))
        axes.set_ylabel(y.replace("_", " "))
        if figure.log_x:
            axes.set_xscale("log")
        if figure.log_y:
            axes.set_yscale("log")
        elif figure.kind != "bars":
            axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    canvas.suptitle(f"{figure.number}: {figure.title}", fontsize=10)
    canvas.savefig(path, dpi=110)


def series(rows: list[Row], x: str, y: str, line: str, by: str = "algorithm") -> dict[float, float]:
    """One line of a figure: y by x."""
    return {float(r[x]): float(r[y]) for r in rows if r[by] == line}


def ratios(rows: list[Row], x: str, y: str, line: str, to: str) -> dict[float, float]:
    """One line over another, by x."""
    one, other = series(rows, x, y, line), series(rows, x, y, to)
    return {at: one[at] / other[at] for at in one if at in other}


def shown(values: dict[float, float], digits: int = 2) -> str:
    """Values by x, for people."""
    return ", ".join(f"{at:,g}: {value:.{digits}f}" for at, value in values.items())
