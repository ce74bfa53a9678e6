"""What a cursor is tied to, and the bytes that are authenticated but not carried (RFC 5116)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from cursorkit.errors import EncodingError
from cursorkit.packing import packing

__all__ = ["Binding", "ParamValue", "pae"]

ParamValue: TypeAlias = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | list["ParamValue"]
    | tuple["ParamValue", ...]
    | Mapping[str, "ParamValue"]
)
"""A value of `Binding.params`: JSON's types and bytes. Ints fit 64 bits, floats are finite."""

_MAX_DEPTH: Final = 64


def pae(pieces: Iterable[bytes]) -> bytes:
    """Return PASETO's pre-authentication encoding: no two lists of pieces give the same bytes.

    The count of pieces, then the length and the bytes of each; numbers are 8 bytes, little-endian.
    """
    return _joined([_framed(piece) for piece in pieces])


def _framed(piece: bytes) -> bytes:
    return len(piece).to_bytes(8, "little") + piece


def _joined(frames: list[bytes]) -> bytes:
    return len(frames).to_bytes(8, "little") + b"".join(frames)


_ABSENT: Final = _framed(b"\x00")


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

    Attributes:
        associated_data: The bytes that a codec authenticates: the PAE of the eight arguments.

    Raises:
        EncodingError: If a value has no canonical form: text with a lone surrogate, an int beyond
            64 bits, a NaN or infinity, a map key that is not text, a type not listed in
            `ParamValue`, or nesting deeper than 64.
    """

    purpose: str
    audience: str | bytes | None
    partition: str | bytes | None
    principal: str | bytes | None
    protocol_version: str | bytes | None
    locale: str | bytes | None
    auth_epoch: str | bytes | None
    params: Mapping[str, ParamValue] | None
    associated_data: bytes

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
        texts = (purpose, audience, partition, principal, protocol_version, locale, auth_epoch)
        frames = _text_frames(texts)
        frames.append(_framed(b"\x01" + _params(params)) if params else _ABSENT)
        # Not through __setattr__, which refuses, and in one step: a request makes a binding.
        self.__dict__.update(
            purpose=purpose,
            audience=audience,
            partition=partition,
            principal=principal,
            protocol_version=protocol_version,
            locale=locale,
            auth_epoch=auth_epoch,
            params=None if params is None else MappingProxyType(dict(params)),
            associated_data=_joined(frames),
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Binding is immutable; make another with replace()")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Binding is immutable; make another with replace()")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Binding):
            return NotImplemented
        return self.associated_data == other.associated_data

    def __hash__(self) -> int:
        return hash(self.associated_data)

    def __repr__(self) -> str:
        present = [name for name, piece in self.pieces().items() if piece != b"\x00"]
        return f"<Binding of {', '.join(present)}>"

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


def _text_frames(values: Iterable[str | bytes | None]) -> list[bytes]:
    """Return each text's piece with its length before it."""
    try:
        return [
            _ABSENT
            if value is None
            else _framed(b"\x01" + (value if isinstance(value, bytes) else str.encode(value)))
            for value in values
        ]
    except TypeError:
        problem = "a binding holds str, bytes or None, and params"
    except UnicodeEncodeError:
        problem = "text with a lone surrogate cannot be bound"
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
    if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise EncodingError(f"params are a mapping, not {type(params).__name__}")
    pieces: list[bytes] = []
    for name, value in _sorted_items(params):
        pieces.append(name)
        pieces.append(packing.pack(_canonical(value, _MAX_DEPTH)))
    return pae(pieces)


def _sorted_items(mapping: Mapping[str, ParamValue]) -> list[tuple[bytes, ParamValue]]:
    return sorted([(_utf8(name), value) for name, value in mapping.items()], key=itemgetter(0))


def _canonical(value: ParamValue, depth: int) -> Any:
    """Return what MessagePack encodes in one way only, or raise."""
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
        return [_canonical(member, depth - 1) for member in value]
    if isinstance(value, Mapping):
        return {
            name.decode(): _canonical(member, depth - 1) for name, member in _sorted_items(value)
        }
    raise EncodingError(f"params hold JSON's types and bytes, not {type(value).__name__}")
