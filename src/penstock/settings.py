"""Settings of a session: ``SET penstock.x = value``, each with what it may be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

from penstock.errors import CatalogError
from penstock.streamon.algorithms import ALGORITHMS


@dataclass(frozen=True)
class Settings:
    """``filters``: the algorithm that orders the filters of select and the probes of mjoin.

    ``allocation``: how a join under WITHIN shares what is short between its sides.
    """

    filters: str = "a-greedy"
    allocation: str = "optimal"

    def changed(self, name: str, value: str) -> Settings:
        """With one setting changed."""
        key = name.lower().removeprefix("penstock.")
        if key not in CHOICES:
            near = get_close_matches(key, CHOICES, 1)
            known = ", ".join(f"penstock.{k}" for k in CHOICES)
            hint = f"did you mean 'penstock.{near[0]}'?" if near else f"there are: {known}"
            raise CatalogError(f"there is no setting {name!r}; {hint}")
        if value.lower() not in CHOICES[key]:
            raise CatalogError(f"{name} cannot be {value!r}; use one of {', '.join(CHOICES[key])}")
        return replace(self, **{key: value.lower()})


CHOICES: dict[str, tuple[str, ...]] = {
    "filters": tuple(ALGORITHMS),
    "allocation": ("optimal", "proportional", "inverse", "equal", "max-a", "max-b"),
}
