"""Figure 9(a): NLW-join, MW-join and HW-join for 2 to 6 streams of 1,000 and of 100 rows a second.

The paper does not say how long the windows are, nor which streams are slow. Here half of them are, a window
has half a row of a slow stream, and any rows within the windows join: one value.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, row, run

WINDOW = "WINDOW 5 MILLISECONDS"
RATES = {"A": 1000, "B": 1000, "C": 1000, "D": 100, "E": 100, "F": 100}
NAMES = {2: "AD", 3: "ABD", 4: "ABDE", 5: "ABCDE", 6: "ABCDEF"}


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(tuple(NAMES)):
        streams = Streams({n: RATES[n] for n in NAMES[count]}, values=1)
        seconds = scale.tuples(60_000) / sum(RATES[n] for n in NAMES[count])
        for algorithm in ("nlw", "mw", "hw"):
            rows.append(row(run(WINDOW, streams, algorithm, seconds), algorithm, streams=count))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    work = {(r["streams"], r["algorithm"]): float(r["work_per_row"]) for r in rows}
    counts = sorted({int(r["streams"]) for r in rows})
    less = {n: work[n, "nlw"] / work[n, "mw"] for n in counts}
    shown = ", ".join(f"{x:.1f}" for x in less.values())
    return [
        Claim("MW-join does more than ten times less than NLW-join", f"{shown} times for {counts} streams",
              less[counts[-1]] >= 10),
        Claim("and that holds as streams are added", f"{shown} times",
              less[counts[-1]] >= less[counts[0]]),
    ]  # fmt: skip


FIGURE = Figure("hammad 9a", "streams of different rates", "streams",
                ("work_per_row", "microseconds_per_row"), measure, claims, log_y=True)  # fmt: skip
