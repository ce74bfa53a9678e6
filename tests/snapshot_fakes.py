"""What the tests of snapshots share: nodes, lists that count, stores that fail when told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from cursorkit.binding import Binding
from cursorkit.codecs.expiring import ExpiringCodec
from cursorkit.codecs.signed import SignedCodec
from cursorkit.errors import StoreError
from cursorkit.keys import Key, KeyRing
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.stores.base import SnapshotStore, StoredObject, verified
from cursorkit.stores.memory import MemoryStore
from cursorkit.testing.clock import FakeClock

Tool: TypeAlias = dict[str, Any]

RING: Final = KeyRing(Key(bytes(range(32))))
ALICE: Final = Binding("tools/list", principal="alice", audience="catalog")
BOB: Final = ALICE.replace(principal="bob")


def tools(count: int, *, start: int = 0) -> list[Tool]:
    """Return the descriptors of so many tools."""
    return [
        {"name": f"tool-{number}", "title": f"Tool №{number}", "inputSchema": {"type": "object"}}
        for number in range(start, start + count)
    ]


def codec_of(clock: Callable[[], float], *, ttl: float = 600) -> ExpiringCodec:
    """Return the codec that every node has."""
    return ExpiringCodec(SignedCodec(RING, clock=clock), ttl=ttl, clock=clock)


def node(
    store: SnapshotStore | None, clock: Callable[[], float] | None = None, **options: Any
) -> SnapshotPaginator:
    """Return a node of a service; all have the same key ring and, unless told, the same settings.

    Args:
        store: Its own, or one that it shares.
        clock: By default one that stands still.
        options: Of the paginator.
    """
    clock = clock or FakeClock()
    codec = codec_of(clock, ttl=options.get("ttl", 600))
    return SnapshotPaginator(codec, store, clock=clock, **{"page_size": 10, **options})


class Listing:
    """A source: a list that may be changed, and that counts how often it is listed."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)
        self.calls = 0

    def __call__(self) -> list[Any]:
        self.calls += 1
        return list(self.items)


def unused() -> list[Any]:
    """Be the source of a page that must not list."""
    raise AssertionError("the source was called")


async def walk(
    paginator: SnapshotPaginator,
    source: Callable[[], Any],
    binding: Binding = ALICE,
    *,
    cursor: str | None = None,
    **options: Any,
) -> list[Page[Any]]:
    """Return the pages of a walk, from `cursor` to the last."""
    pages: list[Page[Any]] = []
    while True:
        pages.append(await paginator.page(cursor, source, binding, **options))
        cursor = pages[-1].next_cursor
        if cursor is None:
            return pages
        assert len(pages) < 2000, "the walk does not end"


def items_of(pages: Iterable[Page[Any]]) -> list[Any]:
    """Return the items of pages, in order."""
    return [item for page in pages for item in page.items]


class WatchedStore:
    """A memory store that counts its calls, loses objects, and fails when it is told to.

    Attributes:
        put_error: What every put raises, None for none.
        get_error: What every get raises, None for none.
        puts: How often it was asked to put, failures included.
        gets: How often it was asked to get, failures included.
        asked: All digests asked for so far.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.inner = MemoryStore(clock=clock or FakeClock())
        self.put_error: StoreError | None = None
        self.get_error: StoreError | None = None
        self.puts = 0
        self.gets = 0
        self.asked: list[bytes] = []
        self._lost: set[bytes] = set()

    def fail(self, error: StoreError | None) -> None:
        """Raise this from now on, for puts and gets; None ends it."""
        self.put_error = self.get_error = error

    def lose(self, digests: Iterable[bytes]) -> None:
        """Lose some objects; they can be put again."""
        self._lost.update(digests)

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        self.puts += 1
        if self.put_error is not None:
            raise self.put_error
        objects = list(objects)
        self._lost.difference_update(stored.digest for stored in objects)
        await self.inner.put(objects, deadline=deadline, repair=repair)

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        self.gets += 1
        self.asked += digests
        if self.get_error is not None:
            raise self.get_error
        blobs = await self.inner.get(digests)
        return [None if d in self._lost else b for d, b in zip(digests, blobs, strict=True)]


class SharedDict:
    """A store over a dict that several of them may share, as nodes share a server."""

    def __init__(self, objects: dict[bytes, tuple[bytes, int]], clock: FakeClock) -> None:
        self.objects = objects
        self.clock = clock

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        for stored in objects:
            self.keep(stored, deadline, repair=repair)

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return verified(digests, [self.find(digest) for digest in digests])

    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        blob, until = self.objects.get(stored.digest, (stored.blob, 0))
        self.objects[stored.digest] = (stored.blob if repair else blob, max(until, deadline))

    def find(self, digest: bytes) -> bytes | None:
        blob, until = self.objects.get(digest, (b"", 0))
        return blob if self.clock() < until else None
