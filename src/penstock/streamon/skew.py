"""How evenly rows come to the partitions, and what to declare where one key has too many of them.

A key with more than its partition's part of a stream's rows (1 of P partitions: 1 / P) keeps that partition
busy while others wait, however many there are. What every engine says of its inputs is added up here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.streamon.heavy_hitters import NULL
from penstock.streamon.settings import HEAVY_PART, UNEVEN

Place = tuple[str, int, str]
"""Run, stage and input."""


def skew(metrics: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each input of each stage the rows that each partition has received, and the keys that most have.

    ``busiest`` is how many times its even part the busiest partition has. ``heavy`` gives for each key with a
    great part of all rows that part. ``declare`` is the clause that splits those of them that keep a
    partition busy; empty where rows come evenly.
    """
    received: dict[Place, dict[int, int]] = {}
    heavy: dict[Place, Counter[str]] = {}
    keys: dict[Place, Mapping[str, Any]] = {}
    for engine in metrics:
        for name, rows in engine.get("received", {}).items():
            place = engine.get("run", ""), engine.get("stage", 0), name
            received.setdefault(place, {})[engine.get("partition", 0)] = rows
            keys[place] = engine["keys"].get(name, {})
            for value, part in engine["heavy"].get(name, {}).items():
                heavy.setdefault(place, Counter())[value] += round(part * rows)
    return [_of(place, rows, heavy.get(place, Counter()), keys[place]) for place, rows in _sorted(received)]


def _sorted(received: Mapping[Place, dict[int, int]]) -> Iterable[tuple[Place, dict[int, int]]]:
    return ((place, dict(sorted(rows.items()))) for place, rows in sorted(received.items()))


def _of(place: Place, rows: dict[int, int], heavy: Counter[str], key: Mapping[str, Any]) -> dict[str, Any]:
    run, stage, name = place
    total = sum(rows.values())
    busiest = max(rows.values()) * len(rows) / total if total else 1.0
    most = [(value, count / total) for value, count in heavy.most_common() if count > HEAVY_PART * total]
    parts = {value: round(part, 3) for value, part in most}
    too_many = [v for v, part in parts.items() if part > 1 / len(rows) and v != NULL]
    clause = _clause(key, too_many) if too_many and busiest > UNEVEN else ""
    own = {"run": run, "stage": stage, "input": name, "rows": rows}
    return {**own, "busiest": round(busiest, 2), "heavy": parts, "declare": clause}


def _clause(key: Mapping[str, Any], values: Iterable[str]) -> str:
    literals = ["'" + v.replace("'", "''") + "'" if key["quoted"] else v for v in values]
    return f"HEAVY {key['column']} IN ({', '.join(literals)})"


def advice(found: Mapping[str, Any]) -> str:
    """What ``skew`` found of an input, as a sentence; empty where there is nothing to do."""
    if not found["declare"]:
        return ""
    value, part = next(iter(found["heavy"].items()))
    most = max(found["rows"].values()) / sum(found["rows"].values())
    return (
        f"{value} is the key of {part:.0%} of the rows of {found['input']!r}, and one partition of "
        f"{len(found['rows'])} gets {most:.0%} of them: declare the stream with {found['declare']} "
        "and start the query with a new checkpoint; explain then says how the key is split, or why not"
    )
