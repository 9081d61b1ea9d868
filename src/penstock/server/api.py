"""The HTTP API, under ``/api``; described by ``/api/openapi.json``.

Handlers are plain functions, which FastAPI runs in threads: a slow answer of Spark holds back no other.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from math import isfinite, isnan
from typing import Any

import pyarrow as pa
from fastapi import FastAPI
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.errors import CatalogError, PenstockError
from penstock.server.api_errors import add_errors, error_response, refuse_others
from penstock.server.guard import Access
from penstock.server.model import Model
from penstock.server.results import Feed, Reader
from penstock.server.settings import (
    GONE_S,
    HEARTBEAT_S,
    MOST_CHANGES,
    MOST_NAME,
    MOST_STREAMS,
    MOST_TEXT,
    WATCHED_ROWS,
)
from penstock.server.views import (
    DecisionView,
    Finding,
    InputView,
    Kept,
    PlanView,
    QueryView,
    SeriesView,
    SettingView,
)

ARROW = "application/vnd.apache.arrow.stream"


class Text(BaseModel):
    """A query's text."""

    text: str = Field(max_length=MOST_TEXT)


class Registration(Text):
    """A query to start; with a pipeline, to be registered in it."""

    name: str = Field(pattern=r"^\w[\w-]{0,99}$")
    pipeline: str | None = Field(default=None, max_length=MOST_NAME)
    once: bool = False


class Values(BaseModel):
    """Settings by name."""

    settings: dict[str, str | int | float] = Field(min_length=1, max_length=MOST_CHANGES)


def add_to(app: FastAPI, model: Model, access: Access) -> None:
    """Add the API to an application."""
    app.add_exception_handler(PenstockError, error_response)
    add_errors(app)
    _reading(app, model, access)
    _plans(app, model)
    _changing(app, model, access)
    _results(app, model)
    refuse_others(app)


def _reading(app: FastAPI, model: Model, access: Access) -> None:
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

    @app.get("/api/queries/{key}/history", tags=["measurements"])
    def history(key: str, since: float = 0.0, node: str = "", property: str = "") -> list[SeriesView]:
        """The history of a query's measurements."""
        return model.series(key, since, node, property)

    @app.get("/api/queries/{key}/measurements", tags=["measurements"])
    def measurements(key: str) -> list[dict[str, Any]]:
        """The latest typed measurements of a query's engines, as in SysStream."""
        return [{**m._asdict(), "unit": m.property.unit} for m in model.measurements(key)]

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


def _plans(app: FastAPI, model: Model) -> None:
    from penstock.server.picture import picture

    @app.get("/api/queries/{key}/plan", tags=["plans"])
    def plan(key: str, partition: int | None = None) -> PlanView:
        """The plan of a query, with the numbers of all partitions or of one."""
        return model.plan(key, partition)

    @app.get("/api/queries/{key}/plan.svg", tags=["plans"], response_class=Response)
    def drawn(key: str, partition: int | None = None) -> Response:
        """The plan of a query as a picture."""
        return _svg(picture(model.plan(key, partition)).svg)

    @app.post("/api/plan", tags=["plans"])
    def planned(body: Text) -> PlanView:
        """The plan of a text that does not run; a mistake in it is an error with line and column."""
        return model.planned(body.text)

    @app.post("/api/plan.svg", tags=["plans"], response_class=Response)
    def planned_drawn(body: Text) -> Response:
        """The plan of a text that does not run, as a picture."""
        return _svg(picture(model.planned(body.text)).svg)

    @app.post("/api/explain", tags=["plans"])
    def explained(body: Text) -> dict[str, str]:
        """The plan of a text that does not run, as text."""
        return {"plan": model.backend.plan(body.text).explained}


def _svg(text: str) -> Response:
    # Opened by itself, a picture must run nothing that a name in it might contain.
    headers = {
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(text, media_type="image/svg+xml", headers=headers)


def _changing(app: FastAPI, model: Model, access: Access) -> None:
    @app.post("/api/queries", tags=["queries"], status_code=201)
    def register(body: Registration) -> QueryView:
        """Start a query over registered inputs, or register it in a pipeline."""
        key = model.backend.register(body.name, body.text, body.pipeline, body.once)
        model.sample()
        return model.query(key)

    @app.delete("/api/queries/{key}", tags=["queries"])
    def drop(key: str) -> dict[str, str]:
        """End a query, or drop it from its pipeline."""
        return _done(model, key, model.backend.drop)

    @app.post("/api/queries/{key}/start", tags=["queries"])
    def start(key: str) -> dict[str, str]:
        """Start a query or pipeline that has stopped or failed."""
        return _done(model, key, model.backend.start)

    @app.post("/api/queries/{key}/stop", tags=["queries"])
    def stop(key: str) -> dict[str, str]:
        """Stop a query or pipeline; it can be started again."""
        return _done(model, key, model.backend.stop)

    @app.get("/api/queries/{key}/settings", tags=["settings"])
    def settings(key: str, operator: str = "") -> list[SettingView]:
        """What a query can change while it runs, with the values now."""
        return model.settings(key, operator)

    @app.post("/api/queries/{key}/settings", tags=["settings"])
    def change(key: str, body: Values) -> list[SettingView]:
        """Change settings of a running query; its engines use them from the next batch on."""
        model.set(key, {name: str(value) for name, value in body.settings.items()})
        return model.settings(key)

    @app.post("/api/statements", tags=["inputs"])
    def execute(body: Text) -> dict[str, str]:
        """Run statements that define something; refused unless the server was started with --allow-ddl."""
        if not access.allow_ddl:
            raise CatalogError("this server takes queries only; start it with --allow-ddl to define inputs")
        done = model.backend.execute(body.text)
        model.sample()
        return {"done": done}


def _done(model: Model, key: str, change: Callable[[str], None]) -> dict[str, str]:
    change(model.query(key).key)
    model.sample()
    return {"done": key}


def _results(app: FastAPI, model: Model) -> None:
    """Each open stream has a queue of its own, which goes when the client does."""
    streams = threading.BoundedSemaphore(MOST_STREAMS)

    def opened(key: str) -> Feed:
        feed = model.backend.feed(model.query(key).key)
        if not streams.acquire(blocking=False):
            raise CatalogError(f"{MOST_STREAMS} results are being read, the most at once; close one of them")
        return feed

    async def stream(
        request: Request, key: str, recent: bool, made: Callable[[Feed, Arrived], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        feed = await run_in_threadpool(opened, key)

        async def parts() -> AsyncIterator[Any]:
            try:
                with feed.reading(recent) as reader:
                    async for part in made(feed, Arrived(reader, request)):
                        yield part
            finally:
                streams.release()

        return parts()

    @app.get("/api/queries/{key}/results", tags=["results"])
    async def events(request: Request, key: str, recent: bool = True) -> StreamingResponse:
        """Results as they come, as Server-Sent Events: ``columns``, then ``rows``, ``lost`` and ``end``."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        parts = await stream(request, key, recent, _events)
        return StreamingResponse(parts, media_type="text/event-stream", headers=headers)

    @app.get("/api/queries/{key}/results.arrow", tags=["results"])
    async def arrow(request: Request, key: str, recent: bool = True, follow: bool = True) -> Response:
        """Results as they come, as an Arrow IPC stream; without ``follow`` only the recent rows."""
        if not follow:
            feed = await run_in_threadpool(lambda: model.backend.feed(model.query(key).key))
            return Response(await run_in_threadpool(_recent, feed), media_type=ARROW)
        return StreamingResponse(await stream(request, key, recent, _arrow), media_type=ARROW)


class Arrived:
    """What comes for a reader, until the end of the results or until its client is gone."""

    def __init__(self, reader: Reader, request: Request) -> None:
        self.reader, self._request = reader, request
        self._came, loop = asyncio.Event(), asyncio.get_running_loop()
        reader.arrived = lambda: loop.call_soon_threadsafe(self._came.set)

    async def batches(self) -> AsyncIterator[pa.RecordBatch | None]:
        """The batches; None now and then if nothing comes."""
        quiet = 0.0
        while not await self._request.is_disconnected():
            try:
                batch = self.reader.waiting.get_nowait()
            except queue.Empty:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._came.wait(), GONE_S)
                self._came.clear()
                quiet += GONE_S
                if quiet >= HEARTBEAT_S:
                    quiet = 0.0
                    yield None
                continue
            if batch is None:
                return
            quiet = 0.0
            yield batch


async def _events(feed: Feed, arrived: Arrived) -> AsyncIterator[str]:
    yield _event("columns", [{"name": f.name, "type": str(f.type)} for f in feed.schema])
    async for batch in arrived.batches():
        if batch is None:
            yield ": nothing new\n\n"
            continue
        if lost := arrived.reader.take_lost():
            yield _event("lost", lost)
        for start in range(0, batch.num_rows, WATCHED_ROWS):
            yield _event("rows", batch.slice(start, WATCHED_ROWS).to_pylist())
    yield _event("end", None)


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(_in_json(data), default=str)}\n\n"


def _in_json(value: Any) -> Any:
    """NaN and infinities as texts, as Spark's to_json writes them: JSON has no such numbers.

    >>> _in_json([{"a": float("nan"), "b": (float("-inf"), 1.5)}])
    [{'a': 'NaN', 'b': ['-Infinity', 1.5]}]
    """
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(name): _in_json(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(v) for v in value]
    return value


class _Pieces:
    """A file that Arrow writes to, whose bytes are taken piece by piece: nothing of what was sent is kept."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        return

    def take(self) -> bytes:
        """What was written since the last call."""
        taken, self._written = b"".join(self._written), []
        return taken


async def _arrow(feed: Feed, arrived: Arrived) -> AsyncIterator[bytes]:
    pieces = _Pieces()
    with pa.ipc.new_stream(pieces, feed.schema) as writer:
        yield pieces.take()
        async for batch in arrived.batches():
            if batch is not None:
                writer.write_batch(batch)
                yield pieces.take()
    yield pieces.take()


def _recent(feed: Feed) -> bytes:
    pieces = _Pieces()
    with pa.ipc.new_stream(pieces, feed.schema) as writer:
        for batch in feed.recent():
            writer.write_batch(batch)
    return pieces.take()
