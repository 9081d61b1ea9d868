"""Settings that can be changed while an engine runs.

They come as commands of the kind ``setting``, so that a rebuilt engine has them at the same step. None of
them changes a result, but for ``budget``, which follows from the logged commands alone.

>>> Knobs.of({"scheduler": "chain"}).scheduler
'chain'

A name such as ``filters@mjoin.7`` is that of one operator, which has it before what the query has:

>>> knobs = Knobs.of({"filters": "sweep", "filters@mjoin.7": "static"})
>>> knobs.of_operator("mjoin.7").filters, knobs.of_operator("select.3").filters
('static', 'sweep')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from penstock.errors import EngineError


@dataclass(frozen=True)
class Knobs:
    """What was changed; None: as the plan says.

    ``scheduler``, ``slice_rows`` (0: a step is one slice), ``memory_limit`` (bytes, 0: none) of the engine.
    ``filters``: the algorithm that orders filters and probes; ``profiling``: the share of dropped tuples that
    are profiled. ``access_method``: of windows, "adaptive" to choose. ``budget``: how many times the declared
    budget of the query it has. ``sharing``: "off" if every query of a pipeline has operators of its own, "on"
    if equal ones run once. ``publish_every``: seconds between publications, which the driver heeds.
    ``operators``: those of single operators, by the operator and the name of the setting.
    """

    scheduler: str | None = None
    slice_rows: int | None = None
    memory_limit: int | None = None
    filters: str | None = None
    profiling: float | None = None
    access_method: str | None = None
    budget: float = 1.0
    sharing: str | None = None
    publish_every: float | None = None
    operators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def of(settings: Mapping[str, Any]) -> Knobs:
        """The effect of all settings so far, by name."""
        unknown = [name for name in settings if not known(name)]
        if unknown:
            raise EngineError(
                f"setting {unknown[0]!r} is unknown to this version of Penstock; it knows: {', '.join(NAMES)}"
            )
        own: dict[str, dict[str, Any]] = {}
        for key, value in settings.items():
            name, _, operator = key.partition("@")
            own.setdefault(operator, {})[name] = value
        return Knobs(**own.pop("", {}), operators=own)

    def of_operator(self, id: str) -> Knobs:
        """As one operator reads them."""
        return replace(self, **self.operators[id]) if id in self.operators else self


NAMES = tuple(f.name for f in fields(Knobs) if f.name != "operators")
"""The settings that commands may have."""
OF_OPERATORS = ("filters", "profiling", "access_method")
"""Those that one operator may have for itself."""


def known(key: str) -> bool:
    """Whether a setting is known: by its name, or of an operator by ``name@operator``."""
    name, at, operator = key.partition("@")
    return (name in OF_OPERATORS and bool(operator)) if at else name in NAMES
