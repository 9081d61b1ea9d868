"""Who may ask what: each way in that must be closed is tried."""

from __future__ import annotations

import logging

import pytest
from fastapi.testclient import TestClient
from server_backends import InProcess
from starlette.websockets import WebSocketDisconnect

from penstock.errors import PenstockError
from penstock.server.app import create_app
from penstock.server.guard import Access, Guard, Rates, is_loopback
from penstock.server.model import Model
from penstock.server.serving import access_of, serve
from penstock.server.settings import MOST_BODY, MOST_CLIENTS

TOKEN = "a-token-of-16-or-more"
EVIL = "<img src=x onerror=alert(1)>"


def client(access: Access, rates: Rates | None = None) -> TestClient:
    backend = InProcess({EVIL: [(1, {"a": 1})], "S": [(1, {EVIL: 1})]})
    backend.register("q", "SELECT * FROM S [NOW]")
    model = Model(backend)
    model.sample()
    app = create_app(model, access, pages=False)

    @app.websocket("/_nicegui_ws/socket")
    async def socket(ws: object) -> None:
        await ws.accept()  # type: ignore[attr-defined]
        await ws.close()  # type: ignore[attr-defined]

    host = "127.0.0.1" if access.host == "0.0.0.0" else access.host
    return TestClient(Guard(app, access, rates), base_url=f"http://{host}:{access.port}")


@pytest.fixture
def local() -> TestClient:
    return client(Access(key="the-key", open=True))


@pytest.fixture
def remote() -> TestClient:
    return client(Access("0.0.0.0", token=TOKEN, names=("monitor.example.org",)))


def test_beyond_this_machine_a_token_is_needed_to_start() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [True] * 4
    assert not any(is_loopback(h) for h in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""))
    with pytest.raises(PenstockError, match="needs a token: set PENSTOCK_TOKEN"):
        Access("0.0.0.0")
    with pytest.raises(PenstockError, match="fewer than 16 characters"):
        Access("0.0.0.0", token="short")


def test_a_token_is_made_and_asked_for_on_this_machine_too() -> None:
    """Other users of the machine reach the port as its owner does."""
    access = Access()
    asked = client(access)
    assert access.made and len(access.token or "") >= 32 and Access().token != access.token
    for path in ("server", "queries", "queries/q/results.arrow?follow=false", "openapi.json"):
        assert asked.get(f"/api/{path}").status_code == 401, path
    assert asked.post("/api/plan", json={"text": "SELECT * FROM S [NOW]"}).status_code == 401
    assert asked.post("/api/statements", json={"text": "DROP STREAM S"}).status_code == 401
    own = {"Authorization": f"Bearer {access.token}"}
    assert asked.get("/api/server", headers=own).json() == {"allow_ddl": False, "key": None}
    with pytest.raises(PenstockError, match="leave out either"):
        Access(token=TOKEN, open=True)


def test_a_page_opened_with_the_token_gets_the_cookie_and_an_address_without_it() -> None:
    access = Access()
    asked = client(access)
    html = {"Accept": "text/html"}
    wrong = asked.get("/plan", params={"token": "wrong"}, headers=html, follow_redirects=False)
    assert wrong.headers["location"] == "/login" and "set-cookie" not in wrong.headers
    answer = asked.get("/plan", params={"query": "a b", "token": access.token}, headers=html)
    assert access.token not in answer.text and 'content="0;url=/plan?query=a+b"' in answer.text
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert asked.get("/api/queries").status_code == 200, "with the cookie"
    away = asked.get(f"http://127.0.0.1:8765//evil.example/?token={access.token}")
    assert "url=/evil.example/" in away.text, "no way to another host"
    asked.cookies.clear()
    assert asked.get("/api/queries", params={"token": access.token}).status_code == 401


def test_a_cookie_is_worth_nothing_to_the_next_server() -> None:
    assert Access(token=TOKEN).sessions != Access(token=TOKEN).sessions
    assert Access(port=1).cookie != Access(port=2).cookie, "two servers of one machine log nobody out"


def test_browsers_are_told_what_not_to_do(remote: TestClient) -> None:
    own = {"Authorization": f"Bearer {TOKEN}"}
    answers = [remote.get(p, headers=own) for p in ("/api/queries", "/login", "/api/nothing")]
    for answer in [*answers, remote.get("/api/queries"), remote.get("/", headers={"Host": "evil.example"})]:
        told = answer.headers
        assert told["x-frame-options"] == "DENY" and told["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in told["content-security-policy"]
        assert told["cache-control"] == "no-store" and told["referrer-policy"] == "no-referrer"
        assert told["cross-origin-resource-policy"] == "same-origin"
    policies = {a.headers["content-security-policy"] for a in answers}
    assert len(policies) == 3, "a nonce is for one answer"
    assert not any("'unsafe-inline'" in p.partition("style-src")[0] for p in policies)
    assert (
        remote.get("/api/queries/q/plan.svg", headers=own)
        .headers["content-security-policy"]
        .startswith("default-src 'none'")
    )


@pytest.mark.parametrize("host", ["127.0.0.1:\xb2", "localhost:\xb3\xb9", "[::1]:\xb2"])
def test_digits_that_are_no_numbers_are_refused(local: TestClient, host: str) -> None:
    told = local.get("/api/queries", headers={"Host": host.encode("latin-1")})
    assert told.status_code in (200, 421), "int() of a superscript raised"
    length = {"Content-Length": "\xb2".encode("latin-1")}
    assert local.get("/api/queries", headers=length).status_code == 413


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8765", "127.0.0.1:80", "", "localhost.:1"]
)
def test_a_foreign_host_is_refused(local: TestClient, host: str) -> None:
    assert local.get("/api/queries", headers={"Host": host}).status_code == 421


def test_known_hosts_are_answered(local: TestClient, remote: TestClient) -> None:
    for host in ("localhost:8765", "127.0.0.1:8765", "[::1]:8765"):
        assert local.get("/api/queries", headers={"Host": host}).status_code == 200, host
    own = {"Authorization": f"Bearer {TOKEN}"}
    assert remote.get("/api/queries", headers={**own, "Host": "monitor.example.org:8765"}).status_code == 200
    assert remote.get("/api/queries", headers={**own, "Host": "evil.example:8765"}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "file://"])
def test_pages_of_other_sites_are_refused(local: TestClient, origin: str) -> None:
    headers = {"Origin": origin, "X-Penstock": "the-key"}
    assert local.post("/api/queries/q/stop", headers=headers).status_code == 403
    assert local.get("/api/queries", headers={"Origin": origin}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        local.websocket_connect("/_nicegui_ws/socket", headers={"Origin": origin, "Host": "127.0.0.1:8765"}),
    ):
        pass


def test_a_change_needs_the_header(local: TestClient) -> None:
    form = {"Content-Type": "text/plain"}  # what a foreign form can send without asking
    for headers in ({}, form, {"X-Penstock": "1"}, {"Cookie": "penstock_session=the-key"}):
        assert local.post("/api/queries/q/stop", headers=headers).status_code == 403
        assert local.delete("/api/queries/q", headers=headers).status_code == 403
    assert local.get("/api/queries/q").json()["state"] == "running"
    own = {"X-Penstock": "the-key", "Origin": "http://127.0.0.1:8765"}
    assert local.post("/api/queries/q/stop", headers=own).status_code == 200


def test_with_a_token_nothing_is_shown_without_it(remote: TestClient) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        assert remote.get("/api/queries", headers=headers).status_code == 401
        assert remote.get("/api/openapi.json", headers=headers).status_code == 401
    assert remote.get("/api/queries", params={"token": TOKEN}).status_code == 401, "not in an address"
    with pytest.raises(WebSocketDisconnect), remote.websocket_connect("/_nicegui_ws/socket"):
        pass
    own = {"Authorization": f"Bearer {TOKEN}"}
    assert remote.get("/api/queries", headers=own).status_code == 200
    assert remote.get("/api/server", headers=own).json()["key"] is None
    assert remote.post("/api/queries/q/stop", headers=own).status_code == 200


def test_a_login_lets_pages_look_and_not_change(remote: TestClient) -> None:
    page = remote.get("/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert remote.post("/login", data={"token": "wrong"}).status_code == 401
    answer = remote.post("/login", data={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert 'content="0;url=/"' in answer.text and "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower() and cookie.startswith("penstock_session_8765=")
    assert TOKEN not in cookie
    assert remote.get("/api/queries").status_code == 200
    assert remote.post("/api/queries/q/stop").status_code == 403, "a change needs the header"


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: seen.append((a, b)) or a == b)
    access = Access("0.0.0.0", token=TOKEN)
    assert access.is_token(TOKEN) and not access.is_token("x") and len(seen) == 2


def test_the_token_is_in_no_log_and_no_text(remote: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answers = [
            remote.get("/api/queries", headers={"Authorization": f"Bearer {TOKEN}"}),
            remote.get("/api/queries", headers={"Authorization": "Bearer x"}),
            remote.post("/login", data={"token": TOKEN}),
        ]
    assert not any(TOKEN in r.getMessage() for r in caplog.records)
    assert not any(TOKEN in a.text or TOKEN in str(a.headers) for a in answers)
    assert TOKEN not in repr(Access("0.0.0.0", token=TOKEN))


def test_large_requests_are_refused(local: TestClient) -> None:
    own = {"X-Penstock": "the-key"}
    assert local.post("/api/plan", headers=own, content=b"x" * (MOST_BODY + 1)).status_code == 413

    def endless():
        for _ in range(3 * MOST_BODY // 65536):
            yield b"x" * 65536

    with pytest.raises(Exception):  # noqa: B017, PT011
        local.post("/api/plan", headers=own, content=endless()).raise_for_status()
    assert local.post("/api/plan", headers=own, json={"text": "x" * 200_000}).status_code == 422


def test_too_many_requests_are_refused_and_clients_are_forgotten() -> None:
    asked = client(Access(open=True), Rates(0.0, 5))
    assert [asked.get("/api/server").status_code for _ in range(7)] == [200] * 5 + [429] * 2
    rates = Rates(1.0, 2)
    assert [rates.take("a", t) for t in (0, 0, 0, 1, 1)] == [True, True, False, True, False]
    for n in range(MOST_CLIENTS + 100):
        rates.take(str(n), 2.0)
    assert len(rates) == MOST_CLIENTS


def test_names_never_become_html(local: TestClient) -> None:
    own = {"X-Penstock": "the-key"}
    answer = local.post("/api/plan", headers=own, json={"text": f"SELECT `{EVIL}` FROM S [NOW]"})
    assert answer.headers["content-type"] == "application/json"
    drawn = local.get("/api/queries/q/plan.svg").text
    assert "<img" not in drawn and "onerror=alert" not in drawn.replace("&lt;img src=x onerror=alert", "")
    wrong = local.post("/api/plan", headers=own, json={"text": f"SELECT `{EVIL}x` FROM S [NOW]"})
    assert wrong.status_code == 400 and wrong.headers["content-type"] == "application/json"


def test_a_token_is_shown_only_if_it_was_made_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    for given, shown in (({"token": TOKEN}, False), ({"without_token": True}, False), ({}, True)):
        server = serve(InProcess(), port=0, pages=False, **given)  # type: ignore[arg-type]
        try:
            assert (f"{server.url}/demo?token=" in server.link("/demo")) == shown
            assert ("?token=" in server._repr_html_()) == shown
            assert "token" not in f"{server!r} {server.url}"
        finally:
            server.stop()
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    assert access_of("127.0.0.1", 0).token == TOKEN and access_of("127.0.0.1", 0, without_token=True).open
