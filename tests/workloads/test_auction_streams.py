"""Auctions and bids: every bid is on an open auction, most near the close, the same for the same seed."""

from __future__ import annotations

import numpy as np

from penstock.workloads.auctions import AUCTIONS, BIDS, AuctionWorkload

WORKLOAD = AuctionWorkload(rate=20, open_seconds=30, slice_seconds=7)


def test_bids_are_on_open_auctions_and_most_near_the_close() -> None:
    slices = list(WORKLOAD.slices(40))
    opened = np.concatenate([s["Auctions"]["ts"].cast("int64").to_numpy() for s in slices])
    auction, at = (
        np.concatenate([s["Bids"][c].cast("int64").to_numpy() for s in slices]) for c in ("auction", "ts")
    )
    ages = (at - opened[auction]) / 1e6
    assert ages.min() >= 0 and ages.max() <= WORKLOAD.open_seconds
    assert (np.diff(at) >= 0).all()
    assert abs(np.mean(ages > 15) - 7 / 8) < 0.01  # the density grows with the square of the age
    lived = opened < opened[-1] - 30e6
    assert abs(np.bincount(auction, minlength=len(opened))[lived].mean() - WORKLOAD.bids) < 0.1


def test_same_seed_same_streams_in_any_order() -> None:
    later, first = WORKLOAD.slice(9), WORKLOAD.slice(2)
    again = AuctionWorkload(rate=20, open_seconds=30, slice_seconds=7)
    assert (again.slice(2), again.slice(9)) == (first, later)
    assert AuctionWorkload(rate=20, open_seconds=30, slice_seconds=7, seed=2).slice(2) != first
    assert first["Auctions"].schema.equals(AUCTIONS) and first["Bids"].schema.equals(BIDS)
    assert WORKLOAD.open_at_once == 600
