"""Figure 9(c): four streams of 1,000 rows a second; then one has 10 and 1,000 in turn, every 100 rows."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import LETTER, Streams, by_letter, row, run, work

MILLIS = 20
WINDOW = f"WINDOW {MILLIS} MILLISECONDS"
GREATLY, HARDLY = 5.0, 1.5
"""Times less work that are a great improvement, and that are not a significant change."""


def changing(number: int) -> float:
    """The rate of the fourth stream at its row of that number."""
    return 10.0 if (number // 100) % 2 else 1000.0


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    steady = dict.fromkeys("ABC", 1000)
    for fourth, rate in (("steady", 1000), ("changes", changing)):
        seconds = scale.tuples(90_000) / 3_000
        for algorithm in ("nlw", "mw", "hw"):
            streams = Streams({**steady, "D": rate}, values=10)  # type: ignore[dict-item]
            rows.append(row(run(WINDOW, streams, algorithm, seconds), algorithm, fourth=fourth))
        rows.append(by_letter(streams, MILLIS * 1000, seconds, fourth=fourth))
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    did = work(rows, "fourth")
    less = {a: did["steady", a] / did["changes", a] for a in ("nlw", "mw", "hw", LETTER)}
    told = {a: f"{n:.1f} times less work where it changes" for a, n in less.items()}
    beside = did["changes", LETTER] / did["changes", "mw"]
    ours = (
        "Penstock's join begins with the new row and takes the streams in order: where the next one is slow "
        "it finds no row and ends, and keeps no results of the other streams for later"
    )
    return [
        Claim("MW-join reacts to the changes and is greatly improved (ours: 5 times)", told["mw"],
              less["mw"] >= GREATLY),
        Claim("NLW-join (the paper's, to the letter) is not changed significantly (ours: 1.5 times)",
              told[LETTER], less[LETTER] < HARDLY,
              "its last join compares results of A, B and C with rows of D: where D is slow there are fewer "
              "of its rows in the window, and fewer that come to be compared"),
        Claim("Penstock's NLW-join is not changed significantly", told["nlw"], less["nlw"] < HARDLY, ours),
        Claim("HW-join is not changed significantly", told["hw"], less["hw"] < HARDLY, ours),
        Claim("at variable rates MW-join does at least 10 times less than NLW-join (to the letter)",
              f"{beside:.1f} times; {did['changes', 'nlw'] / did['changes', 'mw']:.1f} times less than "
              "Penstock's", beside >= 10),
    ]  # fmt: skip


FIGURE = Figure("hammad 9c", "a stream whose rate changes", "fourth",
                ("work_per_row", "microseconds_per_row"), measure, claims, kind="bars")  # fmt: skip
