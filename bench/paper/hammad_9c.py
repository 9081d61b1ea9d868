"""Figure 9(c): four streams of 1,000 rows a second; then one has 10 and 1,000 in turn, every 100 rows."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.w_joins import Streams, row, run

WINDOW = "WINDOW 20 MILLISECONDS"


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
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    work = {(r["fourth"], r["algorithm"]): float(r["work_per_row"]) for r in rows}
    less = {a: work["steady", a] / work["changes", a] for a in ("nlw", "mw", "hw")}
    beside = work["changes", "nlw"] / work["changes", "mw"]
    return [
        Claim("MW-join gains most where a stream is slow", f"{less['mw']:.1f} times less work than before, "
              f"NLW-join {less['nlw']:.1f}, HW-join {less['hw']:.1f}", less["mw"] > less["nlw"]),
        Claim("MW-join does much less than NLW-join then", f"{beside:.1f} times", beside > 5),
    ]  # fmt: skip


FIGURE = Figure("hammad 9c", "a stream whose rate changes", "fourth",
                ("work_per_row", "microseconds_per_row"), measure, claims, kind="bars")  # fmt: skip
