"""Constraints that hold, found by measuring streams; and joins of streams in the shape of a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from strategies.case import Case
from strategies.choices import Choices
from strategies.data import BIGINT, DOUBLE, INT

Rows = list[tuple[int, dict[str, Any]]]


def obeying(choices: Choices, case: Case, often: int = 2) -> Case:
    """The case with some of the constraints that its streams obey, mostly as tight as they can be."""
    streams = {
        name: sorted(rows, key=lambda e: e[0])
        for name, rows in case.inputs.items()
        if all(isinstance(e, tuple) and len(e) == 2 for e in rows)
    }
    clauses = {name: " ".join(_clauses(choices, name, streams, case.schemas, often)) for name in streams}
    return replace(case, constraints={name: text for name, text in clauses.items() if text})


def _clauses(
    choices: Choices, name: str, streams: dict[str, Rows], schemas: dict[str, str], often: int
) -> Iterator[str]:
    rows, keyed = streams[name], False
    for column, kind in (c.split() for c in schemas[name].split(", ")):
        if kind == DOUBLE or not choices.chance(often):
            continue
        values = [row[column] for _, row in rows if row[column] is not None]
        if len(values) == len(set(values)) and not keyed:
            keyed = True
            yield f"PRIMARY KEY ({column})"
        if kind in (INT, BIGINT) and choices.chance(2):
            yield f"ORDERED BY ({column}) WITHIN {_k(choices, lambda by, c=column: order(rows, c, by))}"
        if choices.chance(2):
            yield f"CLUSTERED BY ({column}) WITHIN {_k(choices, lambda by, c=column: cluster(rows, c, by))}"
        for other in (o for o in streams if choices.chance(2)):
            if f" {column} " in f" {schemas[other].replace(',', ' ')} ":
                far = _k(choices, lambda by, c=column, o=other: reference(rows, streams[o], c, c, by))
                yield f"REFERENCES {other} ({column}) WITHIN {far}"


def _k(choices: Choices, measured: Callable[[str], int]) -> str:
    by = choices.pick("SECONDS", "ROWS")
    return f"{measured(by) + choices.pick(0, 0, 0, 1, 3)} {by}"


def order(rows: Rows, column: str, by: str) -> int:
    """The k of OA(k), by rows or by time (thesis definition 6.8.1)."""
    known = [(at, ts, row[column]) for at, (ts, row) in enumerate(rows) if row[column] is not None]
    far = [t - s if by == "SECONDS" else j - i for (i, s, a), (j, t, b) in combinations(known, 2) if a > b]
    return max(far, default=0)


def cluster(rows: Rows, column: str, by: str) -> int:
    """The k of CA(k) (6.7.1)."""
    far = [0]
    for value in {row[column] for _, row in rows}:
        at = [n for n, (_, row) in enumerate(rows) if row[column] == value]
        if value is not None and by == "SECONDS":
            far.append(rows[at[-1]][0] - rows[at[0]][0])
        elif value is not None:
            far.append(at[-1] - at[0] + 1 - len(at))
    return max(far)


def reference(parents: Rows, children: Rows, column: str, theirs: str, by: str) -> int:
    """The k of RIDS(k) (6.6.1), with rows of one timestamp taken to come first."""
    far = [0]
    for ts, parent in parents:
        for at, (t, child) in enumerate(children):
            if t > ts and parent[column] is not None and parent[column] == child[theirs]:
                far.append(t - ts if by == "SECONDS" else at + 1 - sum(s <= ts for s, _ in children))
    return max(far)


def draw_tree_join(choices: Choices) -> Case:
    """A join of 2 to 5 streams, in the shape of a tree: each row refers to one row of each child."""
    count = choices.pick(2, 3, 2, 3, 4, 5)
    names = [f"S{n}" for n in range(count)]
    edges = [(parent, child) for child in range(1, count)
             for parent in [choices.index(child)]]  # fmt: skip
    edges = [(c, p) if choices.chance(4) else (p, c) for p, c in edges]
    most = choices.pick(4, 6, 9, 12) // (1 + (count > 3))
    rows = {n: _referring(choices, n, edges, most) for n in range(count)}
    columns = {n: ["k", *(f"r{c}" for p, c in edges if p == n), "d"] for n in range(count)}
    windows = choices.pick(("",), ("[RANGE 4]", "[RANGE 20]", ""), ("[ROWS 3]", "[ROWS 9]", ""),
                           ("[RANGE 6]", "[ROWS 4]", "[PARTITION BY k ROWS 1]", "[NOW]"))  # fmt: skip
    shown = ", ".join(f"S{n} {choices.pick(*windows)}".strip() for n in range(count))
    where = [f"S{p}.r{c} = S{c}.k" for p, c in edges]
    where += [f"S{n}.d < {choices.pick(1, 2)}" for n in range(count) if choices.chance(3)]
    kind = choices.pick("", "", "ISTREAM", "DSTREAM")
    what = ", ".join(f"S{n}.{choices.pick(*columns[n])} AS c{n}" for n in range(count))
    select = f"SELECT {what} FROM {shown} WHERE {' AND '.join(where)}"
    schemas = {f"S{n}": ", ".join(f"{c} INT" for c in columns[n]) for n in range(count)}
    cql = f"{kind}({select})" if kind else select
    case = Case(cql, {f"S{n}": rows[n] for n in range(count)}, schemas, choices.pick(None, 30))
    return _with_references(choices, case, edges, names)


def _referring(choices: Choices, n: int, edges: list[tuple[int, int]], most: int) -> Rows:
    """Rows with a key that no other has, which refer to keys of the children."""
    found: Rows = []
    now = 0
    for key in choices.some(range(most), most, most):
        now += choices.pick(1, 0, 2, 0, 4)
        row: dict[str, Any] = {"k": choices.pick(*[key] * 15, None)}
        row |= {f"r{c}": choices.pick(*[choices.index(most)] * 9, None) for p, c in edges if p == n}
        found.append((now, {**row, "d": choices.index(3)}))
    return found


def _with_references(choices: Choices, case: Case, edges: list[tuple[int, int]], names: list[str]) -> Case:
    """The case with constraints of the join itself, which hold."""
    clauses: dict[str, list[str]] = {n: ["PRIMARY KEY (k)"] if choices.chance(2) else [] for n in names}
    rows = {n: sorted(r, key=lambda e: e[0]) for n, r in case.inputs.items()}
    for p, c in edges:
        parent, child, refers = f"S{p}", f"S{c}", f"r{c}"
        for a, b, mine, theirs in ((parent, child, refers, "k"), (child, parent, "k", refers)):
            if choices.chance(2):
                both = rows[a], rows[b], mine, theirs
                far = _k(choices, lambda by, both=both: reference(*both, by))
                clauses[a].append(f"FOREIGN KEY ({mine}) REFERENCES {b} ({theirs}) WITHIN {far}")
        for stream, column in ((parent, refers), (child, "k")):
            if choices.chance(3):
                far = _k(choices, lambda by, s=stream, c=column: order(rows[s], c, by))
                clauses[stream].append(f"ORDERED BY ({column}) WITHIN {far}")
            if choices.chance(3):
                far = _k(choices, lambda by, s=stream, c=column: cluster(rows[s], c, by))
                clauses[stream].append(f"CLUSTERED BY ({column}) WITHIN {far}")
    return replace(case, constraints={n: " ".join(c) for n, c in clauses.items() if c})
