"""The page on which a browser proves that it has the token: it gets a cookie that is not the token.

The cookie opens pages and their web socket, by which pages also change things. It is not sent by pages of
other sites (SameSite), scripts cannot read it (HttpOnly), and it means nothing to a server that is started
later.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from penstock.server.guard import LOGIN, Access, logged_in

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px system-ui;display:grid;place-content:center;min-height:90vh}
input,button{font:inherit}</style>
<form method="post"><h1>Penstock</h1><p>%s</p>
<label>Token <input name="token" type="password" autocomplete="current-password" required autofocus></label>
<button>Log in</button></form></html>"""


def add_to(app: FastAPI, access: Access) -> None:
    """Add the page to an application."""

    @app.get(LOGIN, include_in_schema=False)
    def form() -> HTMLResponse:
        return HTMLResponse(_PAGE % "This server needs its token.")

    @app.post(LOGIN, include_in_schema=False)
    async def login(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
        if access.token and not access.is_token(given):
            return HTMLResponse(_PAGE % "That is not the token.", 401)
        return logged_in(access, "/")
