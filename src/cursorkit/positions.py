"""Positions and their canonical MessagePack form: each has exactly one spelling that decodes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

import msgpack

from cursorkit.errors import EncodingError, InvalidCursorError
from cursorkit.packing import packing

__all__ = [
    "MAX_INTEGER",
    "MAX_PAGE_SIZE",
    "Keyset",
    "KeysetValue",
    "Offset",
    "Opaque",
    "Position",
    "SnapshotOffset",
    "decode_body",
    "encode_body",
]

MAX_INTEGER: Final = 2**53 - 1
"""The largest offset and expiry: what a JSON number holds exactly."""

MAX_PAGE_SIZE: Final = 10_000
"""The largest page, in items."""

KeysetValue: TypeAlias = None | bool | int | float | str | bytes | Decimal | date | datetime | UUID
"""A value of a sort key."""


# `type() is int` below: True is an int to isinstance, and must not be one here.


@dataclass(frozen=True, slots=True, init=False)
class Offset:
    """A count of items from the start of a list: 0 to 2^53-1."""

    offset: int

    def __init__(self, offset: int) -> None:
        if type(offset) is not int or not 0 <= offset <= MAX_INTEGER:
            raise EncodingError("offset must be an int from 0 to 2^53-1")
        _set_offset(self, offset)

    def _body(self, expires_at: int | None) -> list[Any]:
        return [1, expires_at, self.offset]


# The slot's own setter: `object.__setattr__` looks it up again for each cursor.
_set_offset: Final = vars(Offset)["offset"].__set__


@dataclass(frozen=True, slots=True)
class SnapshotOffset:
    """A place in a snapshot.

    Attributes:
        root: The digest that names the snapshot, 32 bytes.
        offset: Items before the place, 0 to 2^53-1.
        page_size: Items a page of this walk, 1 to 10,000.
    """

    root: bytes
    offset: int
    page_size: int

    def __post_init__(self) -> None:
        if type(self.root) is not bytes or len(self.root) != 32:
            raise EncodingError("root must be 32 bytes")
        if type(self.offset) is not int or not 0 <= self.offset <= MAX_INTEGER:
            raise EncodingError("offset must be an int from 0 to 2^53-1")
        if type(self.page_size) is not int or not 1 <= self.page_size <= MAX_PAGE_SIZE:
            raise EncodingError(f"page_size must be an int from 1 to {MAX_PAGE_SIZE}")

    def _body(self, expires_at: int | None) -> list[Any]:
        return [3, expires_at, self.root, self.offset, self.page_size]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes of the caller's own, for example an upstream's cursor."""

    data: bytes

    def __post_init__(self) -> None:
        if type(self.data) is not bytes:
            raise EncodingError(f"data must be bytes, not {type(self.data).__name__}")

    def _body(self, expires_at: int | None) -> list[Any]:
        return [4, expires_at, self.data]


@dataclass(frozen=True, slots=True, eq=False)
class Keyset:
    """The sort-key values of the last item seen, the last of them unique.

    Values are nil, bool, int (at most 1,024 bits), finite float, text, bytes, Decimal (finite, at
    most 100 digits and an exponent of at most 6,144 either way), date, datetime or UUID. An aware
    datetime becomes one with a fixed offset; a naive one stays naive. Two keysets are equal only if
    their values' types are too: ``Keyset((1,)) != Keyset((True,))``.
    """

    values: tuple[KeysetValue, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple) or not self.values:
            raise EncodingError("a keyset is a tuple of at least one value")
        object.__setattr__(self, "values", tuple(_keyset_value(value) for value in self.values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Keyset):
            return NotImplemented
        return encode_body(self, None) == encode_body(other, None)

    def __hash__(self) -> int:
        return hash(encode_body(self, None))

    def _body(self, expires_at: int | None) -> list[Any]:
        return [2, expires_at, [_to_wire(value) for value in self.values]]


Position: TypeAlias = Offset | Keyset | SnapshotOffset | Opaque
"""What a cursor denotes once decoded."""


def _keyset_from_wire(values: list[Any]) -> Keyset:
    if type(values) is not list:  # text and maps can be iterated over, an extension is a tuple
        raise EncodingError("the values of a keyset are an array")
    return Keyset(tuple(map(_from_wire, values)))


_KINDS: Final[dict[int, Callable[..., Position]]] = {
    1: Offset,
    2: _keyset_from_wire,
    3: SnapshotOffset,
    4: Opaque,
}


def encode_body(position: Position, expires_at: int | None) -> bytes:
    """Return the canonical body of a cursor: ``[kind, exp, ...]`` in MessagePack.

    Args:
        position: What to encode.
        expires_at: Absolute Unix seconds, 1 to 2^53-1, or None for a cursor without an expiry.

    Raises:
        EncodingError: If `expires_at` is out of range.
    """
    if expires_at is not None and (
        type(expires_at) is not int or not 1 <= expires_at <= MAX_INTEGER
    ):
        raise EncodingError("expires_at must be None or an int from 1 to 2^53-1")
    try:
        fields = position._body(expires_at)  # pyright: ignore[reportPrivateUsage]
    except (AttributeError, TypeError):  # the second for a class in place of its instance
        raise EncodingError(f"a cursor carries a position, not {type(position).__name__}") from None
    return packing.pack(fields)


def decode_body(body: bytes) -> tuple[Position, int | None]:
    """Return the position and expiry of an authentic body.

    Raises:
        InvalidCursorError: If the body is anything but the canonical form of a position.
    """
    try:
        fields = msgpack.unpackb(body)
        kind, expires_at, *arguments = fields
        if (
            packing.pack(fields) == body
            and type(kind) is int
            and (expires_at is None or (type(expires_at) is int and 0 < expires_at <= MAX_INTEGER))
        ):
            return _KINDS[kind](*arguments), expires_at
    except Exception:  # noqa: BLE001, S110  # whatever a hostile body provokes, it is a bad body
        pass
    # Raised here, so that what was provoked, which may quote the body, is not its context.
    raise InvalidCursorError("body")


# Keyset values beyond MessagePack's own types: extension codes and their one spelling (§4).

_BIG_INT: Final = 1
_DECIMAL: Final = 2
_DATE: Final = 3
_NAIVE: Final = 4
_AWARE: Final = 5
_UUID: Final = 6

_MAX_INT_BITS: Final = 1024
_MAX_DIGITS: Final = 100
_MAX_EXPONENT: Final = 6144
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_AWARE_TEXT: Final = re.compile(r"(.*)([+-])(\d\d):(\d\d):(\d\d)", re.ASCII)


def _keyset_value(value: object) -> KeysetValue:
    """Return the value as it will come back from a cursor, or raise."""
    match value:
        case None | bool() | bytes() if type(value) in (type(None), bool, bytes):
            return value
        case int() if type(value) is int:
            if value.bit_length() > _MAX_INT_BITS:
                raise EncodingError(f"an int in a keyset has at most {_MAX_INT_BITS} bits")
            return value
        case float() if type(value) is float:
            if not math.isfinite(value):
                raise EncodingError("a float in a keyset must be finite")
            return value
        case str() if type(value) is str:
            if _SURROGATE.search(value):
                raise EncodingError("a keyset cannot hold a lone surrogate")
            return value
        case Decimal() if type(value) is Decimal:
            _check_decimal(value)
            return value
        case datetime() if type(value) is datetime:
            return _fixed_offset(value)
        case date() | UUID() if type(value) in (date, UUID):
            return value
        case _:
            raise EncodingError(f"a keyset cannot hold {type(value).__name__}")


def _check_decimal(value: Decimal) -> None:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise EncodingError("a Decimal in a keyset must be finite")
    if len(digits) > _MAX_DIGITS or abs(exponent) > _MAX_EXPONENT:
        raise EncodingError(
            f"a Decimal in a keyset has at most {_MAX_DIGITS} digits and an exponent of at most"
            f" {_MAX_EXPONENT} either way"
        )


def _fixed_offset(value: datetime) -> datetime:
    offset = value.utcoffset()
    if offset is None:
        return value.replace(tzinfo=None, fold=0)
    if offset.microseconds:
        raise EncodingError("a datetime's UTC offset must be whole seconds")
    return value.replace(tzinfo=timezone(offset), fold=0)


def _to_wire(value: KeysetValue) -> Any:
    match value:
        case bool():
            return value
        case int() if not -(2**63) <= value < 2**64:
            size = (value if value >= 0 else ~value).bit_length() // 8 + 1
            return msgpack.ExtType(_BIG_INT, value.to_bytes(size, "big", signed=True))
        case Decimal():
            # The application's decimal context may ask for a small "e".
            return msgpack.ExtType(_DECIMAL, str(value).upper().encode())
        case datetime() if value.tzinfo is None:
            return msgpack.ExtType(_NAIVE, value.isoformat(timespec="microseconds").encode())
        case datetime():
            local = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return msgpack.ExtType(_AWARE, (local + _offset_text(value)).encode())
        case date():
            return msgpack.ExtType(_DATE, value.isoformat().encode())
        case UUID():
            return msgpack.ExtType(_UUID, value.bytes)
        case _:
            return value


def _offset_text(value: datetime) -> str:
    seconds = int((value.utcoffset() or timedelta()).total_seconds())
    minutes, second = divmod(abs(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{'-' if seconds < 0 else '+'}{hour:02}:{minute:02}:{second:02}"


def _from_wire(value: Any) -> KeysetValue:
    """Return a value from its MessagePack form, or raise if that is not its one spelling."""
    if not isinstance(value, msgpack.ExtType):
        return cast(KeysetValue, value)  # `Keyset` checks it.
    found = _PARSERS[value.code](value.data)
    if _to_wire(found) != value:
        raise EncodingError("another spelling of a value")
    return found


def _parse_aware(data: bytes) -> datetime:
    found = _AWARE_TEXT.fullmatch(data.decode("ascii"))
    if found is None:
        raise EncodingError("not an aware datetime")
    local, sign, hour, minute, second = found.groups()
    offset = timedelta(hours=int(hour), minutes=int(minute), seconds=int(second))
    zone = timezone(-offset if sign == "-" else offset)
    return datetime.fromisoformat(local).replace(tzinfo=zone)


_PARSERS: Final[dict[int, Callable[[bytes], KeysetValue]]] = {
    _BIG_INT: lambda data: int.from_bytes(data, "big", signed=True),
    _DECIMAL: lambda data: Decimal(data.decode("ascii")),
    _DATE: lambda data: date.fromisoformat(data.decode("ascii")),
    _NAIVE: lambda data: datetime.fromisoformat(data.decode("ascii")),
    _AWARE: _parse_aware,
    _UUID: lambda data: UUID(bytes=data),
}
