"""Figure 9(b): NLW-join, MW-join and HW-join for 2 to 6 streams of comparable rates.

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

COUNTS = (2, 3, 4, 5, 6)
SECONDS = 12
NEARER = 0.98
"""Two lines come nearer if one over the other falls at least to this from each point to the next."""


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for count in scale.some(COUNTS):
        streams, seconds = stores(count), scale.tuples(SECONDS * 1000) / 1000
        for algorithm in ("nlw", "mw", "hw"):
            rows.append(row(run(STORES_WINDOW, streams, algorithm, seconds), algorithm, streams=count))
        rows.append(by_letter(streams, STORES_MILLIS * 1000, seconds, streams=count))
    return rows


def converge(ratios: list[float]) -> bool:
    """Whether what is one over the other goes towards 1, from each point to the next."""
    return all(1 <= b <= NEARER * a for a, b in zip(ratios, ratios[1:], strict=False))


def claims(rows: list[Row]) -> list[Claim]:
    did, took = work(rows, "streams"), times(rows, "streams")
    counts = sorted({int(r["streams"]) for r in rows})
    letter = [did[n, LETTER] / did[n, "mw"] for n in counts]
    ours = [did[n, "nlw"] / did[n, "mw"] for n in counts]
    best = all(did[n, "hw"] < min(did[n, "nlw"], did[n, "mw"]) for n in counts)
    time = {a: [took[n, a] for n in counts] for a in ("nlw", "mw", "hw")}
    fastest = all(took[n, "hw"] < min(took[n, "nlw"], took[n, "mw"]) for n in counts)
    adds = {a: (t[-1] - t[0]) / (counts[-1] - counts[0]) for a, t in time.items()}
    return [
        Claim("NLW-join (the paper's, to the letter) and MW-join converge as streams are added",
              f"MW-join does {several(letter, 2)} times less work for {counts} streams", converge(letter),
              "both test the same rows, and NLW-join compares timestamps besides: by work they come nearer "
              "to each other and do not meet"),
        Claim("Penstock's own NLW-join and MW-join converge", f"{several(ours, 2)} times less work",
              converge(ours), "Penstock's NLW-join compares two timestamps for each row that it tests, "
              "however many streams"),
        Claim("HW-join achieves the best performance: work", "least everywhere" if best else "not everywhere",
              best),
        Claim("HW-join achieves the best performance: time",
              f"microseconds per row, HW {several(time['hw'])}; MW {several(time['mw'])}; NLW "
              f"{several(time['nlw'])}", fastest),
        Claim("HW-join is more scalable (ours: by what a further stream adds to the time of a row)",
              f"HW-join {adds['hw']:.1f}, MW-join {adds['mw']:.1f}, NLW-join {adds['nlw']:.1f} microseconds",
              adds["hw"] < min(adds["mw"], adds["nlw"])),
    ]  # fmt: skip


FIGURE = Figure("hammad 9b", "streams of equal rates", "streams", ("work_per_row", "microseconds_per_row"),
                measure, claims, log_y=True,
                notes=("How many values the paper's streams have is not known; here a row matches about one "
                       "row of another stream.",))  # fmt: skip
