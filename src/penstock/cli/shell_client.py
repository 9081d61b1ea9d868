"""A client of the server's HTTP API, for the shell: requests, and results as they come."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from penstock.cli.settings import REQUEST_S
from penstock.errors import PenstockError


class Client:
    """A server at an address; the token goes in a header, also one that stands in the address as printed."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise PenstockError(f"{url!r} is not the address of a server; write e.g. http://127.0.0.1:8765")
        token = token or parse_qs(parts.query).get("token", [None])[0]
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        key = self.get("/api/server")["key"]
        if key:
            self._headers["X-Penstock"] = key

    def get(self, path: str) -> Any:
        """The answer to a request."""
        return self._json("GET", path)

    def post(self, path: str, **body: Any) -> Any:
        """The answer to a request that changes something, or that has a text."""
        return self._json("POST", path, body)

    def delete(self, path: str) -> Any:
        """The answer to a request that ends something."""
        return self._json("DELETE", path)

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        with self._open(method, path, body, REQUEST_S) as answer:
            return json.loads(answer.read())

    def _open(self, method: str, path: str, body: dict[str, Any] | None, seconds: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            raise PenstockError(_told(error)) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise PenstockError(f"no server answers at {self.url}: {reason}; start penstock serve") from None

    def results(self, key: str) -> Iterator[tuple[str, Any]]:
        """The events of a query's results: their names and data."""
        with self._open("GET", f"/api/queries/{quote(key)}/results", None, REQUEST_S) as answer:
            name = ""
            for line in answer:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    yield name, json.loads(text.removeprefix("data: "))


def _told(error: urllib.error.HTTPError) -> str:
    """What an error of the server says, with its place in the text."""
    try:
        answer = json.loads(error.read())
    except ValueError:
        return f"the server answered {error.code}"
    found = answer.get("error")
    if not isinstance(found, dict):
        return f"the server answered {error.code}: {answer.get('detail', '')}"
    where = f"line {found['line']}, column {found['column']}: " if found.get("line") else ""
    return f"{where}{found['message']}" + (f"; {found['hint']}" if found.get("hint") else "")
