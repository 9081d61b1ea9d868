"""Flows over links: what the benchmark of adaptive joins rests on."""

from __future__ import annotations

import numpy as np

from penstock.workloads.routes import OUT, Routes


def test_flows_are_on_the_links_they_take_and_their_packets_leave() -> None:
    routes = Routes(links=3, flows=100, packets=2, phase=1)
    batch, drops = routes.batch(4), routes.drops(4)
    for link, name in enumerate(routes.names[:-1]):
        assert batch[name].column("flow").to_pylist() == [400 + f for f in range(100) if not drops[f, link]]
    assert sorted(batch[OUT].column("flow").to_pylist()) == sorted([400 + f for f in range(100)] * 2)


def test_time_runs_on_and_is_the_same_for_the_same_seed() -> None:
    routes = Routes(flows=50)
    stamps = [routes.batch(n)[OUT].column("ts").to_pylist() for n in range(3)]
    assert sum(stamps, []) == sorted(sum(stamps, []))
    assert routes.batch(1)[OUT].equals(Routes(flows=50).batch(1)[OUT])


def test_the_routing_flips_between_the_last_and_the_first_link() -> None:
    routes = Routes(links=4, flows=1000, phase=2)
    shares = [routes.drops(n).mean(axis=0) for n in range(4)]
    assert [int(np.argmax(s)) for s in shares] == [3, 3, 0, 0]
