"""Where caches of join subresults pay on this engine: joins with and without them, side by side.

python -m bench.streamon.caching            # on one engine: CPU seconds and probes of each workload
python -m bench.streamon.caching --loss     # only where caches must cost nothing
python -m bench.streamon.caching --spark    # on Spark with 2 partitions: rows/s of the chain with fan-out
python -m bench.streamon.caching --explain  # what explain says of the first workload while it runs

Each workload runs in four plans in turns on the same steps: ``mjoin``; ``adaptive``, the default; plain
probes, which take all matches at once; and drop probing throughout, which asks for first matches before that,
where ``mjoin`` does what it finds cheaper. A ratio is that of the CPU seconds of all steps after the first
third; its 95 % interval is by groups of steps in which each plan was first, second, third and fourth once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.paper.caching_joins import Plan, Run, arrivals, compared, drop_probes, engine, plain_probes
from bench.streamon.caching_workloads import CHAIN, TIMES_FASTER, WORKLOADS, Workload, chain, keyed
from penstock.measurement import Kind, Measurements, Property
from penstock.measurement import measured as measurements
from penstock.plan.explain_running import explain_running
from penstock.workloads.files import EPOCH, MICROS

PARTITIONS, WARMUP = 2, 2
NO_LOSS = 1.05
"""Upper end of the interval of adaptive over mjoin where caches do not pay."""
DEFAULT = Plan("adaptive", "adaptive")
"""What queries run with unless they say otherwise."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of CPU seconds, and half of its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half:.2f}"


@dataclass(frozen=True)
class Compared:
    """CPU seconds over those of mjoin; probes and look-ups over its probes; caches in use in the end."""

    adaptive: Ratio
    probes: Ratio | None
    drops: Ratio | None
    work: float
    caches: int


def ratio(run: Run, other: Run, group: int) -> Ratio:
    first = len(run.by_step) // 3
    starts = range(first, len(run.by_step) - group + 1, group)
    ours, theirs = (
        np.array([sum(seconds for _, seconds in r.by_step[at : at + group]) for at in starts])
        for r in (run, other)
    )
    whole = ours.sum() / theirs.sum()
    # The interval of a ratio of sums: by what each group is off.
    off = np.std(ours - whole * theirs, ddof=1) / theirs.mean() if len(ours) > 1 else 0.0
    return Ratio(float(whole), float(1.96 * off / sqrt(len(ours))))


def judge(runs: Mapping[str, Run]) -> Compared:
    plain, cached = runs["mjoin"], runs["adaptive"]
    used = sum(len(o.caches.plan) for o in cached.operators if o.caches)
    work = sum(cached.work()) / max(plain.work()[0], 1)
    count = len(runs)
    probes, drops = (ratio(runs[p], plain, count) if p in runs else None for p in ("probes", "drop probing"))
    return Compared(ratio(cached, plain, count), probes, drops, work, used)


def measured(workload: Workload, steps: int, probes: bool = True) -> Compared:
    plans = [Plan("mjoin"), DEFAULT]
    plans += [plain_probes(), drop_probes()] if probes else []
    count = max(round(steps * workload.steps), 12)
    batches = workload.batches(count)
    changed = [workload.change(p) for p in plans]
    return judge(compared(workload.query, workload.streams, changed, batches, ticks=workload.ticks))


def on_engine(steps: int, only: str | None, loss: bool) -> None:
    """``loss``: only workloads where caches do not pay, without plain probes: more steps in the same time."""
    table = Table(
        "workload", "adaptive / mjoin", "plain probes / mjoin", "drop probing / mjoin", "probes and look-ups",
        "caches", "to reach",
        title="CPU seconds; probes and look-ups of adaptive over probes of mjoin",
    )  # fmt: skip
    for workload in (w for w in WORKLOADS if (only or "") in w.name and not (loss and w.pays)):
        found = measured(workload, steps, probes=not loss)
        most = NO_LOSS if workload.pays is None else 1 / workload.pays
        reached = found.adaptive.mean + found.adaptive.half < most
        goal = f"interval below {most:.2f}"
        shown = f"{found.adaptive}; plain probes {found.probes}, drop probing {found.drops}"
        print(f"{workload.name}: {shown}", file=sys.stderr, flush=True)  # a long run may be ended
        table.add_row(
            workload.name, str(found.adaptive), str(found.probes or ""), str(found.drops or ""),
            f"{found.work:.2f}", str(found.caches), f"{goal}: {'yes' if reached else 'NO'}",
        )  # fmt: skip
    Console(width=150).print(table)


def explained(steps: int, only: str | None, plan: Plan = DEFAULT) -> str:
    """``explain`` of a workload that has run for some steps."""
    workload = next(w for w in WORKLOADS if only is None or only in w.name)
    made, _ = engine(workload.query, workload.streams, workload.change(plan))
    for number in range(steps):
        made.step(arrivals(workload.rows(number), number, workload.ticks))
    return explain_running(measurements(made.measure()))


ON_SPARK = keyed(40, 2_000, 200_000, 100_000, 400)
"""Rows of a second, a batch: a row of T finds 100 rows of S, of which one in 250 finds a row of R."""
QUERY_ON_SPARK = chain("RANGE 10 SECONDS", "RANGE 20 SECONDS", "RANGE 1 SECOND").replace(
    "R.a, T.b", "ISTREAM ALL(R.a, T.b)"
)
"""As the second workload with fewer results and more rows: what Spark takes for a batch is the same in both
plans. With row windows, where each row that leaves changes the result, most of a batch is the changelog.
"""


def on_spark(batches: int, rounds: int) -> None:
    """A chain with fan-out and repeated keys on Spark, in turns; rows/s by the median batch."""
    from bench.peers.harness import local_spark, measure
    from penstock.spark.driver.session import connect

    times: dict[str, list[int]] = {"mjoin": [], "adaptive": []}
    results: set[int] = set()
    caches: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="penstock-caching-") as directory:
        root = Path(directory)
        rows = _write(root, batches)
        spark = local_spark(PARTITIONS, root / "spark.log")
        try:
            for number in range(2 * rounds + 1):
                plan = ("mjoin", "adaptive", "adaptive", "mjoin")[(number - 1) % 4]
                session = connect(spark)
                for name, columns in CHAIN.items():
                    schema = ", ".join(f"{c} BIGINT" for c in columns) + ", ts TIMESTAMP"
                    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
                    session.create_stream(name, reader.parquet(str(root / name)), timestamp="ts")
                session.sql(f"SET penstock.join = '{plan}'")
                frame = session.sql(QUERY_ON_SPARK)
                assert frame is not None

                def look(session: object = session) -> int:
                    found: Measurements = session.metrics()  # type: ignore[attr-defined]
                    caches.update(m.text for m in found.of_kind(Kind.CACHE).of(Property.DESCRIPTION))
                    return int(found.of_kind(Kind.ENGINE).total(Property.BYTES))

                checkpoint = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=root))
                # The first run warms up Spark and does not count.
                found = measure(plan, frame, checkpoint, WARMUP, 2 if not number else batches - WARMUP, look)
                if number:
                    times[plan] += found.batch_ms[len(found.batch_ms) // 2 :]
                    results.add(found.results)
                session.close()
        finally:
            spark.stop()
    rates = {plan: 1000 * rows / median(ms) for plan, ms in times.items()}
    for plan, rate in rates.items():
        print(f"{plan:10}{rate:12,.0f} rows/s")
    print(f"caches in use: {', '.join(sorted(caches)) or 'none'}")
    times_faster = rates["adaptive"] / rates["mjoin"]
    print(f"adaptive takes in {times_faster:.2f} times the rows/s (to reach: {TIMES_FASTER})")
    print(f"all give the same number of results: {'yes' if len(results) == 1 else 'NO'}")


def _write(root: Path, batches: int) -> int:
    """Files of each batch; returns the rows of one."""
    rows = 0
    for number in range(batches):
        rows = 0
        for name, columns in ON_SPARK(number).items():
            count = len(next(iter(columns.values())))
            ts = EPOCH + number * MICROS + np.arange(count) * MICROS // count
            stamps = pa.array(ts, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
            (root / name).mkdir(exist_ok=True)
            pq.write_table(pa.table({**columns, "ts": stamps}), root / name / f"{number:05}.parquet")
            rows += count
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(
        prog="penstock bench caching", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--steps", type=int, default=60, help="steps of each workload on an engine")
    parser.add_argument("--only", help="workloads whose name contains this")
    parser.add_argument("--loss", action="store_true", help="only workloads where caches must cost nothing")
    parser.add_argument("--spark", action="store_true", help="the chain on Spark with 2 partitions")
    parser.add_argument("--batches", type=int, default=30, help="on Spark")
    parser.add_argument("--rounds", type=int, default=2, help="on Spark: runs of each plan, in turns")
    parser.add_argument("--explain", action="store_true", help="print what explain says of a workload")
    options = parser.parse_args(arguments)
    if options.explain:
        print(explained(options.steps, options.only))
    elif options.spark:
        on_spark(options.batches, options.rounds)
    else:
        on_engine(options.steps, options.only, options.loss)


if __name__ == "__main__":
    main()
