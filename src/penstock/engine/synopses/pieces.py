"""Tuples that wait for something, as few chunks: a tuple is copied only as often as pieces are merged."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.element import Chunk


def put(pieces: list[Chunk], new: Chunk, schema: pa.Schema) -> None:
    """Add a chunk at the end; pieces are merged with later ones that are not much smaller.

    So there are about as many pieces as the number of tuples has bits, and that often a tuple is copied.
    """
    if not len(new):
        return
    pieces.append(new)
    while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
        later = pieces.pop()
        pieces[-1] = Chunk.concat([pieces[-1], later], schema)


def nbytes(pieces: list[Chunk]) -> int:
    """Bytes of the payload, timestamps, ends or row ids, and signs."""
    return sum(c.columns.nbytes + 17 * len(c) for c in pieces)
