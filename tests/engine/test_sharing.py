"""Rows are stored once: a window, its join and its expiry share a store, as do the sides of a self-join."""

import pickle
from dataclasses import replace

import pytest

from penstock.engine.operators.seq_window import SeqWindow
from penstock.evaluation import plan_of, read_inputs
from penstock.in_process import InProcessRun
from penstock.measurement import Kind, Property, measured
from penstock.schema import TimeDomain

ROWS = 2000
STATEFUL = ("seq-window", "expire", "mjoin", "binary-join")


def run(query: str, names: str = "ST") -> InProcessRun:
    """A query after ``ROWS`` rows of each stream, one a tick."""
    rows = [(t, {"k": t % 50, "v": float(t)}) for t in range(ROWS)]
    inputs = read_inputs({n: rows for n in names}, {}, TimeDomain("integer"))
    plan = plan_of(query, inputs.catalog(), (), 1)
    local = InProcessRun(plan, {})
    for batch in inputs.slices(7):
        local.step({n: t.combine_chunks().to_batches()[0] for n, t in batch.items() if t.num_rows})
    return local


def operators(local: InProcessRun) -> list:
    return local.engines[0][0].entities


def stored(local: InProcessRun) -> int:
    """Rows in the synopses of windows, joins and expiry."""
    return sum(e.operator.rows() for e in operators(local) if e.node.name in STATEFUL)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT S.v FROM S [ROWS 300], T [ROWS 500] WHERE S.k = T.k", 800),
        ("SELECT ISTREAM(S.v) FROM S [RANGE 299], T [ROWS 500] WHERE S.k = T.k", 800),
        ("SELECT ISTREAM(S.v) FROM S [RANGE 299], T [RANGE 499] WHERE S.k = T.k", 800),
        ("SELECT k, COUNT(*) FROM S [RANGE 299] GROUP BY k", 300),
        ("SELECT ISTREAM(A.v) FROM S [RANGE 299] AS A, S [RANGE 299] AS B WHERE A.k = B.k", 300),
        ("SELECT ISTREAM(A.v) FROM S [RANGE 99] AS A, S [RANGE 299] AS B WHERE A.k = B.k", 300),
        ("SELECT A.v FROM S [ROWS 300] AS A, S [ROWS 300] AS B WHERE A.k = B.k", 300),
        ("SELECT ISTREAM(A.v) FROM S AS A, S AS B, S AS C WHERE A.v = B.v AND B.v = C.v", ROWS),
    ],
)
def test_each_row_is_stored_once(query: str, rows: int) -> None:
    # What ends now is kept a tick longer, on each side.
    assert rows <= stored(run(query)) <= rows + 4


@pytest.mark.parametrize(
    ("query", "rows", "stubs"),
    [
        ("SELECT S.v FROM S [ROWS 300], T [ROWS 500] WHERE S.k = T.k", [300, 500], [2, 2]),
        ("SELECT k, COUNT(*) FROM S [RANGE 299] GROUP BY k", [300], [1]),
        ("SELECT ISTREAM(A.v) FROM S [RANGE 99] AS A, S [RANGE 299] AS B WHERE A.k = B.k", [300], [2]),
    ],
)
def test_a_store_is_published_once_with_those_who_share_it(
    query: str, rows: list[int], stubs: list[int]
) -> None:
    local = run(query)
    found = measured(local.engines[0][0].measure())
    stores = found.of_kind(Kind.STORE)
    assert sorted(m.value for m in stores.of(Property.STUBS)) == stubs
    published = sorted(m.value for m in stores.of(Property.ROWS))
    assert all(n <= m <= n + 4 for n, m in zip(rows, published, strict=True))
    assert stores.total(Property.ROWS) == stored(local)
    for entity, own in stores.by_entity().items():
        users = {m.text for m in own.of(Property.USED_BY)}
        assert users == {m.entity for m in found.of(Property.STORE) if m.text == entity} and users


def test_a_self_join_reads_its_stream_once() -> None:
    join = "SELECT ISTREAM(A.v) FROM S [RANGE 99] AS A, S [RANGE 299] AS B WHERE A.k = B.k"
    local = run(f"{join} AND B.v > 5", "S")
    windows = [e.node for e in operators(local) if isinstance(e.node, SeqWindow)]
    assert len({w.store for w in windows}) == 2  # another filter: other rows
    local = run(join, "S")
    windows = [e.node for e in operators(local) if isinstance(e.node, SeqWindow)]
    assert len({w.store for w in windows}) == 1 < len(windows)
    assert [i.name for i in local._plan.stages[0].inputs] == ["A"]


def test_a_join_keeps_only_what_it_reads() -> None:
    """The window's store has the columns that someone reads later, and no others."""
    narrow, wide = (
        run(f"SELECT ISTREAM({c}) FROM S [RANGE 299], T [RANGE 299] WHERE S.k = T.k")
        for c in ("1", "S.v, T.v")
    )
    size = [sum(e.operator.bytes() for e in operators(x) if e.node.name in STATEFUL) for x in (narrow, wide)]
    assert size[0] < size[1]


def test_the_hash_of_a_node_is_computed_once_and_stays_in_its_process() -> None:
    """Hashes of strings differ from process to process."""
    query = "SELECT S.v FROM S [ROWS 3], T [ROWS 5] WHERE S.k = T.k"
    one, two = (operators(run(query))[-1].node for _ in range(2))
    assert one == two and one is not two and hash(one) == hash(two)
    assert "_hash" in vars(one) and "_hash" not in vars(pickle.loads(pickle.dumps(one)))
    assert hash(one) != hash(replace(one, input=one.input.input))
