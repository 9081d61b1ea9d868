"""Which inputs of a plan have state that grows without end, and why, as the operators answer."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.operator import Node, nodes
from penstock.engine.operators.source import Source
from penstock.plan.physical import PhysicalPlan
from penstock.plan.second_stage import stage_name


@dataclass(frozen=True)
class Growing:
    """A sentence on state that grows; ``per_group``: it has a bound if the number of groups has one."""

    sentence: str
    per_group: bool


def growing(plan: PhysicalPlan) -> list[Growing]:
    """All state of a plan that grows without end."""
    found: dict[Growing, None] = {}
    names: dict[str, list[str]] = {}
    for number, planned in enumerate(plan.stages):
        root = planned.stage.root
        for node in nodes(root):
            for growth in node.growth():
                of = " and ".join(_streams(growth.input, names))
                why = "bounded if their number is" if growth.per_group else "no window ends them"
                found[Growing(f"{node.name} keeps {growth.keeps} of {of}: {why}", growth.per_group)] = None
        names[stage_name(number)] = _streams(root, names)
    return list(found)


def _streams(node: Node, stages: dict[str, list[str]]) -> list[str]:
    """The inputs whose rows a relation accumulates; ``stages`` has those of earlier stages."""
    sources = [n for n in nodes(node) if isinstance(n, Source) and not n.is_static]
    names = [name for s in sources for name in stages.get(s.input, [s.input])]
    return list(dict.fromkeys(names))
