"""Random cases for as long as one likes: ``make fuzz MINUTES=5``, or ``python tests/fuzz.py --minutes 5``.

Every trial has a seed of its own. A failure is made small and printed as a program that runs, with the seed
that finds it again (``--seed 17 --trials 1``); put the case into ``regressions.py``. ``--shares`` runs no
trial, and prints how often each construct of the language is drawn.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import constructs  # noqa: E402
from checking import Skip  # noqa: E402
from pipelines import pipeline  # noqa: E402
from strategies import Case, Choices  # noqa: E402
from trials import any_trial, constrained, entering, evaluated, hold, hosted  # noqa: E402


def any_kind(choices: Choices, depth: int | None = None) -> Any:
    """A trial of one query, or now and then of a pipeline."""
    return pipeline(choices, depth) if choices.chance(5) else any_trial(choices, depth)


KINDS = {
    "any": any_kind,
    "evaluated": evaluated,
    "hosted": hosted,
    "pipeline": pipeline,
    "constrained": constrained,
    "entering": entering,
}


def drawn(draw: Callable[[Choices], Any], seeds: Iterable[int]) -> Iterator[Case]:
    """The cases of some seeds; of a pipeline, that of its first query."""
    for seed in seeds:
        with suppress(Skip):
            yield draw(Choices(random=Random(seed))).case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000, help="of the first trial")
    parser.add_argument("--trials", type=int, default=sys.maxsize)
    parser.add_argument("--depth", type=int, help="how deep queries nest (0 to 3; any if not given)")
    parser.add_argument("--kind", choices=list(KINDS), default="any")
    parser.add_argument("--go-on", action="store_true", help="after a failure too")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to spend on making a failure small")
    parser.add_argument("--shares", action="store_true", help="how often constructs are drawn")
    options = parser.parse_args()
    draw = partial(KINDS[options.kind], depth=options.depth)
    if options.shares:
        print(constructs.report(drawn(draw, range(options.seed, options.seed + min(options.trials, 5_000)))))
        return 0
    began = told = time.monotonic()
    held = skipped = failed = 0
    for seed in range(options.seed, options.seed + options.trials):
        try:
            hold(seed, draw, options.shrink)
            held += 1
        except Skip:
            skipped += 1
        except AssertionError as failure:
            failed += 1
            print(f"\n{failure}", flush=True)
        now = time.monotonic()
        over = now - began > options.minutes * 60 or (failed and not options.go_on)
        if over or now - told > 10:
            told = now
            so_far = f"{held:,} hold, {skipped:,} say nothing, {failed} fail"
            print(f"{now - began:6.0f} s  to seed {seed}: {so_far}", flush=True)
        if over:
            break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
