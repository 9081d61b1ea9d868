"""Figure 7: ripple join with a purge every 10,000 rows, NLW-join and MW-join, for 2, 3 and 4 streams.

The paper joins transactions of stores, which are not public; here are synthetic streams of equal rates.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, row, run

WINDOW = "WINDOW 20 MILLISECONDS"
STREAMS = (2, 3, 4)


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(STREAMS):
        streams = Streams(dict.fromkeys("ABCD"[:count], 1000), values=20)
        seconds = scale.tuples(40_000) / 1000 / count
        for algorithm in ("ripple", "nlw", "mw"):
            rows.append(row(run(WINDOW, streams, algorithm, seconds), algorithm, streams=count))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    work = {(r["streams"], r["algorithm"]): float(r["work_per_row"]) for r in rows}
    counts = sorted({int(r["streams"]) for r in rows})
    over = [work[n, "ripple"] / work[n, "nlw"] for n in counts]
    merged = [work[n, "nlw"] / work[n, "mw"] for n in counts]
    same = all(len({r["results"] for r in rows if r["streams"] == n}) == 1 for n in counts)
    shown = ", ".join(f"{x:.0f}" for x in over), ", ".join(f"{x:.1f}" for x in merged)
    return [
        Claim("NLW-join does less than the ripple join in all cases", f"{shown[0]} times less work",
              min(over) > 1),
        Claim("MW-join does least", f"{shown[1]} times less work than NLW-join", min(merged) > 1),
        Claim("all find the same results", "yes" if same else "no", same),
    ]  # fmt: skip


FIGURE = Figure("hammad 7", "ripple join, NLW-join and MW-join", "streams",
                ("work_per_row", "microseconds_per_row"), measure, claims, log_y=True)  # fmt: skip
