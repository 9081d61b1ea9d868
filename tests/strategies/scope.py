"""What the clauses of a query see while it is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from strategies.choices import Choices
from strategies.data import Input, new_input


@dataclass(frozen=True)
class Item:
    """A FROM item: its alias, and its columns with their types."""

    alias: str
    columns: dict[str, str]
    timed: bool | None = False
    """Whether its rows have timestamps; None: they never do, but do not keep others from having one."""


@dataclass
class Scope:
    """The columns in sight, qualified, with their types."""

    types: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Iterable[Item]) -> Scope:
        return cls({f"{i.alias}.{name}": type_ for i in items for name, type_ in i.columns.items()})

    def columns(self, types: Iterable[str] | None = None) -> list[str]:
        wanted = None if types is None else set(types)
        return [name for name, type_ in self.types.items() if wanted is None or type_ in wanted]


@dataclass
class Context:
    """What all parts of one case share: the inputs read so far, how many more there may be, aliases."""

    choices: Choices
    leaves: int = 5
    inputs: dict[str, Input] = field(default_factory=dict)
    aliases: int = 0
    relations: bool = True
    rows_of_derived: bool = True
    """Whether there are row windows over derived streams, of which not all have one answer."""
    views: list[str] = field(default_factory=list)
    outermost: bool = True
    """Whether the next SELECT is the outermost, whose columns nothing reads."""

    def __post_init__(self) -> None:
        self.pick, self.chance, self.some = self.choices.pick, self.choices.chance, self.choices.some

    def view(self, query: str, kind: str = "VIEW") -> str:
        """A query in FROM: in parentheses, now and then as a view, or a stream by its query."""
        if not self.chance(5):
            return f"({query})"
        return self._view(f"AS {query}", self.pick(kind, "VIEW"))

    def renamed(self, query: str, columns: dict[str, str]) -> tuple[str, dict[str, str]]:
        """The same, now and then a view with names of its own for its columns."""
        if not self.chance(8):
            return self.view(query), columns
        names = {f"{name}_{len(self.views)}": name for name in columns}
        listed = ", ".join(f"{name} /* of {own} */" for name, own in names.items())
        return self._view(f"({listed}) AS {query}"), {n: columns[own] for n, own in names.items()}

    def _view(self, definition: str, kind: str = "VIEW") -> str:
        self.views.append(f"{kind} v{len(self.views)} {definition}")
        return f"v{len(self.views) - 1}"

    def alias(self) -> str:
        self.aliases += 1
        return f"r{self.aliases - 1}"

    def input(self, name: str) -> Input:
        self.leaves -= 1
        if name not in self.inputs:
            self.inputs[name] = new_input(self.choices, name)
        return self.inputs[name]
