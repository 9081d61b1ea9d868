"""How long the stores of a join keep rows: one policy per join, beyond their lives or short of them.

A row's *life* says when it is in the relation and is the same under every policy. *Retention* says when its
store may free it. A policy observes all that happens to the rows and, at the end of a step, frees what it
does not need: by ``Stub.advance`` what has ended by some instant, by ``Store.drop`` rows of its choice. A row
is kept

* *window*: until its life has ended (:class:`Retention`);
* *W-join bound*: until no window between streams reaches it (:class:`BetweenStreams`);
* *constraints*: while a result to come may contain it (:class:`penstock.engine.joins.k_mon.KMon`), by those
  that were found while probably one may (:class:`penstock.engine.joins.monitored.MonitoredKMon`);
* *budget*: while a budget's policy chooses it (:class:`penstock.engine.joins.budget.WithinBudget`).

Only a budget and monitored constraints lose results. Overflow to disk is no policy of a join: it moves what
is kept, of all operators (:mod:`penstock.engine.overflow`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from penstock.engine.element import FOREVER, Chunk, Int64s
from penstock.engine.joins.inputs import JoinInputs
from penstock.engine.joins.tuples import Tuples
from penstock.engine.operator import Clock
from penstock.engine.snapshot import Stateful
from penstock.measurement import Reading


class Retention(Stateful):
    """Keeps rows for their lives."""

    is_replayable: ClassVar[bool] = True
    """Whether a replay of the rows that are kept leads to the same state; if not, a rebuild loads it."""

    def __init__(self, inputs: JoinInputs) -> None:
        self._inputs = inputs

    def counted(self, chunks: Sequence[Chunk]) -> None:
        """All rows of the streams that are counted for the join, before those of its inputs."""
        return

    def admitted(self, i: int, chunk: Chunk, now: int) -> Chunk:
        """Of the new elements of input i those that enter; all instants before ``now`` are complete."""
        return chunk

    def arrived(self, i: int, rows: Int64s) -> None:
        """New rows of input i, before they probe."""
        return

    def found(self, tuples: Tuples) -> None:
        """Results that new rows found."""
        return

    def settle(self, clock: Clock) -> None:
        """A step is over: free what is no longer needed.

        Rows that end at ``now`` are kept a tick longer: they may cancel ones that enter at that instant.
        """
        self._inputs.advance(clock.now)

    def rows(self) -> int:
        """Rows that it holds beside the stores."""
        return 0

    def bytes(self) -> int:
        """Memory that it takes beside the stores."""
        return 0

    def measure(self, labels: Sequence[str]) -> Iterator[Reading]:
        """What it kept and dropped; the inputs have these labels."""
        return iter(())


class BetweenStreams(Retention):
    """The bound of a W-join: of each input, lives end ``spare`` ticks later than its rows are needed."""

    def __init__(self, inputs: JoinInputs, spare: Sequence[int]) -> None:
        super().__init__(inputs)
        self._spare = spare or (0,) * len(inputs)

    def settle(self, clock: Clock) -> None:
        for stub, spare in zip(self._inputs.stubs, self._spare, strict=True):
            stub.advance(min(clock.now, int(FOREVER) - spare) + spare)
