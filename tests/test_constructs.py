"""The random cases have every construct; ``python tests/fuzz.py --shares`` says how often."""

from __future__ import annotations

from collections.abc import Iterator

import constructs
from fuzz import any_kind, drawn
from strategies import Case


def test_every_construct_is_drawn() -> None:
    missing = set(constructs.CONSTRUCTS)
    for case in drawn(any_kind, range(6_000)):
        missing -= constructs.of(case)
        if not missing:
            return
    raise AssertionError(f"never drawn: {sorted(missing)}")


def test_the_report_has_the_share_of_each() -> None:
    def cases() -> Iterator[Case]:
        yield Case("SELECT * FROM S [RANGE 5] AS r0", {"S": []}, {"S": "a INT"})
        yield Case("SELECT COUNT(*) AS c0 FROM S AS r0", {"S": []}, {"S": "a INT, s STRING"})

    told = constructs.report(cases()).splitlines()
    assert told[0] == "share of 2 random cases with each construct:"
    assert {" 50.00 %  [RANGE", " 50.00 %  COUNT()", " 50.00 %  a STRING column"} <= set(told)
