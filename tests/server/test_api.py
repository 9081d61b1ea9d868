"""The HTTP API over engines in this process, without a network."""

from __future__ import annotations

import json
import threading

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from server_backends import JOIN, InProcess

from penstock.server.app import create_app
from penstock.server.guard import Access, Guard
from penstock.server.model import Model


@pytest.fixture
def backend() -> InProcess:
    backend = InProcess()
    backend.register("q", JOIN)
    return backend


def connected(backend: InProcess, **how: object) -> TestClient:
    access, model = Access(**how), Model(backend)  # type: ignore[arg-type]
    for _ in range(3):
        backend.step()
        model.sample()
    app = Guard(create_app(model, access, pages=False), access)
    client = TestClient(app, base_url="http://127.0.0.1:8765")
    client.headers["Authorization"] = f"Bearer {access.token}"
    return client


@pytest.fixture
def client(backend: InProcess) -> TestClient:
    return connected(backend)


def test_it_is_described(client: TestClient) -> None:
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {"/api/queries", "/api/queries/{key}/plan", "/api/queries/{key}/results.arrow"} <= set(paths)


def test_queries_plans_and_measurements(client: TestClient) -> None:
    (query,) = client.get("/api/queries").json()
    assert query["key"] == "q" and query["rows_in"] > 0
    plan = client.get("/api/queries/q/plan", params={"partition": 1}).json()
    assert plan["partition"] == 1 and any(n["kind"] == "store" for n in plan["nodes"])
    drawn = client.get("/api/queries/q/plan.svg")
    assert drawn.text.startswith("<svg") and "default-src 'none'" in drawn.headers["content-security-policy"]
    for path in ("history", "findings", "memory", "measurements"):
        assert client.get(f"/api/queries/q/{path}").json(), path
    assert client.get("/api/decisions", params={"query": "q"}).json()
    assert [i["name"] for i in client.get("/api/inputs").json()] == ["C", "B", "O"]
    assert "mjoin" in client.post("/api/explain", json={"text": JOIN}).json()["plan"]


def test_errors_have_their_place(client: TestClient) -> None:
    answer = client.post("/api/plan", json={"text": "SELECT size,\n  sise FROM C [RANGE 5]"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["line"], error["column"]) == (2, 3) and "size" in error["hint"]
    assert client.get("/api/queries/nothing").status_code == 404
    assert client.post("/api/queries", json={"name": "a b", "text": JOIN}).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/api/plan", {"txt": JOIN}, 422, "'text' is missing"),
        ("POST", "/api/plan", {"text": 5}, 422, "'text' must be a text"),
        ("POST", "/api/plan", [1], 422, "the body must be a JSON object"),
        ("POST", "/api/plan", None, 422, "the body is missing"),
        ("POST", "/api/plan", {"text": "x" * 100_001}, 422, "'text' is longer than 100,000 characters"),
        ("POST", "/api/queries", {"name": "a b"}, 422, "'text' is missing; 'name' may have letters"),
        ("POST", "/api/queries", {"name": "n", "text": "", "once": "x"}, 422, "'once' must be true or false"),
        ("POST", "/api/queries/q/settings", {"settings": {}}, 422, "'settings' has no entries"),
        ("GET", "/api/queries/q/plan?partition=x", None, 422, "parameter 'partition' must be a whole number"),
        ("GET", "/api/queries/q/history?since=x", None, 422, "parameter 'since' must be a number"),
        ("PUT", "/api/queries", {}, 404, "there is no PUT /api/queries"),
        ("GET", "/api/querys", None, 404, "there is no GET /api/querys"),
    ],
)
def test_a_wrong_request_is_told_like_other_mistakes(
    client: TestClient, method: str, path: str, body: object, status: int, message: str
) -> None:
    answer = client.request(method, path, json=body) if body is not None else client.request(method, path)
    told = answer.json()["error"]
    assert (answer.status_code, message in told["message"]) == (status, True), told
    assert "/api/openapi.json" in told["hint"] and "kind" in told


def test_a_body_that_is_not_json(client: TestClient) -> None:
    answer = client.post("/api/plan", content="{'text': 1}", headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["message"].startswith("the body is not JSON: ")


def test_a_query_from_its_start_to_its_end(client: TestClient, backend: InProcess) -> None:
    made = client.post("/api/queries", json={"name": "n", "text": "SELECT pid FROM C [NOW]"})
    assert made.status_code == 201 and made.json()["state"] == "running"
    again = client.post("/api/queries", json={"name": "n", "text": "SELECT pid FROM C [NOW]"})
    assert again.status_code == 400 and "choose another name" in again.json()["error"]["message"]
    assert client.post("/api/queries/n/stop").status_code == 200
    assert client.get("/api/queries/n").json()["state"] == "stopped"
    assert client.post("/api/queries/n/start").status_code == 200
    assert client.delete("/api/queries/n").status_code == 200
    assert client.get("/api/queries/n").status_code == 404


def test_settings(client: TestClient, backend: InProcess) -> None:
    names = {s["name"]: s for s in client.get("/api/queries/q/settings").json()}
    assert names["scheduler"]["choices"] == ["fifo", "round-robin", "greedy", "chain"]
    wanted = {"settings": {"scheduler": "chain", "slice_rows": 9}}
    answer = client.post("/api/queries/q/settings", json=wanted)
    assert {s["name"]: s["value"] for s in answer.json()}["slice_rows"] == "9"
    refused = client.post("/api/queries/q/settings", json={"settings": {"join": "tree", "scheduler": "fifo"}})
    assert refused.status_code == 400 and "fixed when a query is made" in refused.json()["error"]["message"]
    assert backend.changed["q"]["scheduler"] == "chain", "nothing is changed if one is refused"


def test_definitions_are_refused_unless_allowed(client: TestClient, backend: InProcess) -> None:
    text = "CREATE STREAM X (a INT, t INT) TIMESTAMP BY t FROM CSV '/etc'"
    assert "--allow-ddl" in client.post("/api/statements", json={"text": text}).json()["error"]["message"]
    for path, body in (("/api/plan", {"text": text}), ("/api/queries", {"name": "x", "text": text})):
        assert client.post(path, json=body).status_code == 400
    unknown = client.post("/api/plan", json={"text": "SELECT * FROM parquet.`/etc/passwd`"})
    assert unknown.status_code == 400
    assert connected(backend, allow_ddl=True).post("/api/statements", json={"text": text}).status_code == 200


def test_results_as_arrow(client: TestClient, backend: InProcess) -> None:
    data = client.get("/api/queries/q/results.arrow", params={"follow": False}).content
    table = pa.ipc.open_stream(data).read_all()
    assert table.num_rows and table.schema.names == ["ts", "op", "pid", "s"]
    assert backend.feed("q").readers == 0


def test_results_as_events_and_nothing_stays_behind(client: TestClient, backend: InProcess) -> None:
    feed = backend.feed("q")
    threading.Timer(0.3, feed.end).start()
    text = client.get("/api/queries/q/results").text
    assert text.startswith("event: columns\n") and "\nevent: rows\n" in text and "event: end" in text
    assert feed.readers == 0


def test_nan_and_infinities_are_texts_in_events_and_in_records() -> None:
    """JSON has no such numbers: a browser's JSON.parse refuses Python's NaN."""
    rows = [(1, {"v": float("nan")}), (2, {"v": float("inf")}), (3, {"v": -0.5}), (4, {"v": 0.0})]
    backend = InProcess({"S": rows}, partitions=1, steps=1)
    backend.register("q", "SELECT v FROM S [NOW]")
    client = connected(backend)
    threading.Timer(0.3, backend.feed("q").end).start()
    text = client.get("/api/queries/q/results").text
    shown = [
        json.loads(line[6:], parse_constant=pytest.fail) for line in text.splitlines() if "data: " in line
    ]
    assert {str(r["v"]) for rows in shown for r in rows or () if "v" in r} == {"NaN", "Infinity", "-0.5"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM parquet.`/etc/passwd`",
        "SELECT * FROM `/etc/passwd` [NOW]",
        "SELECT REFLECT('java.lang.Runtime', 'getRuntime') FROM C [NOW]",
        "SELECT JAVA_METHOD('java.lang.System', 'exit', 1) FROM C [NOW]",
        "SELECT READ_FILES('/etc/passwd') FROM C [NOW]",
        "SELECT size FROM C [NOW]; DROP STREAM C",
        "INSERT INTO s SELECT size FROM C [NOW]",
        "CREATE SINK s TO CSV '/tmp/x'",
        "SET penstock.late_rows = '/tmp/x'",
    ],
)
def test_a_hostile_text_reads_no_file_and_runs_no_code(client: TestClient, text: str) -> None:
    for path in ("/api/plan", "/api/explain", "/api/queries"):
        answer = client.post(path, json={"text": text, "name": "hostile"})
        assert answer.status_code == 400, answer.text
    assert [q["key"] for q in client.get("/api/queries").json()] == ["q"]


def test_a_slow_reader_loses_the_oldest_and_is_told(backend: InProcess) -> None:
    feed = backend.feed("q")
    row = pa.RecordBatch.from_pylist([{"ts": 1, "op": 1, "pid": 1, "s": 1}], feed.schema)
    with feed.reading(recent=False) as reader:
        for _ in range(100):
            feed.put(row)
        assert reader.take_lost() == 36 and reader.waiting.qsize() == 64
    assert feed.readers == 0 and sum(b.num_rows for b in feed.recent()) <= 10_000
