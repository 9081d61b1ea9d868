"""The pages in the browser."""

from __future__ import annotations

from nicegui import ui

from penstock.server.site import shown


def add_pages() -> None:
    """Define the pages; each asks ``shown()`` for the model, whose backend makes the changes."""

    @ui.page("/")
    def queries() -> None:
        ui.label("Penstock")
        for query in shown().model.queries():
            ui.label(f"{query.name}: {query.state}")
