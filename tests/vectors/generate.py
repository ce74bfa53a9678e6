"""Write the test vectors of `cursorkit/1`: ``python -m tests.vectors.generate``.

The format is made here from its description (`tests.independent`, and AES-SIV below), without
cursorkit, so that a fault of the package does not become the expected answer. Nothing is random:
the same files come out every time. `docs/format.md` describes them.

``--release 1.2.3`` also copies the files to ``released/1.2.3`` and pins them: see `pinned`.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.cmac import CMAC

from tests import independent
from tests.hostile import BODIES
from tests.independent import LABEL, Ext, hkdf, pack, pae

FOLDER = Path(__file__).parent
PINS = "SHA256SUMS"

NOW = 1_800_000_000
MAX = 2**53 - 1
CURRENT = bytes(range(32))
OLD = bytes(range(100, 132))
STRANGER = bytes(range(200, 232))
ROOT = bytes(range(32))

Json = dict[str, Any]
Case = dict[str, Any]
Arguments = dict[str, Any]
Make = Callable[..., str]

BARE: Arguments = {"purpose": "tools/list"}
FULL: Arguments = {
    "purpose": "tools/list",
    "audience": "https://mcp.example/é",
    "partition": "",
    "principal": b"\x00alice\xff",
    "protocol_version": "2026-07-28",
    "locale": "de",
    "auth_epoch": "7",
    "params": {"z": [1, -1.5, None, True, {"b": 1, "a": 2**64 - 1}], "a": b"\x00", "é": "日本"},
}


# AES-SIV (RFC 5297) from AES-CMAC and AES-CTR: the package uses OpenSSL's.


def doubled(block: bytes) -> bytes:
    """Return a block times x in the field of 2^128 elements."""
    number = int.from_bytes(block, "big") << 1
    return ((number ^ 0x87 if number >> 128 else number) & (2**128 - 1)).to_bytes(16, "big")


def xor(left: bytes, right: bytes) -> bytes:
    """Return the bitwise difference of two blocks."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def cmac(key: bytes, data: bytes) -> bytes:
    """Return AES-CMAC (RFC 4493)."""
    mac = CMAC(AES(key))
    mac.update(data)
    return mac.finalize()


def siv(key: bytes, plain: bytes, associated: Sequence[bytes], *, clear: bool = True) -> bytes:
    """Return the SIV and the encrypted bytes; without `clear`, by a mistake often made."""
    mac_key, ctr_key = key[: len(key) // 2], key[len(key) // 2 :]
    chain = cmac(mac_key, bytes(16))
    for data in associated:
        chain = xor(doubled(chain), cmac(mac_key, data))
    if len(plain) >= 16:
        last = plain[:-16] + xor(plain[-16:], chain)
    else:
        last = xor(doubled(chain), (plain + b"\x80").ljust(16, b"\0"))
    tag = cmac(mac_key, last)
    mask = (2**128 - 1) ^ (1 << 63) ^ (1 << 31) if clear else 2**128 - 1
    counter = (int.from_bytes(tag, "big") & mask).to_bytes(16, "big")
    stream = Cipher(AES(ctr_key), CTR(counter)).encryptor()
    return tag + stream.update(plain)


# Cursors of any body.


def signed(body: bytes, binding: Arguments, *, secret: bytes = CURRENT, **given: bytes) -> str:
    """Return a cursor of suite 0x11, under another header if one is given."""
    data = independent.associated_data(**binding)
    return independent.signed(secret, body, data, header=given.get("header"))


def sealed(body: bytes, binding: Arguments, *, secret: bytes = CURRENT, **given: bytes) -> str:
    """Return a cursor of suite 0x12, under another header if one is given."""
    header = given.get("header", b"\x12" + hkdf(secret, b"kid", 4))
    data = pae(LABEL, header, independent.associated_data(**binding))
    return independent.text(header + siv(hkdf(secret, b"aes-256-siv", 64), body, [data]))


def unsigned(body: bytes, binding: Arguments, **_: bytes) -> str:
    """Return a cursor of suite 0x01."""
    params = independent.params_piece(binding.get("params"))
    return independent.unsigned(body, binding["purpose"], binding.get("protocol_version"), params)


# Positions, bindings and their values, as JSON that says each type.


def _moment(value: datetime) -> str:
    """Return a datetime as the format spells it."""
    extension = independent.keyset_value(value)
    assert isinstance(extension, Ext)
    return extension.data.decode()


DESCRIBE: Mapping[type, Callable[[Any], Json]] = {
    type(None): lambda _: {"nil": True},
    bool: lambda value: {"bool": value},
    int: lambda value: {"int": str(value)},
    float: lambda value: {"float": pack(value)[1:].hex()},
    str: lambda value: {"text": value},
    bytes: lambda value: {"bytes": value.hex()},
    Decimal: lambda value: {"decimal": str(value)},
    date: lambda value: {"date": str(value)},
    datetime: lambda value: {"naive" if value.tzinfo is None else "aware": _moment(value)},
    UUID: lambda value: {"uuid": value.bytes.hex()},
    list: lambda value: {"list": [value_json(member) for member in value]},
    dict: lambda value: {"map": [[name, value_json(member)] for name, member in value.items()]},
}


def value_json(value: object) -> Json:
    """Return a value with its type."""
    return DESCRIBE[type(value)](value)


def binding_json(arguments: Arguments) -> Json:
    """Return the fields of a binding that are there."""
    found: Json = {}
    for name, value in arguments.items():
        if name == "params":
            found[name] = [[key, value_json(member)] for key, member in value.items()]
        elif value is not None:
            found[name] = value_json(value)
    return found


def offset(value: int) -> tuple[Json, list[Any]]:
    """Return an offset as JSON and as the members of its body."""
    return {"kind": 1, "offset": value}, [1, value]


def keyset(*values: object) -> tuple[Json, list[Any]]:
    """Return a keyset as JSON and as the members of its body."""
    wire = [independent.keyset_value(value) for value in values]
    return {"kind": 2, "values": [value_json(value) for value in values]}, [2, wire]


def snapshot(offset: int, page_size: int, root: bytes = ROOT) -> tuple[Json, list[Any]]:
    """Return a place in a snapshot as JSON and as the members of its body."""
    place = {"kind": 3, "root": root.hex(), "offset": offset, "page_size": page_size}
    return place, [3, root, offset, page_size]


def opaque(data: bytes) -> tuple[Json, list[Any]]:
    """Return opaque bytes as JSON and as the members of their body."""
    return {"kind": 4, "data": data.hex()}, [4, data]


def body_of(members: list[Any], expires_at: int | None) -> bytes:
    """Return a body."""
    return pack([members[0], expires_at, *members[1:]])


PLAIN = body_of(offset(50)[1], None)


class Cases:
    """The vectors of one file, all of one suite."""

    def __init__(self, suite: int, make: Make) -> None:
        self.suite = suite
        self.make = make
        self.kid = b"" if suite == 1 else hkdf(CURRENT, b"kid", 4)
        self.vectors: list[Case] = []
        self._ids: set[str] = set()

    def good(
        self,
        about: str,
        position: tuple[Json, list[Any]],
        *,
        binding: Arguments = BARE,
        expires_at: int | None = None,
        now: float = NOW,
        key: str = "current",
        **more: Any,
    ) -> str:
        """Add a cursor that decodes, and is what its position encodes to."""
        body = body_of(position[1], expires_at)
        cursor = self.make(body, binding, secret={"current": CURRENT, "old": OLD}[key])
        self._add(
            about, binding, now, cursor, {"valid": True, "position": position[0],
            "expires_at": expires_at, "minted_by": key, "body": body.hex(), **more}
        )  # fmt: skip
        return cursor

    def bad(
        self,
        about: str,
        cursor: object,
        reason: str,
        *,
        binding: Arguments = BARE,
        now: float = NOW,
        **more: Any,
    ) -> None:
        """Add a cursor that is refused."""
        self._add(about, binding, now, cursor, {"valid": False, "reason": reason, **more})

    def _add(self, about: str, binding: Arguments, now: float, cursor: object, rest: Json) -> None:
        assert about not in self._ids, about
        self._ids.add(about)
        self.vectors.append(
            {"about": about, "suite": self.suite, "binding": binding_json(binding), "now": now}
            | {"cursor": cursor}
            | rest
        )


# What decodes.

OFFSETS = [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, MAX]

INTS = [
    *(2**n - 1 for n in (0, 5, 7, 8, 15, 16, 31, 32, 63, 64)),
    *(2**n for n in (7, 8, 16, 32)),
    *(-(2**n) for n in (0, 5, 7, 15, 31, 63)),
    *(-(2**n) - 1 for n in (5, 7, 15, 31)),
]

VALUES: dict[str, Sequence[object]] = {
    "nil": [None],
    "bool": [False, True],
    "int": INTS,
    "float": [0.0, -0.0, 1.0, 1.5, 1.55, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
              -1.7976931348623157e308, float(2**63)],
    "text": ["", "a", "a" * 31, "a" * 32, "a" * 255, "a" * 256, "a\0b", "é", "e\u0301", "日本",
             "\uffff", "\U0010ffff", "1", "+00:00"],
    "bytes": [b"", b"\0", b"a" * 255, b"a" * 256, bytes(range(256))],
    "extension 1, int": [2**64, -(2**63) - 1, 2**71 - 1, 2**71, -(2**71), -(2**71) - 1, 10**30,
                         2**1024 - 1, 1 - 2**1024],
    "extension 2, Decimal": [Decimal(text) for text in (
        "0", "-0", "0.00", "0E+3", "0.000000", "0E-7", "1", "1.50", "-1E+5", "12.3E+7",
        "0.000001", "1E-7", "1.20E-7", "123456789012345678901234567890.10", "1E+6144", "1E-6144",
        "0E+6144", "0E-6144", "9" * 100, "-" + "9" * 100 + "E+6144", "9" * 100 + "E-6144",
    )],
    "extension 3, date": [date(1, 1, 1), date(2024, 2, 29), date(2026, 11, 30), date(9999, 12, 31)],
    "extension 4, naive datetime": [
        datetime.fromisoformat(text)
        for text in (
            "0001-01-01T00:00:00",
            "2026-11-30T12:34:56.999918",
            "9999-12-31T23:59:59.999999",
        )
    ],
    "extension 5, aware datetime": [
        datetime(2026, 11, 30, 12, 34, 56, 1, tzinfo=timezone(timedelta(seconds=seconds)))
        for seconds in (0, 20_700, -12_600, 1, -1, 86_399, -86_399)
    ] + [datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
         datetime(9999, 12, 31, 23, 59, 59, 999_999, timezone(-timedelta(hours=12))),
         datetime(2026, 11, 30, tzinfo=UTC)],
    "extension 6, UUID": [UUID(int=0), UUID(int=2**128 - 1),
                          UUID("12345678-1234-5678-1234-567812345678")],
}  # fmt: skip


def _positions(cases: Cases) -> None:
    for place, page_size in (
        (0, 1), (1, 127), (50, 50), (127, 128), (128, 255), (255, 256), (256, 9999),
        (65_536, 10_000), (MAX, 10_000),
    ):  # fmt: skip
        cases.good(f"snapshot offset {place}, page size {page_size}", snapshot(place, page_size))
    cases.good("a root of zeros", snapshot(0, 1, bytes(32)))
    for size in (0, 1, 31, 32, 255, 256, 2900):
        cases.good(f"opaque, {size} bytes", opaque(bytes(n % 251 for n in range(size))))
    for kind, values in VALUES.items():
        for number, value in enumerate(values, 1):
            cases.good(f"keyset of {kind}, {number}", keyset(value))
    every = [values[-1] for values in VALUES.values()]
    cases.good("keyset of every type", keyset(*every), binding=FULL, expires_at=NOW + 60)
    for count in (2, 15, 16):
        cases.good(f"keyset of {count} values", keyset(*range(count)))
    cases.good("keyset of types that look alike", keyset(1, True, 1.0, "1", b"1", Decimal(1)))


def _expiries(cases: Cases) -> None:
    for expires_at in (1, 127, 128, 255, 256, 65_535, 65_536, NOW, 2**32 - 1, 2**32, MAX):
        cases.good(
            f"expiry {expires_at}, a second before", offset(50), expires_at=expires_at,
            now=expires_at - 1
        )  # fmt: skip
    for kind, position in (
        ("keyset", keyset("a")), ("snapshot offset", snapshot(5, 5)), ("opaque", opaque(b"a"))
    ):  # fmt: skip
        cases.good(f"{kind} with an expiry", position, expires_at=NOW + 1)
        cursor = cases.make(body_of(position[1], NOW), BARE)
        cases.bad(f"{kind} at its expiry", cursor, "expired")
    cases.good("half a second before", offset(50), expires_at=NOW, now=NOW - 0.5)
    cursor = cases.make(body_of(offset(50)[1], NOW), BARE)
    for name, now in (("at", NOW), ("half a second after", NOW + 0.5), ("a year after", NOW + 3e7)):
        cases.bad(f"{name} its expiry", cursor, "expired", now=now)


# Bindings.


def _nested(depth: int) -> Any:
    return [_nested(depth - 1)] if depth else 0


def _nested_maps(depth: int) -> Any:
    return {"m": _nested_maps(depth - 1)} if depth else 0


BINDINGS: dict[str, Arguments] = {
    "purpose only": BARE,
    "an empty purpose": {"purpose": ""},
    "a purpose beyond ASCII": {"purpose": "liste/é日本\U0001f600"},
    "every field": FULL,
    **{
        f"{name} {about}": {**BARE, name: value}
        for name in list(FULL)[1:7]
        for about, value in (("as text", "x"), ("empty", ""), ("as bytes", b"\xff\0"))
    },
    "composed é": {**BARE, "principal": "\u00e9"},
    "decomposed é": {**BARE, "principal": "e\u0301"},
    "a field of 5,000 bytes": {**BARE, "principal": "p" * 5000},
    "empty params": {**BARE, "params": {}},
    "a param with an empty name": {**BARE, "params": {"": None}},
    "params in order of UTF-8, not UTF-16": {
        **BARE, "params": {"\U00010000": 1, "\uffff": 2, "b": 3, "B": 4, "a\0": 5, "a": 6}
    },
    "maps in order of UTF-8, not UTF-16": {
        **BARE, "params": {"m": {"\U00010000": 1, "\uffff": 2, "b": {"d": 1, "c": 2}, "": {}}}
    },
    "a map of 16 names": {**BARE, "params": {"m": {f"{n:02}": n for n in range(16)}}},
    "a list of 16": {**BARE, "params": {"l": list(range(16))}},
    "lists 64 deep": {**BARE, "params": {"l": _nested(64)}},
    "maps 64 deep": {**BARE, "params": {"m": _nested_maps(64)}},
    "1,000 values": {**BARE, "params": {f"{n:03}": None for n in range(1000)}},
    "a list and 999 values in it": {**BARE, "params": {"l": [None] * 999}},
    "ints": {**BARE, "params": {str(value): value for value in INTS}},
    "floats": {**BARE, "params": {"a": 1.0, "b": -0.0, "c": 1.5e300, "d": 5e-324}},
    "types that look alike": {
        **BARE, "params": {"a": 1, "b": True, "c": 1.0, "d": "1", "e": b"1", "f": [1], "g": None}
    },
}  # fmt: skip

UNBINDABLE: dict[str, Json] = {
    "no purpose": {"principal": {"text": "alice"}},
    "1,001 params": {
        "purpose": {"text": "x"}, "params": [[f"{n:04}", {"nil": True}] for n in range(1001)]
    },
    "a lone surrogate in purpose": {"purpose": {"text": "\ud800"}},
    **{
        f"a lone surrogate in {name}": {"purpose": {"text": "x"}, name: {"text": "a\udfff"}}
        for name in list(FULL)[1:7]
    },
    **{
        f"a param: {about}": {"purpose": {"text": "x"}, "params": [["p", value]]}
        for about, value in {
            "2^64": {"int": str(2**64)},
            "-2^63-1": {"int": str(-(2**63) - 1)},
            "NaN": {"float": "7ff8000000000000"},
            "infinity": {"float": "7ff0000000000000"},
            "-infinity": {"float": "fff0000000000000"},
            "a lone surrogate": {"text": "\udc00"},
            "a lone surrogate in a list": {"list": [{"text": "\udc00"}]},
            "a lone surrogate as a map's name": {"map": [["\ud800", {"nil": True}]]},
            "2^64 in a map": {"map": [["n", {"int": str(2**64)}]]},
            "lists 65 deep": value_json(_nested(65)),
            "maps 65 deep": value_json(_nested_maps(65)),
            "lists 64 deep, and one in a map": {"map": [["l", value_json(_nested(64))]]},
            "a list and 1,000 values in it": value_json([None] * 1000),
            "a map and 1,000 values in it": value_json({f"{n:03}": None for n in range(1000)}),
        }.items()
    },
    "a param's name: a lone surrogate": {
        "purpose": {"text": "x"}, "params": [["\ud800", {"nil": True}]]
    },
}  # fmt: skip


def _neighbours() -> Iterator[tuple[str, Arguments, Arguments]]:
    """Yield pairs of bindings that differ in one respect, and no cursor may serve both."""
    names = list(FULL)
    for name in names[1:7]:
        for about, first, second in (
            ("absent and empty", None, ""),
            ("absent and a zero byte", None, b"\0"),
            ("x and y", "x", "y"),
            ("x and x with a zero byte", "x", "x\0"),
            ("x and X", "x", "X"),
        ):
            yield f"{name}: {about}", {**BARE, name: first}, {**BARE, name: second}
    for name, following in itertools.pairwise(names[:7]):
        yield (
            f"a letter moved from {name} to {following}",
            {**BARE, name: "ab", following: "c"},
            {**BARE, name: "a", following: "bc"},
        )
        yield (
            f"{name} moved to {following}",
            {**BARE, name: "ab"},
            {**BARE, "purpose": "", following: "ab"},
        )
    yield "purpose: another endpoint", BARE, {"purpose": "prompts/list"}
    yield "principal: é in two normal forms", {**BARE, "principal": "\u00e9"}, {
        **BARE, "principal": "e\u0301"}  # fmt: skip
    params: list[tuple[str, Any, Any]] = [
        ("absent and a name with nil", {}, {"a": None}),
        ("another value", {"a": 1}, {"a": 2}),
        ("another name", {"a": 1}, {"b": 1}),
        ("one more", {"a": 1}, {"a": 1, "b": 1}),
        ("int and float", {"a": 1}, {"a": 1.0}),
        ("int and bool", {"a": 1}, {"a": True}),
        ("text and bytes", {"a": "1"}, {"a": b"1"}),
        ("nil and empty text", {"a": None}, {"a": ""}),
        ("a value and a list of it", {"a": 1}, {"a": [1]}),
        ("an empty list and an empty map", {"a": []}, {"a": {}}),
        ("0.0 and -0.0", {"a": 0.0}, {"a": -0.0}),
        ("a letter moved from name to value", {"ab": "c"}, {"a": "bc"}),
        ("another order in a list", {"a": [1, 2]}, {"a": [2, 1]}),
    ]
    for about, first, second in params:
        yield f"params: {about}", {**BARE, "params": first}, {**BARE, "params": second}


_HASHED = ("purpose", "protocol_version", "params")


def _bindings(cases: Cases) -> None:
    for about, binding in BINDINGS.items():
        if len(str(binding)) < 1000 or (cases.suite == 0x11 and len(str(binding)) < 10_000):
            cases.good(f"bound: {about}", offset(50), binding=binding)
    cases.good("params in another order", offset(50), binding={
        **BARE, "params": dict(reversed(BINDINGS["ints"]["params"].items()))})  # fmt: skip
    for about, first, second in _neighbours():
        cursor = cases.make(PLAIN, first)
        if cases.suite != 1 or cursor != cases.make(PLAIN, second):
            cases.bad(f"binding, {about}", cursor, "tag", binding=second)
            continue
        # Suite 0x01 hashes three of the eight fields.
        differing = {n for n in FULL if first.get(n) != second.get(n)}
        assert not differing & set(_HASHED), about
        cases.good(f"not part of suite 0x01: {about}", offset(50), binding=second)


# Text: one spelling.

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def bytes_of(cursor: str) -> bytes:
    """Return the bytes of a cursor."""
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def _lettered(cases: Cases) -> str:
    """Return a good cursor with both letters in which the two base64 alphabets differ."""
    for number in range(10_000):
        cursor = cases.make(body_of(offset(number)[1], None), BARE)
        if "-" in cursor and "_" in cursor:
            return cursor
    # An unsigned cursor shows its digits: these are spelled with both.
    return cases.make(body_of(offset(0xFBEFBEFFFF)[1], None), BARE)


def _malleability(cases: Cases) -> None:
    lengths: dict[int, str] = {}
    for number in (50, 200, 300, 70_000, 2**40):
        cursor = cases.make(body_of(offset(number)[1], None), BARE)
        lengths.setdefault(len(cursor) % 4, cursor)
    assert set(lengths) == {0, 2, 3}
    for remainder, cursor in lengths.items():
        for letter in ALPHABET:
            other = cursor[:-1] + letter
            if letter != cursor[-1] and bytes_of(other) == bytes_of(cursor):
                cases.bad(f"last letter {letter}, length 4n+{remainder}", other, "encoding")
        for padding in ("=", "==", "===", "===="):
            cases.bad(f"{padding} behind, length 4n+{remainder}", cursor + padding, "alphabet")
        cases.bad(f"a letter short of a byte, 4n+{remainder}", (cursor + "AAAA")[
            : len(cursor) + (1 - remainder) % 4], "encoding")  # fmt: skip
    cursor = lengths[2]
    for letter in "! \t\n\r\0\"'.,~*%=+/:é\u0661\u200b\ufeff\uff21":
        for place, at in (("before", 0), ("within", 8), ("behind", len(cursor))):
            about = f"U+{ord(letter):04X} {place}"
            cases.bad(about, cursor[:at] + letter + cursor[at:], "alphabet")
    cases.bad("a lone surrogate behind", cursor + "\ud800", "alphabet")
    both = _lettered(cases)
    assert "-" in both
    assert "_" in both
    cases.bad("+ in place of -", both.replace("-", "+"), "alphabet")
    cases.bad("/ in place of _", both.replace("_", "/"), "alphabet")
    cases.bad(
        "the standard alphabet, padded", base64.b64encode(bytes_of(both)).decode(), "alphabet"
    )
    cases.bad("percent-encoded", both.replace("-", "%2D").replace("_", "%5F"), "alphabet")
    cases.bad("nothing", "", "encoding")
    cases.bad("one letter", "A", "encoding")
    for name, value in (
        ("a number", 5), ("true", True), ("null", None), ("an array", [cursor]),
        ("an object", {"cursor": cursor}),
    ):  # fmt: skip
        cases.bad(f"{name} in place of text", value, "type")


def _truncations(cases: Cases) -> None:
    raw = bytes_of(cases.make(PLAIN, BARE))
    shortest = 6 if cases.suite == 1 else 22
    for size in range(1, len(raw)):
        # What is cut from an unsigned cursor is its body.
        reason = "encoding" if size < shortest else "body" if cases.suite == 1 else "tag"
        cases.bad(f"the first {size} bytes", independent.text(raw[:size]), reason)
    more = "body" if cases.suite == 1 else "tag"
    cases.bad("a zero byte behind", independent.text(raw + b"\0"), more)
    cases.bad("twice", independent.text(raw + raw), more)
    long = independent.text(raw + b"\0" * 3072)
    cases.bad("4,096 letters", long[:4096], more)
    cases.bad("4,097 letters", (long + "A" * 4097)[:4097], "length")


def _alterations(cases: Cases) -> None:
    raw = bytes_of(cases.make(PLAIN, BARE))
    for at in range(len(raw)):
        reason = "suite" if at == 0 else "key" if at < 5 and cases.suite != 1 else "tag"
        if at >= 5 and cases.suite == 1:
            break  # Suite 0x01 stops nobody: another offset is a good cursor.
        for bit in (0x01, 0x80):
            altered = raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :]
            cases.bad(f"byte {at}, bit {bit:#04x} flipped", independent.text(altered), reason)
    for suite in (0x00, 0x02, 0x10, 0x13, 0x21, 0x91, 0xFF):
        header = bytes([suite]) + (cases.kid or raw[1:5])
        cursor = (
            independent.text(header + PLAIN)
            if cases.suite == 1
            else cases.make(PLAIN, BARE, header=header)
        )
        cases.bad(f"of suite {suite:#04x}, else well made", cursor, "suite")
    for other, make in MAKERS.items():
        if other != cases.suite:
            cases.bad(f"a good cursor of suite {other:#04x}", make(PLAIN, BARE), "suite")


def _bodies(cases: Cases) -> None:
    for about, body in BODIES.items():
        if len(body) <= 400:
            cases.bad(f"body: {about}", cases.make(body, BARE), "body", body=body.hex())
    for about, body in (
        ("arrays in arrays", b"\x91" * 2900),
        ("maps in maps", b"\x81\0" * 1450),
        ("values in values", b"\x93\x02\xc0" + b"\x91" * 2800 + b"\0"),
        ("text for JSON", b"[" * 2900),
    ):
        cases.bad(f"bomb: {about}", cases.make(body, BARE), "body")


# Keys.


def _keys(cases: Cases) -> None:
    kid, old_kid = hkdf(CURRENT, b"kid", 4), hkdf(OLD, b"kid", 4)
    suite = bytes([cases.suite])
    for position in (offset(50), snapshot(50, 50), keyset("a", 1), opaque(b"a")):
        about = f"of the old key, kind {position[0]['kind']}"
        cases.good(about, position, key="old", expires_at=NOW + 60)
    cases.bad("of a key not in the ring", cases.make(PLAIN, BARE, secret=STRANGER), "key")
    for about, header, reason in (
        ("the old kid, protected with the current key", suite + old_kid, "tag"),
        ("a kid of zeros", suite + bytes(4), "key"),
        ("a kid of ones", suite + b"\xff" * 4, "key"),
        ("the kid backwards", suite + kid[::-1], "key"),
        ("a kid one byte short", suite + kid[:3], "key"),
    ):
        cases.bad(about, cases.make(PLAIN, BARE, header=header), reason)
    cases.bad(
        "the current kid, protected with the old key",
        cases.make(PLAIN, BARE, secret=OLD, header=suite + kid),
        "tag",
    )
    raw = bytes_of(cases.make(PLAIN, BARE))
    for about, tag in (("zeros", bytes(16)), ("ones", b"\xff" * 16)):
        forged = (
            raw[:5] + tag + raw[21:] if cases.suite == 0x12 else raw[:-16] + tag
        )  # fmt: skip
        cases.bad(f"a tag of {about}", independent.text(forged), "tag")
    cases.bad("no body", cases.make(b"", BARE), "encoding")
    cases.bad("a body of one byte", cases.make(b"\xc0", BARE), "body")


def _signed_mistakes(cases: Cases) -> None:
    """Tags as somebody makes them who misreads the format."""
    header = b"\x11" + hkdf(CURRENT, b"kid", 4)
    key = hkdf(CURRENT, b"hmac-sha256-128", 32)
    data = independent.associated_data(**BARE)
    right = pae(LABEL, header, data, PLAIN)
    macs = {
        "the tag not truncated": hmac.digest(key, right, "sha256"),
        "the tag's last 16 bytes": hmac.digest(key, right, "sha256")[16:],
        "HMAC-SHA-512": hmac.digest(key, right, "sha512")[:16],
        "a hash without a key": hashlib.sha256(right).digest()[:16],
        "the secret itself as the key": hmac.digest(CURRENT, right, "sha256")[:16],
        "the key of suite 0x12": hmac.digest(
            hkdf(CURRENT, b"aes-256-siv", 64), right, "sha256")[:16],
        "the key without a salt": hmac.digest(_unsalted(32, b"hmac-sha256-128"), right, "sha256")[
            :16],
    }  # fmt: skip
    inputs = {
        "another version's label": pae(b"cursorkit/2", header, data, PLAIN),
        "no label": pae(header, data, PLAIN),
        "the body before the associated data": pae(LABEL, header, PLAIN, data),
        "no associated data": pae(LABEL, header, b"", PLAIN),
        "no header": pae(LABEL, b"", data, PLAIN),
        "the kid alone as header": pae(LABEL, header[1:], data, PLAIN),
        "the eight pieces not framed twice": pae(LABEL, header) + data + PLAIN,
        "nothing framed": LABEL + header + data + PLAIN,
        "lengths in big-endian": _big_endian(LABEL, header, data, PLAIN),
        "a count of zero": bytes(8) + right[8:],
        "the associated data hashed": pae(LABEL, header, hashlib.sha256(data).digest(), PLAIN),
    }
    macs |= {about: hmac.digest(key, text, "sha256")[:16] for about, text in inputs.items()}
    for about, tag in macs.items():
        cases.bad(f"mistake: {about}", independent.text(header + PLAIN + tag), "tag")
    tag = hmac.digest(key, right, "sha256")[:16]
    cases.bad("mistake: the tag first", independent.text(header + tag + PLAIN), "tag")


def _sealed_mistakes(cases: Cases) -> None:
    """Cursors as somebody seals them who misreads the format."""
    header = b"\x12" + hkdf(CURRENT, b"kid", 4)
    key = hkdf(CURRENT, b"aes-256-siv", 64)
    data = independent.associated_data(**BARE)
    right = [pae(LABEL, header, data)]
    protected = {
        "the counter's two bits kept": siv(key, PLAIN, right, clear=False),
        "the halves of the key swapped": siv(key[32:] + key[:32], PLAIN, right),
        "AES-128-SIV": siv(key[:32], PLAIN, right),
        "the key of suite 0x11": siv(hkdf(CURRENT, b"hmac-sha256-128", 64), PLAIN, right),
        "the key without a salt": siv(_unsalted(64, b"aes-256-siv"), PLAIN, right),
        "header and associated data apart": siv(key, PLAIN, [LABEL, header, data]),
        "the associated data alone": siv(key, PLAIN, [data]),
        "no associated data": siv(key, PLAIN, []),
        "a nonce of nothing": siv(key, PLAIN, [*right, b""]),
        "the body in the associated data": siv(key, PLAIN, [pae(LABEL, header, data, PLAIN)]),
        "another version's label": siv(key, PLAIN, [pae(b"cursorkit/2", header, data)]),
        "lengths in big-endian": siv(key, PLAIN, [_big_endian(LABEL, header, data)]),
        "not encrypted": siv(key, PLAIN, right)[:16] + PLAIN,
    }
    for about, rest in protected.items():
        cases.bad(f"mistake: {about}", independent.text(header + rest), "tag")
    rest = siv(key, PLAIN, right)
    cases.bad("mistake: the SIV behind", independent.text(header + rest[16:] + rest[:16]), "tag")


def _unsalted(length: int, info: bytes) -> bytes:
    prk = hmac.digest(b"", CURRENT, "sha256")
    out = hmac.digest(prk, info + b"\1", "sha256")
    return (out + hmac.digest(prk, out + info + b"\2", "sha256"))[:length]


def _big_endian(*pieces: bytes) -> bytes:
    numbers = [len(pieces), *map(len, pieces)]
    framed = [number.to_bytes(8, "big") for number in numbers]
    return framed[0] + b"".join(a + b for a, b in zip(framed[1:], pieces, strict=True))


def _order(cases: Cases) -> None:
    """Cursors that are refused for two reasons: the earlier check names its own."""
    cursor = cases.make(PLAIN, BARE)
    other = {"purpose": "prompts/list"}
    past = cases.make(body_of(offset(50)[1], NOW - 1), BARE)
    hostile = pack([5, NOW - 1, 50])
    flipped = independent.text(bytes([bytes_of(cursor)[0] ^ 2]) + bytes_of(cursor)[1:])
    unspelled = flipped + "A" * ((1 - len(flipped)) % 4)
    stranger = cases.make(PLAIN, BARE, secret=STRANGER)
    for about, text, reason, binding in (
        ("too long before outside the alphabet", "!" * 4097, "length", BARE),
        ("outside the alphabet before not canonical", "AB!", "alphabet", BARE),
        ("not canonical before the suite", unspelled, "encoding", BARE),
        ("the suite before too short", "Ig", "suite", BARE),
        ("the suite before the kid", independent.text(b"\x22zzzz" + bytes(30)), "suite", BARE),
        ("too short before the kid", independent.text(bytes([cases.suite]) + bytes(15)), "encoding",
         BARE),
        ("the kid before the binding", stranger, "key", other),
        ("the binding before the expiry", past, "tag", other),
        ("the binding before the body", cases.make(hostile, BARE), "tag", other),
        ("the body before the expiry", cases.make(hostile, BARE), "body", BARE),
    ):  # fmt: skip
        cases.bad(f"order: {about}", text, reason, binding=binding)


_COMMON = (_malleability, _truncations, _alterations, _bodies)


def _keyed(suite: int, make: Make, mistakes: Callable[[Cases], None]) -> list[Case]:
    cases = Cases(suite, make)
    for value in OFFSETS:
        cases.good(f"offset {value}", offset(value))
    for add in (_positions, _expiries, _bindings, _keys, mistakes, _order, *_COMMON):
        add(cases)
    return cases.vectors


def _unsigned() -> list[Case]:
    cases = Cases(0x01, unsigned)
    for value in OFFSETS:
        cases.good(f"offset {value}", offset(value))
    for add in (_bindings, *_COMMON):
        add(cases)
    cases.bad("the suite before too short", "Ig", "suite")
    for about, members, expires_at in (
        ("an offset with an expiry", offset(50)[1], NOW + 60),
        ("a keyset", keyset(1)[1], None),
        ("a snapshot offset", snapshot(50, 50)[1], None),
        ("opaque bytes", opaque(b"a")[1], None),
    ):
        body = body_of(members, expires_at)
        cases.bad(f"{about}: not carried", unsigned(body, BARE), "body", body=body.hex())
    return cases.vectors


def _expiring() -> list[Case]:
    found: list[Case] = []
    for suite, make in ((0x11, signed), (0x12, sealed)):
        cases = Cases(suite, make)
        for ttl, quantum, now in (
            (600, 60, NOW),
            (600, 60, NOW + 1),
            (600, 60, NOW + 59.5),
            (1, 1, NOW),
            (1, 1, NOW + 0.25),
            (86_400, 3600, NOW),
            (90, 7, NOW),
        ):
            policy = {"ttl": ttl, "quantum": quantum}
            stamp = -int(-(now + ttl) // quantum) * quantum
            about = f"{suite:#04x}, ttl {ttl}, quantum {quantum}, {now - NOW} s on"
            cases.good(
                f"stamped, {about}", offset(50), expires_at=stamp, now=now, policy=policy,
                stamped=True,
            )  # fmt: skip
            latest = int(now + ttl + quantum + 60)
            cases.good(
                f"the latest, {about}", offset(50), expires_at=latest, now=now, policy=policy,
                stamped=False,
            )  # fmt: skip
            for name, expires_at, reason in (
                ("none", None, "expiry"),
                ("a second too late", latest + 1, "expiry"),
                ("2^53-1", MAX, "expiry"),
                ("past", int(now), "expired"),
            ):
                cursor = make(body_of(offset(50)[1], expires_at), BARE)
                cases.bad(f"expiry {name}, {about}", cursor, reason, now=now, policy=policy)
        found += cases.vectors
    return found


MAKERS: dict[int, Make] = {0x01: unsigned, 0x11: signed, 0x12: sealed}


def _associated_data() -> list[Case]:
    found = [
        {
            "about": about,
            "binding": binding_json(binding),
            "valid": True,
            "associated_data": independent.associated_data(**binding).hex(),
        }
        for about, binding in BINDINGS.items()
    ]
    for about, binding in UNBINDABLE.items():
        found.append({"about": about, "binding": binding, "valid": False, "reason": "binding"})
    return found


def _secrets() -> list[Case]:
    good = {
        "32 bytes": CURRENT,
        "the old key": OLD,
        "the key that is not in the ring": STRANGER,
        "32 zero bytes": bytes(32),
        "33 bytes": bytes(range(33)),
        "64 bytes, a block of SHA-256": bytes(range(64)),
        "65 bytes": bytes(range(65)),
        "1,000 bytes": bytes(n % 251 for n in range(1000)),
    }
    found: list[Case] = [
        {
            "about": about,
            "secret": independent.text(secret),
            "valid": True,
            "bytes": secret.hex(),
            "kid": hkdf(secret, b"kid", 4).hex(),
            "hmac_key": hkdf(secret, b"hmac-sha256-128", 32).hex(),
            "siv_key": hkdf(secret, b"aes-256-siv", 64).hex(),
        }
        for about, secret in good.items()
    ]
    text = independent.text(b"\xff" * 32)
    bad = {
        "nothing": "",
        "31 bytes": independent.text(bytes(31)),
        "padded": text + "=",
        "spare bits set": text[:-1] + "9",
        "the standard alphabet": text.replace("_", "/"),
        "a line break behind": text + "\n",
        "a blank within": text[:20] + " " + text[20:],
        "a letter short of a byte": text + "AA",
        "hex, of 32 bytes": "zz" + "00" * 31 + "!",
    }
    return found + [
        {"about": about, "secret": secret, "valid": False, "reason": "secret"}
        for about, secret in bad.items()
    ]


def _file(about: str, vectors: Sequence[Case]) -> str:
    """Return a file's text: JSON with a vector a line, so that a difference shows which."""
    head = {
        "format": "cursorkit/1",
        "about": about,
        "keys": {"current": independent.text(CURRENT), "old": independent.text(OLD)},
        "max_length": 4096,
    }
    lines = ",\n".join(" " + json.dumps(vector, sort_keys=True) for vector in vectors)
    return f'{json.dumps(head)[:-1]}, "vectors": [\n{lines}\n]}}\n'


def files() -> dict[str, str]:
    """Return the name and the text of every file."""
    return {
        "secrets.json": _file("A secret's text, and what is derived from it.", _secrets()),
        "associated_data.json": _file("A binding's associated data.", _associated_data()),
        "unsigned.json": _file("Cursors of suite 0x01.", _unsigned()),
        "signed.json": _file("Cursors of suite 0x11.", _keyed(0x11, signed, _signed_mistakes)),
        "sealed.json": _file("Cursors of suite 0x12.", _keyed(0x12, sealed, _sealed_mistakes)),
        "expiring.json": _file("Cursors under a policy of expiry.", _expiring()),
    }


# Releases.


def pinned(folder: Path) -> list[str]:
    """Return what is wrong with the released files in `folder`; nothing, if nothing is.

    ``SHA256SUMS`` names every file below the folder and its hash, as sha256sum writes it.
    """
    lines = (folder / PINS).read_text(encoding="ascii").splitlines()
    pins = {line[66:]: line[:64] for line in lines}
    there = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.json")
    }
    problems = [f"{name} is not pinned" for name in there.keys() - pins.keys()]
    problems += [f"{name} is gone" for name in pins.keys() - there.keys()]
    problems += [
        f"{name} has changed" for name in there.keys() & pins.keys() if there[name] != pins[name]
    ]
    return sorted(problems)


def release(version: str, folder: Path = FOLDER) -> None:
    """Copy the files in `folder` to ``released/version`` and pin them, for ever."""
    target = folder / "released" / version
    target.mkdir(parents=True)
    with (folder / "released" / PINS).open("a", encoding="ascii") as pins:
        for path in sorted(folder.glob("*.json")):
            shutil.copyfile(path, target / path.name)
            pins.write(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {version}/{path.name}\n")


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER) -> Mapping[str, int]:
    """Write the files and return how many bytes each has."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors.generate", description=__doc__)
    parser.add_argument("--release", metavar="VERSION")
    given = parser.parse_args(argv)
    texts = files()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="ascii")
    if given.release is not None:
        release(given.release, folder)
    return {name: len(text) for name, text in texts.items()}


if __name__ == "__main__":
    main()
