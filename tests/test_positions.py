"""Positions are exact values, and each has one form in bytes."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import math
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cursorkit import EncodingError, InvalidCursorError, Keyset, Offset, Opaque, SnapshotOffset
from cursorkit.positions import Position, decode_body, encode_body
from tests import independent
from tests.hostile import BODIES, ROOT
from tests.strategies import keysets, positions

NOT_AN_OFFSET: list[Any] = ["1", "", b"1", 1.5, 1.0, -1, True, False, None, [], {}, 2**53, 2**64]
NOT_AN_OFFSET.extend([10**30, math.nan, math.inf, 1e400, Decimal(1), Fraction(1)])


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Raw(bytes):
    __slots__ = ()


class Stamp(datetime):
    pass


class Summer(tzinfo):
    """A zone with two offsets, of which `fold` picks one, and seconds in one of them."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        second = moment is not None and moment.fold
        return timedelta(hours=1, seconds=34) if second else timedelta(hours=2)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return "summer"


class Nowhere(Summer):
    """A zone that knows no offset: its datetimes are naive."""

    def utcoffset(self, moment: datetime | None) -> Any:
        return None


def zone(**offset: int) -> timezone:
    """Return a zone with a fixed offset."""
    return timezone(timedelta(**offset))


MOMENT = datetime(2026, 11, 30, 12, 34, 56, 999_918)  # noqa: DTZ001  # naive on purpose
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    127,
    128,
    -32,
    -33,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    2**127,
    2**128 - 1,
    -(2**127),
    -(2**127) - 1,
    10**30,
    2**1024 - 1,
    -(2**1024) + 1,
    0.0,
    -0.0,
    1.0,
    1.55,
    0.1 + 0.2,
    5e-324,
    1.7976931348623157e308,
    "",
    "a",
    "é",
    "e\u0301",
    "日本",
    "\x00\n",
    "\U0001f600" * 60,
    "x" * 300,
    b"",
    b"a",
    b"\xff\x00" * 200,
    Decimal("0"),
    Decimal("-0"),
    Decimal("0.00"),
    Decimal("1"),
    Decimal("1.0"),
    Decimal("1.00"),
    Decimal("-1.55"),
    Decimal("1E+5"),
    Decimal("100000"),
    Decimal("1E-7"),
    Decimal("0E+6144"),
    Decimal("0E-6144"),
    Decimal("1E+6144"),
    Decimal("-1E-6144"),
    Decimal("9" * 100),
    Decimal("-" + "9" * 100 + "E-6144"),
    date.min,
    date.max,
    date(2026, 2, 28),
    date(9, 1, 2),
    datetime.min,  # noqa: DTZ901  # naive on purpose
    datetime.max,  # noqa: DTZ901  # naive on purpose
    datetime(2026, 11, 30),  # noqa: DTZ001  # naive on purpose
    MOMENT,
    MOMENT.replace(microsecond=1),
    MOMENT.replace(tzinfo=UTC),
    MOMENT.replace(tzinfo=zone(hours=10)),
    MOMENT.replace(tzinfo=zone(hours=-9, minutes=-30)),
    MOMENT.replace(tzinfo=zone(seconds=1)),
    MOMENT.replace(tzinfo=zone(seconds=-1)),
    MOMENT.replace(tzinfo=zone(hours=23, minutes=59, seconds=59)),
    MOMENT.replace(tzinfo=zone(hours=-23, minutes=-59, seconds=-59)),
    datetime.min.replace(tzinfo=zone(hours=23)),
    datetime.max.replace(tzinfo=zone(hours=-23)),
    UUID(int=0),
    UUID(int=2**128 - 1),
    UUID("12345678-1234-5678-1234-567812345678"),
]


def again(position: Position) -> Position:
    """Return a position as it comes back from its bytes."""
    return decode_body(encode_body(position, None))[0]


# Construction.


@pytest.mark.parametrize("offset", NOT_AN_OFFSET)
def test_an_offset_is_an_int_from_0_to_2_to_the_53_less_1(offset: Any) -> None:
    """Text, floats, bools and numbers out of range are no offsets, in a snapshot either."""
    message = r"^offset must be an int from 0 to 2\^53-1$"
    with pytest.raises(EncodingError, match=message):
        Offset(offset)
    with pytest.raises(EncodingError, match=message):
        SnapshotOffset(ROOT, offset, 50)


@pytest.mark.parametrize("page_size", [0, -5, 10_001, 2**31 - 1, True, 5.0, "5", None])
def test_a_page_size_is_an_int_from_1_to_10_000(page_size: Any) -> None:
    """A page size out of range, or of another type, is refused before anything is sliced."""
    with pytest.raises(EncodingError, match=r"^page_size must be an int from 1 to 10000$"):
        SnapshotOffset(ROOT, 0, page_size)


@pytest.mark.parametrize(
    "position",
    [
        Offset(0),
        Offset(2**53 - 1),
        SnapshotOffset(ROOT, 0, 1),
        SnapshotOffset(ROOT, 2**53 - 1, 10_000),
    ],
)
def test_numbers_at_the_limits_are_positions(position: Position) -> None:
    """The least and the greatest number that is allowed come back."""
    assert again(position) == position


@pytest.mark.parametrize("value", [5, None, "text", b"", (1,), object()])
def test_what_is_no_position_has_no_body(value: Any) -> None:
    """Anything but the four kinds is told by its type, and not quoted."""
    with pytest.raises(EncodingError) as caught:
        encode_body(value, None)
    assert str(caught.value) == f"a cursor carries a position, not {type(value).__name__}"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("root", [b"", ROOT[:31], ROOT + b"x", "r" * 32, bytearray(32), None, 0])
def test_a_root_is_32_bytes(root: Any) -> None:
    """Nothing but bytes of the digest's length names a snapshot."""
    with pytest.raises(EncodingError, match=r"^root must be 32 bytes$"):
        SnapshotOffset(root, 0, 1)


@pytest.mark.parametrize("data", ["text", bytearray(b"x"), memoryview(b"x"), None, 5, [1]])
def test_opaque_data_is_bytes(data: Any) -> None:
    """Nothing is coerced to bytes, and the message names the type only."""
    with pytest.raises(EncodingError, match=f"^data must be bytes, not {type(data).__name__}$"):
        Opaque(data)


@pytest.mark.parametrize("values", [(), [], [1], "ab", b"ab", None, 5, {1: 2}, {1}])
def test_a_keyset_is_a_tuple_of_at_least_one_value(values: Any) -> None:
    """An empty tuple, and anything that is no tuple, is refused."""
    with pytest.raises(EncodingError, match=r"^a keyset is a tuple of at least one value$"):
        Keyset(values)


DECIMAL_SIZE = (
    "a Decimal in a keyset has at most 100 digits and an exponent of at most 6144 either way"
)
REFUSED: dict[str, list[Any]] = {
    "a float in a keyset must be finite": [math.nan, math.inf, -math.inf],
    "an int in a keyset has at most 1024 bits": [2**1024, -(2**1024)],
    "a Decimal in a keyset must be finite": [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")],
    DECIMAL_SIZE: [Decimal("1" * 101), Decimal("1E+6145"), Decimal("1E-6145")],
    "a keyset cannot hold a lone surrogate": ["\udc80", "a\ud800"],
    "a datetime's UTC offset must be whole seconds": [
        MOMENT.replace(tzinfo=timezone(timedelta(microseconds=1)))
    ],
    "a keyset cannot hold Number": [Number.ONE],
    "a keyset cannot hold Text": [Text("a")],
    "a keyset cannot hold Raw": [Raw(b"a")],
    "a keyset cannot hold Stamp": [Stamp(2026, 11, 30)],
    "a keyset cannot hold time": [time(12)],
    "a keyset cannot hold timedelta": [timedelta(1)],
    "a keyset cannot hold Fraction": [Fraction(1, 2)],
    "a keyset cannot hold complex": [1j],
    "a keyset cannot hold bytearray": [bytearray(b"a")],
    "a keyset cannot hold list": [[1]],
    "a keyset cannot hold tuple": [(1,)],
    "a keyset cannot hold dict": [{"a": 1}],
    "a keyset cannot hold set": [{1}],
    "a keyset cannot hold object": [object()],
}


@pytest.mark.parametrize(
    ("value", "message"),
    [(value, message) for message, values in REFUSED.items() for value in values],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_that_would_not_come_back_as_it_was_is_refused(value: Any, message: str) -> None:
    """Values without an exact form, subclasses included, are refused without being quoted."""
    with pytest.raises(EncodingError) as caught:
        Keyset(("first", value))
    assert str(caught.value) == message
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "position", [Offset(1), Keyset((1,)), SnapshotOffset(ROOT, 0, 1), Opaque(b"")]
)
def test_positions_are_frozen(position: Position) -> None:
    """No field of a position can be changed, and none added."""
    for name in [each.name for each in dataclasses.fields(position)]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(position, name, 5)
    with pytest.raises((AttributeError, TypeError)):
        cast(Any, position).extra = 5


@given(positions())
def test_positions_survive_pickling(position: Position) -> None:
    """A position sent to another process is the same position."""
    assert pickle.loads(pickle.dumps(position)) == position  # noqa: S301  # our own bytes


# Keyset values, exactly.


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_a_sort_key_comes_back_exactly(value: Any) -> None:
    """Type, value, sign, digits, microseconds and UTC offset of a sort key are kept."""
    for values in ((value,), ("a", value), (value, 5)):
        keyset = Keyset(values)
        found = again(keyset)
        assert isinstance(found, Keyset)
        assert [type(each) for each in found.values] == [type(each) for each in values]
        assert repr(found.values) == repr(values)
        assert found == keyset
        assert hash(found) == hash(keyset)


def test_values_are_equal_only_if_they_are_the_same_in_type_and_spelling() -> None:
    """No two of these keysets are equal, though Python calls some of their values equal."""
    lookalikes: list[Any] = [
        *VALUES,
        MOMENT.astimezone(UTC),
        MOMENT.replace(tzinfo=UTC).astimezone(zone(hours=5)),
        MOMENT.date(),
    ]
    keysets = [Keyset((value,)) for value in {repr(value): value for value in lookalikes}.values()]
    assert len(set(keysets)) == len({hash(keyset) for keyset in keysets}) == len(keysets)
    for index, keyset in enumerate(keysets):
        assert [other for other in keysets if other == keyset] == [keyset], index
        assert keyset != keyset.values


def test_an_aware_datetime_gets_a_fixed_offset() -> None:
    """Zone and fold become the offset that they stand for, at the same instant."""
    early = datetime(2026, 10, 25, 2, 30, tzinfo=Summer())
    late = early.replace(fold=1)
    for moment, offset in ((early, zone(hours=2)), (late, zone(hours=1, seconds=34))):
        (value,) = Keyset((moment,)).values
        assert isinstance(value, datetime)
        assert value.tzinfo == offset
        assert value.fold == 0
        assert value.utcoffset() == moment.utcoffset()
        assert value.replace(tzinfo=None) == moment.replace(tzinfo=None, fold=0)
        assert again(Keyset((moment,))) == Keyset((value,))
    assert Keyset((early,)) != Keyset((late,))


def test_utc_is_spelled_one_way() -> None:
    """Any zone without an offset is UTC itself."""
    for utc in (UTC, timezone(timedelta(0), "Z"), zone(hours=0)):
        (value,) = Keyset((MOMENT.replace(tzinfo=utc),)).values
        assert isinstance(value, datetime)
        assert value.tzinfo is UTC


def test_a_naive_datetime_stays_naive() -> None:
    """A datetime without an offset gets none, and its fold, which means nothing, is dropped."""
    for moment in (MOMENT, MOMENT.replace(fold=1), MOMENT.replace(tzinfo=Nowhere())):
        (value,) = Keyset((moment,)).values
        assert isinstance(value, datetime)
        assert value.tzinfo is None
        assert value.fold == 0
        assert again(Keyset((moment,))) == Keyset((MOMENT,))


def test_a_decimal_is_spelled_the_same_in_every_decimal_context() -> None:
    """The precision, capitals and traps that an application sets change no cursor."""
    for value in (Decimal("1E+5"), Decimal("1.23456789"), Decimal("-0E-7")):
        body = encode_body(Keyset((value,)), None)
        for context in (
            decimal.Context(prec=1, capitals=0),
            decimal.Context(prec=1, Emax=1, Emin=-1, traps=[decimal.Inexact, decimal.Rounded]),
            decimal.Context(traps=[]),
        ):
            with decimal.localcontext(context):
                assert encode_body(Keyset((value,)), None) == body
                assert repr(decode_body(body)[0]) == repr(Keyset((value,)))
    with decimal.localcontext(decimal.Context(traps=[])), pytest.raises(InvalidCursorError):
        decode_body(independent.pack([2, None, [independent.Ext(2, b"no number")]]))


def test_values_of_another_size_have_another_form() -> None:
    """An int beyond 64 bits takes as few bytes as two's complement needs."""
    sizes = {2**64: 9, 2**71 - 1: 9, 2**71: 10, -(2**63) - 1: 9, -(2**71): 9, -(2**71) - 1: 10}
    for value, size in sizes.items():
        body = encode_body(Keyset((value,)), None)
        assert body == b"\x93\x02\xc0\x91\xc7" + bytes([size, 1]) + value.to_bytes(
            size, "big", signed=True
        )


# Bodies.


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_body_is_no_position(body: bytes) -> None:
    """What is not canonical is refused, and the error holds nothing of it."""
    with pytest.raises(InvalidCursorError) as caught:
        decode_body(body)
    assert caught.value.reason == "body"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_hostile_bodies_are_near_misses() -> None:
    """The same builders make canonical bodies too: those are refused for their one fault."""
    for body in (
        independent.pack([1, None, 5]),
        independent.pack([1, 2**53 - 1, 2**53 - 1]),
        independent.pack([2, 1, [independent.Ext(2, b"1E+6144")]]),
        independent.pack([2, None, [independent.Ext(4, b"2026-11-30T12:00:00.000000")]]),
        independent.pack([2, None, [independent.Ext(5, b"2026-11-30T12:00:00.000000+01:00:00")]]),
        independent.pack([3, None, ROOT, 0, 10_000]),
        independent.pack([4, None, b""]),
    ):
        position, expires_at = decode_body(body)
        assert encode_body(position, expires_at) == body


@pytest.mark.parametrize("expires_at", [0, -1, 2**53, True, 1.0, math.nan, "1", b"1", [1]])
def test_an_expiry_is_an_int_from_1_to_2_to_the_53_less_1(expires_at: Any) -> None:
    """Another expiry is refused when it is minted; None is none."""
    with pytest.raises(
        EncodingError, match=r"^expires_at must be None or an int from 1 to 2\^53-1$"
    ):
        encode_body(Offset(1), expires_at)
    assert decode_body(encode_body(Offset(1), 2**53 - 1)) == (Offset(1), 2**53 - 1)
    assert decode_body(encode_body(Offset(1), 1)) == (Offset(1), 1)
    assert decode_body(encode_body(Offset(1), None)) == (Offset(1), None)


@given(positions(), st.none() | st.integers(1, 2**53 - 1))
def test_a_position_comes_back_from_its_bytes(position: Position, expires_at: int | None) -> None:
    """decode∘encode is the identity on positions and expiries."""
    found, expiry = decode_body(encode_body(position, expires_at))
    assert type(found) is type(position)
    assert repr(found) == repr(position)
    assert found == position
    assert expiry == expires_at
    assert type(expiry) is type(expires_at)


@given(keysets(), keysets())
def test_keysets_are_equal_if_and_only_if_their_bytes_are(first: Keyset, second: Keyset) -> None:
    """Equality and hash follow the canonical form."""
    same = encode_body(first, None) == encode_body(second, None)
    assert (first == second) is same
    assert same is (repr(first) == repr(second))
    assert not same or hash(first) == hash(second)


@given(st.binary(max_size=80) | st.sampled_from(sorted(BODIES.values())))
@example(b"")
def test_random_bytes_are_refused_or_the_one_spelling_of_a_position(body: bytes) -> None:
    """encode∘decode is the identity on all bodies that decode."""
    try:
        position, expires_at = decode_body(body)
    except InvalidCursorError:
        return
    assert encode_body(position, expires_at) == body


@given(positions(), st.data())
def test_a_body_with_one_byte_changed_is_refused_or_another_positions(
    position: Position, data: st.DataObject
) -> None:
    """Near a canonical body there are only those of other positions, and refused ones."""
    body = bytearray(encode_body(position, 1_800_000_000))
    index = data.draw(st.integers(0, len(body) - 1))
    body[index] ^= data.draw(st.integers(1, 255))
    try:
        found, expires_at = decode_body(bytes(body))
    except InvalidCursorError:
        return
    assert encode_body(found, expires_at) == body
    assert (found, expires_at) != (position, 1_800_000_000)
