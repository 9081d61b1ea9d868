"""Compiled kernels are kept by content, for all checkouts of a user, and only where nobody else can write."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import numba
import pytest
from test_kernels import PACKAGE

from penstock.compiled import places, signatures
from penstock.compiled.cache import fingerprint
from penstock.compiled.warm import failed, missing, warm

Run = Callable[..., str]
BASE = "def f(x): return x + K"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program beside a package of kernels; returns what it prints."""

    def run(program: str, **environment: str) -> str:
        paths = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
        given = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        given["PYTHONDONTWRITEBYTECODE"] = "1"  # Python does not see a change within a second
        command = [sys.executable, "-c", textwrap.dedent(program)]
        return subprocess.check_output(command, env=given | environment, text=True).strip()

    return run


def write(folder: Path, base: str, constant: int = 1) -> None:
    """A module of kernels that calls one of another module, with a constant of a third."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").touch()
    (folder / "numbers.py").write_text(f"K = {constant}\n")
    start = "from penstock.compiled import njit\n"
    (folder / "base.py").write_text(f"{start}from own.numbers import K\n@njit\n{base}\n")
    (folder / "top.py").write_text(f"{start}from own.base import f\n@njit\ndef g(x): return 10 * f(x)\n")


CALL = """
    from own.top import g
    print(g(4), sum(g._cache_misses.values()))
"""


@pytest.mark.slow
def test_a_kernel_is_compiled_once_for_each_content(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "own", BASE)
    assert run(CALL) == "50 1"
    write(tmp_path / "own", BASE)  # another time of the files
    assert run(CALL) == "50 0"
    (tmp_path / "own").rename(tmp_path / "away")
    write(tmp_path / "elsewhere" / "own", BASE)  # another checkout
    paths = os.pathsep.join([str(tmp_path / "elsewhere"), str(PACKAGE.parent)])
    assert run(CALL, PYTHONPATH=paths) == "50 0"
    write(tmp_path / "own", BASE.replace("+", "-"))  # a kernel of another module, which is compiled in
    assert run(CALL) == "30 1"
    write(tmp_path / "own", BASE, constant=2)  # a constant of another module
    assert run(CALL) == "60 1"
    write(tmp_path / "own", BASE)
    assert run(CALL) == "50 0"


@pytest.mark.slow
def test_a_source_that_changes_after_it_was_imported(run: Run, tmp_path: Path) -> None:
    """What was imported is compiled, and is not kept as what the file has now."""
    write(tmp_path / "own", BASE)
    changed = BASE.replace("+", "-")
    edit = f"path = own.base.__file__; text = open(path).read().replace({BASE!r}, {changed!r})"
    program = f"import own.base\nfrom own.top import g\n{edit}\nopen(path, 'w').write(text)\nprint(g(4))"
    assert run(program) == "50"
    assert run(CALL) == "30 1"


@pytest.mark.slow
def test_a_damaged_file_is_compiled_anew(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "own", BASE)
    assert run(CALL) == "50 1"
    flipped = lambda data: data[:-9] + b"#" + data[-8:]  # noqa: E731
    for damages in ((lambda data: b"", lambda data: data[:-9]), (flipped, flipped)):
        kept = sorted((tmp_path / "cache" / "penstock" / "kernels").iterdir())
        for path, damage in zip(kept, damages, strict=True):
            path.write_bytes(damage(path.read_bytes()))
        assert run(CALL) == "50 1"
    assert run(CALL) == "50 0"


@pytest.mark.slow
def test_types_of_one_kernel_have_files_of_their_own(run: Run, tmp_path: Path) -> None:
    """Numba numbers the files of one kernel, so that two processes may give two types one file."""
    write(tmp_path / "own", BASE)
    together = """
        import subprocess, sys
        calls = [f"from own.top import g; print(g({x}))" for x in ("4", "2.5", "True", "4j")]
        for process in [subprocess.Popen([sys.executable, "-c", call]) for call in calls]: process.wait()
    """
    assert sorted(run(together).split()) == ["(10+40j)", "20", "35.0", "50"]
    again = "from own.top import g\nprint(g(4), g(2.5), g(True), g(4j), sum(g._cache_misses.values()))"
    assert run(again) == "50 35.0 20 (10+40j) 0"


@pytest.mark.slow
def test_without_a_home_kernels_are_in_the_temporary_directory(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "own", BASE)
    (tmp_path / "file").touch()
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path / "file")}
    assert run(CALL, TMPDIR=str(tmp_path), **nowhere) == "50 1"
    place = tmp_path / f"penstock-kernels-{os.geteuid()}"
    assert place.stat().st_mode & 0o777 == 0o700
    assert run(CALL, TMPDIR=str(tmp_path), **nowhere) == "50 0"
    place.chmod(0o777)  # anybody may have put code there
    assert run(CALL, TMPDIR=str(tmp_path), **nowhere) == "50 1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_directory_of_another_user_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "kernels"
    place.mkdir(mode=0o700)
    assert places.is_private(place)
    os.chown(place, 65534, 65534)
    assert not places.is_private(place)


def test_what_was_not_used_for_longest_is_removed(tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / str(n)).write_bytes(bytes(100))
        os.utime(tmp_path / str(n), (n, n))
    places.prune(tmp_path, limit=350)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["7", "8", "9"]


def test_every_kernel_is_cached_by_content() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "compiled":
            text = path.read_text()
            assert "numba.njit" not in text and "import numba" not in text, path
            assert "from numba" not in text, f"{path}: from penstock.compiled import njit"
            assert "njit(cache" not in text, path


def test_the_list_of_signatures_has_every_kernel() -> None:
    """As far as Python calls them: those that only other kernels call are compiled with these."""
    warm()
    assert not missing()
    old = failed()  # a few do no harm: such a kernel is compiled when it is called
    assert len(old) < 0.1 * len(signatures.lines()), f"run python tests/kernel_signatures.py: {old}"


def test_text_of_types_is_read_back() -> None:
    for text in signatures.lines():
        kernel, types = signatures.kernel(text)
        assert signatures.line(kernel.py_func, types) == text


def test_what_the_cache_uses_of_numba() -> None:
    """If this fails with a new Numba, see how its dispatcher loads and saves; change compiled/cache.py."""
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult
    from numba.core.registry import CPUDispatcher

    dispatcher = numba.njit(lambda x: x + 1)
    assert isinstance(dispatcher, CPUDispatcher) and isinstance(dispatcher.py_func, FunctionType)
    assert type(dispatcher._cache) is NullCache, "Dispatcher has its cache in _cache"
    methods = {name for name in vars(NullCache) if not name.startswith("_")}
    assert methods == {"cache_path", "load_overload", "save_overload", "enable", "disable", "flush"}
    assert callable(CompileResult._reduce) and callable(CompileResult._rebuild)


def test_a_module_without_source_has_no_fingerprint() -> None:
    assert fingerprint("penstock.streamon.kernels") != fingerprint("penstock.engine.kernels.hashing")
