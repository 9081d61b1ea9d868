"""What all pages share: the bar at the top, the style, and small parts that pages are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import ui

from penstock.errors import PenstockError
from penstock.server.picture.style import DARK, LIGHT, variables

STYLE = (
    f"body.body--light{{{variables(LIGHT)}}}body.body--dark{{{variables(DARK)}}}"
    f"{(Path(__file__).parent / 'style.css').read_text(encoding='utf-8')}"
)
PAGES = (
    ("Queries", "/"),
    ("Plan", "/plan"),
    ("Graphs", "/graphs"),
    ("Decisions", "/decisions"),
    ("Try it", "/try"),
)
_MARK = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="var(--ps-accent)" stroke-width="2" stroke-linecap="round" '
    'aria-hidden="true"><path d="M4 3v18M9 3v7M9 10c0 3 3 2 5 3s4 2 4 8M14 3v5c0 4 6 3 6 8v5"/></svg>'
)


@contextmanager
def page(here: str, extra: Iterable[tuple[str, str]] = (), wide: bool = False) -> Iterator[ui.element]:
    """A page with the bar; ``here`` is the name of the page."""
    ui.add_head_html(f"<style>{STYLE}</style>")  # ui.add_css adds it by a script, which would need the nonce
    dark = ui.dark_mode(None)
    with element("header", "top"):
        with element("a", "brand").props('href="/" aria-label="Penstock: queries"'):
            ui.html(_MARK, sanitize=False)
            words("Penstock", "span")
        with element("nav").props('aria-label="Pages"'):
            for name, path in (*PAGES, *extra):
                link = words(name, "a", "here" if name == here else "").props(f'href="{path}"')
                if name == here:
                    link.props('aria-current="page"')
        element("div", "spacer")
        button("Light / dark", lambda: switch(dark), "small").props('title="Switch between light and dark"')
    with element("main", "page wide" if wide else "page") as main:
        yield main


def switch(dark: ui.dark_mode) -> None:
    """From what is shown to the other; at first a page follows the system."""

    async def asked() -> None:
        shown = await ui.run_javascript("document.body.classList.contains('body--dark')")
        dark.set_value(not shown)

    ui.timer(0, asked, once=True)


def element(tag: str, style: str = "") -> ui.element:
    """An element of HTML with classes."""
    made = ui.element(tag)
    return made.classes(style) if style else made


class Words(ui.element):
    """An element with a text, which is never read as HTML."""

    def __init__(self, tag: str, text: str) -> None:
        super().__init__(tag)
        self.say(text)

    def say(self, text: str) -> None:
        """Change the text."""
        if text != self._text:
            self._text = text
            self.update()


def words(text: str, tag: str = "div", style: str = "") -> Words:
    """A text in an element."""
    made = Words(tag, text)
    return made.classes(style) if style else made


def button(text: str, on_click: Callable[[], Any], style: str = "") -> Words:
    """A button."""
    made = words(text, "button", f"btn {style}".strip()).props('type="button"')
    made.on("click", lambda: on_click())
    return made


def chooser(
    options: Mapping[str, str], value: str, on_change: Callable[[str], Any], label: str, style: str = ""
) -> ui.element:
    """A list to choose one of; ``options`` are the words by value."""
    made = element("select", f"field {style}".strip())
    made.props["aria-label"] = label
    with made:
        for key, text in options.items():
            option = words(text, "option")
            option._props["value"] = key
            if key == value:
                option._props["selected"] = True
    made.on("change", lambda event: on_change(str(event.args)), js_handler="(e) => emit(e.target.value)")
    return made


def field(
    label: str, value: str, on_change: Callable[[str], Any], kind: str = "text", event: str = "change"
) -> ui.element:
    """A field to write in."""
    made = element("input", "field")
    made._props |= {"type": kind, "aria-label": label, "placeholder": label, "value": value}

    def changed(e: Any) -> None:
        made._props["value"] = str(e.args)  # or a later change of the page would write the first one back
        on_change(str(e.args))

    made.on(event, changed, js_handler="(e) => emit(e.target.value)")
    return made


def tile(what: str) -> Words:
    """A number with a name; returns where the number stands."""
    with element("div", "tile"):
        words(what, "div", "what")
        return words("–", "div", "much")


@contextmanager
def section(title: str) -> Iterator[ui.element]:
    """A titled part of a page."""
    with element("section", "section"):
        words(title, "h2", "name")
        with element("div", "stack") as inner:
            yield inner


def bars(entries: Iterable[tuple[str, float, str]], hot: float = inf) -> None:
    """Shares as bars: a name, the share, and what it is in words; those from ``hot`` on stand out."""
    with element("div", "bars"):
        for name, share, much in entries:
            words(name, "div", "cut").props["title"] = name
            with element("div", "track"):
                fill = element("div", "fill hot" if share >= hot else "fill")
                fill._style["width"] = f"{min(1.0, share):.1%}"
            words(much, "div", "num quiet")


def attempt(action: Callable[[], Any], done: str = "") -> bool:
    """Do what a user asked for; what goes wrong is said in one sentence."""
    try:
        action()
    except PenstockError as error:
        ui.notify(
            " ".join(str(error).split()), type="negative", multi_line=True, close_button="Close", timeout=0
        )
        return False
    if done:
        ui.notify(done, type="positive")
    return True


def address(page: str, key: str) -> str:
    """The address of a page about a query."""
    return f"/{page}?query={quote(key, safe='')}"
