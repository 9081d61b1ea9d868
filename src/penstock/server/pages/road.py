"""The page of Linear Road: an expressway as a map, live, with tolls and alerts."""

from __future__ import annotations

from nicegui import ui

from penstock.server.pages.frame import chooser, element, section, tile, words
from penstock.server.pages.try_it import SvgView
from penstock.server.picture.road import road_svg
from penstock.server.road import Road


class RoadPage:
    """The map, and beside it the newest alerts."""

    def __init__(self, road: Road) -> None:
        self._road, self._xway, self._seen = road, 0, -1
        with element("div", "row"):
            words("Linear Road", "h1", "name")
            names = {str(n): f"Expressway {n}" for n in range(road.expressways)}
            chooser(names, "0", self._choose, "Expressway")
        with element("div", "tiles"):
            shown = ("time", "cars", "congested segments", "accidents", "tolls on all expressways")
            self._tiles = {name: tile(name) for name in shown}
        with element("div", "card"):
            self._picture = SvgView()
        with section("Accident alerts on all expressways"):
            self._alerts = element("div", "facts")
        self.look()
        ui.timer(1.0, self.look)

    def _choose(self, xway: str) -> None:
        self._xway, self._seen = int(xway), -1
        self.look()

    def look(self) -> None:
        """Show what is new."""
        road = self._road.look()
        if road.time == self._seen:
            return
        self._seen = road.time
        here = [place for place in road.cars if place[0] == self._xway]
        self._tiles["time"].say(f"{road.time // 3600}:{road.time // 60 % 60:02}:{road.time % 60:02}")
        self._tiles["cars"].say(f"{sum(road.cars[place] for place in here):,}")
        tolled = [p for p, (_, toll) in road.tolls.items() if toll and p[0] == self._xway]
        self._tiles["congested segments"].say(str(len(tolled)))
        self._tiles["accidents"].say(str(sum(p[0] == self._xway for p in road.accidents)))
        self._tiles["tolls on all expressways"].say(f"{road.charged:,}")
        self._picture.show(road_svg(road, self._xway))
        self._alerts.clear()
        with self._alerts:
            for time, vid, segment in list(road.alerts):
                words(f"{time // 60}:{time % 60:02}", "div", "k")
                words(f"car {vid}: accident ahead in segment {segment}", "div", "v")
            if not road.alerts:
                words("None yet.", "div", "quiet")
