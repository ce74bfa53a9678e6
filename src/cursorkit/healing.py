"""Slices of snapshots from a store, and from the list itself where the store fails.

A snapshot is healed by listing again: if the new list has the root that the cursor names, nothing
has changed, and it serves in place of the stored one, which is repaired. The root proves it, so one
listing serves every waiting page of that snapshot.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio
import anyio.lowlevel

from cursorkit.errors import CursorkitError, StoreError, StoreUnavailableError
from cursorkit.snapshots import MissingObjectError, Slice, Tree, read
from cursorkit.stores.base import SnapshotStore

__all__ = ["ListChangedError", "SnapshotStats", "Snapshots"]

_log: Final = logging.getLogger("cursorkit")

_LEFT_ALONE: Final = 5
"""Seconds for which a store that failed is not asked again."""

_REMEMBERED: Final = 30
"""Seconds for which a list that has changed is not listed again for the same root and binding."""

_REMEMBERED_COUNT: Final = 10_000
"""Failed heals that are remembered, of about 200 bytes each."""


@dataclass(slots=True)
class SnapshotStats:
    """Counts since the start, for a service's metrics.

    Attributes:
        heals: Snapshots served by listing again.
        lost: Walks refused because the list had changed.
        store_failures: Times that the store was found failing; while it is left alone, it is not
            asked.
        bad_answers: Times that the store's answer made no sense.
    """

    heals: int = 0
    lost: int = 0
    store_failures: int = 0
    bad_answers: int = 0


class ListChangedError(Exception):
    """The snapshot is gone, and the list is no longer what it was."""


@dataclass(slots=True)
class _Flight:
    """The one listing that all waiting pages of a root share."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0
    tree: Tree | None = None
    published: bool = False


class _LeftAlone:
    """Whether the store is left alone after a failure. A clock set back ends it, too."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None

    def __bool__(self) -> bool:
        return self._since is not None and abs(self._clock() - self._since) < _LEFT_ALONE

    def start(self) -> None:
        self._since = self._clock()


@contextmanager
def _own_errors() -> Generator[None]:
    """Take an error that no store should raise for a store that is unavailable."""
    try:
        yield
    except (CursorkitError, MissingObjectError):
        raise
    except Exception as error:
        problem = f"it raised {type(error).__name__}, which is no StoreError"
        raise StoreUnavailableError(problem) from error


Relist: TypeAlias = Callable[[], Awaitable[Tree]]
"""Lists again for one principal and binding."""


class Snapshots:
    """Publishes trees to a store and reads slices back, whatever becomes of the store.

    Args:
        store: Where snapshots are kept; None to list again for every page.
        clock: Returns Unix seconds.
    """

    def __init__(self, store: SnapshotStore | None, *, clock: Callable[[], float]) -> None:
        self.stats = SnapshotStats()
        self._store = store
        self._clock = clock
        self._reads_left_alone = _LeftAlone(clock)
        self._writes_left_alone = _LeftAlone(clock)
        self._flights: dict[tuple[bytes, object], _Flight] = {}
        self._changed: OrderedDict[bytes, float] = OrderedDict()

    async def publish(self, tree: Tree, *, deadline: int, repair: bool = False) -> bool:
        """Keep a tree until `deadline`; return False if the store should have and did not.

        A store that fails is logged, not raised: walks of this tree heal.
        """
        if self._store is None:
            return True
        if self._writes_left_alone:
            return False
        try:
            with _own_errors():
                await self._store.put(tree.objects(), deadline=deadline, repair=repair)
        except StoreUnavailableError as error:
            self._failed(error, self._writes_left_alone)
            return False
        except StoreError as error:
            self._bad_answer(error)
            return False
        return True

    async def slice(
        self,
        root: bytes,
        encoding: str,
        offset: int,
        count: int,
        *,
        relist: Relist,
        binding: bytes,
        deadline: int,
    ) -> Slice:
        """Return a slice of a snapshot, from the store or by listing again.

        Args:
            root: Names the snapshot; from an authentic cursor only.
            encoding: The name of the items' encoding.
            offset: Items before the slice.
            count: Items wanted.
            relist: Lists again; called at most once, and only to heal.
            binding: The associated data of the cursor's binding.
            deadline: Until when a healed snapshot is kept, Unix seconds.

        Raises:
            ListChangedError: If the snapshot is gone and the list has changed.
            StoreUnavailableError: If the store could not be asked and the list has changed.
        """
        unavailable = None
        try:
            return await self._stored(root, encoding, offset, count)
        except MissingObjectError:
            pass
        except StoreUnavailableError as error:
            unavailable = error
        try:
            tree = await self._heal(root, relist, binding, deadline)
        except ListChangedError:
            if unavailable is not None:
                raise unavailable from unavailable.__cause__
            self.stats.lost += 1
            raise
        return tree.slice(offset, count)

    async def _stored(self, root: bytes, encoding: str, offset: int, count: int) -> Slice:
        if self._store is None:
            raise MissingObjectError
        if self._reads_left_alone:
            raise StoreUnavailableError("the snapshot store failed moments ago")
        try:
            with _own_errors():
                return await read(self._store, root, encoding, offset, count)
        except StoreUnavailableError as error:
            self._failed(error, self._reads_left_alone)
            raise
        except StoreError as error:
            self._bad_answer(error)
            raise MissingObjectError from None

    def _failed(self, error: StoreUnavailableError, refused: _LeftAlone) -> None:
        affected = (
            [refused] if error.answered else [self._reads_left_alone, self._writes_left_alone]
        )
        if all(affected):
            return  # Many pages were under way when it failed: one failure, told once.
        for kind in affected:
            kind.start()
        self.stats.store_failures += 1
        _log.warning("the snapshot store failed and is left alone for %d s: %s", _LEFT_ALONE, error)

    def _bad_answer(self, error: StoreError) -> None:
        self.stats.bad_answers += 1
        _log.warning("the snapshot store gave a bad answer, taken for none: %s", error)

    async def _heal(self, root: bytes, relist: Relist, binding: bytes, deadline: int) -> Tree:
        """Return the tree of `root` by one listing that all who wait for it share.

        A failure is not shared, and a cancelled leader is followed by the next in the queue.
        """
        failure = hashlib.sha256(root + binding).digest()
        self._refuse_changed(failure)
        flight_key = (root, anyio.lowlevel.current_token())
        flight = self._flights.setdefault(flight_key, _Flight())
        flight.waiting += 1
        try:
            async with flight.lock:
                if flight.tree is None:
                    self._refuse_changed(failure)
                    flight.tree = await self._relist(root, relist, failure)
                if not flight.published:
                    await self.publish(flight.tree, deadline=deadline, repair=True)
                    flight.published = True
                return flight.tree
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                del self._flights[flight_key]

    async def _relist(self, root: bytes, relist: Relist, failure: bytes) -> Tree:
        tree = await relist()
        if tree.root != root:
            self._changed[failure] = self._clock()
            self._changed.move_to_end(failure)
            if len(self._changed) > _REMEMBERED_COUNT:
                self._changed.popitem(last=False)
            raise ListChangedError
        self.stats.heals += 1
        return tree

    def _refuse_changed(self, failure: bytes) -> None:
        """Raise if this root was found changed for this binding a moment ago.

        Without this, one authentic cursor could be replayed into a listing each time.
        """
        since = self._changed.get(failure)
        if since is not None and abs(self._clock() - since) < _REMEMBERED:
            raise ListChangedError
