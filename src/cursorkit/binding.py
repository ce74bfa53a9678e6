"""What a cursor is tied to, and the bytes that are authenticated but not carried (RFC 5116)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from cursorkit.errors import ConfigurationError, EncodingError
from cursorkit.packing import packing

__all__ = ["Binding", "ParamValue", "check_binding", "pae"]

ParamValue: TypeAlias = (
    None | bool | int | float | str | bytes | Sequence["ParamValue"] | Mapping[str, "ParamValue"]
)
"""A value of `Binding.params`: JSON's types and bytes.

Ints fit 64 bits, floats are finite, sequences are lists or tuples.
"""

_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 1000
"""Params may come from a client, who must not make a request dear with them."""


def pae(pieces: Iterable[bytes]) -> bytes:
    """Return PASETO's pre-authentication encoding: no two lists of pieces give the same bytes.

    The count of pieces, then the length and the bytes of each; numbers are 8 bytes, little-endian.
    """
    parts = [b""]
    for piece in pieces:
        parts.append(_le64(len(piece)))
        parts.append(piece)
    parts[0] = _le64(len(parts) // 2)
    return b"".join(parts)


def _le64(number: int) -> bytes:
    return number.to_bytes(8, "little")


_FIELDS: Final = (
    "purpose",
    "audience",
    "partition",
    "principal",
    "protocol_version",
    "locale",
    "auth_epoch",
    "params",
)

_FIELD_COUNT: Final = _le64(len(_FIELDS))

_ABSENT: Final = _le64(1) + b"\x00"
"""The whole piece of a field that is not there, its length included."""


def _prefix(size: int) -> bytes:
    """Return what stands before the `size` bytes of a field: its piece's length, and `01`."""
    return _le64(size + 1) + b"\x01"


_PREFIXES: Final = tuple(map(_prefix, range(256)))


class Binding:
    """What a cursor belongs to. A cursor decodes only under a binding with the same bytes.

    None, "" and a missing param are three different things. Text is compared as its UTF-8 bytes,
    nothing is normalised. Nothing of a binding, nor a hash of it, is in a signed or sealed cursor.
    A binding is immutable; bindings with the same bytes are equal.

    Args:
        purpose: The list that is paged, for example ``"tools/list"``.
        audience: The service that mints the cursor.
        partition: The tenant or authorization partition.
        principal: Whom the cursor belongs to, an opaque string from the host.
        protocol_version: The protocol revision spoken.
        locale: The language of the items, where they are localized.
        auth_epoch: Whatever changes when the principal's grants change.
        params: Filters, sort order, and all else that decides what the list holds. What is bound is
            what they are when the binding is made.

    Raises:
        EncodingError: If a value has no canonical form: text with a lone surrogate, an int beyond
            64 bits, a NaN or infinity, a map key that is not text or is there twice, a type not
            listed in `ParamValue`, nesting deeper than 64, or more than 1,000 values in params.
    """

    __slots__ = ("_associated_data", "_params", "_texts")

    def __init__(
        self,
        purpose: str,
        *,
        audience: str | bytes | None = None,
        partition: str | bytes | None = None,
        principal: str | bytes | None = None,
        protocol_version: str | bytes | None = None,
        locale: str | bytes | None = None,
        auth_epoch: str | bytes | None = None,
        params: Mapping[str, ParamValue] | None = None,
    ) -> None:
        if purpose is None:
            raise EncodingError("a binding needs a purpose: the list, for example 'tools/list'")
        texts = (purpose, audience, partition, principal, protocol_version, locale, auth_epoch)
        self._associated_data = _associated_data(texts, params)
        self._texts = texts
        self._params = None if params is None else MappingProxyType(dict(params))

    @property
    def purpose(self) -> str:
        """The list that is paged."""
        return self._texts[0]

    @property
    def audience(self) -> str | bytes | None:
        """The service that mints the cursor."""
        return self._texts[1]

    @property
    def partition(self) -> str | bytes | None:
        """The tenant or authorization partition."""
        return self._texts[2]

    @property
    def principal(self) -> str | bytes | None:
        """Whom the cursor belongs to."""
        return self._texts[3]

    @property
    def protocol_version(self) -> str | bytes | None:
        """The protocol revision spoken."""
        return self._texts[4]

    @property
    def locale(self) -> str | bytes | None:
        """The language of the items."""
        return self._texts[5]

    @property
    def auth_epoch(self) -> str | bytes | None:
        """What changes when the principal's grants change."""
        return self._texts[6]

    @property
    def params(self) -> Mapping[str, ParamValue] | None:
        """What else decides what the list holds."""
        return self._params

    @property
    def associated_data(self) -> bytes:
        """The bytes that a codec authenticates: the PAE of the eight fields in this order."""
        return self._associated_data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Binding):
            return NotImplemented
        return self.associated_data == other.associated_data

    def __hash__(self) -> int:
        return hash(self.associated_data)

    def __repr__(self) -> str:
        present = [name for name, piece in self.pieces().items() if piece != b"\x00"]
        return f"<Binding of {', '.join(present)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        params = None if self._params is None else dict(self._params)
        return _made, (*self._texts, params)

    def replace(self, **changes: Any) -> Binding:
        """Return a binding with some arguments changed, for example ``b.replace(locale="de")``."""
        arguments = {name: getattr(self, name) for name in _FIELDS}
        return Binding(**{**arguments, **changes})

    def pieces(self) -> dict[str, bytes]:
        """Return each field's piece of the associated data: ``00`` absent, ``01`` and its bytes.

        For codecs and their logs; the values are those of the binding, so never log them raw.
        """
        found: dict[str, bytes] = {}
        at = 8
        for name in _FIELDS:
            end = at + 8 + int.from_bytes(self.associated_data[at : at + 8], "little")
            found[name] = self.associated_data[at + 8 : end]
            at = end
        return found


def check_binding(binding: object) -> None:
    """Raise `ConfigurationError` for what is no binding, before a page would need one."""
    if not isinstance(binding, Binding):
        raise ConfigurationError(
            f"binding is of type {type(binding).__name__}; give a Binding, for example"
            " Binding('tools/list', principal=user, audience='catalog')"
        )


def _made(*arguments: Any) -> Binding:
    return Binding(**dict(zip(_FIELDS, arguments, strict=True)))


def _associated_data(
    texts: Sequence[str | bytes | None], params: Mapping[str, ParamValue] | None
) -> bytes:
    """Return the PAE of a binding's fields. Written out, because every request makes a binding."""
    parts = [_FIELD_COUNT]
    try:
        for text in texts:
            if text is None:
                parts.append(_ABSENT)
                continue
            data = text if isinstance(text, bytes) else str.encode(text)
            size = len(data)
            parts.append(_PREFIXES[size] if size < 256 else _prefix(size))
            parts.append(data)
    except TypeError:
        wrong = [
            f"{name} is of type {type(text).__name__}"
            for name, text in zip(_FIELDS, texts, strict=False)
            if not isinstance(text, str | bytes | None)
        ]
        problem = f"a binding holds str, bytes or None, and params; {', '.join(wrong)}"
    except UnicodeEncodeError:
        problem = "text with a lone surrogate cannot be bound"
    else:
        data = b"" if params is None else _params(params)
        parts.append(_prefix(len(data)) + data if data else _ABSENT)
        return b"".join(parts)
    # Raised here, so that the original error, which carries the text, is not its context.
    raise EncodingError(problem)


def _utf8(text: object) -> bytes:
    if not isinstance(text, str):
        raise EncodingError(f"a name in params is text, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    raise EncodingError("text with a lone surrogate cannot be bound")


def _params(params: Mapping[str, ParamValue]) -> bytes:
    """Return the PAE of names and values, nothing if there are none."""
    if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise EncodingError(f"params are a mapping, not {type(params).__name__}")
    pieces: list[bytes] = []
    left = iter(range(_MAX_VALUES))
    for name, value in _sorted_items(params):
        pieces.append(name)
        pieces.append(packing.pack(_canonical(value, _MAX_DEPTH, left)))
    return pae(pieces) if pieces else b""


def _sorted_items(mapping: Mapping[str, ParamValue]) -> list[tuple[bytes, ParamValue]]:
    if len(mapping) > _MAX_VALUES:
        raise EncodingError(f"params hold more than {_MAX_VALUES} values")
    pairs = sorted([(_utf8(name), value) for name, value in mapping.items()], key=itemgetter(0))
    if len(dict(pairs)) < len(pairs):
        raise EncodingError("params have a name twice, as a multi-dict may; give its values a list")
    return pairs


def _canonical(value: ParamValue, depth: int, left: Iterator[int]) -> Any:
    """Return what MessagePack encodes in one way only, or raise."""
    if next(left, None) is None:
        raise EncodingError(f"params hold more than {_MAX_VALUES} values, nested ones included")
    if isinstance(value, str):
        _utf8(value)
        return value
    if value is None or isinstance(value, bool) or isinstance(value, bytes):  # noqa: SIM101  # unions are slow
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise EncodingError("an int in params must fit 64 bits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EncodingError("a float in params must be finite")
        return float(value)
    if depth == 0:
        raise EncodingError(f"params are nested deeper than {_MAX_DEPTH}")
    if isinstance(value, list | tuple):
        return [_canonical(member, depth - 1, left) for member in value]
    if isinstance(value, Mapping):
        return {
            name.decode(): _canonical(member, depth - 1, left)
            for name, member in _sorted_items(value)
        }
    raise EncodingError(f"params hold JSON's types and bytes, not {type(value).__name__}")
