"""The errors that users see: one sentence that says where, what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PenstockError(Exception):
    """Base of everything Penstock raises on purpose."""


class CQLError(PenstockError):
    """A mistake in CQL text, with the place it was found.

    >>> print(CQLError("unknown stream 'Q'", line=2, column=7, hint="did you mean 'C'?"))
    line 2, column 7: unknown stream 'Q'; did you mean 'C'?
    """

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, hint: str | None = None
    ) -> None:
        self.message, self.line, self.column, self.hint = message, line, column, hint
        where = f"line {line}, column {column}: " if line is not None else ""
        super().__init__(f"{where}{message}" + (f"; {hint}" if hint else ""))


class UnsupportedError(CQLError):
    """CQL that is recognised but not supported, with the reason."""


class CatalogError(PenstockError):
    """A wrong registration: no timestamp, a name already taken, a function that returns too few values."""


class PipelineError(PenstockError):
    """A query that a pipeline cannot take, or a pipeline that cannot be made so, and what to do."""


class DataError(PenstockError):
    """Input data that the query rejects: a null timestamp, an overflowing sum, a failing cast."""


class QueryFailed(PenstockError):
    """A running query that failed, with the reason. ``trace`` has all that Spark says about it."""

    trace: str = ""


class EngineError(PenstockError):
    """A failure of the run time: a defect of Penstock or of the machine, not a mistake of the user."""


def nearest(name: str, candidates: Iterable[str], similarity: float | None = None) -> str | None:
    """The candidate that a misspelt name may mean, whatever its case; ``similarity``: the least, from 0 to 1.

    >>> nearest("SISE", ["pid", "size"])
    'size'
    """
    by_folded = {c.casefold(): c for c in candidates}
    least = {} if similarity is None else {"cutoff": similarity}
    near = get_close_matches(name.casefold(), by_folded, 1, **least)
    return by_folded[near[0]] if near else None
