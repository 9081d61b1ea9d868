"""Figure 8: XJoin with a purge every 10,000 rows beside HW-join, for 2, 3 and 4 streams.

The paper joins transactions of stores, which are not public; here are synthetic streams of equal rates.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.hammad_7 import SECONDS, STREAMS
from bench.paper.w_joins import STORES_WINDOW, row, run, stores


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(STREAMS):
        streams, seconds = stores(count), scale.tuples(SECONDS * 1000) / 1000
        for algorithm in ("xjoin", "hw"):
            rows.append(row(run(STORES_WINDOW, streams, algorithm, seconds), algorithm, streams=count))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    def over(what: str) -> list[float]:
        by = {(r["streams"], r["algorithm"]): float(r[what]) for r in rows}
        return [by[n, "xjoin"] / by[n, "hw"] for n in sorted({r["streams"] for r in rows})]  # type: ignore

    work, time = over("work_per_row"), over("microseconds_per_row")
    shown = ", ".join(f"{x:.1f}" for x in work), ", ".join(f"{x:.1f}" for x in time)
    return [
        Claim("HW-join outperforms XJoin in all cases: work", f"{shown[0]} times less work", min(work) > 1),
        Claim(
            "HW-join outperforms XJoin in all cases: time",
            f"{shown[1]} times as fast",
            min(time) > 1,
            "XJoin finds all rows by one index and is not charged for a purge; HW-join has a table of each "
            "step's rows besides its index, and frees rows as their windows end",
        ),
    ]


FIGURE = Figure("hammad 8", "XJoin and HW-join", "streams", ("work_per_row", "microseconds_per_row"),
                measure, claims, log_y=True)  # fmt: skip
