"""A batch as the parts of an Arrow IPC stream: its own buffers, and what stands between them.

The results of a step are the most that an engine sends. A socket takes parts one after another, so there is
no need to copy them into one buffer first.
"""

from __future__ import annotations

import io

import pyarrow as pa

_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)


class _Parts(io.RawIOBase):
    """Keeps what is written as it is; Arrow hands over its buffers without a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[memoryview] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        self.parts.append(view)
        self._size += view.nbytes
        return view.nbytes


def ipc_parts(batch: pa.RecordBatch) -> list[memoryview]:
    """What ``pa.ipc.open_stream`` reads, in parts; they hold on to the batch's memory."""
    sink = _Parts()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), batch.schema, options=_PLAIN) as writer:
        writer.write_batch(batch)
    return sink.parts
