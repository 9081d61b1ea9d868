"""NEXMark's streams: proportions, hot ones, sizes, and the same rows for the same seed."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from penstock.workloads.nexmark import SCHEMAS, NexmarkWorkload

WORKLOAD = NexmarkWorkload(rate=1_000, events=50_000)


def test_proportions_and_order() -> None:
    tables = WORKLOAD.slice(3)
    assert {name: t.num_rows for name, t in tables.items()} == {
        "person": 1_000,
        "auction": 3_000,
        "bid": 46_000,
    }
    for name, table in tables.items():
        assert table.schema.equals(SCHEMAS[name])
        us = table["dateTime"].cast("int64").to_numpy()
        assert (np.diff(us) > 0).all() and us[-1] - us[0] < WORKLOAD.slice_seconds * 1e6
    assert tables["auction"]["id"].to_pylist() == list(range(10_000, 13_000))
    assert tables["person"]["id"].to_pylist() == list(range(4_000, 5_000))


def test_bids_are_on_open_auctions_by_active_persons() -> None:
    tables = WORKLOAD.slice(2)
    bid, auction = tables["bid"], tables["auction"]
    ahead = bid["auction"].to_numpy() - np.repeat(auction["id"].to_numpy()[2::3], 46)
    assert ahead.min() >= -199 and ahead.max() <= 10  # hot ones are up to 99 back, others 100; and a lead
    hot = np.mean((bid["auction"].to_numpy() - 1000) % 100 == 0)
    assert 0.5 < hot < 0.52
    assert 0.75 < np.mean((bid["bidder"].to_numpy() - 1000) % 100 == 1) < 0.77
    assert 0.75 < np.mean((auction["seller"].to_numpy() - 1000) % 100 == 0) < 0.77
    assert pc.all(pc.greater(auction["expires"], auction["dateTime"])).as_py()


def test_fields_have_the_sizes_of_the_benchmark() -> None:
    tables = WORKLOAD.slice(0)
    texts = {"person": 8, "auction": 48, "bid": 32}
    skipped = {"channel", "url"}
    for name, wanted in {"person": 200, "auction": 500, "bid": 100}.items():
        strings = [f.name for f in SCHEMAS[name] if f.type == "string" and f.name not in skipped]
        size = texts[name] + sum(pc.mean(pc.binary_length(tables[name][c])).as_py() for c in strings)
        assert size == pytest.approx(wanted, rel=0.02), name
    channels = tables["bid"]["channel"].to_pylist()
    assert 0.48 < np.mean([c in ("Google", "Facebook", "Baidu", "Apple") for c in channels]) < 0.52
    price = np.log10(tables["bid"]["price"].to_numpy())
    assert 2 <= price.min() < 2.1 and 7.9 < price.max() <= 8 and abs(price.mean() - 5) < 0.05


def test_same_seed_same_streams_in_any_order() -> None:
    later, first = WORKLOAD.slice(5), WORKLOAD.slice(1)
    again = NexmarkWorkload(rate=1_000, events=50_000)
    assert (again.slice(1), again.slice(5)) == (first, later)
    assert NexmarkWorkload(rate=1_000, events=50_000, seed=2).slice(1) != first
    with pytest.raises(ValueError, match="multiple of 50"):
        NexmarkWorkload(events=70)
