"""Numbers that one might tune are in the settings file of their package, each with a reason."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from penstock.streamon.orderings import ALGORITHMS
from penstock.streamon.settings import DEFAULTS, AccessThresholds, Thresholds, WJoinThresholds

PACKAGE = Path(__file__).parent.parent / "src" / "penstock"
MODULES = sorted(p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py"))
SETTINGS = [m for m in MODULES if m.endswith("/settings.py")]
WITHOUT = ("workloads/",)
"""Generated streams have parameters of their own."""
FIXED = {
    "engine/joins/held_rows.py": {"TESTED", "SEEN", "INPUTS"},  # bits of marks
    "engine/joins/monitored.py": {"_SHADOW", "_LASTING", "_NUMBER", "_PLACE", "_SINCE"},  # marks and bits
    "engine/kernels/bloom.py": {"_BITS_PER_KEY", "_PROBES"},
    "streamon/k_mon.py": {"UNBOUNDED"},
    "engine/kernels/membership.py": {"_EMPTY"},  # a free slot
    "engine/kernels/netting.py": {"_EMPTY"},  # a free slot
    "approx/memory_policy.py": {"UNLIMITED"},
    "budget.py": {"CONFIDENCE"},  # part of the language
    "cli/main.py": {"USER_ERROR", "INTERRUPTED"},  # exit codes
    "cli/output.py": {"READER_GONE"},  # an exit code
    "cql/expressions/times.py": {"DAY"},  # microseconds
    "functions/casts.py": {"_SECOND"},  # microseconds
    "functions/numbers.py": {"_DIGITS", "_EXACT_DIGITS"},  # of a double
    "functions/types.py": {"MAX_PRECISION"},  # Spark's and Arrow's
    "schema.py": {"MOST_TICKS"},  # ticks in 64 bits
    "engine/engine.py": {"HEADER_FORMAT", "SNAPSHOT_FORMAT"},
    "engine/joins/cache_update.py": {"PLACE"},
    "engine/joins/drop_probing.py": {"_UNSEEN"},
    "engine/kernels/b_plus_tree.py": {"HEAD", "_MOST_LEVELS"},
    "engine/kernels/caching.py": {"_LEAST_ROOM"},
    "engine/kernels/co_moments.py": {"SUMS", "_LARGE", "_SPLIT"},  # words of sums, halves of a double
    "engine/synopses/accumulators/sums.py": {"_EXACT"},  # of a double
    "engine/overflow.py": {"_PAGE_OUT"},  # a number of Linux
    "engine/kernels/exact_sums.py": {
        "NEAR",
        "FAR",
        "NEAR_SQUARES",
        "FAR_SQUARES",
        "WIDE",
        "HEAD",
        "UNPLACED",
        "_UNIT",
    },  # words of sums
    "engine/kernels/ordered.py": {"BLOCK"},  # compiled in: Numba's cache does not see other files
    "engine/kernels/probing.py": {"_BLOCK"},
    "engine/kernels/ranking.py": {"NO_LIMIT"},
    "engine/kernels/t_tree.py": {"HEAD", "_INSIDE", "_DEEPEST"},
    "engine/snapshot.py": {"_ALIGNED"},
    "engine/synopses/accumulators/sketches.py": {"_MIDDLE"},
    "plan/join_graph.py": {"_FAR"},  # ticks in 64 bits
    "routing.py": {"EVERYWHERE"},
    "spark/driver/exchange.py": {"_BITS", "_SEED"},  # Spark's hash
    "spark/process.py": {"_TRIM_THRESHOLD", "_MMAP_THRESHOLD"},  # glibc's
    "spark/driver/registrations.py": {"FORMAT"},
    "spark/relay/state_log.py": {"FORMAT", "_CONTROL", "_TABLES"},
    "spark/resident/directory.py": {"_LONGEST_PATH"},  # the system's
    "streamon/kernels.py": {"NEVER"},
    "streamon/profile.py": {"MAX_WEIGHT"},  # of a bit in 8 bits
}
"""Formats, units and marks: another number would be wrong, not faster or slower."""


def constants(module: str) -> Iterator[tuple[str, ast.expr]]:
    """Names of constants of a module or its classes, enumerations aside, and what they are."""
    tree = ast.parse((PACKAGE / module).read_text())
    classes = [c for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    bodies = [tree.body, *(c.body for c in classes if not any("Enum" in ast.unparse(b) for b in c.bases))]
    for statement in (s for body in bodies for s in body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                numbers = [v.value for v in values if isinstance(v, ast.Constant)]
                if numbers != list(range(len(names))):  # names for 0, 1, 2 are marks
                    yield from ((n.id, v) for n, v in zip(names, values, strict=True))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def is_number(value: ast.expr) -> bool:
    """Numbers, what is computed of numbers alone, and tuples of them."""
    match value:
        case ast.Constant(value=v):
            return isinstance(v, int | float) and not isinstance(v, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=parts):
            return bool(parts) and all(map(is_number, parts))
        case ast.Call(func=ast.Name(id="int" | "float"), args=[only]):
            return is_number(only)
    return False


@pytest.mark.parametrize("module", [m for m in MODULES if m not in SETTINGS and not m.startswith(WITHOUT)])
def test_tunables_are_in_settings_files(module: str) -> None:
    found = {name for name, value in constants(module) if name.isupper() and is_number(value)}
    found -= FIXED.get(module, set())
    assert not found, f"belongs to {module.split('/')[0]}/settings.py"


def parts_of_functions(module: str) -> Iterator[tuple[str, float]]:
    """Numbers that are not under a name of their own: defaults of parameters and of attributes, and
    fractions in the bodies of functions.
    """
    tree = ast.parse((PACKAGE / module).read_text())
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, args=arguments):
                for default in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
                    yield from ((name, n) for n in numbers(default) if n not in PLAIN)
                fractions = (n for part in node.body for n in numbers(part) if n % 1 and abs(n) > TINY)
                yield from ((name, n) for n in fractions if n not in PLAIN)
            case ast.ClassDef(body=body, bases=bases) if not any("Enum" in ast.unparse(b) for b in bases):
                for part in body:
                    match part:
                        case ast.Assign(targets=[ast.Name(id=name)], value=value):
                            pass
                        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                            pass
                        case _:
                            continue
                    if name != "format" and not name.isupper() and not isinstance(value, ast.Tuple):
                        yield from ((name, n) for n in numbers(value) if n not in PLAIN)


def numbers(tree: ast.AST) -> Iterator[float]:
    """The numbers that are written in a piece of code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            if not isinstance(node.value, bool):
                yield abs(node.value)


PLAIN, TINY = {0, 1, 2, 0.5}, 1e-6
"""Numbers that say what they are, and the size up to which they only keep a division from failing."""
WITHOUT_NAMES = ("settings.py", *WITHOUT, "functions/", "server/picture/", "server/pages/", "cli/main.py")
"""What SET sets, formulas of functions, sizes of what is drawn, and options with defaults in ``--help``."""
FORMULAS = {
    "cost/model.py": {1.5},  # Kang et al., equation 6
    "evaluation.py": {3},  # batches, which do not change the result
    "streamon/kernels.py": {0.6180339887},  # the golden ratio
}


@pytest.mark.parametrize(
    "module", [m for m in MODULES if m not in SETTINGS and not m.startswith(WITHOUT_NAMES)]
)
def test_no_tunable_is_without_a_name(module: str) -> None:
    found = {(name, n) for name, n in parts_of_functions(module) if n not in FORMULAS.get(module, ())}
    assert not found, f"belongs to {module.split('/')[0]}/settings.py"


@pytest.mark.parametrize("module", SETTINGS)
def test_a_setting_is_a_named_number_with_a_reason(module: str) -> None:
    body = ast.parse((PACKAGE / module).read_text()).body
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and is_number(statement.value):
            (target,) = statement.targets
            reason = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            assert reason and len(str(after.value.value)) > 20, f"{ast.unparse(target)} has no reason"


@pytest.mark.parametrize("settings", [Thresholds, AccessThresholds, WJoinThresholds])
def test_thresholds_are_described(settings: type) -> None:
    described = re.findall(r"^ {4}(\w+)\n {8}", settings.__doc__ or "", re.MULTILINE)
    assert described == [f.name for f in fields(settings)]
    assert DEFAULTS.keys() == ALGORITHMS.keys()


def test_settings_are_used() -> None:
    words = Counter(re.findall(r"\w+", "\n".join((PACKAGE / m).read_text() for m in MODULES)))
    names = {name for module in SETTINGS for name, _ in constants(module) if name.isupper()}
    assert not [name for name in names if words[name] < 2]


def test_numbers_are_recognized() -> None:
    source = "A = 1\nB = -2.5\nC = 1 << 20\nD = 'x'\nE = (1, 2)\nF = True\nG = float(1 << 3)\nH = ('a', 1)"
    values = {s.targets[0].id: s.value for s in ast.parse(source).body}
    assert [name for name, value in values.items() if is_number(value)] == ["A", "B", "C", "E", "G"]
