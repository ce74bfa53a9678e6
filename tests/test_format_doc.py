"""`docs/format.md`: its example, byte for byte, and what it says of numbers."""

from __future__ import annotations

import hmac
import re
from pathlib import Path

from cursorkit import (
    Binding,
    Key,
    KeyRing,
    Keyset,
    Offset,
    OffsetCodec,
    SealedCodec,
    SignedCodec,
)
from cursorkit.binding import pae
from cursorkit.codecs.base import DEFAULT_MAX_LENGTH
from cursorkit.positions import MAX_PAGE_SIZE, encode_body
from tests import independent
from tests.vectors import generate

DOC = Path(__file__).parents[1] / "docs" / "format.md"

SECRET = bytes(range(32))
EXPIRES_AT = 1_800_000_060
KEYSET = Keyset(("é", 300))
BINDING = Binding("tools/list", principal="alice", params={"tag": "new", "limit": -1.5})


def _siv_steps(key: bytes, associated: bytes, body: bytes) -> dict[str, bytes]:
    """Return what AES-SIV computes on the way."""
    zero = generate.cmac(key[:32], bytes(16))
    cmac_associated = generate.cmac(key[:32], associated)
    chain = generate.xor(generate.doubled(zero), cmac_associated)
    last = generate.xor(generate.doubled(chain), (body + b"\x80").ljust(16, b"\0"))
    siv = generate.cmac(key[:32], last)
    counter = bytearray(siv)
    counter[8] &= 0x7F
    counter[12] &= 0x7F
    return {
        "cmac_zero": zero,
        "cmac_associated": cmac_associated,
        "chain": chain,
        "last": last,
        "siv": siv,
        "counter": bytes(counter),
    }


def example() -> dict[str, str]:
    """Return the lines of the example: the package's own values, and the steps between them."""
    key = Key(SECRET)
    ring = KeyRing(key)
    label = b"cursorkit/1"
    data = BINDING.associated_data
    body = encode_body(KEYSET, EXPIRES_AT)
    signed_header, sealed_header = b"\x11" + key.kid, b"\x12" + key.kid
    signed_input = pae([label, signed_header, data, body])
    sealed_associated = pae([label, sealed_header, data])
    sealed = generate.siv(key.siv_key, body, [sealed_associated])
    pieces = BINDING.pieces()
    listed = pae([pieces["purpose"], pieces["protocol_version"], pieces["params"]])
    unsigned_cursor = OffsetCodec().encode(Offset(50), BINDING)
    found: dict[str, bytes] = {
        "secret": SECRET,
        "prk": hmac.digest(label, SECRET, "sha256"),
        "kid": key.kid,
        "hmac_key": key.hmac_key,
        "siv_key": key.siv_key,
        **pieces,
        "associated_data": data,
        "body": body,
        "signed_header": signed_header,
        "signed_input": signed_input,
        "hmac": hmac.digest(key.hmac_key, signed_input, "sha256"),
        "sealed_header": sealed_header,
        "sealed_associated": sealed_associated,
        **_siv_steps(key.siv_key, sealed_associated, body),
        "encrypted_body": sealed[16:],
        "listed": listed,
        "unsigned_header": generate.bytes_of(unsigned_cursor)[:5],
        "unsigned_body": encode_body(Offset(50), None),
    }
    return {name: value.hex() for name, value in found.items()} | {
        "signed_cursor": SignedCodec(ring).encode(KEYSET, BINDING, expires_at=EXPIRES_AT),
        "sealed_cursor": SealedCodec(ring).encode(KEYSET, BINDING, expires_at=EXPIRES_AT),
        "unsigned_cursor": unsigned_cursor,
    }


def test_the_example_is_what_the_package_computes() -> None:
    """Each line of the example has the right bytes, and none is missing."""
    shown = re.findall(
        r"^(\w+) += ([0-9a-zA-Z_-]+)$", DOC.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(shown) == len(example())
    assert dict(shown) == example()


def test_the_steps_of_the_example_lead_to_its_cursors() -> None:
    """Header, body and tag, as the example shows them, are what its cursors spell."""
    shown = example()
    assert shown["signed_cursor"] == independent.text(
        bytes.fromhex(shown["signed_header"] + shown["body"] + shown["hmac"][:32])
    )
    assert shown["sealed_cursor"] == independent.text(
        bytes.fromhex(shown["sealed_header"] + shown["siv"] + shown["encrypted_body"])
    )
    assert shown["unsigned_cursor"] == independent.text(
        bytes.fromhex(shown["unsigned_header"] + shown["unsigned_body"])
    )


def test_its_limits_are_those_of_the_package() -> None:
    """The longest cursor and the largest page are written there as they are in the code."""
    text = DOC.read_text(encoding="utf-8")
    assert f"{DEFAULT_MAX_LENGTH:,} unless configured" in text
    assert f"page_size: an int from 1 to {MAX_PAGE_SIZE:,} " in text
