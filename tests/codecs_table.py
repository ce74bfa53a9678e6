"""The codecs under test. Every test of codecs runs over every row; a new codec adds one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from cursorkit import (
    CursorCodec,
    ExpiringCodec,
    FallbackCodec,
    Key,
    KeyRing,
    OffsetCodec,
    SealedCodec,
    SignedCodec,
)
from tests import independent

SECRET = bytes(range(32))
OLD_SECRET = bytes(range(100, 132))
PRIMARY = Key(SECRET, name="2026-11")
OLD = Key(OLD_SECRET, name="2026-08")
RING = KeyRing(PRIMARY, OLD)


class Make(Protocol):
    """Makes a codec that reads this clock and, where it has keys, this ring."""

    def __call__(
        self, clock: Callable[[], float], *, ring: KeyRing = ..., max_length: int = ...
    ) -> CursorCodec: ...


class Forge(Protocol):
    """Makes an authentic cursor of any body, under another header if one is given."""

    def __call__(
        self, secret: bytes, body: bytes, data: bytes, *, header: bytes | None = None
    ) -> str: ...


@dataclass(frozen=True)
class Row:
    """A codec under test, and what tests must know of it."""

    name: str
    make: Make = field(repr=False)
    suite: bytes
    """The suite byte of its cursors."""
    forge: Forge = field(default=independent.signed, repr=False)
    """Makes a cursor of any body with its key but without it; of an unsigned codec never asked."""
    also: bytes = b""
    """Other suites that it reads."""

    def __str__(self) -> str:
        return self.name


def offset(
    clock: Callable[[], float], *, ring: KeyRing = RING, max_length: int = 4096
) -> CursorCodec:
    """Return an unsigned codec, which has neither clock nor keys."""
    return OffsetCodec(max_length=max_length)


def signed(
    clock: Callable[[], float], *, ring: KeyRing = RING, max_length: int = 4096
) -> CursorCodec:
    """Return a signed codec."""
    return SignedCodec(ring, clock=clock, max_length=max_length)


def expiring(
    clock: Callable[[], float], *, ring: KeyRing = RING, max_length: int = 4096
) -> CursorCodec:
    """Return a signed codec that stamps."""
    return ExpiringCodec(signed(clock, ring=ring, max_length=max_length), ttl=600, clock=clock)


def sealed(
    clock: Callable[[], float], *, ring: KeyRing = RING, max_length: int = 4096
) -> CursorCodec:
    """Return a sealed codec."""
    return SealedCodec(ring, clock=clock, max_length=max_length)


def expiring_fallback(
    clock: Callable[[], float], *, ring: KeyRing = RING, max_length: int = 4096
) -> CursorCodec:
    """Return a codec that stamps sealed cursors, and reads signed ones too."""
    primary = sealed(clock, ring=ring, max_length=max_length)
    other = signed(clock, ring=ring, max_length=max_length)
    return ExpiringCodec(FallbackCodec(primary, other), ttl=600, clock=clock)


CODECS = (
    Row("offset", offset, b"\x01"),
    Row("signed", signed, b"\x11"),
    Row("sealed", sealed, b"\x12", independent.sealed),
    Row("expiring", expiring, b"\x11"),
    Row("expiring-fallback", expiring_fallback, b"\x12", independent.sealed, also=b"\x11"),
)
AUTHENTIC = CODECS[1:]
