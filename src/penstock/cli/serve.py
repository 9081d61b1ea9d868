"""``penstock serve``: a session with a server, until Ctrl-C."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock import cql
from penstock.cli.script import bound_queries, read
from penstock.cli.session import local_session, stoppable
from penstock.cql.syntax.errors import place
from penstock.server.demo import running_demo
from penstock.server.road import running_road
from penstock.server.serving import access_of
from penstock.server.settings import PORT


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    file: Path | None = None
    port: int = PORT
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    allow_ddl: bool = False
    demo: bool = False
    linear_road: bool = False
    without_token: bool = False


def run_server(options: Options) -> None:
    """Serve until a signal to stop."""
    # Refused before Spark starts, which takes seconds.
    access_of(options.host, options.port, None, options.names, options.allow_ddl, options.without_token)
    statements = statements_of(options.file) if options.file is not None else []
    with local_session() as session, stoppable() as stop:
        for statement in statements:
            session.run(statement)
        server = session.serve(
            options.port,
            options.host,
            names=options.names,
            allow_ddl=options.allow_ddl,
            without_token=options.without_token,
        )
        demo = running_demo(session, server.model.backend) if options.demo else nullcontext()
        road = running_road(session) if options.linear_road else nullcontext()
        with demo, road:
            page = "/demo" if options.demo else "/road" if options.linear_road else ""
            typer.echo(f"Penstock is at {server.link(page)} (Ctrl-C stops it)")
            if options.without_token:
                typer.echo("There is no token: every user of this machine may look and change.", err=True)
            while not stop.wait(0.5) and server.running:
                pass
        server.stop()


def statements_of(path: Path) -> list[cql.Statement]:
    """The statements of a file, without queries that have neither a sink nor a name, which are reported."""
    text = read([path])
    bound_queries(text)  # mistakes are reported before Spark starts
    found: list[cql.Statement] = []
    for statement in (s for part in cql.split(text) for s in cql.parse(part)):
        if isinstance(statement, cql.SelectStatement):
            line, _ = place(statement.expression)
            instead = "write INSERT INTO a sink or REGISTER QUERY name AS before it, or start it on the page"
            typer.echo(f"{path}, line {line}: this SELECT is not started; {instead}", err=True)
        else:
            found.append(statement)
    return found
