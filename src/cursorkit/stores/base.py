"""What a snapshot store is: a place that keeps immutable objects until a deadline.

A store knows objects, not lists: the tree that makes a list of them is `cursorkit.snapshots`.
To write a store of your own, implement the two methods of `SnapshotStore` and run
`cursorkit.testing.StoreConformance` over it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, Self

__all__ = [
    "MAX_BLOB_BYTES",
    "SnapshotStore",
    "StoredObject",
    "VerifiedBlobs",
    "VerifiedObject",
    "digest_of",
    "verified",
]

MAX_BLOB_BYTES: Final = 1024 * 1024
"""The largest object, in bytes, kind byte included."""

_DOMAIN_HASHED: Final = hashlib.sha256(b"cursorkit/1:")


def digest_of(blob: bytes) -> bytes:
    """Return the 32-byte name of an object: SHA-256 of ``"cursorkit/1:" ‖ blob``."""
    # A fifth quicker than to join the two.
    hashed = _DOMAIN_HASHED.copy()
    hashed.update(blob)
    return hashed.digest()


class StoredObject(NamedTuple):
    """An immutable blob and its name.

    Attributes:
        digest: `digest_of(blob)`, 32 bytes.
        blob: Kind byte and payload, at most `MAX_BLOB_BYTES`.
        level: Its height in the tree: 0 for items, then nodes, the root last. An object refers
            only to objects of lower levels.
    """

    digest: bytes
    blob: bytes
    level: int = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(digest={self.digest!r}, level={self.level})"


class VerifiedObject(StoredObject):
    """An object whose digest was computed from its blob: a store need not do so again."""

    __slots__ = ()


class VerifiedBlobs(tuple[bytes | None, ...]):
    """Blobs that were checked against `digests`, made by `verified` and by stores that check.

    They vouch for those digests alone: passed on as the answer to others, they are checked again. A
    store of your own that returns them takes over the promise that no blob is another's.
    """

    digests: tuple[bytes, ...]

    def __new__(cls, digests: Sequence[bytes], blobs: Iterable[bytes | None]) -> Self:
        """Keep what was checked together with what it was checked against."""
        self = super().__new__(cls, blobs)
        self.digests = tuple(digests)
        return self


def verified(digests: Sequence[bytes], blobs: Sequence[bytes | None]) -> VerifiedBlobs:
    """Return the blobs, with None for each that does not hash to its digest.

    Blobs that were checked once are not hashed again.
    """
    if isinstance(blobs, VerifiedBlobs) and blobs.digests == tuple(digests):
        return blobs
    if not isinstance(blobs, Sequence) or len(blobs) != len(digests):
        return VerifiedBlobs(digests, [None] * len(digests))
    return VerifiedBlobs(
        digests,
        [
            blob if type(blob) is bytes and digest_of(blob) == digest else None
            for digest, blob in zip(digests, blobs, strict=True)
        ],
    )


class SnapshotStore(Protocol):
    """Keeps objects until a deadline. Both methods are idempotent and safe to repeat."""

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        """Keep every object at least until `deadline`; a lease that is longer is never shortened.

        Args:
            objects: Level by level, children first. A level is stored only after all of the
                level below, so that a root is never there without its children.
            deadline: Absolute Unix seconds.
            repair: Trust no memory of earlier puts: write again what is absent or bad.

        Raises:
            StoreUnavailableError: If the store cannot be asked or refuses. What was stored so
                far stays, and a repeated put completes it.
        """
        ...

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the blobs of `digests`, in their order, None where absent or bad.

        Raises:
            StoreUnavailableError: If the store cannot be asked.
            StoreDataError: If its answer makes no sense at all; callers take it for "all absent".
        """
        ...
