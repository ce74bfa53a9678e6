"""Every exception of cursorkit.

CursorkitError
├ CursorError              the caller's cursor; always "Invalid or expired cursor" outside
│  ├ InvalidCursorError    malformed, unauthentic, or not for this list
│  ├ ExpiredCursorError    authentic, past its instant
│  └ SnapshotLostError     authentic, its snapshot is gone and the list has changed
├ StoreError               our side: the snapshot store
│  ├ StoreUnavailableError the store cannot be asked, or refuses the command
│  └ StoreDataError        the store answered something that it should not hold
├ SourceError              our side: a list that cannot be paged
├ WalkError                the client's side: a walk was given up, there is no whole list
├ EncodingError            a position or binding without a canonical form
└ ConfigurationError       a setting that cannot work
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = [
    "ConfigurationError",
    "CursorError",
    "CursorkitError",
    "EncodingError",
    "ExpiredCursorError",
    "InvalidCursorError",
    "NotFound",
    "NotRegistered",
    "RefusalReason",
    "SnapshotLostError",
    "SourceError",
    "StoreDataError",
    "StoreError",
    "StoreUnavailableError",
    "WalkError",
    "WalkReason",
]

RefusalReason = Literal[
    "type",  # not a str
    "length",  # longer than the codec's max_length
    "alphabet",  # a character outside base64url, padding included
    "encoding",  # not the canonical base64url spelling, or too short to be a cursor
    "suite",  # another codec's suite byte
    "key",  # a kid that is not in the ring
    "tag",  # altered, or minted for another binding
    "body",  # authentic, but not a canonical position
    "binding",  # the request has no canonical binding
    "expired",  # at or past its expiry
    "expiry",  # without the expiry that the codec demands, or with one too far away
    "kind",  # another kind of position than this list uses
    "range",  # an offset at or past the end of the list
    "lost",  # the snapshot is gone and the list has changed
]
"""Why a cursor was refused. A closed list, for logs only: it never goes to a client."""

WalkReason = Literal[
    "repeated",  # a cursor came twice in one walk: the list would never end
    "dead",  # after a restart, a cursor came that was refused before
    "restarts",  # a cursor was refused again after the last restart
    "pages",  # more than max_pages
    "items",  # more than max_items
    "bytes",  # more than max_bytes
    "seconds",  # longer than max_seconds
    "page",  # a next_cursor that is neither text nor None
]
"""Why a walk was given up. A closed list."""

_OUTSIDE: Final = "Invalid or expired cursor"


class CursorkitError(Exception):
    """The root of everything that cursorkit raises on purpose."""


class CursorError(CursorkitError):
    """A cursor was refused; the caller should start again from the first page.

    `str()` is the same for every refusal, so an error text never tells a forger how far they came.

    Attributes:
        reason: Why, from a closed list. For logs only.
    """

    reason: RefusalReason

    def __init__(self, reason: RefusalReason) -> None:
        self.args = (_OUTSIDE,)
        self.reason = reason

    def __reduce__(self) -> tuple[type[CursorError], tuple[RefusalReason]]:
        return type(self), (self.reason,)


class InvalidCursorError(CursorError):
    """Malformed, wrong suite, unknown key, bad tag, wrong binding, wrong kind or out of range."""


class ExpiredCursorError(CursorError):
    """Authentic, but its expiry has come."""

    def __init__(self, reason: Literal["expired"] = "expired") -> None:
        super().__init__(reason)


class SnapshotLostError(CursorError):
    """Authentic, but its snapshot is gone from the store and the list is no longer the same."""

    def __init__(self, reason: Literal["lost"] = "lost") -> None:
        super().__init__(reason)


class StoreError(CursorkitError):
    """The snapshot store failed; nothing is wrong with the cursor."""


class StoreUnavailableError(StoreError):
    """A connection, timeout, failover, full or forbidden store. Worth a retry.

    The driver's own error is the `__cause__`.

    Attributes:
        answered: True if the server answered and refused this kind of command (full, read-only,
            forbidden), so that the other kind may still work; False if it could not be reached.
    """

    answered: bool

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


class StoreDataError(StoreError):
    """What a store returned is not what was put there. Treated as missing by the paginators."""


class SourceError(CursorkitError):
    """The list itself cannot be paged.

    Two items with one key, an item that cannot be encoded or that fits no page, or too many items.
    """


class NotFound(CursorkitError):  # noqa: N818  # reads as what it says: `raise NotFound`
    """Nothing has this name or URI. Final: no other catalog is asked.

    For handlers of catalogs to raise, too: a template that matches a URI of nothing, for example.
    """


class NotRegistered(NotFound):
    """No entry of this catalog has this name, or matches this URI; another catalog may be asked."""


class WalkError(CursorkitError):
    """A walk was given up by the client's side: there is no whole list.

    Attributes:
        reason: Why, from a closed list.
    """

    reason: WalkReason

    def __init__(self, message: str, reason: WalkReason) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[type[WalkError], tuple[str, WalkReason]]:
        return type(self), (str(self), self.reason)


class EncodingError(CursorkitError, ValueError):
    """A position or a binding has no canonical form, or the cursor would be too long to decode."""


class ConfigurationError(CursorkitError, ValueError):
    """A setting that cannot work; the message says what was given, what is allowed, what to do."""
