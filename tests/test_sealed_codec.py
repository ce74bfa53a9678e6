"""What sealed cursors have beyond signed ones; what they share is in the tests of all codecs."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given

from cursorkit import (
    Binding,
    InvalidCursorError,
    Keyset,
    Offset,
    SealedCodec,
    SignedCodec,
    SnapshotOffset,
)
from cursorkit.positions import Position, encode_body
from tests import independent
from tests.codecs_table import RING, SECRET
from tests.strategies import bindings, positions
from tests.vectors import generate

BINDING = Binding("tools/list", principal="alice", audience="catalog")
DATA = independent.associated_data("tools/list", principal="alice", audience="catalog")
ROOT = bytes(range(100, 132))
KNOWN = "EtMLF2ovG9aw76rms5h_cUIyGqEQCyRcxXipAMASx49pnR3_ifrUka8YcyIRzZTbRlB7tcGym8QFlyD9HQWxb8I"
SEALED, SIGNED = SealedCodec(RING), SignedCodec(RING)


def raw_of(cursor: str) -> bytes:
    """Return the bytes of a cursor."""
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def test_a_known_answer() -> None:
    """A cursor written down once, and by a SIV that is made of AES alone."""
    cursor = SEALED.encode(SnapshotOffset(ROOT, 50, 250), BINDING, expires_at=1_800_000_000)
    assert cursor == KNOWN
    header = b"\x12" + independent.hkdf(SECRET, b"kid", 4)
    body = independent.pack([3, 1_800_000_000, ROOT, 50, 250])
    key = independent.hkdf(SECRET, b"aes-256-siv", 64)
    associated = independent.pae(independent.LABEL, header, DATA)
    assert raw_of(cursor) == header + generate.siv(key, body, [associated])


@given(positions(), bindings())
def test_a_sealed_cursor_is_as_long_as_a_signed_one(position: Position, binding: Binding) -> None:
    """Whatever it denotes, and whatever it is bound to."""
    sealed, signed = SEALED.encode(position, binding), SIGNED.encode(position, binding)
    assert len(sealed) == len(signed)


@given(positions())
def test_equal_positions_are_equal_cursors_on_every_node(position: Position) -> None:
    """There is no nonce: clients compare cursors to find that a list goes in circles."""
    assert SEALED.encode(position, BINDING) == SealedCodec(RING).encode(position, BINDING)


@pytest.mark.parametrize(
    "position",
    [SnapshotOffset(ROOT, 123_456_789, 250), Keyset(("2026-11-30", b"secret-id", 123_456_789))],
)
def test_no_position_is_in_the_cursor(position: Position) -> None:
    """Root, values and expiry stand in a signed cursor, and nowhere in a sealed one."""
    body = encode_body(position, 1_800_000_000)
    signed = raw_of(SIGNED.encode(position, BINDING, expires_at=1_800_000_000))
    sealed = raw_of(SEALED.encode(position, BINDING, expires_at=1_800_000_000))
    pieces = {body[start : start + 4] for start in range(len(body) - 3)}
    assert all(piece in signed for piece in pieces)
    assert not any(piece in sealed for piece in pieces)


@pytest.mark.parametrize(
    ("position", "binding"),
    [
        (Offset(51), BINDING),
        (Offset(50), BINDING.replace(principal="bob")),
        (Offset(50), BINDING.replace(params={"tag": "x"})),
    ],
)
def test_two_cursors_cannot_be_compared(position: Position, binding: Binding) -> None:
    """One changed bit of position or binding changes all but the header: no pad is used twice."""
    first = raw_of(SEALED.encode(Offset(50), BINDING))
    second = raw_of(SEALED.encode(position, binding))
    assert first[:5] == second[:5]
    assert first[5:21] != second[5:21]
    plain = zip(encode_body(Offset(50), None), encode_body(position, None), strict=True)
    hidden = zip(first[21:], second[21:], strict=True)
    assert [one ^ other for one, other in plain] != [one ^ other for one, other in hidden]


def test_a_flipped_bit_says_nothing() -> None:
    """Whichever it is, the body is not looked at, and what the cipher raised is not passed on."""
    raw = raw_of(SEALED.encode(Offset(50), BINDING))
    for bit in range(5 * 8, len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidCursorError) as caught:
            SEALED.decode(independent.text(bytes(flipped)), BINDING)
        assert caught.value.reason == "tag"
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_the_keys_of_the_suites_are_not_each_others() -> None:
    """A signed cursor under the sealed header, with the ring's own key, is a bad tag."""
    signed = raw_of(SIGNED.encode(Offset(50), BINDING))
    with pytest.raises(InvalidCursorError) as caught:
        SEALED.decode(independent.text(b"\x12" + signed[1:]), BINDING)
    assert caught.value.reason == "tag"
