"""The web application: the HTTP API, and the pages."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from penstock.server import api, login
from penstock.server.guard import Access
from penstock.server.model import Model

_DESCRIPTION = """Queries, plans, measurements and settings of a running Penstock.

Requests need the header `Authorization: Bearer TOKEN`. Of a server that was started without a token, those
that change something need `X-Penstock` with the value of `key` that `GET /api/server` returns."""


def create_app(model: Model, access: Access, pages: bool = True) -> FastAPI:
    """The application over a model, without the guard (:mod:`penstock.server.guard`) before it."""
    app = FastAPI(
        title="Penstock",
        version=version("penstock"),
        description=_DESCRIPTION,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page would load scripts from the internet
        redoc_url=None,
    )
    app.state.model, app.state.access = model, access
    api.add_to(app, model, access)
    login.add_to(app, access)
    if pages:
        from penstock.server.site import add_site

        add_site(app, model, access)
    return app
