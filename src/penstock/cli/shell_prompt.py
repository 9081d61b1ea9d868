"""The prompt of the shell: history, completion, and lines that go on until ``;``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent

from penstock.cli.shell_client import Client
from penstock.errors import PenstockError
from penstock.functions.aggregates import AGGREGATES
from penstock.functions.registry import FUNCTIONS

KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "HAVING", "ISTREAM(", "ISTREAM ALL(", "DSTREAM(",
    "RSTREAM(", "UNION ALL", "JOIN", "LEFT JOIN", "ON", "AS", "AND", "OR", "NOT", "IN", "EXISTS", "BETWEEN",
    "CASE", "WHEN", "THEN", "END", "CREATE STREAM", "CREATE TABLE", "CREATE VIEW", "CREATE SINK",
    "DROP", "SHOW STREAMS", "SHOW QUERIES", "DESCRIBE", "EXPLAIN", "INSERT INTO", "REGISTER QUERY",
    "ALTER QUERY", "SET", "WITHIN MEMORY",
)  # fmt: skip
WINDOWS = (
    "RANGE 10 SECONDS]", "ROWS 100]", "ROWS UNBOUNDED]", "NOW]", "PARTITION BY", "TUMBLE", "HOP", "SESSION",
)  # fmt: skip
COMMANDS = ("d", "queries", "plan", "watch", "stop", "start", "drop", "?", "q")


class Words(Completer):
    """Completes commands, windows after ``[``, and the names of streams, columns, functions and keywords."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: list[str] = []

    def refresh(self) -> None:
        """Ask the server for its names again."""
        try:
            inputs = self._client.get("/api/inputs")
        except PenstockError:
            return
        columns = {c["name"] for i in inputs for c in i["columns"]}
        self._names = [*(i["name"] for i in inputs), *sorted(columns)]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What the word before the cursor may become."""
        written = re.search(r"\w*$", document.text_before_cursor)
        word = written[0] if written else ""
        before = document.text_before_cursor.removesuffix(word).rstrip()
        if document.text.startswith("\\") and " " not in document.text:
            candidates: Iterable[str] = COMMANDS
        elif before.endswith("["):
            candidates = WINDOWS
        else:
            functions = (*FUNCTIONS, *AGGREGATES)
            candidates = [*self._names, *KEYWORDS, *(f"{name.upper()}(" for name in functions)]
        for c in candidates:
            if c.casefold().startswith(word.casefold()) and (word or before.endswith("[")):
                yield Completion(c, -len(word))


def is_whole(text: str) -> bool:
    """Whether Enter sends a text: a command, or what ends with ``;``."""
    text = text.strip()
    return not text or text.startswith("\\") or text.endswith(";") or text in ("exit", "quit")


def prompt(client: Client) -> Callable[[], str]:
    """A function that reads the next statements from the terminal."""
    words, keys = Words(client), KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(Path.home() / ".penstock_history")),
        completer=words,
        complete_while_typing=False,
        multiline=True,
        key_bindings=keys,
        prompt_continuation="      ... ",
    )

    def read() -> str:
        words.refresh()
        return session.prompt("penstock> ")

    return read
