"""An engine process runs any program without the language, the optimizer or Spark's Python API."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from fixture_files import read_file
from pyspark import cloudpickle
from test_fixtures import FILES, FUNCTIONS

from penstock import cql, in_process
from penstock.catalog import Input, InputOptions
from penstock.engine.engine import Engine
from penstock.engine.stage import Arrival, Stage, StepOutput
from penstock.evaluation import _run, read_inputs
from penstock.plan import compile
from penstock.plan.physical import SourceInput
from penstock.schema import TimeDomain
from penstock.spark.driver.checkpoint import fingerprint
from penstock.spark.driver.dataframe import result_schema
from penstock.spark.driver.exchange import partition_keys
from penstock.spark.map_side.packer import Packer, Split
from penstock.spark.relay.processor import Relay
from penstock.spark.relay.result import Rows
from penstock.spark.resident.program import Program

COMPILER = ("penstock.cql", "penstock.plan", "penstock.catalog", "sqlglot", "pyspark")
REPLAY = """
import json, pickle, sys
from penstock.spark.resident.host import preload

preload()
loaded = set(sys.modules)
with open(sys.argv[1], "rb") as file:
    runs = pickle.load(file)
for program, steps in runs:
    unpacked = pickle.loads(program)
    engine = unpacked.build(unpacked.stage)
    for arrivals in pickle.loads(steps):
        engine.step(arrivals)
    engine.header()
print(json.dumps([sorted(sys.modules), sorted(set(sys.modules) - loaded)]))
"""


class Recorded(Engine):
    """An engine that keeps the arrivals of its steps."""

    runs: list[tuple[Stage, list[list[Arrival]]]] = []

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.taken: list[list[Arrival]] = []
        self.runs.append((stage, self.taken))

    def step(self, arrivals: list[Arrival], commands: Any = ()) -> StepOutput:
        self.taken.append(arrivals)
        return super().step(arrivals, commands)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Modules of an interpreter that ran the programs of all fixtures, and those not loaded before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "Engine", Recorded)
        for fixture in (f for path in FILES for f in read_file(path) if not f.functions):
            finite = read_inputs(fixture.elements(), fixture.schemas(), TimeDomain())
            catalog: dict[str, Any] = {**finite.catalog(), **FUNCTIONS}
            _run(compile(cql.bind(fixture.query, catalog), 2), finite, fixture.until, batches=2)
    assert len(Recorded.runs) > 50
    file = tmp_path_factory.mktemp("programs") / "runs.pickle"
    runs = [(pickle.dumps(Program(stage)), pickle.dumps(steps)) for stage, steps in Recorded.runs]
    file.write_bytes(pickle.dumps(runs))
    done = subprocess.run([sys.executable, "-c", REPLAY, str(file)], capture_output=True, check=True)
    loaded, late = json.loads(done.stdout)
    return loaded, late


def of(packages: tuple[str, ...], loaded: list[str]) -> list[str]:
    return [m for m in loaded if any(m == p or m.startswith(f"{p}.") for p in packages)]


@pytest.mark.slow
def test_an_engine_process_loads_no_compiler(modules: tuple[list[str], list[str]]) -> None:
    assert not of(COMPILER, modules[0])


@pytest.mark.slow
def test_a_host_has_loaded_what_engines_need(modules: tuple[list[str], list[str]]) -> None:
    """Or each engine would load it anew, while a batch waits."""
    assert not of(("penstock",), modules[1])


@pytest.fixture(scope="module")
def pickled() -> tuple[list[Packer], Relay]:
    """What Spark unpickles in its Python processes: a stage's packers and its relay."""
    streams = {n: Input(n, pa.schema([("k", pa.int64())]), InputOptions(timestamp="t")) for n in "RS"}
    plan = compile(cql.bind("SELECT R.k FROM R [RANGE 5], S [RANGE 5] WHERE R.k = S.k", streams), 2)
    (planned,) = plan.stages
    keys = partition_keys(2)
    packers = [
        Packer(i.name, i.stream.name, i.stream.schema, pa.schema([]), (Split(("k",)),), i.route, keys)
        for i in planned.inputs
        if isinstance(i, SourceInput)
    ]
    finish = Rows(result_schema(plan), plan.kind)
    program = pickle.dumps(Program(planned.stage))
    return packers, Relay(program, 0, keys, fingerprint(planned, 0), finish)


def loaded_by(value: Any) -> list[str]:
    """The modules of an interpreter that unpickles a value as Spark's Python processes do."""
    text = "import pickle, sys; pickle.load(sys.stdin.buffer); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", text], input=cloudpickle.dumps(value), capture_output=True, check=True
    )
    return done.stdout.decode().split()


def test_tasks_load_no_compiler(pickled: tuple[list[Packer], Relay]) -> None:
    assert len(pickled[0]) == 2
    assert not of(("penstock.cql", "penstock.plan", "sqlglot", "numba"), loaded_by(pickled))


def test_the_driver_prepares_a_stage_without_what_steps_need(pickled: tuple[list[Packer], Relay]) -> None:
    """A query's first batch waits until a process of each stage has imported what its relay needs."""
    assert not of(("numpy", "pyarrow", "pandas", "penstock.engine"), loaded_by(pickled[1]))
