"""``penstock serve``: a session with a server, until Ctrl-C."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock import cql
from penstock.cli.script import read
from penstock.cli.session import local_session, stoppable
from penstock.server.demo import running_demo
from penstock.server.guard import Access
from penstock.server.road import running_road


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    file: Path | None = None
    port: int = 8765
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    allow_ddl: bool = False
    demo: bool = False
    linear_road: bool = False


def run_server(options: Options) -> None:
    """Serve until a signal to stop."""
    import os

    # Refused before Spark starts, which takes seconds.
    Access(options.host, options.port, os.environ.get("PENSTOCK_TOKEN"), options.names)
    text = read([options.file]) if options.file is not None else ""
    with local_session() as session, stoppable() as stop:
        for part in cql.split(text) if text else ():
            for statement in cql.parse(part):
                session.run(statement)
        server = session.serve(options.port, options.host, names=options.names, allow_ddl=options.allow_ddl)
        demo = running_demo(session, server.model.backend) if options.demo else nullcontext()
        road = running_road(session) if options.linear_road else nullcontext()
        with demo, road:
            page = "/demo" if options.demo else "/road" if options.linear_road else ""
            typer.echo(f"Penstock is at {server.url}{page} (Ctrl-C stops it)")
            while not stop.wait(0.5) and server.running:
                pass
        server.stop()
