"""Draws the plan that the queries of a pipeline share: the picture in docs/pipelines.md.

python examples/shared_plan.py > docs/shared_plan.svg
"""

import tempfile
from pathlib import Path

import penstock

JOINED = "FROM C [RANGE 1 MINUTE], O [RANGE 1 MINUTE] WHERE C.pid = O.pid"
OTHERS = "FROM C [RANGE 1 MINUTE] AS x, O [RANGE 1 MINUTE] AS y WHERE x.pid = y.pid"
QUERIES = {
    "pairs": f"SELECT ISTREAM(C.pid, C.link) {JOINED}",
    "same": f"SELECT ISTREAM(x.pid, x.link) {OTHERS}",
    "links": f"SELECT C.pid, C.link {JOINED}",
    "recent": "SELECT pid, COUNT(*) AS n FROM C [RANGE 10 SECONDS] GROUP BY pid",
}


ps = penstock.connect(partitions=2)
with tempfile.TemporaryDirectory() as root:
    for name in "CO":
        Path(root, name).mkdir()
        columns = "(pid BIGINT, link INT, size INT, ts TIMESTAMP) TIMESTAMP BY ts"
        ps.sql(f"CREATE STREAM {name} {columns} FROM PARQUET '{root}/{name}'")
    pipeline = ps.pipeline("traffic", checkpoint=f"{root}/state", streams=["C", "O"], one_clock=True)
    for name, text in QUERIES.items():
        pipeline.register(name, text)
    print(pipeline.picture(), end="")
