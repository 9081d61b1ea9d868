"""The plan of a query in which a join is sampled: rows with weights, aggregates as estimates with bounds.

Each operator says what it is over a sample (``Logical.estimated``), or that there is no unbiased estimate.
Only the sums over clusters that something above reads are computed: a first pass finds out which.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import logical
from penstock.plan.estimates import WEIGHT, Estimated, Sampling
from penstock.plan.logical import Logical, Project, ToStream


def is_sampled(root: Logical) -> bool:
    """Whether a plan samples a join."""
    return any(node.samples for node in logical.walk(root))


def sampled(root: Logical) -> tuple[Logical, tuple[str, ...]]:
    """The plan over samples of its joins, and notes on what is approximate; raises ``SampleError``."""
    first = Sampling()
    _shown(_over_sample(root, first), first)
    second = Sampling(first.requested, first.uses)
    return _shown(_over_sample(root, second), second), tuple(second.notes)


def _over_sample(node: Logical, sampling: Sampling) -> Estimated:
    below = [_over_sample(i, sampling) for i in node.inputs]
    if all(b.exact for b in below) and not node.samples:
        return Estimated(node, tuple(node.schema.names))
    return node.estimated(below, sampling)


def _shown(result: Estimated, sampling: Sampling) -> Logical:
    """The result with the bounds of its estimates, or the weights of its rows."""
    root = result.node
    top = root if isinstance(root, ToStream) else None
    named, _ = replace(result, node=top.input if top else root).as_columns(sampling)
    if result.weighted:
        name = "weight" if "weight" not in result.names else "sample_weight"
        named = (*named, (name, WEIGHT))
    shown = Project(top.input if top else root, named)
    return replace(top, input=shown) if top else shown
