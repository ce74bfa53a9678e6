"""A codec that mints in one suite and reads several: how a fleet moves from one to the other."""

from __future__ import annotations

from typing import Final

from cursorkit.binding import Binding
from cursorkit.codecs.base import CursorCodec, DecodedCursor, from_text, suites_of
from cursorkit.errors import ConfigurationError, InvalidCursorError
from cursorkit.positions import Position

__all__ = ["FallbackCodec"]

_UNSIGNED: Final = 0x01


class FallbackCodec:
    """Mints with one codec and reads with several; a cursor's suite picks the one, never a trial.

    To move a fleet from `SignedCodec` to `SealedCodec` without refusing a cursor, each step on
    every node before the next one: ``FallbackCodec(signed, sealed)``, ``FallbackCodec(sealed,
    signed)``, wait as long as a cursor lives, ``sealed``. Both may have the same key ring. Where
    cursors expire, put one `ExpiringCodec` around this, not one around each.

    Args:
        primary: Mints every cursor, and reads those of its suite.
        accept: Read the cursors of the other suites.

    Raises:
        ConfigurationError: If a codec does not authenticate or does not say what suites it reads
            (``suites``, a frozenset of the cursors' first bytes), if two read the same suite, or if
            their `max_ttl` differ: a walk goes on under the primary, with the expiry that it began
            with.
    """

    authenticates: bool = True

    def __init__(self, primary: CursorCodec, *accept: CursorCodec) -> None:
        self._by_suite: dict[int, CursorCodec] = {}
        for codec in (primary, *accept):
            self._add(codec)
        lives = {codec.max_ttl for codec in (primary, *accept)}
        if len(lives) > 1:
            shown = ", ".join(sorted("none" if life is None else f"{life:g} s" for life in lives))
            raise ConfigurationError(
                f"the codecs of a FallbackCodec have different max_ttl: {shown}; put one"
                " ExpiringCodec around the FallbackCodec and none inside"
            )
        self._primary = primary

    def _add(self, codec: CursorCodec) -> None:
        name, suites = type(codec).__name__, suites_of(codec)
        if not codec.authenticates or _UNSIGNED in suites:
            # The suite is looked at too: a wrapper of one's own may claim what it does not hold.
            raise ConfigurationError(
                f"FallbackCodec was given {name}, whose cursors anyone can make: whoever is refused"
                " by one codec would come in by the other; give it SignedCodec or SealedCodec"
            )
        if not suites:
            raise ConfigurationError(
                f"{name} does not say what suites it reads; give it, or the codec within, an"
                " attribute `suites`: a frozenset of its cursors' first bytes, as ints"
            )
        if suites & self._by_suite.keys():
            raise ConfigurationError(
                f"{name} reads a suite that an earlier codec reads; to read the cursors of several"
                " keys, give one codec a KeyRing with all of them"
            )
        self._by_suite |= dict.fromkeys(suites, codec)

    @property
    def max_ttl(self) -> float | None:
        """What all its codecs have."""
        return self._primary.max_ttl

    @property
    def suites(self) -> frozenset[int]:
        """The suites of all its codecs."""
        return frozenset(self._by_suite)

    def encode(self, position: Position, binding: Binding, *, expires_at: int | None = None) -> str:
        """Mint a cursor with the primary codec.

        Raises:
            EncodingError: As the primary codec.
        """
        return self._primary.encode(position, binding, expires_at=expires_at)

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        """Return what a cursor of any of the suites denotes.

        Raises:
            InvalidCursorError: As the codec of the cursor's suite; of another suite.
            ExpiredCursorError: Authentic, but its expiry has come.
        """
        # What has no suite, or an unknown one, the primary refuses: once, with its reason.
        codec = self._by_suite.get(_suite(cursor), self._primary)
        return codec.decode(cursor, binding, now=now)


def _suite(cursor: object) -> int:
    """Return the first byte of a cursor, -1 if it has none."""
    try:
        return from_text(cursor[:4] if type(cursor) is str else cursor, 4)[0]
    except (InvalidCursorError, IndexError):
        return -1
