"""The time line of decisions: what engines published of their plan logs, and settings that were changed.

Engines publish the newest decisions with every batch, by number; the time of one is that of the measurement
that first had it. A rebuilt engine counts again from 1, which is seen by a smaller count of changes.
"""

from __future__ import annotations

import threading
from collections import deque

from penstock.measurement import Kind, Measurements, Property, name_of, parent_of
from penstock.server.plans import node_id
from penstock.server.settings import MOST_DECISIONS
from penstock.server.views import DecisionView

_KINDS = {
    "order": "order",
    "filters": "order",
    "matches": "first matches",
    "caches": "caches",
    "budget": "budget",
}


class Decisions:
    """The newest decisions of all queries, oldest first."""

    def __init__(self) -> None:
        self._found: deque[DecisionView] = deque(maxlen=MOST_DECISIONS)
        self._seen: dict[tuple[str, int, int, str], int] = {}
        self._plans: dict[tuple[str, int, int, str], str] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def observe(self, run: str, query: str, found: Measurements) -> None:
        """Take in the latest measurements of a query's engines."""
        with self._lock:
            for (_, stage, partition), engine in found.by_engine().items():
                for path, made in engine.of_kind(Kind.DECISION).by_entity().items():
                    place = run, stage, partition, parent_of(path)
                    number = int(name_of(path))
                    if number > self._seen.get(place, 0):
                        self._seen[place] = number
                        self._add(query, place, number, made)
                self._first_orders(run, stage, partition, engine)
                self._methods(query, run, stage, partition, engine)
                if (stage, partition) == (1, 0):
                    self._set(query, run, engine)

    def _set(self, query: str, run: str, engine: Measurements) -> None:
        """Settings that an engine has begun to use, or used already when it was first looked at."""
        texts = [m.text.partition(" = ") for m in engine.of(Property.SETTING)]
        now = {name: value for name, _, value in texts}
        before = self._settings.get(run, {})
        for name in (n for n in now if now[n] != before.get(n)):
            at = engine[0].time / 1e6
            change = (before.get(name, ""), now[name])
            self._found.append(DecisionView(query, at, "setting", name, -1, 0, *change))
        self._settings[run] = now

    def _first_orders(self, run: str, stage: int, partition: int, engine: Measurements) -> None:
        """Note the orders before any decision, so that the first one is known to have changed them."""
        for path, own in engine.of_kind(Kind.ADAPTIVE).by_entity().items():
            if own.has(Property.ORDER):
                self._plans.setdefault((run, stage, partition, path), ", ".join(own.texts(Property.ORDER)))

    def _add(self, query: str, place: tuple[str, int, int, str], number: int, made: Measurements) -> None:
        _, stage, partition, path = place
        plan = made.text(Property.DECIDED_AT)
        self._found.append(
            DecisionView(
                query,
                made[0].time / 1e6,
                _KINDS.get(name_of(path), "algorithm"),
                node_id(stage, path),
                partition,
                number,
                self._plans.get(place, ""),
                plan,
                made.value(Property.GAIN),
                int(made.value(Property.DECIDED_AT)),
                bool(made.value(Property.FROM_LOG)),
                made.values(Property.STATISTIC),
            )
        )
        self._plans[place] = plan

    def _methods(self, query: str, run: str, stage: int, partition: int, engine: Measurements) -> None:
        """Changes of access methods, whose statistics are the costs of each method."""
        for path, own in engine.of_kind(Kind.ADAPTIVE).by_entity().items():
            if not own.has(Property.METHOD):
                continue
            place, method = (run, stage, partition, path), own.text(Property.METHOD)
            before = self._plans.get(place)
            self._plans[place] = method
            if before is not None and before != method:
                number = self._seen[place] = self._seen.get(place, 0) + 1
                costs = own.values(Property.COST)
                gain = 1 - costs[method] / costs[before] if costs.get(before) and method in costs else 0.0
                at = int(own.value(Property.PROBES))
                entity = node_id(stage, path)
                self._found.append(
                    DecisionView(
                        query, own[0].time / 1e6, "access method", entity, partition, number, before, method,
                        gain, at, statistics=costs,
                    )
                )  # fmt: skip

    def of(self, query: str = "", since: float = 0.0) -> list[DecisionView]:
        """Those of one query, or of all, after a time."""
        with self._lock:
            return [d for d in self._found if query in ("", d.query) and d.time > since]

    def forget(self, runs: set[str]) -> None:
        """Drop what is known of the engines of other runs; their decisions stay until newer ones come."""
        with self._lock:
            self._seen = {k: v for k, v in self._seen.items() if k[0] in runs}
            self._plans = {k: v for k, v in self._plans.items() if k[0] in runs}
            self._settings = {k: v for k, v in self._settings.items() if k in runs}
