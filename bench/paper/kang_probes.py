"""Probes a second of a core on a window of 100,000 rows: equal keys by hash, ranges by the trees."""

from __future__ import annotations

from bench.paper.figure import Claim, Figure, Row, Scale
from bench.paper.window_joins import BAND, EQUALITY, OneWay, fastest

WINDOW = 100_000
TO_REACH = 10e6


def measure(scale: Scale) -> list[Row]:
    rows: list[Row] = []
    for method, predicate in (("hash", EQUALITY), ("b+tree", BAND), ("t-tree", BAND)):
        fastest(OneWay(1, 1, 1_000, predicate), method, 1_000)
        way = OneWay(1_000, 1, scale.tuples(WINDOW), predicate)
        seconds = fastest(way, method, 3 * way.window, turns=3)
        rows.append({"probe": predicate, "method": method, "probes_a_second": 1 / seconds})
    return rows


def claims(rows: list[Row]) -> list[Claim]:
    rate = {str(r["method"]): float(r["probes_a_second"]) for r in rows}
    return [
        Claim("hash: 10 million probes a second (our goal)", f"{rate['hash'] / 1e6:.1f} million",
              rate["hash"] >= TO_REACH),
        Claim("ranges by the B+tree within 4 times of that (our goal)", f"{rate['b+tree'] / 1e6:.1f} million",
              rate["b+tree"] >= TO_REACH / 4),
    ]  # fmt: skip


FIGURE = Figure("kang probes", "probes a second on 100,000 rows", "probe", ("probes_a_second",), measure,
                claims, by="method", kind="bars")  # fmt: skip
