"""The output of the demo: a live panel on a terminal, plain lines elsewhere, a summary at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from penstock.cli.settings import PLAIN_VIEW_S
from penstock.measurement import Kind, Measurements, Property, name_of, parent_of


@dataclass(frozen=True)
class State:
    """The engines' state: rows and bytes of all partitions, and each stream's probe orders.

    ``reasons``: of the tuples that were dropped when an order was chosen, the share that each filter drops.
    """

    rows: int = 0
    bytes: int = 0
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def state_of(found: Measurements) -> State:
    """Sum over the engines; where partitions differ in an order, each different one is shown."""
    orders: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    for engine in found.by_engine().values():
        for path, own in engine.of_kind(Kind.ADAPTIVE).by_entity().items():
            if own.has(Property.ORDER):
                stream = name_of(parent_of(path))
                orders.setdefault(stream, set()).add(" → ".join(own.texts(Property.ORDER)))
                decisions = engine.parts(path).of_kind(Kind.DECISION).by_entity().values()
                for last in list(decisions)[-1:]:
                    drops = last.values(Property.STATISTIC).items()
                    reasons[stream] = ", ".join(f"{name} {share:.0%}" for name, share in drops)
    engines = found.of_kind(Kind.ENGINE)
    return State(
        int(engines.total(Property.ROWS)),
        int(engines.total(Property.BYTES)),
        {stream: tuple(sorted(different)) for stream, different in orders.items()},
        reasons,
    )


@dataclass
class Progress:
    """The progress of the running query."""

    seconds: float = 0.0
    batches: int = 0
    rows: int = 0
    results: int = 0
    total: int | None = None
    batch_ms: list[int] = field(default_factory=list)
    batch_rows: int = 0
    state: State = field(default_factory=State)
    peak: State = field(default_factory=State)
    order_changes: int = 0
    routing: str = ""

    def add_batch(self, rows: int, milliseconds: int) -> None:
        self.batches += 1
        self.rows += rows
        self.batch_rows = rows
        self.batch_ms.append(milliseconds)

    def see(self, state: State) -> None:
        if self.state.orders:
            self.order_changes += sum(
                state.orders.get(stream, order) != order for stream, order in self.state.orders.items()
            )
        self.state = state
        self.peak = max(self.peak, state, key=lambda s: s.bytes)

    @property
    def rows_per_second(self) -> float:
        return self.batch_rows / self.batch_ms[-1] * 1000 if self.batch_ms else 0.0


class Display(Protocol):
    """Shows progress while it is entered."""

    def __enter__(self) -> object: ...

    def __exit__(self, *raised: object) -> None: ...

    def show(self, progress: Progress) -> None:
        """Show what is known now."""


class LivePanel:
    """For a terminal: a panel that changes in place."""

    def __init__(self, console: Console, cql: str, until: float) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._cql, self._until = cql, until

    def __enter__(self) -> LivePanel:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    def show(self, progress: Progress) -> None:
        self._live.update(panel(self._cql, progress, self._until), refresh=True)


class Lines:
    """For a pipe or a file: a line every few seconds."""

    def __init__(self, console: Console, cql: str) -> None:
        self._console, self._cql = console, cql
        self._next = 0.0

    def __enter__(self) -> Lines:
        self._print(self._cql)
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def show(self, progress: Progress) -> None:
        """Print a line if it is time."""
        if progress.seconds >= self._next:
            self._print(line(progress))
            self._next = progress.seconds + PLAIN_VIEW_S

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False)
        self._console.file.flush()


def display(console: Console, cql: str, until: float) -> Display:
    """The display that fits the console."""
    return LivePanel(console, cql, until) if console.is_terminal else Lines(console, cql)


def panel(cql: str, progress: Progress, until: float) -> RenderableType:
    """The live view."""
    figures = Table.grid(padding=(0, 3))
    figures.add_column(style="dim")
    figures.add_column(justify="right")
    for label, value in _figures(progress):
        figures.add_row(label, value)
    orders = Table.grid(padding=(0, 3))
    orders.add_column(style="dim")
    orders.add_column(style="bold")
    orders.add_column(style="dim")
    for stream, different in progress.state.orders.items():
        why = progress.state.reasons.get(stream)
        reason = f"filters rejecting dropped rows: {why}" if why else ""
        orders.add_row(f"a packet of {stream} probes", " | ".join(different), reason)
    query = Syntax(cql, "sql", background_color="default")
    left = f"{progress.seconds:.0f} of {until:.0f} s"
    return Panel(Group(query, "", figures, "", orders), title="Penstock", subtitle=left, expand=False)


def _figures(p: Progress) -> list[tuple[str, str]]:
    return [
        ("total of the last 10 minutes", "waiting" if p.total is None else f"{p.total:,} bytes"),
        ("routing", p.routing),
        ("rows/s processed", f"{p.rows_per_second:,.0f}"),
        ("rows in", f"{p.rows:,}"),
        ("results", f"{p.results:,}"),
        ("last batch", f"{p.batch_ms[-1]:,} ms" if p.batch_ms else ""),
        ("state", f"{p.state.rows:,} rows, {megabytes(p.state.bytes)}"),
    ]


def line(p: Progress) -> str:
    """The progress in one line."""
    orders = "; ".join(f"{stream}: {' | '.join(o)}" for stream, o in p.state.orders.items())
    batch = f"{p.batch_ms[-1]} ms" if p.batch_ms else "none yet"
    return (
        f"{p.seconds:5.1f} s  total {'-' if p.total is None else f'{p.total:,}'}  rows {p.rows:,}  "
        f"results {p.results:,}  batch {batch}  state {p.state.rows:,} rows {megabytes(p.state.bytes)}  "
        f"orders {orders or '-'}"
    )


def summary(p: Progress) -> str:
    """The totals of the run."""
    batches = f"{p.batches} batches" + (f" of {median(p.batch_ms):,.0f} ms (median)" if p.batch_ms else "")
    total = "no total yet" if p.total is None else f"last total {p.total:,} bytes"
    state = f"at most {p.peak.rows:,} rows and {megabytes(p.peak.bytes)} of state"
    changes = f"; probe orders changed {p.order_changes} times" if p.order_changes else ""
    return (
        f"{p.seconds:.0f} s: {p.rows:,} rows in, {p.results:,} results, {total}, {batches}; {state}{changes}"
    )


def megabytes(count: int) -> str:
    """A number of bytes as text."""
    return f"{count / 1e6:,.1f} MB"
