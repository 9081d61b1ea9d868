"""The HTTP API, under ``/api``; described by ``/api/openapi.json``."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from penstock.errors import CatalogError, CQLError, PenstockError
from penstock.server.guard import Access
from penstock.server.model import Model
from penstock.server.views import (
    DecisionView,
    Finding,
    InputView,
    Kept,
    PlanView,
    QueryView,
    SeriesView,
)


class Text(BaseModel):
    """A query's text."""

    text: str = Field(max_length=100_000)


def add_to(app: FastAPI, model: Model, access: Access) -> None:
    """Add the API to an application."""
    app.add_exception_handler(PenstockError, _told)

    @app.get("/api/server", tags=["server"])
    def server() -> dict[str, Any]:
        """What this server is and allows; ``key`` is for requests that change something."""
        return {"allow_ddl": access.allow_ddl, "key": None if access.token else access.key}

    @app.get("/api/queries", tags=["queries"])
    def queries() -> list[QueryView]:
        """All queries, pipelines before their members."""
        return model.queries()

    @app.get("/api/queries/{key}", tags=["queries"])
    def query(key: str) -> QueryView:
        """One query."""
        return model.query(key)

    @app.get("/api/queries/{key}/plan", tags=["plans"])
    def plan(key: str, partition: int | None = None) -> PlanView:
        """The plan of a query, with the numbers of all partitions or of one."""
        return model.plan(key, partition)

    @app.post("/api/plan", tags=["plans"])
    def planned(body: Text) -> PlanView:
        """The plan of a text that does not run."""
        return model.planned(body.text)

    @app.get("/api/queries/{key}/history", tags=["measurements"])
    def history(key: str, since: float = 0.0, node: str = "", property: str = "") -> list[SeriesView]:
        """The history of a query's measurements."""
        return model.series(key, since, node, property)

    @app.get("/api/queries/{key}/findings", tags=["measurements"])
    def findings(key: str) -> list[Finding]:
        """What holds a query back, the most important first."""
        return model.findings(key)

    @app.get("/api/queries/{key}/memory", tags=["measurements"])
    def memory(key: str) -> list[Kept]:
        """Where the memory of a query is."""
        return model.memory(key)

    @app.get("/api/decisions", tags=["measurements"])
    def decisions(query: str = "", since: float = 0.0) -> list[DecisionView]:
        """The time line of decisions."""
        return model.decisions(query, since)

    @app.get("/api/inputs", tags=["inputs"])
    def inputs() -> list[InputView]:
        """What is registered: streams, relations, tables, views, functions, sinks."""
        return model.inputs()


def _told(request: Request, error: Exception) -> JSONResponse:
    """An error of Penstock's own as JSON, with its place if it is one of a text."""
    told: dict[str, Any] = {"message": str(error), "kind": type(error).__name__}
    if isinstance(error, CQLError):
        told |= {"message": error.message, "line": error.line, "column": error.column, "hint": error.hint}
    unknown = isinstance(error, CatalogError) and str(error).startswith("there is no query")
    return JSONResponse({"error": told}, 404 if unknown else 400)
