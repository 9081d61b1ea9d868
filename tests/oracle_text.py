"""The oracle's reading of CQL: windows and relation-to-stream operators taken out, plain SQL left.

A scanner over words, no parser: it knows FROM items, brackets and parentheses, and nothing else. What reads
a stream or relation becomes a place in the SQL; a query that gives a stream where a stream may stand becomes
one too, and is itself taken apart. Every other subquery is SQL already and stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from oracle_functions import TIME, closed_at, in_duckdb

TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|\w+|\s+|.", re.DOTALL)
WITHIN = re.compile(
    r" WITHIN (?:MEMORY|RATE) \d+ (?:ROWS|PER SECOND)"
    r"(?: MAXIMIZE RESULTS(?: USING \w+)?| SAMPLE(?: UNIFORM| CLUSTER)?)?"
)
ENDS_FROM = set("WHERE GROUP HAVING QUALIFY ORDER LIMIT UNION EXCEPT INTERSECT SELECT".split())
OF_RIGHT = re.compile(r"(\w+(?: \[[^\]]*\])? AS \w+) RIGHT (SEMI|ANTI) JOIN (\w+(?: \[[^\]]*\])? AS \w+)")
_TWO = r"\(((?:[^(),]|'[^']*')+), ((?:[^(),]|'[^']*')+)\)"
OTHERWISE = (
    (re.compile(rf"{_TWO} (NOT )?IN \({_TWO}, {_TWO}\)"),  # as of structs: NULL equals NULL
     r"\3((\1 IS NOT DISTINCT FROM \4 AND \2 IS NOT DISTINCT FROM \5) OR "
     r"(\1 IS NOT DISTINCT FROM \6 AND \2 IS NOT DISTINCT FROM \7))"),
    (re.compile(rf"([\w.]+) (NOT )?LIKE ANY {_TWO}"), r"(\1 \2LIKE \3 OR \1 \2LIKE \4)"),
    (re.compile(rf"([\w.]+) (NOT )?LIKE ALL {_TWO}"), r"(\1 \2LIKE \3 AND \1 \2LIKE \4)"),
    (re.compile(r"(FIRST|LAST)\(([\w.]+)\) IGNORE NULLS"), r"\1(\2, TRUE)"),
    (re.compile(r" NATURAL (JOIN|LEFT JOIN|FULL JOIN) (.*?) /\* by (.*?) \*/"), r" \1 \2 USING (\3)"),
    (re.compile(r"AT TIME ZONE ('[^']*') /\* of an instant \*/"), r"AT TIME ZONE 'UTC' AT TIME ZONE \1"),
    (re.compile(r"AT TIME ZONE ('[^']*') /\* of a clock \*/"), r"AT TIME ZONE \1 AT TIME ZONE 'UTC'"),
)  # fmt: skip
"""What DuckDB does not have or means otherwise, as random queries write it, and what means the same there."""
BETWEEN = {"WINDOW", "DWINDOW"}
JOINS = {"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "ON", "USING"}
NOT_AN_ALIAS = ENDS_FROM | JOINS | BETWEEN
HIDDEN = "ts__"
"""The column of a stream's timestamps."""
STREAMS = {"ISTREAM": "I", "DSTREAM": "D", "RSTREAM": "R"}
ALL = "A"
"""ISTREAM ALL, for whose results the names of the rows they are made of are selected too."""
ROW = "row__"
"""The column of a row's name, by which it differs from all others; of a result, the names of its rows."""
PARTS = "parts__"
"""The place of these names in the SQL."""


@dataclass
class Item:
    """What stands in FROM under a window: a name, or a query that gives a stream."""

    source: str | Query
    window: str = ""


@dataclass
class Between:
    """The windows between the streams of one FROM: the items by alias, and the text of the windows."""

    items: dict[str, int]
    words: list[str]


@dataclass
class Query:
    """A query taken apart: ``sql`` has ``{0}``, ``{1}``, ... where the ``items`` stood.

    Where it has ``WINDOW__0``, ``WINDOW__1``, ... the conditions of ``between`` are meant.
    """

    sql: str
    items: list[Item]
    operator: str | None = None
    every: str = ""
    between: list[Between] = field(default_factory=list)

    def names(self) -> Iterator[str]:
        """The inputs that are read, at any depth."""
        for item in self.items:
            yield from [item.source] if isinstance(item.source, str) else item.source.names()


def take_apart(cql: str) -> Query:
    """The plain SQL in a CQL text, and what was taken out of it.

    After a comment ``/* then ... */`` rows of equal keys are ordered, as CQL orders them without saying so.
    """
    cql = re.sub(r"\* EXCEPT \((?=\w+\))", "* EXCLUDE (", plain(cql))
    cql = re.sub(r"/\* then (.*?) \*/", r", \1", cql)
    return _query(in_duckdb([t for t in TOKEN.findall(cql) if not t.isspace()]))


def plain(cql: str) -> str:
    """One query, with views in place of their names, and without budgets, which are large enough."""
    cql = OF_RIGHT.sub(r"\3 \2 JOIN \1", cql)  # while views are names
    for form, instead in OTHERWISE:
        cql = form.sub(instead, cql)
    *definitions, query = cql.strip().rstrip(";").split("; ")
    for definition in reversed(definitions):
        view = re.fullmatch(r"CREATE (?:VIEW|STREAM) (\w+)(?: \((.*?)\))? AS (.*)", definition, re.DOTALL)
        assert view is not None
        text = _renamed(view[3], re.findall(r"(\w+) /\* of (\w+) \*/", view[2] or ""))
        query = re.sub(rf"\b{view[1]}\b", lambda _, text=text: f"({text})", query)
    return WITHIN.sub("", query).replace("TIMESTAMP_NTZ", "TIMESTAMP")


def _renamed(query: str, names: list[tuple[str, str]]) -> str:
    """A query with other names of its columns, given with those that it has."""
    columns = ", ".join(f"{own} AS {name}" for name, own in names)
    return f"SELECT {columns} FROM ({query}) AS renamed__" if names else query


def _query(words: list[str]) -> Query:
    """A query with its relation-to-stream operator, in either spelling."""
    operator, every = None, ""
    at = _operator(words)
    if at is not None:
        operator = STREAMS[words[at].upper()]
        if words[at + 1] != "(":
            operator = ALL
            words = [*words[: at + 1], *words[at + 2 :]]
        closing = closed_at(words, at + 1)
        inside, after = words[at + 2 : closing], words[closing + 1 :]
        if after and after[0].upper() == "EVERY":
            end = 1 + next((n for n, w in enumerate(after[1:]) if w.upper() in ("FROM", ")")), len(after) - 1)
            every, after = " ".join(after[1:end]), after[end:]
        words = [*words[:at], *inside, *after] if at else inside
    if operator == ALL:
        words = [w for word in words for w in ([word, PARTS, ","] if word.upper() == "SELECT" else [word])]
    scanner = Scanner(words)
    return Query(scanner.sql(), scanner.items, operator, every, scanner.between)


def _operator(words: list[str]) -> int | None:
    """Where the relation-to-stream operator of a query stands: first, or around its SELECT list."""
    for at in (0, 1, 2):
        if len(words) > at + 1 and words[at].upper() in STREAMS and words[at + 1] in ("(", "ALL"):
            return at
        if len(words) > at and words[at].upper() not in ("SELECT", "DISTINCT"):
            return None
    return None


@dataclass
class Frame:
    """What is open within one pair of parentheses."""

    in_from: bool = False
    in_with: bool = False
    joins: bool = False
    """Whether only FROM items are in it, which are those of the query around."""
    partner: bool = False
    """Whether these are the other side of a semijoin or antijoin."""
    aliases: list[str] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    partners: set[str] = field(default_factory=set)
    """The aliases of semijoins' and antijoins' other sides, which are no parts of rows."""
    begins: int = 0
    """The first of them that is of the present SELECT, after UNION and its kin."""
    in_where: bool = False
    """Whether a parenthesis stands before its WHERE condition, after that of its windows."""
    times: list[int] = field(default_factory=list)
    """The places in the SQL where the time of a row is meant."""
    parts: list[int] = field(default_factory=list)
    """Those where the names of a result's rows are meant."""


@dataclass
class Scanner:
    """Reads words from left to right and writes SQL."""

    words: list[str]
    items: list[Item] = field(default_factory=list)
    position: int = 0
    out: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=lambda: [Frame()])
    common: set[str] = field(default_factory=set)
    between: list[Between] = field(default_factory=list)

    def sql(self) -> str:
        expected = False
        while self.position < len(self.words):
            word = self.words[self.position]
            self.position += 1
            if expected and _is_name(word):
                self._named(word)
                expected = False
            elif expected and word == "(":
                expected = self._parenthesis()
            elif self.frames[-1].in_from and word.upper() in BETWEEN:
                self._between()
            else:
                if word == ")" or word.upper() in ENDS_FROM:
                    self._end_where()
                if word.upper() in ("UNION", "EXCEPT", "INTERSECT"):
                    self.frames[-1].begins = len(self.frames[-1].aliases)
                if word == TIME:
                    self.frames[-1].times.append(len(self.out))
                if word == PARTS:
                    self.frames[-1].parts.append(len(self.out))
                self.out.append(word.replace("{", "{{").replace("}", "}}").replace("`", '"'))
                expected = self._plain(word)
        self._end_where()
        self._close(self.frames.pop())
        return _join(self.out)

    def _between(self) -> None:
        """A WINDOW clause: what it says becomes a part of WHERE."""
        start, depth, frame = self.position - 1, 0, self.frames[-1]
        while self.position < len(self.words):
            word = self.words[self.position]
            depth += (word == "(") - (word == ")")
            if depth < 0 or word.upper() in ENDS_FROM:
                break
            self.position += 1
        own = frame.aliases[frame.begins :], frame.items[frame.begins :]
        items = dict(zip(*own, strict=True))
        self.out.append(f"WHERE WINDOW__{len(self.between)}")
        self.between.append(Between(items, self.words[start : self.position]))
        frame.in_from = False
        if self.position < len(self.words) and self.words[self.position].upper() == "WHERE":
            self.position += 1
            self.out.append("AND (")
            frame.in_where = True

    def _end_where(self) -> None:
        if self.frames[-1].in_where:
            self.out.append(")")
            self.frames[-1].in_where = False

    def _close(self, frame: Frame) -> None:
        """A row's time is the latest of its parts'; in a call's parentheses, that of the query around."""
        for place in frame.parts:
            self.out[place] = f"CONCAT_WS(',', {', '.join(f'{a}.{ROW}' for a in frame.aliases)}) AS {ROW}"
        if not frame.aliases and self.frames:
            self.frames[-1].times += frame.times
            return
        for place in frame.times:
            parts = [f"{alias}.{HIDDEN}" for alias in frame.aliases if alias not in frame.partners]
            self.out[place] = parts[0] if len(parts) == 1 else f"GREATEST({', '.join(parts)})"

    def _plain(self, word: str) -> bool:
        """Any other word; whether a FROM item comes next."""
        frame, upper = self.frames[-1], word.upper()
        if word == "(":
            self.frames.append(Frame())
        elif word == ")":
            self._close(self.frames.pop())
        elif upper == "FROM":
            frame.in_from = frame.in_from or not self._compares()
        elif upper in ENDS_FROM:
            frame.in_from = frame.in_with = False
        elif upper == "WITH":
            frame.in_with = True
        if frame.in_with and (upper == "WITH" or word == ","):
            self.common.add(self.words[self.position].lower())
        of_from = upper == "FROM" and not self._compares()
        return of_from or upper == "JOIN" or (word == "," and frame.in_from)

    def _compares(self) -> bool:
        """Whether the FROM just read is that of IS DISTINCT FROM."""
        return len(self.out) > 1 and self.out[-2].upper() == "DISTINCT"

    def _named(self, name: str) -> None:
        alias, window = self._alias(name)
        if name.lower() in self.common:
            self.out.append(f"{name} AS {alias}")
            return
        self._place(Item(name.strip('"`'), window), alias)

    def _parenthesis(self) -> bool:
        """A parenthesis in FROM; whether a FROM item comes next."""
        opening = self.position - 1
        closing = closed_at(self.words, opening)
        inside = self.words[opening + 1 : closing]
        windowed = len(self.words) > closing + 1 and self.words[closing + 1][0] == "["
        if _operator(inside) is not None or (windowed and _is_query(inside)):
            self.position = closing + 1
            query = _query(inside)
            query.operator = query.operator or "I"
            alias, window = self._alias("derived")
            self._place(Item(query, window), alias)
            return False
        self.out.append("(")
        joins = not _is_query(inside)
        self.frames.append(Frame(in_from=joins, joins=joins, partner=joins and self._semijoin(1) is not None))
        return joins

    def _place(self, item: Item, alias: str) -> None:
        at = next(n for n in reversed(range(len(self.frames))) if not self.frames[n].joins)
        frame, semijoin = self.frames[at], self._semijoin()
        if semijoin == "RIGHT":
            frame.partners.add(frame.aliases[-1])
        elif semijoin is not None or any(f.partner for f in self.frames[at:]):
            frame.partners.add(alias)
        frame.aliases.append(alias)
        frame.items.append(len(self.items))
        self.out.append(f"{{{len(self.items)}}} AS {alias}")
        self.items.append(item)

    def _semijoin(self, back: int = 0) -> str | None:
        """The side of the semijoin or antijoin whose other side comes next, so many words back; or None."""
        words = [w.upper() for w in self.out[: len(self.out) - back][-3:]]
        if words[-1:] != ["JOIN"] or words[-2:-1] not in (["SEMI"], ["ANTI"]):
            return None
        return "RIGHT" if words[0] == "RIGHT" else "LEFT"

    def _alias(self, name: str) -> tuple[str, str]:
        """The alias and window after a FROM item."""
        alias, window = name, ""
        while self.position < len(self.words):
            word = self.words[self.position]
            if word[0] == "[":
                window = word[1:-1]
            elif word.upper() != "AS":
                if not _is_name(word) or word.upper() in NOT_AN_ALIAS:
                    break
                alias = word
            self.position += 1
        return alias.replace("`", '"'), window


def _is_query(words: list[str]) -> bool:
    """Whether a query stands in these parentheses, and not FROM items."""
    if words[0] != "(":
        return words[0].upper() in ("SELECT", "WITH", "VALUES")
    closing = closed_at(words, 0)
    after = words[closing + 1 : closing + 2]
    if not after:
        return _is_query(words[1:closing])
    return after[0].upper() in ("UNION", "EXCEPT", "INTERSECT")


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] in '_"`'


def _join(words: list[str]) -> str:
    """The words with spaces between, but none inside operators and qualified names."""
    text = " ".join(words)
    text = re.sub(r"(\w|\") \. (\w|\*|\")", r"\1.\2", text)
    text = re.sub(r"(\d) \. (\d)", r"\1.\2", text)
    return re.sub(r"([<>!|=]) (?=[=>|])", r"\1", text)
