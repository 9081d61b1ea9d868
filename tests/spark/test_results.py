"""The folder of a pipeline's results: a batch is seen whole, once, and for as long as it is kept."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.engine.stage import SIGN, TS, RootOutput, StepOutput
from penstock.errors import DataError
from penstock.spark.map_side.results import QueryResults, ResultsReader
from penstock.spark.resident import program
from penstock.spark.settings import RESULTS_IDLE_S
from penstock.spark.wire.results import Piece, Published, Results, placed

ALL = None
SHOWN = pa.schema([("ts", pa.int64()), ("op", pa.string()), ("k", pa.int64())])


def elements(*keys: int) -> RootOutput:
    schema = pa.schema([(TS, pa.int64()), (SIGN, pa.int8()), ("k", pa.int64())])
    columns = [[100 + k for k in keys], [1 if k % 2 else -1 for k in keys], list(keys)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return RootOutput(pa.record_batch(arrays, schema=schema), 0)


def published(results: Results, batch: int, **queries: tuple[int, ...]) -> Published:
    """Publish a batch of one task, as relay and driver do."""
    output = StepOutput({n: elements(*keys) for n, keys in queries.items()}, 0, 0)
    (contents, failed), parts = program.Results()(output, 0)
    assert failed == {}
    return results.publish(batch, placed(results.write(batch, parts), contents), commands=batch)


def reader(results: Results, query: str = "q") -> ResultsReader:
    return ResultsReader(QueryResults(results.location, query, query, SHOWN, "relation"))


def read(own: ResultsReader, start: int, end: int) -> list[tuple[int, ...]]:
    slices = pickle.loads(pickle.dumps(own.partitions({"batch": start}, {"batch": end})))
    batches = [b for part in slices for b in own.read(part)]
    return [tuple(row.values()) for b in batches for row in b.to_pylist()]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(str(tmp_path / "results"))


def test_readers_see_published_batches(results: Results) -> None:
    own, other = reader(results), reader(results, "r")
    assert own.initialOffset() == {"batch": 0} == own.latestOffset({"batch": 0}, ALL)
    results.write(0, [b"left by a task that failed"])
    published(results, 0, q=(1, 2), r=(3,))
    published(results, 1, r=(4,))
    assert own.latestOffset({"batch": 0}, ALL) == {"batch": 2}
    assert read(own, 0, 2) == [(101, "+", 1), (102, "-", 2)]
    assert read(other, 0, 2) == [(103, "+", 3), (104, "-", 4)]
    assert read(other, 1, 2) == [(104, "-", 4)]


def test_a_batch_is_published_once(results: Results) -> None:
    published(results, 0, q=(1,))
    seen = published(results, 1, q=(2,))
    assert seen == Published(0, 2, 1)
    assert published(results, 1, q=(2, 2)) == seen
    assert read(reader(results), 0, 2) == [(101, "+", 1), (102, "-", 2)]


def test_a_batch_that_was_not_shown_is_published_again(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died between the two files."""
    published(results, 0, q=(1,))
    before = (Path(results.location) / "published.json").read_text()
    published(results, 1, q=(2,))
    (Path(results.location) / "published.json").write_text(before)
    assert reader(results).latestOffset({"batch": 1}, ALL) == {"batch": 1}
    assert published(results, 1, q=(3,)).next == 2
    assert read(reader(results), 1, 2) == [(103, "+", 3)]


def test_a_reader_advances_for_its_own_results_or_after_some_time(results: Results) -> None:
    own = reader(results)
    published(results, 0, r=(1,))
    published(results, 1, r=(1,))
    assert own.latestOffset({"batch": 0}, ALL) == {"batch": 0}
    own.advanced -= RESULTS_IDLE_S
    assert own.latestOffset({"batch": 0}, ALL) == {"batch": 2}
    assert own.latestOffset({"batch": 2}, ALL) == {"batch": 2}
    published(results, 2, q=(1,))
    assert own.latestOffset({"batch": 2}, ALL) == {"batch": 3}
    own.prepareForTriggerAvailableNow()
    published(results, 3, q=(1,))
    assert own.latestOffset({"batch": 0}, ALL) == {"batch": 3}


def test_old_batches_go_and_a_reader_that_is_too_late_is_told(results: Results) -> None:
    for batch in range(4):
        published(results, batch, q=(batch,))
    results.retire(older_than=0)
    assert results.published().first == 0
    times = [results._time(batch) for batch in range(4)]
    results.retire(older_than=times[2])
    assert results.published() == Published(2, 4, 3)
    left = sorted(p.name for p in Path(results.location).iterdir())
    assert left == ["00000002", "00000002.json", "00000003", "00000003.json", "published.json"]
    own = reader(results)
    assert own.initialOffset() == {"batch": 2}
    gone = "results of query 'q' in batch 1 are gone, the oldest that are kept are of batch 2; start the"
    with pytest.raises(DataError, match=gone):
        own.latestOffset({"batch": 1}, ALL)
    with pytest.raises(DataError, match=gone):
        own.partitions({"batch": 1}, {"batch": 3})
    results.retire(older_than=times[3] + 1000)
    assert results.published() == Published(3, 4, 3)


def test_a_reader_of_a_pipeline_that_was_started_anew_is_told(results: Results) -> None:
    published(results, 0, q=(1,))
    with pytest.raises(DataError, match="has results up to batch 0, and the reader has read up to batch 6"):
        reader(results).latestOffset({"batch": 7}, ALL)


def test_small_pieces_are_read_by_one_task(results: Results) -> None:
    for batch in range(20):
        published(results, batch, q=(batch,))
    (only,) = reader(results).partitions({"batch": 0}, {"batch": 20})
    assert len(only.pieces) == 20 and all(isinstance(p, Piece) for p in only.pieces)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="results cannot be written in .*file.*make room there"):
        Results(str(tmp_path / "file" / "below")).write(0, [b""])


def test_the_reader_of_a_dropped_query_stops_where_its_successor_begins(results: Results) -> None:
    published(results, 0, old=(1,))
    pieces = placed(results.write(1, [b""]), [("new", 1, 0)])
    assert results.publish(1, pieces, commands=2, ended=["old"]).ended == {"old": 1}
    published(results, 2, new=(2,))
    own = reader(results, "old")
    own.advanced -= RESULTS_IDLE_S
    assert own.latestOffset({"batch": 0}, ALL) == {"batch": 1} == own.latestOffset({"batch": 1}, ALL)
    assert reader(results, "new").latestOffset({"batch": 1}, ALL) == {"batch": 3}
    results.retire(older_than=float("inf"))
    assert own.latestOffset({"batch": 1}, ALL) == {"batch": 1}, "it has read all: nothing is gone for it"
    assert results.published().ended == {"old": 1}
