"""Settings that can be changed while an engine runs.

They come as commands of the kind ``setting``, so that a rebuilt engine has them at the same step. None of
them changes a result, but for ``budget``, which follows from the logged commands alone.

>>> Knobs.of({"scheduler": "chain"}).scheduler
'chain'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock.errors import EngineError


@dataclass(frozen=True)
class Knobs:
    """What was changed; None: as the plan says.

    ``scheduler``, ``slice_rows`` (0: a step is one slice), ``memory_limit`` (bytes, 0: none) of the engine.
    ``filters``: the algorithm that orders filters and probes; ``profiling``: the share of dropped tuples that
    are profiled. ``access_method``: of windows, "adaptive" to choose. ``budget``: how many times the declared
    budget of the query it has. ``publish_every``: seconds between publications, which the driver heeds.
    """

    scheduler: str | None = None
    slice_rows: int | None = None
    memory_limit: int | None = None
    filters: str | None = None
    profiling: float | None = None
    access_method: str | None = None
    budget: float = 1.0
    publish_every: float | None = None

    @staticmethod
    def of(settings: Mapping[str, Any]) -> Knobs:
        """The effect of all settings so far, by name."""
        unknown = [name for name in settings if name not in NAMES]
        if unknown:
            raise EngineError(
                f"setting {unknown[0]!r} is unknown to this version of Penstock; it knows: {', '.join(NAMES)}"
            )
        return Knobs(**settings)


NAMES = tuple(f.name for f in fields(Knobs))
"""The settings that commands may have."""
