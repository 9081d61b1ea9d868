"""The SVG of what a query does with a few rows: lanes for inputs, windows and the result, over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from penstock.server.picture.settings import CHAR_WIDTH, LANE_BAR, LANE_LEFT, LANE_TICK
from penstock.server.picture.style import STYLE
from penstock.server.playground import Lane, Life, Played

_STYLE = """
svg.lanes text{font-size:11px;fill:var(--ps-ink)}
svg.lanes{font-family:Inter,"Segoe UI","Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
.lanes .tick{stroke:var(--ps-line);stroke-width:1}.lanes .tick.now{stroke:var(--ps-warm);stroke-width:1.5}
.lanes .at{fill:var(--ps-quiet);text-anchor:middle;font-size:10.5px}
.lanes .lane-name{font-weight:600}.lanes .kind{fill:var(--ps-quiet)}
.lanes .window rect{fill:var(--ps-shade);stroke:var(--ps-flow)}
.lanes .input circle{fill:var(--ps-flow)}.lanes .input rect{fill:var(--ps-shade);stroke:var(--ps-line)}
.lanes .result rect{fill:var(--ps-accent);opacity:.18;stroke:none}.lanes .result circle{fill:var(--ps-accent)}
.lanes .rule{stroke:var(--ps-line)}
"""


def lanes(played: Played, width: float = 1040.0) -> str:
    """The picture, at least as wide as ``width``."""
    times = sorted(
        {t for lane in played.lanes for life in lane.lives for t in (life.start, life.end) if t is not None}
    )
    first, last = (times[0], max(times[-1], played.last)) if times else (0, 1)
    tick = max(LANE_TICK, (width - LANE_LEFT - 40) / max(1, last - first + 1))
    body, y = [], 30.0
    for lane in played.lanes:
        part, height = _lane(lane, y, first, last, tick)
        body.append(part)
        y += height
    total = LANE_LEFT + (last - first + 1) * tick + 20
    grid = "".join(_grid(first, last, tick, y, times))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lanes" viewBox="0 0 {total:.0f} {y:.0f}" '
        f'width="{total:.0f}" height="{y:.0f}" role="img" aria-label="Rows, windows and results over time">'
        f"<style>{STYLE}{_STYLE}</style>{grid}{''.join(body)}</svg>"
    )


def _x(ts: int, first: int, tick: float) -> float:
    return LANE_LEFT + (ts - first) * tick


def _grid(first: int, last: int, tick: float, height: float, times: Sequence[int]) -> Iterator[str]:
    step = max(1, round(34 / tick))
    for ts in range(first, last + 2):
        x = _x(ts, first, tick)
        if (ts - first) % step == 0:
            yield f'<path class="tick" d="M{x:.1f} 20V{height:.1f}"/>'
            yield f'<text class="at" x="{x:.1f}" y="13">{ts}</text>'


def _lane(lane: Lane, top: float, first: int, last: int, tick: float) -> tuple[str, float]:
    """A lane and its height: rows that overlap in time are below each other."""
    free: list[float] = []
    parts = [f'<path class="rule" d="M8 {top:.1f}H{_x(last + 1, first, tick):.1f}"/>']
    parts.append(
        f'<text class="lane-name" x="10" y="{top + 19:.1f}">{_plain(_fit(lane.title, LANE_LEFT - 22))}</text>'
    )
    parts.append(f'<text class="kind" x="10" y="{top + 34:.1f}">{_plain(lane.kind)}</text>')
    for life in lane.lives:
        start = _x(life.start, first, tick)
        end = _x(last + 1 if life.end is None else life.end, first, tick)
        # A row needs room for its text, if no other follows at once.
        taken = max(end, start + len(life.text) * CHAR_WIDTH + 18) if life.momentary else end
        row = next((i for i, until in enumerate(free) if until <= start), len(free))
        free[row : row + 1] = [taken + (2 if life.momentary else 0)]
        parts.append(_life(life, start, end, top + 8 + row * (LANE_BAR + 4)))
    height = max(44.0, 14 + len(free) * (LANE_BAR + 4))
    return f'<g class="{lane.kind}">{"".join(parts)}</g>', height


def _life(life: Life, start: float, end: float, y: float) -> str:
    until = "" if life.end is None else f" until {life.end}"
    when = f"at {life.start}" if life.momentary else f"from {life.start}{until}"
    if life.momentary:
        shape, text = f'<circle cx="{start:.1f}" cy="{y + LANE_BAR / 2:.1f}" r="4"/>', life.text
    else:
        corner = 0 if life.end is None else 4
        size = f'width="{max(3, end - start - 2):.1f}" height="{LANE_BAR}" rx="{corner}"'
        shape, text = f'<rect x="{start:.1f}" y="{y:.1f}" {size}/>', _fit(life.text, end - start - 10)
    words = f'<text x="{start + 7:.1f}" y="{y + 13:.1f}">{_plain(text)}</text>'
    return f"<g><title>{_plain(f'{life.text} {when}')}</title>{shape}{words}</g>"


def _plain(text: str) -> str:
    """A text in XML, which has no place for control characters."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def _fit(text: str, width: float) -> str:
    fits = int(width / CHAR_WIDTH)
    return text if len(text) <= fits else text[: max(0, fits - 1)] + ("…" if fits > 0 else "")
