"""What every codec must do: inherit `CodecConformance`, give `make_codec`, and run pytest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

import pytest

from cursorkit.binding import Binding
from cursorkit.codecs.base import CursorCodec, DecodedCursor
from cursorkit.errors import EncodingError, ExpiredCursorError, InvalidCursorError
from cursorkit.positions import Keyset, Offset, Opaque, Position, SnapshotOffset
from cursorkit.testing.clock import FakeClock

__all__ = ["CodecConformance"]

_BINDING: Final = Binding(
    "tools/list",
    audience="catalog",
    partition="tenant-1",
    principal="alice",
    protocol_version="2026-07-28",
    locale="en",
    auth_epoch="epoch-1",
    params={"filter": "all"},
)
_UNSIGNED_FIELDS: Final = ("purpose", "protocol_version", "params")
"""What a codec that does not authenticate must still tell apart."""

_FIELDS: Final = (
    *_UNSIGNED_FIELDS,
    "audience",
    "partition",
    "principal",
    "locale",
    "auth_epoch",
)

_POSITIONS: Final[tuple[Position, ...]] = (
    Offset(0),
    Offset(50),
    Offset(2**53 - 1),
    Keyset((1, True, -0.0, "é", b"\x00", None)),
    SnapshotOffset(bytes(range(32)), 50, 250),
    Opaque(b""),
    Opaque(b"an upstream's cursor"),
)

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

_FOREIGN: Final = (
    "",
    "0",
    "50",
    "AQ",
    "null",
    "undefined",
    "eyJvIjo1MH0",  # {"o":50}
    "eyJvZmZzZXQiOjUwfQ==",  # {"offset":50}
    "eyJhbGciOiJub25lIn0.eyJvIjo1MH0.",  # a JWT
    "ATIAAAABkwHAMg",
    "A" * 50,
    "A" * 1_000_000,
    "[" * 200_000,
    " ",
    "\n",
    "\x00",
    "é",
    "\u0661",
    "\U0001f600" * 20,
    "\udc80" * 20,
)


class _Text(str):
    __slots__ = ()


class CodecConformance:
    """The behaviour that paginators and adapters rely on, as tests. Inherit and fill in one method.

    >>> class TestMyCodec(CodecConformance):
    ...     def make_codec(self, clock: Callable[[], float]) -> CursorCodec:
    ...         return MyCodec(ring, clock=clock)

    A codec may carry some kinds of positions only, and refuses to mint the others. One that does
    not authenticate is asked for less: an altered cursor may decode, but only as the one spelling
    of what it then denotes, and it need not carry an expiry.
    """

    def make_codec(self, clock: Callable[[], float]) -> CursorCodec:
        """Return a codec under test; any two that are made here read each other's cursors.

        Args:
            clock: Returns Unix seconds; the only clock that the codec may read.
        """
        raise NotImplementedError("fill in make_codec(clock)")

    @pytest.fixture
    def clock(self) -> FakeClock:
        """Return the clock that `codec` reads."""
        return FakeClock()

    @pytest.fixture
    def codec(self, clock: FakeClock) -> CursorCodec:
        """Return the codec under test."""
        return self.make_codec(clock)

    def test_what_is_minted_decodes_to_the_same_position(self, codec: CursorCodec) -> None:
        """A cursor denotes the position that it was minted for, of the same kind."""
        for position, cursor in _minted(codec):
            found = codec.decode(cursor, _BINDING).position
            assert type(found) is type(position)
            assert found == position
            assert codec.decode(cursor, _BINDING).expect(type(position)) == position

    def test_a_cursor_is_text_that_needs_no_escapes(self, codec: CursorCodec) -> None:
        """A cursor is a str of base64url characters, so no URL, JSON or header changes it."""
        for _, cursor in _minted(codec):
            assert type(cursor) is str
            assert cursor
            assert set(cursor) <= set(_ALPHABET)

    def test_equal_positions_give_equal_cursors(self, codec: CursorCodec, clock: FakeClock) -> None:
        """Clients find loops by comparing cursors: the same position is the same cursor."""
        other = self.make_codec(clock)
        cursors = [cursor for _, cursor in _minted(codec)]
        assert [cursor for _, cursor in _minted(codec)] == cursors
        assert [cursor for _, cursor in _minted(other)] == cursors
        assert len(set(cursors)) == len(cursors)

    def test_a_cursor_is_read_more_than_once_and_by_other_nodes(
        self, codec: CursorCodec, clock: FakeClock
    ) -> None:
        """Nothing is used up by decoding, and another codec of the same settings reads it too."""
        other = self.make_codec(clock)
        for position, cursor in _minted(codec):
            for reader in (codec, codec, other):
                assert reader.decode(cursor, _BINDING).position == position

    def test_minting_again_what_was_decoded_gives_the_same_cursor(
        self, codec: CursorCodec, clock: FakeClock
    ) -> None:
        """An accepted cursor is the only one of its state; a copied expiry is kept as it is."""
        for _, cursor in _minted(codec):
            decoded = codec.decode(cursor, _BINDING)
            clock.advance(0.25)
            assert _again(codec, decoded) == cursor

    @pytest.mark.parametrize("field", _FIELDS)
    @pytest.mark.parametrize("other", [None, "", "other"])
    def test_a_cursor_of_another_binding_is_refused(
        self, codec: CursorCodec, field: str, other: str | None
    ) -> None:
        """A cursor decodes under its own binding alone; absent, empty and other values differ."""
        if field == "params":
            changed = _BINDING.replace(params={} if other is None else {"filter": other})
        elif field == "purpose":
            changed = _BINDING.replace(purpose=other or "tools/lis")
        else:
            changed = _BINDING.replace(**{field: other})
        for position, cursor in _minted(codec):
            if codec.authenticates or field in _UNSIGNED_FIELDS:
                with pytest.raises(InvalidCursorError):
                    codec.decode(cursor, changed)
            else:
                assert codec.decode(cursor, changed).position == position

    def test_every_substituted_character_is_refused(self, codec: CursorCodec) -> None:
        """No cursor with one character changed decodes, whichever, and to whatever."""
        cursor = _first(codec)
        for index, original in enumerate(cursor):
            for character in _ALPHABET.replace(original, "") + "=+/ .":
                _refused(codec, cursor[:index] + character + cursor[index + 1 :])

    def test_one_variant_of_the_last_character_is_accepted(self, codec: CursorCodec) -> None:
        """Of the 64 last characters only one decodes, though some stand for the same bytes."""
        for _, cursor in _minted(codec):
            accepted = [
                last for last in _ALPHABET if not _refused_or_other(codec, cursor[:-1] + last)
            ]
            assert cursor[-1] in accepted
            assert not codec.authenticates or len(accepted) == 1

    def test_every_truncation_and_extension_is_refused(self, codec: CursorCodec) -> None:
        """No part of a cursor decodes, from either end, and none with anything added."""
        cursor = _first(codec)
        for length in range(len(cursor)):
            _refused(codec, cursor[:length])
            _refused(codec, cursor[length + 1 :])
        for character in _ALPHABET + "=\n\r\t \x00+/.%}é":
            _refused(codec, cursor + character)
            _refused(codec, character + cursor)
            _refused(codec, cursor[:9] + character + cursor[9:])
        for tail in ("=", "==", "===", "====", "AAAA", cursor):
            _refused(codec, cursor + tail)

    @pytest.mark.parametrize("cursor", _FOREIGN, ids=[f"{text[:12]!a}" for text in _FOREIGN])
    def test_a_foreign_cursor_is_refused(self, codec: CursorCodec, cursor: str) -> None:
        """Whatever a client made up is an invalid cursor, never another error or the first page."""
        _refused(codec, cursor)

    def test_what_is_not_a_str_is_refused(self, codec: CursorCodec) -> None:
        """Bytes, numbers, None and even a subclass of str are invalid cursors, not other errors."""
        cursor = _first(codec)
        raw = cursor.encode()
        for given in (raw, bytearray(raw), list(cursor), _Text(cursor), None, True, 0, 50, 1.5):
            with pytest.raises(InvalidCursorError):
                codec.decode(cast(Any, given), _BINDING)

    def test_a_refusal_says_nothing_of_the_cursor(self, codec: CursorCodec) -> None:
        """Every refusal looks the same, and no attribute, cause or context tells what was read."""
        for cursor in ("", "secret-text", "!" * 60, _first(codec) + "A", _first(codec)[:-4]):
            with pytest.raises(InvalidCursorError) as caught:
                codec.decode(cursor, _BINDING)
            assert str(caught.value) == "Invalid or expired cursor"
            assert caught.value.args == ("Invalid or expired cursor",)
            assert set(vars(caught.value)) == {"reason"}
            assert caught.value.__cause__ is None
            assert caught.value.__context__ is None

    def test_another_kind_of_position_is_refused(self, codec: CursorCodec) -> None:
        """A cursor that denotes another kind than the caller expects is an invalid cursor."""
        kinds: tuple[type[Position], ...] = (Offset, Keyset, SnapshotOffset, Opaque)
        for position, cursor in _minted(codec):
            decoded = codec.decode(cursor, _BINDING)
            for kind in kinds:
                if kind is not type(position):
                    with pytest.raises(InvalidCursorError):
                        decoded.expect(kind)

    def test_an_expiry_that_is_present_is_enforced(
        self, codec: CursorCodec, clock: FakeClock
    ) -> None:
        """A cursor is valid while now is before its expiry, and at the instant itself it is not."""
        expires_at, cursor = _with_expiry(codec, clock)
        if cursor is None:
            return
        for before in (1, 0.001):
            clock.now = expires_at - before
            assert codec.decode(cursor, _BINDING).expires_at == expires_at
        for after in (0, 0.001, 1, 10**9):
            clock.now = expires_at + after
            with pytest.raises(ExpiredCursorError):
                codec.decode(cursor, _BINDING)
        clock.now = math.nan
        with pytest.raises(ExpiredCursorError):
            codec.decode(cursor, _BINDING)

    def test_a_given_now_is_used_instead_of_the_clock(
        self, codec: CursorCodec, clock: FakeClock
    ) -> None:
        """`now` decides alone, and the clock is not read."""
        expires_at, cursor = _with_expiry(codec, clock)
        if cursor is None:
            return
        readings = clock.readings
        assert codec.decode(cursor, _BINDING, now=expires_at - 1).expires_at == expires_at
        with pytest.raises(ExpiredCursorError):
            codec.decode(cursor, _BINDING, now=expires_at)
        assert clock.readings == readings

    def test_the_clock_is_read_at_most_once_to_decode(self) -> None:
        """All that is decided about one cursor is decided at one instant."""
        clock = FakeClock(tick=0.25)
        codec = self.make_codec(clock)
        for position, cursor in _minted(codec):
            readings = clock.readings
            assert codec.decode(cursor, _BINDING).position == position
            assert clock.readings - readings <= 1

    def test_a_limited_life_is_stamped_on_every_cursor(
        self, codec: CursorCodec, clock: FakeClock
    ) -> None:
        """Where the codec names a longest life, no cursor is without an expiry in the future."""
        for _, cursor in _minted(codec):
            expires_at = codec.decode(cursor, _BINDING).expires_at
            assert codec.max_ttl is None or expires_at is not None
            assert expires_at is None or expires_at > clock.now

    def test_it_mints_nothing_that_it_would_refuse(self, codec: CursorCodec) -> None:
        """A position that makes too long a cursor is refused when it is minted, not later."""
        for exponent in range(1, 22):
            for size in (2**exponent - 1, 2**exponent, 3 * 2 ** (exponent - 1)):
                position = Opaque(bytes(size))
                try:
                    cursor = codec.encode(position, _BINDING)
                except EncodingError:
                    continue
                assert codec.decode(cursor, _BINDING).position == position


def _minted(codec: CursorCodec) -> list[tuple[Position, str]]:
    """Return the positions that the codec carries, and their cursors."""
    minted: list[tuple[Position, str]] = []
    for position in _POSITIONS:
        try:
            minted.append((position, codec.encode(position, _BINDING)))
        except EncodingError:
            continue
    assert minted, "the codec carries no kind of position at all"
    return minted


def _first(codec: CursorCodec) -> str:
    """Return the cursor of the last position that the codec carries."""
    return _minted(codec)[-1][1]


def _again(codec: CursorCodec, decoded: DecodedCursor) -> str:
    return codec.encode(decoded.position, _BINDING, expires_at=decoded.expires_at)


def _refused_or_other(codec: CursorCodec, cursor: str) -> bool:
    """Return whether an altered cursor is refused; accepted, it must be its state's spelling."""
    try:
        decoded = codec.decode(cursor, _BINDING)
    except InvalidCursorError:
        return True
    assert _again(codec, decoded) == cursor
    return False


def _refused(codec: CursorCodec, cursor: str) -> None:
    """Assert that an altered cursor is refused, or that the codec promises no more."""
    assert _refused_or_other(codec, cursor) or not codec.authenticates


def _with_expiry(codec: CursorCodec, clock: FakeClock) -> tuple[int, str | None]:
    """Return an expiry within the codec's longest life, and a cursor of it if it carries one."""
    life = 60.0 if codec.max_ttl is None else min(60.0, codec.max_ttl)
    expires_at = math.floor(clock.now + life)
    try:
        return expires_at, codec.encode(_minted(codec)[0][0], _BINDING, expires_at=expires_at)
    except EncodingError:
        assert not codec.authenticates, "a codec that authenticates carries an expiry"
        return expires_at, None
