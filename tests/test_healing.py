"""A walk survives its store: lost, lying or down, a page is the right one or a clear error."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest

from cursorkit import healing
from cursorkit.binding import Binding
from cursorkit.errors import (
    ConfigurationError,
    CursorError,
    SnapshotLostError,
    SourceError,
    StoreDataError,
    StoreError,
    StoreUnavailableError,
)
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.positions import SnapshotOffset
from cursorkit.snapshots import build
from cursorkit.stores.base import StoredObject, digest_of
from cursorkit.stores.memory import MemoryStore
from cursorkit.testing.clock import FakeClock
from tests.snapshot_fakes import (
    ALICE,
    BOB,
    Listing,
    SharedDict,
    WatchedStore,
    codec_of,
    items_of,
    node,
    tools,
    unused,
    walk,
)

pytestmark = pytest.mark.anyio

DOWN = StoreUnavailableError("no connection")
REFUSED = StoreUnavailableError("the command is refused", answered=True)


async def begun(
    paginator: SnapshotPaginator, listing: Listing, binding: Binding = ALICE
) -> tuple[str, list[Page[Any]]]:
    """Begin a walk, and walk it to its end; return its second page's cursor and all pages."""
    pages = await walk(paginator, listing, binding)
    assert pages[0].next_cursor is not None
    listing.calls = 0
    return pages[0].next_cursor, pages


# The snapshot is lost.


async def test_a_lost_snapshot_is_healed_by_one_listing() -> None:
    """Where the list is the same, the page is byte-identical, and later pages list nothing."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    store.lose(store.asked)
    assert await walk(paginator, listing, cursor=cursor) == pages[1:]
    assert listing.calls == 1
    assert paginator.stats == healing.SnapshotStats(heals=1)


@pytest.mark.parametrize(
    "rot",
    [b"", b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"null", b"I1", b"R", bytes(2**21)],
    ids=range(7),
)
async def test_rotten_objects_are_healed_and_repaired(rot: bytes) -> None:
    """Bit rot, foreign values and bombs in a shared store cost one listing in all."""
    clock, listing = FakeClock(), Listing(tools(300))
    objects: dict[bytes, tuple[bytes, int]] = {}
    cursor, pages = await begun(node(SharedDict(objects, clock), clock), listing)
    for digest, (_, until) in objects.items():
        objects[digest] = (rot, until)
    paginator = node(SharedDict(objects, clock), clock)
    assert await paginator.page(cursor, listing, ALICE) == pages[1]
    assert paginator.stats.heals == 1
    other = node(SharedDict(objects, clock), clock)
    assert await walk(other, unused, cursor=cursor) == pages[1:]


async def test_a_heal_serves_the_other_nodes_too() -> None:
    """What one node mended in a shared store, another reads without a listing."""
    store, listing = WatchedStore(), Listing(tools(35))
    cursor, pages = await begun(node(store), listing)
    store.lose(store.asked)
    assert await node(store).page(cursor, listing, ALICE) == pages[1]
    assert await walk(node(store), unused, cursor=cursor) == pages[1:]


async def test_any_lost_object_is_healed() -> None:
    """Losing any one of the objects behind a page, item, node or root, costs one listing."""
    store, listing = WatchedStore(), Listing(tools(300))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    store.asked.clear()
    await paginator.page(cursor, unused, ALICE)
    for number, digest in enumerate(sorted(set(store.asked)), 1):
        store.lose([digest])
        assert await paginator.page(cursor, listing, ALICE) == pages[1]
        assert listing.calls == paginator.stats.heals == number
        assert await paginator.page(cursor, unused, ALICE) == pages[1]


@pytest.mark.parametrize(
    "changed",
    [
        tools(34),
        tools(36),
        tools(35)[::-1],
        [*tools(34), {"name": "other"}],
        [{**tools(1)[0], "title": "new"}, *tools(34, start=1)],
        [],
    ],
    ids=["removed", "added", "reordered", "replaced", "edited", "emptied"],
)
@pytest.mark.parametrize("storeless", [True, False])
async def test_a_lost_snapshot_of_a_changed_list_is_an_error(
    changed: list[Any], storeless: bool
) -> None:
    """Whatever changed, the walk ends with `SnapshotLostError`: no partial page, no restart."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(None if storeless else store)
    cursor, _ = await begun(paginator, listing)
    store.lose(store.asked)
    listing.items = changed
    with pytest.raises(SnapshotLostError) as failure:
        await paginator.page(cursor, listing, ALICE)
    assert failure.value.reason == "lost"
    assert str(failure.value) == "Invalid or expired cursor"
    assert listing.calls == 1
    assert paginator.stats.lost == 1


async def test_a_change_does_not_matter_while_the_snapshot_is_there() -> None:
    """A list that changes with every page is walked as it was at the first request."""
    paginator, listing = node(MemoryStore(clock=FakeClock())), Listing(tools(500))
    page = await paginator.page(None, listing, ALICE)
    pages = [page]
    while page.next_cursor is not None:
        listing.items = tools(len(pages), start=1000)
        page = await paginator.page(page.next_cursor, listing, ALICE)
        pages.append(page)
    assert items_of(pages) == tools(500)
    assert listing.calls == 1


async def test_the_lost_page_only_is_lost_where_members_are_gone() -> None:
    """With the items of page 2 gone and the list changed, page 2 is refused and page 3 served."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    store.asked.clear()
    await paginator.page(cursor, unused, ALICE)
    store.lose(store.asked[1:])
    listing.items = tools(3)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, listing, ALICE)
    assert await paginator.page(pages[1].next_cursor, unused, ALICE) == pages[2]


async def test_a_heal_writes_again_what_a_store_may_think_it_has() -> None:
    """A first page trusts the store's memory of earlier puts, a heal does not; one deadline."""
    clock = FakeClock(1_800_000_000)
    puts: list[tuple[int, bool]] = []

    class Noting(WatchedStore):
        async def put(
            self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
        ) -> None:
            puts.append((deadline, repair))
            await super().put(objects, deadline=deadline, repair=repair)

    store, listing = Noting(clock), Listing(tools(35))
    paginator = node(store, clock)
    cursor, _ = await begun(paginator, listing)
    store.lose(store.asked)
    await paginator.page(cursor, listing, ALICE)
    assert puts == [(1_800_000_720, False), (1_800_000_720, True)]


async def test_a_heal_keeps_the_snapshot_as_long_as_the_cursor_lives() -> None:
    """What a heal stored is there until the cursor's last second."""
    clock = FakeClock()
    store, listing = WatchedStore(clock), Listing(tools(35))
    paginator = node(store, clock)
    cursor, pages = await begun(paginator, listing)
    store.lose(store.asked)
    await paginator.page(cursor, listing, ALICE)
    assert pages[0].expires_at is not None
    clock.now = pages[0].expires_at - 0.001
    assert await walk(paginator, unused, cursor=cursor) == pages[1:]


# Without a store, or with a store each.


async def test_without_a_store_each_page_lists_again() -> None:
    """In storeless mode a walk is the list, at one listing a page."""
    listing = Listing(tools(35))
    pages = await walk(node(None), listing)
    assert items_of(pages) == tools(35)
    assert listing.calls == 4
    assert await walk(node(MemoryStore(clock=FakeClock())), listing) == pages


async def test_without_a_store_nothing_of_a_listing_is_kept() -> None:
    """A list that changes after a page was served is found changed by the next."""
    paginator, listing = node(None), Listing(tools(35))
    cursor, pages = await begun(paginator, listing)
    assert await paginator.page(cursor, listing, ALICE) == pages[1]
    listing.items.pop()
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, listing, ALICE)


async def test_nodes_with_a_store_each_continue_each_others_walks() -> None:
    """Page 1 on one node and the rest on another: healed once while the list is the same."""
    clock, listing = FakeClock(), Listing(tools(35))
    cursor, pages = await begun(node(MemoryStore(clock=clock), clock), listing)
    other = node(MemoryStore(clock=clock), clock)
    assert await walk(other, listing, cursor=cursor) == pages[1:]
    assert listing.calls == 1
    listing.items.pop()
    with pytest.raises(SnapshotLostError):
        await node(MemoryStore(clock=clock), clock).page(cursor, listing, ALICE)


async def test_a_restarted_node_never_serves_another_list_under_an_old_cursor() -> None:
    """The root is a digest: after a restart an old cursor names the same list, or nothing."""
    clock, listing = FakeClock(), Listing(tools(35))
    cursor, pages = await begun(node(MemoryStore(clock=clock), clock), listing)
    restarted = node(MemoryStore(clock=clock), clock)
    await walk(restarted, Listing(tools(35, start=100)))
    assert await restarted.page(cursor, listing, ALICE) == pages[1]


async def test_nodes_with_other_settings_and_clocks_continue_each_others_walks() -> None:
    """Other ttls, quanta, page sizes, and clocks 30 s apart: no fresh cursor is refused."""
    clocks = [FakeClock(1_800_000_000.0 + skew) for skew in (0, 30, -30)]
    store, listing = WatchedStore(clocks[0]), Listing(tools(70))
    settings: list[dict[str, Any]] = [
        {"ttl": 600, "quantum": 60, "page_size": 10},
        {"ttl": 620, "quantum": 30, "page_size": 7},
        {"ttl": 590, "quantum": 1, "page_size": 13},
    ]
    nodes = [node(store, clock, **options) for clock, options in zip(clocks, settings, strict=True)]
    for first in nodes:
        pages = [await first.page(None, listing, ALICE)]
        listing.items.append({"name": f"new-{len(listing.items)}"})
        while (cursor := pages[-1].next_cursor) is not None:
            others = [await other.page(cursor, unused, ALICE) for other in nodes]
            assert others[0] == others[1] == others[2]
            pages.append(others[0])
        assert items_of(pages) == listing.items[:-1]


async def test_nodes_never_shorten_each_others_leases() -> None:
    """A list that a node with a short ttl publishes too stays as long as the other's cursors."""
    clock = FakeClock()
    store, listing = WatchedStore(clock), Listing(tools(35))
    cursor, pages = await begun(node(store, clock, ttl=3600), listing)
    await node(store, clock, ttl=10, quantum=1).page(None, listing, ALICE)
    clock.advance(3590)
    assert await walk(node(store, clock, ttl=3600), unused, cursor=cursor) == pages[1:]


# One listing for all who wait.


class SlowListing(Listing):
    """A source that takes its time, so that other tasks come in between."""

    async def listed(self) -> list[Any]:
        """List, with pauses."""
        items = self()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return items


@pytest.mark.both_backends
@pytest.mark.parametrize("storeless", [True, False])
async def test_a_hundred_pages_after_a_loss_cost_one_listing(storeless: bool) -> None:
    """All pages of the walk, asked for at once by ten clients: one listing, one repair."""
    store, listing = WatchedStore(), SlowListing(tools(105))
    paginator = node(None if storeless else store)
    _, pages = await begun(paginator, listing)
    store.lose(store.asked)
    puts = store.puts
    right = 0

    async def ask(number: int) -> None:
        nonlocal right
        page = await paginator.page(pages[number].next_cursor, listing.listed, ALICE)
        right += page == pages[number + 1]

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            for number in range(len(pages) - 1):
                tasks.start_soon(ask, number)
    assert right == 100
    assert listing.calls == 1
    assert store.puts == puts + (not storeless)


@pytest.mark.both_backends
async def test_two_lists_that_heal_at_once_are_each_their_own() -> None:
    """A page never waits for another list's listing, let alone is served from it."""
    paginator = node(None)
    listings = [SlowListing(tools(35)), SlowListing(tools(35, start=100))]
    walks = [await begun(paginator, listing) for listing in listings]
    served: dict[int, Page[Any]] = {}

    async def ask(number: int) -> None:
        cursor, _ = walks[number]
        served[number] = await paginator.page(cursor, listings[number].listed, ALICE)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, 0)
        tasks.start_soon(ask, 1)
    assert served == {number: pages[1] for number, (_, pages) in enumerate(walks)}
    assert [listing.calls for listing in listings] == [1, 1]


@pytest.mark.both_backends
async def test_a_hundred_pages_after_a_change_cost_one_listing() -> None:
    """Where the list has changed one listing finds that out, and all are refused."""
    paginator, listing = node(None), SlowListing(tools(35))
    cursor, _ = await begun(paginator, listing)
    listing.items.pop()
    refused = 0

    async def ask() -> None:
        nonlocal refused
        with pytest.raises(SnapshotLostError):
            await paginator.page(cursor, listing.listed, ALICE)
        refused += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(ask)
    assert refused == 100
    assert listing.calls == 1


class Stopping:
    """A source whose first listing waits until it is cancelled."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.calls = 0
        self.begun = anyio.Event()

    async def __call__(self) -> list[Any]:
        self.calls += 1
        if self.calls == 1:
            self.begun.set()
            await anyio.sleep_forever()
        return self.items


@pytest.mark.both_backends
async def test_a_cancelled_leader_does_not_fail_those_who_wait() -> None:
    """Where the client whose page does the listing goes away, the next lists; all are served."""
    listing, source = Listing(tools(35)), Stopping(tools(35))
    paginator = node(None)
    cursor, pages = await begun(paginator, listing)
    served: list[Page[Any]] = []
    leader = anyio.CancelScope()

    async def lead() -> None:
        with leader:
            await paginator.page(cursor, source, ALICE)

    async def follow() -> None:
        served.append(await paginator.page(cursor, source, ALICE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lead)
        await source.begun.wait()
        for _ in range(20):
            tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        leader.cancel()
    assert leader.cancelled_caught
    assert served == [pages[1]] * 20
    assert source.calls == 2


@pytest.mark.both_backends
async def test_who_comes_after_a_leader_was_cancelled_waits_with_the_others() -> None:
    """The listing that the next in the queue has begun serves the newcomer, too."""
    paginator, listing, gate = node(None), Listing(tools(35)), anyio.Event()
    cursor, pages = await begun(paginator, listing)
    served: list[Page[Any]] = []
    calls = 0

    async def source() -> list[Any]:
        nonlocal calls
        calls += 1
        await (anyio.sleep_forever() if calls == 1 else gate.wait())
        return listing.items

    async def ask(scope: anyio.CancelScope) -> None:
        with scope:
            served.append(await paginator.page(cursor, source, ALICE))

    async with anyio.create_task_group() as tasks:
        leader = anyio.CancelScope()
        for scope in (leader, anyio.CancelScope()):
            tasks.start_soon(ask, scope)
            await anyio.wait_all_tasks_blocked()
        leader.cancel()
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert served == [pages[1]] * 2
    assert calls == 2


class StoppingStore(WatchedStore):
    """A store whose first put after a loss waits until it is cancelled."""

    stopping = False

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        if self.stopping:
            self.stopping = False
            await anyio.sleep_forever()
        await super().put(objects, deadline=deadline, repair=repair)


@pytest.mark.both_backends
async def test_a_leader_cancelled_while_it_repairs_leaves_the_repair_to_the_next() -> None:
    """One listing serves all, and the objects are back in the store afterwards."""
    store, listing = StoppingStore(), Listing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    store.lose(store.asked)
    store.stopping = True
    served: list[Page[Any]] = []

    async def lead(scope: anyio.CancelScope) -> None:
        with scope:
            await paginator.page(cursor, listing, ALICE)

    async def follow() -> None:
        served.append(await paginator.page(cursor, listing, ALICE))

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        tasks.start_soon(lead, scope)
        await anyio.wait_all_tasks_blocked()
        for _ in range(5):
            tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    assert served == [pages[1]] * 5
    assert listing.calls == 1
    assert await walk(paginator, unused, cursor=cursor) == pages[1:]


@pytest.mark.both_backends
async def test_a_leaders_failure_is_not_shared() -> None:
    """A source that fails once fails one request; the others list for themselves and are served."""
    paginator, listing = node(None), Listing(tools(35))
    cursor, pages = await begun(paginator, listing)
    outcomes: list[object] = []
    calls = 0

    async def source() -> list[Any]:
        nonlocal calls
        calls += 1
        await anyio.lowlevel.checkpoint()
        if calls == 1:
            raise OSError("the database hiccups")
        return listing.items

    async def ask() -> None:
        try:
            outcomes.append(await paginator.page(cursor, source, ALICE))
        except OSError as error:
            outcomes.append(str(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    assert outcomes.count("the database hiccups") == 1
    assert outcomes.count(pages[1]) == 9
    assert calls == 2


async def test_a_source_that_fails_is_asked_again() -> None:
    """An error of the source is passed on as it is, and is no proof that the list has changed."""
    paginator, listing = node(None), Listing(tools(35))
    cursor, pages = await begun(paginator, listing)

    def broken() -> list[Any]:
        raise OSError("the database hiccups")

    for _ in range(3):
        with pytest.raises(OSError, match="hiccups"):
            await paginator.page(cursor, broken, ALICE)
    with pytest.raises(SourceError):
        await paginator.page(cursor, lambda: [object()], ALICE)
    assert await paginator.page(cursor, listing, ALICE) == pages[1]


@pytest.mark.both_backends
async def test_one_principals_listing_serves_another_with_the_same_list() -> None:
    """The root proves that both saw the same: two principals' pages wait for one listing."""
    store, listing = WatchedStore(), SlowListing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    bobs, bobs_pages = await begun(paginator, listing, BOB)
    store.lose(store.asked)
    served: dict[str, Page[Any]] = {}

    async def ask(name: str, cursor: str, binding: Binding) -> None:
        served[name] = await paginator.page(cursor, listing.listed, binding)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "alice", cursor, ALICE)
        tasks.start_soon(ask, "bob", bobs, BOB)
    assert served == {"alice": pages[1], "bob": bobs_pages[1]}
    assert listing.calls == 1


def test_a_new_event_loop_takes_no_part_in_what_an_old_one_left() -> None:
    """A loop that ended in the middle of a heal leaves a paginator that works in the next."""
    paginator, listing, source = node(None), Listing(tools(35)), Stopping(tools(35))
    cursor, pages = anyio.run(begun, paginator, listing)

    async def give_up() -> None:
        with anyio.move_on_after(0.01):
            await paginator.page(cursor, source, ALICE)

    async def go_on() -> Page[Any]:
        return await paginator.page(cursor, listing, ALICE)

    for backend in ("asyncio", "trio", "asyncio"):
        source.calls, source.begun = 0, anyio.Event()
        anyio.run(give_up, backend=backend)
        assert anyio.run(go_on, backend=backend) == pages[1]


# What is remembered of a list that has changed.


async def test_a_dead_cursor_cannot_be_replayed_into_a_listing_each_time() -> None:
    """For 30 s after a walk was lost its cursor is refused without a listing, then asked again."""
    clock, listing = FakeClock(), Listing(tools(35))
    paginator = node(MemoryStore(clock=clock), clock)
    cursor, pages = await begun(node(None, clock), listing)
    listing.items.pop()
    for seconds, calls in ((0, 1), (0, 1), (15, 1), (14.9, 1), (0.2, 2), (29, 2), (1, 3)):
        clock.advance(seconds)
        with pytest.raises(SnapshotLostError):
            await paginator.page(cursor, listing, ALICE)
        assert listing.calls == calls
    assert paginator.stats.lost == 7
    for page in pages[1:-1]:
        with pytest.raises(SnapshotLostError):
            await paginator.page(page.next_cursor, listing, ALICE)
    assert listing.calls == 3, "one root and binding, whatever the offset"


async def test_what_is_remembered_concerns_one_principal_and_one_list() -> None:
    """Another principal's walk of the same list, and another list, are not refused for it."""
    listing, alices, others = Listing(tools(35)), Listing(tools(34)), Listing(tools(25))
    paginator = node(None)
    cursor, _ = await begun(paginator, listing)
    bobs, bobs_pages = await begun(paginator, listing, BOB)
    another, another_pages = await begun(paginator, others)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, alices, ALICE)
    assert await paginator.page(bobs, listing, BOB) == bobs_pages[1]
    assert await paginator.page(another, others, ALICE) == another_pages[1]
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, unused, ALICE)


@pytest.mark.both_backends
async def test_a_dead_cursor_does_not_wait_for_anothers_listing() -> None:
    """It is refused at once, though a principal with the same list is listing again."""
    paginator, listing, source = node(None), Listing(tools(35)), Stopping(tools(35))
    cursor, _ = await begun(paginator, listing)
    bobs, _ = await begun(paginator, listing, BOB)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, lambda: [], ALICE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(paginator.page, bobs, source, BOB)
        await source.begun.wait()
        with anyio.fail_after(5), pytest.raises(SnapshotLostError):
            await paginator.page(cursor, unused, ALICE)
        tasks.cancel_scope.cancel()


async def test_a_list_that_is_as_it_was_again_heals_after_30_seconds() -> None:
    """A list that changed back is served again once what is remembered has passed."""
    clock, listing = FakeClock(), Listing(tools(35))
    paginator = node(None, clock)
    cursor, pages = await begun(paginator, listing)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, lambda: [], ALICE)
    clock.advance(30)
    assert await paginator.page(cursor, listing, ALICE) == pages[1]


async def test_a_clock_set_back_forgets_what_is_remembered() -> None:
    """A step back of an hour does not refuse a walk for an hour: half a minute is far enough."""
    clock, listing = FakeClock(), Listing(tools(35))
    paginator = node(None, clock)
    cursor, pages = await begun(paginator, listing)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, lambda: [], ALICE)
    clock.advance(-30)
    assert await paginator.page(cursor, listing, ALICE) == pages[1]


async def test_a_clock_that_creeps_back_forgets_nothing() -> None:
    """A millisecond back, as clocks are corrected, does not buy a listing for each replay."""
    clock, changed = FakeClock(), Listing(tools(34))
    paginator = node(None, clock)
    cursor, _ = await begun(paginator, Listing(tools(35)))
    for _ in range(5):
        with pytest.raises(SnapshotLostError):
            await paginator.page(cursor, changed, ALICE)
        clock.advance(-0.001)
    assert changed.calls == 1


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest failures are forgotten first, and one that is met again counts as new."""
    monkeypatch.setattr(healing, "_REMEMBERED_COUNT", 3)
    clock, listing = FakeClock(), Listing(tools(35))
    paginator = node(None, clock)
    cursors: dict[int, tuple[str, Binding]] = {}
    for number in range(5):
        binding = ALICE.replace(principal=f"principal-{number}")
        cursors[number] = (await begun(paginator, listing, binding))[0], binding
    listing.items.pop()

    async def refused(*numbers: int) -> list[int]:
        """Ask for each walk; return those that cost a listing."""
        listed: list[int] = []
        for number in numbers:
            before = listing.calls
            with pytest.raises(SnapshotLostError):
                await paginator.page(cursors[number][0], listing, cursors[number][1])
            if listing.calls > before:
                listed.append(number)
        return listed

    assert await refused(0, 1, 2) == [0, 1, 2]
    assert await refused(0, 1, 2) == []
    clock.advance(30)
    assert await refused(0) == [0]
    clock.advance(1)
    assert await refused(3, 4) == [3, 4]
    assert await refused(0, 3, 4) == []
    assert await refused(1) == [1]


# The store is unavailable.


@pytest.mark.parametrize("error", [DOWN, REFUSED], ids=["unreachable", "refusing"])
async def test_an_unavailable_store_costs_listings_not_pages(error: StoreUnavailableError) -> None:
    """First and later pages are served, byte-identical, while the list is unchanged."""
    store, listing = WatchedStore(), Listing(tools(35))
    _, pages = await begun(node(WatchedStore()), listing)
    store.fail(error)
    assert await walk(node(store), listing) == pages
    assert listing.calls == len(pages)


@pytest.mark.parametrize("answered", [True, False])
async def test_a_list_that_changed_while_the_store_was_unavailable_is_a_retryable_error(
    answered: bool,
) -> None:
    """The snapshot may still be there: it is the store's error, not the cursor's."""
    clock = FakeClock()
    store, listing = WatchedStore(clock), Listing(tools(35))
    paginator = node(store, clock)
    cursor, pages = await begun(paginator, listing)
    listing.items.pop()
    store.fail(StoreUnavailableError("full", answered=answered))
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            await paginator.page(cursor, listing, ALICE)
    assert listing.calls == 1, "remembered: no listing for each retry"
    assert paginator.stats.lost == 0
    store.fail(None)
    clock.advance(5)
    assert await paginator.page(cursor, unused, ALICE) == pages[1]


async def test_the_stores_own_error_is_what_is_raised() -> None:
    """Its cause, the driver's error, goes with it."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    cursor, _ = await begun(paginator, listing)
    error = StoreUnavailableError("no connection")
    error.__cause__ = ConnectionError("refused")
    store.fail(error)
    with pytest.raises(StoreUnavailableError) as failure:
        await paginator.page(cursor, lambda: [], ALICE)
    assert failure.value is error
    assert isinstance(failure.value.__cause__, ConnectionError)
    with pytest.raises(StoreUnavailableError, match=r"^the snapshot store failed moments ago$"):
        await paginator.page(cursor, lambda: [], ALICE)


async def test_a_store_that_failed_is_left_alone_for_five_seconds() -> None:
    """No page waits for a store that failed moments ago; after that one asks again."""
    clock = FakeClock(1_800_000_001)
    store, listing = WatchedStore(clock), Listing(tools(35))
    paginator = node(store, clock)
    cursor, pages = await begun(paginator, listing)
    store.fail(DOWN)
    gets, puts = store.gets, store.puts
    for seconds, more in ((0, 1), (0, 1), (4.9, 1), (0.1, 2), (4.9, 2)):
        clock.advance(seconds)
        assert await paginator.page(cursor, listing, ALICE) == pages[1]
        assert await paginator.page(None, listing, ALICE) == pages[0]
        assert (store.gets - gets, store.puts - puts) == (more, 0)
    assert paginator.stats.store_failures == 2
    store.fail(None)
    clock.advance(0.1)
    assert await walk(paginator, unused, cursor=cursor) == pages[1:]


@pytest.mark.parametrize("seconds", [-5, -3600])
async def test_a_clock_set_back_asks_the_store_again(seconds: float) -> None:
    """An hour's step back does not leave the store alone for an hour."""
    clock = FakeClock()
    store, listing = WatchedStore(clock), Listing(tools(35))
    paginator = node(store, clock)
    cursor, _ = await begun(paginator, listing)
    store.fail(DOWN)
    await paginator.page(cursor, listing, ALICE)
    store.fail(None)
    clock.advance(seconds)
    page = await paginator.page(None, listing, ALICE)
    assert page.items + items_of(await walk(paginator, unused, cursor=page.next_cursor)) == tools(
        35
    )


async def test_a_full_store_still_serves_what_it_has() -> None:
    """Puts are refused: walks under way are read, new ones heal, and puts are left alone."""
    store, full = WatchedStore(), Listing(tools(45))
    paginator, listing = node(store), Listing(tools(35))
    cursor, pages = await begun(paginator, listing)
    store.put_error = REFUSED
    puts = store.puts
    assert items_of(await walk(paginator, full)) == tools(45)
    assert full.calls == 5, "one listing a page: nothing could be stored"
    assert store.puts == puts + 1
    assert await walk(paginator, unused, cursor=cursor) == pages[1:]


async def test_a_store_that_refuses_reads_is_still_written() -> None:
    """Only what was refused is left alone, so the snapshots are there for the other nodes."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(node(WatchedStore()), listing)
    store.get_error = REFUSED
    assert await walk(paginator, listing, cursor=cursor) == pages[1:]
    store.get_error = None
    assert await walk(node(store), unused, cursor=cursor) == pages[1:]


async def test_an_unreachable_store_is_neither_read_nor_written() -> None:
    """Where a put found no connection, the reads are left alone, too."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    store.fail(DOWN)
    assert items_of(await walk(paginator, listing)) == tools(35)
    assert (store.puts, store.gets) == (1, 0)


async def test_a_put_whose_reply_was_lost_changes_nothing() -> None:
    """The objects are there although the put failed: the walk is read as if it had not."""
    clock = FakeClock()
    listing = Listing(tools(35))

    class LosesReplies(WatchedStore):
        async def put(
            self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
        ) -> None:
            await super().put(objects, deadline=deadline, repair=repair)
            raise DOWN

    paginator = node(LosesReplies(clock), clock)
    page = await paginator.page(None, listing, ALICE)
    clock.advance(5)
    rest = await walk(paginator, unused, cursor=page.next_cursor)
    assert page.items + items_of(rest) == tools(35)


class Dying(WatchedStore):
    """A store that dies in the middle of its first put."""

    def __init__(self, clock: FakeClock, lives: int) -> None:
        super().__init__(clock)
        self.lives = lives

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        for stored in objects:
            if not self.lives:
                self.lives = 10**9
                raise DOWN
            self.lives -= 1
            await self.inner.put([stored], deadline=deadline)


@pytest.mark.parametrize("lives", [0, 1, 20, 34, 255, 299, 300, 301, 302])
async def test_a_publication_that_breaks_off_leaves_nothing_half(lives: int) -> None:
    """However many of 303 objects were put, each page is right; the first heal completes them."""
    clock, listing = FakeClock(), Listing(tools(300))
    store = Dying(clock, lives)
    first = await node(store, clock).page(None, listing, ALICE)
    other = node(store, clock)
    assert items_of(await walk(other, listing, cursor=first.next_cursor)) == tools(300)[10:]
    assert listing.calls == 2
    listing.items.pop()
    assert items_of(await walk(other, unused, cursor=first.next_cursor)) == tools(300)[10:]


@pytest.mark.parametrize(
    "error", [DOWN, REFUSED, StoreDataError("nonsense")], ids=["unreachable", "refusing", "wrong"]
)
async def test_a_list_that_could_not_be_kept_is_not_remembered(error: StoreError) -> None:
    """With its version unchanged the next first page lists again, and publishes."""
    clock = FakeClock(1_800_000_001)  # Well before a new lease would be asked for anyway.
    store, listing, other = WatchedStore(clock), Listing(tools(35)), Listing(tools(45))
    paginator = node(store, clock)
    store.put_error = error
    await paginator.page(None, listing, ALICE, source_version="1")
    left_alone = not isinstance(error, StoreDataError)
    if left_alone:
        store.put_error = None
    await paginator.page(None, other, BOB, source_version="1")
    assert store.puts == (1 if left_alone else 2)
    store.put_error = None
    clock.advance(60)
    for source, binding in ((listing, ALICE), (other, BOB)):
        first = await paginator.page(None, source, binding, source_version="1")
        assert await paginator.page(None, unused, binding, source_version="1") == first
        assert source.calls == 2
        rest = await walk(paginator, unused, binding, cursor=first.next_cursor)
        assert first.items + items_of(rest) == source.items


async def test_without_a_store_there_is_nothing_to_keep() -> None:
    """A first page is remembered under its version, as with a store."""
    paginator, listing = node(None), Listing(tools(35))
    for _ in range(3):
        await paginator.page(None, listing, ALICE, source_version="1")
    assert listing.calls == 1


# The store's answers make no sense.


async def test_a_store_data_error_is_taken_for_missing_and_counted() -> None:
    """What a driver returned was nonsense: healed, else lost; the error never leaves."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    store.get_error = StoreDataError("nonsense")
    assert await paginator.page(cursor, listing, ALICE) == pages[1]
    assert paginator.stats == healing.SnapshotStats(heals=1, bad_answers=1)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, lambda: [], ALICE)
    assert paginator.stats.bad_answers == 2
    store.get_error = None
    assert await paginator.page(cursor, unused, ALICE) == pages[1], "it is not left alone"


async def test_a_store_data_error_on_a_put_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """It is told, the first page is served, and later pages list again until a put works."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    store.put_error = StoreDataError("nonsense")
    page = await paginator.page(None, listing, ALICE)
    assert paginator.stats.bad_answers == 1
    assert "bad answer, taken for none: nonsense" in caplog.text
    store.put_error = None
    rest = await walk(paginator, listing, cursor=page.next_cursor)
    assert page.items + items_of(rest) == tools(35)
    assert listing.calls == 2


Twist: TypeAlias = Callable[[Any], Any]


class Hostile(MemoryStore):
    """A store that answers with what a test makes of its objects."""

    def __init__(self, twist: Twist) -> None:
        super().__init__(clock=FakeClock())
        self.twist = twist

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        answer: Sequence[bytes | None] = self.twist(await super().get(digests))
        return answer


def forged(blob: bytes | None) -> bytes:
    """Return an item that the store would like to be served."""
    return b'I{"name":"evil"}' if blob and blob[:1] == b"I" else blob or b""


TWISTS: list[Twist] = [
    lambda blobs: [forged(blob) for blob in blobs],
    lambda blobs: list(blobs)[::-1],
    lambda blobs: [blobs[0]] * len(blobs),
    lambda blobs: blobs[:-1],
    lambda blobs: [*blobs, b"I1"],
    lambda blobs: [],
    lambda blobs: [b""] * len(blobs),
    lambda blobs: [blob and bytearray(blob) for blob in blobs],
    lambda blobs: [b"R" + b"\x91" * 100_000] * len(blobs),
    lambda blobs: [b"\xdd\xff\xff\xff\xff"] * len(blobs),
    lambda blobs: [None] * len(blobs),
]


@pytest.mark.parametrize("twist", TWISTS, ids=range(len(TWISTS)))
async def test_a_hostile_store_can_refuse_but_never_substitute(twist: Twist) -> None:
    """Whatever the store answers, a page is the right one, or lost where the list changed."""
    listing = Listing(tools(300))
    cursor, pages = await begun(node(None), listing)
    store = Hostile(twist)
    paginator = node(store)
    await paginator.page(None, listing, ALICE)
    for number in range(1, 4):
        page = await paginator.page(pages[number - 1].next_cursor, listing, ALICE)
        assert page == pages[number]
    listing.items.pop()
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, listing, ALICE)


@pytest.mark.parametrize("kind", ["item", "node", "top"])
async def test_an_object_of_another_kind_is_not_taken_for_a_snapshot(kind: str) -> None:
    """An authentic root that names an item or a node of a list is as good as lost."""
    store, listing = WatchedStore(), Listing(tools(300))
    paginator = node(store)
    await begun(paginator, listing)
    tree = await build([b"I" + str(number).encode() for number in range(300)], "json")
    await store.put(tree.objects(), deadline=2**40)
    objects = list(tree.objects())
    digest = {"item": objects[0], "node": objects[300], "top": objects[301]}[kind].digest
    position = SnapshotOffset(digest, 0, 10)
    cursor = codec_of(FakeClock()).encode(position, ALICE)
    with pytest.raises(SnapshotLostError):
        await paginator.page(cursor, listing, ALICE)


@pytest.mark.parametrize(
    "blob",
    [
        b"R",
        b"R\xc1",
        b"R" + b"\x91" * 100_000,
        b"R\xdd\xff\xff\xff\xff",
        b"",
        b"R\x93\x01\xa4json\xc4\x00",
    ],
    ids=range(6),
)
async def test_rotten_contents_under_an_authentic_root_are_as_good_as_lost(blob: bytes) -> None:
    """Bombs and wrong counts behind a root that was signed: lost, and no other error."""
    store, listing = WatchedStore(), Listing(tools(35))
    await store.put([StoredObject(digest_of(blob), blob)], deadline=2**40)
    cursor = codec_of(FakeClock()).encode(SnapshotOffset(digest_of(blob), 10, 10), ALICE)
    with pytest.raises(SnapshotLostError):
        await node(store).page(cursor, listing, ALICE)


# Eviction and expiry.


async def test_a_list_larger_than_the_store_is_walked_right() -> None:
    """With room for a fraction of the list every page is right, at a listing each at most."""
    items = [{"name": f"tool-{number}", "text": "x" * 10_000} for number in range(200)]
    store = MemoryStore(max_bytes=2**20, clock=FakeClock())
    paginator, listing = node(store), Listing(items)
    pages = await walk(paginator, listing)
    assert items_of(pages) == items
    assert listing.calls <= len(pages)
    assert store.bytes_used <= 2**20


async def test_walks_that_evict_each_other_are_all_right() -> None:
    """Ten lists that do not fit the store together, walked in turns, stay ten lists."""
    lists = [
        [{"name": f"{mark}-{number}", "text": "x" * 5000} for number in range(40)]
        for mark in range(10)
    ]
    paginator = node(MemoryStore(max_bytes=2**20, clock=FakeClock()))
    pages = {mark: [await paginator.page(None, Listing(lists[mark]), ALICE)] for mark in range(10)}
    for _ in range(3):
        for mark, walked in pages.items():
            cursor = walked[-1].next_cursor
            walked.append(await paginator.page(cursor, Listing(lists[mark]), ALICE))
    assert [items_of(walked) for walked in pages.values()] == lists


async def test_objects_that_expire_too_early_are_healed() -> None:
    """A store whose clock runs an hour ahead costs listings, never a wrong page."""
    clock = FakeClock()
    store, listing = MemoryStore(clock=lambda: clock() + 3600), Listing(tools(35))
    pages = await walk(node(store, clock), listing)
    assert items_of(pages) == tools(35)
    assert listing.calls == 4


async def test_the_snapshot_outlives_its_cursors() -> None:
    """In the last second of a cursor, and on a node whose clock is a minute behind, it is there."""
    clock = FakeClock()
    behind = FakeClock(clock.now - 60)
    store, listing = MemoryStore(clock=clock), Listing(tools(35))
    cursor, pages = await begun(node(store, clock), listing)
    assert pages[0].expires_at is not None
    clock.now = pages[0].expires_at + 59
    behind.now = pages[0].expires_at - 1
    assert await walk(node(store, behind), unused, cursor=cursor) == pages[1:]
    with pytest.raises(CursorError):
        await node(store, clock).page(cursor, unused, ALICE)


# What operators see.


async def test_failures_are_logged_without_what_they_concern(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failing store and a lost walk are a WARNING each; no item, principal or cursor in it."""
    store, listing = WatchedStore(), Listing(tools(35))
    paginator = node(store)
    cursor, _ = await begun(paginator, listing)
    with caplog.at_level(logging.WARNING, "cursorkit"):
        store.get_error = StoreDataError("nonsense")
        with pytest.raises(SnapshotLostError):
            await paginator.page(cursor, lambda: [], ALICE)
        store.get_error = DOWN
        with pytest.raises(StoreUnavailableError):
            await paginator.page(cursor, lambda: [], ALICE)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    wrong, lost, failed = [record.getMessage() for record in caplog.records]
    assert wrong == "the snapshot store gave a bad answer, taken for none: nonsense"
    assert lost.startswith("refused cursor: reason=lost ")
    assert failed == "the snapshot store failed and is left alone for 5 s: no connection"
    for word in ("alice", "tool-", cursor):
        assert word not in caplog.text


async def test_a_clock_that_gives_nonsense_does_no_harm() -> None:
    """With NaN for a time the store is asked, and pages are right or refused."""
    clock = FakeClock()
    store, listing = WatchedStore(clock), Listing(tools(35))
    paginator = node(store, clock)
    cursor, _ = await begun(paginator, listing)
    clock.now = math.nan
    with pytest.raises(CursorError):
        await paginator.page(cursor, unused, ALICE)


# Stores that break their contract, and callbacks that do.


class Astray:
    """A store that raises, or answers with, what no store should."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    async def put(self, objects: Any, *, deadline: int, repair: bool = False) -> None:
        if isinstance(self.outcome, Exception):
            raise self.outcome

    async def get(self, digests: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    "outcome",
    [OSError("x"), TimeoutError(), RuntimeError("x"), StoreError("x"), None, 5, iter([b"x"])],
    ids=lambda outcome: type(outcome).__name__,
)
async def test_a_store_that_breaks_its_contract_costs_listings_not_pages(outcome: Any) -> None:
    """Whatever comes out of a store, an unchanged list is walked whole."""
    listing = Listing(tools(35))
    assert items_of(await walk(node(Astray(outcome)), listing)) == tools(35)
    assert listing.calls == 4


async def test_an_error_that_no_store_should_raise_is_told() -> None:
    """Where the list has changed it is what the page ends with, and its cause is the error."""
    cursor, _ = await begun(node(None), Listing(tools(35)))
    error = OSError("x")
    with pytest.raises(StoreUnavailableError) as failure:
        await node(Astray(error)).page(cursor, lambda: [], ALICE)
    assert str(failure.value) == "it raised OSError, which is no StoreError"
    assert failure.value.__cause__ is error


async def test_a_setting_that_a_store_refuses_is_not_taken_for_an_outage() -> None:
    """The host must learn of it."""
    with pytest.raises(ConfigurationError, match="loop"):
        await node(Astray(ConfigurationError("wrong loop"))).page(None, Listing(tools(35)), ALICE)


class Distant(WatchedStore):
    """A store whose answer takes a moment, so that many ask before the first has failed."""

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        await anyio.lowlevel.checkpoint()
        return await super().get(digests)


async def test_one_failure_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Fifty pages that were under way when the store failed do not make fifty warnings."""
    store, listing = Distant(), Listing(tools(35))
    paginator = node(store)
    cursor, pages = await begun(paginator, listing)
    store.fail(DOWN)
    found: list[Page[Any]] = []

    async def ask() -> None:
        found.append(await paginator.page(cursor, listing, ALICE))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(ask)
    assert found == [pages[1]] * 50
    assert paginator.stats.store_failures == 1
    assert caplog.text.count("left alone") == 1


@pytest.mark.parametrize("name", ["source", "visible", "source_version"])
async def test_a_refusal_of_an_upstream_is_not_the_clients(name: str) -> None:
    """A `CursorError` of the host's own code is no refusal of the client's cursor."""

    def upstream(*_: Any) -> Any:
        raise SnapshotLostError

    options: dict[str, Any] = {"source": Listing(tools(35)), name: upstream}
    source = options.pop("source")
    with pytest.raises(SourceError):
        await node(None).page(None, source, ALICE, **options)
    cursor, _ = await begun(node(None), Listing(tools(35)))
    if name != "source_version":
        with pytest.raises(SourceError):
            await node(None).page(cursor, source, ALICE, **options)
