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

from penstock.server.guard import Access
from penstock.server.model import Model


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
    site = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(site, title="Penstock", show_welcome_message=False)
    return site
