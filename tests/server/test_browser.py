"""The pages in a real browser: each shows what a known run must show, on wide and narrow windows."""

from __future__ import annotations

import gc
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import psutil
import pyarrow as pa
import pytest
from longer import LONG
from server_backends import JOIN, InProcess
from waiting import PATIENCE

import penstock
from penstock.measurement import Measurements
from penstock.server.backend import Run
from penstock.server.pages.charts import GraphCard
from penstock.server.pages.plan import PlanPage
from penstock.server.serving import Server, serve

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
ROWS = {name: [(t, {"pid": t % 5, "size": t}) for t in range(1, 901)] for name in "CBO"}
STEPS = 300
"""As many as come in while the tests run, at one in 0.3 seconds."""
HOSTILE = "<img src=x onerror=hacked()>"
EIGHT = (
    "SELECT C1.pid FROM C [RANGE 5] AS C1, B [RANGE 5] AS B1, O [RANGE 5] AS O1, C [RANGE 6] AS C2, "
    "B [RANGE 6] AS B2, O [RANGE 6] AS O2, C [RANGE 7] AS C3, B [RANGE 7] AS B3 WHERE C1.pid = B1.pid AND "
    "C1.pid = O1.pid AND C1.pid = C2.pid AND C1.pid = B2.pid AND C1.pid = O2.pid AND C1.pid = C3.pid AND "
    "C1.pid = B3.pid AND C1.size > 58"
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


class Fed(InProcess):
    """A backend whose rows come from a thread of its own; only running queries are measured."""

    def __init__(self) -> None:
        super().__init__(ROWS, steps=STEPS)
        self.lock = threading.RLock()
        self.paused = False
        self.taken: list[pa.RecordBatch] = []

    def step(self) -> None:
        with self.lock:
            super().step()

    def runs(self) -> list[Run]:
        with self.lock:
            return super().runs()

    def measurements(self) -> Measurements:
        with self.lock:
            every = self.queries
            self.queries = {n: q for n, q in every.items() if self.states[n] == "running"}
            try:
                return super().measurements()
            finally:
                self.queries = every

    def register(self, name: str, text: str, pipeline: str | None = None) -> str:
        with self.lock:
            key = super().register(name, text, pipeline)
            if name == "traffic":
                self.feeds[name].put = self.taken.append  # type: ignore[method-assign]
            return key

    def drop(self, key: str) -> None:
        with self.lock:
            super().drop(key)


@pytest.fixture(scope="module")
def backend() -> Fed:
    made = Fed()
    made.register("traffic", JOIN)
    made.register(HOSTILE, f"SELECT pid AS `{HOSTILE}` FROM C [RANGE 3]")
    made.register("eight", EIGHT)
    made.register("broken", "SELECT pid FROM C [NOW]")
    made.fail("broken", f"the sum of size does not fit a BIGINT {HOSTILE}")
    return made


@pytest.fixture(scope="module")
def server(backend: Fed) -> Iterator[Server]:
    stopped = threading.Event()

    def feed() -> None:
        while not stopped.wait(0.3):
            if backend.at < STEPS and not backend.paused:
                backend.step()

    thread = threading.Thread(target=feed)
    thread.start()
    made = serve(backend, port=0)
    yield made
    stopped.set()
    thread.join()
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: make sets it up")
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Window:
    """A window of the browser that notes what goes wrong in it."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.page.set_default_timeout(PATIENCE * 1000)
        self.url, self.wrong = url, []
        self.page.on("pageerror", lambda e: self.wrong.append(str(e)))
        self.page.on(
            "console", lambda m: self.wrong.append(m.text) if m.type == "error" and "x" != m.text else None
        )

    def open(self, path: str) -> Any:
        """Open a page; the first time of a browser with the token."""
        if not self.page.context.cookies():
            self.page.goto(self.url)
            self.page.wait_for_selector("main")
        self.page.goto(f"{self.url.partition('/?')[0]}{path}")
        self.page.wait_for_selector("main")
        return self.page


def write(editor: Any, text: str) -> None:
    """Replace the text of an editor as a user does."""
    editor.click()
    editor.press("Control+a")
    editor.page.keyboard.insert_text(text)


@pytest.fixture
def window(browser: Any, server: Server) -> Iterator[Window]:
    made = Window(browser, server.link(), viewport={"width": 1300, "height": 900})
    yield made
    made.page.close()
    assert not made.wrong


def test_queries_are_listed_with_what_went_wrong(window: Window) -> None:
    page = window.open("/")
    row = page.locator("tr", has_text="traffic").first
    row.locator("text=running").wait_for()
    page.wait_for_function("document.querySelector('tbody tr').innerText.includes('/s')")
    assert "the sum of size does not fit" in page.locator(".alert").inner_text()
    page.get_by_label("Find a query").fill("broken")
    page.wait_for_function("document.querySelectorAll('tbody tr:not(.more)').length == 1")


def test_a_query_is_registered_stopped_and_dropped(window: Window, backend: InProcess) -> None:
    page = window.open("/")
    page.get_by_role("button", name="New query").click()
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Name").blur()
    editor = page.get_by_label("Text of the new query")
    write(editor, "SELECT nothing FROM C [NOW]")
    page.get_by_role("button", name="Start", exact=True).click()
    page.locator(".cql-error-line", has_text="nothing").wait_for()
    write(editor, "SELECT size FROM C [NOW]")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("button", name="Stop mine").click()
    page.get_by_role("button", name="Start mine").wait_for()
    assert backend.states["mine"] == "stopped"
    page.get_by_role("button", name="Drop mine").click()
    page.wait_for_function("!document.body.innerText.includes('mine')")


def test_the_plan_is_drawn_and_its_parts_answer(window: Window, server: Server) -> None:
    page = window.open("/plan?query=traffic")
    box = page.locator('[data-box="1/mjoin.7"]')
    box.wait_for()
    drawn = page.locator("[data-box]").count()
    plan = server.model.plan("traffic")
    assert drawn == len([n for n in plan.nodes if n.kind not in ("index", "cache")])
    assert "What holds it back".upper() in page.locator(".plan-side").inner_text().upper()
    box.focus()
    page.keyboard.press("Enter")
    page.locator(".plan-side", has_text="order of C").wait_for()
    page.locator('[data-box="1/mjoin.7"].selected').wait_for()
    page.get_by_label("Find in the plan").fill("aggregate")
    page.wait_for_function("document.querySelectorAll('.box.dim').length > 5")
    assert "dim" not in (page.locator('[data-box^="1/aggregate"]').get_attribute("class") or "")


def test_a_queue_is_picked_and_shows_its_bound(window: Window) -> None:
    page = window.open("/plan?query=traffic")
    page.locator('[data-queue$=">1/mjoin.7>queue"]').first.focus()
    page.keyboard.press("Enter")
    page.locator(".plan-side", has_text="elements that wait").wait_for()
    page.get_by_label("slice_rows", exact=True).wait_for()
    assert page.locator(".knob").count() == 2


def test_numbers_change_in_place(window: Window, backend: InProcess) -> None:
    page = window.open("/plan?query=traffic")
    page.locator('[data-box="1/mjoin.7"]').wait_for()
    page.evaluate("document.querySelector('[data-box]').marked = true")
    before = page.locator("svg.plan").text_content()
    page.wait_for_function("t => document.querySelector('svg.plan').textContent != t", arg=before)
    assert page.evaluate("document.querySelector('[data-box]').marked")


def test_an_eight_way_join_and_many_queries_answer(window: Window, backend: InProcess) -> None:
    page = window.open("/plan?query=eight")
    page.locator('[data-box^="1/mjoin"]').wait_for()
    page.get_by_role("button", name="Zoom in").click()
    page.keyboard.press("0")
    for n in range(200):
        backend.register(f"many{n:03}", "SELECT pid FROM C [NOW]")
        backend.stop(f"many{n:03}")
    page = window.open("/")
    page.wait_for_function("document.querySelectorAll('tbody tr').length > 200")
    page.get_by_label("Find a query").fill("many199")
    page.wait_for_function("document.querySelectorAll('tbody tr').length == 1")
    for n in range(200):
        backend.drop(f"many{n:03}")


def test_graphs_show_their_queries(window: Window) -> None:
    page = window.open("/graphs")
    page.locator("canvas").first.wait_for()
    card = page.get_by_label("Memory", exact=True).first
    card.get_by_role("button", name="Query").click()
    card.locator(".cql-editor", has_text="SysStream").wait_for()
    write(card.locator(".cm-content"), "SELECT nothing FROM SysStream [NOW]")
    card.get_by_role("button", name="Apply").click()
    card.locator(".cql-error-line", has_text="nothing").wait_for()


def test_a_knob_takes_effect_and_the_output_stays(window: Window, server: Server, backend: Fed) -> None:
    page = window.open("/plan?query=traffic")
    page.locator('[data-box="1/mjoin.7"]').click()
    page.wait_for_function("document.querySelectorAll('.knob').length == 3")  # those of the picked box
    page.get_by_label("filters", exact=True).select_option("sweep")
    page.locator(".plan-side", has_text="by sweep").wait_for()
    page = window.open("/decisions")
    made = page.locator(".made", has_text="Knob filters@mjoin.7").filter(has_text="traffic").first
    made.wait_for()
    assert "sweep" in made.inner_text()
    backend.paused = True
    with backend.lock:
        for _ in range(3):
            backend.step()
        fed = {n: [e for e in rows if e[0] <= backend.at * 3] for n, rows in ROWS.items()}
        found = [c for b in backend.taken for c in zip(*b.to_pydict().values(), strict=True)]
    backend.paused = False
    last = max(ts for ts, *_ in found)
    expected = [
        (ts, 1 if sign == "+" else -1, *row.values())
        for ts, sign, row in penstock.evaluate(JOIN, fed)
        if ts <= last
    ]
    assert sorted(found) == sorted(expected) and last > 9


def test_an_error_stands_under_its_place_and_results_are_those_of_evaluate(window: Window) -> None:
    page = window.open("/try")
    page.get_by_role("button", name="SELECT v FROM S [RANGE 2]", exact=True).click()
    page.locator("text=relation, 8 changes").wait_for()
    expected = penstock.evaluate(
        "SELECT v FROM S [RANGE 2]",
        {"S": [(1, {"v": 10}), (2, {"v": 20}), (4, {"v": 30}), (5, {"v": 40})]},
        until=9,
    )
    shown = page.locator("table.sheet").last.locator("tbody tr").all_inner_texts()
    words = {"+": "enters", "-": "leaves"}
    assert [s.split() for s in shown] == [[str(ts), words[sign], str(row["v"])] for ts, sign, row in expected]
    assert page.locator("svg.lanes g.window rect").count() == 4
    editor = page.get_by_label("Query to try")
    write(editor, "SELECT v,\n  size FROM S [RANGE 2]")
    error = page.locator(".cql-error-line", has_text="size")
    error.wait_for()
    wrong = page.locator(".cql-error").bounding_box()
    assert (
        page.locator(".cql-error").inner_text() == "size" and wrong and error.bounding_box()["y"] > wrong["y"]
    )
    write(editor, "SELECT v FROM S [NOW]")
    error.wait_for(state="detached")


def test_streams_and_columns_are_completed(window: Window) -> None:
    page = window.open("/try")
    page.locator("text=stream, 2 rows").wait_for()
    editor = page.get_by_label("Query to try")
    write(editor, "SELECT C.")
    page.keyboard.type("s")
    page.locator(".cm-tooltip-autocomplete li", has_text="size").wait_for()


@pytest.mark.parametrize("path", ["/", f"/plan?query={HOSTILE}", "/decisions", "/graphs", "/try"])
def test_no_text_of_a_query_runs(browser: Any, server: Server, path: str) -> None:
    window = Window(browser, server.link(), color_scheme="dark", viewport={"width": 420, "height": 800})
    page = window.page
    page.add_init_script("window.hacked = () => { window.was_hacked = true }")
    window.open(path)
    page.wait_for_timeout(700)
    assert not page.evaluate("window.was_hacked || document.querySelectorAll('main img').length")
    assert page.evaluate("document.body.classList.contains('body--dark')")
    assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth"), "scrolls sideways"
    page.close()
    assert not window.wrong


def test_a_script_that_got_into_a_page_does_not_run(window: Window) -> None:
    """Even where a text became HTML: what has no nonce is not run, and nothing is loaded from elsewhere."""
    page = window.open("/")
    page.evaluate(
        "() => { const add = h => document.body.append(document.createRange().createContextualFragment(h));"
        "add('<img src=x: onerror=\"window.hacked = 1\">'); add('<script>window.hacked = 2</script>');"
        "add('<script src=\"http://localhost:9/x.js\"></script>'); }"
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    refused = [w for w in window.wrong if "Content Security Policy" in w]
    assert len(refused) >= 3
    window.wrong.clear()


def test_the_address_with_the_token_leads_to_the_page_without_it(browser: Any, server: Server) -> None:
    """Also from a link on a page of another site, as a notebook's is."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(server.url)
    assert page.url == f"{server.url}/login"
    page.goto("data:text/html,<title>other</title>")
    page.set_content(f'<a href="{server.link("/decisions")}">open</a>')
    page.click("a")
    page.wait_for_selector("main")
    assert page.url == f"{server.url}/decisions"
    page.goto("data:text/html,<title>other</title>")
    page.set_content(f'<iframe src="{server.url}/"></iframe>')
    page.wait_for_timeout(300)
    assert not [f for f in page.frames if f.url.startswith(server.url)], "no page shows ours in a frame"
    context.close()


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> WeakSet[object]:
    """The objects of pages that are alive. The collector must not be asked for them: what it lists are also
    tuples that other threads are just making.
    """
    alive: WeakSet[object] = WeakSet()

    def noted(kind: type) -> Callable[..., None]:
        begin = kind.__init__  # type: ignore[misc]

        def init(self: object, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            alive.add(self)

        return init

    for kind in (PlanPage, GraphCard):
        monkeypatch.setattr(kind, "__init__", noted(kind))
    return alive


def kept(server: Server, backend: Fed, pages: WeakSet[object]) -> dict[str, int]:
    """What a tab could leave behind in the server's process."""
    from nicegui import Client

    gc.collect()
    sockets = [c for c in psutil.Process().net_connections("tcp") if c.status == "ESTABLISHED"]
    return {
        "clients": len(Client.instances),
        "threads": threading.active_count(),
        "pages": len(pages),
        "sockets": sum(c.laddr.port == server.access.port for c in sockets),
        "readers": sum(f.readers for f in backend.feeds.values()),
    }


def settled(
    server: Server,
    backend: Fed,
    pages: WeakSet[object],
    condition: Callable[[dict[str, int]], bool],
    seconds: float = PATIENCE,
) -> dict[str, int]:
    """What is kept once a condition holds, or in the end."""
    deadline = time.monotonic() + seconds
    while not condition(found := kept(server, backend, pages)) and time.monotonic() < deadline:
        time.sleep(0.3)
    return found


def test_ten_browsers_at_once_leave_nothing_behind(
    browser: Any, server: Server, backend: Fed, pages: WeakSet[object]
) -> None:
    paths = ("/plan?query=traffic", "/graphs", "/", "/decisions", "/try")
    rounds: list[dict[str, int]] = []
    for _ in range(3 if LONG else 2):
        contexts = [browser.new_context() for _ in range(10)]
        windows = [Window(c, server.link()) for c in contexts]
        for number, window in enumerate(windows):
            page = window.open(paths[number % 5])
            page.evaluate(f"() => {{ fetch('{server.url}/api/queries/traffic/results') }}")
        page = windows[0].page
        page.wait_for_selector("[data-box]")
        before = page.locator("svg.plan").text_content()
        page.wait_for_function("t => document.querySelector('svg.plan').textContent != t", arg=before)
        during = settled(
            server, backend, pages, lambda found: found["clients"] >= 10 and found["readers"] == 10
        )
        assert during["clients"] >= 10 and during["readers"] == 10
        for context in contexts:
            context.close()
        assert not [w for window in windows for w in window.wrong]
        left = settled(
            server, backend, pages, lambda found: not any(n for k, n in found.items() if k != "threads")
        )
        rounds.append(left)
    # Threads come and go in pools; ten tabs that left one each would be ten more after another round.
    assert rounds[-1].pop("threads") < rounds[0]["threads"] + 10, rounds
    assert not any(rounds[-1].values()), rounds
