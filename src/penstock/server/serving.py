"""Starting and stopping the server: in a thread beside queries, or as the program itself."""

from __future__ import annotations

import html
import logging
import os
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import quote

from penstock.errors import PenstockError
from penstock.server.backend import Backend
from penstock.server.guard import Access, Guard
from penstock.server.model import Model
from penstock.server.settings import PORT, START_POLL_S, START_S

_log = logging.getLogger("penstock")


class Server:
    """A server that runs in a thread of this process; it ends with the process, or with ``stop``."""

    def __init__(self, model: Model, access: Access, pages: bool = True) -> None:
        import uvicorn

        from penstock.server.app import create_app

        self.model, self.access = model, access
        app = Guard(create_app(model, access, pages), access)
        # Addresses may have names of queries, so there is no log of requests, and nothing in it to leak.
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws_max_size=1 << 20,
            server_header=False,
            timeout_graceful_shutdown=1,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)
        self._socket = _listening(access)
        access.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="penstock-server", daemon=True)

    def _run(self) -> None:
        import asyncio

        asyncio.run(self._server.serve(sockets=[self._socket]))

    def start(self) -> Server:
        """Listen; returns when requests are answered."""
        self.model.watch()
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise PenstockError("the server did not start; see the log")
            time.sleep(START_POLL_S)
        return self

    @property
    def url(self) -> str:
        """The address of the server, without the token."""
        name = self.access.host if ":" not in self.access.host else f"[{self.access.host}]"
        return f"http://{name}:{self.access.port}"

    def link(self, page: str = "") -> str:
        """The address to open a page: with the token in it if it was made for this server alone.

        A token that was given may be that of other servers, and is not shown: the page then asks for it.
        """
        if self.access.made and self.access.token:
            return f"{self.url}{page or '/'}?token={quote(self.access.token)}"
        return f"{self.url}{page}"

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive() and self._server.started

    def stop(self) -> None:
        """Stop listening; queries go on."""
        self.model.close()
        self._server.should_exit = True
        self._thread.join(START_S)
        with suppress(OSError):
            self._socket.close()

    def wait(self) -> None:
        """Until it is stopped."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def __repr__(self) -> str:
        return f"<penstock server at {self.url}>"

    def _repr_html_(self) -> str:
        link, url = (html.escape(u, quote=True) for u in (self.link(), self.url))
        return f'<a href="{link}" target="_blank" rel="noopener noreferrer">{url}</a>'


def _listening(access: Access) -> socket.socket:
    family = socket.AF_INET6 if ":" in access.host else socket.AF_INET
    own = socket.socket(family, socket.SOCK_STREAM)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((access.host, access.port))
    except OSError as error:
        own.close()
        raise PenstockError(
            f"cannot listen on {access.host}:{access.port}: {error.strerror}; choose another port"
        ) from None
    return own


def serve(
    backend: Backend,
    port: int | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    names: tuple[str, ...] = (),
    allow_ddl: bool = False,
    pages: bool = True,
    without_token: bool = False,
) -> Server:
    """Start a server over a backend.

    Without a ``port`` the default one, 0 for any that is free. The ``token`` is this one, that of the
    variable PENSTOCK_TOKEN, or one that is made; a ``host`` that other machines can reach needs one that is
    given. ``without_token``: every user of this machine may look and change. ``names``: other names that the
    server is reached by. ``allow_ddl``: statements that define streams, tables and sinks are accepted, which
    read and write files.
    """
    access = access_of(host, PORT if port is None else port, token, names, allow_ddl, without_token)
    return Server(Model(backend), access, pages).start()


def access_of(
    host: str,
    port: int,
    token: str | None = None,
    names: tuple[str, ...] = (),
    allow_ddl: bool = False,
    without_token: bool = False,
) -> Access:
    """How a server is reached, with the token of the environment if none is given."""
    if token is None and not without_token:
        token = os.environ.get("PENSTOCK_TOKEN") or None
    return Access(host, port, token, names, allow_ddl, without_token)
