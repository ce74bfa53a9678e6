"""Walks over many nodes and servers: failover, clusters, crashes, and many pages at once."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Generator
from functools import partial
from typing import Any, Final

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from cursorkit.errors import SnapshotLostError, StoreUnavailableError
from tests.redis_kit import cancelled, child, run
from tests.redis_nodes import (
    Node,
    check_whole,
    contents,
    expect,
    key_starting,
    nodes,
    within,
)
from tests.servers import HOST, Cluster, Proxy, Server, follow, replicated, wait_until
from tests.snapshot_fakes import ALICE, Listing, items_of, node, tools

pytestmark = pytest.mark.anyio

# The primary changes


async def test_walks_go_on_after_a_failover(pair: tuple[Server, Server], address: Proxy) -> None:
    """READONLY leads to the new primary at once: no page lists, and new walks are stored there."""
    primary, replica = pair
    async with nodes(address.port, 2) as (a, b):
        pages = await a.walk()
        await b.page(pages[0].next_cursor)
        replicated(primary, replica)
        replica.command("REPLICAOF", "NO", "ONE")
        follow(primary, replica)
        address.target = replica
        a.listing.items[5:5] = tools(1, start=100)
        first = await a.page()
        assert len(contents(replica)) == 36 + 2
        address.cut()
        for each in (a, b):
            each.listed()
        assert await b.walk(pages[0].next_cursor) == pages[1:]
        assert items_of([first, *await b.walk(first.next_cursor)]) == a.listing.items
        assert (a.listed(), b.listed()) == (0, 0)


@pytest.mark.parametrize("stale", ["yes", "no"])
async def test_a_replica_that_lags_never_makes_a_walk_expire(
    pair: tuple[Server, Server], address: Proxy, stale: str
) -> None:
    """What a replica lacks (or refuses, with MASTERDOWN) is listed again or unavailable."""
    primary, replica = pair
    replica.command("CONFIG", "SET", "replica-serve-stale-data", stale)
    async with nodes(primary.port, 1) as (a,), nodes(address.port, 1) as (b,):
        address.target = replica
        replica.command("REPLICAOF", HOST, 1)
        pages = await a.walk()
        cursor = pages[0].next_cursor
        assert await b.page(cursor) == pages[1]
        assert b.listed() == 1
        b.listing.items.reverse()
        await expect(StoreUnavailableError, b, cursor)
        address.target = primary
        address.cut()
        b.clock.advance(5)
        b.listed()
        assert await b.walk(cursor) == pages[1:]
        assert b.listed() == 0


async def test_a_primary_that_is_demoted_for_good_still_serves_walks(
    pair: tuple[Server, Server],
) -> None:
    """Walks under way are read, new ones are listed again, and stored as soon as it is primary."""
    primary, replica = pair
    async with nodes(primary.port, 2) as (a, b):
        old = await a.walk()
        replicated(primary, replica)
        replica.command("REPLICAOF", "NO", "ONE")
        follow(primary, replica)
        assert await b.walk(old[0].next_cursor) == old[1:]
        assert b.listed() == 0
        for each in (a, b):
            each.listing.items.reverse()
        new = await a.page()
        await expect(StoreUnavailableError, Node(a.client, "test"), new.next_cursor)
        assert (await b.page(new.next_cursor)).items == a.listing.items[10:20]
        primary.command("REPLICAOF", "NO", "ONE")
        for each in (a, b):
            each.clock.advance(5)
            each.listed()
        assert items_of([new, *await b.walk(new.next_cursor)]) == a.listing.items
        assert (await a.page(new.next_cursor)).items == a.listing.items[10:20]
        assert (a.listed(), b.listed()) == (0, 1)


async def test_a_write_lost_in_a_failover_is_healed_once(
    pair: tuple[Server, Server], address: Proxy
) -> None:
    """A snapshot that the new primary never got is there after one listing, for every node."""
    primary, replica = pair
    async with nodes(address.port, 3) as (a, b, c):
        replica.command("REPLICAOF", "NO", "ONE")
        pages = await a.walk()
        address.target = replica
        primary.kill()
        for each in (b, a, c):
            assert await each.walk(pages[0].next_cursor) == pages[1:]
        assert (a.listed(), b.listed(), c.listed()) == (1, 1, 0)
        assert len(contents(replica)) == 36


# A cluster


@contextlib.contextmanager
def moving(cluster: Cluster, slot: int, source: Server, target: Server) -> Generator[None]:
    """Move a slot with its keys: inside, it is under way."""
    names = {each: each.command("CLUSTER", "MYID") for each in (source, target)}
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
    try:
        yield
    finally:
        for key in source.command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            source.command("MIGRATE", HOST, target.port, key, 0, 5000)
        for each in (target, source, *cluster.nodes):
            each.command("CLUSTER", "SETSLOT", slot, "NODE", names[target])


async def test_a_walk_goes_on_while_a_slot_moves(cluster: Cluster, namespace: str) -> None:
    """Before, during and after the move of its root's slot nothing lists, and new lists store."""
    async with nodes(cluster, 2, namespace=namespace) as (a, b):
        pages = await a.walk()
        cursor = pages[0].next_cursor
        root = key_starting(cluster, b"R", namespace)
        slot, source = key_slot(root), cluster.holder(root)
        target = next(each for each in cluster.nodes if each is not source)
        with moving(cluster, slot, source, target):
            assert await b.walk(cursor) == pages[1:]
            source.command("MIGRATE", HOST, target.port, root, 0, 5000)
            assert await b.walk(cursor) == pages[1:]
            a.listing.items.reverse()
            new = await a.page()
            assert items_of([new, *await b.walk(new.next_cursor)]) == a.listing.items
        assert await b.walk(cursor) == pages[1:]
        assert b.listed() == 0
        with moving(cluster, slot, target, source):
            assert await b.walk(cursor) == pages[1:]
        assert b.listed() == 0


# redis-py drops the connections of nodes that it replaces without closing them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_cluster_that_loses_a_node_in_mid_publish_costs_listings_and_heals(
    cluster: Cluster, namespace: str
) -> None:
    """Pages come in time, without the node and at CLUSTERDOWN; no root precedes its children."""
    async with nodes(cluster, 3, namespace=namespace, count=300) as (a, b, c):
        pages = await a.walk()
        cursor = pages[0].next_cursor
        for each in (b, c):
            assert await each.walk(cursor) == pages[1:]
        stored = contents(cluster, namespace)
        gone = cluster.nodes[2]
        a.listing.items = tools(5000, start=1000)
        begun = gone.command("DBSIZE") + 50
        publication = asyncio.ensure_future(a.page())
        await asyncio.to_thread(wait_until, lambda: gone.command("DBSIZE") > begun, "publication")
        for each in (a, b, c):
            each.hurry(0.3)
        gone.kill()
        try:
            new = await publication
            assert new.items == a.listing.items[:10]
            assert a.paginator.stats.store_failures == 1
            for reachable in (True, False):
                async with within(1.2):
                    assert await b.page(cursor) == pages[1]
                c.listing.items.reverse()
                async with within(1.2):
                    await expect(StoreUnavailableError, c, cursor)
                c.listing.items.reverse()
                if reachable:
                    await asyncio.to_thread(wait_until, partial(_is_down, cluster.nodes[0]), "fail")
                    b.clock.advance(30)
                    c.clock.advance(30)
        finally:
            gone.start()
            cluster.wait_until_well()
        half = contents(cluster, namespace).items() - stored.items()
        assert {blob[:1] for _, blob in half} == {b"I"}
        for each in (a, b, c):
            each.clock.advance(30)
            each.listed()
            each.hurry(10)
        for each in (b, c):
            assert await each.walk(cursor) == pages[1:]
        assert (b.listed(), c.listed()) == (1, 0)
        assert stored.items() <= contents(cluster, namespace).items()

        b.listing.items = a.listing.items
        for each in (b, a):
            assert (await each.page(new.next_cursor)).items == a.listing.items[10:20]
        assert (a.listed(), b.listed()) == (0, 1)
        check_whole(contents(cluster, namespace), namespace)


def _is_down(server: Server) -> bool:
    info: bytes = server.command("CLUSTER", "INFO")
    return b"cluster_state:fail" in info


# Many at once


async def test_a_hundred_pages_after_a_loss_cost_one_listing(server: Server) -> None:
    """All pages of a lost walk, asked for together on one node, are right after one listing."""
    async with nodes(server.port, 1, count=105) as (a,):
        pages = await a.walk()
        server.command("FLUSHALL")
        a.listed()
        cursors = [page.next_cursor for page in pages[:-1]]
        assert await asyncio.gather(*map(a.page, cursors * 10)) == pages[1:] * 10
        assert a.listed() == 1
        assert len(contents(server)) == 106


async def test_a_hundred_pages_after_a_change_cost_one_listing_in_30_seconds(
    server: Server,
) -> None:
    """Where the list changed all are refused, then and later, and each 30 s it is asked once."""
    async with nodes(server.port, 1, count=105) as (a,):
        pages = await a.walk()
        server.command("FLUSHALL")
        a.listing.items.reverse()
        a.listed()
        cursors = [page.next_cursor for page in pages[:-1]] * 10
        for _ in range(2):
            for _ in range(3):
                answers = await asyncio.gather(*map(a.page, cursors), return_exceptions=True)
                assert {type(answer) for answer in answers} == {SnapshotLostError}
                a.clock.advance(9.9)
            assert a.listed() == 1
            a.clock.advance(0.3)


class Stopping(Listing):
    """A source whose first listing waits until it is cancelled."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self.begun = asyncio.Event()

    async def listed(self) -> list[Any]:
        self.begun.set()
        return self() if self.calls else await self._stop()

    async def _stop(self) -> list[Any]:
        self.calls += 1
        await asyncio.Event().wait()
        raise AssertionError("not cancelled")


async def test_a_cancelled_leader_of_a_heal_is_followed_by_the_next(server: Server) -> None:
    """Where the page that lists is cancelled another lists, and all others are served."""
    async with nodes(server.port, 1, count=105) as (a,):
        pages = await a.walk()
        server.command("FLUSHALL")
        source = Stopping(a.listing.items)
        calls = [
            asyncio.ensure_future(a.paginator.page(page.next_cursor, source.listed, ALICE))
            for page in pages[:-1]
        ]
        await source.begun.wait()
        calls[0].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert answers[1:] == pages[2:]
        assert source.calls == 2


async def test_nodes_that_publish_one_list_at_once_store_one_copy(server: Server) -> None:
    """Twenty first pages on twenty nodes are equal, and each object is stored once."""
    async with nodes(server.port, 20, count=300, page_size=50) as many:
        firsts = await asyncio.gather(*(each.page() for each in many))
        assert firsts == [firsts[0]] * 20
        assert len(server.keys("test")) == 303
        walks = await asyncio.gather(*(each.walk(firsts[0].next_cursor) for each in many))
        assert walks == [walks[0]] * 20
        assert items_of([firsts[0], *walks[0]]) == tools(300)
        assert [each.listed() for each in many] == [1] * 20


async def test_nodes_with_other_settings_and_clocks_share_walks(
    shared_server: Server, namespace: str
) -> None:
    """No lease is ever shortened, and no fresh cursor refused, whoever serves the next page."""
    settings: list[dict[str, Any]] = [
        {"ttl": 600, "quantum": 60, "page_size": 10},
        {"ttl": 620, "quantum": 30, "page_size": 7, "skew": 30},
        {"ttl": 590, "quantum": 1, "page_size": 13, "skew": -30},
    ]
    leases: dict[bytes, int] = {}

    def check_leases() -> None:
        keys = shared_server.keys(namespace)
        until = shared_server.commands([("EXPIRETIME", key) for key in keys])
        found = dict(zip(keys, until, strict=True))
        assert leases.keys() <= found.keys()
        assert all(found[key] >= leases[key] for key in leases)
        leases.update(found)

    async with contextlib.AsyncExitStack() as stack:
        three: list[Node] = []
        for own in settings:
            opened = nodes(shared_server.port, 1, namespace=namespace, **own)
            three += await stack.enter_async_context(opened)
        for turn, first in enumerate([*three, *three]):
            for each in three:
                each.clock.advance(20)
            pages = [await first.page()]
            check_leases()
            while (cursor := pages[-1].next_cursor) is not None:
                answers = [await each.page(cursor) for each in three]
                assert answers == [answers[0]] * 3
                pages.append(answers[0])
            assert items_of(pages) == first.listing.items
            assert pages[0].expires_at is not None
            assert min(leases.values()) >= pages[0].expires_at
            assert sum(each.listed() for each in three) == 1, turn


# Crashes, loops, forks, cancellations

PUBLISHER: Final = """
    import asyncio, itertools, sys
    from redis.asyncio import Redis
    from tests.redis_nodes import Node
    from tests.snapshot_fakes import tools

    async def main():
        async with Redis(host="127.0.0.1", port=int(sys.argv[1])) as client:
            for turn in itertools.count():
                publisher = Node(client, "test")
                publisher.listing.items = tools(400, start=turn * 400)
                await publisher.page()

    asyncio.run(main())
    """
"""Publishes one list after another until it is killed."""


async def test_a_process_killed_in_mid_publish_leaves_nothing_half(server: Server) -> None:
    """No object is without its children, all expire, and the broken-off list is walked right."""
    with child(PUBLISHER, server.port) as publisher:
        try:
            wait_until(lambda: server.command("DBSIZE") > 1000, "publication")
        finally:
            publisher.kill()
    stored = contents(server)
    check_whole(stored)
    assert sum(blob[:1] == b"R" for blob in stored.values()) >= 1
    assert min(server.commands([("TTL", key) for key in stored])) > 0
    turn = sum(blob[:1] == b"I" for blob in stored.values()) // 400
    async with nodes(server.port, 2) as (a, b):
        for each in (a, b):
            each.listing.items = tools(400, start=turn * 400)
        first = await a.page()
        assert items_of([first, *await b.walk(first.next_cursor)]) == a.listing.items
        assert b.listed() == 0


LOOPS: Final = """
    import asyncio, os, sys
    from redis.asyncio import Redis
    from tests.snapshot_fakes import items_of
    from tests.redis_nodes import Node

    def made(port):
        return Node(Redis(host="127.0.0.1", port=port), "test")

    a, b = made(int(sys.argv[1])), made(int(sys.argv[1]))

    async def walked():
        first = await a.page()
        walks = await asyncio.gather(*(b.walk(first.next_cursor) for _ in range(5)))
        for pages in walks:
            assert items_of([first, *pages]) == a.listing.items
        assert b.listed() == 0
        print("walked", flush=True)

    for _ in range(2):
        asyncio.run(walked())
    child = os.fork()
    for _ in range(3):
        asyncio.run(walked())
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """


def test_walks_go_on_in_new_event_loops_and_after_a_fork(server: Server) -> None:
    """Nodes that have served serve on in the next loop; parent and child do at the same time."""
    assert run(LOOPS, server.port).count("walked") == 2 + 3 + 3


async def test_a_thousand_cancelled_pages_leave_nothing_behind(server: Server) -> None:
    """However pages are cancelled: never another walk's items, and no more connections."""
    source = random.Random(7)  # noqa: S311  # no secret
    async with Redis(host=HOST, port=server.port) as client:
        services = [Node(client, f"test:{number}", count=35 + number) for number in range(5)]
        for number, each in enumerate(services):
            each.redis = services[0].redis
            each.paginator = node(each.redis, each.clock)
            each.listing.items = tools(35 + number, start=1000 * number)
        walks = [await each.walk() for each in services]

        async def one() -> None:
            number = source.randrange(len(services))
            page = source.randrange(4)
            cursor = walks[number][page - 1].next_cursor if page else None
            how = source.choice(["task", "twice", "scope"])
            answer = await cancelled(services[number].page(cursor), source.random() * 0.01, how)
            assert answer is None or answer == walks[number][page]

        for _ in range(50):
            await asyncio.gather(*(one() for _ in range(20)))
        assert server.connections() <= 8
        assert services[0].redis.bad_objects == 0
        assert [await each.walk() for each in services] == walks


# What it costs


async def test_an_empty_list_is_not_stored(shared_server: Server, namespace: str) -> None:
    """An empty list, and one that fits a page, are served without a key."""
    for count in (0, 10):
        async with nodes(shared_server.port, 1, namespace=namespace, count=count) as (a,):
            assert [page.items for page in await a.walk()] == [tools(count)]
            assert shared_server.keys(namespace) == []


async def test_a_page_of_a_long_list_costs_about_a_page(server: Server) -> None:
    """Fifty of 2,000 items take three requests, and bytes of the page and of its way there."""
    async with (
        nodes(server.port, 1, count=2000, page_size=50) as (a,),
        Proxy(server) as proxy,
        nodes(proxy.port, 1, count=2000) as (b,),
    ):
        first = await a.page()
        cursor = (await a.page(first.next_cursor)).next_cursor
        await b.page(cursor)  # It is connected now.
        before = proxy.requests, _sent(server)
        page = await b.page(cursor)
        assert page.items == a.listing.items[100:150]
        assert proxy.requests - before[0] == 3
        assert _sent(server) - before[1] < 3 * 8192 + 50 * 200  # Of 200 kB in all.
        assert b.listed() == 0


def _sent(server: Server) -> int:
    return int(server.command("INFO", "stats")["total_net_output_bytes"])
