"""What an open page costs: CPU seconds of a running query with and without a browser on its plan.

The query runs all the time; blocks of some seconds with a page open alternate with blocks without. Counted is
the CPU time of this process and of all that it started (the JVM, workers, engines), without the browser.
The ratio of each pair is taken, and its mean with a 95 % interval is printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUERY = "SELECT value % 100 AS k, COUNT(*) AS n FROM R [RANGE 10 SECONDS] GROUP BY value % 100"
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26, 12: 2.20, 16: 2.13, 20: 2.09}
"""Student's t for 95 %, by the number of pairs."""


def cpu(apart: set[int]) -> float:
    """CPU seconds of this process and those below it, without the processes in ``apart`` and below."""
    total = 0.0
    waiting = [psutil.Process()]
    while waiting:
        process = waiting.pop()
        if process.pid in apart:
            continue
        try:
            times = process.cpu_times()
            total += times.user + times.system
            waiting += process.children()
        except psutil.NoSuchProcess:
            continue
    return total


@contextmanager
def opened(url: str) -> Iterator[set[int]]:
    """A headless browser on a page; yields its process."""
    browser = next((p for n in BROWSERS if (p := shutil.which(n))), None)
    if browser is None:
        sys.exit("page_cost needs Chromium: apt-get install chromium")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    process = subprocess.Popen([browser, *flags, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield {process.pid}
    finally:
        process.terminate()
        process.wait(20)


def main(arguments: list[str]) -> None:
    options = argparse.ArgumentParser(prog="penstock bench serve", description=__doc__)
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--seconds", type=float, default=10.0, help="of each block")
    options.add_argument("--rate", type=int, default=20_000, help="rows per second")
    options.add_argument("--json", action="store_true")
    given = options.parse_args(arguments)
    import penstock

    ps = penstock.connect()
    rows = ps.spark.readStream.format("rate").option("rowsPerSecond", given.rate).load()
    ps.create_stream("R", rows, timestamp="timestamp")
    df = ps.sql(QUERY)
    assert df is not None
    df.writeStream.format("noop").queryName("counts").trigger(processingTime="1 second").start()
    server = ps.serve(port=0)
    while not ps.metrics():
        time.sleep(0.5)
    time.sleep(10)  # the first batches start workers and compile
    ratios = []
    for number in range(given.pairs):
        seconds: dict[bool, float] = {}
        for page in (True, False) if number % 2 else (False, True):
            seconds[page] = _block(f"{server.url}/plan?query=counts", page, given.seconds)
        ratios.append(seconds[True] / seconds[False])
        told = f"{seconds[False]:.2f} s without, {seconds[True]:.2f} s with"
        print(f"pair {number + 1}: {told}", file=sys.stderr)
    server.stop()
    mean, spread = statistics.fmean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
    margin = STUDENT.get(len(ratios), 2.1) * spread
    found = {"ratio": mean, "low": mean - margin, "high": mean + margin, "pairs": len(ratios)}
    if given.json:
        print(json.dumps(found))
    else:
        interval = f"{mean - margin:.3f} to {mean + margin:.3f}"
        print(f"CPU with a page / without: {mean:.3f}, 95 % interval {interval}")
    ps.spark.stop()


def _block(url: str, page: bool, seconds: float) -> float:
    """CPU seconds of a block; a page is loaded before it begins."""
    if not page:
        before = cpu(set())
        time.sleep(seconds)
        return cpu(set()) - before
    with opened(url) as apart:
        time.sleep(5)
        before = cpu(apart)
        time.sleep(seconds)
        return cpu(apart) - before


if __name__ == "__main__":
    main(sys.argv[1:])
