import numpy as np
import pytest

from penstock.workloads.packets import LINKS, SCHEMA, PacketWorkload

SLICES = 20


@pytest.fixture(scope="module")
def links():
    """Every link's pid and microseconds over four routings of five seconds."""
    slices = list(PacketWorkload(rate=1_000).slices(SLICES))
    return {
        link: [
            np.concatenate([s[link][c].cast("int64").to_numpy() for s in slices])
            for c in ("pid", "ts", "size")
        ]
        for link in LINKS
    }


def test_same_seed_same_packets():
    workload = PacketWorkload(rate=500)
    assert workload.slice(7) == workload.slice(7)
    assert workload.slice(7)["O"] != PacketWorkload(rate=500, seed=2).slice(7)["O"]
    assert workload.slice(0)["B"].schema.equals(SCHEMA)


def test_rates(links):
    seconds = {link: len(links[link][0]) / SLICES for link in LINKS}
    assert seconds["C"] == 1_000
    assert seconds["B"] == pytest.approx(10_000, rel=0.02)
    assert seconds["O"] == pytest.approx(1_000, rel=0.1)


def test_links_are_in_order_of_time_and_identifiers_unique(links):
    for pid, ts, _ in links.values():
        assert (np.diff(ts) >= 0).all()
        assert len(np.unique(pid)) == len(pid)


def test_one_in_ten_goes_on(links):
    c, b, o = (links[link][0] for link in LINKS)
    on_b = np.isin(c, b)
    assert on_b.mean() == pytest.approx(0.1, abs=0.01)
    assert np.isin(c[on_b], o).mean() == pytest.approx(0.1, abs=0.03)


def test_routing_flips_where_packets_of_o_are_found(links):
    c, b = links["C"][0], links["B"][0]
    pid, ts, _ = links["O"]
    phase = (ts - links["C"][1][0]) // 1_000_000 // 5 % 2
    through, direct = pid[phase == 0], pid[phase == 1]
    assert np.isin(through, b).mean() > 0.95 and np.isin(through, c).mean() < 0.05
    assert np.isin(direct, b).mean() < 0.2 and np.isin(direct, c).mean() > 0.85


def test_a_packet_is_later_on_each_link_and_keeps_its_size(links):
    for first, then in (("C", "B"), ("B", "O")):
        _, i, j = np.intersect1d(links[first][0], links[then][0], return_indices=True)
        assert len(i) and (links[first][1][i] < links[then][1][j]).all()
        assert (links[first][2][i] == links[then][2][j]).all()


def test_routing_names():
    workload = PacketWorkload(route_seconds=5)
    assert [workload.routing(s) for s in (0, 4.9, 5, 9, 10)] == ["through"] * 2 + ["direct"] * 2 + ["through"]


def test_slices_must_outlast_a_hop():
    with pytest.raises(ValueError, match="at least 0.08"):
        PacketWorkload(slice_seconds=0.01)
