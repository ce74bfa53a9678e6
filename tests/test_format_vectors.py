"""Known answers of the format `cursorkit/1`: what is minted today stays readable, or is refused."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit import (
    Binding,
    InvalidCursorError,
    Key,
    KeyRing,
    Keyset,
    Offset,
    OffsetCodec,
    Opaque,
    SignedCodec,
    SnapshotOffset,
)
from cursorkit.positions import Position, encode_body
from tests import independent
from tests.codecs_table import OLD_SECRET, SECRET
from tests.strategies import binding_arguments, offsets, positions

NOW = 1_800_000_000
RING = KeyRing(Key(SECRET, name="2026-11"), Key(OLD_SECRET, name="2026-08"))
BARE: dict[str, Any] = {"purpose": "tools/list"}
FULL: dict[str, Any] = {
    "purpose": "tools/list",
    "audience": "https://mcp.example/é",
    "partition": "",
    "principal": b"\x00alice\xff",
    "protocol_version": "2026-07-28",
    "locale": "de",
    "auth_epoch": "7",
    "params": {"z": [1, -1.5, None, True, {"b": 1, "a": 2**64 - 1}], "a": b"\x00", "é": "日本"},
}


def body_of(position: Position, expires_at: int | None) -> bytes:
    """Return the body of a cursor, from the description alone."""
    match position:
        case Offset(offset):
            return independent.pack([1, expires_at, offset])
        case Keyset(values):
            return independent.pack([2, expires_at, [*map(independent.keyset_value, values)]])
        case SnapshotOffset(root, offset, page_size):
            return independent.pack([3, expires_at, root, offset, page_size])
        case Opaque(data):
            return independent.pack([4, expires_at, data])


# Cursors that were minted once. A change that makes one of these fail is a new format, with a suite
# byte of its own: those out there must stay readable with the same meaning, or be refused.

UNSIGNED: list[tuple[str, dict[str, Any], int]] = [
    ("Ad6KDqeTAcAA", BARE, 0),
    ("Ad6KDqeTAcAy", BARE, 50),
    ("Ad6KDqeTAcDPAB________8", BARE, 2**53 - 1),
    ("AUHOXpOTAcAy", FULL, 50),
]

KEYSET = Keyset(
    (
        None,
        True,
        -1,
        2**64,
        -(2**63) - 1,
        -0.0,
        1.55,
        "é",
        b"\x00",
        Decimal("1.50"),
        Decimal("-1E+5"),
        date(2026, 11, 30),
        datetime(2026, 11, 30, 12, 34, 56, 999_918),  # noqa: DTZ001  # naive on purpose
        datetime(2026, 11, 30, 12, 34, 56, tzinfo=UTC),
        datetime(2026, 11, 30, 12, 34, 56, 1, tzinfo=timezone(-timedelta(hours=3, minutes=30))),
        UUID("12345678-1234-5678-1234-567812345678"),
    )
)
ROOT = bytes(range(32))

SIGNED: list[tuple[str, dict[str, Any], Position, int | None]] = [
    (
        "EdMLF2qTAcAARhxiOqF9uzMOlkmRIkGJ1A",
        BARE,
        Offset(0),
        None,
    ),
    (
        "EdMLF2qTAcAyGICZ2715WbpjQlrGABFf_A",
        BARE,
        Offset(50),
        None,
    ),
    (
        "EdMLF2qTAc5rSdRYzwAf________CRnCI3_vzsUU-59KlI59Bw",
        FULL,
        Offset(2**53 - 1),
        NOW + 600,
    ),
    (
        "EdMLF2qVA85rSdRYxCAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHzIyAabaq81jh7xTdUeVnsJNpQ",
        BARE,
        SnapshotOffset(ROOT, 50, 50),
        NOW + 600,
    ),
    (
        "EdMLF2qVA85rSdIBxCAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eH80m3s0nEILYgl7ZRdaIKQ0DGRWH"
        "t0k",
        FULL,
        SnapshotOffset(ROOT, 9_950, 10_000),
        NOW + 1,
    ),
    (
        "EdMLF2qTBM8AH________8QMZXlKdklqbzFNSDA9ZsNKt-aPbcy30xj52_g1vg",
        BARE,
        Opaque(b"eyJvIjo1MH0="),
        2**53 - 1,
    ),
    (
        "EdMLF2qTBMDEAOeKIBfousyocqeId0G-vCw",
        FULL,
        Opaque(b""),
        None,
    ),
    (
        "EdMLF2qTAs5rSdI83AAQwMP_xwkBAQAAAAAAAAAAxwkB_3__________y4AAAAAAAAAAyz_4zMzMzMzNosOpxAEA"
        "1gIxLjUwxwUCLTFFKzXHCgMyMDI2LTExLTMwxxoEMjAyNi0xMS0zMFQxMjozNDo1Ni45OTk5MTjHIwUyMDI2LTEx"
        "LTMwVDEyOjM0OjU2LjAwMDAwMCswMDowMDowMMcjBTIwMjYtMTEtMzBUMTI6MzQ6NTYuMDAwMDAxLTAzOjMwOjAw"
        "2AYSNFZ4EjRWeBI0VngSNFZ4bUlqQF-i9uNBhmCImvtSPw",
        FULL,
        KEYSET,
        NOW + 60,
    ),
]


@pytest.mark.parametrize(("cursor", "arguments", "offset"), UNSIGNED)
def test_an_unsigned_cursor_of_the_first_release_means_the_same(
    cursor: str, arguments: dict[str, Any], offset: int
) -> None:
    """Suite 0x01, minted once and for all: read, and minted again, exactly so."""
    binding = Binding(**arguments)
    decoded = OffsetCodec().decode(cursor, binding)
    assert decoded.position == Offset(offset)
    assert decoded.expires_at is None
    assert OffsetCodec().encode(Offset(offset), binding) == cursor


@pytest.mark.parametrize(("cursor", "arguments", "position", "expires_at"), SIGNED)
def test_a_signed_cursor_of_the_first_release_means_the_same(
    cursor: str, arguments: dict[str, Any], position: Position, expires_at: int | None
) -> None:
    """Suite 0x11, minted once and for all: read, and minted again, exactly so."""
    binding = Binding(**arguments)
    decoded = SignedCodec(RING).decode(cursor, binding, now=NOW)
    assert decoded.position == position
    assert repr(decoded.position) == repr(position)
    assert decoded.expires_at == expires_at
    assert SignedCodec(RING).encode(position, binding, expires_at=expires_at) == cursor


def test_a_signed_cursor_of_a_rotated_key_means_the_same() -> None:
    """A cursor of the key that is verify-only now, minted once and for all, is still read."""
    cursor = "EWgzk5eTAcAyrp_xSjZHMsDcl4HWqUS0PQ"
    assert SignedCodec(RING).decode(cursor, Binding(**BARE)).position == Offset(50)
    assert SignedCodec(KeyRing(RING.verify_only[0])).encode(Offset(50), Binding(**BARE)) == cursor


def test_a_whole_signed_cursor_by_hand() -> None:
    """Every byte of one cursor, put together here with nothing but SHA-256."""

    def le64(number: int) -> bytes:
        return number.to_bytes(8, "little")

    prk = hmac.digest(b"cursorkit/1", SECRET, hashlib.sha256)
    kid = hmac.digest(prk, b"kid\x01", hashlib.sha256)[:4]
    key = hmac.digest(prk, b"hmac-sha256-128\x01", hashlib.sha256)
    absent = le64(1) + b"\x00"
    data = le64(8) + le64(11) + b"\x01tools/list" + absent * 2 + le64(6) + b"\x01alice" + absent * 4
    header = b"\x11" + kid
    body = b"\x93\x01\xce\x6b\x49\xd2\x00\x32"
    signed = le64(4) + b"".join(
        le64(len(part)) + part for part in (b"cursorkit/1", header, data, body)
    )
    tag = hmac.digest(key, signed, hashlib.sha256)[:16]
    assert NOW == 0x6B49D200
    cursor = SignedCodec(RING).encode(
        Offset(50), Binding("tools/list", principal="alice"), expires_at=NOW
    )
    assert cursor == independent.text(header + body + tag)


def test_a_whole_unsigned_cursor_by_hand() -> None:
    """Every byte of one cursor, put together here with nothing but SHA-256."""
    pieces = [b"\x01tools/list", b"\x00", b"\x00"]
    listed = (3).to_bytes(8, "little") + b"".join(
        len(piece).to_bytes(8, "little") + piece for piece in pieces
    )
    raw = b"\x01" + hashlib.sha256(listed).digest()[:4] + b"\x93\x01\xc0\x32"
    assert OffsetCodec().encode(Offset(50), Binding("tools/list")) == independent.text(raw)


@given(positions(), st.none() | st.integers(1, 2**53 - 1))
def test_bodies_are_those_of_the_description(position: Position, expires_at: int | None) -> None:
    """An encoder written from the format's description gives the same body, for every position."""
    assert encode_body(position, expires_at) == body_of(position, expires_at)


@given(binding_arguments(), offsets())
def test_unsigned_cursors_are_those_of_the_description(
    arguments: dict[str, Any], offset: Offset
) -> None:
    """An encoder written from the format's description gives the same unsigned cursor."""
    expected = independent.unsigned(
        body_of(offset, None),
        arguments["purpose"],
        arguments.get("protocol_version"),
        independent.params_piece(arguments.get("params")),
    )
    assert OffsetCodec().encode(offset, Binding(**arguments)) == expected


@given(binding_arguments(), positions(), st.none() | st.integers(1, 2**53 - 1))
def test_signed_cursors_are_those_of_the_description(
    arguments: dict[str, Any], position: Position, expires_at: int | None
) -> None:
    """An encoder written from the format's description gives the same signed cursor."""
    data = independent.associated_data(**arguments)
    expected = independent.signed(SECRET, body_of(position, expires_at), data)
    minted = SignedCodec(RING).encode(position, Binding(**arguments), expires_at=expires_at)
    assert minted == expected


@pytest.mark.parametrize(
    "label", [b"cursorkit/0", b"cursorkit/2", b"cursorkit", b"", b"CURSORKIT/1"]
)
def test_a_cursor_of_another_version_of_the_format_is_refused(label: bytes) -> None:
    """The tag covers the format's name: another version is refused, never read differently."""
    header = b"\x11" + independent.hkdf(SECRET, b"kid", 4)
    key = independent.hkdf(SECRET, b"hmac-sha256-128", 32)
    data = independent.associated_data(**BARE)
    body = independent.pack([1, None, 50])

    def cursor(label: bytes) -> str:
        signed = independent.pae(label, header, data, body)
        return independent.text(header + body + hmac.digest(key, signed, "sha256")[:16])

    codec = SignedCodec(RING)
    assert codec.decode(cursor(b"cursorkit/1"), Binding(**BARE)).position == Offset(50)
    with pytest.raises(InvalidCursorError):
        codec.decode(cursor(label), Binding(**BARE))
