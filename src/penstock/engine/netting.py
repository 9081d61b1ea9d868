"""Net changes per instant: equal tuples that enter and leave at one instant cancel.

R(τ) is known only when all elements of τ have arrived; the output is the bag differences R(τ) − R(τ−1) and
R(τ−1) − R(τ). Works on chunks that hold whole instants, in timestamp order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.element import BEFORE_TIME, Bools, Chunk, Int64s
from penstock.engine.kernels.hashing import hash_rows
from penstock.engine.kernels.netting import opposed
from penstock.engine.operator import Clock
from penstock.engine.synopses.directory import Directory


def settled(chunk: Chunk, clock: Clock) -> Chunk:
    """A relation's changes as they are output: in order and net, static rows from the first instant on."""
    if clock.first is not None and len(chunk) and chunk.ts.min() == BEFORE_TIME:
        chunk = replace(chunk, ts=np.maximum(chunk.ts, clock.first))
    return net(chunk.in_order())


def net(chunk: Chunk) -> Chunk:
    """The elements that remain, in their order."""
    if not len(chunk) or chunk.sign.min() == chunk.sign.max():
        return chunk
    # Few elements have an opposite that is equal in the columns that hash fast; only they are compared.
    hashes = hash_rows(_quick(chunk.columns.columns), len(chunk))
    places = np.flatnonzero(opposed(chunk.ts, hashes, chunk.sign))
    if not len(places):
        return chunk
    some = chunk.take(places)
    numbers = Directory([f.type for f in some.columns.schema]).assign(some.columns.columns, len(some))
    keep = np.ones(len(chunk), np.bool_)
    keep[places] = _survivors(some.ts, numbers, some.sign)
    return chunk.where(keep)


def _quick(columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """Those of fixed width, or all if there are none."""
    return [c for c in columns if pa.types.is_primitive(c.type)] or columns


def _survivors(ts: Int64s, numbers: Int64s, sign: np.ndarray) -> Bools:
    """For each (instant, tuple) as many elements as the net count: the last ones of its sign."""
    order = np.lexsort((numbers, ts))
    ts, numbers, sign = ts[order], numbers[order], sign[order].astype(np.int64)
    starts = np.flatnonzero(np.r_[True, (ts[1:] != ts[:-1]) | (numbers[1:] != numbers[:-1])])
    lengths = np.diff(np.r_[starts, len(ts)])
    total = np.repeat(np.add.reduceat(sign, starts), lengths)
    wins = sign == np.sign(total)
    # Rank of each winner counted from the end of its run.
    seen = np.cumsum(wins)
    last = np.repeat(seen[starts + lengths - 1], lengths)
    keep = np.empty(len(ts), np.bool_)
    keep[order] = wins & (last - seen < np.abs(total))
    return keep
