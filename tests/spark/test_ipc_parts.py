"""Arrow IPC in parts: the same bytes as in one piece, and no copies of the columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.spark.ipc_parts import ipc_parts


def batch(rows: int) -> pa.RecordBatch:
    words = [None if n % 7 == 0 else f"word {n}" for n in range(rows)]
    return pa.RecordBatch.from_pydict({"n": pa.array(np.arange(rows)), "word": words, "half": [0.5] * rows})


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_a_batch_comes_back(rows: int) -> None:
    for sent in (batch(rows), batch(rows + 50).slice(50)):
        with pa.ipc.open_stream(b"".join(ipc_parts(sent))) as reader:
            assert reader.read_next_batch().equals(sent)


def test_columns_are_not_copied() -> None:
    sent = batch(10_000)
    addresses = {pa.py_buffer(part).address for part in ipc_parts(sent)}
    assert sent.column("n").buffers()[1].address in addresses
