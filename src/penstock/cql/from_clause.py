"""FROM: streams, tables and inner joins, and whether something links all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from penstock.catalog import StreamDef, TableDef
from penstock.cql.errors import did_you_mean, error, unsupported
from penstock.cql.scope import Item, Scope, lookup, qualify
from penstock.cql.windows import UNBOUNDED, note_on, window_spec
from penstock.expression import Expression, columns
from penstock.plan.logical import StreamSource, TableSource, Window
from penstock.schema import TimeDomain

Catalog = Mapping[str, StreamDef | TableDef]


@dataclass
class Context:
    """What holds for a whole query: the catalog, the time its streams share, what was filled in."""

    catalog: Catalog
    notes: list[str] = field(default_factory=list)
    streams: list[StreamDef] = field(default_factory=list)

    def meet(self, stream: StreamDef, at: exp.Expr) -> None:
        """Take note of a stream; all streams of a query share one time."""
        if self.streams and self.streams[0].time != stream.time:
            first = self.streams[0]
            raise error(
                f"'{first.name}' has time in {_time(first.time)} and '{stream.name}' in {_time(stream.time)}",
                at,
                "declare the same TIMESTAMP BY type and unit for both",
            )
        self.streams.append(stream)


def _time(time: TimeDomain) -> str:
    return "TIMESTAMP" if time.kind == "timestamp" else f"integer {time.unit}"


@dataclass
class FromClause:
    """The items in sight, the conjuncts of ON, and which items CROSS JOIN put beside all before them."""

    scope: Scope
    conjuncts: list[Expression] = field(default_factory=list)
    crossed: list[int] = field(default_factory=list)


BindCondition = Callable[[Scope, exp.Expr, str], list[Expression]]


def bind_from(select: exp.Select, context: Context, bind_condition: BindCondition) -> FromClause:
    """The FROM clause of a SELECT; ``bind_condition`` binds what follows ON."""
    start = select.args.get("from_")
    if start is None:
        raise error("SELECT needs FROM with at least one stream", select)
    clause = FromClause(Scope())
    _add(clause, start.this, context)
    for join in select.args.get("joins") or ():
        _check_join(join)
        _add(clause, join.this, context)
        if join.kind == "CROSS":
            clause.crossed.append(len(clause.scope.items) - 1)
        if join.args.get("on"):
            clause.conjuncts += bind_condition(clause.scope, join.args["on"], "ON")
    return clause


def _add(clause: FromClause, node: exp.Expr, context: Context) -> None:
    clause.scope.add(bind_item(node, context), node)


def _check_join(join: exp.Join) -> None:
    words = [w for w in (join.method, join.side, join.kind) if w and w not in ("INNER", "CROSS")]
    if words:
        raise unsupported(f"{' '.join(words)} JOIN", join)
    if join.args.get("using"):
        raise unsupported("JOIN ... USING", join, "write JOIN ... ON")


def bind_item(node: exp.Expr, context: Context) -> Item:
    """One FROM item, by the kind of thing it is."""
    bind_kind = ITEMS.get(type(node))
    if bind_kind is None:
        raise unsupported(UNSUPPORTED.get(type(node), f"'{node.sql('spark')}' in FROM"), node)
    return bind_kind(node, context)


def _named(node: exp.Table, context: Context) -> Item:
    _check_table(node)
    definition = lookup(context.catalog, node.name)
    if definition is None:
        known = list(context.catalog)
        hint = did_you_mean(
            node.name, known, f"known are {', '.join(known)}" if known else "none is registered"
        )
        raise error(f"unknown stream or table '{node.name}'", node.this, hint)
    alias = node.alias or definition.name
    if isinstance(definition, TableDef):
        return _table(node, definition, alias)
    return _stream(node, definition, alias, context)


def _check_table(node: exp.Table) -> None:
    if not isinstance(node.this, exp.Identifier):
        raise unsupported("a table function", node)
    if node.args.get("db"):
        raise unsupported(f"a name in two parts ('{node.sql('spark')}')", node)
    for arg, words in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT"), ("joins", "a join in parentheses")):
        if node.args.get(arg):
            raise unsupported(words, node)
    alias = node.args.get("alias")
    if alias and alias.args.get("columns"):
        raise unsupported("an alias with column names", alias)


def _table(node: exp.Table, table: TableDef, alias: str) -> Item:
    if node.args.get("window"):
        raise error(
            f"'{table.name}' is a table and takes no window", node.args["window"], "windows are for streams"
        )
    return Item.of(alias, TableSource(table, alias, qualify(alias, table.schema)))


def _stream(node: exp.Table, stream: StreamDef, alias: str, context: Context) -> Item:
    context.meet(stream, node)
    source = StreamSource(stream, alias, qualify(alias, stream.schema))
    window = node.args.get("window")
    if window is None:
        context.notes.append(f"{alias} has no window: [ROWS UNBOUNDED] is filled in")
        return Item.of(alias, Window(source, UNBOUNDED))
    note = note_on(window, source)
    context.notes.extend([note] if note else [])
    return Item.of(alias, Window(source, window_spec(window, source)))


ITEMS: dict[type[exp.Expr], Callable[[Any, Context], Item]] = {exp.Table: _named}

UNSUPPORTED: dict[type[exp.Expr], str] = {
    exp.Subquery: "a subquery in FROM",
    exp.Lateral: "LATERAL",
    exp.Unnest: "UNNEST",
    exp.Values: "VALUES in FROM",
}


def check_linked(clause: FromClause, conjuncts: Sequence[Expression], select: exp.Select) -> None:
    """Every item is linked to the others by some conjunct, or by a CROSS JOIN in so many words."""
    aliases = [i.alias for i in clause.scope.items]
    groups = [{a} for a in aliases]
    for position in clause.crossed:
        groups = _merged(groups, set(aliases[: position + 1]))
    for conjunct in conjuncts:
        groups = _merged(groups, _aliases(conjunct, clause.scope))
    if len(groups) > 1:
        firsts = [min(map(aliases.index, g)) for g in groups]
        *names, last = (f"'{aliases[i]}'" for i in firsts)
        raise error(
            f"{', '.join(names)} and {last} have no join predicate",
            select.args["joins"][firsts[1] - 1].this,
            "write CROSS JOIN if every pair is meant",
        )


def _merged(groups: list[set[str]], linked: set[str]) -> list[set[str]]:
    touched = [g for g in groups if g & linked]
    if len(touched) < 2:
        return groups
    merged = set().union(*touched)
    return [merged if g is touched[0] else g for g in groups if g is touched[0] or g not in touched]


def _aliases(conjunct: Expression, scope: Scope) -> set[str]:
    names = columns(conjunct)
    return {i.alias for i in scope.items if any(c.name in names for c in i.columns.values())}
