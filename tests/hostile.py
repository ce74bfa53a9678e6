"""Bodies that are not the canonical form of a position: what a holder of the key could sign."""

from __future__ import annotations

import struct
from typing import Any

from tests.independent import Ext, pack

ROOT = bytes(range(32))


def _keyset(*values: Any) -> bytes:
    return pack([2, None, list(values)])


def _offset(value: Any) -> bytes:
    return pack([1, None, value])


def _raw_keyset(value: bytes) -> bytes:
    return b"\x93\x02\xc0\x91" + value


def _ext(code: int, payload: str | bytes) -> bytes:
    data = payload.encode() if isinstance(payload, str) else payload
    return _raw_keyset(pack(Ext(code, data)))


_SHAPES = {
    "nothing": b"\x00",
    "nil": b"\xc0",
    "text": pack("offset"),
    "map": b"\x83\x00\x01\x01\xc0\x02\x05",
    "map of text": pack({"offset": {"$gt": 0}}),
    "empty array": b"\x90",
    "kind only": pack([1]),
    "no offset": pack([1, None]),
    "one member too many": pack([1, None, 5, 6]),
    "the arity of a snapshot offset": pack([1, None, 5, 6, 7]),
    "kind 0": pack([0, None, 5]),
    "kind 5": pack([5, None, 5]),
    "kind -1": pack([-1, None, 5]),
    "kind true": pack([True, None, 5]),
    "kind 1.0": pack([1.0, None, 5]),
    "kind text": pack(["1", None, 5]),
    "kind array": pack([[1], None, 5]),
    "kind map": pack([{}, None, 5]),
    "kind 2^64-1": pack([2**64 - 1, None, 5]),
    "trailing byte": pack([1, None, 5]) + b"\x00",
    "trailing body": pack([1, None, 5]) * 2,
    "truncated": pack([1, None, 50_000])[:-1],
    "reserved byte": b"\xc1",
}

_NOT_OFFSETS: tuple[Any, ...] = (
    "1", "", "1e3", "+1", "01", " 1", "1_000", "\u0661", "\u00b2", b"1", 1.5, 1.0, -0.0, -1,
    True, False, None, [], {}, [5], {"$gt": 0}, 2**53, 2**63, 2**64 - 1, -(2**63),
    float("nan"), float("inf"), Ext(1, (2**80).to_bytes(11, "big")), Ext(2, b"5"),
)  # fmt: skip
_OFFSETS = {f"offset {value!r:.20}": _offset(value) for value in _NOT_OFFSETS}

_NOT_EXPIRIES: tuple[Any, ...] = (
    0, -1, True, False, 1.0, float("nan"), float("inf"), "1", b"1", [], [1], {}, 2**53,
    2**64 - 1, Ext(3, b"2026-11-30"), Ext(-1, bytes(4)),
)  # fmt: skip
_EXPIRIES = {f"expiry {value!r:.20}": pack([1, value, 5]) for value in _NOT_EXPIRIES}

_SPELLINGS = {
    "kind in 8 bits": b"\x93\xcc\x01\xc0\x05",
    "offset in 8 bits": b"\x93\x01\xc0\xcc\x05",
    "offset in 16 bits": b"\x93\x01\xc0\xcd\x00\xff",
    "offset in 32 bits": b"\x93\x01\xc0\xce\x00\x00\xff\xff",
    "offset in 64 bits": b"\x93\x01\xc0\xcf\x00\x00\x00\x00\xff\xff\xff\xff",
    "offset as signed 8 bits": b"\x93\x01\xc0\xd0\x05",
    "offset as signed 64 bits": b"\x93\x01\xc0\xd3\x00\x00\x00\x00\x00\x00\x00\x05",
    "expiry in 64 bits": b"\x93\x01\xcf\x00\x00\x00\x00\x7f\xff\xff\xff\x05",
    "array in 16 bits": b"\xdc\x00\x03\x01\xc0\x05",
    "array in 32 bits": b"\xdd\x00\x00\x00\x03\x01\xc0\x05",
    "float32": _raw_keyset(struct.pack(">Bf", 0xCA, 1.5)),
    "text in 8 bits": _raw_keyset(b"\xd9\x01a"),
    "text in 16 bits": _raw_keyset(b"\xda\x00\x01a"),
    "bytes in 16 bits": _raw_keyset(b"\xc5\x00\x01a"),
    "text that is not UTF-8": _raw_keyset(b"\xa1\xff"),
    "text with a surrogate": _raw_keyset(b"\xa3\xed\xa0\x80"),
    "overlong UTF-8": _raw_keyset(b"\xa2\xc0\x80"),
    "values in 16 bits": b"\x93\x02\xc0\xdc\x00\x01\x05",
    "extension in 8 bits": _raw_keyset(b"\xc7\x01\x025"),
}

_SNAPSHOTS = {
    "root of 31 bytes": pack([3, None, ROOT[:31], 5, 5]),
    "root of 33 bytes": pack([3, None, ROOT + b"x", 5, 5]),
    "root as text": pack([3, None, "r" * 32, 5, 5]),
    "root nil": pack([3, None, None, 5, 5]),
    "root as an array": pack([3, None, list(ROOT), 5, 5]),
    "page size 0": pack([3, None, ROOT, 5, 0]),
    "page size 10,001": pack([3, None, ROOT, 5, 10_001]),
    "page size 2^31-1": pack([3, None, ROOT, 5, 2**31 - 1]),
    "page size true": pack([3, None, ROOT, 5, True]),
    "page size 5.0": pack([3, None, ROOT, 5, 5.0]),
    "page size nil": pack([3, None, ROOT, 5, None]),
    "no page size": pack([3, None, ROOT, 5]),
    "snapshot offset -1": pack([3, None, ROOT, -1, 5]),
    "snapshot offset true": pack([3, None, ROOT, True, 5]),
    "snapshot offset 2^53": pack([3, None, ROOT, 2**53, 5]),
    "six members": pack([3, None, ROOT, 5, 5, 5]),
}

_OPAQUES = {
    "opaque text": pack([4, None, "data"]),
    "opaque nil": pack([4, None, None]),
    "opaque int": pack([4, None, 5]),
    "opaque array": pack([4, None, [1]]),
    "opaque timestamp": pack([4, None, Ext(-1, bytes(4))]),
}

_KEYSETS = {
    "no values": pack([2, None, []]),
    "values nil": pack([2, None, None]),
    "values as text": pack([2, None, "abc"]),
    "values as bytes": pack([2, None, b"abc"]),
    "values as a map": pack([2, None, {"a": 1}]),
    "values as an int": pack([2, None, 5]),
    "values as an extension": pack([2, None, Ext(2, b"5")]),
    "array as a value": _keyset([1]),
    "empty array as a value": _keyset([]),
    "map as a value": _keyset({"a": 1}),
    "NaN": _keyset(float("nan")),
    "infinity": _keyset(float("inf")),
    "timestamp of 4 bytes": _ext(-1, bytes(4)),
    "timestamp of 8 bytes": _ext(-1, bytes(8)),
    "timestamp of 12 bytes": _ext(-1, bytes(12)),
    "timestamp of 3 bytes": _ext(-1, bytes(3)),
    "extension 0": _ext(0, b"x"),
    "extension 7": _ext(7, b"x"),
    "extension 127": _ext(127, bytes(16)),
    "extension -128": _ext(-128, bytes(16)),
}

_PAYLOADS: tuple[tuple[int, str | bytes], ...] = (
    (1, b""),
    (1, b"\x05"),
    (1, (2**63).to_bytes(8, "big")),
    (1, (2**64 - 1).to_bytes(9, "big")),
    (1, (-(2**63)).to_bytes(8, "big", signed=True)),
    (1, (2**64).to_bytes(10, "big")),
    (1, b"\xff" * 10),
    (1, (2**1024).to_bytes(129, "big")),
    (1, (-(2**1024)).to_bytes(129, "big", signed=True)),
    (1, b"\x7f" * 3000),
    *(
        (2, text)
        for text in (
            "", " 1", "1 ", "+1", "01", "1.", ".5", "1e5", "1e+5", "1E5", "1E+05", "1_000",
            "00", "NaN", "-NaN", "sNaN", "Infinity", "-Infinity", "inf", "\u0661", "0x1",
            "1E+6145", "1E-6145", "1" * 101, "0E+99999999", "1E+999999999999999999", "1\n", "1\x00",
            "1" * 3000,
        )
    ),
    *(
        (3, text)
        for text in (
            "", "20261130", "2026-W49-1", "2026-1-1", "2026-11-31", "0000-01-01", "10000-01-01",
            "2026-11-30T00:00:00", "2026-11-30 ", "\u0662026-11-30", "-026-11-30",
        )
    ),
    *(
        (4, text)
        for text in (
            "", "2026-11-30", "2026-11-30T12:00:00", "2026-11-30 12:00:00.000000",
            "2026-11-30T12:00:00.000", "2026-11-30T12:00:00,000000", "20261130T120000.000000",
            "2026-11-30T24:00:00.000000", "2026-11-30T12:00:60.000000",
            "2026-11-30T12:00:00.000000Z", "2026-11-30T12:00:00.000000+00:00",
            "2026-11-30T12:00:00.000000+00:00:00", "2026-11-30T12:00:00.0000000",
            "0000-01-01T00:00:00.000000", "2026-11-30t12:00:00.000000",
        )
    ),
    *(
        (5, text)
        for text in (
            "", "+00:00:00", "2026-11-30T12:00:00.000000", "2026-11-30T12:00:00.000000Z",
            "2026-11-30T12:00:00.000000+01:00", "2026-11-30T12:00:00.000000-00:00:00",
            "2026-11-30T12:00:00.000000+24:00:00", "2026-11-30T12:00:00.000000-24:00:00",
            "2026-11-30T12:00:00.000000+01:60:00", "2026-11-30T12:00:00.000000+01:00:60",
            "2026-11-30T12:00:00.000000+99:99:99", "2026-11-30T12:00:00+01:00:00",
            "2026-11-30T12:00:00.000000+01:00:00.000001", "2026-11-30 12:00:00.000000+01:00:00",
            "2026-11-30T12:00:00.000000+01:00+01:00:00", "2026-11-30T12:00:00.000+01:00:00",
            "2026-11-30T12:00:00.000000+\u0660\u0661:00:00",
            "2026-11-30T12:00:00.000000 01:00:00",
            "2026-11-30T12:00:00.000000+01:00:00\n",
        )
    ),
    (6, b""),
    (6, bytes(15)),
    (6, bytes(17)),
    (6, "12345678-1234-5678-1234-567812345678"),
)  # fmt: skip
_EXTENSIONS = {
    f"extension {code} {payload!a:.30}": _ext(code, payload) for code, payload in _PAYLOADS
}

_BOMBS = {
    "nested arrays": b"\x91" * 100_000,
    "nested maps": b"\x81\x00" * 100_000,
    "nested arrays as the offset": b"\x93\x01\xc0" + b"\x91" * 100_000 + b"\x00",
    "an array of 2^32-1": b"\xdd\xff\xff\xff\xff",
    "a map of 2^32-1": b"\xdf\xff\xff\xff\xff",
    "text of 2^32-1": b"\xdb\xff\xff\xff\xff",
    "bytes of 2^32-1": b"\xc6\xff\xff\xff\xff",
    "extension of 2^32-1": b"\xc9\xff\xff\xff\xff\x01",
    "values of 2^32-1": b"\x93\x02\xc0\xdd\xff\xff\xff\xff",
    "JSON": b"[" * 200_000,
    "a CBOR cycle": bytes.fromhex("d81c81d81d00"),
    "many values": b"\x93\x02\xc0\xdd\x00\x01\x00\x00" + b"\x91" * 65_536,
}

BODIES: dict[str, bytes] = {
    **_SHAPES,
    **_OFFSETS,
    **_EXPIRIES,
    **_SPELLINGS,
    **_SNAPSHOTS,
    **_OPAQUES,
    **_KEYSETS,
    **_EXTENSIONS,
    **_BOMBS,
}
"""What each is called, and its bytes. None is canonical, so none may ever decode."""
