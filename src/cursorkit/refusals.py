"""The log of refusals: how a server's author finds out why a cursor was refused.

One WARNING a refusal on the logger ``cursorkit``, and at DEBUG the same line for each cursor that
is minted. Each field of the binding is shown as a fingerprint under a key of the ring: comparing
the two lines shows which field differs, and a reader of the log learns no value.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from cursorkit.binding import Binding
from cursorkit.errors import CursorError, SourceError
from cursorkit.keys import Key

__all__ = ["hosts_own", "is_logged", "log_minted", "log_refused"]

_log: Final = logging.getLogger("cursorkit")

is_logged: Final = _log.isEnabledFor
"""Ask it for the level before calling what logs: a call that logs nothing still costs a page."""

_HASHED_LENGTH: Final = 4096
"""A longer cursor is not hashed: a refusal must not cost more the more it is fed."""


@contextmanager
def hosts_own() -> Generator[None]:
    """Keep a `CursorError` of the host's own code from passing for a refusal of the client.

    A gateway's source, say, pages an upstream: a refusal there is nothing that its client can mend.

    Raises:
        SourceError: In place of a `CursorError`.
    """
    try:
        yield
    except CursorError as error:
        raise SourceError("the host's own code was refused a cursor") from error


def log_minted(cursor: str, binding: Binding, key: Key | None) -> None:
    """Log at DEBUG what a refusal logs at WARNING, so that two lines can be compared."""
    _log.debug("minted cursor: %s", _describe(cursor, binding, key, kid_known=True))


def log_refused(
    error: CursorError,
    cursor: object,
    binding: Binding | None,
    key: Key | None,
    *,
    kid_known: bool,
) -> None:
    """Log one WARNING about a refusal: its reason, and fingerprints to compare, never a value.

    Args:
        error: What is about to be raised.
        cursor: As it came; only a hash of it is logged.
        binding: What it was decoded under.
        key: Keys the fingerprints: the cursor's own key, or the primary where that is unknown.
        kid_known: Whether `key` is the cursor's own.
    """
    described = _describe(cursor, binding, key, kid_known=kid_known)
    _log.warning("refused cursor: reason=%s %s", error.reason, described)


def _describe(cursor: object, binding: Binding | None, key: Key | None, *, kid_known: bool) -> str:
    words = {
        "list": "-" if binding is None else ascii(binding.purpose),
        "kid": key.kid.hex() if key is not None and kid_known else "-",
        "cursor": _short_digest(cursor),
    }
    if binding is not None and key is not None:
        for name, piece in binding.pieces().items():
            absent = piece == b"\x00"
            words[name] = "-" if absent else key.fingerprint(name.encode() + piece).hex()
    return " ".join(f"{name}={word}" for name, word in words.items())


def _short_digest(cursor: object) -> str:
    if type(cursor) is not str or len(cursor) > _HASHED_LENGTH:
        return "-"
    return hashlib.sha256(cursor.encode("utf-8", "surrogatepass")).hexdigest()[:8]
