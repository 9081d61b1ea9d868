"""The protocol between a relay and a resident engine: length-prefixed messages over a Unix socket.

A message is a kind, a small pickled head and a raw body. Bodies are sent from the buffers they lie in and
received into one buffer; large payloads are never pickled. The socket lies in a directory that only its
owner can enter, so both ends trust each other::

    1 byte kind | 4 bytes length of head | 8 bytes length of body | head | body
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from penstock.spark.settings import SENDMSG_BUFFERS

_FRAME = struct.Struct("<BIQ")


class Kind(IntEnum):
    """The kind of a message."""

    HELLO = 1
    """Relay: the version the state store holds, the digest of the records before it, and the next step's.
    Engine: the version it holds, or None, with its digest, and whether that step is the last it took."""
    BUILD = 2
    """Start afresh: the program in the head, a snapshot in the body or nothing."""
    REPLAY = 3
    """A logged step to run; has no answer."""
    STEP = 4
    """A new step. Answered by RESULT."""
    RESULT = 5
    SNAPSHOT = 6
    """Asks for the engine's state, if it has at most so many bytes; answered by the same kind with its size,
    and with it as the body."""
    FAILED = 7
    """The engine's answer when something went wrong: the error's kind, its sentence, its traceback."""
    START = 8
    """To the host of a machine: start an engine. Answered by the same kind with its process id."""
    TABLES = 10
    """Asks for the static tables that go with the header; answered by the same kind with them as the body."""
    QUIT = 9
    """To a host or an engine: end. Answered by the same kind."""


@dataclass(frozen=True)
class Message:
    """One message as received."""

    kind: Kind
    head: Any
    body: memoryview


def send(sock: socket.socket, kind: Kind, head: Any = None, parts: Sequence[bytes | memoryview] = ()) -> None:
    """Send a message whose body is the parts concatenated."""
    packed = pickle.dumps(head, protocol=5)
    views = [memoryview(p).cast("B") for p in parts if len(p)]
    frame = _FRAME.pack(kind, len(packed), sum(v.nbytes for v in views))
    pending = [memoryview(frame + packed), *views]
    while pending:
        pending = _drop(pending, sock.sendmsg(pending[:SENDMSG_BUFFERS]))


def receive(sock: socket.socket) -> Message:
    """The next message; ``ConnectionError`` if the other side has closed."""
    kind, head, body = _FRAME.unpack(_exactly(sock, _FRAME.size))
    packed = _exactly(sock, head)
    return Message(Kind(kind), pickle.loads(packed), _exactly(sock, body))


def _drop(views: list[memoryview], sent: int) -> list[memoryview]:
    """The rest of the views after ``sent`` bytes."""
    for i, view in enumerate(views):
        if sent < view.nbytes:
            return [view[sent:], *views[i + 1 :]]
        sent -= view.nbytes
    return []


def _exactly(sock: socket.socket, size: int) -> memoryview:
    view = np.empty(size, np.uint8).data  # a bytearray would be filled with zeros first
    filled = 0
    while filled < size:
        got = sock.recv_into(view[filled:])
        if not got:
            raise ConnectionError("the other side closed the connection")
        filled += got
    return view
