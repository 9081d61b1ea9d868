"""What notebooks show of plans and queries."""

from __future__ import annotations

from penstock.measurement import Kind, Property, Reading, measured, under
from penstock.spark.driver.notebook import Explained, small_view


def test_a_plan_draws_itself() -> None:
    plan = Explained.drawn("stage 1", lambda: "<svg></svg>")
    assert plan == "stage 1" and plan._repr_svg_() == "<svg></svg>" and Explained("x")._repr_svg_() is None


def test_a_query_shows_itself_and_nothing_in_it_is_html() -> None:
    evil = "<script>alert(1)</script>"
    own = [Reading(Property.ROWS, 7), Reading(Property.BYTES, 2e6)]
    order = under("order", Kind.ADAPTIVE, [Reading(Property.ORDER, 0, evil)])
    readings = [*under("engine", Kind.ENGINE, own), *under(f"mjoin.1/{evil}", Kind.STORE, order)]
    shown = small_view(evil, "failed", measured(readings), f"unknown column {evil}")
    assert "<script" not in shown and shown.count("&lt;script&gt;") == 4 and "7 rows, 2.0 MB" in shown
