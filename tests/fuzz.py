"""Random cases for as long as one likes: ``make fuzz MINUTES=5``, or ``python tests/fuzz.py --minutes 5``.

Each round has a seed. A failure is made small and printed as a snippet that runs, with the seed that finds it
again (``--seed 17 --rounds 1``); put the case into ``regressions.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import hypothesis  # noqa: E402
from checking import check, check_manner, manners  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from local_host import Manner  # noqa: E402
from strategies import Case, cases  # noqa: E402

SNIPPET = """\
import sys; sys.path.insert(0, "tests")
from math import inf, nan
from checking import {check}
from local_host import Manner
from strategies import Case

case = {case!r}
{check}({arguments})
"""


class Last:
    """The case that is running: after a failure, the smallest one."""

    case: Case
    manner: Manner
    count = 0


def one(case: Case, manner: Manner) -> None:
    Last.case, Last.manner = case, manner
    check(case) if manner == Manner() else check_manner(case, manner)
    Last.count += 1


def round_(seed: int, examples: int, depth: int | None) -> str | None:
    """Run one round; what went wrong in it."""
    options = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    drawn = hypothesis.given(cases(depth), st.one_of(st.just(Manner()), manners))
    try:
        hypothesis.seed(seed)(options(drawn(one)))()
    except BaseException as failure:  # noqa: BLE001
        if isinstance(failure, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception_only(failure))
    return None


def snippet(case: Case, manner: Manner) -> str:
    """A program that shows the failure."""
    text = f"Case(\n    {case.cql!r},\n    {case.inputs!r},\n    {case.schemas!r},\n    {case.until!r},\n)"
    plain = manner == Manner()
    check_ = "check" if plain else "check_manner"
    arguments = "case" if plain else f"case, {manner!r}"
    return SNIPPET.format(check=check_, case=_Verbatim(text), arguments=arguments)


class _Verbatim(str):
    def __repr__(self) -> str:
        return str(self)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rounds", type=int, default=sys.maxsize)
    parser.add_argument("--examples", type=int, default=200, help="cases a round")
    parser.add_argument("--depth", type=int, help="how deep queries nest (0 to 3; all if not given)")
    parser.add_argument("--go-on", action="store_true", help="after a failure too")
    options = parser.parse_args()
    began, failures = time.monotonic(), Counter[str]()
    for number in range(options.rounds):
        seed = options.seed + number
        failure = round_(seed, options.examples, options.depth)
        spent = time.monotonic() - began
        if failure is not None:
            failures[failure.splitlines()[0]] += 1
        told = f"{Last.count:,} cases, {sum(failures.values())} failures"
        print(f"{spent:6.0f} s  seed {seed}  {told}", flush=True)
        if failure is not None:
            print(f"\n{failure}\n# seed {seed}\n{snippet(Last.case, Last.manner)}", flush=True)
            if not options.go_on:
                return 1
        if spent > options.minutes * 60:
            break
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
