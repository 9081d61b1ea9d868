"""The local Spark that Penstock starts if it is given none, and the settings that make it fast.

The benchmarks run other systems with the same settings, and most of them gain as well.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.errors import CatalogError, EngineError
from penstock.spark.driver.jvm import JvmEnded, watch
from penstock.spark.resident.directory import Process
from penstock.spark.settings import LOG_KEPT_S

_PREFIX = "penstock-spark-"
_STREAMING = "spark.sql.streaming"

NEEDED = {
    f"{_STREAMING}.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Required in any session: the log is in RocksDB, and only its changes are written."""

TOLD_APART = {
    # Spark stores the state of each attempt at a batch under a name of its own, and goes on from the one that
    # it committed. A checkpoint keeps the format that it began with.
    f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
}
"""Attempts at one batch on several executors do not overwrite each other's state."""

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""No log messages, and no port open beyond this machine."""

FAST = {
    # Through FileContext, Spark's default, Hadoop starts a readlink or chmod process for every file that it
    # touches: about 100 ms per batch. Through FileSystem it starts far fewer.
    f"{_STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop's local files carry checksums of their own.
    f"{_STREAMING}.checkpoint.fileChecksum.enabled": "false",
    f"{_STREAMING}.noDataMicroBatches.enabled": "false",
    # A query continues from its last batch. Spark would keep the changes of 100 batches to go back to.
    f"{_STREAMING}.minBatchesToRetain": "10",
    # Fewer, larger batches of rows on their way to Python, over sockets without TCP.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark would hash every shuffled row, to detect that a task returns other rows when run again. Here no
    # output of a task can be lost, and what Penstock shuffles does not depend on the order of rows.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    # A busy machine may take longer than the default 15 s to start a Python worker.
    "spark.python.authenticate.socketTimeout": "60s",
}
"""For checkpoints on this machine's disk."""

UNCHECKED = {"arrow.enable_unsafe_memory_access": "true", "arrow.enable_null_check_for_get": "false"}
"""Properties that a JVM reads when it loads Arrow, which else checks the bounds of its buffers, and whether a
value is NULL, for every value of every row that comes from Python. Spark asks for NULL itself before it reads
a value, and reads the rows that there are.
"""

LOG_VARIABLE = "PENSTOCK_SPARK_LOG"
_NO_JAVA = re.compile("JAVA_HOME is not set|java: (command )?not found|/java: No such|UnsupportedClassVer")
"""What Spark's scripts and an old Java write."""

_CONNECT = "a Spark Connect session cannot run Penstock's engines"

ANSI = "spark.sql.ansi.enabled"
LOCAL = {**NEEDED, **TOLD_APART, **QUIET, **FAST, "spark.sql.session.timeZone": "UTC", ANSI: "true"}


def check_ansi(spark: SparkSession) -> None:
    """Reject a session whose expressions mean something else than the engine's.

    Spark takes the meaning of an expression from the setting at the time when the expression is made, and
    that of others from the one that a query had at its start, so both are checked.
    """
    if str(spark.conf.get(ANSI, "true")).lower() != "true":
        raise CatalogError(
            f"{ANSI} is false in this session, and expressions of CQL are ANSI wherever they are computed; "
            f"write spark.conf.set('{ANSI}', 'true'), and keep what needs it false in another session, such "
            "as spark.newSession()"
        )


def local_spark() -> SparkSession:
    """The active session, or a new local one."""
    if is_remote():
        raise CatalogError(f"{_CONNECT}, which is active here; run the program without it (SPARK_REMOTE)")
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    return new_local_spark(os.cpu_count() or 1)


def new_local_spark(cores: int) -> SparkSession:
    """A local session that runs ``cores`` tasks at once; what Spark has to say goes to ``spark_log``."""
    own = {"spark.master": f"local[{cores}]", "spark.app.name": "penstock"}
    spark = started({**LOCAL, **own, "spark.sql.shuffle.partitions": str(cores)}, spark_log())
    use_this_python(spark)
    return spark


def started(settings: Mapping[str, str], log: Path | None) -> SparkSession:
    """A session with these settings; a new JVM writes its standard error to a file.

    Spark writes there when its Python workers start and, with long traces, when they end with a query.
    """
    # Spark resolves this machine's name, which may fail in a container.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setAll(list(settings.items()))
    try:
        if SparkContext._gateway is None:
            with _home_without_archives(), nullcontext() if log is None else open(log, "ab") as out:
                # A signal to the program's process group is the program's to handle: a JVM that got it too
                # would end under the batches. It ends with the program, whose pipe it reads.
                options = {"stderr": out, "start_new_session": True}
                SparkContext._ensure_initialized(gateway=launch_gateway(conf, options))
            _set_properties(UNCHECKED)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise error if isinstance(error, JvmEnded) else EngineError(_not_started(error, log)) from None
    watch(SparkContext._gateway)
    return session


def _set_properties(properties: Mapping[str, str]) -> None:
    """Set properties of the JVM that the user's configuration does not set."""
    jvm: Any = SparkContext._jvm
    for name, value in properties.items():
        if jvm.java.lang.System.getProperty(name) is None:
            jvm.java.lang.System.setProperty(name, value)


def spark_log() -> Path | None:
    """The file for Spark's output: that of PENSTOCK_SPARK_LOG (``-``: standard error), or a temporary one."""
    given = os.environ.get(LOG_VARIABLE)
    if given:
        return None if given == "-" else Path(given)
    handle, name = tempfile.mkstemp(prefix=_own_prefix(), suffix=".log")
    os.close(handle)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def _not_started(error: Exception, log: Path | None) -> str:
    """The reason: no Java, or the innermost cause in the log, or else its first line."""
    text = "" if log is None else log.read_text(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if _NO_JAVA.search(line):
            return f"Spark did not start: {line}; install Java 17 or newer, and set JAVA_HOME to it"
    causes = [line for line in reversed(lines) if line.startswith("Caused by:")]
    reasons = causes or [line for line in lines if not line.startswith("WARNING")]
    return f"Spark did not start: {(reasons or str(error).splitlines())[0]}"


@contextmanager
def _home_without_archives() -> Iterator[None]:
    """Start a JVM whose Python processes import the installed pyspark, not the archive of it in Spark's home.

    An archive keeps no compiled modules, so each Python process that Spark starts would compile all of
    pyspark: once per daemon and once per stage of every query. Spark puts the archive first in the path if
    it finds its home, so it gets a home with links to all but the archives.
    """
    installed = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or not (installed / "jars").is_dir():
        yield
        return
    _remove_left_behind()
    home = Path(tempfile.mkdtemp(prefix=_own_prefix()))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for part in installed.iterdir():
        if part.is_dir() and part.name != "python":
            (home / part.name).symlink_to(part)
    os.environ["SPARK_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _own_prefix() -> str:
    """The beginning of the names of this process's files in the temporary directory."""
    own = Process.of(os.getpid())
    return f"{_PREFIX}{own.pid}-{own.started}-"


def _remove_left_behind() -> None:
    """Remove the files of processes that were killed; logs only after some days: they may tell why."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        pid, _, rest = path.name.removeprefix(_PREFIX).partition("-")
        started = rest.partition("-")[0]
        if not (pid.isdigit() and started.isdigit()) or Process(int(pid), started).alive:
            continue
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            elif time.time() - path.stat().st_mtime > LOG_KEPT_S:
                path.unlink()


def check_spark(spark: object) -> None:
    """Reject what is no session of the Spark that Penstock runs on."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise CatalogError(
            f"{_CONNECT}; make one in this process, with SparkSession.builder.master(...).getOrCreate()"
        )
    if not isinstance(spark, SparkSession):
        raise CatalogError(f"connect takes a SparkSession, not {spark!r}")
    if spark.version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise CatalogError(
            f"the session is of Spark {spark.version}, and Penstock runs on the Spark of the installed "
            f"pyspark {pyspark.__version__}; start Spark with that one"
        )


def use_this_python(spark: SparkSession) -> None:
    """Let a local Spark without a configured Python run this one in its workers: it has their imports."""
    if is_local(spark) and spark.sparkContext.pythonExec == "python3":
        spark.sparkContext.pythonExec = sys.executable


def is_local(spark: SparkSession) -> bool:
    """Whether Spark's tasks run on the driver's machine."""
    return str(spark.sparkContext.master).startswith("local")
