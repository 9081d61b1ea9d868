"""The ``penstock`` command."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import READER_GONE, written
from penstock.errors import PenstockError
from penstock.server.settings import PORT

app = typer.Typer(
    name="penstock",
    help="Continuous queries in CQL on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

USER_ERROR = 2
"""Exit code for errors that the user can correct."""
INTERRUPTED = 130


class Sink(StrEnum):
    """Where ``penstock run`` writes."""

    console = "console"
    parquet = "parquet"


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Penstock's own errors in one line on standard error, without a traceback; none if its reader left."""
    try:
        with written():
            yield
    except BrokenPipeError:
        raise typer.Exit(READER_GONE) from None
    except PenstockError as error:
        typer.echo(f"penstock: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(USER_ERROR) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Continuous queries in CQL on Spark."""


Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE.cql...", help="CREATE statements and queries, separated by ;"),
]


@app.command()
def run(
    files: Files,
    trigger: Annotated[
        str, typer.Option(help="For sinks without one: available-now, once, or a period such as '1 second'.")
    ] = "0 seconds",
    once: Annotated[
        bool, typer.Option("--once", help="Process the input that is there and end, whatever the triggers.")
    ] = False,
    complete: Annotated[
        bool, typer.Option("--complete", help="As --once, and show the last instants: no more input comes.")
    ] = False,
    sink: Annotated[
        Sink, typer.Option(help="Where a bare SELECT goes; the console shows 1,000 rows per batch.")
    ] = Sink.console,
    out: Annotated[Path | None, typer.Option(help="Directory for the parquet sink.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory for progress and state; without it queries begin again.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="File for the log; by default standard error.")] = None,
) -> None:
    """Run CQL files as a program, until its queries end, Ctrl-C or SIGTERM."""
    from penstock.cli.run import Program, run_file
    from penstock.cli.session import logged

    with _one_line_errors(), logged(log):
        stop = run_file(Program(files, trigger, sink.value, out, checkpoint, once or complete, complete))
        if stop.first == signal.SIGINT:
            raise typer.Exit(INTERRUPTED)


@app.command()
def explain(
    files: Files,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions to plan for.")] = 2,
    svg: Annotated[Path | None, typer.Option(help="Draw the plans to this file instead.")] = None,
) -> None:
    """Show the plan of each query of CQL files, without Spark."""
    from penstock.cli.script import draw_files, explain_files

    with _one_line_errors():
        if svg is None:
            typer.echo(explain_files(files, partitions))
        else:
            typer.echo("\n".join(map(str, draw_files(files, partitions, svg))))


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to run.")] = 30.0,
    rate: Annotated[int, typer.Option(min=100, help="Packets per second on the customer's link.")] = 2_000,
    constraints: Annotated[
        bool, typer.Option("--constraints", help="Compare the state with and without constraints.")
    ] = False,
) -> None:
    """Monitor a network: three packet streams, one join, live."""
    from penstock.cli.demo import run_demo
    from penstock.cli.demo_constraints import run_constraints_demo

    with _one_line_errors():
        if constraints:
            if not run_constraints_demo(round(seconds)):
                raise typer.Exit(USER_ERROR)
        elif not run_demo(seconds, rate):
            raise typer.Exit(INTERRUPTED)


@app.command()
def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE.cql]", help="Statements to run first: streams, queries.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = PORT,
    host: Annotated[
        str, typer.Option(help="The address to listen on; beyond this machine PENSTOCK_TOKEN must be set.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None, typer.Option(help="Another name that the server is reached by; may be repeated.")
    ] = None,
    allow_ddl: Annotated[
        bool, typer.Option("--allow-ddl", help="Let clients define streams, tables and sinks.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Run the packet network, with knobs.")] = False,
    linear_road: Annotated[
        bool, typer.Option("--linear-road", help="Run Linear Road, with a map of the expressways.")
    ] = False,
    without_token: Annotated[
        bool, typer.Option("--without-token", help="Let every user of this machine look and change.")
    ] = False,
) -> None:
    """Watch queries in a browser: plans, queues, synopses, measurements, decisions; and change them."""
    from penstock.cli.serve import Options, run_server

    with _one_line_errors():
        names = tuple(name or ())
        run_server(Options(file, port, host, names, allow_ddl, demo, linear_road, without_token))


@app.command()
def shell(
    connect: Annotated[
        str | None,
        typer.Option(help="The address of a running server (token in PENSTOCK_TOKEN)."),
    ] = None,
) -> None:
    """Type statements and see results, or read them from a pipe: penstock shell < file.cql."""
    from penstock.cli.shell import run_shell

    with _one_line_errors():
        run_shell(connect)


@app.command()
def calibrate(
    out: Annotated[
        Path | None,
        typer.Option(help="File for the weights; by default the one that PENSTOCK_WEIGHTS names."),
    ] = None,
) -> None:
    """Measure what the indexes of windows cost on this machine, for the choice between them."""
    from penstock.cli.calibrate import calibrate as measure_and_store

    with _one_line_errors():
        measure_and_store(out)


generate_app = typer.Typer(help="Write generated streams as files.", no_args_is_help=True)
app.add_typer(generate_app, name="generate")

_Seed = Annotated[int, typer.Option(help="The same seed gives the same streams.")]


@generate_app.command("nexmark")
def generate_nexmark(
    out: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A folder for each stream appears in it.")],
    events: Annotated[int, typer.Option(min=50, help="Events in all.")] = 1_000_000,
    rate: Annotated[int, typer.Option(min=1, help="Events per second of stream time.")] = 10_000,
    seed: _Seed = 1,
) -> None:
    """Persons, auctions and bids of NEXMark, as Parquet files."""
    from penstock.cli import generate

    with _one_line_errors():
        generate.generate_nexmark(out, events, rate, seed)


@generate_app.command("linear-road")
def generate_linear_road(
    out: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="For traffic.csv and history.csv.")],
    expressways: Annotated[int, typer.Option(min=1, help="The benchmark's L.")] = 1,
    seconds: Annotated[
        int, typer.Option(min=1, help="How long the traffic is; 10800 in the benchmark.")
    ] = 1800,
    rates: Annotated[
        tuple[float, float],
        typer.Option(help="Reports per second and expressway, at the beginning and after 3 h."),
    ] = (15.0, 1700.0),
    travel_times: Annotated[bool, typer.Option(help="With requests of type 4.")] = False,
    seed: _Seed = 1,
) -> None:
    """Traffic of Linear Road and tolls of earlier days, in the benchmark's format."""
    from penstock.cli import generate
    from penstock.workloads.linear_road import LinearRoad

    with _one_line_errors():
        traffic = LinearRoad(expressways, seconds, seed, *rates, travel_times=travel_times)
        generate.generate_linear_road(out, traffic)


bench_app = typer.Typer(help="Measure Penstock beside other systems.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")


_FORWARDED: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}
"""A benchmark reads its own options, --help among them."""


BENCHMARKS = {
    "join": (
        "bench.peers.spark_join",
        "Windowed joins beside Spark's own stream-stream join; --help lists the options.",
    ),
    "w-join": (
        "bench.peers.w_join",
        "Joins with windows between streams by every plan, and beside Spark; --help lists the options.",
    ),
    "start": (
        "bench.peers.start",
        "How long a session takes to start, and the first batch of its first, second and third query.",
    ),
    "growth": (
        "bench.peers.growth",
        "The cost of a join by number of streams, size of batches, windows and rows, and cores.",
    ),
    "profile": ("bench.peers.profile", "Where the time between reading and joining goes, layer by layer."),
    "paper": (
        "bench.paper.__main__",
        "The papers' experiments again: where our figures agree with theirs; --help lists the options.",
    ),
    "network": (
        "bench.streamon.network",
        "A join over links whose routing flips: adaptive and fixed orders of probes; --spark for rows/s.",
    ),
    "caching": (
        "bench.streamon.caching",
        "Joins with and without caches of subresults, and where those pay; --spark for rows/s.",
    ),
    "schedulers": (
        "bench.engine.schedulers",
        "Queues of the engine under a bursty feed, by scheduler; --plot draws them.",
    ),
    "overflow": (
        "bench.engine.overflow",
        "A join whose state is 2 and 5 times the memory limit, beside one that has the memory.",
    ),
    "sysstream": (
        "bench.peers.sysstream",
        "CPU and batch time of a query with and without a reader of SysStream; --help lists the options.",
    ),
    "pipeline": (
        "bench.peers.pipeline",
        "Many queries: in one pipeline, each by itself, and as Spark queries; --help lists the options.",
    ),
    "nexmark": (
        "bench.nexmark.__main__",
        "The queries of NEXMark beside Spark's own; --help lists the options.",
    ),
    "linear-road": (
        "bench.linear_road.__main__",
        "Linear Road: its queries on a file or on generated traffic; --help lists the options.",
    ),
    "serve": (
        "bench.server.page_cost",
        "CPU time of a query with and without an open page, in alternating pairs; --help lists the options.",
    ),
    "rebuild": (
        "bench.faults.rebuild",
        "How long a partition takes to come back after its engine was killed; --help lists the options.",
    ),
}
"""The benchmarks by name: their modules, and a line of help."""


def _add_benchmark(name: str, module: str, help: str) -> None:
    @bench_app.command(name, help=help, **_FORWARDED)
    def bench(context: typer.Context) -> None:
        with _one_line_errors():
            _bench(module)(context.args)


for _name, (_module, _help) in BENCHMARKS.items():
    _add_benchmark(_name, _module, _help)


def _bench(module: str) -> Callable[[list[str]], None]:
    """A benchmark's main; they live in the source checkout, not in the installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "bench").is_dir():
        raise PenstockError("the benchmarks are in Penstock's source checkout: run 'make bench' there")
    sys.path.insert(0, str(root))
    main: Callable[[list[str]], None] = importlib.import_module(module).main
    return main


if __name__ == "__main__":
    app()
