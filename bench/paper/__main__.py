"""Runs the papers' experiments again and says where our figures agree with theirs.

Each figure writes its rows (CSV), what it measured and how that is judged (JSON) and its plot (PNG) into
``artifacts/paper``; ``report.html`` there has all figures in one page.

    penstock bench paper --all [--quick] [--fresh] [--judge] [--minutes 30] [--write-docs] [--out DIRECTORY]
    penstock bench paper --chapter 4 [--figure 4.13] [--quick] [--markdown]
    penstock bench paper --paper kang|srivastava|hammad [--figure 3] [--quick]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.paper import document
from bench.paper.figure import Figure, Scale, plot, write_csv
from bench.paper.parts import BY_NAME, PARTS, Part
from bench.paper.report import page, tally
from bench.paper.results import UNKNOWN_SECONDS, Result, fingerprint, judged, load, result
from penstock.errors import PenstockError

Chosen = list[tuple[Part, Figure]]


def figures(part: str) -> list[Figure]:
    """All figures of a chapter or a paper."""
    return BY_NAME[part].figures if part in BY_NAME else []


def everything() -> Chosen:
    """All figures of all papers."""
    return [(part, figure) for part in PARTS for figure in part.figures]


def chosen(chapter: int, number: str | None, paper: str = "thesis") -> Chosen:
    """One figure, or all of the chapter."""
    name = f"ch{chapter}" if paper == "thesis" else paper
    known = figures(name)
    if paper != "thesis" and not known:
        raise PenstockError(
            f"there is no experiment of the paper {paper} in bench/paper: choose thesis, kang, srivastava or "
            "hammad"
        )
    if not known:
        chapters = [p.name[2:] for p in PARTS if p.name.startswith("ch") and p.figures]
        raise PenstockError(
            f"there is no experiment of chapter {chapter} in bench/paper: choose {' or '.join(chapters)}"
        )
    found = [f for f in known if number in (None, f.number, _short(f.number, paper))]
    if not found:
        numbers = ", ".join(f.number for f in known)
        whole = f"chapter {chapter}" if paper == "thesis" else f"the paper {paper}"
        raise PenstockError(f"{whole} has no figure {number}: choose one of {numbers}")
    return [(BY_NAME[name], f) for f in found]


def _short(number: str, paper: str) -> str:
    """A figure's number without what goes without saying."""
    return number.removeprefix("table ").removeprefix(f"{paper} ")


@dataclass(frozen=True)
class Run:
    """Measures figures into a directory; ``resume`` takes what is there already, ``judge`` nothing else.

    After ``minutes`` no figure is begun.
    """

    out: Path
    quick: bool = False
    resume: bool = False
    judge: bool = False
    minutes: float = inf

    def before(self, figure: Figure) -> Result | None:
        """What was measured of it, if that is still what its modules measure."""
        found = load(self.out / f"{figure.name}.json") if self.resume or self.judge else None
        if found is None or found.quick != self.quick:
            return None
        return judged(found, figure) if self.judge or found.measured_by == fingerprint(figure) else None

    def measure(self, part: Part, figure: Figure) -> Result:
        """Run a figure and write its files."""
        busy, began = os.getloadavg()[0], perf_counter()
        rows = figure.measure(Scale(self.quick))
        write_csv(rows, self.out / f"{figure.name}.csv")
        return result(part, figure, rows, self.quick, perf_counter() - began, busy)

    def write(self, figure: Figure, found: Result) -> None:
        """Its JSON and plot; also of what was measured before, whose claims or look may have changed."""
        (self.out / f"{figure.name}.json").write_text(found.to_json())
        plot(figure, found.rows, self.out / f"{figure.name}.png")


def measured(run: Run, wanted: Chosen) -> tuple[list[Result], list[str]]:
    """Results of the figures, and what failed; a bar shows how far it is and about how long it takes."""
    found = {figure.name: run.before(figure) for _, figure in wanted}
    pending = [(p, f) for p, f in wanted if found[f.name] is None and not run.judge]
    seconds = _seconds(run.out, [f for _, f in pending])
    failed = []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[of]}"),
               TimeElapsedColumn(), TextColumn("{task.fields[left]}"))  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=sum(seconds.values()), of="", left="")
        taken = expected = 0.0
        for number, (part, figure) in enumerate(pending):
            if taken > run.minutes * 60:
                break
            left = _left(sum(seconds.values()) - expected, taken, expected)
            told = f"{figure.number} {figure.title}"
            progress.update(task, description=told, of=f"{number + 1} of {len(pending)}", left=left)
            began = perf_counter()
            try:
                found[figure.name] = run.measure(part, figure)
            except Exception as error:  # the others are worth having
                if len(wanted) == 1:
                    raise
                failed.append(f"{figure.number}: {type(error).__name__}: {error}")
            taken, expected = taken + perf_counter() - began, expected + seconds[figure.name]
            progress.update(task, completed=expected, left="")
            if (now := found[figure.name]) is not None:
                run.write(figure, now)
    for _, figure in wanted:
        if (now := found[figure.name]) is not None:
            run.write(figure, now)
    return [r for r in found.values() if r is not None], failed


def _seconds(out: Path, pending: Sequence[Figure]) -> dict[str, float]:
    """How long each took the last time, here or in the run of the document."""
    before = {r.name: r.seconds for r in document.kept()[0]}
    for figure in pending:
        if (found := load(out / f"{figure.name}.json")) is not None and not found.quick:
            before[figure.name] = found.seconds
    return {f.name: before.get(f.name, UNKNOWN_SECONDS) for f in pending}


def _left(expected: float, taken: float, of: float) -> str:
    """The time left, at the speed seen so far."""
    seconds = expected * (taken / of if of else 1.0)
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def table(results: Sequence[Result], out: Path) -> Table:
    """What is claimed and what we found."""
    table = Table(title=f"CSV, JSON and PNG in {out}", show_lines=True)
    for heading in ("figure", "claim", "ours", "agrees"):
        table.add_column(heading, overflow="fold")
    colours: dict[str, str] = {"yes": "green", "no": "red", "no evidence": "yellow"}
    for found in results:
        for claim in found.claims:
            agrees = f"[{colours[claim.verdict]}]{claim.verdict}[/]" + (f"\n{claim.why}" if claim.why else "")
            table.add_row(f"{found.figure}\n{found.name}.*", claim.says, claim.ours, agrees)
    return table


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("penstock bench paper", description=__doc__.split("\n")[0])
    add: Callable[..., object] = parser.add_argument
    add("--all", action="store_true", help="every figure of all papers, those measured before taken over")
    papers = "thesis, kang (window joins by cost), srivastava (joins in little memory) or hammad (W-joins)"
    add("--paper", default="thesis", help=papers)
    add("--chapter", type=int, default=4, help="chapter of the thesis")
    add("--figure", help="one figure only, such as 4.13")
    add("--quick", action="store_true", help="few tuples: shows that it runs, proves nothing")
    add("--fresh", action="store_true", help="with --all: measure everything again")
    add("--judge", action="store_true", help="judge again what was measured; measure nothing")
    add("--minutes", type=float, default=inf, help="begin no figure after so many: another run goes on")
    add("--write-docs", action="store_true", help="with --all: write docs/paper_results.md from the results")
    add("--markdown", action="store_true", help="print the results as docs/paper_results.md has them")
    add("--out", type=Path, default=Path("artifacts/paper"), help="directory to write to")
    options = parser.parse_args(arguments)
    if options.write_docs and (not options.all or options.quick):
        raise PenstockError("--write-docs needs --all, without --quick: the document is of all figures")
    wanted = everything() if options.all else chosen(options.chapter, options.figure, options.paper)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    run = Run(
        options.out,
        options.quick,
        resume=options.all and not options.fresh,
        judge=options.judge,
        minutes=options.minutes,
    )
    results, failed = measured(run, wanted)
    if options.markdown:
        print(document.sections(results))
    else:
        console.print(table(results, options.out))
    console.print(tally(results))
    if options.all:
        (options.out / "report.html").write_text(page(results, options.out))
        console.print(f"report: {options.out / 'report.html'}")
    if options.write_docs:
        there = {r.figure for r in results}
        document.keep(results, [f.number for _, f in wanted if f.number not in there])
        console.print(f"written: {document.DOCUMENT}")
    if options.quick:
        console.print("with --quick there are too few tuples to agree or not: leave it out to measure")
    if failed:
        raise PenstockError("figures that failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
