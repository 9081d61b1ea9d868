"""Comparing changelogs: equal as bags at every instant, floats nearly so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from oracle_windows import Change, Row, normalise


def assert_same(actual: Iterable[Any], expected: Iterable[Change], about: Any = "") -> None:
    """Equal as bags at every instant; floats to 1e-9."""
    lines = differences(actual, expected)
    if lines:
        raise AssertionError("\n".join([f"{about}", "differs from the oracle:", *lines]))


def differences(actual: Iterable[Any], expected: Iterable[Change]) -> list[str]:
    """What is missing and what is there and should not be, a line each."""
    ours, theirs = _by_instant(actual), _by_instant(expected)
    lines = []
    for instant in sorted(ours.keys() | theirs.keys()):
        missing, extra = _differences(theirs.get(instant, []), ours.get(instant, []))
        lines += [f"  {instant:>4}  missing     {sign} {row}" for sign, row in missing]
        lines += [f"  {instant:>4}  unexpected  {sign} {row}" for sign, row in extra]
    return lines


def _by_instant(changes: Iterable[Any]) -> dict[int, list[tuple[str, Row]]]:
    grouped: dict[int, list[tuple[str, Row]]] = {}
    for ts, sign, row in changes:
        grouped.setdefault(ts, []).append((sign, row))
    return grouped


def _differences(expected: list[tuple[str, Row]], actual: list[tuple[str, Row]]) -> tuple[list, list]:
    """What is in one and has no equal in the other."""
    if Counter(map(_key, expected)) == Counter(map(_key, actual)):
        return [], []
    left = list(actual)
    missing = []
    for wanted in expected:
        match = next((i for i, got in enumerate(left) if _same(got, wanted)), None)
        missing.append(wanted) if match is None else left.pop(match)
    return missing, left


def _key(change: tuple[str, Row]) -> tuple:
    """What is surely the same if equal; a row that differs in this may still be close enough."""
    return change[0], *((type(v), v) for v in normalise(change[1].values()))


def _same(got: tuple[str, Row], wanted: tuple[str, Row]) -> bool:
    if got[0] != wanted[0] or len(got[1]) != len(wanted[1]):
        return False
    return all(map(_close, normalise(got[1].values()), normalise(wanted[1].values())))


def _close(got: Any, wanted: Any) -> bool:
    if got is wanted:
        return True
    if isinstance(got, bool) or isinstance(wanted, bool):
        return False
    if isinstance(got, Decimal) and isinstance(wanted, Decimal):
        return got == wanted
    if isinstance(got, int | float | Decimal) and isinstance(wanted, int | float | Decimal):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return type(got) is type(wanted) and bool(got == wanted)
