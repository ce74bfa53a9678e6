"""A near store in front of a far one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.lowlevel

from cursorkit.checks import MAX_TTL, check_seconds
from cursorkit.errors import StoreUnavailableError
from cursorkit.stores.base import (
    SnapshotStore,
    StoredObject,
    VerifiedBlobs,
    VerifiedObject,
    verified,
)

__all__ = ["TieredStore"]

_DEFAULT_MAX_AGE: Final = 300.0


@dataclass(slots=True)
class _Fetch:
    """One request to the far store, and those who wait for its answer."""

    done: anyio.Event = field(default_factory=anyio.Event)
    blobs: dict[bytes, bytes | None] = field(default_factory=dict)
    failure: StoreUnavailableError | None = None


class TieredStore:
    """Reads from `near`, and from `far` what is not near. Never stale: objects are immutable.

    Typically a `MemoryStore`, which bounds the bytes, in front of a `RedisStore`. A page whose
    objects are near costs no round trip. Concurrent misses of one object make one request.

    Args:
        near: Fast and local; may lose anything at any time.
        far: Shared by the nodes.
        max_age: Seconds for which an object is kept near after it was put or fetched. Reads near
            are not seen by the far store: with one that evicts by use, a short age tells it what is
            in use.
        clock: Returns Unix seconds.

    Raises:
        ConfigurationError: If `max_age` is out of range.
    """

    def __init__(
        self,
        near: SnapshotStore,
        far: SnapshotStore,
        *,
        max_age: float = _DEFAULT_MAX_AGE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._near = near
        self._far = far
        self._max_age = check_seconds("max_age", max_age, MAX_TTL)
        self._clock = clock
        self._fetches: dict[object, dict[bytes, _Fetch]] = {}

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        """Keep every object in both stores.

        Raises:
            StoreError: As the far store raises it; the objects are near all the same.
        """
        objects = list(objects)
        await self._near.put(objects, deadline=min(deadline, self._near_deadline()), repair=repair)
        await self._far.put(objects, deadline=deadline, repair=repair)

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the blobs, None where both stores have none.

        Raises:
            StoreError: As the far store raises it, if something is not near.
        """
        near = verified(digests, await self._near.get(digests))
        if None not in near:
            return near
        found = dict(zip(digests, near, strict=True))
        found.update(await self._get_far([digest for digest in found if found[digest] is None]))
        # Both tiers' blobs were verified one by one.
        return VerifiedBlobs(digests, [found[digest] for digest in digests])

    async def _get_far(self, wanted: list[bytes]) -> dict[bytes, bytes | None]:
        found: dict[bytes, bytes | None] = {}
        loop = anyio.lowlevel.current_token()
        while wanted:
            under_way = self._fetches.get(loop, {})
            fetches = {id(under_way[each]): under_way[each] for each in wanted if each in under_way}
            mine = [digest for digest in wanted if digest not in under_way]
            if mine:
                found.update(await self._fetch(mine, loop))
            for fetch in fetches.values():
                await fetch.done.wait()
                found.update(fetch.blobs)
                if (failure := fetch.failure) is not None:
                    # Asked one after another, those who wait would each wait for a timeout more.
                    raise StoreUnavailableError(
                        str(failure), answered=failure.answered
                    ) from failure.__cause__
            # What others asked for in vain (cancelled, or a bad answer) is asked for again.
            wanted = [digest for digest in wanted if digest not in found]
        return found

    async def _fetch(self, digests: list[bytes], loop: object) -> dict[bytes, bytes | None]:
        fetch = _Fetch()
        under_way = self._fetches.setdefault(loop, {})
        under_way.update(dict.fromkeys(digests, fetch))
        try:
            blobs = verified(digests, await self._far.get(digests))
            fetch.blobs = dict(zip(digests, blobs, strict=True))
            there = [VerifiedObject(digest, blob) for digest, blob in fetch.blobs.items() if blob]
            await self._near.put(there, deadline=self._near_deadline())
        except StoreUnavailableError as error:
            fetch.failure = error
            raise
        finally:
            for digest in digests:
                del under_way[digest]
            if not under_way:
                del self._fetches[loop]
            fetch.done.set()
        return fetch.blobs

    def _near_deadline(self) -> int:
        return math.ceil(self._clock() + self._max_age)
