"""Who may ask what: checked before any handler runs, for HTTP and for web sockets alike.

- Everything needs the token, on this machine too, where every local user could reach the server: in the
  header ``Authorization: Bearer ...``, or, for pages and for their web socket, in the cookie that a login has
  set. It is compared in constant time and stands in no log. Whoever is given none makes one;
  ``--without-token`` is for a machine of one's own, and lets every local user look at and change everything.
- Pages can be opened with ``?token=...``, the address that ``penstock serve`` prints: it is answered with the
  cookie and the address without the token. The API takes no token in an address.
- ``Host`` must be the server's own name, so that a page of another site cannot reach it by a name that is
  made to resolve to this machine (DNS rebinding).
- ``Origin``, where a browser sends it, must be the server's own: a foreign page opens no web socket and sends
  no request that changes something.
- A request that changes something needs the token in the header, which a foreign page cannot send; where
  there is no token, the header ``X-Penstock`` with the value that ``GET /api/server`` returns, which it
  cannot read.
- Answers say what browsers must not do with them (:mod:`penstock.server.protection`).
- Bodies are limited in size, clients in their rate.
"""

from __future__ import annotations

import hmac
import html
import ipaddress
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

from starlette.responses import HTMLResponse, Response

from penstock.errors import PenstockError
from penstock.server.protection import NONCE, protected
from penstock.server.settings import (
    KEY_BYTES,
    MOST_BODY,
    MOST_CLIENTS,
    PORT,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_S,
    SHORTEST_TOKEN,
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "x-penstock"
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

    ``names``: further names of the server, as a proxy or DNS has them. Without a ``token`` one is made,
    unless ``open``: then whoever can reach the port may do everything.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = field(default=None, repr=False)
    names: tuple[str, ...] = ()
    allow_ddl: bool = False
    open: bool = False
    key: str = field(default_factory=lambda: secrets.token_urlsafe(KEY_BYTES), repr=False)
    """What a request that changes something has in its header where there is no token."""
    made: bool = field(default=False, init=False)
    """Whether the token was made for this server, and may be shown."""

    def __post_init__(self) -> None:
        if self.open and self.token:
            raise PenstockError("a server without a token was given one: leave out either")
        if not self.local and not self.token:
            raise PenstockError(
                f"listening on {self.host} lets other machines in, which needs a token: set PENSTOCK_TOKEN "
                "(or token=), or listen on 127.0.0.1"
            )
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise PenstockError(
                f"the token has fewer than {SHORTEST_TOKEN} characters; use e.g. openssl rand -hex 24"
            )
        if self.token is None and not self.open:
            self.token, self.made = secrets.token_urlsafe(KEY_BYTES), True

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def cookie(self) -> str:
        """The name of the cookie of a login. Browsers send the cookies of a host to all its ports."""
        return f"penstock_session_{self.port}"

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
    return name.casefold(), int(port) if port.isdecimal() else None


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
        nonce = scope.setdefault("state", {})[NONCE] = secrets.token_urlsafe(KEY_BYTES)
        send = protected(send, nonce)
        refused = self._refusal(scope)
        if refused is not None:
            await _refuse(scope, send, *refused)
        elif (page := self._address_without_token(scope)) is not None:
            await logged_in(self._access, page)(scope, receive, send)
        else:
            await self._app(scope, _limited(receive), send)

    def _address_without_token(self, scope: Scope) -> str | None:
        """Of a page that is opened with the token in its address: the address without it."""
        if not self._opens_with_token(scope):
            return None
        query = scope["query_string"].decode("latin-1")
        rest = urlencode([(n, v) for n, v in parse_qsl(query, keep_blank_values=True) if n != "token"])
        path = "/" + scope["path"].lstrip("/")  # two slashes would lead to another host
        return f"{path}?{rest}" if rest else path

    def _opens_with_token(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith("/api"):
            return False
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])
        return self._access.is_token(given[0])

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
        if not length.isdecimal() or int(length) > MOST_BODY:
            return 413, f"the request is larger than {MOST_BODY:,} bytes"
        if not self._may_look(scope):
            return 401, (
                "this server needs its token: open the address that it printed, or send Authorization: "
                "Bearer; penstock shell takes it from PENSTOCK_TOKEN"
            )
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
        given = _cookie(_headers(scope).get("cookie", ""), self._access.cookie)
        is_session = hmac.compare_digest(given.encode(), self._access.sessions.encode())
        return is_session or self._has_token(scope) or self._opens_with_token(scope)

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


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
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


def logged_in(access: Access, page: str) -> Response:
    """The answer to a login: the cookie, and the way to a page.

    A page that leads on, and no redirect: browsers keep a ``SameSite=Strict`` cookie from a redirect whose
    first request came from a link of another site, such as a notebook's.
    """
    to = html.escape(page, quote=True)
    answer = HTMLResponse(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={to}"><a href="{to}">Penstock</a>'
    )
    answer.set_cookie(access.cookie, access.sessions, httponly=True, samesite="strict", path="/")
    return answer


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": why[:100]})
        return
    asks_page = "text/html" in _headers(scope).get("accept", "")
    if status == 401 and asks_page and scope["method"] == "GET":
        headers = [(b"location", LOGIN.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    body = json.dumps({"error": {"message": why}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
