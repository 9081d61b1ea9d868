"""Figure 7: ripple join with a purge every 10,000 rows, NLW-join and MW-join, for 2, 3 and 4 streams.

The paper joins transactions of stores, which are not public; here are synthetic streams of equal rates.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import (
    LETTER,
    STORES_MILLIS,
    STORES_WINDOW,
    by_letter,
    row,
    run,
    several,
    stores,
    times,
    work,
)

STREAMS = (2, 3, 4)
SECONDS = 12
AN_ORDER = 8.0
"""Times that are almost an order of magnitude."""


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(STREAMS):
        streams, seconds = stores(count), scale.tuples(SECONDS * 1000) / 1000
        for algorithm in ("ripple", "nlw", "mw"):
            rows.append(row(run(STORES_WINDOW, streams, algorithm, seconds), algorithm, streams=count))
        rows.append(by_letter(streams, STORES_MILLIS * 1000, seconds, streams=count))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    did, took = work(rows, "streams"), times(rows, "streams")
    counts = sorted({int(r["streams"]) for r in rows})
    over = [did[n, "ripple"] / did[n, "nlw"] for n in counts]
    merged = [did[n, "nlw"] / did[n, "mw"] for n in counts]
    letter = [did[n, LETTER] / did[n, "mw"] for n in counts]
    faster = [took[n, "nlw"] / took[n, "mw"] for n in counts]
    same = all(len({r["results"] for r in rows if r["streams"] == n}) == 1 for n in counts)
    return [
        Claim("NLW-join outperforms the ripple join in all cases", f"{several(over)} times less work",
              min(over) > 1),
        Claim("MW-join is best of the three", f"{several(merged)} times less work than NLW-join",
              min(merged) > 1),
        Claim("MW-join is almost an order of magnitude faster than NLW-join (ours: 8 times)",
              f"work {several(merged)} times less, {several(letter)} than NLW-join to the letter; "
              f"{several(faster)} times as fast", min(letter) >= AN_ORDER,
              "streams have equal rates here, so every buffer has rows in the window; the stores' streams, "
              "which stop at night, are not public"),
        Claim("all find the same results", "yes" if same else "no", same),
    ]  # fmt: skip


FIGURE = Figure("hammad 7", "ripple join, NLW-join and MW-join", "streams",
                ("work_per_row", "microseconds_per_row"), measure, claims, log_y=True)  # fmt: skip
