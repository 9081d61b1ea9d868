"""Figures 6.10, 6.12, 6.14, 6.16 and table 6.1: rows kept and time taken, by how well constraints hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import fmean, pstdev

from bench.paper.figure import Claim, Figure, Row, Scale, shown
from bench.paper.k_constraints import (
    SHORT_STEP,
    STEP,
    Experiment,
    Measured,
    clustered,
    ordered_child,
    ordered_parents,
    rids,
    run,
)

Made = Callable[[int, int], Experiment]
SWJ = "SWJ"
KINDS: dict[str, tuple[Made, int]] = {
    "RIDS": (rids, 60_000),
    "CA": (clustered, 60_000),
    "OAP": (ordered_parents, 60_000),
    "OAC": (ordered_child, 60_000),
}
"""Experiments, and how many rounds: enough to fill all windows."""
TABLE = (0, 1_000, 5_000, 10_000, 20_000)


@cache
def measured(kind: str, k: int, quick: bool, using: bool = True, step: int = STEP) -> Measured:
    """One run, for a figure or the table."""
    made, rounds = KINDS[kind]
    return run(made(k, 4_000 if quick else rounds), using, step)


def ks(scale: Scale, values: tuple[int, ...]) -> tuple[int, ...]:
    return (0, 400) if scale.quick else values


def by_time(kind: str, values: tuple[int, ...]) -> Callable[[Scale], list[Row]]:
    """Rows kept as tuples come, for some k and without constraints."""

    def measure(scale: Scale) -> list[Row]:
        found: list[Row] = []
        some = ks(scale, values)
        step = STEP if scale.quick else SHORT_STEP
        runs = {f"k = {k:,}": measured(kind, k, scale.quick, step=step) for k in some}
        runs[SWJ] = measured(kind, some[1], scale.quick, False, step)
        assert runs[SWJ].results == runs[f"k = {some[1]:,}"].results, "constraints change the results"
        for name, of in runs.items():
            for tuples, rows in list(zip(of.tuples, of.rows, strict=True))[:: 1 if scale.quick else 5]:
                found.append({"tuples": tuples, "algorithm": name, "rows_kept": rows})
        return found

    return measure


def lines(rows: list[Row]) -> dict[str, list[float]]:
    names = dict.fromkeys(str(r["algorithm"]) for r in rows)
    return {n: [float(r["rows_kept"]) for r in rows if r["algorithm"] == n] for n in names}


def late(line: list[float]) -> float:
    """The mean of the last quarter."""
    return fmean(line[3 * len(line) // 4 :])


def grows(rows: list[Row]) -> list[Claim]:
    """Memory grows as adherence decreases, and is less than without constraints."""
    kept = {name: late(line) for name, line in lines(rows).items()}
    mine = [v for name, v in kept.items() if name != SWJ]
    said = ", ".join(f"{name}: {v:,.0f}" for name, v in kept.items())
    return [
        Claim(
            "memory grows with k",
            f"rows kept: {said}",
            all(a < b for a, b in zip(mine, mine[1:], strict=False)),
        ),
        Claim("it is less than SWJ's for every k", f"rows kept: {said}", max(mine) < kept[SWJ]),
    ]


def peaks_early(rows: list[Row]) -> list[Claim]:
    """CA: the peak comes much before all windows are full; then memory varies around what it has late."""
    found = lines(rows)
    at = {
        name: next(n for n, v in enumerate(line) if v >= late(line)) / len(line)
        for name, line in found.items()
        if name != SWJ
    }
    said = ", ".join(f"{name}: after {share:.0%} of the run" for name, share in at.items())
    full = next(n for n, v in enumerate(found[SWJ]) if v >= 0.99 * max(found[SWJ])) / len(found[SWJ])
    early = Claim(
        "the peak is reached much before all windows are full",
        f"{said}; SWJ after {full:.0%}", max(at.values()) < 0.6 * full,
    )  # fmt: skip
    return [*grows(rows), early]


def varies(rows: list[Row]) -> list[Claim]:
    """OAP: around a fixed value, more so for larger k; the peak grows with k."""
    found = {name: line for name, line in lines(rows).items() if name != SWJ}
    spread = {name: pstdev(line[len(line) // 2 :]) for name, line in found.items()}
    peak = {name: max(line) for name, line in found.items()}
    before = {name: fmean(line[len(line) // 2 : 3 * len(line) // 4]) for name, line in found.items()}
    drift = {name: late(line) / before[name] for name, line in found.items()}

    def rising(values: dict[str, float]) -> bool:
        some = list(values.values())
        return all(a < b for a, b in zip(some, some[1:], strict=False))

    def said(values: dict[str, float], digits: int = 0) -> str:
        return ", ".join(f"{name}: {v:,.{digits}f}" for name, v in values.items())

    # The few rows that are kept for k = 0 vary by as many.
    steady = all(abs(late(line) - before[n]) < max(0.1 * before[n], spread[n]) for n, line in found.items())
    return [
        *grows(rows),
        Claim(
            "memory varies around a fixed value",
            f"last quarter over the one before: {said(drift, 2)}",
            steady,
        ),
        Claim("it varies more for larger k", f"standard deviation: {said(spread)}", rising(spread)),
        Claim("the peak grows with k", said(peak), rising(peak)),
    ]


def figure(
    number: str, kind: str, values: tuple[int, ...], claims: Callable[[list[Row]], list[Claim]] = grows
) -> Figure:
    title = f"Memory reduction using {kind}(k)"
    return Figure(
        number, title, "tuples", ("rows_kept",), by_time(kind, values), claims, log_y=kind in ("CA", "OAP")
    )


def table(scale: Scale) -> list[Row]:
    """Table 6.1: microseconds per tuple with constraints and without."""
    found: list[Row] = []
    for kind in KINDS:
        for k in ks(scale, TABLE):
            ours, swj = (measured(kind, k, scale.quick, using).microseconds for using in (True, False))
            found.append({"k": k, "algorithm": kind, "microseconds": ours, "swj": swj, "ratio": ours / swj})
    return found


def table_claims(rows: list[Row]) -> list[Claim]:
    ratios = {
        kind: {float(r["k"]): float(r["ratio"]) for r in rows if r["algorithm"] == kind} for kind in KINDS
    }
    found = []
    for kind in ("CA", "OAP", "OAC"):
        values = list(ratios[kind].values())
        low = max(values) < 1.2
        why = "" if low else DEAR
        found.append(
            Claim(
                f"the overhead of {kind} is low (at most 18 % in the thesis)", shown(ratios[kind]), low, why
            )
        )
        stable = max(values) < 1.3 * min(values)
        found.append(Claim(f"that of {kind} is fairly stable as k grows", shown(ratios[kind]), stable))
    values = list(ratios["RIDS"].values())
    found.append(Claim("that of RIDS grows with k", shown(ratios["RIDS"]), values[-1] > values[0]))
    most = Claim(
        "to about 64 % at k = 20,000",
        f"{values[-1] - 1:.0%}",
        values[-1] < 1.64,
        "" if values[-1] < 1.64 else DEAR,
    )
    return [*found, most]


DEAR = (
    "a tuple of the plain join takes well below a microsecond, where the thesis's take 20 to 50; to look at "
    "each row that is kept a few times, until it goes, takes as long as to join it"
)
