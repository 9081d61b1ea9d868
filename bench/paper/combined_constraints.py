"""Figures 6.17 and 6.18: several constraints at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from unittest.mock import patch

from bench.paper.figure import Claim, Row, Scale, series, shown
from bench.paper.k_constraints import clustered_and_referring, combined, run
from bench.paper.memory_by_k import SWJ, late, lines
from penstock.engine.joins import k_mon
from penstock.streamon.no_components import NoComponents, Sizes

LETTER = "CA and RIDS, to the letter"
LATER = (
    "it depends on how many rows come after the row that they refer to and wait in vain; how late rows are "
    "is not in the thesis, and here a row comes up to k places after the first that refers to it"
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


class UsesAll(NoComponents):
    """Uses every constraint, as k-Mon does in the thesis: a No component that a reference makes needless is
    not kept, whatever takes less.
    """

    def settle(self, time: int, sizes: Sequence[Sizes | None]) -> bool:
        return False


def ca_and_rids(scale: Scale) -> list[Row]:
    """Figure 6.18: rows kept in the end, by the k of RIDS(k); of ours, which chooses, and of the thesis's."""
    rounds = 4_000 if scale.quick else 60_000
    found: list[Row] = []
    for k in (100, 400) if scale.quick else (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000):
        for name, used in (
            ("CA", ("CA",)),
            ("RIDS", ("RIDS",)),
            ("CA and RIDS", ("CA", "RIDS")),
            (LETTER, ("CA", "RIDS")),
        ):
            with patch.object(k_mon, "NoComponents", UsesAll) if name == LETTER else nullcontext():
                measured = run(clustered_and_referring(k, rounds, used), True)
            kept = late([float(n) for n in measured.rows])
            line: Row = {"k": k, "algorithm": name, "rows_kept": kept, "results": measured.results}
            found.append(line)
    return found


def ca_and_rids_claims(rows: list[Row]) -> list[Claim]:
    names = ("CA", "RIDS", "CA and RIDS", LETTER)
    alone, rids, ours, letter = (series(rows, "k", "rows_kept", name) for name in names)
    ratios, chosen = ({k: v[k] / alone[k] for k in v} for v in (letter, ours))
    less, more = ([k for k, v in ratios.items() if (v > 1) == over] for over in (False, True))
    crosses = bool(less) and bool(more) and max(less) < min(more)
    where = f"both over CA: {shown(ratios)}"
    best = {k: v / min(alone[k], rids[k], letter[k]) for k, v in ours.items()}
    return [
        Claim("beyond some k both together keep more than CA alone (the thesis's, to the letter)", where,
              crosses),
        Claim("which is about 2,000 (the thesis's, to the letter)", where,
              crosses and max(less) <= 2_000 <= min(more), "" if crosses and max(less) <= 2_000 else LATER),
        Claim("a join that chooses by expected size never keeps more than CA alone (ours)",
              f"ours over CA: {shown(chosen)}", max(chosen.values()) <= 1),
        Claim("nor much more than the best of CA, RIDS and both (ours, at most 10 %)",
              f"ours over the best: {shown(best)}", max(best.values()) <= 1.1),
    ]  # fmt: skip
