"""Walks over several nodes while their list changes and their stores fail, against a model.

Whatever hypothesis thinks of, a page is the slice of the list that its walk began with, or an error
where the model says that nothing better could be done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cursorkit.binding import Binding
from cursorkit.errors import (
    CursorkitError,
    ExpiredCursorError,
    SnapshotLostError,
    StoreUnavailableError,
)
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.testing.clock import FakeClock
from tests.snapshot_fakes import ALICE, BOB, WatchedStore, node

TTL = 600
LEFT_ALONE = 5
REMEMBERED = 30
LONG_AGO = -1e9

Names: TypeAlias = tuple[str, ...]
"""A list as it was at some moment."""


class Store(WatchedStore):
    """A node's store, or that of several.

    Attributes:
        down: What it fails with, None while it works.
        holds: The lists that it surely has whole, each until a time.
    """

    down: StoreUnavailableError | None = None

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.holds: dict[Names, int] = {}


@dataclass
class Node:
    """A node, and what it knows of its store and of the list."""

    paginator: SnapshotPaginator
    store: Store | None
    get_failed: float = LONG_AGO
    put_failed: float = LONG_AGO
    found_changed: dict[tuple[Names, str], float] = field(
        default_factory=dict[tuple[Names, str], float]
    )


@dataclass
class Walk:
    """A walk under way.

    Attributes:
        items: The list at its first request.
        page_size: Of that request.
        principal: Whose it is.
        expires_at: When its cursors end.
        cursors: The cursor of each page from the second on, None at the end.
        served: The pages that these gave.
    """

    items: Names
    page_size: int
    principal: str
    expires_at: int
    cursors: list[str | None]
    served: list[Page[str]] = field(default_factory=list[Page[str]])


NODES = st.sampled_from(["own", "shared", "shared too", "lossy", "storeless"])
NAMES = st.text("abc", min_size=1, max_size=2)
PLACES = st.integers(0, 12)


class Walks(RuleBasedStateMachine):
    """Several walks of one list, over nodes with every kind of store."""

    walks: Bundle[Walk] = Bundle("walks")

    @initialize(items=st.lists(NAMES, min_size=5, max_size=12))
    def start(self, items: list[str]) -> None:
        self.clock = FakeClock(1_800_000_000)
        self.items = items
        self.listings = 0
        own, shared, lossy = (Store(self.clock) for _ in range(3))
        stores = {"own": own, "shared": shared, "shared too": shared, "lossy": lossy}
        self.nodes = {
            name: Node(node(store, self.clock, ttl=TTL), store)
            for name, store in [*stores.items(), ("storeless", None)]
        }
        self.under_way: list[Walk] = []

    def source(self) -> list[str]:
        self.listings += 1
        return list(self.items)

    # The list changes.

    @rule(name=NAMES, place=PLACES)
    def add(self, name: str, place: int) -> None:
        self.items.insert(place, name)

    @precondition(lambda self: self.items)
    @rule(place=PLACES)
    def remove(self, place: int) -> None:
        del self.items[place % len(self.items)]

    @precondition(lambda self: self.items)
    @rule(name=NAMES, place=PLACES)
    def replace(self, name: str, place: int) -> None:
        self.items[place % len(self.items)] = name

    @rule(walk=walks)
    def change_back(self, walk: Walk) -> None:
        self.items = list(walk.items)

    # Time passes; stores fail and lose objects.

    @rule(seconds=st.sampled_from([0.5, 2, 5, 29, 30, 120, 400]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(name=st.sampled_from(["shared", "lossy"]), answered=st.booleans())
    def fail_or_recover(self, name: str, answered: bool) -> None:
        store = self.nodes[name].store
        assert store is not None
        error = StoreUnavailableError("down", answered=answered)
        store.down = None if store.down else error
        store.fail(store.down)

    @rule(share=st.integers(1, 3))
    def lose(self, share: int) -> None:
        store = self.nodes["lossy"].store
        assert store is not None
        store.lose(store.asked[::share])
        store.holds.clear()

    # Walks begin, go on, and go back.

    @rule(
        target=walks,
        name=NODES,
        principal=st.sampled_from(["alice", "bob"]),
        page_size=st.integers(1, 4),
        versioned=st.booleans(),
    )
    def begin(self, name: str, principal: str, page_size: int, versioned: bool) -> Walk:
        where, items = self.nodes[name], tuple(self.items)
        version = "/".join(["list", *items]) if versioned else None

        async def first() -> Page[str]:
            return await where.paginator.page(
                None,
                self.source,
                self.binding(principal),
                page_size=page_size,
                source_version=version,
            )

        noting = self.watch(where)
        page = anyio.run(first)
        noting(items, page.expires_at or 0, must_put=page.next_cursor is not None and not versioned)
        self.check(page, items, 0, page_size)
        walk = Walk(items, page_size, principal, page.expires_at or 0, [page.next_cursor])
        self.under_way.append(walk)
        return walk

    @rule(walk=walks, name=NODES, times=st.sampled_from([1, 1, 5]))
    def go_on(self, walk: Walk, name: str, times: int) -> None:
        page = self.ask(walk, len(walk.served), name, times)
        if page is not None:
            walk.served.append(page)
            walk.cursors.append(page.next_cursor)

    @precondition(lambda self: any(walk.served for walk in self.under_way))
    @rule(walk=walks, name=NODES, place=PLACES, times=st.sampled_from([1, 5]))
    def go_back(self, walk: Walk, name: str, place: int, times: int) -> None:
        if walk.served:
            number = place % len(walk.served)
            page = self.ask(walk, number, name, times)
            assert page is None or page == walk.served[number]

    def ask(self, walk: Walk, number: int, name: str, times: int) -> Page[str] | None:
        """Ask a node for a page, several times at once; check it, or that the error was right."""
        cursor, where = walk.cursors[number], self.nodes[name]
        if cursor is None:
            return None
        outcomes: list[Page[str] | type[CursorkitError]] = []

        async def once() -> None:
            binding = self.binding(walk.principal)
            try:
                outcomes.append(await where.paginator.page(cursor, self.source, binding))
            except CursorkitError as error:
                outcomes.append(type(error))

        async def at_once() -> None:
            async with anyio.create_task_group() as tasks:
                for _ in range(times):
                    tasks.start_soon(once)

        right, listings = self.verdict(walk, where), self.listings
        noting = self.watch(where)
        anyio.run(at_once)
        assert outcomes == [outcomes[0]] * times
        assert self.listings - listings <= 1
        listed, changed = self.listings > listings, tuple(self.items) != walk.items
        if listed and changed:
            where.found_changed[walk.items, walk.principal] = self.clock.now
        noting(walk.items, walk.expires_at, must_put=listed and not changed)
        outcome = outcomes[0]
        if isinstance(outcome, Page):
            assert Page in right
            self.check(outcome, walk.items, (number + 1) * walk.page_size, walk.page_size)
            return outcome
        assert outcome in right
        return None

    def check(self, page: Page[str], items: Names, offset: int, page_size: int) -> None:
        """Check that a page is the slice of a list, and ends the walk exactly at its end."""
        assert page.items == list(items[offset : offset + page_size])
        assert page.total == len(items)
        assert (page.next_cursor is None) == (offset + page_size >= len(items))

    def binding(self, principal: str) -> Binding:
        return ALICE if principal == "alice" else BOB

    # The model.

    def verdict(self, walk: Walk, where: Node) -> set[Any]:
        """Return which outcomes are right: a page, or one of the errors."""
        now, store = self.clock.now, where.store
        if now >= walk.expires_at:
            return {ExpiredCursorError}
        readable = store is not None and not store.down and now - where.get_failed >= LEFT_ALONE
        if store and readable and store.holds.get(walk.items, 0) >= walk.expires_at:
            return {Page}
        changed = tuple(self.items) != walk.items
        found_at = where.found_changed.get((walk.items, walk.principal), LONG_AGO)
        if not changed and now - found_at >= REMEMBERED:
            return {Page}
        if readable:
            # Objects that were not lost, or that are another list's too, may make up the page.
            return {Page, SnapshotLostError}
        return {StoreUnavailableError if store else SnapshotLostError}

    def watch(self, where: Node) -> Callable[..., None]:
        """Return what checks and notes, after a request, how it called the node's store."""
        store = where.store
        puts, gets = (store.puts, store.gets) if store else (0, 0)

        def note(items: Names, expires_at: int, *, must_put: bool) -> None:
            if store is None:
                return
            now = self.clock.now
            put, got = store.puts > puts, store.gets > gets
            assert not got or now - where.get_failed >= LEFT_ALONE, "it is left alone"
            assert not put or now - where.put_failed >= LEFT_ALONE, "it is left alone"
            if store.down is None:
                if put:
                    store.holds[items] = max(store.holds.get(items, 0), expires_at)
                assert put or not must_put or now - where.put_failed < LEFT_ALONE
                return
            if got or (put and not store.down.answered):
                where.get_failed = now
            if put or (got and not store.down.answered):
                where.put_failed = now

        return note

    @invariant()
    def every_completed_walk_is_its_list(self) -> None:
        for walk in getattr(self, "under_way", []):
            if walk.cursors[-1] is None:
                rest = [item for page in walk.served for item in page.items]
                assert (*walk.items[: walk.page_size], *rest) == walk.items


TestWalks = Walks.TestCase
TestWalks.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
