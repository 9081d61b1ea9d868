"""Windows, in all their forms."""

from __future__ import annotations

from strategies.data import BIGINT
from strategies.scope import Context

FORMS = (
    "", "", "[ROWS UNBOUNDED]", "[RANGE UNBOUNDED]", "[RANGE {n}]", "[NOW]", "[RANGE 0 SECONDS]",
    "[RANGE 1 SECOND]", "[ROWS {n}]", "[ROWS {n}]", "[RANGE {n} SECONDS]", "[RANGE INTERVAL {n} SECONDS]",
    "[PARTITION BY {keys} ROWS {n}]", "[PARTITION BY {keys} ROWS 1]", "[PARTITION BY {keys} RANGE {n}]",
    "[RANGE {n} SLIDE {k}]", "[RANGE {n} SECONDS SLIDE {k} SECONDS]", "[ROWS {n} SLIDE {k}]",
    "[PARTITION BY {keys} ROWS {n} SLIDE {k}]", "[RANGE UNBOUNDED SLIDE {k}]", "[ROWS UNBOUNDED SLIDE {k}]",
    "[TUMBLE {n}]", "[TUMBLE {n} SECONDS]", "[HOP {n} EVERY {m}]", "[HOP {n} SECONDS EVERY {m} SECONDS]",
    "[SESSION {n}]", "[SESSION {n} PARTITION BY {keys}]", "[SESSION {n} SECONDS PARTITION BY {keys}]",
)  # fmt: skip
BY_TIME = tuple(f for f in FORMS if "ROWS" not in f or f == "[ROWS UNBOUNDED]")
BOUNDED = ("[TUMBLE", "[HOP", "[SESSION")
BOUNDS = {"window_start": BIGINT, "window_end": BIGINT}


def window(
    ctx: Context, columns: dict[str, str], forms: tuple[str, ...] = FORMS
) -> tuple[str, dict[str, str]]:
    """Any window, or none, and the columns under it."""
    form = ctx.pick(*(f for f in forms if BOUNDS.keys().isdisjoint(columns) or not f.startswith(BOUNDED)))
    keys = ", ".join(ctx.some(list(columns), 1, 2)) if "{keys}" in form else ""
    n = ctx.pick(2, 3, 5, 8, 8, 1)
    text = form.format(n=n, k=ctx.pick(2, 3, 5, 1), m=max(1, n - ctx.pick(1, 2, 4)), keys=keys)
    return text, {**columns, **BOUNDS} if text.startswith(BOUNDED) else columns
