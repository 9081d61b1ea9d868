"""relation-to-stream: the operator a query names, or ISTREAM where a result only grows."""

from __future__ import annotations

from sqlglot import exp

from penstock.cql.names.context import Context
from penstock.cql.syntax.duration import ticks
from penstock.cql.syntax.errors import error
from penstock.cql.syntax.nodes import RelationToStream
from penstock.plan.logical import (
    Aggregate,
    Logical,
    OuterJoin,
    RelationSource,
    SemiJoin,
    SetOperation,
    StreamSource,
    TableSource,
    ToStream,
    Window,
    inputs,
)


def to_stream(root: Logical, operator: RelationToStream, context: Context) -> ToStream:
    """A relation under the operator that the query names."""
    kind, every = operator.args["kind"], operator.args.get("every")
    if is_static(root):
        raise error(f"{kind.upper()} needs a stream or relation, and this query reads only tables", operator)
    if every is None:
        return ToStream(root, kind)
    if kind != "rstream":
        raise error(f"EVERY applies to RSTREAM, not to {kind.upper()}", every)
    return ToStream(root, kind, ticks(every, context.time, "EVERY", least=1))


def as_stream(root: Logical, name: str, window: exp.Expr, context: Context) -> ToStream:
    """A query without operator under a window: a stream if it only grows, else a mistake."""
    if is_static(root) or not only_grows(root):
        raise error(
            f"'{name}' is a relation and takes no window",
            window,
            "only streams take windows: write ISTREAM( ) around its SELECT list",
        )
    context.note(f"{name} only grows, so it is streamed: ISTREAM is filled in")
    return ToStream(root, "istream")


def is_static(node: Logical) -> bool:
    """Whether nothing but tables is below."""
    if isinstance(node, StreamSource | RelationSource | TableSource):
        return isinstance(node, TableSource)
    return all(is_static(i) for i in inputs(node))


def only_grows(node: Logical) -> bool:
    """Whether rows, once in the relation, stay in it."""
    if is_static(node):
        return True
    match node:
        case Window(_, spec):
            return spec.size is None
        case Aggregate() | RelationSource():
            return False
        case OuterJoin(left, right, kind):
            return (
                kind == "left"
                and only_grows(left)
                and is_static(right)
                or (kind == "right" and only_grows(right) and is_static(left))
            )
        case SemiJoin(left, right, _, anti):
            return only_grows(left) and (is_static(right) if anti else only_grows(right))
        case SetOperation(left, right, "except"):
            return only_grows(left) and is_static(right)
    return all(only_grows(i) for i in inputs(node))
