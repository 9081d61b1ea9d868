"""explain: the plan as text, from what Spark does before the first stage to the result.

>>> print(explain(plan))                                              # doctest: +SKIP
result   relation: a changelog with ts, op, total; shown when an instant is complete
filled in
  ...
spark    C  scan, keep pid, size; filter size > 10 in Catalyst; to 2 partitions by hash of C.pid
stage 1  on 2 partitions
  ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.cost.model import ByCost
from penstock.engine.joins.inputs import BY_EQUALITY, BY_RANGE
from penstock.engine.operator import Node
from penstock.engine.operators.i_stream import holds_results
from penstock.engine.operators.mjoin import MJoin
from penstock.engine.operators.source import Source
from penstock.engine.stage import Scheduling
from penstock.plan.growth import growing
from penstock.plan.physical import ExchangeInput, PhysicalPlan, PlannedStage, SourceInput, TableInput
from penstock.plan.settings import WINDOW_ROWS
from penstock.routing import Axis, Route
from penstock.schema import TimeDomain


def explain(plan: PhysicalPlan, costs: bool = True) -> str:
    """The whole plan, with the costs of its joins' probes on this machine."""
    return "\n".join([*_lines(plan), *(_costs(plan) if costs else ())])


def _lines(plan: PhysicalPlan) -> Iterator[str]:
    yield f"result   {_result(plan)}"
    yield from (f"warning  {text}" for text in plan.warnings)
    if plan.notes:
        yield "filled in"
        yield from (f"  {note}" for note in plan.notes)
    for number, planned in enumerate(plan.stages, start=1):
        yield from _hosts(planned)
        many = "1 partition" if planned.partitions == 1 else f"{planned.partitions} partitions"
        yield f"stage {number}  on {many}" + (f": {planned.why}" if planned.why else "")
        yield from (f"  [{note}]" for note in (*planned.notes, *_scheduling(planned.stage.scheduling)))
        yield from tree(planned.stage.root, "  ", set())
    grows = growing(plan)
    if grows:
        yield "state    grows without end"
        yield from (f"  {g.sentence}" for g in grows)


def _scheduling(how: Scheduling) -> Iterator[str]:
    if how != Scheduling():
        rows = "" if how.slice_rows is None else f", slices of {how.slice_rows:,} rows"
        yield f"scheduler {how.scheduler}{rows}"


def explain_stage(planned: PlannedStage) -> Iterator[str]:
    """The inputs of a stage and each operator with its inputs, each line readable by itself."""
    yield from (" ".join(line.split()) for line in _hosts(planned))
    lines = (line for root in planned.stage.roots.values() for line in _operator_lines(root))
    yield from dict.fromkeys(lines)


def _operator_lines(node: Node) -> Iterator[str]:
    if node.inputs:
        yield f"{node.name} {node.describe()}".rstrip() + f" of {', '.join(_leaves(node))}"
    for below in node.inputs:
        yield from _operator_lines(below)


def _leaves(node: Node) -> list[str]:
    """The inputs that an operator's rows are made of, by name."""
    below = [name for input in node.inputs for name in _leaves(input)]
    return list(dict.fromkeys(below)) if node.inputs else [node.describe()]


def _hosts(planned: PlannedStage) -> Iterator[str]:
    return (_host(incoming, planned.partitions) for incoming in planned.inputs)


def _result(plan: PhysicalPlan) -> str:
    names = ", ".join(["ts", *(["op"] if plan.kind == "relation" else []), *plan.schema.names])
    kind = "a stream with" if plan.kind == "stream" else "a relation: a changelog with"
    when = "when an instant is complete" if _waits(plan.stages) else "at once, as results are found"
    return f"{kind} {names}; shown {when}"


def _waits(stages: tuple[PlannedStage, ...]) -> bool:
    return any(s.stage.waits or holds_results(s.stage.root) for s in stages)


def _host(incoming: SourceInput | TableInput | ExchangeInput, partitions: int) -> str:
    if isinstance(incoming, ExchangeInput):
        return f"exchange {incoming.name}, {described_input(incoming, partitions)}"
    return f"spark    {incoming.alias}: {described_input(incoming, partitions)}"


def described_input(incoming: SourceInput | TableInput | ExchangeInput, partitions: int) -> str:
    """What the host does with an input of a stage: columns, filter, and where rows go."""
    if isinstance(incoming, ExchangeInput):
        return _spread(incoming.partition_by, partitions)
    columns = (
        ", ".join(name.removeprefix(f"{incoming.alias}.") for name, _ in incoming.columns)
        or "only timestamps"
    )
    parts = [f"columns {columns}"]
    if incoming.filter is not None:
        parts.append(f"filter {incoming.filter} in Catalyst")
    if isinstance(incoming, SourceInput):
        parts.append(routed(incoming.route, incoming.stream.options.time))
    else:
        every = incoming.table.refresh_every
        again = "at every start" if every is None else f"every {every:g} seconds"
        parts.append(f"read {again}, whole in every partition")
    return "; ".join(parts)


def routed(route: Route, time: TimeDomain | None = None) -> str:
    """Where a stream's rows go: the hash that chooses, the copies made of a row, the places sent to all."""
    if route.partitions == 1:
        return "to one partition"
    if not route.own:
        return f"broadcast to {route.partitions} partitions"
    axes = [f"{a.share} {_chosen(a, time)}" for a in route.own]
    if len(route.axes) == 1:
        many, _, how = axes[0].partition(" ")
        text = f"to {many} partitions {how}"
    else:
        text = f"to {route.partitions} partitions: {' × '.join(axes)}"
    copies = f", {route.copies} copies of each row" if route.copies > 1 else ""
    return text + copies + (", places of all rows to all" if route.places is not None else "")


def _chosen(axis: Axis, time: TimeDomain | None) -> str:
    """What chooses a row's coordinate."""
    if axis.by_row:
        return "by row"
    if axis.slice is not None:
        length, age = (f"{n} ticks" if time is None else time.length(n) for n in (axis.slice, axis.age))
        return f"by time, in slices of {length}, and to the slices up to {age} before"
    keys = ", ".join(map(str, axis.keys))
    if axis.by_source:
        return f"as the source has them by {keys}"
    heavy = [("by row", axis.spread), ("to all", axis.everywhere)]
    apart = "".join(f", of {', '.join(map(str, values))} {how}" for how, values in heavy if values)
    return f"by hash of {keys}{apart}"


def _spread(keys: tuple[str, ...], partitions: int) -> str:
    if partitions == 1 or not keys:
        return "to one partition"
    return f"to {partitions} partitions by hash of {', '.join(keys)}"


def tree(
    node: Node, indent: str, shown: set[int], remark: Callable[[Node], str] = lambda node: ""
) -> Iterator[str]:
    """An operator and its inputs; one with several readers runs once and is shown in full once."""
    line = f"{indent}{node.name} {node.describe()}".rstrip() + remark(node)
    if id(node) in shown:
        yield f"{line} (the one above)"
        return
    shown.add(id(node))
    yield line
    yield from (f"{indent}  [{detail}]" for detail in node.details())
    for below in node.inputs:
        yield from tree(below, indent + "  ", shown, remark)


def _costs(plan: PhysicalPlan) -> Iterator[str]:
    joins = [j for planned in plan.stages for j in _joins(planned.stage.root, set())]
    inputs = (i for planned in plan.stages for i in planned.inputs if isinstance(i, SourceInput))
    rates = Rates({i.name: i.stream.options.rate for i in inputs}, plan.time.ticks_per_second)
    lines = [line for join in joins for line in _join_costs(join, rates)]
    if lines:
        yield "costs    of an arriving row and those that probe meanwhile; chosen again while the query runs"
        yield from (f"  {line}" for line in lines)


def _joins(node: Node, seen: set[int]) -> Iterator[MJoin]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, MJoin) and node.probes_by_cost:
        yield node
    for below in node.inputs:
        yield from _joins(below, seen)


@dataclass(frozen=True)
class Rates:
    """The declared rates of the inputs, in rows per second; None where none is declared."""

    declared: Mapping[str, float | None]
    ticks_per_second: int

    def rate(self, part: Node) -> float | None:
        """The rate of a join's input that is a window over one stream."""
        while len(part.inputs) == 1:
            part = part.inputs[0]
        return self.declared.get(part.input) if isinstance(part, Source) else None

    def window(self, part: Node) -> tuple[int, str]:
        """The rows that an input of a join holds, and how that is known."""
        known, rate = part.holds(None), self.rate(part)
        if known is not None:
            return known, ""
        by_rate = part.holds(None if rate is None else rate / self.ticks_per_second)
        return (WINDOW_ROWS, " (assumed)") if by_rate is None else (by_rate, " (by the declared rate)")


def _join_costs(join: MJoin, rates: Rates) -> Iterator[str]:
    """The cost of probing each window of a join, by the cheapest access method and by the next.

    Each direction is chosen alone (Kang et al., section 4.1), by how often the window is probed, how often it
    changes and how large it is. A running engine chooses again, with the rates it measures.
    """
    if not isinstance(join.chooser, ByCost):
        return
    for i, label in enumerate(join.labels):
        if i == join.passing:
            continue
        equal = any(k == i for c in join.classes for k, _ in c)
        if equal or any(i in b.inputs for b in join.bands):
            methods = BY_EQUALITY if equal else BY_RANGE
            each = [rates.rate(p) for p in (join.parts[i], *join.parts[:i], *join.parts[i + 1 :])]
            yield f"into {label}: {_direction(join.chooser, methods, *rates.window(join.parts[i]), each)}"


def _direction(
    chooser: ByCost, methods: Sequence[str], window: int, known: str, rates: Sequence[float | None]
) -> str:
    """The costs of a window of so many rows; ``rates``: its own, and those of the inputs that probe it."""
    own, *others = (r or 0.0 for r in rates)
    probes = sum(others) / own if own and all(rates) else 1.0
    (best, cost), *more = chooser.costs(probes, 1, window, chooser.among(methods)).items()
    at = f" and {probes:,.3g} probes per arrival" if probes != 1 else ""
    text = f"{best}, {cost * 1e9:.0f} ns with {window:,} rows{known}{at}"
    if not more:
        return f"{text}; set by penstock.access_method"
    text += f"; next {more[0][0]}, {more[0][1] * 1e9:.0f} ns"
    idle = min(methods, key=lambda m: chooser.costs(0, 1, window, (m,))[m])
    ratio = chooser.crossover(best, idle, window) if idle != best else 0.0
    return text + (f"; {idle} from {1 / ratio:,.0f} arrivals per probe on" if 0 < ratio < 1 else "")
