"""The answers of an engine's last step, kept for whoever asks for the same step again.

Spark runs a stage again for every action of a ``foreachBatch`` (``batch.isEmpty()``, then the write), and in
speculation. The second task has the version from before the step, and the same record. The engine, which is
one version ahead, returns what it returned before, so that the task writes the same to its log, and nothing
is replayed. Answers of many bytes are in a file without a name, which goes with the engine.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.spark.settings import LAST_STEP_BYTES
from penstock.spark.wire.protocol import Kind

Reply = tuple[Kind, Any, Sequence[Any]]


@dataclass
class LastStep:
    """A step: its version, the digest of the records before it and that of its own, and the answers so far.

    ``in_memory``: the bytes of those that are not in a file. ``lost``: one could not be kept.
    """

    version: int
    base: str
    record: str
    in_memory: int = 0
    lost: bool = False
    _answers: dict[Kind, Reply] = field(default_factory=dict)

    @staticmethod
    def of(head: dict[str, Any]) -> LastStep:
        """The step that a message asks for; nothing was answered yet."""
        return LastStep(head["version"], head["base"], head["record"])

    def is_of(self, head: dict[str, Any]) -> bool:
        """Whether a message asks for this step, and it was answered."""
        same = (self.version, self.base, self.record) == (head["version"], head["base"], head["record"])
        return same and self.has(Kind.RESULT) and not self.lost

    def has(self, kind: Kind) -> bool:
        """Whether there is an answer of this kind."""
        return kind in self._answers

    def answer(self, kind: Kind) -> Reply:
        """The answer of this kind, as it was given."""
        return self._answers[kind]

    def note(self, reply: Reply) -> Reply:
        """Keep an answer, and return it."""
        self._answers[reply[0]] = reply
        return reply

    def keep(self, parts: Sequence[Any]) -> Sequence[Any]:
        """The parts of an answer, in memory if they are few bytes."""
        size = sum(memoryview(part).nbytes for part in parts)
        if self.in_memory + size <= LAST_STEP_BYTES:
            self.in_memory += size
            return parts
        try:
            return [_on_disk(parts, size)]
        except OSError:
            self.lost = True
            return parts


def _on_disk(parts: Sequence[Any], size: int) -> memoryview:
    with tempfile.TemporaryFile() as file:
        for part in parts:
            file.write(part)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
