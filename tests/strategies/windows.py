"""Windows, in all their forms."""

from __future__ import annotations

from strategies.scope import Context

FORMS = (
    "", "", "[ROWS UNBOUNDED]", "[RANGE UNBOUNDED]", "[RANGE {n}]", "[NOW]", "[RANGE 0 SECONDS]",
    "[RANGE 1 SECOND]", "[ROWS {n}]", "[ROWS {n}]", "[RANGE {n} SECONDS]", "[RANGE {n} SECONDS]",
    "[PARTITION BY {keys} ROWS {n}]", "[PARTITION BY {keys} ROWS 1]", "[PARTITION BY {keys} RANGE {n}]",
    "[RANGE {n} SLIDE {k}]", "[RANGE {n} SECONDS SLIDE {k} SECONDS]", "[ROWS {n} SLIDE {k}]",
    "[PARTITION BY {keys} ROWS {n} SLIDE {k}]", "[RANGE UNBOUNDED SLIDE {k}]", "[ROWS UNBOUNDED SLIDE {k}]",
)  # fmt: skip
BY_TIME = tuple(f for f in FORMS if "ROWS" not in f or f == "[ROWS UNBOUNDED]")


def window(ctx: Context, columns: dict[str, str], forms: tuple[str, ...] = FORMS) -> str:
    """Any window, or none."""
    form = ctx.pick(*forms)
    keys = ", ".join(ctx.some(list(columns), 1, 2)) if "{keys}" in form else ""
    return form.format(n=ctx.pick(2, 3, 5, 8, 8, 1), k=ctx.pick(2, 3, 5, 1), keys=keys)
