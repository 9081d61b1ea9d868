"""Queues between operators: chunks put by the producer, taken together by the consumer."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.element import Chunk


class Queue:
    """A queue of chunks."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._chunks: list[Chunk] = []
        self.elements = 0

    def put(self, chunk: Chunk) -> None:
        """Add a chunk at the end."""
        self._chunks.append(chunk)
        self.elements += len(chunk)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def take(self) -> Chunk:
        """Everything that waits, as one chunk."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else Chunk.concat(chunks, self._schema)
