"""The join of inputs whose constraints are found while it runs (``monitored``, ``safe``).

A step is cut where garbage is collected, after a number of rows that follows from the rows before and at the
end of an instant. So what is dropped does not depend on where steps end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from penstock.engine.element import Chunk
from penstock.engine.joins.constrained_join import ConstrainedJoin
from penstock.engine.joins.monitored import MonitoredKMon
from penstock.engine.joins.safe import SafeKMon
from penstock.engine.operator import Clock


class MonitoredJoin(ConstrainedJoin):
    """A running join whose constraints are found."""

    format = 4
    retention: MonitoredKMon

    def _new_retention(self) -> MonitoredKMon:
        found = self._node.constraints
        assert found is not None
        return (SafeKMon if found.use.safe else MonitoredKMon)(self._inputs, found, self._changing)

    def run(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        out = Chunk.concat(list(self._parts(inputs, clock)), self._schema)
        self.retention.settle(clock)
        self._inputs.reconsider()
        self._results += len(out)
        return out

    def _parts(self, inputs: Sequence[Chunk], clock: Clock) -> Iterator[Chunk]:
        """The results of each part of the step."""
        inputs = [c.in_order() for c in inputs]
        times = np.sort(np.concatenate([c.ts[c.sign > 0] for c in inputs[: len(self._inputs)]]))
        begin, at = clock.before, 0
        while len(times) - at >= (due := max(self.retention.due(), 1)):
            last = int(times[at + due - 1])
            yield self._part(inputs, replace(clock, before=begin, now=last + 1))
            self.retention.look(last + 1)
            begin, at = last + 1, int(np.searchsorted(times, last, "right"))
        yield self._part(inputs, replace(clock, before=begin))

    def _part(self, inputs: Sequence[Chunk], clock: Clock) -> Chunk:
        edges = [np.searchsorted(c.ts, (clock.before, clock.now)) for c in inputs]
        chunks = [c.slice(*e) for c, e in zip(inputs, edges, strict=True)]
        rows = len(self._inputs)
        self.retention.begin(clock.before, sum(int((c.sign > 0).sum()) for c in chunks[:rows]))
        self.retention.counted(chunks[rows:])
        return self._join(chunks[:rows], clock)
