"""Lengths of time: from text to ticks."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from penstock.cql.syntax.errors import did_you_mean, error
from penstock.cql.syntax.nodes import Duration, DurationPart
from penstock.schema import MOST_TICKS, SECONDS, TimeDomain

ALIASES = {"us": "microsecond", "ms": "millisecond", "sec": "second", "min": "minute"}


def ticks(duration: Duration, time: TimeDomain, what: str, least: int = 0) -> int:
    """A duration in ticks of ``time``; ``what`` names it in errors, ``least`` is the smallest allowed."""
    parts = duration.expressions
    if len(parts) == 1 and parts[0].args.get("unit") is None:
        total = _number(parts[0])
    else:
        total = sum((_seconds(p) for p in parts), Fraction(0)) * time.ticks_per_second
    if total.denominator != 1:
        hint = f"one tick is one {time.unit.removesuffix('s')}"
        if time.unit == "seconds":
            hint += "; if the timestamps count milliseconds, write TIMESTAMP BY t IN MILLISECONDS"
        raise error(f"{what} {written(duration)} is not a whole number of ticks", duration, hint)
    if total > MOST_TICKS:
        hint = "use UNBOUNDED" if what == "RANGE" else "write a shorter one"
        raise error(f"{what} {written(duration)} is too long", duration, hint)
    if total < least:
        bound = "at least one tick" if least else "0 or more"
        raise error(f"{what} {written(duration)} is out of bounds", duration, f"it must be {bound}")
    return int(total)


def written(duration: Duration) -> str:
    """A duration as text, e.g. ``10 MINUTES``."""
    return " ".join(
        " ".join([p.this.name, *([p.args["unit"].name] if p.args.get("unit") else [])])
        for p in duration.expressions
    )


def is_bare(duration: exp.Expr | None) -> bool:
    """Whether a duration is a number without a unit."""
    return isinstance(duration, Duration) and duration.expressions[0].args.get("unit") is None


def _number(part: DurationPart) -> Fraction:
    try:
        return Fraction(part.this.name)
    except ValueError:
        raise error(f"'{part.this.name}' is not a number", part) from None


def _seconds(part: DurationPart) -> Fraction:
    unit = part.args.get("unit")
    if unit is None:
        raise error("each number of a compound interval needs a unit", part)
    name = unit.name.lower()
    name = ALIASES.get(name, name.removesuffix("s"))
    if name not in SECONDS:
        units = [f"{u}s".upper() for u in SECONDS]
        hint = did_you_mean(unit.name, units, f"use one of {', '.join(units)}")
        if name == "row":
            hint = "a number of rows is written [ROWS 5]"
        if name in ("month", "quarter", "year"):
            raise error(f"a {name} has no fixed length", unit, "write DAYS")
        raise error(f"unknown unit of time '{unit.name}'", unit, hint)
    return _number(part) * SECONDS[name]
