"""The format `cursorkit/1` a second time, from its description, without cursorkit or msgpack.

What the package mints and reads is compared with this. Nothing here is fast or careful.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESSIV

LABEL = b"cursorkit/1"


@dataclass(frozen=True)
class Ext:
    """A MessagePack extension."""

    code: int
    data: bytes


def hkdf(secret: bytes, info: bytes, length: int) -> bytes:
    """Return HKDF-SHA-256 (RFC 5869) with this project's salt."""
    prk = hmac.digest(LABEL, secret, "sha256")
    out = block = b""
    for counter in range(1, 256):
        block = hmac.digest(prk, block + info + bytes([counter]), "sha256")
        out += block
        if len(out) >= length:
            break
    return out[:length]


def pae(*pieces: bytes) -> bytes:
    """Return PASETO's pre-authentication encoding."""
    return struct.pack("<Q", len(pieces)) + b"".join(
        struct.pack("<Q", len(piece)) + piece for piece in pieces
    )


def piece(value: str | bytes | None) -> bytes:
    """Return a field's piece with its presence byte."""
    if value is None:
        return b"\x00"
    return b"\x01" + (value.encode("utf-8") if isinstance(value, str) else value)


def params_piece(params: Mapping[str, object] | None) -> bytes:
    """Return the piece of the params."""
    if not params:
        return b"\x00"
    flat: list[bytes] = []
    for name in sorted(params, key=str.encode):
        flat += [name.encode(), pack(params[name])]
    return b"\x01" + pae(*flat)


def associated_data(
    purpose: str,
    audience: str | bytes | None = None,
    partition: str | bytes | None = None,
    principal: str | bytes | None = None,
    protocol_version: str | bytes | None = None,
    locale: str | bytes | None = None,
    auth_epoch: str | bytes | None = None,
    params: Mapping[str, object] | None = None,
) -> bytes:
    """Return what is authenticated beside the body."""
    texts = (purpose, audience, partition, principal, protocol_version, locale, auth_epoch)
    return pae(*map(piece, texts), params_piece(params))


def pack(value: Any) -> bytes:
    """Return a value in its shortest MessagePack form, floats in 64 bits, maps in key order."""
    match value:
        case None:
            return b"\xc0"
        case False:
            return b"\xc2"
        case True:
            return b"\xc3"
        case int():
            return _pack_int(value)
        case float():
            return struct.pack(">Bd", 0xCB, value)
        case str():
            raw = value.encode()
            if len(raw) < 32:
                return bytes([0xA0 | len(raw)]) + raw
            return _sized(len(raw), 0xD9, 0xDA, 0xDB) + raw
        case bytes():
            return _sized(len(value), 0xC4, 0xC5, 0xC6) + value
        case list() | tuple():
            members = cast("Sequence[Any]", value)
            return _counted(len(members), 0x90, 0xDC) + b"".join(map(pack, members))
        case dict():
            pairs = sorted(cast("dict[str, Any]", value).items(), key=lambda pair: pair[0].encode())
            return _counted(len(pairs), 0x80, 0xDE) + b"".join(
                pack(name) + pack(member) for name, member in pairs
            )
        case Ext(code, data):
            fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(data))
            head = _sized(len(data), 0xC7, 0xC8, 0xC9) if fixed is None else bytes([fixed])
            return head + struct.pack("b", code) + data
        case _:
            raise TypeError("no form in MessagePack")


def _pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack("b", value)
    unsigned = ((0xCC, ">BB"), (0xCD, ">BH"), (0xCE, ">BI"), (0xCF, ">BQ"))
    signed = ((0xD0, ">Bb"), (0xD1, ">Bh"), (0xD2, ">Bi"), (0xD3, ">Bq"))
    for marker, form in unsigned if value >= 0 else signed:
        try:
            return struct.pack(form, marker, value)
        except struct.error:
            continue
    raise OverflowError(value)


def _sized(size: int, *markers: int) -> bytes:
    width = next(index for index in range(3) if size < 256 ** (1 << index))
    return struct.pack((">BB", ">BH", ">BI")[width], markers[width], size)


def _counted(count: int, fixed: int, marker: int) -> bytes:
    if count < 16:
        return bytes([fixed | count])
    if count < 2**16:
        return struct.pack(">BH", marker, count)
    return struct.pack(">BI", marker + 1, count)


def keyset_value(value: object) -> object:
    """Return a sort-key value as MessagePack carries it."""
    match value:
        case bool():
            return value
        case int() if not -(2**63) <= value < 2**64:
            size = next(n for n in range(9, 200) if -(2 ** (8 * n - 1)) <= value < 2 ** (8 * n - 1))
            return Ext(1, (value % 2 ** (8 * size)).to_bytes(size, "big"))
        case Decimal():
            return Ext(2, str(value).encode())
        case datetime():
            local = (
                f"{value.year:04}-{value.month:02}-{value.day:02}T"
                f"{value.hour:02}:{value.minute:02}:{value.second:02}.{value.microsecond:06}"
            )
            offset = value.utcoffset()
            if offset is None:
                return Ext(4, local.encode())
            seconds = offset.days * 86_400 + offset.seconds
            sign = "-" if seconds < 0 else "+"
            hours, rest = divmod(abs(seconds), 3600)
            return Ext(5, f"{local}{sign}{hours:02}:{rest // 60:02}:{rest % 60:02}".encode())
        case date():
            return Ext(3, f"{value.year:04}-{value.month:02}-{value.day:02}".encode())
        case UUID():
            return Ext(6, value.int.to_bytes(16, "big"))
        case _:
            return value


def text(raw: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unsigned(body: bytes, purpose: str, protocol_version: str | None, params: bytes) -> str:
    """Return the cursor of suite 0x01; `params` is their piece."""
    listed = pae(piece(purpose), piece(protocol_version), params)
    return text(b"\x01" + hashlib.sha256(listed).digest()[:4] + body)


def signed(secret: bytes, body: bytes, data: bytes, *, header: bytes | None = None) -> str:
    """Return the cursor of suite 0x11, under another header if one is given."""
    if header is None:
        header = b"\x11" + hkdf(secret, b"kid", 4)
    key = hkdf(secret, b"hmac-sha256-128", 32)
    tag = hmac.new(key, pae(LABEL, header, data, body), hashlib.sha256).digest()[:16]
    return text(header + body + tag)


def sealed(secret: bytes, body: bytes, data: bytes, *, header: bytes | None = None) -> str:
    """Return the cursor of suite 0x12, under another header if one is given."""
    if header is None:
        header = b"\x12" + hkdf(secret, b"kid", 4)
    cipher = AESSIV(hkdf(secret, b"aes-256-siv", 64))
    return text(header + cipher.encrypt(body, [pae(LABEL, header, data)]))
