"""Where caches of join subresults pay on this engine: joins with and without them, side by side.

python -m bench.streamon.caching            # on one engine: CPU seconds and probes of each workload
python -m bench.streamon.caching --spark    # on Spark with 2 partitions: rows/s of the chain with fan-out

Each workload runs in the plan ``mjoin`` and in ``adaptive``, the default, in turns on the same steps. The
ratio is that of the CPU seconds of pairs of steps, its interval that of their mean, after the first half.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.paper.caching_joins import Batch, Plan, Run, compared
from penstock.measurement import Kind, Measurements, Property
from penstock.workloads.files import EPOCH, MICROS

PARTITIONS, WARMUP = 2, 2
TIMES_FASTER = 1.5
"""To reach through Spark on the chain with repeated keys and fan-out."""
NO_LOSS = 1.05
"""Upper end of the interval of adaptive over mjoin where caches do not pay."""


@dataclass(frozen=True)
class Workload:
    """A query over streams, their rows of a step, and whether caches are expected to pay."""

    name: str
    query: str
    streams: Mapping[str, Sequence[str]]
    rows: Callable[[np.random.Generator], Batch]
    pays: bool

    def steps(self, count: int) -> Callable[[], Iterator[Batch]]:
        def batches() -> Iterator[Batch]:
            random = np.random.default_rng(7)
            return (self.rows(random) for _ in range(count))

        return batches


CHAIN = {"R": ("a",), "S": ("a", "b"), "T": ("b",)}


def chain(window: str, tail: str) -> str:
    return f"SELECT R.a, T.b FROM R {window}, S {window}, T {tail} WHERE R.a = S.a AND S.b = T.b"


def keyed(r: int, a: int, b: int, t: int) -> Callable[[np.random.Generator], Batch]:
    """``r`` rows of R and S with ``a`` and ``b`` different keys, ``t`` rows of T."""

    def rows(random: np.random.Generator) -> Batch:
        return {
            "R": {"a": random.integers(0, a, r)},
            "S": {"a": random.integers(0, a, r), "b": random.integers(0, b, r)},
            "T": {"b": random.integers(0, b, t)},
        }

    return rows


def star(n: int, keys: int, each: int) -> Callable[[np.random.Generator], Batch]:
    return lambda random: {f"L{i}": {"k": random.integers(0, keys, each)} for i in range(n)}


def one_key(n: int, window: str) -> tuple[str, dict[str, Sequence[str]]]:
    names = [f"L{i}" for i in range(n)]
    where = " AND ".join(f"{a}.k = {b}.k" for a, b in zip(names, names[1:], strict=False))
    sources = ", ".join(f"{n} {window}" for n in names)
    return f"SELECT L0.k FROM {sources} WHERE {where}", {n: ("k",) for n in names}


WORKLOADS = (
    Workload(
        "chain, fan-out 25, repeated keys",
        chain("[ROWS 10000]", "[ROWS 20000]"), CHAIN, keyed(600, 2000, 2000, 40_000), True,
    ),
    Workload(
        "the same over time windows",
        chain("[RANGE 16777216]", "[RANGE 200000]"), CHAIN, keyed(600, 2000, 2000, 40_000), True,
    ),
    Workload(
        "chain, fan-out 5",
        chain("[ROWS 10000]", "[ROWS 20000]"), CHAIN, keyed(600, 2000, 10_000, 40_000), True,
    ),
    Workload(
        "chain, no fan-out, keys seldom repeated",
        chain("[ROWS 20000]", "[ROWS 20000]"), CHAIN, keyed(20_000, 200_000, 200_000, 20_000), False,
    ),
    Workload(
        "chain, as many updates as look-ups",
        chain("[ROWS 10000]", "[ROWS 10000]"), CHAIN, keyed(10_000, 10_000, 10_000, 10_000), False,
    ),
    Workload("4 streams, one key", *one_key(4, "[ROWS 10000]"), star(4, 20_000, 10_000), False),
    Workload("8 streams, one key, few joins", *one_key(8, "[ROWS 10000]"), star(8, 40_000, 8_000), False),
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """CPU seconds of adaptive over mjoin per step: mean and half of the 95 % interval; probes; caches."""

    ratio: float
    half: float
    probes: float
    caches: int


def judge(runs: Mapping[str, Run]) -> Compared:
    plain, cached = runs["mjoin"], runs["adaptive"]
    half = len(plain.by_step) // 2
    pairs = list(zip(cached.by_step[half:], plain.by_step[half:], strict=True))
    # Two steps at a time: in each of them the other plan comes first.
    twos = [(pairs[i], pairs[i + 1]) for i in range(0, len(pairs) - 1, 2)]
    ratios = [(a[0][1] + b[0][1]) / (a[1][1] + b[1][1]) for a, b in twos]
    spread = 1.96 * stdev(ratios) / sqrt(len(ratios)) if len(ratios) > 1 else 0.0
    made, saved = plain.work()[0], sum(cached.work())
    used = sum(len(o.caches.plan) for o in cached.operators if o.caches)
    return Compared(fmean(ratios), spread, saved / max(made, 1), used)


def on_engine(steps: int, only: str | None) -> None:
    table = Table(
        "workload", "CPU seconds, adaptive / mjoin", "probes and look-ups / probes", "caches", "to reach"
    )
    for workload in (w for w in WORKLOADS if only is None or only in w.name):
        plans = [Plan("mjoin"), Plan("adaptive", "adaptive")]
        found = judge(compared(workload.query, workload.streams, plans, workload.steps(steps)))
        goal = f"below {1 / TIMES_FASTER:.2f}" if workload.pays else f"interval below {NO_LOSS}"
        table.add_row(
            workload.name, f"{found.ratio:.2f} ± {found.half:.2f}", f"{found.probes:.2f}",
            str(found.caches), goal,
        )  # fmt: skip
    Console().print(table)


def on_spark(batches: int, rounds: int) -> None:
    """The first workload on Spark, in turns; rows/s by the median batch."""
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
                frame = session.sql(f"SELECT COUNT(*) AS n FROM ({chain('[ROWS 10000]', '[ROWS 20000]')})")
                assert frame is not None
                last: list[Measurements] = []

                def look(session: object = session, last: list[Measurements] = last) -> int:
                    last[:] = [session.metrics()]  # type: ignore[attr-defined]
                    return int(last[0].of_kind(Kind.ENGINE).total(Property.BYTES))

                checkpoint = Path(tempfile.mkdtemp(prefix="checkpoint-", dir=root))
                # The first run warms up Spark and does not count.
                found = measure(plan, frame, checkpoint, WARMUP, 2 if not number else batches - WARMUP, look)
                if number:
                    times[plan] += found.batch_ms[len(found.batch_ms) // 2 :]
                    results.add(found.results)
                    caches |= {m.text for m in last[0].of_kind(Kind.CACHE).of(Property.DESCRIPTION)}
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
    for number, batch in enumerate(WORKLOADS[0].steps(batches)()):
        rows = 0
        for name, columns in batch.items():
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
    parser.add_argument("--spark", action="store_true", help="the chain on Spark with 2 partitions")
    parser.add_argument("--batches", type=int, default=40, help="on Spark")
    parser.add_argument("--rounds", type=int, default=2, help="on Spark: runs of each plan, in turns")
    options = parser.parse_args(arguments)
    if options.spark:
        on_spark(options.batches, options.rounds)
    else:
        on_engine(options.steps, options.only)


if __name__ == "__main__":
    main()
