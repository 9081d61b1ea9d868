"""What an open page costs: CPU seconds of the demo with and without a browser on its page.

``penstock serve --demo`` runs all the time; blocks of some seconds with its page open alternate with blocks
without, and which of a pair comes first alternates too. Counted is the CPU time of the server and of all that
it started (the JVM, workers, engines), without the browser. The ratio of each pair is taken, and the mean of
all with a 95 % interval is printed. With ``--append FILE`` the pairs are added to those of earlier runs in
that file, so that a long measurement can be made in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.processes import MARK, cpu_seconds

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
)
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26, 12: 2.20, 16: 2.13, 20: 2.09}
"""Student's t for 95 %, by the number of pairs; of other numbers the next smaller is taken."""
WARM_UP_S = 30.0
"""Seconds until windows are full, and workers and compilers have come to rest."""
LOADED_S = 3.0
"""Seconds that a page has to load, or to be forgotten, before a block begins."""


@contextmanager
def demo(mark: str) -> Iterator[str]:
    """The demo in a process of its own; yields the address of its page."""
    program = [sys.executable, "-m", "penstock.cli.main", "serve", "--demo", "--port", "0"]
    env = {"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, "PYTHONUNBUFFERED": "1", MARK: mark}
    server = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    try:
        assert server.stdout is not None
        line = next((line for line in server.stdout if "Penstock is at" in line), None)
        if line is None:
            sys.exit("penstock serve --demo did not start; run it by itself to see why")
        yield line.split()[3]
    finally:
        server.terminate()
        server.wait(60)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    path = next((p for n in BROWSERS if (p := shutil.which(n))), None)
    if path is None:
        sys.exit("penstock bench serve needs Chromium: apt-get install chromium")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


def block(chromium: Any, url: str, mark: str, page: bool, seconds: float) -> float:
    """CPU seconds of the demo in a block; a page is loaded before it begins, and closed after it."""
    tab = chromium.new_page() if page else None
    if tab is not None:
        tab.goto(url)
        tab.wait_for_selector("[data-box]", timeout=60_000)
    time.sleep(LOADED_S)
    before = cpu_seconds(mark)
    time.sleep(seconds)
    used = cpu_seconds(mark) - before
    if tab is not None:
        tab.close()
    return used


def measure(pairs: int, seconds: float) -> Iterator[dict[str, float]]:
    """CPU seconds with and without a page, of each pair of blocks."""
    mark = uuid.uuid4().hex
    with demo(mark) as url, browser() as chromium:
        tab = chromium.new_page()
        tab.goto(url)
        tab.wait_for_selector("[data-box]", timeout=180_000)
        tab.close()
        time.sleep(WARM_UP_S)
        for number in range(pairs):
            order = (True, False) if number % 2 else (False, True)
            used = {page: block(chromium, url, mark, page, seconds) for page in order}
            told = f"{used[False]:.2f} s without, {used[True]:.2f} s with"
            print(f"pair {number + 1} of {pairs}: {told}", file=sys.stderr, flush=True)
            yield {"with": used[True], "without": used[False], "seconds": seconds}


def summary(pairs: list[dict[str, float]]) -> dict[str, float]:
    """The mean ratio with its 95 % interval, and the cores that the demo uses without a page."""
    ratios = [p["with"] / p["without"] for p in pairs]
    mean = statistics.fmean(ratios)
    student = STUDENT[max(n for n in STUDENT if n <= len(ratios))]
    margin = student * statistics.stdev(ratios) / len(ratios) ** 0.5
    cores = statistics.fmean(p["without"] / p["seconds"] for p in pairs)
    return {"ratio": mean, "low": mean - margin, "high": mean + margin, "pairs": len(ratios), "cores": cores}


def main(arguments: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # the demo stops as well
    options = argparse.ArgumentParser(prog="penstock bench serve", description=__doc__)
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--seconds", type=float, default=10.0, help="of each block")
    options.add_argument("--append", type=Path, help="a JSON file with the pairs of earlier runs")
    options.add_argument("--json", action="store_true")
    given = options.parse_args(arguments)
    pairs = json.loads(given.append.read_text()) if given.append and given.append.exists() else []
    for pair in measure(given.pairs, given.seconds):
        pairs.append(pair)
        if given.append:
            given.append.write_text(json.dumps(pairs, indent=1))
    if len(pairs) < 2:
        sys.exit("an interval needs at least two pairs")
    found = summary(pairs)
    if given.json:
        print(json.dumps(found))
        return
    interval = f"{found['low']:.3f} to {found['high']:.3f}"
    print(f"CPU of the demo: {found['cores']:.2f} cores without a page")
    print(f"with a page / without: {found['ratio']:.3f}, 95 % interval {interval}, {len(pairs)} pairs")


if __name__ == "__main__":
    main(sys.argv[1:])
