"""The Linear Road benchmark (docs/linear_road.md).

penstock bench linear-road --input FILE [--history FILE] --out DIR     # answers of a file, in DIR
penstock bench linear-road --expressways 2 --seconds 900 --out DIR     # of generated traffic
... --on spark --partitions 2 --validate                               # on Spark; answers are checked
penstock bench linear-road --rating 10,20,30 --on spark [--speed 30] [--json FILE] [--plot FILE.png]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.linear_road.files import Files
from bench.linear_road.rating import LIMIT_S, Load, alike, in_own_process, plot
from bench.linear_road.run import Outcome, generated, run
from bench.linear_road.validator import differences, expected, read_numbers
from penstock.errors import PenstockError
from penstock.workloads.linear_road import LinearRoad

console = Console(stderr=True)


def main(args: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(args)
    if options.rating:
        if options.input or options.history:
            raise PenstockError("--rating measures generated traffic; leave --input and --history out")
        rate(options)
        return
    with tempfile.TemporaryDirectory(prefix="linear-road-") as folder:
        answer(options, Path(folder))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("penstock bench linear-road", description=__doc__, formatter_class=_Raw)
    parser.add_argument("--input", type=Path, metavar="FILE", help="rows in the benchmark's format")
    parser.add_argument("--history", type=Path, metavar="FILE", help="vid, day, xway, toll of earlier days")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the answers")
    parser.add_argument("--on", choices=("engine", "spark"), default="engine", help="without Spark, or on it")
    parser.add_argument("--partitions", type=_number, default=1)
    parser.add_argument("--validate", action="store_true", help="compare every answer with the definition's")
    parser.add_argument("--expressways", type=_number, default=1, help="of generated traffic")
    parser.add_argument("--seconds", type=_number, help="of generated traffic: 1800, of a rating 60")
    rates = {"nargs": 2, "metavar": ("FIRST", "LAST")}
    parser.add_argument(
        "--rates", type=float, **rates, help="reports per second and expressway: 100 to 400, of a rating 1700"
    )
    parser.add_argument("--seed", type=int, default=1, help="of generated traffic")
    parser.add_argument(
        "--rating", type=_numbers, metavar="L,...", help="measure latencies with so many expressways"
    )
    parser.add_argument(
        "--speed", type=_speed, default=1.0, help="seconds of traffic per second of the clock"
    )
    parser.add_argument("--warmup", type=int, default=120, help="seconds of traffic before the clock starts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file that measurements are added to")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="image of the latencies")
    return parser


def _number(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _numbers(text: str) -> list[int]:
    """Such numbers, by commas."""
    return [_number(part) for part in text.split(",")]


def _speed(text: str) -> float:
    if not float(text) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return float(text)


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


def answer(options: argparse.Namespace, folder: Path) -> None:
    """Run the queries on a file or on generated traffic."""
    if options.history and not options.input:
        raise PenstockError("--history needs --input: generated traffic has tolls of its own")
    for path in (options.input, options.history):
        if path is not None and not path.is_file():
            raise PenstockError(f"{path} is a directory" if path.is_dir() else f"there is no file {path}")
    files = Files(options.input, options.history) if options.input else _generated(options, folder)
    out = options.out or folder / "out"
    if out.exists() and not out.is_dir():
        raise PenstockError(f"--out {out} is a file; name a directory")
    with console.status("running the queries") as status:
        outcome = run(files, out, options.on, options.partitions, lambda n: status.update(f"{n:,} rows"))
    _report(outcome, options)
    for what, rows in files.ignored.items():
        print(f"{rows:,} rows {what} have no answer")
    if options.validate:
        _validate(files, out)


def _generated(options: argparse.Namespace, folder: Path) -> Files:
    (first, last), seconds = options.rates or (100.0, 400.0), options.seconds or 1800
    traffic = LinearRoad(
        options.expressways, seconds, options.seed, first, last, seconds, spread=5.0, accidents=10.0
    )
    with console.status("generating traffic"):
        return generated(traffic, folder)


def rate(options: argparse.Namespace) -> None:
    """Latencies by number of expressways."""
    known = options.json and options.json.exists()
    results: list[dict[str, Any]] = json.loads(options.json.read_text()) if known else []
    for number in options.rating:
        rates = tuple(options.rates or (1700.0, 1700.0))
        load = Load(
            number,
            options.on,
            options.partitions,
            options.speed,
            options.seconds or 60,
            options.warmup,
            rates,
        )
        wall = load.seconds / load.speed
        with console.status(f"{number} expressways on {load.on}: warm-up, then {wall:.0f} s by the clock"):
            results.append(in_own_process(load))
        _row(results[-1])
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    if options.plot:
        plot(results, options.plot)
    passed = [r["expressways"] for r in results if r["within"] and alike(r) == alike(asdict(load))]
    print(f"every answer within {LIMIT_S:g} s: {f'L = {max(passed)}' if passed else 'none of these'}")


def _row(r: dict[str, Any]) -> None:
    told = "p50 {p50:.2f} s, p99 {p99:.2f} s, max {max:.2f} s" if "max" in r else "no answer"
    print(f"L = {r['expressways']}: {r['rows_per_second']:,.0f} rows/s, {told.format(**r)}")
    for what in (
        "busy",
        "longest_step",
        "cores",
        "rows_per_cpu_second",
        "batches",
        "batch_ms",
        "longest_batch_ms",
    ):
        if what in r:
            print(f"  {what}: {_shown(r[what])}")
    for name, share in r["operators"].items():
        print(f"  {share:6.1%}  {name}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each:.0f}" for name, each in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _report(outcome: Outcome, options: argparse.Namespace) -> None:
    rate = outcome.rows / outcome.seconds if outcome.seconds else 0
    print(f"{outcome.rows:,} rows in {outcome.seconds:.1f} s on the {options.on}: {rate:,.0f} rows/s")
    print(", ".join(f"{number:,} {kind}" for kind, number in outcome.answers.items()))
    if options.out:
        print(f"answers in {options.out}")


def _validate(files: Files, out: Path) -> None:
    with console.status("comparing the answers with the definition's"):
        history = read_numbers(files.history) if files.history else ()
        wrong = differences(expected(read_numbers(files.traffic), history), out)
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(1)
    print("every answer is the expected one")


if __name__ == "__main__":
    main()
