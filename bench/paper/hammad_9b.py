"""Figure 9(b): NLW-join, MW-join and HW-join for 2 to 6 streams of comparable rates.

The paper joins transactions of stores, which are not public; here are synthetic streams of equal rates.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, row, run

WINDOW = "WINDOW 100 MILLISECONDS"
COUNTS = (2, 3, 4, 5, 6)


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(COUNTS):
        streams = Streams(dict.fromkeys("ABCDEF"[:count], 1000), values=100)
        seconds = scale.tuples(60_000) / 1000 / count
        for algorithm in ("nlw", "mw", "hw"):
            rows.append(row(run(WINDOW, streams, algorithm, seconds), algorithm, streams=count))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    work = {(r["streams"], r["algorithm"]): float(r["work_per_row"]) for r in rows}
    time = {(r["streams"], r["algorithm"]): float(r["microseconds_per_row"]) for r in rows}
    counts = sorted({int(r["streams"]) for r in rows})
    less = [work[n, "nlw"] / work[n, "mw"] for n in counts]
    best = all(work[n, "hw"] < min(work[n, "nlw"], work[n, "mw"]) for n in counts)
    most = counts[-1]
    faster = min(time[most, "nlw"], time[most, "mw"]) / time[most, "hw"]
    shown = ", ".join(f"{x:.1f}" for x in less)
    return [
        Claim("NLW-join and MW-join converge", f"{shown} times less work by MW-join: a test of time costs "
              "NLW-join two comparisons, however many streams", max(less) < 4),
        Claim("HW-join does least", "yes" if best else "no", best),
        Claim("HW-join is the fastest with most streams", f"{faster:.2f} times as fast", faster > 1),
    ]  # fmt: skip


FIGURE = Figure("hammad 9b", "streams of equal rates", "streams", ("work_per_row", "microseconds_per_row"),
                measure, claims, log_y=True)  # fmt: skip
