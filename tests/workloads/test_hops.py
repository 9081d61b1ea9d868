"""Packets that hop over three links obey what is declared of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.workloads.files import MICROS
from penstock.workloads.hops import Hops


def test_rates_delays_and_parts_that_go_on() -> None:
    slices = list(Hops(rate_c=200, rate_b=1_000, slice_seconds=5).slices(4))
    links = {name: pa.concat_tables([s[name] for s in slices]) for name in "CBO"}
    assert [links[name].num_rows for name in "CB"] == [4_000, 4 * 4_900 + links["B"].num_rows - 19_600]
    assert 0.08 < links["O"].num_rows / links["B"].num_rows < 0.12
    for name, before in (("B", "C"), ("O", "B")):
        assert len(pc.unique(links[name]["pid"])) == links[name].num_rows
        both = links[name].join(links[before], "pid", join_type="inner", right_suffix="_before")
        waits = pc.subtract(both["ts"].cast(pa.int64()), both["ts_before"].cast(pa.int64())).to_pylist()
        assert waits and min(waits) > 0 and max(waits) <= MICROS
    assert all(s["B"]["ts"].to_pylist() == sorted(s["B"]["ts"].to_pylist()) for s in slices)
