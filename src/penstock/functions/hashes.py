"""Hashes and encodings, with Spark's names and results, bit for bit."""

from __future__ import annotations

import base64
import hashlib
import urllib.parse
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.expression import Call, Expression
from penstock.functions import types
from penstock.functions.kernels import Datum, rows
from penstock.functions.registry import Theme
from penstock.functions.types import BIGINT, BINARY, INT, STRING, coerce

HASHES = Theme("Hashes and encodings", "`bytes` is a BINARY, or a STRING, whose bytes are those of UTF-8.")


@HASHES.by_row("md5", "bytes -> STRING", "MD5 in hexadecimal",
               "MD5('Spark') -> '8cde774d6f7333752ed72cacddb05126'")  # fmt: skip
def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@HASHES.by_row("sha1", "bytes -> STRING", "SHA-1 in hexadecimal",
               "SHA1('Spark') -> '85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c'", aliases=("sha",))  # fmt: skip
def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@HASHES.by_row("sha2", "bytes, INT -> STRING",
               "SHA-2 of 224, 256, 384 or 512 bits in hexadecimal, 0 means 256; NULL for another number",
               "LEFT(SHA2('Spark', 256), 8) -> '529bc3b0'")  # fmt: skip
def _sha2(data: bytes, bits: int) -> str | None:
    known = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
    return hashlib.new(known[bits], data).hexdigest() if bits in known else None


@HASHES.by_row("crc32", "bytes -> BIGINT", "cyclic redundancy check", "CRC32('Spark') -> 1557323817L")
def _crc32(data: bytes) -> int:
    return zlib.crc32(data)


@HASHES.by_row("base64", "bytes -> STRING", "in base 64", "BASE64('Spark SQL') -> 'U3BhcmsgU1FM'")
def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@HASHES.by_rule("hex", "BIGINT or bytes -> STRING", "in hexadecimal, a negative number in two's complement",
                "HEX(17) -> '11'", kernel=lambda call, args: _each(call, args, _hex_of))  # fmt: skip
def _hex(value: Expression) -> Expression | None:
    if types.is_integer(value.type):
        return Call("hex", (coerce(value, BIGINT),), STRING)
    text = value.type == BINARY or types.is_string(value.type)
    return Call("hex", (value,), STRING) if text else None


def _hex_of(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value % (1 << 64):X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _each(call: Call, args: Sequence[Datum], one: Callable[..., Any]) -> pa.Array:
    return pa.array([None if None in row else one(*row) for row in rows(args)], call.type)


@HASHES.by_row("unhex", "STRING -> BINARY", "the bytes of hexadecimal digits; NULL if there are others",
               "CAST(UNHEX('537061726B') AS STRING) -> 'Spark'")  # fmt: skip
def _unhex(text: str) -> bytes | None:
    digits = text if len(text) % 2 == 0 else f"0{text}"
    if not all(c in "0123456789abcdefABCDEF" for c in digits):
        return None
    return bytes.fromhex(digits)


@HASHES.by_row("url_encode", "STRING -> STRING", "as a part of a URL", "URL_ENCODE('a b/c') -> 'a+b%2Fc'")
def _url_encode(text: str) -> str:
    return urllib.parse.quote_plus(text, safe="*-._").replace("~", "%7E")


# Murmur 3 and xxHash, as Spark computes them: column by column, the hash so far as the seed of the next.


def _hashing(call: Call, args: Sequence[Datum]) -> pa.Array:
    length = next(len(a) for a in args if isinstance(a, pa.Array))
    hasher = _Murmur() if call.function == "hash" else _XXHash()
    seeds = np.full(length, 42, hasher.dtype)
    for arg in args:
        column = pa.repeat(arg, length) if isinstance(arg, pa.Scalar) else arg
        known = column.is_valid().to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            seeds = np.where(known, _column_hash(hasher, column, seeds), seeds)
    return pa.array(seeds.view(np.int32 if call.function == "hash" else np.int64))


def _hash_rule(name: str, type_: pa.DataType) -> Callable[..., Expression | None]:
    def rule(*args: Expression) -> Expression | None:
        plain = all(not types.is_decimal(a.type) or a.type.precision <= 18 for a in args)
        return Call(name, args, type_) if plain else None

    return rule


HASHES.define("hash", "value, ... -> INT", "Murmur 3 of the values, not of a DECIMAL of more than 18 digits",
              "HASH('Spark', 123) -> 1262264271", _hashing, rule=_hash_rule("hash", INT))  # fmt: skip
HASHES.define("xxhash64", "value, ... -> BIGINT",
              "xxHash of 64 bits of the values, not of a DECIMAL of more than 18 digits",
              "XXHASH64('Spark', 123) -> -7770970918500510695L", _hashing,
              rule=_hash_rule("xxhash64", BIGINT))  # fmt: skip


def _column_hash(hasher: _Murmur | _XXHash, column: pa.Array, seeds: np.ndarray) -> np.ndarray:
    kind = column.type
    if types.is_string(kind) or kind == BINARY:
        data = column.cast(pa.binary()).fill_null(b"")
        return hasher.of_bytes(data, seeds)
    if types.is_decimal(kind):
        units = [0 if v is None else int(v.scaleb(kind.scale)) for v in column.to_pylist()]
        return hasher.of_long(np.array(units, np.int64), seeds)
    if types.is_fractional(kind):
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values + 0.0).astype(values.dtype)
        return (hasher.of_int(values.view(np.int32), seeds) if values.dtype == np.float32
                else hasher.of_long(values.view(np.int64), seeds))  # fmt: skip
    if types.is_timestamp(kind) or kind == BIGINT:
        return hasher.of_long(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), seeds)
    if kind == types.DATE:
        column = column.cast(pa.int32())
    whole = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
    return hasher.of_int(whole.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False), seeds)


def _left(x: np.ndarray, bits: int) -> np.ndarray:
    size = x.dtype.itemsize * 8
    return (x << x.dtype.type(bits)) | (x >> x.dtype.type(size - bits))


def _words(data: pa.Array, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of texts as a matrix with a row each, filled up with zeros, and their lengths."""
    lengths = np.array([len(v) for v in data.to_pylist()], np.int64)
    width = -(-int(lengths.max(initial=0)) // size) * size + size
    joined = b"".join(v.ljust(width, b"\0") for v in data.to_pylist())
    return np.frombuffer(joined, np.uint8).reshape(len(lengths), width), lengths


class _Murmur:
    """Murmur 3 of 32 bits; Spark hashes each byte that is left over as a word of its own."""

    dtype = np.uint32

    @staticmethod
    def _mix(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
        k = _left(words.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        return _left(hashes ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)

    @staticmethod
    def _finish(hashes: np.ndarray, length: Any) -> np.ndarray:
        h: np.ndarray = hashes ^ np.asarray(length).astype(np.uint32)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return h ^ (h >> np.uint32(16))

    def of_int(self, values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return self._finish(self._mix(seeds, values.view(np.uint32)), 4)

    def of_long(self, values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        words = values.view(np.uint64)
        low, high = words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)
        return self._finish(self._mix(self._mix(seeds, low), high), 8)

    def of_bytes(self, data: pa.Array, seeds: np.ndarray) -> np.ndarray:
        matrix, lengths = _words(data, 4)
        hashes, whole = seeds, lengths - lengths % 4
        for at in range(0, matrix.shape[1], 4):
            word = np.ascontiguousarray(matrix[:, at : at + 4]).view("<u4")[:, 0]
            hashes = np.where(at < whole, self._mix(hashes, word), hashes)
        for extra in range(3):
            place = np.minimum(whole + extra, matrix.shape[1] - 1)
            byte = matrix[np.arange(len(lengths)), place].view(np.int8).astype(np.int32).view(np.uint32)
            hashes = np.where(whole + extra < lengths, self._mix(hashes, byte), hashes)
        return self._finish(hashes, lengths)


_P = [np.uint64(p) for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                             0x27D4EB2F165667C5)]  # fmt: skip


class _XXHash:
    """xxHash of 64 bits."""

    dtype = np.uint64

    @staticmethod
    def _round(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _left(hashes + words * _P[1], 31) * _P[0]

    @staticmethod
    def _finish(h: np.ndarray) -> np.ndarray:
        h = (h ^ (h >> np.uint64(33))) * _P[1]
        h = (h ^ (h >> np.uint64(29))) * _P[2]
        return h ^ (h >> np.uint64(32))

    def _long(self, hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _left(hashes ^ self._round(np.zeros_like(hashes), words), 27) * _P[0] + _P[3]

    def _int(self, hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _left(hashes ^ (words * _P[0]), 23) * _P[1] + _P[2]

    def of_int(self, values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        words = values.view(np.uint32).astype(np.uint64)
        return self._finish(self._int(seeds + _P[4] + np.uint64(4), words))

    def of_long(self, values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return self._finish(self._long(seeds + _P[4] + np.uint64(8), values.view(np.uint64)))

    def of_bytes(self, data: pa.Array, seeds: np.ndarray) -> np.ndarray:
        matrix, lengths = _words(data, 32)
        word = np.ascontiguousarray(matrix).view("<u8")
        stripes = lengths // 32
        lanes = [seeds + _P[0] + _P[1], seeds + _P[1], seeds.copy(), seeds - _P[0]]
        for stripe in range(int(stripes.max(initial=0))):
            lanes = [np.where(stripe < stripes, self._round(v, word[:, 4 * stripe + n]), v)
                     for n, v in enumerate(lanes)]  # fmt: skip
        merged = _left(lanes[0], 1) + _left(lanes[1], 7) + _left(lanes[2], 12) + _left(lanes[3], 18)
        for v in lanes:
            merged = (merged ^ self._round(np.zeros_like(v), v)) * _P[0] + _P[3]
        hashes = np.where(stripes > 0, merged, seeds + _P[4]) + lengths.astype(np.uint64)
        row, place = np.arange(len(lengths)), stripes * 32
        for _ in range(3):
            here = place + 8 <= lengths
            next_word = word[row, np.minimum(place // 8, word.shape[1] - 1)]
            hashes, place = np.where(here, self._long(hashes, next_word), hashes), place + 8 * here
        half = np.ascontiguousarray(matrix).view("<u4")
        here = place + 4 <= lengths
        next_int = half[row, np.minimum(place // 4, half.shape[1] - 1)].astype(np.uint64)
        hashes, place = np.where(here, self._int(hashes, next_int), hashes), place + 4 * here
        for _ in range(3):
            here = place < lengths
            byte = matrix[row, np.minimum(place, matrix.shape[1] - 1)].astype(np.uint64)
            hashes = np.where(here, _left(hashes ^ (byte * _P[4]), 11) * _P[0], hashes)
            place = place + here
        return self._finish(hashes)
