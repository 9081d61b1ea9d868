"""Runs the experiments of a paper's chapter again and says where our figures agree with the paper's.

Each figure writes its numbers (CSV) and its plot (PNG) into ``artifacts/paper``.

    penstock bench paper --chapter 4 [--figure 4.13] [--quick] [--out DIRECTORY]
    penstock bench paper --paper kang [--figure 3] [--quick]
    penstock bench paper --paper srivastava [--figure 6] [--quick]
    penstock bench paper --paper hammad [--figure 9a] [--quick]
"""

from __future__ import annotations

import argparse
from importlib import import_module
from math import inf
from pathlib import Path
from pkgutil import iter_modules

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.paper.figure import Claim, Figure, Scale, plot, write_csv
from penstock.errors import PenstockError

HERE = Path(__file__).parent


def figures(part: str) -> list[Figure]:
    """All figures of a chapter or a paper: the modules named after it."""
    names = (m.name for m in iter_modules([str(HERE)]) if m.name.startswith(f"{part}_"))
    in_order = sorted(
        names, key=lambda name: ([int(p) if p.isdigit() else inf for p in name.split("_")], name)
    )
    return [import_module(f"bench.paper.{name}").FIGURE for name in in_order]


def chosen(chapter: int, number: str | None, paper: str = "thesis") -> list[Figure]:
    """One figure, or all of the chapter."""
    known = figures(f"ch{chapter}" if paper == "thesis" else paper)
    if paper != "thesis" and not known:
        raise PenstockError(
            f"there is no experiment of the paper {paper} in bench/paper: choose thesis, kang, srivastava or "
            "hammad"
        )
    if not known:
        raise PenstockError(f"there is no experiment of chapter {chapter} in bench/paper: choose 4 or 5")
    found = [f for f in known if number in (None, f.number, _short(f.number, paper))]
    if not found:
        numbers = ", ".join(f.number for f in known)
        whole = f"chapter {chapter}" if paper == "thesis" else f"the paper {paper}"
        raise PenstockError(f"{whole} has no figure {number}: choose one of {numbers}")
    return found


def _short(number: str, paper: str) -> str:
    """A figure's number without what goes without saying."""
    return number.removeprefix("table ").removeprefix(f"{paper} ")


def report(results: list[tuple[Figure, list[Claim]]], out: Path, console: Console) -> None:
    """A table of what is claimed and what we found."""
    table = Table(title=f"CSV and PNG in {out}", show_lines=True)
    for heading in ("figure", "claim", "ours", "agrees"):
        table.add_column(heading, overflow="fold")
    for figure, claims in results:
        for claim in claims:
            agrees = "[green]yes[/]" if claim.agrees else "[red]no[/]"
            table.add_row(f"{figure.number}\n{figure.name}.*", claim.says, claim.ours, agrees)
    console.print(table)
    everything = [claim for _, claims in results for claim in claims]
    agree = sum(bool(claim.agrees) for claim in everything)
    console.print(f"{agree} of {len(everything)} claims agree")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("penstock bench paper", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--paper",
        default="thesis",
        help="thesis, kang (window joins by cost), srivastava (joins in little memory) or hammad (W-joins)",
    )
    parser.add_argument("--chapter", type=int, default=4, help="chapter of the thesis")
    parser.add_argument("--figure", help="one figure only, such as 4.13")
    parser.add_argument("--quick", action="store_true", help="few tuples: shows that it runs, proves nothing")
    parser.add_argument("--out", type=Path, default=Path("artifacts/paper"), help="directory to write to")
    options = parser.parse_args(arguments)
    wanted = chosen(options.chapter, options.figure, options.paper)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    results = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(wanted))
        for figure in wanted:
            progress.update(task, description=f"{figure.number} {figure.title}")
            rows = figure.measure(Scale(options.quick))
            write_csv(rows, options.out / f"{figure.name}.csv")
            plot(figure, rows, options.out / f"{figure.name}.png")
            results.append((figure, figure.claims(rows)))
            progress.advance(task)
    report(results, options.out, console)
    if options.quick:
        console.print("with --quick there are too few tuples to agree or not: leave it out to measure")


if __name__ == "__main__":
    main()
