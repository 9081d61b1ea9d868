"""What the HTTP API answers where a request is wrong: ``{"error": {"message": ...}}`` in every case."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.errors import CatalogError, CQLError

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
WRONG = {
    "missing": "{what} is missing",
    "json_invalid": "the body is not JSON: {error}",
    "model_attributes_type": "{what} must be a JSON object",
    "dict_type": "{what} must be a JSON object",
    "string_type": "{what} must be a text",
    "bool_type": "{what} must be true or false",
    "bool_parsing": "{what} must be true or false",
    "int_parsing": "{what} must be a whole number",
    "float_parsing": "{what} must be a number",
    "string_too_long": "{what} is longer than {max_length:,} characters",
    "string_pattern_mismatch": "{what} may have letters, digits, _ and, but for the first, -; at most 100",
    "too_short": "{what} has no entries",
    "too_long": "{what} has more than {max_length} entries",
}
"""By the kind of mistake as pydantic names it, what is wrong."""


def add_errors(app: FastAPI) -> None:
    """Answer mistakes in requests, and paths that do not exist, as other errors are answered."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)


def refuse_others(app: FastAPI) -> None:
    """Refuse all other paths under ``/api``, which the pages beside it would answer with a page."""

    @app.api_route("/api/{path:path}", methods=METHODS, include_in_schema=False)
    def unknown(path: str) -> None:
        raise HTTPException(404)


def error_response(request: Request, error: Exception) -> JSONResponse:
    """An error of Penstock's own as JSON, with its place if it is one of a text."""
    found: dict[str, Any] = {"message": str(error), "kind": type(error).__name__}
    if isinstance(error, CQLError):
        found |= {"message": error.message, "line": error.line, "column": error.column, "hint": error.hint}
    unknown = isinstance(error, CatalogError) and str(error).startswith("there is no query")
    return JSONResponse({"error": found}, 404 if unknown else 400)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    message = "; ".join(dict.fromkeys(map(_mistake, error.errors())))
    hint = f"GET /api/openapi.json describes what {request.method} {request.url.path} takes"
    return JSONResponse({"error": {"message": message, "kind": "RequestError", "hint": hint}}, 422)


def _mistake(found: dict[str, Any]) -> str:
    where, *path = found["loc"]
    name = repr(".".join(str(part) for part in path))
    what = f"parameter {name}" if where != "body" else name if path else "the body"
    if found["type"] not in WRONG:
        return f"{what}: {found['msg']}"
    return WRONG[found["type"]].format(what=what, **found.get("ctx", {}))


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    if error.status_code in (404, 405):
        message = f"there is no {request.method} {request.url.path}"
    hint = "GET /api/openapi.json describes the API"
    content = {"error": {"message": message, "kind": "RequestError", "hint": hint}}
    return JSONResponse(content, error.status_code, headers=error.headers)
