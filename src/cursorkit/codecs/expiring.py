"""A wrapper that gives every cursor an expiry, and refuses cursors without a fitting one."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil, isfinite
from typing import Final

from cursorkit.binding import Binding
from cursorkit.checks import MAX_TTL, check_int, check_seconds
from cursorkit.codecs.base import CursorCodec, DecodedCursor, check_codec, suites_of
from cursorkit.errors import ConfigurationError, EncodingError
from cursorkit.positions import Position

__all__ = ["ExpiringCodec"]

_SKEW: Final = 60
"""Seconds by which the clocks of two nodes may differ before a fresh cursor is refused."""


class ExpiringCodec:
    """Cursors that live for `ttl` seconds, rounded up so that equal positions stay equal cursors.

    A cursor minted without an expiry gets ``ceil((now + ttl) / quantum) * quantum``. A cursor that
    carries none, or one further away than ``ttl + quantum + 60`` seconds, is refused: whoever could
    mint such a cursor does not run with these settings. All nodes of a service need the same `ttl`
    and `quantum`, or such as differ by less than those 60 seconds.

    Args:
        inner: Mints and reads; it must authenticate, since an expiry that anyone can rewrite
            protects nothing.
        ttl: Seconds, positive and finite.
        quantum: Seconds to which expiries are rounded up, an int of at least 1.
        clock: Returns Unix seconds; asked once an operation, unless the caller gives `now`.

    Raises:
        ConfigurationError: If `inner` does not authenticate, if it would refuse what this codec
            stamps, or if a number is out of range.
    """

    authenticates: bool = True

    def __init__(
        self,
        inner: CursorCodec,
        *,
        ttl: float,
        quantum: int = 60,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_codec(inner, "ExpiringCodec")
        if not inner.authenticates:
            raise ConfigurationError(
                f"ExpiringCodec was given {type(inner).__name__}, whose cursors anyone can rewrite,"
                " the expiry included; wrap SignedCodec instead"
            )
        self._inner = inner
        self._ttl = check_seconds("ttl", ttl, MAX_TTL)
        self._quantum = check_int("quantum (seconds)", quantum, 1, MAX_TTL)
        limit = inner.max_ttl
        if limit is not None and (ttl > limit or ttl + quantum > limit + _SKEW):
            raise ConfigurationError(
                f"ttl is {ttl:g} s and quantum {quantum} s, but the max_ttl of the"
                f" {type(inner).__name__} within is {limit:g} s; lower them or raise its ttl"
            )
        self._clock = clock
        self._furthest = ttl + quantum + _SKEW

    @property
    def max_ttl(self) -> float:
        """The `ttl`."""
        return self._ttl

    @property
    def suites(self) -> frozenset[int]:
        """The suites of the codec within."""
        return suites_of(self._inner)

    def encode(self, position: Position, binding: Binding, *, expires_at: int | None = None) -> str:
        """Mint a cursor, with an expiry where the caller gives none.

        Raises:
            EncodingError: If `expires_at` is further away than this codec would accept, or the
                clock gives NaN or infinity.
        """
        now = self._clock()
        if expires_at is None:
            try:
                expires_at = ceil((now + self._ttl) / self._quantum) * self._quantum
            except (ValueError, OverflowError):
                raise EncodingError("the clock gives no time") from None
        elif not isfinite(now):
            raise EncodingError("the clock gives no time")
        elif type(expires_at) is int and expires_at > now + self._furthest:
            raise EncodingError(
                f"expires_at is further away than ttl + quantum + {_SKEW} s: {self._furthest} s"
            )
        return self._inner.encode(position, binding, expires_at=expires_at)

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        """Return what a living cursor denotes.

        Raises:
            InvalidCursorError: As the inner codec; or without an expiry; or with one too far away.
            ExpiredCursorError: Authentic, but its expiry has come.
        """
        if now is None:
            now = self._clock()
        decoded = self._inner.decode(cursor, binding, now=now)
        if decoded.expires_at is None or decoded.expires_at > now + self._furthest:
            raise decoded.refusal("expiry")
        return decoded
