"""Pages of one frozen list, whatever happens to the list meanwhile."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from cursorkit.binding import Binding, check_binding, pae
from cursorkit.checks import MAX_TTL, check_int, check_seconds
from cursorkit.codecs.base import CursorCodec, check_codec
from cursorkit.errors import ConfigurationError, EncodingError, SourceError, StoreDataError
from cursorkit.healing import ListChangedError, Snapshots, SnapshotStats
from cursorkit.items import ItemEncoding, JsonItems
from cursorkit.paginators.first_pages import FirstPage, FirstPages
from cursorkit.paginators.page import Page
from cursorkit.positions import MAX_PAGE_SIZE, SnapshotOffset
from cursorkit.refusals import hosts_own
from cursorkit.snapshots import MAX_ITEMS, Tree, build, encode_items
from cursorkit.stores.base import SnapshotStore

__all__ = ["SnapshotPaginator", "Source", "SourceVersion", "Visible", "settled"]

T = TypeVar("T")
R = TypeVar("R")

Source: TypeAlias = Callable[
    [], Iterable[T] | AsyncIterable[T] | Awaitable[Iterable[T] | AsyncIterable[T]]
]
"""Lists all items, a fresh iterable each time, in a deterministic order.

Called for a first page or to heal, never else.
"""

Visible: TypeAlias = Callable[[Sequence[T]], Sequence[bool] | Awaitable[Sequence[bool]]]
"""Takes items and returns a bool for each, whether it may be shown; asked on every page."""

SourceVersion: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""Changes whenever the list does; at most 256 characters."""

_GRACE: Final = 120
"""Seconds for which objects outlive the cursors that need them: the clocks of nodes differ."""

_CODEC_SKEW: Final = 60
"""Seconds beyond its `max_ttl` up to which an expiring codec surely accepts an expiry."""

_MAX_VERSION: Final = 256

_NO_LISTS: Final = (str, bytes, set, frozenset, Mapping)
"""What can be iterated over, but has no order that is the same everywhere, or is a slip."""

_JSON: Final = JsonItems()


@dataclass(frozen=True, slots=True)
class _Listing(Generic[T]):
    """What one request pages, and how."""

    source: Source[T]
    binding: Binding
    encoding: ItemEncoding[T]
    page_size: int
    key: Callable[[T], Hashable] | None
    visible: Visible[T] | None
    max_pages: int | None
    max_page_bytes: int | None

    def size_for(self, total: int) -> int:
        """Return the walk's page size: large enough for `max_pages`, up to the largest page."""
        if self.max_pages is None:
            return self.page_size
        return min(max(self.page_size, math.ceil(total / self.max_pages)), MAX_PAGE_SIZE)

    def fitting(self, payloads: Sequence[bytes]) -> int:
        """Return how many items from the start fit one page: at least one."""
        if self.max_page_bytes is None:
            return len(payloads)
        left = self.max_page_bytes
        for number, payload in enumerate(payloads):
            left -= len(payload)
            if left < 0:
                return max(number, 1)
        return len(payloads)


class SnapshotPaginator:
    """Walks of one frozen list: every completed walk is the list of its first request.

    The first page lists, freezes and publishes; a later page reads its slice from the store, and
    costs the same however long the list is. Where the store lost the snapshot, cannot be asked, or
    is None, a later page lists again and is served if the list has not changed.

    One paginator may serve any number of lists, and be shared by threads and event loops (asyncio
    and trio) as far as its store may: a `RedisStore` serves one event loop. Nodes that share the
    codec's keys and settings, and the source, continue each other's walks. It stamps expiries of
    its own; an `ExpiringCodec` around its codec adds that no cursor without one, or with one too
    far away, is ever read.

    Args:
        codec: Mints and reads the cursors; it must authenticate.
        store: Where snapshots are kept; None to list again for every page.
        page_size: Items a page, 1 to 10,000.
        ttl: Seconds for which a walk may go on, counted from its first page.
        quantum: Seconds to which expiries are rounded up, so that equal pages of a list have equal
            cursors for that long. At least 1.
        max_items: The longest list, 1 to 1,000,000 items.
        clock: Returns Unix seconds.

    Raises:
        ConfigurationError: If the codec does not authenticate, its `max_ttl` is below `ttl`, or a
            number is out of range.
    """

    def __init__(
        self,
        codec: CursorCodec,
        store: SnapshotStore | None,
        *,
        page_size: int = 50,
        ttl: float = 600,
        quantum: int = 60,
        max_items: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._page_size = check_int("page_size", page_size, 1, MAX_PAGE_SIZE)
        self._ttl = check_seconds("ttl", ttl, MAX_TTL)
        self._quantum = check_int("quantum (seconds)", quantum, 1, MAX_TTL)
        self._max_items = check_int("max_items", max_items, 1, MAX_ITEMS)
        _check_codec(codec, ttl, quantum)
        _check_store(store)
        self._codec = codec
        self._clock = clock
        self._snapshots = Snapshots(store, clock=clock)
        self._stored = store is not None
        self._first_pages = FirstPages()

    @property
    def clock(self) -> Callable[[], float]:
        """Returns Unix seconds: what `Page.expires_at` is to be compared with."""
        return self._clock

    @property
    def stats(self) -> SnapshotStats:
        """What happened to the snapshots so far, for metrics."""
        return self._snapshots.stats

    async def page(
        self,
        cursor: str | None,
        source: Source[T],
        binding: Binding,
        *,
        page_size: int | None = None,
        key: Callable[[T], Hashable] | None = None,
        visible: Visible[T] | None = None,
        max_pages: int | None = None,
        max_page_bytes: int | None = None,
        items: ItemEncoding[T] | None = None,
        source_version: SourceVersion | None = None,
    ) -> Page[T]:
        """Return a page.

        Args:
            cursor: None for the first page; "" is a cursor, and an invalid one.
            source: Lists all items, in a deterministic order. Called for a first page, and to heal.
            binding: What the cursors belong to. It must hold all that decides what the list holds.
            page_size: Overrides the paginator's. A walk under way keeps the size it began with.
            key: Gives what must be unique in the list, for example a name.
            visible: Takes a sequence of items and returns a bool for each, whether it may be shown:
                ``lambda items: [item["owner"] == user for item in items]``, sync or async. Hidden
                items never get into the snapshot; one hidden since is dropped from its page. It
                gets the source's own items on the first page, decoded ones later.
            max_pages: The longest walk; the page size of a longer list grows, up to 10,000.
            max_page_bytes: The most bytes of encoded items a page; it wins over `max_pages`.
            items: How items are encoded; JSON unless given.
            source_version: While it is unchanged, a first page of a list seen before does not call
                the source (but about once per `ttl`, to keep the snapshot stored). Not used where
                `visible` is given: what a principal may see can change without the list.

        Raises:
            CursorError: If the cursor is refused, or its snapshot is gone and the list changed.
            SourceError: If the list cannot be paged: two items with one key, an item that cannot be
                encoded or fits no page, more than `max_items` items, a `visible` that does not
                answer with one bool an item.
            StoreUnavailableError: If the store could not be asked and the list has changed since.
            ConfigurationError: If an argument is out of range.
        """
        check_binding(binding)
        if not callable(source):
            raise ConfigurationError(
                f"source is of type {type(source).__name__}; give a callable that lists, for"
                " example lambda: items"
            )
        listing = _Listing(
            source,
            binding,
            items if items is not None else _JSON,
            _optional_int("page_size", page_size, MAX_PAGE_SIZE) or self._page_size,
            key,
            visible,
            _optional_int("max_pages", max_pages, MAX_ITEMS),
            _optional_int("max_page_bytes", max_page_bytes, 2**53),
        )
        if cursor is not None:
            return await self._next_page(cursor, listing)
        expires_at = self._expiry()
        if source_version is None or visible is not None:
            first = await self._cut_first(listing, expires_at)
        else:
            first = await self._known_first(listing, expires_at, source_version)
        try:
            decoded = [listing.encoding.decode(payload) for payload in first.payloads]
        except StoreDataError:
            raise SourceError("an item does not decode from what it was encoded to") from None
        if first.root is None:
            return Page(decoded, total=first.total)
        following = SnapshotOffset(first.root, len(decoded), first.page_size)
        next_cursor = self._codec.encode(following, binding, expires_at=expires_at)
        return Page(decoded, next_cursor, expires_at, first.total)

    def _expiry(self) -> int:
        now = self._clock()
        if not math.isfinite(now):
            raise EncodingError("the clock gives no time")
        return math.ceil((now + self._ttl) / self._quantum) * self._quantum

    async def _next_page(self, cursor: str, listing: _Listing[T]) -> Page[T]:
        decoded = self._codec.decode(cursor, listing.binding)
        position, expires_at = decoded.expect(SnapshotOffset), decoded.expires_at
        if expires_at is None:
            raise decoded.refusal("expiry")
        try:
            found = await self._snapshots.slice(
                position.root,
                listing.encoding.name,
                position.offset,
                position.page_size,
                relist=lambda: self._relist(listing, position.root),
                binding=listing.binding.associated_data,
                deadline=self._deadline(expires_at),
            )
        except ListChangedError:
            raise decoded.refusal("lost") from None
        if not found.payloads:
            raise decoded.refusal("range")
        taken = listing.fitting(found.payloads)
        try:
            items = [listing.encoding.decode(payload) for payload in found.payloads[:taken]]
        except StoreDataError:
            # Authentic bytes that no longer decode: the items' type has changed since.
            raise decoded.refusal("lost") from None
        if listing.visible is not None:
            with hosts_own():
                items = await _shown(listing.visible, items)
        end = position.offset + taken
        if end >= found.total:
            return Page(items, total=found.total)
        following = SnapshotOffset(position.root, end, position.page_size)
        next_cursor = self._codec.encode(following, listing.binding, expires_at=expires_at)
        return Page(items, next_cursor, expires_at, found.total)

    async def _cut_first(self, listing: _Listing[T], expires_at: int) -> FirstPage:
        """List, freeze and publish."""
        blobs = await self._blobs(listing)
        size = listing.size_for(len(blobs))
        payloads = [blob[1:] for blob in blobs[:size]]
        payloads = payloads[: listing.fitting(payloads)]
        deadline = self._deadline(expires_at)
        root = None
        if len(payloads) < len(blobs):
            tree = await build(blobs, listing.encoding.name)
            if not await self._snapshots.publish(tree, deadline=deadline):
                deadline = 0  # Not kept: the next first page lists again, and publishes.
            root = tree.root
        return FirstPage(payloads, len(blobs), size, root, deadline)

    async def _known_first(
        self, listing: _Listing[T], expires_at: int, source_version: SourceVersion
    ) -> FirstPage:
        """Return the first page of an unchanged list without listing it again."""
        # Asked before the source: a list that changes in between is then cut under an old version,
        # and listed again with the next first page.
        with hosts_own():
            version = await _version(source_version)
        sizes = (listing.page_size, listing.max_pages, listing.max_page_bytes)
        settings = f"{sizes} {listing.key is None}"
        pieces = [
            version.encode("utf-8", "surrogatepass"),
            listing.binding.associated_data,
            listing.encoding.name.encode(),
            settings.encode(),
        ]
        name = hashlib.sha256(pae(pieces)).digest()
        first = self._first_pages.get(name, self._deadline(expires_at))
        if first is None:
            first = await self._cut_first(listing, expires_at)
            self._first_pages.put(name, first)
        return first

    async def _relist(self, listing: _Listing[T], root: bytes) -> Tree:
        if self._stored:
            self._first_pages.forget(root)
        return await build(await self._blobs(listing), listing.encoding.name)

    async def _blobs(self, listing: _Listing[T]) -> list[bytes]:
        """Return the blobs of all that the principal may see.

        Raises:
            SourceError: If the list cannot be paged.
        """
        with hosts_own():
            items = await _collect(listing.source, self._max_items)
            if listing.key is not None:
                _check_unique(items, listing.key)
            if listing.visible is not None:
                items = await _shown(listing.visible, items)
        blobs = await encode_items(items, listing.encoding)
        limit = listing.max_page_bytes
        if limit is not None:
            largest = max(map(len, blobs), default=1) - 1
            if largest > limit:
                raise SourceError(
                    f"an item takes {largest} bytes and fits no page of max_page_bytes={limit}"
                )
        return blobs

    def _deadline(self, expires_at: int) -> int:
        # To a multiple of ttl: a hot list's leases are then extended about once per ttl.
        return math.ceil(math.ceil(expires_at / self._ttl) * self._ttl) + _GRACE


def _check_codec(codec: CursorCodec, ttl: float, quantum: int) -> None:
    check_codec(codec, "SnapshotPaginator")
    if not codec.authenticates:
        raise ConfigurationError(
            f"SnapshotPaginator was given {type(codec).__name__}, whose cursors anyone can make;"
            " give it SignedCodec(KeyRing...), or OffsetPaginator for unsigned offsets"
        )
    limit = codec.max_ttl
    if limit is None:
        return
    if ttl > limit:
        raise ConfigurationError(
            f"ttl is {ttl:g} s, but the codec's max_ttl is {limit:g} s;"
            " raise the codec's ttl or lower the paginator's"
        )
    if ttl + quantum > limit + _CODEC_SKEW:
        raise ConfigurationError(
            f"ttl and quantum are {ttl:g} and {quantum} s together, more than {_CODEC_SKEW} s above"
            f" the codec's max_ttl of {limit:g} s; lower the quantum or raise the codec's ttl"
        )


def _check_store(store: object) -> None:
    methods = [getattr(store, name, None) for name in ("put", "get")]
    if store is not None and (isinstance(store, type) or not all(map(callable, methods))):
        what = store.__name__ if isinstance(store, type) else type(store).__name__
        raise ConfigurationError(
            f"store is {what}; give MemoryStore(), RedisStore(client, namespace=...) over a Redis"
            " client, None to keep nothing, or any SnapshotStore"
        )


def _optional_int(name: str, value: int | None, high: int) -> int | None:
    return None if value is None else check_int(name, value, 1, high)


async def settled(value: R | Awaitable[R]) -> R:
    """Return a value, or what it resolves to: callbacks may be sync or async."""
    return await cast("Awaitable[R]", value) if isinstance(value, Awaitable) else value


async def _collect(source: Source[T], max_items: int) -> list[T]:
    found: Iterable[T] | AsyncIterable[T] = await settled(source())
    items: list[T] = []
    if isinstance(found, AsyncIterable):
        try:
            async for item in found:
                _append(items, item, max_items)
        finally:
            # One that is left half-way keeps what it has open until it is collected as garbage.
            if isinstance(found, AsyncGenerator):
                await found.aclose()
    elif isinstance(found, Iterable) and not isinstance(found, _NO_LISTS):
        for item in found:
            _append(items, item, max_items)
    else:
        kind = type(cast(object, found)).__name__
        raise SourceError(
            f"the source returned {kind}; return a fresh iterable of items, in an order that is the"
            " same on every node"
        )
    return items


def _append(items: list[T], item: T, max_items: int) -> None:
    if len(items) >= max_items:
        raise SourceError(
            f"the source gave more than max_items={max_items} items;"
            f" raise max_items, to {MAX_ITEMS} at most"
        )
    items.append(item)


def _check_unique(items: Sequence[T], key: Callable[[T], Hashable]) -> None:
    seen: set[Hashable] = set()
    for number, item in enumerate(items):
        name = key(item)
        try:
            if name in seen:
                raise SourceError(f"item {number} has the key of an earlier item")
            seen.add(name)
        except TypeError:
            raise SourceError(f"the key of item {number} is not hashable") from None


async def _shown(visible: Visible[T], items: Sequence[T]) -> list[T]:
    answers = await settled(visible(items))
    whole = isinstance(answers, Sequence) and len(answers) == len(items)
    if not whole or not all(type(answer) is bool for answer in answers):
        raise SourceError(
            f"visible must answer with one bool for each of the {len(items)} items it was given"
        )
    return list(compress(items, answers))


async def _version(source_version: SourceVersion) -> str:
    version: Any = source_version
    if callable(source_version):
        version = await settled(source_version())
    if type(version) is not str or not 0 < len(version) <= _MAX_VERSION:
        raise ConfigurationError(
            f"source_version is not a str of 1 to {_MAX_VERSION} characters;"
            " give one that changes whenever the list does"
        )
    return version
