"""Packets with knobs: rates and shares as they are set, packets under way arrive, routing changes at once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.server.demo import KNOBS, Demo
from penstock.server.settings import DEMO_SPEED
from penstock.workloads.live_packets import Knobs, LivePackets


def share(of: pa.Table, among: pa.Table) -> float:
    """The part of packets that are also on another link."""
    return pc.mean(pc.is_in(of["pid"], among["pid"].combine_chunks()).cast(pa.float64())).as_py()


def together(workload: LivePackets, first: int, count: int) -> dict[str, pa.Table]:
    slices = [workload.slice(n) for n in range(first, first + count)]
    return {link: pa.concat_tables([s[link] for s in slices]) for link in "CBO"}


def test_rates_and_shares_are_those_of_the_knobs() -> None:
    links = together(LivePackets(Knobs(1000, 5000, c_to_b=0.3, b_to_o=0.2)), 0, 10)
    assert links["C"].num_rows == 10_000
    assert links["B"].num_rows == pytest.approx(50_000, rel=0.02)
    assert share(links["C"], links["B"]) == pytest.approx(0.3, abs=0.03)
    assert share(links["B"], links["O"]) == pytest.approx(0.2, abs=0.02)
    assert share(links["O"], links["B"]) == 1.0
    for table in links.values():
        assert (
            table["ts"]
            .combine_chunks()
            .equals(table["ts"].combine_chunks().take(pc.sort_indices(table["ts"])))
        )


def test_a_change_of_routing_takes_effect_in_the_next_slice() -> None:
    workload = LivePackets(Knobs(1000, 10_000))
    through = together(workload, 0, 3)
    workload.knobs.direct = True
    workload.slice(3)
    direct = together(workload, 4, 3)
    assert share(through["O"], through["C"]) < 0.1 < 0.8 < share(direct["O"], direct["C"])
    assert share(through["O"], through["B"]) > 0.95 and share(direct["O"], direct["B"]) < 0.3


def test_knobs_of_the_demo_keep_within_their_bounds(tmp_path) -> None:
    demo = Demo(tmp_path)
    demo.set("rate_c", 4_000)
    assert demo.knobs.rate_c == 4_000 and demo.workload.knobs.rate_c == 4_000 / DEMO_SPEED
    for knob in KNOBS:
        demo.set(knob.name, 1e9)
        assert getattr(demo.knobs, knob.name) == knob.most
    assert demo.switch() and demo.workload.knobs.direct and not demo.switch()
