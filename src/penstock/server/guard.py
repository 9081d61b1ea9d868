"""Who may ask what: checked before any handler runs, for HTTP and for web sockets alike.

- ``Host`` must be the server's own name, so that a page of another site cannot reach it by a name that is
  made to resolve to this machine (DNS rebinding).
- ``Origin``, where a browser sends it, must be the server's own: a foreign page opens no web socket and sends
  no request that changes something.
- Beyond this machine everything needs the token: in the header ``Authorization: Bearer ...``, or, for pages
  that only look and for their web socket, in the cookie that a login has set. It is compared in constant
  time and stands in no address and no log.
- A request that changes something needs the token in the header; on this machine alone, where there is none,
  the header ``X-Penstock`` with the value that ``GET /api/server`` returns, which a foreign page cannot read.
- Bodies are limited in size, clients in their rate.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any

from penstock.errors import PenstockError
from penstock.server.settings import (
    KEY_BYTES,
    MOST_BODY,
    MOST_CLIENTS,
    PORT,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_S,
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "x-penstock"
COOKIE = "penstock_session"
LOGIN = "/login"
_SAFE = ("GET", "HEAD", "OPTIONS")


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is this machine alone."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass
class Access:
    """How a server is reached, and what proves that a request may do what it asks.

    ``names``: further names of the server, as a proxy or DNS has them.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = field(default=None, repr=False)
    names: tuple[str, ...] = ()
    allow_ddl: bool = False
    key: str = field(default_factory=lambda: secrets.token_urlsafe(KEY_BYTES), repr=False)
    """What a request that changes something has in its header on this machine."""

    def __post_init__(self) -> None:
        if not self.local and not self.token:
            raise PenstockError(
                f"listening on {self.host} lets other machines in, which needs a token: set PENSTOCK_TOKEN "
                "(or token=), or listen on 127.0.0.1"
            )
        if self.token is not None and len(self.token) < 16:
            raise PenstockError("the token has fewer than 16 characters; use e.g. openssl rand -hex 24")

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def sessions(self) -> str:
        """The value of the cookie of a login: it proves the token without being it."""
        return hmac.new((self.token or self.key).encode(), self.key.encode(), "sha256").hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether this is the token, in a time that does not depend on where they differ."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def allows_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this server."""
        name, port = _parts(host)
        known = {n.casefold() for n in (self.host, *self.names)} - {"0.0.0.0", "::", ""}
        if self.local:
            known |= {"localhost", "127.0.0.1", "::1"}
        # Behind any address: an address cannot be made to resolve to another machine.
        numeric = not self.local and _is_address(name)
        return (name in known or numeric) and port in (None, self.port) or host.casefold() in known

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether an ``Origin`` header is of this server's own pages."""
        scheme, _, rest = origin.partition("://")
        return scheme in ("http", "https") and rest.casefold() == host.casefold() and self.allows_host(rest)


def _parts(host: str) -> tuple[str, int | None]:
    """Name and port of a Host header."""
    name, port = host, ""
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        name, _, port = host.partition(":")
    return name.casefold(), int(port) if port.isdigit() else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Rates:
    """How many requests each client may make: a bucket that fills again with time."""

    def __init__(self, per_second: float = REQUESTS_PER_S, at_once: int = REQUESTS_AT_ONCE) -> None:
        self._per_second, self._at_once = per_second, float(at_once)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float | None = None) -> bool:
        """Whether the client may make one more request now."""
        now = time.monotonic() if now is None else now
        left, then = self._left.pop(client, (self._at_once, now))
        left = min(self._at_once, left + (now - then) * self._per_second)
        self._left[client] = (left - 1 if left >= 1 else left), now
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return left >= 1

    def __len__(self) -> int:
        return len(self._left)


class Guard:
    """Checks every request before the application sees it."""

    def __init__(self, app: App, access: Access, rates: Rates | None = None) -> None:
        self._app, self._access = app, access
        self._rates = Rates() if rates is None else rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        if refused is not None:
            await _refuse(scope, send, *refused, self._access)
            return
        scope.setdefault("state", {})["may_change"] = self._may_change(scope)
        await self._app(scope, _limited(receive), send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = _headers(scope)
        host = headers.get("host", "")
        if not self._access.allows_host(host):
            return 421, "this server is not known by that name; start it with --name to allow another"
        origin = headers.get("origin")
        if origin is not None and not self._access.allows_origin(origin, host):
            return 403, "requests from pages of other sites are refused"
        client = scope.get("client") or ("", 0)
        if not self._rates.take(str(client[0])):
            return 429, "too many requests; wait a moment"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BODY:
            return 413, f"the request is larger than {MOST_BODY:,} bytes"
        if not self._may_look(scope):
            return 401, "this server needs its token: send Authorization: Bearer, or log in"
        if scope["type"] == "http" and scope["method"] not in _SAFE and not self._is_open(scope):
            if not self._may_change(scope):
                need = "Authorization: Bearer" if self._access.token else "X-Penstock"
                return 403, f"a request that changes something needs the header {need}"
        return None

    def _is_open(self, scope: Scope) -> bool:
        """What needs no token: the login itself, and the transport of pages, which the cookie opens."""
        return scope["path"] == LOGIN or scope["path"].startswith("/_nicegui")

    def _may_look(self, scope: Scope) -> bool:
        if not self._access.token or scope["path"] == LOGIN:
            return True
        return self._has_token(scope) or hmac.compare_digest(
            _cookie(_headers(scope).get("cookie", "")).encode(), self._access.sessions.encode()
        )

    def _may_change(self, scope: Scope) -> bool:
        if self._access.token:
            return self._has_token(scope)
        given = _headers(scope).get(HEADER, "")
        return hmac.compare_digest(given.encode(), self._access.key.encode())

    def _has_token(self, scope: Scope) -> bool:
        scheme, _, given = _headers(scope).get("authorization", "").partition(" ")
        return scheme.casefold() == "bearer" and self._access.is_token(given.strip())


def _headers(scope: Scope) -> dict[str, str]:
    given: Iterable[tuple[bytes, bytes]] = scope.get("headers", ())
    return {name.decode("latin-1").casefold(): value.decode("latin-1") for name, value in given}


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _limited(receive: Receive) -> Receive:
    """A body that states no length, or a wrong one, is cut off."""
    seen = 0

    async def limited() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > MOST_BODY:
                return {"type": "http.disconnect"}
        return message

    return limited


async def _refuse(scope: Scope, send: Send, status: int, why: str, access: Access) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why[:100]})
        return
    asks_page = "text/html" in _headers(scope).get("accept", "")
    if status == 401 and asks_page and scope["method"] == "GET":
        headers = [(b"location", LOGIN.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    body = json.dumps({"error": {"message": why}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
