"""The NEXMark auction site: persons, auctions and bids in the proportions of the benchmark's generator.

Of 50 events in a row 1 is a person, 3 are auctions, 46 bids. Half of the bids are on a hot auction, the first
of the last hundred; three quarters are by a hot bidder, and three quarters of the auctions of a hot seller.
Other bids are on auctions that are likely to be open, other persons are among the last thousand. Some
identifiers are of rows that come a little later. Fields have the sizes of the benchmark: about 200 bytes a
person, 500 an auction, 100 a bid and its channel and URL besides.

Every draw is a function of seed, slice and column, so slices can be made in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.compiled import njit
from penstock.schema import TIMESTAMP
from penstock.workloads.files import EPOCH, MICROS

PERSON = pa.schema(
    [("id", pa.int64()), *((c, pa.string()) for c in ("name", "emailAddress", "creditCard", "city", "state"))]
    + [("dateTime", TIMESTAMP), ("extra", pa.string())]
)
AUCTION = pa.schema(
    [("id", pa.int64()), ("itemName", pa.string()), ("description", pa.string())]
    + [("initialBid", pa.int64()), ("reserve", pa.int64()), ("dateTime", TIMESTAMP), ("expires", TIMESTAMP)]
    + [("seller", pa.int64()), ("category", pa.int64()), ("extra", pa.string())]
)
BID = pa.schema(
    [("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64())]
    + [("channel", pa.string()), ("url", pa.string()), ("dateTime", TIMESTAMP), ("extra", pa.string())]
)
SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID}
_SQL = {pa.int64(): "BIGINT", pa.string(): "STRING", TIMESTAMP: "TIMESTAMP"}
DDL = {name: ", ".join(f"{f.name} {_SQL[f.type]}" for f in schema) for name, schema in SCHEMAS.items()}

PERSONS, AUCTIONS, BIDS = 1, 3, 46
TOTAL = PERSONS + AUCTIONS + BIDS
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_BATCH = 100
"""Of so many auctions or persons in a row one is hot."""
COLD_AUCTION, COLD_SELLER, COLD_BIDDER = 1 / 2, 1 / 4, 1 / 4
"""Shares of bids and auctions that are not on, of or by a hot one."""
IN_FLIGHT, ACTIVE, LEAD = 100, 1000, 10
"""Auctions that may be bid on, persons that are active, and identifiers ahead of the rows that have them."""
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_WITHOUT_ID = 0.1
_TEXT = 1 << 20
_FIRST = "Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter".split()
_LAST = "Shultz Abrams Spencer White Bartels Walton Smith Jones Noris".split()
_NAMES = [f"{first} {last}" for first in _FIRST for last in _LAST]
_STATES = "AZ CA ID OR WA WY".split()
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle"]
_CITIES += ["Kent", "Cheyenne"]


@dataclass(frozen=True)
class NexmarkWorkload:
    """``rate`` events per second of stream time; a slice has ``events`` of them, a multiple of 50."""

    rate: int = 10_000
    events: int = 100_000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rate < 1 or self.events < TOTAL or self.events % TOTAL:
            raise ValueError(f"rate must be at least 1, and events a positive multiple of {TOTAL}")

    @property
    def slice_seconds(self) -> float:
        """Stream time of a slice."""
        return self.events / self.rate

    def slice(self, number: int) -> dict[str, pa.Table]:
        """Persons, auctions and bids of one slice in order of time; the same for the same seed and number."""
        first = number * self.events
        event = np.arange(first, first + self.events, dtype=np.int64)
        offset = event % TOTAL
        person, bid = offset < PERSONS, offset >= PERSONS + AUCTIONS
        draw = _Draws(self.seed, number)
        return {
            "person": self._persons(event[person], draw),
            "auction": self._auctions(event[~person & ~bid], draw),
            "bid": self._bids(event[bid], draw),
        }

    def slices(self, count: int, first: int = 0) -> Iterator[dict[str, pa.Table]]:
        return (self.slice(n) for n in range(first, first + count))

    def _persons(self, event: np.ndarray, draw: _Draws) -> pa.Table:
        count = len(event)
        name = _taken(_NAMES, draw.below(len(_NAMES), count))
        user, user_bytes = _texts(draw, count, 3, 7)
        host, host_bytes = _texts(draw, count, 3, 5)
        email = pc.binary_join_element_wise(user, pc.binary_join_element_wise(host, "com", "."), "@")
        digits = [pc.utf8_lpad(pa.array(draw.below(10_000, count)).cast("string"), 4, "0") for _ in range(4)]
        city = _taken(_CITIES, draw.below(len(_CITIES), count))
        extra = _extra(draw, PERSON_BYTES, 8 + 12 + user_bytes + host_bytes + 5 + 19 + 8 + 2)
        card = pc.binary_join_element_wise(*digits, " ")
        columns = [_last_person(event) + FIRST_ID, name, email, card, city]
        columns += [_taken(_STATES, draw.below(len(_STATES), count)), self._ts(event), extra]
        return pa.table(columns, schema=PERSON)

    def _auctions(self, event: np.ndarray, draw: _Draws) -> pa.Table:
        count = len(event)
        hot = _last_person(event) // HOT_BATCH * HOT_BATCH
        seller = np.where(draw.chance(COLD_SELLER, count), _any_person(event, draw), hot) + FIRST_ID
        initial = draw.prices(count)
        name, name_bytes = _texts(draw, count, 3, 20)
        text, text_bytes = _texts(draw, count, 3, 100)
        # An auction is open until about as many others have begun as may be in flight.
        horizon_us = 2 * IN_FLIGHT * TOTAL // AUCTIONS * MICROS // self.rate
        expires = self._us(event) + 1000 + draw.below(max(horizon_us, 1), count)
        columns = [_last_auction(event) + FIRST_ID, name, text, initial, initial + draw.prices(count)]
        columns += [self._ts(event), _times(expires), seller, FIRST_CATEGORY + draw.below(CATEGORIES, count)]
        return pa.table([*columns, _extra(draw, AUCTION_BYTES, 48 + name_bytes + text_bytes)], schema=AUCTION)

    def _bids(self, event: np.ndarray, draw: _Draws) -> pa.Table:
        count = len(event)
        last = _last_auction(event)
        least = np.maximum(last - IN_FLIGHT, 0)
        open_one = least + (draw.uniform(count) * (last - least + 1 + LEAD)).astype(np.int64)
        auction = np.where(draw.chance(COLD_AUCTION, count), open_one, last // HOT_BATCH * HOT_BATCH)
        hot = _last_person(event) // HOT_BATCH * HOT_BATCH + 1  # sellers are the first: not the same
        bidder = np.where(draw.chance(COLD_BIDDER, count), _any_person(event, draw), hot)
        # Half of the bids come over one of four channels.
        cold = len(HOT_CHANNELS) + draw.below(CHANNELS, count)
        channel = np.where(draw.chance(1 / 2, count), cold, draw.below(len(HOT_CHANNELS), count))
        channels, urls = _channels(self.seed)
        columns = [auction + FIRST_ID, bidder + FIRST_ID, draw.prices(count)]
        columns += [channels.take(pa.array(channel)), urls.take(pa.array(channel)), self._ts(event)]
        return pa.table([*columns, _extra(draw, BID_BYTES, np.full(count, 32))], schema=BID)

    def _us(self, event: np.ndarray) -> np.ndarray:
        """When an event happens, in microseconds since the first."""
        seconds, rest = np.divmod(event, self.rate)
        return seconds * MICROS + rest * MICROS // self.rate

    def _ts(self, event: np.ndarray) -> pa.Array:
        return _times(self._us(event))


def side_input() -> pa.Table:
    """The table of q13: a value for every key below 10,000."""
    return pa.table({"key": np.arange(10_000), "value": [f"value-{key}" for key in range(10_000)]})


class _Draws:
    """Random columns of a slice: each draw has a generator of its own place in the sequence."""

    def __init__(self, seed: int, number: int) -> None:
        self._rng = np.random.default_rng((seed, number))
        self.text = _text(seed)

    def uniform(self, count: int) -> np.ndarray:
        return self._rng.random(count)

    def chance(self, share: float, count: int) -> np.ndarray:
        return self._rng.random(count) < share

    def below(self, limit: int, count: int) -> np.ndarray:
        return self._rng.integers(0, limit, count)

    def prices(self, count: int) -> np.ndarray:
        """From 1 to a million dollars, in cents, each power of ten as often."""
        return np.round(10 ** (6 * self._rng.random(count)) * 100).astype(np.int64)


def _last_person(event: np.ndarray) -> np.ndarray:
    """The number of the last person up to an event."""
    return event // TOTAL * PERSONS + np.minimum(event % TOTAL, PERSONS - 1)


def _last_auction(event: np.ndarray) -> np.ndarray:
    """The number of the last auction up to an event; before the first one, 0."""
    begun = np.clip(event % TOTAL - PERSONS, -1, AUCTIONS - 1)
    return np.maximum(event // TOTAL * AUCTIONS + begun, 0)


def _any_person(event: np.ndarray, draw: _Draws) -> np.ndarray:
    known = _last_person(event) + 1
    active = np.minimum(known, ACTIVE)
    return known - active + (draw.uniform(len(event)) * (active + LEAD)).astype(np.int64)


def _taken(values: list[str], at: np.ndarray) -> pa.Array:
    return pa.array(values).take(pa.array(at))


def _times(us: np.ndarray) -> pa.Array:
    return pa.array(EPOCH + us).cast(TIMESTAMP)


def _extra(draw: _Draws, wanted: int, others: np.ndarray) -> pa.Array:
    """Texts that make rows of ``wanted`` bytes on average, one fifth more or less."""
    room = np.maximum(wanted - others, 0)
    length = np.round(room * (0.8 + 0.4 * draw.uniform(len(room)))).astype(np.int64)
    return _cut(draw, length)


def _texts(draw: _Draws, count: int, least: int, limit: int) -> tuple[pa.Array, np.ndarray]:
    """Texts of ``least`` to ``limit - 1`` letters, and their lengths."""
    length = least + draw.below(limit - least, count)
    return _cut(draw, length), length


def _cut(draw: _Draws, length: np.ndarray) -> pa.Array:
    """Random pieces of one long text: as different as they need to be, and made at the speed of a copy."""
    start = draw.below(_TEXT - 1024, len(length))
    offsets = np.zeros(len(length) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    pieces = _pieces(draw.text, start, offsets)
    return pa.StringArray.from_buffers(len(length), pa.py_buffer(offsets), pa.py_buffer(pieces))


@njit
def _pieces(text: np.ndarray, start: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    out = np.empty(offsets[-1], np.uint8)
    for i in range(len(start)):
        first, size = offsets[i], offsets[i + 1] - offsets[i]
        for j in range(size):
            out[first + j] = text[start[i] + j]
    return out


@lru_cache(maxsize=4)
def _text(seed: int) -> np.ndarray:
    return np.random.default_rng((seed, _TEXT)).integers(ord("a"), ord("z") + 1, _TEXT).astype(np.uint8)


@lru_cache(maxsize=4)
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Channels and their URLs, the hot ones first; nine in ten of the others name an identifier."""
    rng = np.random.default_rng((seed, CHANNELS))
    letters = rng.integers(ord("a"), ord("z") + 1, (len(HOT_CHANNELS) + CHANNELS, 3, 5)).astype(np.uint8)
    names, urls = [], []
    for number, parts in enumerate(letters):
        path = "/".join(bytes(part).decode() for part in parts)
        url = f"https://www.nexmark.com/{path}/item.htm?query=1"
        hot = number < len(HOT_CHANNELS)
        names.append(HOT_CHANNELS[number] if hot else f"channel-{number - len(HOT_CHANNELS)}")
        identified = not hot and rng.random() >= _WITHOUT_ID
        urls.append(url + (f"&channel_id={rng.integers(0, 2**31)}" if identified else ""))
    return pa.array(names), pa.array(urls)
