"""Random pipelines on Spark: queries come and go, with history and without, sharing and not, while engines
are killed and the pipeline is started again. Each query has the output that it would have alone.

One runs in ``make test``; ``make faults`` runs more, with one and with three partitions.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import oracle
import pytest
from killing import residents
from pyspark.sql import functions as F
from test_pipelines_on_spark import Feed

from penstock.spark.driver.pipeline import Pipeline
from penstock.spark.driver.session import Session, _jvm_pid

pytestmark = pytest.mark.spark

TRIALS = int(os.environ.get("PENSTOCK_KILLS", "1"))
FIRST = int(os.environ.get("PENSTOCK_SEED", "1"))
FOREVER = 10**9
SETTINGS = {
    "scheduler": ("round-robin", "greedy", "chain"),
    "slice_rows": ("1", "7", "none"),
    "memory_limit": ("1 KB", "none"),
    "access_method": ("hash", "b+tree", "scan"),
    "sharing": ("off", "on"),
}


class Asked:
    """A random query. ``span``: it keeps k and v of the last ticks of S, for others that have history.

    ``since`` is the first instant that it sees, ``begin`` that of its result, ``until`` the last if dropped.
    """

    def __init__(self, die: Random, stages: int) -> None:
        self.since, self.begin, self.until = 0, 0, FOREVER
        size, other, least = die.choice((3, 6, 9)), die.choice((2, 4)), die.choice((-1, 10, 20))
        kinds = ["group", "join", "rows", "last", "all", "distinct", "derived"]
        kind = die.choice(kinds + ["by_v", "crossed"] * (stages - 1))
        where = f"WHERE v > {least}" if least >= 0 else ""
        self.span = {"join": size, "derived": other, "group": size, "distinct": size}.get(kind)
        self.may_look_back = kind in ("group", "distinct")
        self.filter = where if self.may_look_back else ""
        inner = f"SELECT ISTREAM(k, MAX(v) AS m) FROM S [RANGE {other}] GROUP BY k"
        self.text = {
            "group": f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM S [RANGE {size}] {where} GROUP BY k",
            "join": f"SELECT S.k, S.v, R.v AS w FROM S [RANGE {size}], R [RANGE {other}] WHERE S.k = R.k",
            "rows": f"SELECT k, v FROM S [PARTITION BY k ROWS {other}] {where}",
            "last": f"SELECT COUNT(*) AS n, MAX(v) AS m FROM S [ROWS {size}] {where}",
            "by_v": f"SELECT v, COUNT(*) AS n FROM S [RANGE {size}] {where} GROUP BY v",
            "crossed": f"SELECT S.v, COUNT(*) AS n FROM S [RANGE {size}], R [RANGE {other}] WHERE S.k = R.k "
            "GROUP BY S.v",
            "all": f"SELECT COUNT(*) AS n, MAX(v) AS m FROM S [RANGE {size}] {where}",
            "distinct": f"SELECT DISTINCT k, v FROM S [RANGE {size}] {where}",
            "derived": f"SELECT k, COUNT(*) AS n FROM ({inner}) [RANGE {size}] GROUP BY k",
        }[kind]


class Run:
    """A pipeline whose queries change between batches."""

    def __init__(self, feed: Feed, seed: int, partitions: int) -> None:
        self.feed, self.die, self.partitions = feed, Random(seed), partitions
        self.asked: dict[str, Asked] = {}
        self.session = feed.session(partitions)
        self.stages = 1 if partitions == 1 else self.die.choice((1, 2))
        self.pipeline = feed.pipeline(self.session, split={"S": [["k"], []], "R": "k"}, stages=self.stages)

    @property
    def running(self) -> list[str]:
        return [n for n, q in self.asked.items() if q.until == FOREVER]

    def register(self, first: bool = False) -> None:
        name, query = f"q{len(self.asked)}", Asked(self.die, self.stages)
        history = not first and query.may_look_back and self.die.random() < 0.6
        self.session.sql(f"SET penstock.sharing = '{self.die.choice(('on', 'on', 'off'))}'")
        if not first:
            query.since, query.begin = 4 * self.feed.files, 4 * self.feed.files
        if history:
            complete = 4 * self.feed.files - 1
            others = [q for n in self.running if (q := self.asked[n]).filter in ("", query.filter)]
            reach = [max(q.since, complete - q.span) for q in others if q.span is not None]
            if reach:
                query.since, query.begin = min(reach), complete
        self.pipeline.register(name, query.text, history=history)
        self.asked[name] = query

    def drop(self) -> None:
        name = self.die.choice(self.running)
        self.pipeline.drop(name)
        self.asked[name].until = self.feed.now

    def step(self) -> None:
        self.feed.add()
        self.pipeline.process_all_available()

    def disturb(self) -> None:
        """Kill the engines, stop the pipeline and start it again in a new session, or change a setting."""
        how = self.die.choice(("kill", "restart", "set", "set"))
        if how == "kill":
            for engine in residents(_jvm_pid(self.feed.spark)):
                engine.kill()
        elif how == "set":
            name = self.die.choice(list(SETTINGS))
            self.session.set(self.pipeline, name, self.die.choice(SETTINGS[name]))
        elif how == "restart":
            self.pipeline.stop()
            self.session = self.feed.session(self.partitions)
            self.pipeline = self.feed.pipeline(self.session)
            self.pipeline.start()

    def all_steps(self, steps: int) -> None:
        for _ in range(self.die.choice((2, 3))):
            self.register(first=True)
        self.pipeline.start()
        for _ in range(steps):
            self.step()
            for _ in range(self.die.choice((0, 1, 2))):
                if len(self.asked) < 8:
                    self.register()
            if len(self.running) > 2 and self.die.random() < 0.3:
                self.drop()
            self.disturb()
        self.step()

    def check(self) -> None:
        found = read_all(self.feed, self.pipeline, list(self.asked))
        for name, query in self.asked.items():
            last = min(self.feed.now, query.until)
            rows = {n: [e for e in own if query.since <= e[0]] for n, own in self.feed.rows.items()}
            how: dict[str, Any] = {"begins": query.since, "opens": query.begin} if query.begin else {}
            expected = oracle.evaluate(query.text, rows, until=self.feed.now, **how)
            about = f"{name}: {query.text}\nsince {query.since}, from {query.begin} to {query.until}"
            shown = [c for c in found[name] if c[0] <= last]
            oracle.assert_same(shown, [c for c in expected if c[0] <= last], about)


def read_all(feed: Feed, pipeline: Pipeline, names: list[str]) -> dict[str, list[Any]]:
    """The results of all queries, by one reader."""
    found: dict[str, list[Any]] = {name: [] for name in names}
    frames = []
    for name in names:
        row = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
        frames.append(pipeline[name].select(F.lit(name).alias("name"), row.alias("row")))
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionAll(frame)
    rows: list[Any] = []
    writer = union.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(feed.root / "all")).trigger(availableNow=True)
    writer.start().awaitTermination()
    for name, text in rows:
        row = json.loads(text)
        found[name].append((row.pop("ts"), row.pop("op", "+"), row))
    return found


@pytest.fixture
def feed(spark: Any, session: Session, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + TRIALS))
def test_every_query_has_the_output_that_it_would_have_alone(feed: Feed, seed: int) -> None:
    run = Run(feed, seed, partitions=3 if seed % 2 else 1)
    try:
        run.all_steps(steps=4)
        run.check()
    finally:
        run.pipeline.stop()
