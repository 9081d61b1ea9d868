"""The logical plan: a bound query in the papers' algebra, one operator per file.

``operator.py`` is the contract. An operator need not be listed here: nothing looks it up.
"""

from penstock.functions.aggregate_call import AggregateCall
from penstock.plan.logical.aggregate import Aggregate
from penstock.plan.logical.bounded_window import BoundedWindow
from penstock.plan.logical.budgeted import Budgeted
from penstock.plan.logical.distinct import Distinct, Single
from penstock.plan.logical.expand import Expand
from penstock.plan.logical.join import AnyJoin, Join
from penstock.plan.logical.operator import Leaf, Logical, Query, leaves, rewrite, show, walk
from penstock.plan.logical.outer_join import OuterJoin
from penstock.plan.logical.project import Project, renamed
from penstock.plan.logical.rank import RANKS, Rank, SortKey
from penstock.plan.logical.select import Select
from penstock.plan.logical.semi_join import SemiJoin
from penstock.plan.logical.set_operation import SetOperation
from penstock.plan.logical.sources import (
    Exchange,
    RelationSource,
    Source,
    StreamSource,
    TableSource,
    numbered,
    sources,
)
from penstock.plan.logical.to_stream import ToStream
from penstock.plan.logical.values import Values
from penstock.plan.logical.w_join import WindowGraph, WJoin
from penstock.plan.logical.window import Window, WindowSpec

__all__ = [
    "RANKS",
    "Aggregate",
    "AggregateCall",
    "AnyJoin",
    "BoundedWindow",
    "Budgeted",
    "Distinct",
    "Exchange",
    "Expand",
    "Join",
    "Leaf",
    "Logical",
    "OuterJoin",
    "Project",
    "Query",
    "Rank",
    "RelationSource",
    "Select",
    "SemiJoin",
    "SetOperation",
    "Single",
    "SortKey",
    "Source",
    "StreamSource",
    "TableSource",
    "ToStream",
    "Values",
    "WJoin",
    "Window",
    "WindowGraph",
    "WindowSpec",
    "leaves",
    "numbered",
    "renamed",
    "rewrite",
    "show",
    "sources",
    "walk",
]
