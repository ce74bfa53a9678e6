"""The unsigned codec: navigation data for lists where nothing depends on the cursor."""

from __future__ import annotations

import hashlib
from logging import DEBUG, WARNING
from typing import Final

from cursorkit.binding import Binding, check_binding, pae
from cursorkit.codecs.base import (
    DEFAULT_MAX_LENGTH,
    HEADER_BYTES,
    DecodedCursor,
    check_max_length,
    from_text,
    to_text,
)
from cursorkit.errors import CursorError, EncodingError, InvalidCursorError
from cursorkit.positions import Offset, Position, decode_body, encode_body
from cursorkit.refusals import is_logged, log_minted, log_refused

__all__ = ["OffsetCodec"]

_SUITE: Final = b"\x01"


class OffsetCodec:
    """Offsets as unsigned cursors.

    **Not tamper-proof.** Anyone can make such a cursor for any offset; nothing but the order of
    pages may depend on it. It carries a hash of the list's purpose, protocol version and params, so
    that a cursor of another list is refused by mistake-catching, not by security; nothing of the
    principal. It has no expiry. For anything else use `SignedCodec`.

    Args:
        max_length: The longest cursor read, in characters.
    """

    authenticates: bool = False
    max_ttl: float | None = None
    suites: frozenset[int] = frozenset(_SUITE)

    def __init__(self, *, max_length: int = DEFAULT_MAX_LENGTH) -> None:
        self._max_length = check_max_length(max_length)

    def encode(self, position: Position, binding: Binding, *, expires_at: int | None = None) -> str:
        """Return the cursor of an `Offset`.

        Raises:
            EncodingError: For another kind of position, or with an expiry: anyone could rewrite it.
            ConfigurationError: If `binding` is no `Binding`.
        """
        check_binding(binding)
        if type(position) is not Offset:
            raise EncodingError(f"OffsetCodec carries Offset only, not {type(position).__name__}")
        if expires_at is not None:
            raise EncodingError("OffsetCodec carries no expiry: anyone could rewrite it")
        # At most 23 characters, which fit every `max_length`.
        cursor = to_text(_header(binding) + encode_body(position, None))
        if is_logged(DEBUG):
            log_minted(cursor, binding, None)
        return cursor

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        """Return the offset of a cursor. `now` is of no use here: such a cursor never expires.

        Raises:
            InvalidCursorError: Malformed, of another list, or anything but an `Offset`.
            ConfigurationError: If `binding` is no `Binding`.
        """
        check_binding(binding)
        try:
            return DecodedCursor(self._read(cursor, binding), None, (cursor, binding, None))
        except CursorError as error:
            if is_logged(WARNING):
                log_refused(error, cursor, binding, None, kid_known=False)
            raise

    def _read(self, cursor: str, binding: Binding) -> Offset:
        raw = from_text(cursor, self._max_length)
        if raw and raw[:1] != _SUITE:
            raise InvalidCursorError("suite")
        if len(raw) <= HEADER_BYTES:
            raise InvalidCursorError("encoding")
        if raw[:HEADER_BYTES] != _header(binding):
            raise InvalidCursorError("tag")
        position, expires_at = decode_body(raw[HEADER_BYTES:])
        if type(position) is not Offset or expires_at is not None:
            raise InvalidCursorError("body")
        return position


def _header(binding: Binding) -> bytes:
    pieces = binding.pieces()
    listed = pae([pieces["purpose"], pieces["protocol_version"], pieces["params"]])
    return _SUITE + hashlib.sha256(listed).digest()[:4]
