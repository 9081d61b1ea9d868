"""A checkpoint's directory without Hadoop, and Spark's memory stream without a JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any


class FakeDirectory:
    """What ``checkpoint.Directory`` does, on this machine's disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, name: str) -> list[str]:
        return [p.name for p in (self.root / name).glob("*")]

    def delete(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def read(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class FakeSpark:
    """A session whose memory streams are lists: ``added[n]`` is what came to be at offset n."""

    def __init__(self) -> None:
        self.added: list[list[str]] = []
        source = SimpleNamespace(addData=self.added.append, reset=self.added.clear, toDF=lambda: None)
        runtime = SimpleNamespace(MemoryStream=SimpleNamespace(apply=lambda strings, session: source))
        streaming = SimpleNamespace(runtime=runtime)
        sql = SimpleNamespace(
            Encoders=SimpleNamespace(STRING=lambda: None), execution=SimpleNamespace(streaming=streaming)
        )
        apache = SimpleNamespace(spark=SimpleNamespace(sql=sql))
        jvm = SimpleNamespace(
            org=SimpleNamespace(apache=apache), PythonUtils=SimpleNamespace(toSeq=lambda items: list(items))
        )
        self.sparkContext = SimpleNamespace(_jvm=jvm)
        self._jsparkSession: Any = None
