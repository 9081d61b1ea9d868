"""The columns of the files that are there when a source is declared: one that no file has is a mistake.

Spark would read it as NULL in every row. The newest files are looked at, if they are on this machine; those
that come later may have columns that these have not.
"""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import CatalogError, nearest
from penstock.spark.settings import SAMPLED_FILES, SAMPLED_LINES

_log = logging.getLogger("penstock")


def check_columns(
    format_: str, place: str, declared: Iterable[str], options: Mapping[str, str], what: str
) -> None:
    """Reject a declared column that no file has; of JSON, whose rows may leave some out, a misspelt one."""
    present = _present(format_, place, {name.lower(): value for name, value in options.items()})
    if not present:
        return
    known = {name.casefold() for name in present}
    missing = [name for name in declared if name.casefold() not in known]
    others = [name for name in present if name.casefold() not in {d.casefold() for d in declared}]
    for name in missing:
        near = nearest(name, others)
        hint = f"did you mean {near!r}?" if near else f"they have {', '.join(present)}"
        if near or format_ != "json":
            raise CatalogError(f"{what}: no file in {place} has a column {name!r}; {hint}")
        _log.warning("%s: no file in %s has a column %r yet; it is NULL", what, place, name)


def _present(format_: str, place: str, options: Mapping[str, str]) -> list[str]:
    """The columns of the newest files, in order; none if they cannot be known."""
    if format_ == "csv" and options.get("header", "false").lower() != "true":
        return []
    if format_ == "json" and options.get("multiline", "false").lower() == "true":
        return []
    found: dict[str, None] = {}
    try:
        for file in _newest(place):
            in_path = (part.partition("=")[0] for part in file.parts if "=" in part)
            found |= dict.fromkeys([*_columns(format_, file, options), *in_path])
    except (OSError, UnicodeError, ValueError, pa.ArrowException):
        return []  # Spark will say what is wrong with the file
    return list(found)


def _newest(place: str) -> list[Path]:
    address = urlparse(place)
    root = Path(address.path if address.scheme == "file" else place)
    if address.scheme not in ("", "file") or not root.exists():
        return []
    files = [root] if root.is_file() else [f for f in root.rglob("*") if f.is_file()]
    shown = [f for f in files if not any(p.startswith((".", "_")) for p in f.relative_to(root).parts)]
    return sorted(shown, key=os.path.getmtime)[-SAMPLED_FILES:]


def _columns(format_: str, file: Path, options: Mapping[str, str]) -> list[str]:
    if format_ == "parquet":
        return list(pq.read_schema(file).names)
    with open(file, encoding=options.get("encoding", "utf-8"), newline="") as lines:
        if format_ == "csv":
            separator = options.get("sep", options.get("delimiter", ","))
            return next(csv.reader(lines, delimiter=separator), [])
        rows = [json.loads(line) for line in islice(lines, SAMPLED_LINES) if line.strip()]
    return [name for row in rows if isinstance(row, dict) for name in row]
