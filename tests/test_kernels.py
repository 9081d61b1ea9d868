"""Every compiled kernel does what its Python source does.

Kernels are loaded a second time as plain Python. While queries run, each call goes to both: results and
changed arrays must be the same. Kernels that call each other are plain there too, private ones included, and
each of them must have been called.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba.core.registry import CPUDispatcher
from own_aggregates import OWN
from restless import EAGER, collecting_always, planned_by
from strategies import Choices, draw_case, draw_long_case

import penstock
import penstock.compiled
from penstock.cost.calibrate import measure
from penstock.engine.kernels.probing import EVERYTHING, View
from penstock.engine.synopses.cache import Cache
from penstock.engine.synopses.store import METHODS, Store
from penstock.streamon.pipelined_filters import PipelinedFilters

PACKAGE = Path(penstock.__file__).parent
FOLDER = PACKAGE / "engine" / "kernels"
MODULES = [f"penstock.engine.kernels.{p.stem}" for p in FOLDER.glob("[a-z]*.py")] + [
    "penstock.streamon.kernels"
]
CALLS = 40
"""Calls of a kernel that are compared, and after them one in as many; Python is slow."""

Called = Counter[str]


def load_plain(called: Called) -> dict[str, ModuleType]:
    """The modules of kernels with ``njit`` left out, where every call of a kernel is counted."""

    def njit(function: FunctionType | None = None, **_: object) -> Callable[..., Any]:
        def counted(function: FunctionType) -> Callable[..., Any]:
            @wraps(function)
            def call(*args: Any) -> Any:
                called[f"{function.__module__}.{function.__name__}"] += 1
                return function(*args)

            return call

        return counted if function is None else counted(function)

    compiled = {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        del sys.modules[name]
    original, penstock.compiled.njit = penstock.compiled.njit, njit
    try:
        return {name: importlib.import_module(name) for name in MODULES}
    finally:
        penstock.compiled.njit = original
        for name, module in compiled.items():
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)


def copied(value: Any) -> Any:
    """Arrays anew, in tuples and lists too."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, View):
        return value
    return type(value)(map(copied, value)) if isinstance(value, tuple | list) else value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, pa.Array):
        return one is other or one.equals(other)
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")


def compared(name: str, compiled: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The compiled function; at first its calls also go to the plain one."""
    calls = 0

    def call(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > CALLS and calls % CALLS:
            return compiled(*args)
        arguments = copied(args)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = plain(*arguments)
        found = compiled(*args)
        assert same(found, expected), f"{name} returns {found}, its source {expected}"
        assert same(args, arguments), f"{name} leaves {args}, its source {arguments}"
        return found

    return call


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    """Let all of Penstock call kernels that are compared with their source; counts calls of the latter."""
    counts: Called = Counter()
    plain = load_plain(counts)
    for path in PACKAGE.rglob("*.py"):
        package, *names = path.relative_to(PACKAGE).with_suffix("").parts
        if package in ("engine", "approx", "streamon", "cost") and names[-1] != "__init__":
            importlib.import_module(".".join(("penstock", package, *names)))
    kernels = {sys.modules[name]: plain[name] for name in MODULES}
    replaced: dict[int, Any] = {}
    for module, source in kernels.items():
        calls = {
            name: compared(f"{module.__name__}.{name}", value, getattr(source, name))
            for name, value in vars(module).items()
            if isinstance(value, CPUDispatcher | FunctionType) and value.__module__ == module.__name__
        }
        replaced |= {id(getattr(module, name)): call for name, call in calls.items()}
        replaced[id(module)] = SimpleNamespace(**{**vars(module), **calls})
    for user in [m for n, m in sys.modules.items() if n.startswith("penstock.") and m not in kernels]:
        for name, value in list(vars(user).items()):
            if id(value) in replaced and not name.startswith("__"):
                monkeypatch.setattr(user, name, replaced[id(value)])
    return counts


def run_queries() -> None:
    """Random queries, with plans and access methods that change all the time, and some with budgets."""
    ranks = "SELECT v, {}() OVER (ORDER BY v % 40 DESC) AS r FROM A [ROWS 60] QUALIFY r > 2"
    for kind in ("ROW_NUMBER", "RANK", "DENSE_RANK"):
        penstock.evaluate(ranks.format(kind), {"A": [(t, {"v": t * 37 % 99}) for t in range(99)]}, batches=3)
    for seed in range(60):
        choices = Choices(random=Random(seed))
        case = draw_long_case(choices) if seed % 10 == 0 else draw_case(choices)
        with planned_by(("as set", "restless", "a-greedy")[seed % 3]):
            given = {"schemas": case.schemas, "until": case.until, "functions": OWN}
            penstock.evaluate(case.cql, case.inputs, batches=3, **given)
    every = "SELECT MAX(A.v) AS m FROM A [ROWS 1500]"
    penstock.evaluate(every, {"A": [(t, {"v": t * 37 % 1999}) for t in range(3000)]}, batches=3)
    windows = "SELECT window_end, COUNT(*) AS n FROM A [TUMBLE 3] GROUP BY window_end"
    plain = (
        "SELECT MAX(v) AS m FROM A", "SELECT v FROM A [SESSION 2]", "RSTREAM(SELECT v FROM A [ROWS 3])",
        windows,
    )  # fmt: skip
    for query in plain:
        penstock.evaluate(query, {"A": [(t * t % 97, {"v": t % 7}) for t in range(60)]}, batches=3)
    far_apart = [(t, {"v": 10.0 ** (t * 37 % 60)}) for t in range(30)]
    sums = "SELECT SUM(v) AS s, AVG(v) AS a, STDDEV(v) AS d, VAR_POP(v) AS p FROM A [ROWS 4]"
    penstock.evaluate(sums, {"A": far_apart}, partitions=2)
    sketched = """SELECT APPROX_COUNT_DISTINCT(v) AS n, APPROX_PERCENTILE(v, 0.9) AS p, MEDIAN(v) AS m,
        CORR(v, v % 7) AS c, COVAR_POP(v, v) AS cp, SKEWNESS(v) AS sk, COLLECT_SET(v) AS s FROM A [ROWS 40]"""
    penstock.evaluate(sketched, {"A": [(t, {"v": t * 37 % 1999}) for t in range(100)]}, batches=3)
    rows = {n: [(t // 4, {"k": t * 7 % 11, "v": t}) for t in range(400)] for n in "AB"}
    for algorithm in ("nlw", "mw", "hw"):
        query = "SELECT ISTREAM(A.v, B.v AS w) FROM A, B WINDOW 5 WHERE A.k = B.k"
        penstock.evaluate(f"SET penstock.w_join = '{algorithm}'; {query}", rows, batches=6)
    maximize = [f" MAXIMIZE RESULTS {using}" for using in ("", "USING PROB", "USING AGE", "USING RANDOM")]
    goals = ("", *maximize, " SAMPLE UNIFORM", " SAMPLE CLUSTER")
    for budget in ("WITHIN RATE 2 PER SECOND", *(f"WITHIN MEMORY 40 ROWS{goal}" for goal in goals)):
        query = f"SELECT ISTREAM(A.v, B.v AS w) FROM A [RANGE 9], B [RANGE 9] WHERE A.k = B.k {budget}"
        penstock.evaluate(query, rows, batches=6)


def run_indexes() -> None:
    """A window whose keys rise, so that no later insertion meets the entries of rows that have left."""
    random = np.random.default_rng(3)
    for method in METHODS:
        store = Store(pa.schema([]), keys=1)
        index = store.index((0,), method)
        for now in range(60):
            starts, keys = np.full(40, now), random.integers(100 * now, 100 * now + 150, 40)
            store.insert(starts, starts + 3, [(keys, np.ones(40, np.bool_))], [])
            store.take_in(store.next)
            store.expire(now)
        life = np.ones(40, np.bool_), starts, starts + 1, EVERYTHING
        index.probe(store, keys, *life)
        index.first(store, keys, *life)


def run_caches() -> None:
    """Joins whose caches come and go; and a cache in too little memory."""
    cache, keys = Cache(words=1, parts=1, limit=4000), np.arange(60).reshape(-1, 1)
    places, ones = np.repeat(np.arange(60), 3), np.ones(180, np.int64)
    cache.create(keys, places, (0 * ones,), (ones, ones), keys[0])
    cache.trim(keys[0])
    rows = {n: [(t, {"a": t * k % 5, "b": t * k % 7}) for t in range(40)] for k, n in enumerate("RST", 2)}
    for window in ("[ROWS 9]", "[RANGE 9]"):
        sources = ", ".join(f"{n} {window}" for n in rows)
        for where in ("R.a = S.a AND S.b = T.b", "R.a = S.a AND R.b = S.b AND S.a = T.a"):
            for joins in ("any caches", "eager caches"):
                with planned_by("as set", joins):
                    query = f"SELECT COUNT(*) AS n FROM {sources} WHERE {where}"
                    penstock.evaluate(query, rows, batches=5)


def run_constrained() -> None:
    """A join that drops rows by keys, one of which comes twice; and a join by text."""
    unique = {n: [(t, {"k": t % 59, "j": t % 7, "s": f"x{t % 7}"}) for t in range(60)] for n in "AB"}
    for keys in (("k",), ("k", "j")):
        where = " AND ".join(f"A.{k} = B.{k}" for k in keys)
        obeyed = dict.fromkeys("AB", f"PRIMARY KEY ({', '.join(keys)})")
        with collecting_always():
            penstock.evaluate(f"SELECT A.s FROM A, B WHERE {where}", unique, constraints=obeyed, batches=9)
            found = f"SET penstock.constraints = 'monitored safe'; SELECT A.s FROM A, B WHERE {where}"
            penstock.evaluate(found, unique, batches=9)
    penstock.evaluate("SELECT A.k FROM A [ROWS 9], B [ROWS 9] WHERE A.s = B.s", unique, partitions=2)


def run_filters() -> None:
    """Filters that drop other tuples with each run: some change their order at once, some by and by."""
    random = np.random.default_rng(2)
    steady = replace(EAGER, drift_std_errors=np.inf, profile_window=64)
    for name, thresholds in (
        ("a-greedy", EAGER), ("a-greedy", steady), ("sweep", steady), ("local-swaps", steady),
    ):  # fmt: skip
        filters = PipelinedFilters(4, name, thresholds)
        for _ in range(4):
            passes = random.random((300, 4)) < random.random(4)
            filters.run(300, lambda f, rows, passes=passes: passes[rows, f])


def kernels() -> Iterator[str]:
    for name in MODULES:
        module = importlib.import_module(name)
        for kernel, value in vars(module).items():
            if isinstance(value, CPUDispatcher) and value.py_func.__module__ == name:
                yield f"{name}.{kernel}"


@pytest.mark.slow
def test_kernels_do_what_their_source_does(called: Called) -> None:
    run_filters()
    run_indexes()
    run_caches()
    run_queries()
    run_constrained()
    list(measure((100, 300), 1))
    missing = sorted(set(kernels()) - set(called))
    assert not missing, "not called: " + ", ".join(missing)
