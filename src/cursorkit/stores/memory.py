"""A store in this process's memory."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

import anyio.lowlevel

from cursorkit.checks import check_int
from cursorkit.errors import StoreDataError
from cursorkit.stores.base import StoredObject, VerifiedBlobs, VerifiedObject, digest_of

__all__ = ["MemoryStore"]

_log: Final = logging.getLogger("cursorkit")

_OVERHEAD: Final = 256
"""What an object takes beside its blob, in bytes: the digest, the entry, the objects' headers."""

_YIELD_EVERY: Final = 256
"""Objects hashed and kept between two checkpoints: about a millisecond."""


class MemoryStore:
    """Objects in memory, bounded in bytes; the least recently used ones go first.

    Safe under threads and tasks, and shared by event loops. Expired objects are dropped when they
    are met. An evicted or expired object is absent, never half there: the walk that needs it heals.

    Args:
        max_bytes: The bound, at least 1 MiB. About 1.3 kB an item for tool descriptors.
        clock: Returns Unix seconds.
    """

    def __init__(
        self,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes = check_int("max_bytes", max_bytes, 1024 * 1024, 2**53)
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: OrderedDict[bytes, tuple[bytes, int]] = OrderedDict()
        self._bytes = 0

    @property
    def bytes_used(self) -> int:
        """What the objects take, in bytes, their overhead included."""
        return self._bytes

    def __len__(self) -> int:
        """Return the number of objects held, expired ones that were not met yet included."""
        return len(self._objects)

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        """Keep every object until `deadline`, or until the space is needed.

        Raises:
            StoreDataError: If an object's digest is not that of its blob.
        """
        added = 0
        remaining = iter(objects)
        while batch := list(islice(remaining, _YIELD_EVERY)):
            with self._lock:
                for stored in batch:
                    added += self._keep(stored, deadline)
                self._make_room()
            if len(batch) == _YIELD_EVERY:
                await anyio.lowlevel.checkpoint()
        if added > self._max_bytes:
            _log.warning(
                "one put of %d bytes is larger than the memory store's max_bytes of %d: its walks"
                " will list again for every page; raise max_bytes",
                added,
                self._max_bytes,
            )

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the blobs, None where absent or expired."""
        now = self._clock()
        with self._lock:
            # Verified when they came in, and immutable since.
            return VerifiedBlobs(digests, [self._find(digest, now) for digest in digests])

    def _keep(self, stored: StoredObject, deadline: int) -> int:
        known = self._objects.get(stored.digest)
        if known is not None:
            blob, until = known
            if until < deadline:
                self._objects[stored.digest] = (blob, deadline)
            self._objects.move_to_end(stored.digest)
            return 0
        blob = bytes(stored.blob)
        if type(stored) is not VerifiedObject and digest_of(blob) != stored.digest:
            raise StoreDataError("an object was put under another's digest")
        size = len(blob) + _OVERHEAD
        self._objects[stored.digest] = (blob, deadline)
        self._bytes += size
        if self._bytes > self._max_bytes:
            self._make_room()
        return size

    def _make_room(self) -> None:
        now = self._clock()
        while self._objects:
            digest, (_, until) = next(iter(self._objects.items()))
            if self._bytes <= self._max_bytes and now < until:
                break
            self._drop(digest)

    def _find(self, digest: bytes, now: float) -> bytes | None:
        found = self._objects.get(digest)
        if found is None:
            return None
        blob, until = found
        if not now < until:
            self._drop(digest)
            return None
        self._objects.move_to_end(digest)
        return blob

    def _drop(self, digest: bytes) -> None:
        blob, _ = self._objects.pop(digest)
        self._bytes -= len(blob) + _OVERHEAD
