"""Every codec, and every composition of codecs, does what a codec must do."""

from __future__ import annotations

import base64
import hmac
import itertools
import math
import pickle
import threading
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.hmac import HMAC

from cursorkit import (
    Binding,
    ConfigurationError,
    CursorCodec,
    CursorError,
    DecodedCursor,
    EncodingError,
    ExpiredCursorError,
    ExpiringCodec,
    InvalidCursorError,
    Key,
    KeyRing,
    Keyset,
    Offset,
    OffsetCodec,
    Opaque,
    SignedCodec,
    SnapshotLostError,
    SnapshotOffset,
)
from cursorkit.codecs import signed
from cursorkit.codecs.base import from_text, to_text
from cursorkit.testing import CodecConformance, FakeClock
from tests import independent
from tests.codecs_table import AUTHENTIC, CODECS, OLD, OLD_SECRET, PRIMARY, RING, SECRET, Row
from tests.hostile import BODIES

BINDING = Binding("tools/list", principal="alice", audience="catalog")
DATA = independent.associated_data("tools/list", principal="alice", audience="catalog")
PLAIN = Binding("tools/list")
NOW = 1_800_000_000

every_codec = pytest.mark.parametrize("row", CODECS, ids=str)
every_authentic_codec = pytest.mark.parametrize("row", AUTHENTIC, ids=str)


def reason_of(codec: CursorCodec, cursor: object, binding: Binding = BINDING) -> str:
    """Return why a cursor is refused."""
    with pytest.raises(CursorError) as caught:
        codec.decode(cast(str, cursor), binding)
    return caught.value.reason


def forged(row: Row, body: bytes, *, data: bytes = DATA, header: bytes | None = None) -> str:
    """Return a cursor of any body, made with the primary key but without cursorkit."""
    return row.forge(SECRET, body, data, header=header)


def unsigned(body: bytes, purpose: str = "tools/list") -> str:
    """Return an unsigned cursor of any body for a binding without version and params."""
    return independent.unsigned(body, purpose, None, b"\x00")


def raw_of(cursor: str) -> bytes:
    """Return the bytes of a cursor."""
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


class TestConformance(CodecConformance):
    """Every codec of the table passes the suite that is published for codecs of one's own."""

    row: Row

    @pytest.fixture(autouse=True, params=CODECS, ids=str)
    def _row(self, request: pytest.FixtureRequest) -> None:
        self.row = request.param

    def make_codec(self, clock: Callable[[], float]) -> CursorCodec:
        return self.row.make(clock)


# Binding.

_VALUES: dict[str, tuple[str | bytes | None, ...]] = {
    "purpose": ("tools/list", "prompts/list", "", "toolslist"),
    "audience": (None, "", "a", "ab", b"\x00"),
    "partition": (None, "", "a", "bc", "c"),
    "principal": (None, "", "a", "alice", b"\xff", "\x00"),
    "protocol_version": (None, "", "2026-07-28", "2025-11-25"),
    "locale": (None, "", "en", "de"),
    "auth_epoch": (None, "", "1", "2"),
}
_PARAMS: tuple[dict[str, Any], ...] = (
    {"a": None},
    {"a": ""},
    {"a": b""},
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": "1"},
    {"a": [1]},
    {"a": {"b": 1}},
    {"ab": 1},
    {"a": 1, "b": 2},
    {"a": [], "b": 2},
    {"": 1},
)


def matrix() -> list[dict[str, Any]]:
    """Return arguments of bindings that all differ: in one field, or by a shifted border."""
    base: dict[str, Any] = {"purpose": "tools/list"}
    rows = [base]
    for name, values in _VALUES.items():
        rows += [{**base, name: value} for value in values if value is not base.get(name)]
    rows += [{**base, "params": params} for params in _PARAMS]
    names = list(_VALUES)[1:]
    for first, second in itertools.pairwise(names):
        for border in range(4):
            rows.append({**base, first: "abc"[:border], second: "abc"[border:]})
    return rows


@every_codec
def test_only_the_diagonal_of_bindings_decodes(row: Row) -> None:
    """Of N bindings that differ anywhere, a cursor decodes under its own alone.

    An unsigned cursor knows only the list: purpose, protocol version and params.
    """
    arguments = matrix()
    seen = ("purpose", "protocol_version", "params")
    codec = row.make(FakeClock())
    for minted in arguments:
        cursor = codec.encode(Offset(50), Binding(**minted))
        for asked in arguments:
            same = minted is asked
            if not codec.authenticates:
                same = all(repr(minted.get(name)) == repr(asked.get(name)) for name in seen)
            if same:
                assert codec.decode(cursor, Binding(**asked)).position == Offset(50)
            else:
                assert reason_of(codec, cursor, Binding(**asked)) == "tag"


def test_nothing_of_the_binding_is_in_an_authentic_cursor() -> None:
    """Signed cursors of two bindings differ in their tags alone, which only the key can make."""
    first, second = (
        raw_of(SignedCodec(RING).encode(Offset(1), BINDING.replace(principal=name)))
        for name in ("alice", "bob")
    )
    assert first[:-16] == second[:-16]
    assert first[-16:] != second[-16:]


# The order of checks, seen by the reasons.


@every_authentic_codec
def test_checks_come_in_the_order_of_the_format(row: Row) -> None:
    """A cursor with several faults is refused for the first: nothing is parsed before its tag."""
    clock = FakeClock(NOW)
    codec = row.make(clock)
    bad, good = b"\x00", independent.pack([1, NOW, 50])
    unknown, other = row.suite + b"none", b"\x92none"
    wrong = raw_of(forged(row, good, data=b"another binding"))
    assert reason_of(codec, b"!" * 5000) == "type"
    assert reason_of(codec, "!" * 5000) == "length"
    assert reason_of(codec, "!") == "alphabet"
    assert reason_of(codec, "=") == "alphabet"
    assert reason_of(codec, "A") == "encoding"
    assert reason_of(codec, independent.text(other + bad + bytes(16))[:-1] + "B") == "encoding"
    assert reason_of(codec, independent.text(row.suite + bytes(20))) == "encoding"
    assert reason_of(codec, forged(row, b"")) == "encoding"
    assert reason_of(codec, independent.text(other + bad + bytes(16))) == "suite"
    assert reason_of(codec, independent.text(unknown + bad + bytes(16))) == "key"
    assert reason_of(codec, independent.text(wrong[:5] + bad + wrong[6:])) == "tag"
    assert reason_of(codec, forged(row, bad, data=b"another binding")) == "tag"
    assert reason_of(codec, forged(row, bad)) == "body"
    assert reason_of(codec, forged(row, independent.pack([1, NOW, -1]))) == "body"
    assert reason_of(codec, forged(row, good)) == "expired"
    clock.now -= 1
    with pytest.raises(InvalidCursorError) as caught:
        codec.decode(forged(row, good), BINDING).expect(Opaque)
    assert caught.value.reason == "kind"


def test_checks_of_an_unsigned_cursor_come_in_order() -> None:
    """An unsigned cursor is checked for its text, its suite and its list before it is parsed."""
    codec = OffsetCodec()
    good = raw_of(unsigned(b"\x00\x00"))
    assert reason_of(codec, b"!" * 5000, PLAIN) == "type"
    assert reason_of(codec, "!" * 5000, PLAIN) == "length"
    assert reason_of(codec, "!", PLAIN) == "alphabet"
    assert reason_of(codec, independent.text(b"\x02" + good[1:])[:-1] + "B", PLAIN) == "encoding"
    assert reason_of(codec, independent.text(good[:5]), PLAIN) == "encoding"
    assert reason_of(codec, independent.text(b"\x02" + good[1:]), PLAIN) == "suite"
    assert reason_of(codec, independent.text(b"\x01none\x00"), PLAIN) == "tag"
    assert reason_of(codec, independent.text(good), PLAIN) == "body"


@every_codec
@pytest.mark.parametrize("size", [4097, 1_000_000])
def test_a_long_cursor_is_refused_by_its_length(row: Row, size: int) -> None:
    """A cursor beyond the limit is not even looked at: its bad characters are not the reason."""
    codec = row.make(FakeClock())
    assert reason_of(codec, "!" * size) == "length"
    assert reason_of(codec, "A" * size) == "length"
    assert reason_of(codec, "!" * 4096) == "alphabet"


@every_authentic_codec
def test_every_flipped_bit_is_refused(row: Row) -> None:
    """Whichever bit of a cursor's bytes is flipped, the cursor is invalid."""
    codec = row.make(FakeClock())
    for position in (Offset(50), SnapshotOffset(bytes(32), 50, 50), Keyset(("a", 1))):
        raw = raw_of(codec.encode(position, BINDING))
        for bit in range(len(raw) * 8):
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            assert reason_of(codec, independent.text(bytes(flipped))) in {"suite", "key", "tag"}


@every_codec
def test_the_other_base64_alphabet_and_padding_are_refused(row: Row) -> None:
    """A cursor in standard base64, or padded, is not the one spelling of its bytes."""
    codec = row.make(FakeClock())
    cursors = [codec.encode(Offset(number), BINDING) for number in range(200)]
    altered = {cursor.replace("-", "+").replace("_", "/") for cursor in cursors} - set(cursors)
    altered |= {cursor + "=" * (-len(cursor) % 4 or 4) for cursor in cursors}
    assert len(altered) > len(cursors)
    assert {reason_of(codec, cursor) for cursor in altered} == {"alphabet"}


def test_every_character_that_a_cursor_ends_in_counts() -> None:
    """The 64 texts of three bytes that differ in the last character are as many cursors."""
    for last in range(64):
        raw = bytes([1, 2, last])
        assert to_text(raw) == independent.text(raw)
        assert from_text(to_text(raw), 4) == raw


# Bodies that only the holder of a key can make.


@every_authentic_codec
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_authentic_but_hostile_body_is_refused(row: Row, body: bytes) -> None:
    """What is not the canonical form of a position is invalid, whoever signed it."""
    codec = row.make(FakeClock(NOW), max_length=1024 * 1024)
    assert reason_of(codec, forged(row, body)) == "body"


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_body_of_an_unsigned_cursor_is_refused(body: bytes) -> None:
    """The same bodies, in a cursor that anyone can make, and nothing of them is in the error."""
    with pytest.raises(InvalidCursorError) as caught:
        OffsetCodec(max_length=1024 * 1024).decode(unsigned(body), PLAIN)
    assert caught.value.reason == "body"
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "fields",
    [
        [1, NOW * 2, 50],
        [1, 1, 50],
        [2, None, [1]],
        [3, None, bytes(32), 50, 50],
        [4, None, b""],
    ],
)
def test_an_unsigned_cursor_carries_an_offset_and_nothing_else(fields: list[Any]) -> None:
    """Another kind of position, or an expiry, is invalid in an unsigned cursor."""
    assert reason_of(OffsetCodec(), unsigned(independent.pack(fields)), PLAIN) == "body"


@pytest.mark.parametrize(
    "position", [Keyset((1,)), SnapshotOffset(bytes(32), 0, 1), Opaque(b""), cast(Offset, None)]
)
def test_an_unsigned_cursor_is_minted_for_an_offset_only(position: Offset) -> None:
    """Another kind of position is refused when it is minted, with the kind in the message."""
    with pytest.raises(EncodingError, match=f"Offset only, not {type(position).__name__}"):
        OffsetCodec().encode(position, BINDING)


def test_an_unsigned_cursor_is_not_minted_with_an_expiry() -> None:
    """An expiry that anyone can rewrite is refused when it is minted."""
    with pytest.raises(EncodingError, match="no expiry"):
        OffsetCodec().encode(Offset(1), BINDING, expires_at=NOW)


# Suites.


@every_codec
def test_a_cursor_of_another_suite_is_refused(row: Row) -> None:
    """No codec reads another suite's cursor, nor its own under another suite's byte."""
    codec = row.make(FakeClock())
    for other in CODECS:
        cursor = other.make(FakeClock()).encode(Offset(2**53 - 1), BINDING)
        if other.suite not in row.suite + row.also:
            assert reason_of(codec, cursor) == "suite"
    own = raw_of(codec.encode(Offset(2**53 - 1), BINDING))
    for suite in range(256):
        if suite not in row.suite + row.also:
            assert reason_of(codec, independent.text(bytes([suite]) + own[1:])) == "suite"


@every_authentic_codec
def test_a_tag_over_another_suites_byte_is_refused(row: Row) -> None:
    """A cursor that is authentic under another suite byte is not read under this key."""
    body = independent.pack([1, NOW + 100, 50])
    for suite in {b"\x00", b"\x01", b"\x11", b"\x12", b"\x91"} - {row.suite}:
        cursor = forged(row, body, header=suite + PRIMARY.kid)
        expected = "tag" if suite == row.also else "suite"
        assert reason_of(row.make(FakeClock(NOW)), cursor) == expected


def test_the_secret_itself_signs_nothing() -> None:
    """A tag made with the raw secret, as other formats make theirs, is refused."""
    body = independent.pack([1, NOW + 100, 50])
    header = b"\x11" + PRIMARY.kid
    signed = independent.pae(independent.LABEL, header, DATA, body)
    cursor = independent.text(header + body + hmac.digest(SECRET, signed, "sha256")[:16])
    assert reason_of(SignedCodec(RING), cursor) == "tag"


# Keys.


@every_authentic_codec
def test_a_key_is_found_by_its_id_and_never_by_trial(row: Row) -> None:
    """A cursor signed by one key of the ring under the kid of another is refused."""
    codec = row.make(FakeClock(NOW))
    body = independent.pack([1, NOW + 100, 50])
    assert codec.decode(row.forge(OLD_SECRET, body, DATA), BINDING).position == Offset(50)
    crossed = row.forge(OLD_SECRET, body, DATA, header=row.suite + PRIMARY.kid)
    assert reason_of(codec, crossed) == "tag"
    assert reason_of(codec, forged(row, body, header=row.suite + OLD.kid)) == "tag"


@every_authentic_codec
def test_an_unknown_key_is_refused(row: Row) -> None:
    """A cursor of a key that is not in the ring is refused, also where its tag would match."""
    codec = row.make(FakeClock(NOW))
    body = independent.pack([1, NOW + 100, 50])
    assert reason_of(codec, row.forge(bytes(range(32, 64)), body, DATA)) == "key"
    assert reason_of(codec, forged(row, body, header=row.suite + bytes(4))) == "key"


@every_authentic_codec
def test_rotation_refuses_no_cursor_until_its_key_is_removed(row: Row) -> None:
    """While a step is rolled out, nodes before and after it read each other's cursors."""
    clock = FakeClock()
    steps = [
        row.make(clock, ring=ring)
        for ring in (
            KeyRing(OLD),
            KeyRing(OLD, PRIMARY),
            KeyRing(PRIMARY, OLD),
            KeyRing(PRIMARY),
        )
    ]
    cursors = [codec.encode(Offset(50), BINDING) for codec in steps]
    for earlier, later in itertools.pairwise(range(4)):
        assert steps[later].decode(cursors[earlier], BINDING).position == Offset(50)
        assert steps[earlier].decode(cursors[later], BINDING).position == Offset(50)
    assert cursors[0] == cursors[1]
    assert cursors[2] == cursors[3]
    assert reason_of(steps[0], cursors[2]) == "key"
    assert reason_of(steps[3], cursors[1]) == "key"


@every_authentic_codec
def test_the_primary_key_mints(row: Row) -> None:
    """The kid in a new cursor is the primary's, wherever the others stand."""
    third = Key(bytes(range(7, 39)), name="third")
    for ring in (KeyRing(OLD, PRIMARY, third), KeyRing(OLD, third, PRIMARY)):
        cursor = row.make(FakeClock(), ring=ring).encode(Offset(1), BINDING)
        assert raw_of(cursor)[1:5] == OLD.kid


# Lengths.


@every_authentic_codec
@pytest.mark.parametrize("limit", [64, 65, 66, 67, 100, 4096])
def test_what_is_minted_up_to_the_limit_is_read(row: Row, limit: int) -> None:
    """Minting and reading have one limit: what is one byte longer is refused when it is minted."""
    codec = row.make(FakeClock(), max_length=limit)
    wide = row.make(FakeClock(), max_length=1024 * 1024)
    too_long = f"the cursor would be longer than {limit} characters"
    minted = 0
    for size in range(max(0, limit * 3 // 4 - 60), limit * 3 // 4):
        position = Opaque(bytes(size))
        cursor = wide.encode(position, BINDING)
        if len(cursor) <= limit:
            assert codec.encode(position, BINDING) == cursor
            assert codec.decode(cursor, BINDING).position == position
            minted += 1
        else:
            with pytest.raises(EncodingError, match=f"^{too_long}$"):
                codec.encode(position, BINDING)
            assert reason_of(codec, cursor) == "length"
    assert 0 < minted < 60


def test_an_unsigned_cursor_fits_the_smallest_limit() -> None:
    """The longest unsigned cursor is far below 64 characters, the smallest limit there is."""
    codec = OffsetCodec(max_length=64)
    cursor = codec.encode(Offset(2**53 - 1), BINDING)
    assert len(cursor) == 23
    assert codec.decode(cursor, BINDING).position == Offset(2**53 - 1)


@every_codec
def test_a_cursor_grows_with_the_digits_of_its_offset_only(row: Row) -> None:
    """A cursor far into the list is at most 8 bytes longer than that of its second page."""
    codec = row.make(FakeClock())
    lengths = [len(raw_of(codec.encode(Offset(10**n), BINDING))) for n in range(16)]
    assert lengths == sorted(lengths)
    assert lengths[-1] - lengths[0] == 8


# Expiry.


@every_authentic_codec
def test_an_expiry_of_the_callers_own_is_carried(row: Row) -> None:
    """The expiry that a caller gives comes back as it was given, and is the one in the cursor."""
    codec = row.make(FakeClock(NOW))
    cursor = codec.encode(Offset(50), BINDING, expires_at=NOW + 77)
    assert codec.decode(cursor, BINDING).expires_at == NOW + 77
    assert cursor == forged(row, independent.pack([1, NOW + 77, 50]))


@every_codec
@pytest.mark.parametrize("expires_at", [0, -1, 2**53, True, 1.0, math.nan, math.inf, Decimal(5)])
def test_an_expiry_out_of_range_is_not_minted(row: Row, expires_at: Any) -> None:
    """An expiry is an int from 1 to 2^53-1, never a bool, a float or anything else."""
    with pytest.raises(EncodingError):
        row.make(FakeClock(NOW)).encode(Offset(1), BINDING, expires_at=expires_at)


def test_a_signed_cursor_without_an_expiry_never_expires() -> None:
    """`SignedCodec` alone stamps nothing: what has no expiry is valid at any time."""
    clock = FakeClock()
    codec = SignedCodec(RING, clock=clock)
    cursor = codec.encode(Offset(50), BINDING)
    clock.now = math.inf
    assert codec.decode(cursor, BINDING).expires_at is None
    assert codec.max_ttl is None
    assert clock.readings == 0


@pytest.mark.parametrize(
    ("now", "ttl", "quantum", "expected"),
    [
        (NOW, 600, 60, NOW + 600),
        (NOW + 0.001, 600, 60, NOW + 660),
        (NOW + 1, 600, 60, NOW + 660),
        (NOW + 59.999, 600, 60, NOW + 660),
        (NOW + 60, 600, 60, NOW + 660),
        (NOW + 1, 600, 1, NOW + 601),
        (NOW + 0.5, 0.25, 1, NOW + 1),
        (NOW + 1, 3600, 3600, NOW + 7200),
        (NOW + 5, 7, 60, NOW + 60),
    ],
)
def test_a_stamp_is_rounded_up_to_the_quantum(
    now: float, ttl: float, quantum: int, expected: int
) -> None:
    """The expiry is the first multiple of the quantum that is at least `ttl` away."""
    codec = ExpiringCodec(SignedCodec(RING), ttl=ttl, quantum=quantum, clock=FakeClock(now))
    cursor = codec.encode(Offset(50), BINDING)
    assert codec.decode(cursor, BINDING).expires_at == expected


def test_cursors_of_one_quantum_are_equal() -> None:
    """A page fetched again within the quantum carries the same cursor, in the next one another."""
    clock = FakeClock(NOW + 1)
    codec = ExpiringCodec(SignedCodec(RING, clock=clock), ttl=600, quantum=60, clock=clock)
    first = codec.encode(Offset(50), BINDING)
    clock.now = NOW + 60
    assert codec.encode(Offset(50), BINDING) == first
    clock.now = NOW + 60.01
    assert codec.encode(Offset(50), BINDING) != first


def test_an_expiry_that_is_too_far_away_is_refused() -> None:
    """Beyond ttl, quantum and 60 s of skew, a cursor was minted with other settings: invalid."""
    codec = ExpiringCodec(SignedCodec(RING), ttl=600, quantum=30, clock=FakeClock(NOW))
    edge = NOW + 600 + 30 + 60
    assert codec.decode(codec.encode(Offset(1), BINDING, expires_at=edge), BINDING)
    with pytest.raises(EncodingError) as caught:
        codec.encode(Offset(1), BINDING, expires_at=edge + 1)
    assert str(caught.value) == "expires_at is further away than ttl + quantum + 60 s: 690 s"
    far = SignedCodec(RING).encode(Offset(1), BINDING, expires_at=edge + 1)
    assert reason_of(codec, far) == "expiry"
    assert codec.decode(far, BINDING, now=NOW + 1).expires_at == edge + 1


def test_an_absent_expiry_is_refused_where_one_is_demanded() -> None:
    """A cursor that never expires is invalid for a codec that stamps every cursor."""
    clock = FakeClock(NOW)
    codec = ExpiringCodec(SignedCodec(RING, clock=clock), ttl=600, clock=clock)
    assert reason_of(codec, SignedCodec(RING).encode(Offset(1), BINDING)) == "expiry"


def test_another_nodes_clock_may_be_a_minute_off() -> None:
    """A fresh cursor of a node 60 s ahead is read; of one that is further ahead it is refused."""
    behind = ExpiringCodec(SignedCodec(RING), ttl=600, quantum=60, clock=FakeClock(NOW))
    for ahead, reason in ((60, None), (120.5, "expiry")):
        clock = FakeClock(NOW + ahead)
        cursor = ExpiringCodec(SignedCodec(RING), ttl=600, clock=clock).encode(Offset(1), BINDING)
        if reason is None:
            assert behind.decode(cursor, BINDING).position == Offset(1)
        else:
            assert reason_of(behind, cursor) == reason


@every_authentic_codec
def test_an_expired_cursor_is_told_apart_by_its_class(row: Row) -> None:
    """At its expiry a cursor raises `ExpiredCursorError`, with the message of every refusal."""
    clock = FakeClock(NOW)
    codec = row.make(clock)
    cursor = codec.encode(Offset(1), BINDING, expires_at=NOW + 1)
    assert codec.decode(cursor, BINDING, now=math.nextafter(NOW + 1, 0)).position == Offset(1)
    clock.now = NOW + 1
    with pytest.raises(ExpiredCursorError, match=r"^Invalid or expired cursor$") as caught:
        codec.decode(cursor, BINDING)
    assert caught.value.reason == "expired"


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf])
def test_a_broken_clock_mints_and_reads_nothing_that_expires(now: float) -> None:
    """A clock without a time refuses: no cursor is stamped from it, and none lives under it."""
    clock = FakeClock(NOW)
    codec = ExpiringCodec(SignedCodec(RING, clock=clock), ttl=600, clock=clock)
    cursor = codec.encode(Offset(1), BINDING)
    clock.now = now
    assert reason_of(codec, cursor) in {"expired", "expiry"}
    for expires_at in (None, NOW + 60):
        with pytest.raises(EncodingError, match=r"^the clock gives no time$") as caught:
            codec.encode(Offset(1), BINDING, expires_at=expires_at)
        assert caught.value.__cause__ is None


@every_authentic_codec
def test_each_operation_reads_the_clock_once_whatever_is_nested(row: Row) -> None:
    """On a clock that moves at each reading, a decode sees one instant, through all layers."""
    clock = FakeClock(NOW, tick=1000)
    codec = row.make(clock)
    cursor = forged(row, independent.pack([1, NOW + 1, 50]))
    assert codec.decode(cursor, BINDING).position == Offset(50)
    assert clock.readings == 1


# Composition.


class Passing:
    """A wrapper that adds nothing: it authenticates only if what it holds does."""

    max_ttl = None

    def __init__(self, inner: CursorCodec) -> None:
        self.inner = inner

    @property
    def authenticates(self) -> bool:
        return self.inner.authenticates

    def encode(self, position: Any, binding: Binding, *, expires_at: int | None = None) -> str:
        return self.inner.encode(position, binding, expires_at=expires_at)

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        return self.inner.decode(cursor, binding, now=now)


@pytest.mark.parametrize("inner", [OffsetCodec(), Passing(OffsetCodec())])
def test_an_unsigned_codec_is_not_given_an_expiry(inner: CursorCodec) -> None:
    """`ExpiringCodec` wraps only what authenticates, through any wrapper, and says what to do."""
    with pytest.raises(ConfigurationError) as caught:
        ExpiringCodec(inner, ttl=600)
    assert str(caught.value) == (
        f"ExpiringCodec was given {type(inner).__name__}, whose cursors anyone can rewrite, the"
        " expiry included; wrap SignedCodec instead"
    )


@pytest.mark.parametrize("given", [None, RING, PRIMARY, "codec", SignedCodec, OffsetCodec])
def test_what_is_no_codec_is_given_no_expiry(given: Any) -> None:
    """A ring, or a codec's class, in place of a codec is told by its name."""
    with pytest.raises(ConfigurationError) as caught:
        ExpiringCodec(given, ttl=600)
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    assert str(caught.value) == (
        f"ExpiringCodec was given {name}; give it a codec: SignedCodec(ring)"
    )


def test_a_wrapper_of_ones_own_may_stand_between() -> None:
    """`ExpiringCodec` works over any codec that authenticates, also one of another's making."""
    codec = ExpiringCodec(Passing(SignedCodec(RING)), ttl=600, clock=FakeClock(NOW))
    cursor = codec.encode(Offset(1), BINDING)
    assert codec.decode(cursor, BINDING).expires_at == NOW + 600


def test_the_shortest_ttl_of_nested_codecs_is_the_longest_life() -> None:
    """`max_ttl` is the least that any layer grants, so that a paginator can compare its own."""
    signed = SignedCodec(RING)
    assert ExpiringCodec(signed, ttl=600).max_ttl == 600
    assert ExpiringCodec(ExpiringCodec(signed, ttl=600), ttl=300).max_ttl == 300


def test_nested_codecs_decode_at_one_instant() -> None:
    """The outermost codec's reading of its clock is the one that every layer goes by."""
    clock, other = FakeClock(NOW), FakeClock(NOW + 10**6)
    inner = ExpiringCodec(SignedCodec(RING, clock=other), ttl=600, clock=other)
    codec = ExpiringCodec(inner, ttl=600, clock=clock)
    cursor = independent.signed(SECRET, independent.pack([1, NOW + 60, 50]), DATA)
    assert codec.decode(cursor, BINDING).position == Offset(50)
    assert (clock.readings, other.readings) == (1, 0)


def test_an_outer_ttl_beyond_the_inner_is_refused() -> None:
    """A wrapper whose cursors the inner codec would refuse fails when it is made."""
    inner = ExpiringCodec(SignedCodec(RING), ttl=300)
    for ttl, quantum in ((300.5, 1), (600, 60), (300, 61)):
        with pytest.raises(ConfigurationError) as caught:
            ExpiringCodec(inner, ttl=ttl, quantum=quantum)
        assert str(caught.value) == (
            f"ttl is {ttl:g} s and quantum {quantum} s, but the max_ttl of the ExpiringCodec within"
            " is 300 s; lower them or raise its ttl"
        )
    for ttl, quantum in ((300, 60), (240, 120)):
        assert ExpiringCodec(inner, ttl=ttl, quantum=quantum).max_ttl == ttl


def test_codecs_say_whether_they_authenticate() -> None:
    """Only the unsigned codec does not authenticate."""
    assert {str(row): row.make(FakeClock()).authenticates for row in CODECS} == {
        "offset": False,
        "signed": True,
        "sealed": True,
        "expiring": True,
        "expiring-fallback": True,
    }


# What is decoded.


def test_a_decoded_cursor_gives_its_position_as_the_kind_that_is_expected() -> None:
    """`expect` returns the position of its own kind, and refuses every other kind."""
    codec = SignedCodec(RING)
    decoded = codec.decode(codec.encode(SnapshotOffset(bytes(32), 5, 10), BINDING), BINDING)
    assert decoded.expect(SnapshotOffset).offset == 5
    with pytest.raises(InvalidCursorError) as caught:
        decoded.expect(Offset)
    assert caught.value.reason == "kind"


def test_a_late_refusal_is_the_same_kind_of_error() -> None:
    """An authentic cursor that a paginator refuses gets the error that fits its reason."""
    decoded = DecodedCursor(Offset(1), 5)
    assert type(decoded.refusal("lost")) is SnapshotLostError
    assert type(decoded.refusal("range")) is InvalidCursorError
    assert decoded.refusal("range").reason == "range"
    assert repr(decoded) == "DecodedCursor(Offset(offset=1), expires_at=5)"


@pytest.mark.parametrize(
    "error", [InvalidCursorError("tag"), ExpiredCursorError(), SnapshotLostError()]
)
def test_a_refusal_can_be_sent_to_another_process(error: CursorError) -> None:
    """Pickled and read again, a refusal has its class, its message and its reason."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert type(again) is type(error)
    assert str(again) == "Invalid or expired cursor"
    assert again.reason == error.reason


# Sharing.


@every_codec
def test_a_codec_may_be_shared_by_threads(row: Row) -> None:
    """Threads that mint and read under bindings of their own never see another's cursor."""
    codec = row.make(FakeClock())
    start = threading.Barrier(8)
    wrong: list[str] = []

    def work(number: int) -> None:
        binding = Binding("tools/list", principal=str(number), params={"n": number})
        start.wait()
        for offset in range(200):
            cursor = codec.encode(Offset(offset), binding)
            if codec.decode(cursor, binding).position != Offset(offset):
                wrong.append(cursor)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@every_authentic_codec
def test_more_bindings_than_are_kept_ready_give_the_same_cursors(row: Row) -> None:
    """What a codec keeps ready per binding is bounded, and changes no cursor."""
    codec = row.make(FakeClock())
    bindings = [Binding("tools/list", principal=str(number)) for number in range(600)]
    bindings.append(Binding("tools/list", params={"filter": "x" * 100_000}))
    cursors = [codec.encode(Offset(1), binding) for binding in bindings]
    assert len(set(cursors)) == len(cursors)
    assert [codec.encode(Offset(1), binding) for binding in bindings] == cursors
    for binding, cursor in zip(bindings, cursors, strict=True):
        assert codec.decode(cursor, binding).position == Offset(1)


def test_the_state_of_a_binding_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All cursors under one binding and key share an HMAC state, unless the binding is long."""
    made: list[object] = []

    def counted(*arguments: Any) -> HMAC:
        made.append(arguments)
        return HMAC(*arguments)

    monkeypatch.setattr(signed, "HMAC", counted)
    codec = SignedCodec(RING)
    long = Binding("tools/list", params={"filter": "x" * 5000})
    for binding, states in ((BINDING, 1), (BINDING, 1), (PLAIN, 2), (BINDING, 2), (long, 4)):
        codec.decode(codec.encode(Offset(1), binding), binding)
        assert len(made) == states


@every_codec
@pytest.mark.parametrize(("count", "size"), [(1500, 3500), (40, 250_000)])
def test_bindings_that_come_from_clients_do_not_pile_up(row: Row, count: int, size: int) -> None:
    """However many bindings, or how long ones, a codec serves, it keeps about a MiB of them."""
    codec = row.make(FakeClock())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            codec.encode(Offset(1), Binding("tools/list", params={"n": number, "q": "x" * size}))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2 * 1024 * 1024


# Configuration.


@pytest.mark.parametrize("ttl", [0, -1, -0.5, True, math.nan, math.inf, timedelta(0), "600", None])
def test_a_ttl_that_is_no_positive_number_of_seconds_is_refused(ttl: Any) -> None:
    """The message names the setting and what it may be."""
    with pytest.raises(ConfigurationError, match=r"^ttl is .*; give seconds, a number from 0.001"):
        ExpiringCodec(SignedCodec(RING), ttl=ttl)


@pytest.mark.parametrize("ttl", [10 * 365 * 86_400 + 1, 10**30])
def test_a_ttl_beyond_ten_years_is_refused(ttl: int) -> None:
    """A ttl in milliseconds, or none at all in disguise, is refused."""
    with pytest.raises(ConfigurationError, match="ttl"):
        ExpiringCodec(SignedCodec(RING), ttl=ttl)


@pytest.mark.parametrize("quantum", [0, -60, True, 60.0, math.nan, "60", None, timedelta(1)])
def test_a_quantum_that_is_no_positive_int_is_refused(quantum: Any) -> None:
    """The message names the setting and what it may be."""
    with pytest.raises(ConfigurationError, match=r"^quantum \(seconds\) is .*; give an int from 1"):
        ExpiringCodec(SignedCodec(RING), ttl=600, quantum=quantum)


@pytest.mark.parametrize("max_length", [0, -1, 63, 1024 * 1024 + 1, True, 4096.0, "4096", None])
@pytest.mark.parametrize("make", [OffsetCodec, partial(SignedCodec, RING)])
def test_a_limit_that_no_cursor_could_have_is_refused(
    make: Callable[..., CursorCodec], max_length: Any
) -> None:
    """A limit below the shortest cursor, above a MiB, or of another type fails at construction."""
    with pytest.raises(ConfigurationError) as caught:
        make(max_length=max_length)
    given = repr(max_length) if isinstance(max_length, float | int) else "of type"
    message = str(caught.value)
    assert message.startswith(f"max_length (characters of a cursor) is {given}")
    assert message.endswith("; give an int from 64 to 1048576")


@pytest.mark.parametrize("ring", [None, b"k" * 32, "k" * 43, PRIMARY, [PRIMARY]])
def test_a_codec_needs_a_key_ring(ring: Any) -> None:
    """A secret in place of the ring is not shown, and the message says where to get a ring."""
    with pytest.raises(ConfigurationError) as caught:
        SignedCodec(ring)
    assert str(caught.value) == (
        f"a codec needs a KeyRing, not {type(ring).__name__}; make one with KeyRing.from_env(),"
        " KeyRing.from_file() or `python -m cursorkit.keys`"
    )


def test_a_value_that_may_be_a_secret_is_not_shown() -> None:
    """Only numbers are quoted in a message about settings: other values may be secrets."""
    secret = "s3cr3t" * 8
    for given in (secret, secret.encode(), int.from_bytes(secret.encode(), "big")):
        with pytest.raises(ConfigurationError) as caught:
            OffsetCodec(max_length=cast(Any, given))
        assert f"of type {type(given).__name__}" in str(caught.value)
        assert str(given) not in str(caught.value)


@every_codec
@pytest.mark.parametrize("given", [None, "tools/list", {"purpose": "tools/list"}, Binding])
def test_what_is_no_binding_is_the_hosts_mistake(row: Row, given: Any) -> None:
    """To mint and to read under it is a configuration error that shows what to give."""
    codec = row.make(FakeClock())
    cursor = codec.encode(Offset(1), PLAIN)
    for call in (partial(codec.encode, Offset(1)), partial(codec.decode, cursor)):
        with pytest.raises(ConfigurationError) as caught:
            call(given)
        assert str(caught.value).startswith(f"binding is of type {type(given).__name__}; give a ")


@every_codec
def test_what_is_no_position_is_not_minted(row: Row) -> None:
    """A position is one of the four kinds; anything else is the server's own mistake."""
    codec = row.make(FakeClock())
    for value in (5, None, "text", object(), Offset):
        with pytest.raises(EncodingError):
            codec.encode(cast("Any", value), Binding("tools/list"))


def test_an_expiry_that_is_no_int_is_not_minted() -> None:
    """The same error as from the codec within."""
    codec = ExpiringCodec(SignedCodec(RING), ttl=600)
    with pytest.raises(EncodingError):
        codec.encode(Offset(1), Binding("tools/list"), expires_at=cast("Any", "soon"))
