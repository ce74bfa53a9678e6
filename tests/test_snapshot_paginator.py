"""Every completed walk is the list of its first request, at the cost of a page a page."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from cursorkit.binding import Binding
from cursorkit.codecs.expiring import ExpiringCodec
from cursorkit.codecs.offset import OffsetCodec
from cursorkit.codecs.signed import SignedCodec
from cursorkit.errors import (
    ConfigurationError,
    EncodingError,
    ExpiredCursorError,
    InvalidCursorError,
    SnapshotLostError,
    SourceError,
    StoreUnavailableError,
)
from cursorkit.items import JsonItems, ModelItems, MsgpackItems
from cursorkit.paginators import first_pages
from cursorkit.paginators.offset import OffsetPaginator
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.positions import MAX_INTEGER, Keyset, Offset, Opaque, Position, SnapshotOffset
from cursorkit.snapshots import build, encode_items
from cursorkit.stores.memory import MemoryStore
from cursorkit.testing.clock import FakeClock
from tests.snapshot_fakes import (
    ALICE,
    BOB,
    RING,
    Listing,
    WatchedStore,
    codec_of,
    items_of,
    node,
    tools,
    unused,
    walk,
)

pytestmark = pytest.mark.anyio


def memory() -> MemoryStore:
    """Return a store in which time stands still."""
    return MemoryStore(clock=FakeClock())


# The ends of lists, and every size of page.


@pytest.mark.both_backends
@pytest.mark.parametrize("total", [0, 1, 2, 5, 12])
async def test_a_walk_is_the_list_at_every_page_size(total: int) -> None:
    """Page sizes 1 to n + 1: full pages, then the rest without a cursor, and no page more."""
    items, paginator = tools(total), node(memory())
    for page_size in range(1, total + 2):
        pages = await walk(paginator, Listing(items), page_size=page_size)
        assert items_of(pages) == items
        assert len(pages) == max(1, math.ceil(total / page_size))
        assert all(len(page.items) == page_size for page in pages[:-1])
        assert all(page.total == total for page in pages)
        assert pages[-1].next_cursor is None
        assert pages[-1].expires_at is None


@pytest.mark.parametrize("total", [254, 255, 256, 511])
@pytest.mark.parametrize("page_size", [85, 100, 255, 256])
async def test_a_walk_is_the_list_across_the_borders_of_nodes(total: int, page_size: int) -> None:
    """Around 255 items, where the tree grows, no item is skipped or repeated."""
    items = tools(total)
    assert items_of(await walk(node(memory()), Listing(items), page_size=page_size)) == items


async def test_a_walk_of_a_tree_of_three_levels_is_the_list() -> None:
    """65,026 items, in pages of 10,000, from the store alone."""
    items = list(range(255 * 255 + 1))
    paginator = node(memory(), max_items=100_000, page_size=10_000)
    first = await paginator.page(None, lambda: items, ALICE)
    assert first.items + items_of(await walk(paginator, unused, cursor=first.next_cursor)) == items


@pytest.mark.parametrize("total", [0, 1, 10])
async def test_a_list_that_fits_one_page_leaves_nothing_behind(total: int) -> None:
    """No snapshot is stored, no cursor is made; an empty list is an empty page."""
    store = WatchedStore()
    page = await node(store).page(None, Listing(tools(total)), ALICE)
    assert page == Page(tools(total), None, None, total)
    assert (store.puts, store.gets) == (0, 0)


async def test_the_first_page_lists_and_no_other_does() -> None:
    """The source is called once a walk, however many pages there are."""
    listing = Listing(tools(95))
    assert len(await walk(node(memory()), listing)) == 10
    assert listing.calls == 1


async def test_an_emptied_list_is_walked_to_its_end() -> None:
    """Every item is deleted after page 1: the walk goes on as it began."""
    paginator, listing = node(memory()), Listing(tools(25))
    page = await paginator.page(None, listing, ALICE)
    listing.items.clear()
    rest = await walk(paginator, listing, cursor=page.next_cursor)
    assert [len(page.items) for page in rest] == [10, 5]
    assert page.items + items_of(rest) == tools(25)


async def test_a_source_in_no_order_gives_each_item_once() -> None:
    """A list that comes in another order each time is walked in the first one."""
    orders = [tools(30), tools(30)[::-1], tools(30)[15:] + tools(30)[:15]]
    pages = await walk(node(memory()), lambda: orders.pop(0))
    assert items_of(pages) == tools(30)
    assert len(orders) == 2


# Cursors.


@pytest.mark.both_backends
async def test_the_same_cursor_gives_the_same_page_ten_times_at_once() -> None:
    """Byte-identical items and next cursor, in turn, at once, and on another node."""
    store = memory()
    one, other = node(store), node(store)
    first = await one.page(None, Listing(tools(35)), ALICE)
    answers: list[Page[Any]] = []

    async def ask(paginator: SnapshotPaginator) -> None:
        answers.append(await paginator.page(first.next_cursor, unused, ALICE))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask, one)
            tasks.start_soon(ask, other)
    for _ in range(3):
        await ask(one)
    assert len(answers) == 23
    assert all(answer == answers[0] for answer in answers)
    assert {JsonItems().encode(answer.items) for answer in answers} == {
        JsonItems().encode(tools(10, start=10))
    }


async def test_first_pages_within_a_quantum_are_byte_identical() -> None:
    """Cursors of one list are equal for a minute, so a client that fetches again sees no change."""
    clock = FakeClock(1_800_000_001)
    paginator = node(MemoryStore(clock=clock), clock)
    first = await paginator.page(None, Listing(tools(35)), ALICE)
    assert first.expires_at == 1_800_000_660
    clock.advance(59)
    assert await paginator.page(None, Listing(tools(35)), ALICE) == first
    clock.advance(1)
    later = await paginator.page(None, Listing(tools(35)), ALICE)
    assert later.expires_at == 1_800_000_720
    assert later.next_cursor != first.next_cursor


async def test_a_walk_ends_with_the_expiry_of_its_first_page() -> None:
    """Each cursor of a walk has the same expiry, and none is valid at that instant."""
    clock = FakeClock(1_800_000_000)
    paginator = node(MemoryStore(clock=clock), clock)
    first = await paginator.page(None, Listing(tools(35)), ALICE)
    clock.advance(599)
    second = await paginator.page(first.next_cursor, unused, ALICE)
    assert second.expires_at == first.expires_at == 1_800_000_600
    clock.advance(1)
    for cursor in (first.next_cursor, second.next_cursor):
        with pytest.raises(ExpiredCursorError):
            await paginator.page(cursor, unused, ALICE)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        b"",
        0,
        False,
        True,
        [],
        {},
        1.5,
        "bogus",
        "MA",
        "AQAAAACTAcAK",
        "\u0661",
        "A" * 1_000_000,
    ],
    ids=range(13),
)
async def test_what_is_no_cursor_is_never_the_first_page(cursor: Any) -> None:
    """The empty string, other falsy values and garbage are refused, and nothing is listed."""
    with pytest.raises(InvalidCursorError):
        await node(memory()).page(cursor, unused, ALICE)


OTHER_POSITIONS: list[Position] = [Offset(0), Offset(10), Keyset(("a",)), Opaque(b"\x93")]


@pytest.mark.parametrize("position", OTHER_POSITIONS, ids=repr)
async def test_another_kind_of_position_is_invalid(position: Position) -> None:
    """An authentic cursor of another paginator is refused before the store is asked."""
    store = WatchedStore()
    with pytest.raises(InvalidCursorError) as failure:
        await node(store).page(codec_of(FakeClock()).encode(position, ALICE), unused, ALICE)
    assert failure.value.reason == "kind"
    assert store.gets == 0


@pytest.mark.parametrize("offset", [35, 36, 2**31, 2**32, MAX_INTEGER])
@pytest.mark.parametrize("lost", [False, True])
async def test_an_offset_at_or_past_the_end_is_invalid(offset: int, lost: bool) -> None:
    """An authentic cursor beyond the list is refused, from the store and after a heal alike."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    await walk(paginator, listing)
    root = (await build(await encode_items(listing.items, JsonItems()), "json")).root
    if lost:
        store.lose(store.asked)
    cursor = codec_of(FakeClock()).encode(SnapshotOffset(root, offset, 10), ALICE)
    with pytest.raises(InvalidCursorError) as failure:
        await paginator.page(cursor, listing, ALICE)
    assert failure.value.reason == "range"


async def test_a_cursor_without_an_expiry_is_invalid() -> None:
    """A codec that asks for none is no way around it: the store keeps nothing for ever."""
    clock = FakeClock()
    codec, listing = SignedCodec(RING, clock=clock), Listing(tools(35))
    paginator = SnapshotPaginator(codec, memory(), page_size=10, clock=clock)
    await walk(paginator, listing)
    root = (await build(await encode_items(listing.items, JsonItems()), "json")).root
    with pytest.raises(InvalidCursorError) as failure:
        await paginator.page(codec.encode(SnapshotOffset(root, 10, 10), ALICE), listing, ALICE)
    assert failure.value.reason == "expiry"


async def test_a_cursor_is_refused_under_every_other_binding() -> None:
    """Another list, principal, audience, partition, version, locale, epoch or filter: refused."""
    paginator = node(memory())
    first = await paginator.page(None, Listing(tools(35)), ALICE)
    changes: dict[str, Any] = {
        "purpose": "prompts/list",
        "principal": "bob",
        "audience": "other",
        "partition": "",
        "protocol_version": "2026-07-28",
        "locale": "de",
        "auth_epoch": "2",
        "params": {"tag": "new"},
    }
    for field, value in changes.items():
        with pytest.raises(InvalidCursorError):
            await paginator.page(first.next_cursor, unused, ALICE.replace(**{field: value}))


async def test_cursors_grow_by_the_digits_of_the_offset_alone() -> None:
    """The last page's cursor of a long walk is hardly longer than the first's."""
    pages = await walk(node(memory(), page_size=1), Listing(range(1000)))
    lengths = [len(page.next_cursor or "") for page in pages[:-1]]
    assert max(lengths) - min(lengths) <= 4
    assert max(lengths) < 100


# Sizes of pages.


async def test_a_walk_keeps_the_page_size_it_began_with() -> None:
    """After a change of settings, on any node, walks under way go on with theirs."""
    store = memory()
    first = await node(store, page_size=10).page(None, Listing(tools(35)), ALICE)
    other = node(store, page_size=3)
    rest = await walk(other, unused, cursor=first.next_cursor, page_size=7)
    assert [len(page.items) for page in rest] == [10, 10, 5]


@pytest.mark.parametrize(
    ("total", "page_size", "max_pages", "sizes"),
    [
        (100, 10, None, [10] * 10),
        (100, 10, 10, [10] * 10),
        (101, 10, 10, [11] * 9 + [2]),
        (100, 10, 3, [34, 34, 32]),
        (100, 10, 1, [100]),
        (5, 10, 1, [5]),
        (100, 50, 64, [50, 50]),
    ],
)
async def test_the_page_size_grows_to_fit_max_pages(
    total: int, page_size: int, max_pages: int | None, sizes: list[int]
) -> None:
    """A walk has at most `max_pages` pages; a list that needs fewer keeps its page size."""
    pages = await walk(
        node(memory()), Listing(range(total)), page_size=page_size, max_pages=max_pages
    )
    assert [len(page.items) for page in pages] == sizes
    assert items_of(pages) == list(range(total))


async def test_the_largest_page_wins_over_max_pages() -> None:
    """A page never has more than 10,000 items, whatever `max_pages` asks for."""
    paginator = node(memory(), max_items=30_000)
    pages = await walk(paginator, Listing(range(25_000)), max_pages=1)
    assert [len(page.items) for page in pages] == [10_000, 10_000, 5_000]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(2, [1] * 9), (3, [1] * 9), (4, [2, 2, 2, 2, 1]), (9, [4, 4, 1]), (99, [9])],
)
async def test_max_page_bytes_cuts_pages_short(limit: int, sizes: list[int]) -> None:
    """A page has as many items as fit, in bytes as they are stored; it wins over the page size."""
    items = list(range(10, 19))
    pages = await walk(node(memory()), Listing(items), max_page_bytes=limit)
    assert [len(page.items) for page in pages] == sizes
    assert items_of(pages) == items


async def test_max_page_bytes_wins_over_max_pages() -> None:
    """Where both are given a walk may be longer than `max_pages`, and no page is over its bytes."""
    pages = await walk(node(memory()), Listing(range(10, 30)), max_pages=2, max_page_bytes=10)
    assert [len(page.items) for page in pages] == [5, 5, 5, 5]


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=30),
    page_size=st.integers(1, 10),
    spare=st.integers(0, 60),
)
async def test_pages_of_bounded_bytes_are_the_list(
    sizes: list[int], page_size: int, spare: int
) -> None:
    """Whatever the items' sizes, no page is over its bytes or its items, and none is empty."""
    items = ["x" * size for size in sizes]
    limit = max(sizes) + 2 + spare
    pages = await walk(node(memory()), Listing(items), page_size=page_size, max_page_bytes=limit)
    assert items_of(pages) == items
    for page in pages:
        assert 1 <= len(page.items) <= page_size
        assert sum(len(item) + 2 for item in page.items) <= limit


async def test_an_item_that_fits_no_page_is_an_error_before_any_cursor() -> None:
    """Wherever in the list it stands, the first page is refused; it is not found on page three."""
    items = [*tools(25), {"name": "x" * 1000}]
    with pytest.raises(SourceError) as failure:
        await node(memory()).page(None, Listing(items), ALICE, max_page_bytes=1010)
    assert str(failure.value) == "an item takes 1011 bytes and fits no page of max_page_bytes=1010"
    assert len(await walk(node(memory()), Listing(items), max_page_bytes=1011)) > 1


async def test_a_later_page_of_fewer_bytes_has_one_item_at_least() -> None:
    """A limit that was lowered since the walk began does not stop it."""
    paginator = node(memory())
    first = await paginator.page(None, Listing(range(10, 13)), ALICE, max_page_bytes=2)
    rest = await walk(paginator, unused, cursor=first.next_cursor, max_page_bytes=1)
    assert [page.items for page in rest] == [[11], [12]]


async def test_an_empty_list_fits_any_page() -> None:
    """The largest of no items is not over the limit."""
    page = await node(memory()).page(None, Listing([]), ALICE, max_page_bytes=1)
    assert page == Page([], None, None, 0)


async def test_bytes_are_counted_before_items_are_hidden() -> None:
    """A page is not filled up with what stands after a hidden item: its end is the same for all."""
    paginator = node(memory())
    first = await paginator.page(None, Listing(range(10, 19)), ALICE, max_page_bytes=6)
    second = await paginator.page(
        first.next_cursor, unused, ALICE, max_page_bytes=6, visible=lambda items: [False] * 3
    )
    third = await paginator.page(second.next_cursor, unused, ALICE, max_page_bytes=6)
    assert [page.items for page in (first, second, third)] == [[10, 11, 12], [], [16, 17, 18]]


# Lists that cannot be paged.


async def test_two_items_with_one_key_are_refused() -> None:
    """Nothing is served or stored; the message says which item, not its key."""
    store = WatchedStore()
    items = [*tools(25), tools(1)[0]]
    with pytest.raises(SourceError, match=r"^item 25 has the key of an earlier item$"):
        await node(store).page(None, Listing(items), ALICE, key=itemgetter("name"))
    assert store.puts == 0
    pages = await walk(node(store), Listing(items[:25]), key=itemgetter("name"))
    assert items_of(pages) == items[:25]
    assert items_of(await walk(node(memory()), Listing(items))) == items, "without a key it is fine"


async def test_a_key_is_unique_even_among_hidden_items() -> None:
    """A duplicate that the principal may not see is a duplicate."""

    def visible(items: Sequence[int]) -> list[bool]:
        return [True, True, False]

    options: dict[str, Any] = {"key": int, "visible": visible}
    with pytest.raises(SourceError):
        await node(memory()).page(None, Listing([1, 2, 1]), ALICE, **options)
    assert (await node(memory()).page(None, Listing([1, 2, 3]), ALICE, **options)).items == [1, 2]


@pytest.mark.parametrize("total", [5, 25])
@pytest.mark.parametrize("bad", [object(), math.nan, b"bytes", {1}, "\ud800"], ids=range(5))
async def test_an_item_that_cannot_be_encoded_is_refused(total: int, bad: Any) -> None:
    """Wherever it stands, in a list of one page too, the first page is an error."""
    store = WatchedStore()
    with pytest.raises(SourceError):
        await node(store).page(None, Listing([*range(total), bad]), ALICE)
    assert store.puts == 0


async def test_an_item_larger_than_an_object_is_refused() -> None:
    """More than 1 MiB is a `SourceError` on the first page."""
    with pytest.raises(SourceError, match="item 20 takes"):
        await node(memory()).page(None, Listing([*range(20), "x" * 2**20]), ALICE)


@pytest.mark.parametrize("lazy", [False, True])
async def test_a_list_of_more_than_max_items_is_refused(lazy: bool) -> None:
    """`max_items` exactly is served; one more is an error, and an endless source is left."""
    paginator = node(memory(), max_items=25)
    assert items_of(await walk(paginator, Listing(range(25)))) == list(range(25))
    given_out: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            given_out.append(len(given_out))
            yield given_out[-1]

    with pytest.raises(SourceError) as failure:
        await paginator.page(None, endless if lazy else Listing(range(26)), ALICE)
    assert str(failure.value) == (
        "the source gave more than max_items=25 items; raise max_items, to 1000000 at most"
    )
    assert len(given_out) == (26 if lazy else 0)


class Unreadable(JsonItems):
    """An encoding of a user's own that does not read what it writes."""

    def encode(self, item: Any, /) -> bytes:
        return super().encode(item)[:-1]


@pytest.mark.parametrize("total", [5, 25])
async def test_an_encoding_that_does_not_read_what_it_writes_is_the_lists_error(total: int) -> None:
    """It is a `SourceError`, not an error of the store, and no page is served."""
    listing = Listing("x" * total)
    with pytest.raises(SourceError) as failure:
        await node(memory()).page(None, listing, ALICE, items=Unreadable())
    assert str(failure.value) == "an item does not decode from what it was encoded to"


async def test_an_error_of_the_source_is_passed_on_as_it_is() -> None:
    """The host's own errors are the host's: unchanged, on a first page and when healing."""

    def broken() -> list[Any]:
        raise PermissionError("not allowed")

    with pytest.raises(PermissionError, match="not allowed"):
        await node(memory()).page(None, broken, ALICE)


# Sources, and what they give.


async def as_awaitable() -> list[Any]:
    """List after a pause."""
    await anyio.lowlevel.checkpoint()
    return tools(25)


def as_generator() -> Iterator[Any]:
    """List one by one."""
    yield from tools(25)


async def as_async_generator() -> AsyncIterator[Any]:
    """List one by one, with pauses."""
    for item in tools(25):
        await anyio.lowlevel.checkpoint()
        yield item


async def as_awaitable_of_an_async_generator() -> AsyncIterator[Any]:
    """Open something, and then list from it."""
    await anyio.lowlevel.checkpoint()
    return as_async_generator()


class AsAsyncIterable:
    """An async iterable that is no generator, a driver's cursor for example."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return as_async_generator()


SOURCES: dict[str, Callable[[], Any]] = {
    "list": lambda: tools(25),
    "tuple": lambda: tuple(tools(25)),
    "generator": as_generator,
    "iterator": lambda: iter(tools(25)),
    "dict values": {item["name"]: item for item in tools(25)}.values,
    "awaitable": as_awaitable,
    "async generator": as_async_generator,
    "async iterable": AsAsyncIterable,
    "awaitable of an async generator": as_awaitable_of_an_async_generator,
}


@pytest.mark.both_backends
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
async def test_every_kind_of_source_is_listed(source: Callable[[], Any]) -> None:
    """Sync and async, at once or one by one, a source gives the same walk, and heals it."""
    paginator = node(memory())
    pages = await walk(paginator, source)
    assert items_of(pages) == tools(25)
    assert await walk(node(None), source, cursor=pages[0].next_cursor) == pages[1:]


@pytest.mark.both_backends
async def test_an_async_source_that_is_left_half_way_is_closed() -> None:
    """What a generator has open is closed before the error leaves, not when it is collected."""
    closed: list[bool] = []

    async def endless() -> AsyncGenerator[int]:
        try:
            while True:
                await anyio.lowlevel.checkpoint()
                yield 1
        finally:
            closed.append(True)

    with pytest.raises(SourceError, match="max_items"):
        await node(memory(), max_items=25).page(None, endless, ALICE)
    assert closed == [True]


class Tool(BaseModel):
    """A descriptor."""

    name: str
    hints: dict[str, Any] = {}


async def test_items_are_what_the_encoding_gives_on_every_page() -> None:
    """The first page too is decoded: types do not change in the middle of a walk."""
    pages = await walk(node(memory()), Listing((number, "x") for number in range(25)))
    assert items_of(pages) == [[number, "x"] for number in range(25)]
    rows: list[dict[Any, Any]] = [{number: b"raw"} for number in range(25)]
    assert items_of(await walk(node(memory()), Listing(rows), items=MsgpackItems())) == rows
    models = [Tool(name=str(number), hints={"n": 2**70}) for number in range(25)]
    assert items_of(await walk(node(memory()), Listing(models), items=ModelItems(Tool))) == models


async def test_changing_the_items_of_a_page_changes_no_other_page() -> None:
    """Pages are copies: neither the source's items nor the snapshot's can be reached by them."""
    paginator, listing = node(memory()), Listing(tools(25))
    first = await paginator.page(None, listing, ALICE, source_version="1")
    first.items[0]["name"] = "changed"
    again = await paginator.page(None, listing, ALICE, source_version="1")
    assert again.items == tools(10)
    assert listing.items == tools(25)


async def test_a_snapshot_of_another_encoding_is_not_read() -> None:
    """A node that encodes otherwise heals by its own list, finds another root, and refuses."""
    store, listing = memory(), Listing(tools(25))
    first = await node(store).page(None, listing, ALICE)
    with pytest.raises(SnapshotLostError):
        await node(store).page(first.next_cursor, listing, ALICE, items=MsgpackItems())


class Renamed(BaseModel):
    """The descriptor after a deployment that renamed its field."""

    label: str


async def test_items_that_no_longer_decode_are_lost() -> None:
    """A snapshot that an older version of the server made is refused, not half read."""
    store, models = memory(), [Tool(name=str(number)) for number in range(25)]
    first = await node(store).page(None, Listing(models), ALICE, items=ModelItems(Tool))
    with pytest.raises(SnapshotLostError):
        await node(store).page(first.next_cursor, unused, ALICE, items=ModelItems(Renamed))


# What a principal may see.


async def test_hidden_items_never_get_into_the_snapshot() -> None:
    """A walk is what is visible, its total and its root too."""
    paginator, store = node(memory()), memory()
    even: Callable[[Sequence[int]], list[bool]] = lambda items: [i % 2 == 0 for i in items]  # noqa: E731
    pages = await walk(paginator, Listing(range(50)), visible=even)
    assert items_of(pages) == list(range(0, 50, 2))
    assert [page.total for page in pages] == [25, 25, 25]
    plain = await walk(node(store), Listing(range(0, 50, 2)))
    assert [page.next_cursor for page in pages] == [page.next_cursor for page in plain]


@pytest.mark.parametrize("total", [5, 25])
async def test_visible_is_asked_on_every_page(total: int) -> None:
    """On a first page of all items, a single page too; on later pages of that page's items."""
    asked: list[list[int]] = []

    def visible(items: Sequence[int]) -> list[bool]:
        asked.append(list(items))
        return [True] * len(items)

    await walk(node(memory()), Listing(range(total)), visible=visible)
    later = [list(range(10, 20)), list(range(20, 25))] if total == 25 else []
    assert asked == [list(range(total)), *later]


async def test_an_item_hidden_since_is_dropped_and_the_walk_goes_on() -> None:
    """A page may be short, or empty, and has a next cursor; the others are as they were."""
    paginator, listing, hidden = node(memory()), Listing(range(40)), set[int]()

    async def visible(items: Sequence[int]) -> list[bool]:
        await anyio.lowlevel.checkpoint()
        return [item not in hidden for item in items]

    first = await paginator.page(None, listing, ALICE, visible=visible)
    hidden.update([1, 12, *range(20, 30)])
    rest = await walk(paginator, unused, cursor=first.next_cursor, visible=visible)
    assert [page.items for page in rest] == [
        [10, 11, *range(13, 20)],
        [],
        list(range(30, 40)),
    ]
    assert all(page.next_cursor for page in rest[:-1])
    assert len({page.next_cursor for page in rest}) == 3


async def test_an_item_hidden_since_is_not_served_by_a_heal() -> None:
    """With the snapshot lost, a principal who may see less now is refused, not served the rest."""
    store, listing, hidden = WatchedStore(), Listing(range(40)), set[int]()
    paginator = node(store)

    def visible(items: Sequence[int]) -> list[bool]:
        return [item not in hidden for item in items]

    pages = await walk(paginator, listing, visible=visible)
    store.lose(store.asked)
    hidden.add(35)
    with pytest.raises(SnapshotLostError):
        await paginator.page(pages[0].next_cursor, listing, ALICE, visible=visible)


WRONG_ANSWERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "too short": lambda items: [True] * (len(items) - 1),
    "too long": lambda items: [True] * (len(items) + 1),
    "empty": lambda _: [],
    "ints": lambda items: [1] * len(items),
    "None": lambda items: [None] * len(items),
    "text": lambda items: ["False"] * len(items),
    "one of them": lambda items: [*[True] * (len(items) - 1), None],
    "a string": lambda items: "x" * len(items),
    "no list": lambda _: True,
    "nothing": lambda _: None,
    "a generator": lambda items: (True for _ in items),
}


@pytest.mark.parametrize("answer", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
@pytest.mark.parametrize("total", [5, 25])
async def test_a_visible_that_answers_wrongly_serves_nothing(
    answer: Callable[[Sequence[Any]], Any], total: int
) -> None:
    """Anything but one bool an item is a `SourceError`, on first and later pages."""
    store, listing = WatchedStore(), Listing(range(total))
    paginator = node(store)
    problem = r"^visible must answer with one bool for each of the {} items it was given$"
    with pytest.raises(SourceError, match=problem.format(total)):
        await paginator.page(None, listing, ALICE, visible=answer)
    assert store.puts == 0
    first = await paginator.page(None, listing, ALICE)
    if first.next_cursor is not None:
        with pytest.raises(SourceError, match=problem.format(10)):
            await paginator.page(first.next_cursor, unused, ALICE, visible=answer)


async def test_a_visible_that_raises_serves_nothing() -> None:
    """Its error is passed on; it never means "shown" or "hidden"."""

    def visible(items: Sequence[int]) -> list[bool]:
        raise ConnectionError("the directory is down")

    paginator, listing = node(memory()), Listing(range(25))
    first = await paginator.page(None, listing, ALICE)
    for cursor in (None, first.next_cursor):
        with pytest.raises(ConnectionError, match="directory"):
            await paginator.page(cursor, listing, ALICE, visible=visible)


# Lists that say when they have changed.


@pytest.mark.parametrize("total", [0, 5, 10, 35])
async def test_an_unchanged_source_version_lists_once(total: int) -> None:
    """First pages of a list seen before are served without the source, single pages too."""
    paginator, listing = node(memory()), Listing(tools(total))
    first = await paginator.page(None, listing, ALICE, source_version="1")
    for _ in range(5):
        assert await paginator.page(None, unused, ALICE, source_version="1") == first
    listing.items.append({"name": "new"})
    assert items_of(await walk(paginator, listing, source_version="2")) == listing.items
    assert listing.calls == 2


@pytest.mark.both_backends
async def test_a_source_version_may_be_asked_for() -> None:
    """A callable, sync or async, is asked on each first page, and on no other."""
    asked = 0

    def version() -> str:
        nonlocal asked
        asked += 1
        return "same"

    async def later() -> str:
        await anyio.lowlevel.checkpoint()
        return version()

    for source_version in (version, later):
        paginator, listing, asked = node(memory()), Listing(tools(35)), 0
        for _ in range(3):
            pages = await walk(paginator, listing, source_version=source_version)
            assert items_of(pages) == tools(35)
        assert (listing.calls, asked) == (1, 3)


async def test_the_source_version_is_asked_before_the_source() -> None:
    """A list that changes in between is listed again by the next first page, not kept for ever."""
    paginator, listing, version = node(memory()), Listing(tools(35)), ["1"]

    def source() -> list[Any]:
        version[0] = "2"
        return listing()

    await paginator.page(None, source, ALICE, source_version=lambda: version[0])
    listing.items.append({"name": "new"})
    pages = await walk(paginator, source, source_version=lambda: version[0])
    assert items_of(pages) == listing.items


async def test_a_remembered_list_is_listed_again_about_once_per_ttl() -> None:
    """So that its snapshot stays stored: every walk begun in an hour ends without a heal."""
    clock = FakeClock(1_800_000_000)
    paginator = node(MemoryStore(clock=clock), clock)
    listing = Listing(tools(35))
    for _ in range(120):
        page = await paginator.page(None, listing, ALICE, source_version="1")
        clock.advance(29.5)
        assert page.next_cursor is not None
        await walk(paginator, unused, cursor=page.next_cursor)
    assert 6 <= listing.calls <= 8
    assert paginator.stats.heals == 0


async def test_a_remembered_single_page_is_not_listed_again() -> None:
    """There is no snapshot to keep stored."""
    clock = FakeClock()
    paginator, listing = node(MemoryStore(clock=clock), clock), Listing(tools(5))
    for _ in range(3):
        await paginator.page(None, listing, ALICE, source_version="1")
        clock.advance(10_000)
    assert listing.calls == 1


async def test_a_remembered_page_belongs_to_one_binding_version_and_setting() -> None:
    """Another principal, list, version, encoding or size lists for itself."""
    paginator, listing = node(memory()), Listing(tools(35))
    variants: list[tuple[Binding, dict[str, Any]]] = [
        (ALICE, {}),
        (BOB, {}),
        (ALICE.replace(params={"tag": "new"}), {}),
        (ALICE, {"source_version": "2"}),
        (ALICE, {"page_size": 5}),
        (ALICE, {"max_pages": 2}),
        (ALICE, {"max_page_bytes": 500}),
        (ALICE, {"items": MsgpackItems()}),
    ]
    pages: list[Page[Any]] = []
    for calls, (binding, options) in enumerate(variants, 1):
        given_options: dict[str, Any] = {"source_version": "1", **options}
        pages.append(await paginator.page(None, listing, binding, **given_options))
        assert listing.calls == calls
        assert await paginator.page(None, unused, binding, **given_options) == pages[-1]
    assert [len(page.items) for page in pages] == [10, 10, 10, 10, 5, 18, 7, 10]


async def test_a_source_version_is_not_used_with_visible() -> None:
    """What a principal may see can change without the list: it is listed and asked each time."""
    paginator, listing, hidden = node(memory()), Listing(range(25)), set[int]()
    for calls in (1, 2, 3):
        page = await paginator.page(
            None,
            listing,
            ALICE,
            source_version="1",
            visible=lambda items: [item not in hidden for item in items],
        )
        assert page.total == 25 - len(hidden)
        assert listing.calls == calls
        hidden.add(calls)


@pytest.mark.parametrize("version", ["", "x" * 257, 1, b"1", True, 1.5, ["1"]], ids=repr)
@pytest.mark.parametrize("called", [False, True])
async def test_a_source_version_that_is_no_short_text_is_refused(
    version: Any, called: bool
) -> None:
    """The message says what to give; nothing is listed."""
    given_version: Any = (lambda: version) if called else version
    with pytest.raises(ConfigurationError) as failure:
        await node(memory()).page(None, unused, ALICE, source_version=given_version)
    assert str(failure.value) == (
        "source_version is not a str of 1 to 256 characters;"
        " give one that changes whenever the list does"
    )


@pytest.mark.parametrize("version", ["x" * 256, "\ud800", "\x00", "ü"], ids=ascii)
async def test_any_short_text_is_a_source_version(version: str) -> None:
    """It is compared, not read: even a lone surrogate will do."""
    paginator, listing = node(memory()), Listing(tools(35))
    for _ in range(2):
        await paginator.page(None, listing, ALICE, source_version=version)
    assert listing.calls == 1


async def test_a_source_version_that_cannot_be_had_serves_nothing() -> None:
    """Its error is passed on."""

    def version() -> str:
        raise ConnectionError("the database is down")

    with pytest.raises(ConnectionError):
        await node(memory()).page(None, unused, ALICE, source_version=version)


async def test_remembered_first_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used are forgotten first, by count and by bytes."""
    listings = {name: Listing(tools(35)) for name in "abcd"}

    async def listed(paginator: SnapshotPaginator, names: str) -> str:
        """Ask for each first page; return those that were listed."""
        found = ""
        for name in names:
            before = listings[name].calls
            binding = ALICE.replace(principal=name)
            await paginator.page(None, listings[name], binding, source_version="1")
            found += name * (listings[name].calls - before)
        return found

    monkeypatch.setattr(first_pages, "_MAX_COUNT", 3)
    paginator = node(memory())
    assert await listed(paginator, "abcabc") == "abc"
    assert await listed(paginator, "ad") == "d"
    assert await listed(paginator, "acdb") == "b"
    monkeypatch.setattr(first_pages, "_MAX_COUNT", 1000)
    monkeypatch.setattr(
        first_pages, "_MAX_BYTES", 2 * sum(len(JsonItems().encode(t)) for t in tools(10))
    )
    paginator = node(memory())
    assert await listed(paginator, "abab") == "ab"
    assert await listed(paginator, "cab") == "cab"


async def test_a_page_that_is_remembered_anew_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list that is listed again once per ttl does not push out the others."""
    page_bytes = sum(len(JsonItems().encode(item)) for item in tools(10))
    monkeypatch.setattr(first_pages, "_MAX_BYTES", 2 * page_bytes)
    clock = FakeClock()
    paginator, other = node(MemoryStore(clock=clock), clock), Listing(tools(10))
    await paginator.page(None, other, BOB, source_version="1")
    for _ in range(5):
        clock.advance(700)
        await paginator.page(None, Listing(tools(35)), ALICE, source_version="1")
    await paginator.page(None, other, BOB, source_version="1")
    assert other.calls == 1


async def test_without_a_store_a_first_page_is_not_forgotten() -> None:
    """There is nothing that could be lost: a later page, which lists, does not forget it."""
    paginator, listing = node(None), Listing(tools(35))
    first = await paginator.page(None, listing, ALICE, source_version="1")
    await walk(paginator, listing, cursor=first.next_cursor, source_version="1")
    assert await paginator.page(None, unused, ALICE, source_version="1") == first


# What a walk costs.


async def test_a_thousand_principals_share_one_copy() -> None:
    """1,000 first pages of one catalog by 1,000 principals store what one does."""
    store = memory()
    paginator, listing = node(store), Listing(tools(60))
    await paginator.page(None, listing, ALICE)
    size, count = store.bytes_used, len(store)
    assert count == 60 + 1
    for number in range(1000):
        await paginator.page(None, listing, ALICE.replace(principal=f"principal-{number}"))
    assert (store.bytes_used, len(store)) == (size, count)


async def test_storage_grows_with_views_not_with_walks() -> None:
    """Twenty roles over one catalog share its items: each view adds its nodes and its root."""
    store, listing = memory(), Listing(range(300))
    paginator = node(store)
    await paginator.page(None, listing, ALICE)
    assert len(store) == 300 + 2 + 1
    for _ in range(3):
        for role in range(20):

            def visible(items: Sequence[int], role: int = role) -> list[bool]:
                return [item % 20 != role for item in items]

            assert len(await walk(paginator, listing, visible=visible)) == 29
        assert len(store) == 303 + 20 * 3


async def test_a_changed_item_adds_its_path_only() -> None:
    """A list with one item changed shares all other items with the one before."""
    store, listing = memory(), Listing(tools(600))
    paginator = node(store)
    await paginator.page(None, listing, ALICE)
    count = len(store)
    listing.items[300] = {"name": "changed"}
    await paginator.page(None, listing, ALICE)
    assert len(store) == count + 3, "the item, its node and the root"


async def test_pages_of_a_long_list_ask_for_no_more_than_those_of_a_short_one() -> None:
    """A page of 50 items of 60,000 gets those and at most two objects of each level above."""
    store = WatchedStore()
    paginator, listing = node(store, max_items=100_000, page_size=50), Listing(range(60_000))
    first = await paginator.page(None, listing, ALICE)
    for _ in range(3):
        store.asked.clear()
        await paginator.page(first.next_cursor, unused, ALICE)
        assert len(store.asked) <= 50 + 2 + 2


class Noting(WatchedStore):
    """A store that notes until when it is asked to keep things."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.deadlines: list[int] = []

    async def put(self, objects: Any, *, deadline: int, repair: bool = False) -> None:
        self.deadlines.append(deadline)
        await super().put(objects, deadline=deadline, repair=repair)


async def test_a_heal_stores_for_as_long_as_the_first_page_did() -> None:
    """The clock may have gone on: what counts is the expiry of the walk."""
    clock = FakeClock(1_800_000_000)
    store, listing = Noting(clock), Listing(tools(35))
    paginator = node(store, clock)
    first = await paginator.page(None, listing, ALICE)
    clock.advance(599)
    tree = await build(await encode_items(tools(35), JsonItems()), "json")
    store.lose(stored.digest for stored in tree.objects())
    await paginator.page(first.next_cursor, listing, ALICE)
    assert store.deadlines == [1_800_000_720] * 2


async def test_a_hot_list_is_extended_about_once_per_ttl() -> None:
    """Deadlines are whole multiples of the ttl, so that a store knows most leases already."""
    clock = FakeClock(1_800_000_000)
    store = Noting(clock)
    paginator, deadlines = node(store, clock), store.deadlines
    expiries: set[int] = set()
    for _ in range(60):
        page = await paginator.page(None, Listing(tools(35)), ALICE)
        assert page.expires_at is not None
        expiries.add(page.expires_at)
        assert deadlines[-1] >= page.expires_at + 120
        clock.advance(60)
    assert len(expiries) == 60
    assert len(set(deadlines)) <= 7
    assert all((deadline - 120) % 600 == 0 for deadline in deadlines)


# Tasks, threads and event loops.


@pytest.mark.both_backends
async def test_many_walks_at_once_are_each_their_list() -> None:
    """Walks that begin while the list changes, interleaved, do not touch each other."""
    paginator, listing = node(memory()), Listing(tools(60))
    states, walked = [tools(60)], list[list[Any]]()

    async def one() -> None:
        page = await paginator.page(None, listing, ALICE)
        items = page.items
        while page.next_cursor is not None:
            await anyio.lowlevel.checkpoint()
            page = await paginator.page(page.next_cursor, unused, ALICE)
            items += page.items
        walked.append(items)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one)
            await anyio.lowlevel.checkpoint()
            listing.items.pop(number)
            listing.items.append({"name": f"new-{number}"})
            states.append(list(listing.items))
    assert len(walked) == 30
    assert all(items in states for items in walked)
    assert len({str(items) for items in walked}) > 5


def test_threads_share_a_store_and_a_paginator() -> None:
    """32 threads, each with an event loop of its own, walk a list that changes meanwhile."""
    store = MemoryStore(max_bytes=2**20)
    paginator = SnapshotPaginator(SignedCodec(RING), store, page_size=10)
    versions = [
        [{"name": f"{version}-{number}", "text": "x" * 2000} for number in range(60)]
        for version in range(8)
    ]
    start = threading.Barrier(32)

    async def walks(thread: int) -> None:
        for number in range(4):
            items = versions[(thread + number) % 8]
            version = items[0]["name"] if thread % 2 else None
            pages = await walk(paginator, Listing(items), source_version=version)
            assert items_of(pages) == items

    def run(thread: int) -> None:
        start.wait(timeout=30)
        anyio.run(walks, thread, backend="trio" if thread % 4 == 0 else "asyncio")

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(run, range(32)))


def test_a_sync_caller_gets_pages_from_a_running_event_loop() -> None:
    """A handler in a worker thread asks by `anyio.from_thread.run`."""
    paginator, listing = node(memory()), Listing(tools(35))

    def handler(cursor: str | None) -> Page[Any]:
        return anyio.from_thread.run(paginator.page, cursor, listing, ALICE)

    async def serve() -> list[Page[Any]]:
        pages = [await anyio.to_thread.run_sync(handler, None)]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(await anyio.to_thread.run_sync(handler, cursor))
        return pages

    assert items_of(anyio.run(serve)) == tools(35)


def test_a_walk_goes_on_in_another_event_loop() -> None:
    """Nothing is tied to the loop that made it: each page in a loop of its own, on both kinds."""
    paginator, listing = node(memory()), Listing(tools(35))
    pages: list[Page[Any]] = []
    for backend in ("asyncio", "trio", "asyncio", "trio"):
        cursor = pages[-1].next_cursor if pages else None
        pages.append(anyio.run(paginator.page, cursor, listing, ALICE, backend=backend))
    assert items_of(pages) == tools(35)


@pytest.mark.both_backends
async def test_a_long_list_lets_other_tasks_run() -> None:
    """While 20,000 items are listed, encoded, hashed and stored, another task gets its turns."""
    store = MemoryStore(clock=FakeClock())
    paginator, items = node(store, max_items=100_000), tools(20_000)
    beats = 0

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            await anyio.lowlevel.checkpoint()
            beats += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat)
        await paginator.page(None, lambda: items, ALICE)
        tasks.cancel_scope.cancel()
    assert beats > 3 * 20_000 // 256 - 10


async def test_a_list_may_change_while_it_is_being_encoded() -> None:
    """What was listed is what is served: the source's own list is not looked at again."""
    paginator, items = node(memory()), tools(2000)
    expected = tools(2000)

    async def meddle() -> None:
        items.reverse()
        del items[::2]

    walked: list[Page[Any]] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(meddle)
        walked += await walk(paginator, lambda: items, page_size=1000)
    assert len(items) == 1000
    assert items_of(walked) == expected


# Settings.

NOT_COUNTS: list[Any] = [0, -1, -5, True, False, 1.0, 50.0, math.nan, math.inf, "50", 2**60, b"5"]

MOST = {
    "page_size": 10_000,
    "quantum": 315_360_000,
    "max_items": 1_000_000,
    "max_pages": 1_000_000,
    "max_page_bytes": 2**53,
}
"""The bounds of settings and arguments; each may be 1."""


def no_count(name: str) -> str:
    """Return the pattern of the message about a setting that is no count, or out of its bounds."""
    unit = r" \(seconds\)" if name == "quantum" else ""
    return rf"^{name}{unit} is .*; give an int from 1 to {MOST[name]}$"


@pytest.mark.parametrize("value", [*NOT_COUNTS, None], ids=repr)
@pytest.mark.parametrize("name", ["page_size", "quantum", "max_items"])
def test_a_setting_that_is_no_count_is_refused(name: str, value: Any) -> None:
    """Zero, negatives, bools, floats and text are refused at construction, with what is allowed."""
    with pytest.raises(ConfigurationError, match=no_count(name)):
        SnapshotPaginator(SignedCodec(RING), memory(), **{name: value})


@pytest.mark.parametrize("name", ["page_size", "quantum", "max_items"])
def test_a_setting_beyond_its_bound_is_refused(name: str) -> None:
    """The bounds of pages and lists are part of the format; the bounds themselves are allowed."""
    bounds: list[Any] = [1, MOST[name]]
    for value in bounds:
        assert SnapshotPaginator(SignedCodec(RING), memory(), **{name: value})
    with pytest.raises(ConfigurationError, match=no_count(name)):
        SnapshotPaginator(SignedCodec(RING), memory(), **{name: bounds[1] + 1})


async def test_the_settings_unless_told() -> None:
    """50 items a page, 10 minutes a walk, to the minute, and 10,000 items at most."""
    clock = FakeClock(1_800_000_000)
    paginator = SnapshotPaginator(codec_of(clock), MemoryStore(clock=clock), clock=clock)
    page = await paginator.page(None, Listing(range(10_000)), ALICE)
    assert (len(page.items), page.expires_at) == (50, 1_800_000_600)
    with pytest.raises(SourceError, match="max_items=10000 items"):
        await paginator.page(None, Listing(range(10_001)), ALICE)


@pytest.mark.parametrize(
    "ttl", [0, -1, 0.0, True, math.nan, math.inf, "600", None, 2**60], ids=repr
)
def test_a_ttl_that_is_no_time_is_refused(ttl: Any) -> None:
    """The message says what was given and what is allowed."""
    problem = r"^ttl is .*; give seconds, a number from 0.001 to 315360000$"
    with pytest.raises(ConfigurationError, match=problem):
        SnapshotPaginator(SignedCodec(RING), memory(), ttl=ttl)


@pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
@pytest.mark.parametrize("name", ["page_size", "max_pages", "max_page_bytes"])
@pytest.mark.parametrize("later", [False, True])
async def test_an_argument_that_is_no_count_is_refused(name: str, value: Any, later: bool) -> None:
    """On a first page and on a later one, before anything is listed or read."""
    store = WatchedStore()
    paginator = node(store)
    first = await paginator.page(None, Listing(tools(35)), ALICE)
    cursor = first.next_cursor if later else None
    with pytest.raises(ConfigurationError, match=no_count(name)):
        await paginator.page(cursor, unused, ALICE, **{name: value})
    assert store.gets == 0


@pytest.mark.parametrize("name", ["page_size", "max_pages", "max_page_bytes"])
async def test_an_argument_at_its_bound_is_accepted(name: str) -> None:
    """Neither 1 nor the most is refused, and the next number is."""
    bounds: list[Any] = [1, MOST[name]]
    for value in bounds:
        pages = await walk(node(memory()), Listing(range(9)), **{name: value})
        assert items_of(pages) == list(range(9))
    with pytest.raises(ConfigurationError, match=no_count(name)):
        await node(memory()).page(None, unused, ALICE, **{name: bounds[1] + 1})


def test_an_unsigned_codec_is_refused() -> None:
    """A root that anyone can name is no proof; the message says what to give instead."""
    with pytest.raises(ConfigurationError) as failure:
        SnapshotPaginator(OffsetCodec(), memory())
    assert str(failure.value) == (
        "SnapshotPaginator was given OffsetCodec, whose cursors anyone can make;"
        " give it SignedCodec(KeyRing...), or OffsetPaginator for unsigned offsets"
    )


@pytest.mark.parametrize(
    ("ttl", "quantum", "problem"),
    [
        (
            600.5,
            60,
            "ttl is 600.5 s, but the codec's max_ttl is 300 s;"
            " raise the codec's ttl or lower the paginator's",
        ),
        (
            299.5,
            61,
            "ttl and quantum are 299.5 and 61 s together, more than 60 s above the codec's"
            " max_ttl of 300 s; lower the quantum or raise the codec's ttl",
        ),
    ],
)
def test_a_codec_with_a_shorter_life_is_refused(ttl: float, quantum: int, problem: str) -> None:
    """Cursors that the codec would refuse are found at construction, not in mid-walk."""
    codec = ExpiringCodec(SignedCodec(RING), ttl=300)
    with pytest.raises(ConfigurationError) as failure:
        SnapshotPaginator(codec, memory(), ttl=ttl, quantum=quantum)
    assert str(failure.value) == problem


@pytest.mark.parametrize(("ttl", "quantum"), [(300, 60), (301, 60), (300, 1), (600, 1)])
async def test_the_longest_life_that_is_accepted_works(ttl: int, quantum: int) -> None:
    """What passes the check never meets a refusal of its own codec."""
    clock = FakeClock()
    codec = ExpiringCodec(SignedCodec(RING, clock=clock), ttl=ttl, quantum=quantum, clock=clock)
    paginator = SnapshotPaginator(codec, memory(), ttl=ttl, quantum=60, page_size=10, clock=clock)
    for _ in range(61):
        clock.advance(1)
        assert items_of(await walk(paginator, Listing(tools(25)))) == tools(25)


@pytest.mark.parametrize("ttl", [0.001, 0.5, 1, 7.3, 599.9])
async def test_any_positive_ttl_works(ttl: float) -> None:
    """Fractions of a second are allowed: expiries are rounded up to the quantum."""
    clock = FakeClock()
    paginator = node(MemoryStore(clock=clock), clock, ttl=ttl, quantum=1)
    assert items_of(await walk(paginator, Listing(tools(35)))) == tools(35)


async def test_an_expiry_is_compared_with_the_paginators_own_clock() -> None:
    """The clock is there to ask: by it a page's cursors have their ttl to live."""
    paginator = node(memory(), FakeClock(1_800_000_000))
    page = await paginator.page(None, Listing(tools(35)), ALICE)
    assert page.expires_at == paginator.clock() + 600


async def test_a_list_is_a_digest_of_what_it_holds() -> None:
    """The cursor's root is SHA-256 over objects of the documented form, for any implementation."""
    first = await node(memory()).page(None, Listing(range(12)), ALICE)
    assert first.next_cursor is not None
    position = codec_of(FakeClock()).decode(first.next_cursor, ALICE).expect(SnapshotOffset)

    def digest(blob: bytes) -> bytes:
        return hashlib.sha256(b"cursorkit/1:" + blob).digest()

    top = b"".join(digest(b"I" + str(number).encode()) for number in range(12))
    root = digest(b"R\x93\x0c\xa4json\xc5\x01\x80" + top)
    assert position == SnapshotOffset(root, 10, 10)


@settings(max_examples=50)
@given(
    items=st.lists(st.text(max_size=5), max_size=40),
    page_size=st.integers(1, 15),
    storeless=st.booleans(),
)
async def test_any_list_is_walked_as_it_is(
    items: list[str], page_size: int, storeless: bool
) -> None:
    """Whatever the list, duplicates included, the walk is the list, with a store and without."""
    items = [item.encode("utf-8", "replace").decode() for item in items]
    paginator = node(None if storeless else memory(), page_size=page_size)
    assert items_of(await walk(paginator, Listing(items))) == items


async def test_a_list_that_was_not_stored_is_not_remembered() -> None:
    """After an outage new walks are stored, though the version is the same."""
    clock = FakeClock(1_800_000_001)  # Well before a new lease would be asked for anyway.
    store, listing = WatchedStore(clock), Listing(tools(35))
    paginator = node(store, clock)
    store.fail(StoreUnavailableError("down"))
    await paginator.page(None, listing, ALICE, source_version="1")
    store.fail(None)
    clock.advance(60)
    first = await paginator.page(None, listing, ALICE, source_version="1")
    listing.items.clear()
    rest = await walk(paginator, unused, cursor=first.next_cursor)
    assert first.items + items_of(rest) == tools(35)


async def test_a_list_that_the_store_lost_is_not_remembered() -> None:
    """Once a page had to heal, the next first page lists and publishes again."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    first = await paginator.page(None, listing, ALICE, source_version="1")
    tree = await build(await encode_items(tools(35), JsonItems()), "json")
    store.lose(stored.digest for stored in tree.objects())
    await paginator.page(first.next_cursor, listing, ALICE, source_version="1")
    calls = listing.calls
    await paginator.page(None, listing, ALICE, source_version="1")
    assert listing.calls == calls + 1


async def test_a_remembered_page_was_checked_for_its_key() -> None:
    """A first page without `key` does not stand for one with it."""
    paginator = node(memory())
    await paginator.page(None, lambda: [1, 1], ALICE, source_version="1")
    with pytest.raises(SourceError, match="key"):
        await paginator.page(None, lambda: [1, 1], ALICE, source_version="1", key=lambda item: item)


async def test_a_key_must_be_hashable() -> None:
    """The list's error, not a bare TypeError."""
    items: list[Any] = [[1]]
    with pytest.raises(SourceError, match=r"^the key of item 0 is not hashable$"):
        await node(None).page(None, lambda: items, ALICE, key=lambda item: item)


@pytest.mark.parametrize("now", [math.nan, math.inf], ids=repr)
async def test_a_clock_that_gives_no_time_mints_nothing(now: float) -> None:
    """As for codecs, an error that says so."""
    with pytest.raises(EncodingError, match=r"^the clock gives no time$"):
        await node(None, FakeClock(now)).page(None, Listing(tools(35)), ALICE)


# What beginners do.


@pytest.mark.parametrize(
    ("codec", "name"),
    [(RING, "KeyRing"), (SignedCodec, "SignedCodec"), (None, "NoneType"), ("key", "str")],
)
def test_what_is_no_codec_is_refused_with_what_to_give(codec: Any, name: str) -> None:
    """A key ring in place of a codec is the likeliest mistake."""
    with pytest.raises(ConfigurationError) as failure:
        SnapshotPaginator(codec, None)
    assert str(failure.value) == (
        f"SnapshotPaginator was given {name}; give it a codec: SignedCodec(ring)"
    )
    for make in (
        lambda: ExpiringCodec(codec, ttl=600),
        lambda: OffsetPaginator(codec),
    ):
        with pytest.raises(ConfigurationError, match=r"SignedCodec\(ring\)"):
            make()


@pytest.mark.parametrize(
    ("store", "name"),
    [
        (MemoryStore, "MemoryStore"),
        ({}, "dict"),
        ("redis://", "str"),
        (5, "int"),
        (SimpleNamespace(put=print), "SimpleNamespace"),
        (SimpleNamespace(get=print, put=1), "SimpleNamespace"),
    ],
    ids=repr,
)
def test_what_is_no_store_is_refused_with_what_to_give(store: Any, name: str) -> None:
    """It would be found failing at every page, and the walks would live on listings."""
    with pytest.raises(ConfigurationError) as failure:
        SnapshotPaginator(SignedCodec(RING), store)
    assert str(failure.value) == (
        f"store is {name}; give MemoryStore(), RedisStore(client, namespace=...) over a Redis"
        " client, None to keep nothing, or any SnapshotStore"
    )


@pytest.mark.parametrize("binding", [None, "alice", {"purpose": "x"}], ids=repr)
async def test_what_is_no_binding_is_refused_on_the_shortest_list(binding: Any) -> None:
    """Not only once the list has outgrown a page."""
    with pytest.raises(ConfigurationError, match="give a Binding"):
        await node(None).page(None, Listing([1]), binding)
    with pytest.raises(ConfigurationError, match="give a Binding"):
        OffsetPaginator(SignedCodec(RING)).page(None, [1], binding)


async def test_a_source_is_a_callable() -> None:
    """The list itself in its place is told."""
    source: Any = [1, 2]
    with pytest.raises(ConfigurationError) as failure:
        await node(None).page(None, source, ALICE)
    assert str(failure.value) == (
        "source is of type list; give a callable that lists, for example lambda: items"
    )


@pytest.mark.parametrize("value", [None, 5, {"a"}, frozenset("a"), {"a": 1}, "ab", b"ab"], ids=repr)
async def test_a_source_without_an_order_is_refused(value: Any) -> None:
    """A set has another order on each node, a text is no list, and None is a missing `return`."""

    def source() -> Any:
        return value

    with pytest.raises(SourceError) as failure:
        await node(None).page(None, source, ALICE)
    assert str(failure.value) == (
        f"the source returned {type(value).__name__}; return a fresh iterable of items, in an"
        " order that is the same on every node"
    )


async def test_the_views_of_a_dict_are_lists() -> None:
    """They have an order."""

    def source() -> Any:
        return {"a": 1, "b": 2}.items()

    page = await node(None).page(None, source, ALICE)
    assert page.items == [["a", 1], ["b", 2]]


async def test_an_item_that_cannot_be_encoded_is_named_by_number_and_type() -> None:
    """And the message says what to give."""
    with pytest.raises(SourceError, match=r"item 1, of type object: .*ModelItems"):
        await node(None).page(None, lambda: [1, object()], ALICE)
