"""The functions and operators of CQL, each described once: :mod:`penstock.functions.registry` says how."""

from penstock.functions import date_format, date_parse, integers, text_matching
from penstock.functions.casts import CASTS
from penstock.functions.conditionals import CONDITIONALS
from penstock.functions.hashes import HASHES
from penstock.functions.intervals import INTERVALS
from penstock.functions.numbers import NUMBERS
from penstock.functions.operators import ARITHMETIC, COMPARISONS
from penstock.functions.registry import FUNCTIONS, Function, Theme, called, for_catalyst, may_raise, names
from penstock.functions.text import TEXT
from penstock.functions.times import TIMES

THEMES = (COMPARISONS, CONDITIONALS, ARITHMETIC, NUMBERS, TEXT, HASHES, TIMES, INTERVALS, CASTS)
"""In the order of the reference."""

__all__ = [
    "FUNCTIONS",
    "THEMES",
    "Function",
    "Theme",
    "called",
    "date_format",
    "date_parse",
    "for_catalyst",
    "integers",
    "may_raise",
    "names",
    "text_matching",
]
