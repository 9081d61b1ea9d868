"""explain of the constraints that a join exploits: its directed join graph, and which rows it drops when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine.joins.join_constraints import JoinConstraints


def explain_constraints(found: JoinConstraints, labels: Sequence[str], changing: bool) -> Iterator[str]:
    """What is known of the inputs of a join, what follows, and what is not used."""
    if found.useful:
        if found.texts:
            yield f"constraints: {'; '.join(found.texts)}"
        if found.monitored:
            yield _monitored(found)
        yield _graph(found, labels)
        yield _dropped(found, labels, changing)
        if found.counted:
            yield f"all rows are counted of {', '.join(labels[c.input] for c in found.counted)}"
    for reason in found.unused:
        yield f"constraint not used: {reason}"


def _monitored(found: JoinConstraints) -> str:
    """The constraints that are looked for, and what happens where they cease to hold."""
    texts = "; ".join(c.text for c in found.monitored)
    risk = "rows let go are on disk" if found.use.safe else "results may be missed while k grows"
    return f"constraints looked for: {texts} ({risk})"


def _graph(found: JoinConstraints, labels: Sequence[str]) -> str:
    """The many-one joins, and how the graph differs from a directed tree."""
    edges = [f"{labels[p]} -> {labels[c]}" for p, c in found.edges]
    many = [f"{labels[i]} - {labels[j]}" for i, j in found.tree if not {(i, j), (j, i)} & set(found.edges)]
    roots = ", ".join(labels[i] for i in found.roots)
    notes = {
        "tree": f"a directed tree with root{'s' * (len(found.roots) > 1)} {roots}",
        "many-many": "not all joins are many-one: rows are dropped by what is known of the others",
        "cyclic": "cyclic: rows are dropped along a tree of it",
        "not connected": "equalities do not link all inputs: only rows that can join nothing are dropped",
    }
    return f"join graph {', '.join([*edges, *many])}: {notes[found.shape]}"


def _dropped(found: JoinConstraints, labels: Sequence[str], changing: bool) -> str:
    """When each input's rows are dropped before they leave their window."""
    drops = []
    for i, label in enumerate(labels):
        when = ["no match can come"] if any(found.closes(i, j) for j in range(found.inputs) if j != i) else []
        if not changing and found.finishes(i):
            when.append("all their results are found")
        drops.append(f"{label} {'once ' + ' or '.join(when) if when else 'at their end'}")
    return f"rows are dropped: {'; '.join(drops)}"
