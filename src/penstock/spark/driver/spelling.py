"""The DataFrame of a query, and how it goes on from the checkpoint of an equal one in another spelling.

State fits the plan that made it: the order of columns in it, the hash by which rows are divided. So a query
whose checkpoint was written by another text of the same meaning (:mod:`penstock.plan.meaning`) runs that
text's plan, under its own names and order of the columns.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock import cql
from penstock.catalog import Definition
from penstock.errors import PenstockError
from penstock.plan import compile
from penstock.plan.logical import Query
from penstock.plan.meaning import meaning
from penstock.plan.physical import PhysicalPlan
from penstock.settings import Settings
from penstock.spark.driver.dataframe import dataframe, result_schema
from penstock.spark.driver.query_frame import QueryFrame

_log = logging.getLogger("penstock")


def frame(
    query: Query, text: str, catalog: Mapping[str, Definition], partitions: int, settings: Settings
) -> QueryFrame:
    """The streaming DataFrame of a bound query; the catalog is that which it was bound with."""
    plan, known = compile(query, partitions, settings), dict(catalog)
    for warning in plan.warnings:
        _log.warning("%s", warning)

    def spelled(other: str) -> QueryFrame | None:
        try:
            before = cql.bind(other, known)
            places = meaning(query).places_in(meaning(before))
            if places is None:
                return None
            written = compile(before, partitions, settings)
        except PenstockError:
            return None  # the declarations have changed since, and the fingerprints tell what
        return dataframe(written, settings, other, columns=_columns(plan, places))

    return dataframe(plan, settings, text, spelled)


def _columns(plan: PhysicalPlan, places: list[int]) -> list[tuple[int, str]]:
    """Where the columns of a plan are in the result of another, with their names."""
    names = result_schema(plan).names
    own = len(names) - len(places)  # ts, and op of a relation
    return list(zip([*range(own), *(own + place for place in places)], names, strict=True))
