"""What the text of a cursor tells without a key, and without a claim that it is authentic."""

from __future__ import annotations

import base64
import re
from typing import Final

from cursorkit.codecs.base import DEFAULT_MAX_LENGTH, HEADER_BYTES, TAG_BYTES, to_text
from cursorkit.keys import KeyRing

__all__ = ["NoCursorError", "inspect"]

_TEXT: Final = re.compile(r"[A-Za-z0-9_-]+=*")

_SUITES: Final = {
    0x01: "unsigned: anyone can make one (OffsetCodec)",
    0x11: "signed, HMAC-SHA-256 (SignedCodec)",
    0x12: "sealed, AES-256-SIV (SealedCodec)",
}
_UNSIGNED: Final = 0x01


class NoCursorError(ValueError):
    """A text that no codec could have made. The message does not show it."""


def inspect(cursor: str, ring: KeyRing | None = None) -> dict[str, str]:
    """Return what there is to say about a cursor, by name.

    Args:
        cursor: Its text.
        ring: Where its key id is looked up; None to leave that out.

    Raises:
        NoCursorError: If the text is no base64url, or too short to be a cursor of any kind.
    """
    raw = _bytes_of(cursor)
    suite, kid = raw[0], raw[1:HEADER_BYTES]
    canonical = cursor == to_text(raw)
    facts = {
        "text": f"{len(cursor):,} characters",
        "canonical": "yes" if canonical else "no: no codec accepts this spelling",
        "suite": f"0x{suite:02x}, {_SUITES.get(suite, 'unknown: no codec accepts it')}",
        "bytes": _lengths(suite, len(raw)),
    }
    if suite == _UNSIGNED:
        facts["list"] = f"{kid.hex()}, a hash of its purpose, revision and params"
        return facts
    facts["kid"] = kid.hex()
    facts["key"] = _key(kid, ring)
    facts["authentic"] = "not known: that takes what the cursor is bound to, which is not in it"
    return facts


def _bytes_of(cursor: str) -> bytes:
    if not cursor:
        raise NoCursorError('"" is no cursor that any codec makes')
    if len(cursor) > DEFAULT_MAX_LENGTH:
        raise NoCursorError(
            f"no cursor: {len(cursor):,} characters, and a codec reads {DEFAULT_MAX_LENGTH:,}"
            " unless told otherwise"
        )
    text = cursor.rstrip("=")
    if _TEXT.fullmatch(cursor) is None or len(text) % 4 == 1:
        raise NoCursorError("no cursor: the text is no base64url")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) <= HEADER_BYTES:
        raise NoCursorError(f"no cursor: {len(raw)} bytes, and the header alone has {HEADER_BYTES}")
    return raw


def _lengths(suite: int, total: int) -> str:
    tag = 0 if suite == _UNSIGNED else TAG_BYTES
    body = total - HEADER_BYTES - tag
    if suite not in _SUITES:
        return f"{total}"
    if body <= 0:
        return f"{total}: too short for this suite"
    parts = f"{total}: header {HEADER_BYTES}, body {body}"
    return f"{parts}, tag {tag}" if tag else parts


def _key(kid: bytes, ring: KeyRing | None) -> str:
    if ring is None:
        return "not looked up: CURSORKIT_KEYS is not set"
    key = ring.find(kid)
    if key is None:
        return "not in the ring of CURSORKIT_KEYS: its codecs refuse the cursor"
    role = "the primary key" if key is ring.primary else "verify-only"
    return f"{key.name}, {role} in the ring of CURSORKIT_KEYS"
