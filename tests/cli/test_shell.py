"""The shell, against a server over engines in this process."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.console import Console
from server_backends import JOIN, InProcess
from waiting import PATIENCE, until

from penstock.cli.shell import Shell, parts
from penstock.cli.shell_client import Client
from penstock.cli.shell_prompt import Words, is_whole
from penstock.errors import PenstockError
from penstock.server.serving import Server, serve

PIPED = "\\d C\nSELECT size FROM C [NOW]\n WHERE size = 22;\n-- end\n"


class Fed(InProcess):
    """Queries that run once get all rows, and end."""

    def register(self, name: str, text: str, pipeline: str | None = None, once: bool = False) -> str:
        key = super().register(name, text, pipeline, once)
        if once:
            for _ in range(3):
                self.step()
            self.feeds[key].end()
        return key


@pytest.fixture
def server() -> Iterator[Server]:
    backend = Fed()
    backend.register("q", JOIN)
    backend.step()
    found = serve(backend, port=0, allow_ddl=True, pages=False)
    found.model.sample()
    yield found
    found.stop()


def said(server: Server, *texts: str) -> str:
    out = io.StringIO()
    shell = Shell(Client(server.link()), Console(file=out, width=200))
    for text in texts:
        shell.execute(text, live=False)
    return out.getvalue()


def test_commands(server: Server) -> None:
    shown = said(server, r"\d", r"\d C", r"\queries", r"\watch", r"\plan q", rf"\plan {JOIN}", r"\?")
    for word in ("stream", "pid", "int64", "running", "mjoin", "[RANGE 10]", "by hash of C.pid", "Ctrl-C"):
        assert word in shown, word
    assert "\t" in shown and "┃" not in shown, "for a pipe no table is drawn"
    assert said(server, r"\d").splitlines()[0] == "name\tkind\tcolumns"
    said(server, r"\stop q")
    assert server.model.query("q").state == "stopped"
    with pytest.raises(PenstockError, match=r"there is no command \\x"):
        said(server, r"\x")
    with pytest.raises(PenstockError, match="there is no stream or table 'X'; registered: C, B, O"):
        said(server, r"\d X")


def test_a_query_in_a_pipe_prints_its_rows(server: Server) -> None:
    lines = said(server, "SELECT pid, size FROM C [NOW] WHERE size = 15").splitlines()
    assert lines[0] == "ts\top\tpid\tsize" and "15\t1\t0\t15" in lines
    assert [q.name for q in server.model.queries()] == ["q"], "the query is gone when its rows are shown"


def test_explain_shows_the_plan(server: Server) -> None:
    for text in ("EXPLAIN SELECT size FROM C [NOW]", "explain\nISTREAM(SELECT size FROM C [NOW]);"):
        assert "[NOW]" in said(server, text), text


def test_errors_have_their_place(server: Server) -> None:
    with pytest.raises(PenstockError, match="line 1, column 8: unknown column 'sise'; did you mean 'size'"):
        said(server, "SELECT sise FROM C [NOW]")
    with pytest.raises(PenstockError, match="no server answers at http://127.0.0.1:9"):
        Client("http://127.0.0.1:9")


def test_a_pipe_is_read_whole(server: Server, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(PIPED))
    Shell(Client(server.link()), Console(width=120)).run()
    assert "22\t1\t22" in capsys.readouterr().out


def test_statements_and_commands_are_told_apart() -> None:
    assert list(parts("\\d\nSELECT ';'\nFROM S; DROP VIEW v;\n\\q")) == [
        "\\d", "SELECT ';'\nFROM S", "DROP VIEW v", "\\q",
    ]  # fmt: skip
    assert is_whole("SELECT 1;") and is_whole("\\d") and not is_whole("SELECT 1")


def test_a_server_asks_the_shell_for_its_token(server: Server) -> None:
    with pytest.raises(PenstockError, match="needs its token: .* takes it from PENSTOCK_TOKEN"):
        Client(server.url)
    assert Client(server.url, server.access.token).get("/api/server")["allow_ddl"]


def test_completion(server: Server) -> None:
    words = Words(Client(server.link()))
    words.refresh()

    def completed(text: str) -> list[str]:
        return [c.text for c in words.get_completions(Document(text), CompleteEvent())]

    assert "size" in completed("SELECT si") and "SUM(" in completed("SELECT su")
    assert "RANGE 10 SECONDS]" in completed("SELECT * FROM C [") and "C" in completed("SELECT * FROM c")
    assert "plan" in completed("\\pl")


def test_the_server_stays_while_clients_come_and_go(server: Server) -> None:
    """Ten at once read results and leave; nothing of them stays."""
    clients = [Client(server.link()) for _ in range(10)]
    feed = server.model.backend.feed("q")

    def read(client: Client) -> None:
        next(client.results("q"))

    threads = [threading.Thread(target=read, args=(c,)) for c in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    feed.end()
    until(lambda: feed.readers == 0)
    assert clients[0].get("/api/queries")[0]["name"] == "q"
