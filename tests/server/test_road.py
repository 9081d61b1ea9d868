"""The map of Linear Road: what results make of it, and how it is drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pyarrow as pa

from penstock.engine.stage import SIGN, TS
from penstock.server.picture.road import colour, road_svg
from penstock.server.road import RoadMap


def elements(*rows: dict[str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{SIGN: 1, **row} for row in rows])


def road() -> RoadMap:
    found, here = RoadMap(), {"xway": 0, "direction": 0, "segment": 7}
    found.apply("map_tolls", elements({TS: 60, **here, "lav": 20, "toll": 200}))
    found.apply("map_cars", elements({TS: 60, **here, "cars": 60}))
    found.apply("map_accidents", elements({TS: 100, "xway": 0, "direction": 1, "segment": 9}))
    found.apply(
        "tolls",
        elements({TS: 61, "vid": 5, "lav": 20, "toll": 200}, {TS: 62, "vid": 6, "lav": 20, "toll": 0}),
    )
    found.apply("accidents", elements({TS: 121, "vid": 5, "segment": 9}))
    return found


def test_results_make_the_map():
    found = road()
    assert (found.time, found.charged, list(found.alerts)) == (121, 200, [(121, 5, 9)])
    assert found.tolls == {(0, 0, 7): (20, 200)} and found.cars == {(0, 0, 7): 60}
    assert found.accidents == {(0, 1, 9)}


def test_what_changes_is_replaced_and_what_leaves_is_gone():
    found, here = road(), {"xway": 0, "direction": 0, "segment": 7}
    for order in ((1, -1), (-1, 1)):  # the new row may come before or after the old one
        old, new = ((20, 200), (30, 50)) if order == (1, -1) else ((30, 50), (31, 0))
        values = {1: new, -1: old}
        changes = [{TS: 120, SIGN: s, **here, "lav": values[s][0], "toll": values[s][1]} for s in order]
        found.apply("map_tolls", elements(*changes))
        assert found.tolls[0, 0, 7] == new
    found.apply("map_accidents", elements({TS: 130, SIGN: -1, "xway": 0, "direction": 1, "segment": 9}))
    assert not found.accidents


def test_the_picture_shows_velocity_toll_and_accident():
    svg = ElementTree.fromstring(road_svg(road(), 0))
    names = {"s": "http://www.w3.org/2000/svg"}
    told = [t.text for t in svg.iterfind(".//s:title", names)]
    assert len(told) == 200
    assert "segment 7, 60 cars, 20 mph, toll 200" in told and "segment 9, 0 cars, accident" in told
    assert colour(20) in {r.get("fill") for r in svg.iterfind(".//s:rect", names)}
    other = ElementTree.fromstring(road_svg(road(), 1))
    assert not [t for t in other.iterfind(".//s:title", names) if "toll" in (t.text or "")]
