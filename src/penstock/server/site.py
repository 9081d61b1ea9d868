"""The pages as a part of an application.

NiceGUI has one site per process, which is set up once; a server that is started later shows its own model in
the same site. So pages ask which model is shown when they are opened, and do not keep one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

from fastapi import FastAPI
from jinja2 import BaseLoader, Environment, FunctionLoader

from penstock.server.guard import Access
from penstock.server.model import Model
from penstock.server.protection import NONCE


@dataclass
class Site:
    """What the pages show now."""

    model: Model
    access: Access


_shown: list[Site] = []


def shown() -> Site:
    """The model of the server that was started last."""
    return _shown[-1]


def add_site(app: FastAPI, model: Model, access: Access) -> None:
    """Add the pages to an application."""
    _shown[:] = [Site(model, access)]
    site = _site()
    app.mount("/", site)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with site.router.lifespan_context(site):
            yield

    app.router.lifespan_context = lifespan


@cache
def _site() -> FastAPI:
    from nicegui import ui

    from penstock.server.pages import add_pages

    add_pages()
    _name_own_scripts()
    site = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(site, title="Penstock", show_welcome_message=False)
    return site


def _name_own_scripts() -> None:
    """Give the scripts in NiceGUI's template of a page the nonce of the request.

    It is done to the template's own text, before anything is put in: a script that comes in with a text,
    such as a query's, never gets the nonce, and the browser does not run it.
    """
    from nicegui.client import templates

    environment: Environment = templates.env
    theirs = environment.loader
    assert isinstance(theirs, BaseLoader)

    def named(name: str) -> str:
        text = theirs.get_source(environment, name)[0]
        return text.replace("<script", f'<script nonce="{{{{ request.state.{NONCE} }}}}"')

    environment.loader = FunctionLoader(named)
    if environment.cache is not None:
        environment.cache.clear()
