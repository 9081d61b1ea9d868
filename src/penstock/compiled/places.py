"""Where compiled kernels are kept: in the user's cache, or in a private directory of the temporary one.

A compiled kernel is code that runs with the rights of whoever loads it. So a directory is used only if it
belongs to the user who runs this process and nobody else can write there.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from penstock.compiled.settings import CACHE_BYTES


@cache
def cache_directory() -> Path | None:
    """The directory of this user's kernels; None if there is no place for one."""
    return next((place for place in _places() if is_private(place)), None)


def _places() -> Iterator[Path]:
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        yield Path(chosen) / "penstock" / "kernels"
    with contextlib.suppress(RuntimeError, KeyError):  # a user without a home
        yield Path.home() / ".cache" / "penstock" / "kernels"
    yield Path(tempfile.gettempdir()) / f"penstock-kernels-{os.geteuid()}"


def is_private(place: Path) -> bool:
    """Make the directory if it is not there; returns whether only this user can write there."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        status = place.lstat()
    except OSError:
        return False
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return mine and not status.st_mode & 0o022 and os.access(place, os.W_OK | os.X_OK)


def prune(directory: Path, limit: int = CACHE_BYTES) -> None:
    """Remove the files that were not used for longest until the others have at most ``limit`` bytes."""
    files = []
    for path in directory.iterdir():
        with contextlib.suppress(OSError):  # another process removed it
            status = path.stat()
            files.append((status.st_mtime, status.st_size, path))
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > limit:
            with contextlib.suppress(OSError):
                path.unlink()
