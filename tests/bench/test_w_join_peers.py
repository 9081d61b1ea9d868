"""The peers of the W-join's figures keep rows until a purge, and find the same results."""

from __future__ import annotations

import pytest

from bench.paper.w_joins import Streams, run


@pytest.mark.parametrize(("peer", "own"), [("ripple", "nlw"), ("xjoin", "hw")])
def test_a_peer_keeps_more_rows_and_does_more_work(peer: str, own: str) -> None:
    streams = Streams({"A": 1000, "B": 1000}, values=20)
    theirs, ours = (run("WINDOW 20000", streams, algorithm, 3) for algorithm in (peer, own))
    assert theirs.results == ours.results > 0
    assert theirs.kept > 10 * ours.kept
    assert theirs.work > 10 * ours.work
