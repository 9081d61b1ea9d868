"""A logical operator answers for itself: one that exists only here runs everywhere, and no list knows any."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from longer import longer
from pyspark import cloudpickle

import penstock
from penstock.catalog import Input, TableDef
from penstock.cql import bind, parse
from penstock.engine.element import Chunk, Pattern, batch_of
from penstock.engine.operator import Clock, Node, Operator, StartContext
from penstock.engine.operator import Unary as UnaryNode
from penstock.engine.stage import SIGN, TS
from penstock.in_process import InProcessPipeline
from penstock.plan import compile, explain, logical, optimizer
from penstock.plan.admission import admit, explain_pipeline
from penstock.plan.build import Builder
from penstock.plan.logical.operator import Logical, Needed, PerRow, Unary
from penstock.plan.optimizer import optimize
from penstock.plan.physical import SourceInput
from penstock.plan.pipeline import plan_pipeline

if TYPE_CHECKING:
    from penstock.engine.stage import Stage

SOURCE = Path(penstock.__file__).parent


# an operator of two classes: a logical one and a physical one


@dataclass(frozen=True)
class Repeated(PerRow):
    """Each row several times, with the number of the copy."""

    times: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, ("copy", pa.int64())])

    def build(self, context: Builder, needed: Needed) -> Node:
        return Repeat(context.exact(self.input), self.times)


@dataclass(frozen=True)
class Repeat(UnaryNode):
    """The physical operator."""

    times: int
    name = "repeat"

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, ("copy", pa.int64())])

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    def describe(self) -> str:
        return f"{self.times} times"

    def start(self, context: StartContext) -> Operator:
        return Repeating(self)


class Repeating(Operator):
    """The running operator."""

    def __init__(self, node: Repeat) -> None:
        self._schema, self._times = node.schema, node.times

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        many = inputs[0].take(np.repeat(np.arange(len(inputs[0])), self._times))
        copies = pa.array(np.tile(np.arange(self._times), len(inputs[0])))
        return many.with_columns(batch_of([*many.columns.columns, copies], self._schema, len(many)))


ROWS = [(t, {"a": t % 3, "b": t % 2}) for t in range(9)]
QUERIES = {
    "changes": "SELECT a FROM S [RANGE 2]",
    "ends learned": "SELECT a, b FROM S [ROWS 2]",
    "only grows": "SELECT a, b FROM S WHERE b = 1",
    "groups": "SELECT a, COUNT(*) AS n FROM S [RANGE 3] GROUP BY a",
    "a join": "SELECT S.a FROM S [RANGE 2], S [RANGE 1] AS T WHERE S.a = T.a",
    "istream": "SELECT ISTREAM(a, b) FROM S [RANGE 2]",
}


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is projected at the top of a query, twice."""

    def rule(node: Logical) -> Logical:
        return Repeated(node, 2) if isinstance(node, logical.Project) else node

    # Engine processes cannot import this file, so what is defined in it travels whole.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(optimizer, "RULES", (*optimizer.RULES, rule))
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def changes(found: list) -> list:
    return sorted((ts, sign, sorted(row.items())) for ts, sign, row in found)


@pytest.fixture
def once(request: pytest.FixtureRequest) -> dict[str, list]:
    """The results without the operator."""
    return {query: penstock.evaluate(query, {"S": ROWS}) for query in QUERIES.values()}


def twice(found: list) -> list:
    return changes([(ts, sign, {**row, "copy": copy}) for ts, sign, row in found for copy in (0, 1)])


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_an_operator_of_this_test_runs_on_the_engine(
    once: dict[str, list], repeated: None, query: str, partitions: int
) -> None:
    assert changes(penstock.evaluate(query, {"S": ROWS}, partitions=partitions)) == twice(once[query])


@pytest.mark.spark
@pytest.mark.parametrize("name", ["groups", *longer("istream")])
def test_an_operator_of_this_test_runs_on_spark(
    once: dict[str, list], repeated: None, spark: object, name: str
) -> None:
    found = penstock.evaluate(QUERIES[name], {"S": ROWS}, on="spark", partitions=2)
    assert changes(found) == twice(once[QUERIES[name]])


@pytest.mark.parametrize("partitions", [1, 2])
def test_an_operator_of_this_test_runs_in_a_pipeline(
    once: dict[str, list], repeated: None, partitions: int
) -> None:
    """Beside queries that read the same windows and stores."""
    bound = {name: bind(text, CATALOG) for name, text in QUERIES.items()}
    plan = plan_pipeline([CATALOG["S"]], bound, partitions)
    admitted = {name: admit(plan, name, query) for name, query in bound.items()}
    pipeline = InProcessPipeline(plan, admitted, {})
    columns = pa.RecordBatch.from_pylist([{TS: t, **row} for t, row in ROWS])
    steps = [pipeline.step({"S": rows}) for rows in (columns.slice(0, 4), columns.slice(4))]
    found = [*steps, pipeline.end()]
    assert "repeat 2 times" in explain_pipeline(plan, admitted)
    for name, query in QUERIES.items():
        rows = [row for step in found for batch in step.get(name, ()) for row in batch.to_pylist()]
        shown = [(row.pop(TS), "+" if row.pop(SIGN) > 0 else "-", row) for row in rows]
        assert changes(shown) == [c for c in twice(once[query]) if c[0] <= ROWS[-1][0]], name


def test_an_operator_of_this_test_is_explained(repeated: None) -> None:
    query = bind("SELECT a, COUNT(*) AS n FROM S [RANGE 3] GROUP BY a", CATALOG)
    assert "Repeated" in logical.show(optimize(query.root))
    lines = [line.strip() for line in explain(compile(query, 2)).splitlines()]
    assert "repeat 2 times" in lines
    assert any(line.startswith("stage 1  on 2 partitions") for line in lines)


@dataclass(frozen=True)
class Bare(Unary):
    """An operator that says nothing but how it is built."""

    def build(self, context: Builder, needed: Needed) -> Node:
        return context.changing(context.build(self.input, needed))


def test_what_an_operator_does_not_say_is_right_and_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        optimizer, "RULES", (lambda n: Bare(n) if isinstance(n, logical.Window) else n, *optimizer.RULES)
    )
    query = bind("SELECT a FROM S [RANGE 3]", CATALOG)
    assert "stage 1  on 1 partition: bare needs all rows in one partition" in explain(compile(query, 4))
    found = penstock.evaluate("SELECT a FROM S [RANGE 3]", {"S": ROWS}, partitions=4)
    monkeypatch.undo()
    assert changes(found) == changes(penstock.evaluate("SELECT a FROM S [RANGE 3]", {"S": ROWS}))


# whether a result only grows is said in one place

CATALOG = {
    **{n: Input(n, pa.schema([("a", pa.int64()), ("b", pa.int64())])) for n in ("R", "S")},
    "T": TableDef("T", pa.schema([("a", pa.int64()), ("c", pa.int64())])),
}
GROW = """
SELECT a FROM S
SELECT DISTINCT a FROM S
SELECT S.a, T.c FROM S LEFT JOIN T ON S.a = T.a
SELECT S.a, T.c FROM T RIGHT JOIN S ON S.a = T.a
SELECT a FROM S WHERE a NOT IN (SELECT a FROM T)
SELECT a FROM S WHERE EXISTS (SELECT 1 FROM R WHERE R.a < S.a)
SELECT a FROM S INTERSECT ALL SELECT a FROM R
SELECT S.a FROM S, (SELECT DISTINCT a FROM R) AS r WHERE S.a = r.a
""".strip().splitlines()
SHRINK = """
SELECT DISTINCT a FROM S [RANGE 5]
SELECT COUNT(*) AS n FROM S
SELECT S.a, R.b FROM S LEFT JOIN R ON S.a = R.a
SELECT S.a, T.c FROM T LEFT JOIN S ON S.a = T.a
SELECT S.a, T.c FROM S FULL JOIN T ON S.a = T.a
SELECT a FROM S WHERE a NOT IN (SELECT a FROM R)
SELECT a FROM T EXCEPT SELECT a FROM S
SELECT a FROM S UNION ALL SELECT a FROM R [RANGE 1]
""".strip().splitlines()


def node_below_result(stage: Stage) -> Node:
    """The operator whose relation the result shows."""
    (below,) = stage.root.inputs
    return below


@pytest.mark.parametrize(("query", "grows"), [*((q, True) for q in GROW), *((q, False) for q in SHRINK)])
def test_binder_plan_and_engine_agree_on_what_only_grows(query: str, grows: bool) -> None:
    bound = bind(query, CATALOG)
    assert isinstance(bound.root, logical.ToStream) == grows  # ISTREAM is filled in
    relation = bound.root.input if isinstance(bound.root, logical.ToStream) else bound.root
    assert relation.only_grows == grows
    (planned,) = compile(bound).stages
    assert (node_below_result(planned.stage).pattern is Pattern.APPEND) == grows


@pytest.mark.parametrize(
    "query", ("SELECT a FROM S UNION SELECT a FROM T", "SELECT a FROM S EXCEPT SELECT a FROM T")
)
def test_a_table_that_changes_may_take_rows_out_of_a_set_operation(query: str) -> None:
    """Such a result is a stream by default, and nets what a change of the table moves."""
    bound = bind(query, CATALOG)
    assert isinstance(bound.root, logical.ToStream) and not bound.root.shows_at_once
    (planned,) = compile(bound).stages
    assert node_below_result(planned.stage).pattern is Pattern.CHANGING


def test_results_of_only_growing_relations_do_not_cancel() -> None:
    """So no second stage nets them, also where a projection hides what they are spread by."""
    query = bind("SELECT x.b FROM (SELECT DISTINCT a, b FROM S) AS x", CATALOG)
    assert len(compile(query, 4).stages) == 1


# no case list over operators outside their own files

SHARED = {"Logical", "Leaf", "Source", "AnyJoin"}
"""Contracts and bases, by which no single operator is told apart."""


def classes_of(package: str, base: type) -> set[str]:
    """The operators that the files of a package define."""
    files = (f.relative_to(SOURCE).with_suffix("") for f in (SOURCE / package).rglob("*.py"))
    modules = [import_module(".".join(("penstock", *f.parts))) for f in files]
    own = [k for m in modules for k in vars(m).values() if getattr(k, "__module__", "") == m.__name__]
    return {k.__name__ for k in own if isinstance(k, type) and issubclass(k, base)} - SHARED


LOGICAL, PHYSICAL = classes_of("plan/logical", Logical), classes_of("engine/operators", Node)


def names_of(tree: ast.Module, package: str, classes: set[str]) -> set[str]:
    """How a module may write the operators of a package: their names, or those of modules and their names."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            places = [(f"{node.module}.{a.name}", a.name, a.asname or a.name) for a in node.names]
        elif isinstance(node, ast.Import):
            places = [(a.name, "", a.asname or a.name) for a in node.names]
        else:
            continue
        for place, name, written in places:
            if place.startswith(package):
                found |= {written} if name in classes else {f"{written}.{c}" for c in classes}
    own = {n.name for n in tree.body if isinstance(n, ast.ClassDef)}
    return found - own


def deciding_classes(node: ast.AST) -> list[ast.expr]:
    """Where a part of a program decides by class: isinstance, match, a comparison of types, a table."""
    match node:
        case ast.MatchClass(cls=kind):
            return [kind]
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return [kinds]
        case ast.Call(func=ast.Attribute(attr="register"), args=[kind, *_]):  # singledispatch
            return [kind]
        case ast.Compare(left=left, comparators=right):
            by_type = any(re.search(r"\btype\(|__class__", ast.unparse(p)) for p in (left, *right))
            return [left, *right] if by_type else []
        case ast.Dict(keys=keys):
            return [k for k in keys if k is not None]
    return []


def told_apart(part: ast.AST, known: set[str]) -> set[str]:
    """The operators among ``known`` that a part of a program tells apart."""
    kinds = [n for node in ast.walk(part) for k in deciding_classes(node) for n in ast.walk(k)]
    return {ast.unparse(n) for n in kinds if isinstance(n, ast.Name | ast.Attribute)} & known


def case_lists(
    text: str, package: str = "penstock.plan.logical", classes: Collection[str] = LOGICAL
) -> list[str]:
    """The functions, and the statements outside of functions, that tell several operators of others apart."""
    if package.rpartition(".")[2] not in text:  # it imports nothing of the package
        return []
    tree = ast.parse(text)
    known = names_of(tree, package, set(classes))
    if not known:
        return []
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    tables = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.ClassDef)]
    parts = [(getattr(p, "name", f"line {p.lineno}"), p) for p in (*functions, *tables)]
    found = [f"{name}: {sorted(t)}" for name, p in parts if len(t := told_apart(p, known)) > 1]
    registered = {n for f in functions for d in f.decorator_list for n in told_apart(d, known)}
    return [*found, f"registered: {sorted(registered)}"] if len(registered) > 1 else found


def in_files(files: Iterable[Path], *of: Any) -> dict[str, list[str]]:
    return {str(p.relative_to(SOURCE)): c for p in files if (c := case_lists(p.read_text(), *of))}


def test_nothing_takes_logical_operators_apart() -> None:
    """Nor does an operator take others apart; a rule names the operators that it rewrites."""
    rules = SOURCE / "plan" / "rules"
    assert not in_files(p for p in SOURCE.rglob("*.py") if not p.is_relative_to(rules))


def test_nothing_takes_physical_operators_apart() -> None:
    """The rules that rewrite a plan so that its queries share are in a file of their own."""
    own = SOURCE / "plan" / "sharing.py"
    of = ("penstock.engine.operators", PHYSICAL)
    assert not in_files((p for p in SOURCE.rglob("*.py") if p != own), *of)
    text = "from penstock.engine.operators import mjoin, select\n"
    assert case_lists(f"{text}def f(node):\n    return isinstance(node, select.Select | mjoin.MJoin)\n", *of)


def compared_by_name(text: str) -> list[str]:
    """Comparisons of the name of a type: a case list that no import shows."""
    if "__name__" not in text:
        return []
    compared = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Compare)]
    return [found for c in compared if ").__name__" in (found := ast.unparse(c))]


def test_nothing_goes_by_the_name_of_a_type() -> None:
    found = {p.name: c for p in SOURCE.rglob("*.py") if (c := compared_by_name(p.read_text()))}
    assert not found
    assert compared_by_name("if type(node).__name__ in {'Select'}: pass")


@pytest.mark.parametrize(
    "body",
    [
        "def f(n):\n    return isinstance(n, logical.Join | logical.Select)",
        "def f(n):\n    return isinstance(n, Window) or isinstance(n, (logical.Join,))",
        "def f(n):\n    return [isinstance(m, Window) for m in n] + [type(m) is w_join.WJoin for m in n]",
        "def f(n):\n    match n:\n        case Window(): ...\n        case as_named.Join(): ...",
        "def f(n):\n    return {Window: 1, logical.Join: 2}[type(n)]",
        "COSTS = {Window: 1, logical.Join: 2}",
        "@costs.register(Window)\ndef f(n): ...\n@costs.register(logical.Join)\ndef g(n): ...",
        "def f(n):\n    return n.__class__ in (Window, logical.Join)",
    ],
)
def test_a_case_list_would_be_found(body: str) -> None:
    text = (
        "from penstock.plan import logical\nfrom penstock.plan.logical import Window, w_join\n"
        "import penstock.plan.logical.join as as_named\n"
    )
    assert case_lists(text + body)
    assert not case_lists(f"{text}def f(node):\n    return isinstance(node, Window)\n")


def test_an_rstream_in_a_subquery_sees_the_instants_of_rows_that_a_filter_drops() -> None:
    """A filter that Spark evaluates would hide those instants from the engine."""
    (stream,) = parse("CREATE STREAM S (a INT, ts TIMESTAMP) TIMESTAMP BY ts FROM PARQUET 'directory'")
    catalog = {"S": stream.definition()}
    streamed = "(SELECT RSTREAM(a) FROM S [RANGE 10 SECONDS] WHERE a > 5)"
    plan = compile(bind(f"SELECT a FROM {streamed} [RANGE 10 SECONDS] x", catalog), 1)
    (source,) = plan.stages[0].inputs
    assert isinstance(source, SourceInput) and source.filter is None
