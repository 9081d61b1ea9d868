"""Figures 6.17 and 6.18: several constraints at a time."""

from __future__ import annotations

from bench.paper.figure import Claim, Row, Scale, series, shown
from bench.paper.k_constraints import clustered_and_referring, combined, run
from bench.paper.memory_by_k import SWJ, late, lines

CHOSEN = (
    "a join keeps the keys of rows that fail their filter beside a reference where it expects that to be "
    "smaller, so that rows need not wait for k"
)
SETS: tuple[tuple[str, ...], ...] = (("CA",), ("OAC",), ("CA", "OAC"))


def ca_and_oac(scale: Scale) -> list[Row]:
    """Figure 6.17: rows kept as tuples come."""
    rounds = 4_000 if scale.quick else 60_000
    runs = {" and ".join(used): run(combined(rounds, used), True) for used in SETS}
    runs[SWJ] = run(combined(rounds, ()), False)
    return [
        {"tuples": tuples, "algorithm": name, "rows_kept": rows, "microseconds": of.microseconds}
        for name, of in runs.items()
        for tuples, rows in zip(of.tuples, of.rows, strict=True)
    ]


def ca_and_oac_claims(rows: list[Row]) -> list[Claim]:
    kept = {name: late(line) for name, line in lines(rows).items()}
    said = ", ".join(f"{name}: {v:,.0f}" for name, v in kept.items())
    took = {str(r["algorithm"]): float(r["microseconds"]) for r in rows}
    times = ", ".join(f"{name}: {v:.2f} µs" for name, v in took.items())
    best = min(kept, key=lambda name: kept[name]) == "CA and OAC"
    dearer = took["CA and OAC"] > max(took["CA"], took["OAC"])
    return [
        Claim("both constraints together give the best reduction", f"rows kept: {said}", best),
        Claim("a tuple takes longest with both", times, dearer),
    ]


def ca_and_rids(scale: Scale) -> list[Row]:
    """Figure 6.18: rows kept in the end, by the k of RIDS(k)."""
    rounds = 4_000 if scale.quick else 60_000
    found: list[Row] = []
    for k in (100, 400) if scale.quick else (250, 500, 1_000, 2_000, 4_000, 8_000):
        for used in (("CA",), ("RIDS",), ("CA", "RIDS")):
            kept = late([float(n) for n in run(clustered_and_referring(k, rounds, used), True).rows])
            found.append({"k": k, "algorithm": " and ".join(used), "rows_kept": kept})
    return found


def ca_and_rids_claims(rows: list[Row]) -> list[Claim]:
    alone, both = (series(rows, "k", "rows_kept", name) for name in ("CA", "CA and RIDS"))
    ratios = {k: both[k] / alone[k] for k in both}
    large = {k: v for k, v in ratios.items() if k > 2_000}
    crosses = min(ratios.values()) <= 1 and bool(large) and all(v > 1 for v in large.values())
    return [
        Claim(
            "beyond k = 2,000 both together keep more than CA alone",
            f"both over CA: {shown(ratios)}",
            crosses,
            "" if crosses else CHOSEN,
        )
    ]
