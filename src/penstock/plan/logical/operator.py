"""The contract of a logical operator: a frozen class with all properties that planning needs.

The binder in ``cql`` builds the plan, the rules in ``plan/rules`` rewrite it, ``compile`` spreads it and
builds what ``engine`` runs. None of them lists the operators: they call these methods. The defaults are right
for any operator, and slow: it changes in any way, runs on one partition, and cannot be shared by two stages.
``Unary`` and ``PerRow`` have better ones.

Column names are unique within a node's schema. Below the topmost project they are qualified by the
alias under which their source appears (``"C.pid"``); the topmost project gives them their output names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.constraint import Use
from penstock.engine.element import Pattern
from penstock.expression import Column, Expression
from penstock.plan.distribution import EVERYWHERE, Distribution, Spread, SpreadError, TwoPhases
from penstock.plan.estimates import Estimated, SampleError, Sampling
from penstock.plan.facts import NotNull, Origin, Origins
from penstock.schema import TimeDomain

if TYPE_CHECKING:
    from penstock.engine.operator import Node
    from penstock.plan.build import Builder
    from penstock.plan.logical.sources import StreamSource
    from penstock.plan.logical.window import Window
    from penstock.plan.meaning import Meant, Reader

Needed = Collection[str]
"""The columns of an operator's output that someone reads."""


UniqueKey = tuple[tuple[str, ...], bool]
"""Columns of a key, and whether a key is never used again; if not, no two rows have it at any instant."""


@dataclass(frozen=True)
class StreamRows:
    """Rows of a stream: its columns by their names here, the filters they passed, and the size of their row
    window, if they are in one that is not partitioned.
    """

    source: StreamSource
    names: Mapping[str, str]
    filters: tuple[Expression, ...] = ()
    window_rows: int | None = None


@dataclass(frozen=True)
class Logical(ABC):
    """A logical operator."""

    is_stream: ClassVar[bool] = False
    """Whether it yields a stream instead of a relation."""
    in_chain: ClassVar[bool] = False
    """Whether it may stand in the chain of operators with one input above a query's body."""

    # structure

    @property
    @abstractmethod
    def inputs(self) -> tuple[Logical, ...]:
        """The operators it reads."""

    @abstractmethod
    def with_inputs(self, *inputs: Logical) -> Logical:
        """The same operator reading others."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and types of its columns."""

    def describe(self) -> str:
        """Its line in a plan."""
        return type(self).__name__

    @property
    def described_inputs(self) -> tuple[Logical, ...]:
        """The inputs that have lines of their own below it."""
        return self.inputs

    def with_names(self, names: Sequence[str]) -> Logical | None:
        """The same operator with these column names, or None if that needs a projection."""
        return None

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows that its relation is made of, without those of streams that it is derived from."""
        return tuple(w for below in self.inputs for w in below.windows)

    # how its relation changes

    @property
    def pattern(self) -> Pattern:
        """How its relation changes: only grows, ends known on arrival, or in any way."""
        return Pattern.CHANGING

    @property
    def only_grows(self) -> bool:
        """Whether rows, once in the relation, stay in it."""
        return self.is_static or self.pattern is Pattern.APPEND

    @property
    def holds_on(self) -> bool:
        """Whether rows of a relation that only grows stay in it also when a table changes."""
        return all(i.holds_on for i in self.inputs if not i.is_static)

    @property
    def is_static(self) -> bool:
        """Whether it never changes: it reads only tables."""
        return bool(self.inputs) and all(i.is_static for i in self.inputs)

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        """Whether rows that are equal in these columns enter and leave together.

        Also since a declared key is among them, so that there are no two such rows.
        """
        return False

    @property
    def unfixed(self) -> str:
        """What in it makes rows enter at instants that their parts do not fix; "" if nothing does."""
        return f"'{type(self).__name__.lower()}'"

    @property
    def is_momentary(self) -> bool:
        """Whether each row is there for one instant only, that of a row of a stream below."""
        return False

    @property
    def keeps_arrival_order(self) -> bool:
        """Whether its rows of one instant are in the order in which a stream's rows arrived."""
        return False

    def reads_instants(self, time: TimeDomain) -> bool:
        """Whether it has output at every instant with input, whatever that input is."""
        return False

    @property
    def longest_life(self) -> int | None:
        """The most ticks for which a row stays in the relation; None if no bound is known."""
        return None

    # what its rows obey

    def using(self, use: Use) -> Logical:
        """The operator, exploiting constraints in this way."""
        return self

    @property
    def unique_keys(self) -> tuple[UniqueKey, ...]:
        """Columns in which no two of its rows agree."""
        return ()

    @property
    def stream_rows(self) -> StreamRows | None:
        """The stream whose rows its rows are, each from its timestamp on; None if they are not."""
        return None

    # timestamps as columns, for what depends on the order in which rows came

    def stamped(self) -> tuple[Logical, tuple[Column, ...]]:
        """The operator with the timestamps of the stream rows in its rows as columns, and these columns.

        None by default; an aggregate has none either, since a row of it stands for several.
        """
        return self, ()

    @property
    def lacks_time(self) -> bool:
        """Whether some of its rows may have no stream row among their parts."""
        return True

    # budgets and samples

    @property
    def passed_on(self) -> tuple[Logical, ...]:
        """The inputs whose rows it passes on: among these, WITHIN above it looks for its join."""
        return self.inputs

    @property
    def samples(self) -> bool:
        """Whether its rows are a sample, although its inputs are exact."""
        return False

    def estimated(self, below: Sequence[Estimated], sampling: Sampling) -> Estimated:
        """The operator over inputs of which some are sampled or have estimates.

        Raises ``SampleError`` where there is no unbiased estimate of its relation.
        """
        raise SampleError(self.describe().split(" ")[0].upper(), "use MAXIMIZE RESULTS, or leave SAMPLE out")

    # where its rows are

    @property
    def origins(self) -> Origins:
        """The origins of its columns that come from one stream each."""
        return {name: o for below in self.inputs for name, o in below.origins.items()}

    @property
    def bounds(self) -> frozenset[str]:
        """Its columns that are bounds of a window."""
        below = frozenset[str]().union(*(i.bounds for i in self.inputs))
        return below.intersection(self.schema.names)

    def compared(self) -> Iterator[tuple[Origin | None, Origin | None]]:
        """Pairs of expressions of its inputs that must be equal for rows to meet."""
        return iter(())

    @property
    def takes_slices(self) -> bool:
        """Whether its input may be spread by time, where a row is at several coordinates."""
        return False

    @property
    def meets_by(self) -> tuple[Expression, ...]:
        """Expressions over its input; rows that are equal in them must meet."""
        return ()

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        """Where its relation is, from where its inputs are; not all of them are everywhere.

        Raises ``SpreadError`` where the results of the partitions together would not be the result.
        """
        raise SpreadError(f"{type(self).__name__.lower()} needs all rows in one partition")

    def two_phases(self, joins: bool) -> TwoPhases:
        """How two stages share it where its input is spread so that its rows do not meet.

        For operators in the chain whose ``spread`` may raise. ``joins``: the first stage joins.
        """
        raise SpreadError(f"{type(self).__name__.lower()} cannot be combined from partial results")

    # meaning

    @property
    def counts_columns(self) -> bool:
        """Whether the order of its inputs' columns has a meaning: ties may go by it."""
        return True

    def meant(self, reader: Reader, below: Sequence[Meant]) -> Meant:
        """What its relation means, over inputs of these meanings."""
        return reader.by_fields(self, below)

    # building

    def lifted(self, host_filters: bool) -> tuple[Logical, tuple[Expression, ...]]:
        """As an input of a join: the operator without the predicates that the join may test, and those."""
        return self, ()

    @property
    def filtered(self) -> tuple[Logical, tuple[Expression, ...]]:
        """What a filter reads, and its conjuncts; of another operator itself, and none."""
        return self, ()

    def unfiltered(self) -> tuple[Logical, tuple[Expression, ...]]:
        """The operator without the predicates that rows of a stream must pass, and those."""
        return self, ()

    @abstractmethod
    def build(self, context: Builder, needed: Needed) -> Node:
        """The physical operators, whose output has at least the needed columns."""


@dataclass(frozen=True)
class Leaf(Logical):
    """An operator without inputs; ``alias`` is its name in the plan."""

    alias: str

    @property
    def inputs(self) -> tuple[Logical, ...]:
        return ()

    def with_inputs(self, *inputs: Logical) -> Logical:
        return self

    def called(self, what: str) -> str:
        """A description with the alias, where that is not the name in it."""
        return what if what.split(" ", 1)[0] == self.alias else f"{what} AS {self.alias}"


class StaticLeaf(Leaf):
    """Rows that no stream changes, and that each partition has whole."""

    @property
    def pattern(self) -> Pattern:
        return Pattern.APPEND

    @property
    def is_static(self) -> bool:
        return True

    @property
    def unfixed(self) -> str:
        return ""

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        return EVERYWHERE


@dataclass(frozen=True)
class Unary(Logical):
    """An operator with one input, and by default with its columns."""

    input: Logical

    @property
    def inputs(self) -> tuple[Logical, ...]:
        return (self.input,)

    def with_inputs(self, *inputs: Logical) -> Logical:
        (input,) = inputs
        return replace(self, input=input)

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema


@dataclass(frozen=True)
class PerRow(Unary):
    """An operator that handles each row by itself and returns none, one or several rows for it."""

    in_chain = True

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    @property
    def longest_life(self) -> int | None:
        return self.input.longest_life

    def determines_life(self, shown: Collection[str], certain: NotNull = None) -> bool:
        return self.input.determines_life(shown, certain)

    @property
    def unfixed(self) -> str:
        return self.input.unfixed

    @property
    def is_momentary(self) -> bool:
        return self.input.is_momentary

    @property
    def keeps_arrival_order(self) -> bool:
        return self.input.keeps_arrival_order

    def spread(self, below: Sequence[Spread], distribution: Distribution) -> Spread:
        return below[0]


@dataclass(frozen=True)
class Binary(Logical):
    """An operator of two inputs."""

    left: Logical
    right: Logical

    @property
    def inputs(self) -> tuple[Logical, ...]:
        return (self.left, self.right)

    def with_inputs(self, *inputs: Logical) -> Logical:
        left, right = inputs
        return replace(self, left=left, right=right)

    @property
    def schema(self) -> pa.Schema:
        return self.left.schema


def grows_if(condition: bool) -> Pattern:
    """The pattern of an operator whose ends are never known on arrival."""
    return Pattern.APPEND if condition else Pattern.CHANGING


def combined(inputs: Sequence[Logical]) -> Pattern:
    """The pattern of rows that live as long as all their parts: that of the least orderly input."""
    patterns = {Pattern.APPEND if i.only_grows else i.pattern for i in inputs}
    least_orderly = (Pattern.CHANGING, Pattern.EXPIRING, Pattern.APPEND)
    return next(p for p in least_orderly if p in patterns)


@dataclass(frozen=True)
class Query:
    """A bound query: its plan, its time domain, notes on the defaults filled in, warnings."""

    root: Logical
    time: TimeDomain
    notes: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = ()


def walk(node: Logical) -> Iterator[Logical]:
    """A node and all below it, readers before their inputs, from left to right."""
    yield node
    for below in node.inputs:
        yield from walk(below)


def leaves(node: Logical) -> list[Leaf]:
    """The streams, relations and tables below a node, from left to right."""
    return [n for n in walk(node) if isinstance(n, Leaf)]


def rewrite(node: Logical, rule: Callable[[Logical], Logical]) -> Logical:
    """Apply a rule to every node, inputs first."""
    return rule(node.with_inputs(*(rewrite(i, rule) for i in node.inputs)))


def show(node: Logical, indent: str = "") -> str:
    """A plan as text, one node per line, inputs below their readers.

    The notation is the algebra's: ``Project C.size AS size``, ``Window C [RANGE 10 MINUTES]``.
    """
    below = (show(i, indent + "  ") for i in node.described_inputs)
    return "\n".join([f"{indent}{node.describe()}", *below])
