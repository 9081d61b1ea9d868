"""When a store frees the rows that no reader needs any more: active and lazy invalidation (Kang et al.).

*Active*: at the end of every step. *Lazy*: not before the window is probed; the rows that have piled up by
then are freed at once, before the probe. Lazy makes fewer invalidations where a window is probed seldom, and
takes memory for the rows that are still there. Those are never seen: a probe compares lives. They are also
freed when they have filled the room that lazy may take, since nobody may probe a window for long.

Each reader that probes a store says what it prefers; a store is lazy if all of these are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from penstock.engine.settings import LAZY_ROOM, MIN_STORE_ROWS

if TYPE_CHECKING:
    from penstock.engine.synopses.store import Store


class Invalidation:
    """Active invalidation."""

    name: ClassVar[str] = "active"

    def due(self, store: Store) -> bool:
        """Whether to free rows at the end of a step."""
        return True


class Lazy(Invalidation):
    """Lazy invalidation; a store that was freed of expired rows has grown by ``LAZY_ROOM`` at most."""

    name = "lazy"

    def due(self, store: Store) -> bool:
        return store.next - store.base > max(LAZY_ROOM * store.settled, MIN_STORE_ROWS)


ACTIVE, LAZY = Invalidation(), Lazy()
INVALIDATIONS: dict[str, Invalidation] = {i.name: i for i in (ACTIVE, LAZY)}
"""The policies by name."""


def agreed(preferred: Iterable[Invalidation | None]) -> Invalidation:
    """What a store does whose readers prefer these; None of a reader that does not probe."""
    found = {p for p in preferred if p is not None}
    return LAZY if found == {LAZY} else ACTIVE
