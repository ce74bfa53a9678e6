"""Walks over a real server that is down, full, or lost or spoiled what it had."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from cursorkit.errors import SnapshotLostError, StoreUnavailableError
from tests.redis_kit import documented_acl, impatient
from tests.redis_nodes import (
    Node,
    contents,
    expect,
    key_starting,
    moment,
    nodes,
    within,
)
from tests.servers import HOST, Proxy, Server, wait_until
from tests.snapshot_fakes import ALICE, items_of, node

pytestmark = pytest.mark.anyio

# The server is down

TIMEOUT: Final = 0.7
"""Of stores that wait, in seconds: twice is too long, and a busy machine has a margin."""


@contextlib.contextmanager
def deaf_port() -> Generator[int]:
    """Give a port at which nobody takes a connection: to connect there takes for ever."""
    with socket.create_server((HOST, 0), backlog=0) as listener:
        port = int(listener.getsockname()[1])
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex((HOST, port))
            yield port


DOWN: Final[dict[str, Callable[[Server], None]]] = {
    "refuses connections": Server.kill,
    "does not answer": Server.pause,
}


@pytest.mark.parametrize("how", DOWN)
async def test_pages_are_served_while_the_server_is_down(server: Server, how: str) -> None:
    """First and later pages come within 1.2 s, byte for byte those of before, and then at once."""
    async with nodes(server.port, 3, timeout=TIMEOUT) as (a, b, c):
        pages = await a.walk()
        cursor = pages[0].next_cursor
        assert await b.page(cursor) == pages[1]
        DOWN[how](server)
        async with within(1.2):
            assert await b.page(cursor) == pages[1]
        async with within(1.2):
            assert await c.page() == pages[0]
        async with within(0.5):
            assert await b.walk() == await c.walk() == pages


@pytest.mark.parametrize("near", [False, True])
async def test_many_pages_at_once_do_not_wait_for_one_another(server: Server, near: bool) -> None:
    """Forty first and later pages, asked for together, are all served within one timeout."""
    async with nodes(server.port, 2, near=near) as (a, b):
        pages = await a.walk()
        b.hurry(TIMEOUT)
        server.pause()
        cursors = [None, *(page.next_cursor for page in pages[:-1])]
        async with within(1.2):
            assert await asyncio.gather(*map(b.page, cursors * 10)) == pages * 10


async def test_pages_are_served_while_no_connection_is_taken() -> None:
    """A host that drops what it is sent costs one timeout, whatever the client's own are."""
    with deaf_port() as port:
        async with nodes(port, 1, timeout=TIMEOUT) as (a,):
            async with within(1.2):
                pages = await a.walk()
            assert items_of(pages) == a.listing.items
            assert a.paginator.stats.store_failures == 1


class Unheeding(Redis):
    """A client that loses a cancellation, as `asyncio.wait_for` may up to Python 3.11."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()


async def test_a_driver_that_does_not_heed_its_timeout_is_told_again() -> None:
    """Where the driver goes on waiting after a cancellation the page comes in time, too."""
    async with Unheeding() as client:
        a = Node(client, "test", timeout=TIMEOUT)
        elsewhere = node(None, a.clock)
        first = await elsewhere.page(None, a.listing, ALICE)
        async with within(1.2):
            assert (await a.page(first.next_cursor)).items == a.listing.items[10:20]


@pytest.mark.parametrize("how", DOWN)
async def test_a_list_that_changed_while_the_server_is_down_is_unavailable(
    server: Server, how: str
) -> None:
    """It is a retryable error within 1.2 s, by one listing, and the walk goes on afterwards."""
    async with nodes(server.port, 1, timeout=TIMEOUT) as (a,):
        pages = await a.walk()
        cursor = pages[0].next_cursor
        DOWN[how](server)
        a.listing.items.reverse()
        a.listed()
        async with within(1.2):
            await expect(StoreUnavailableError, a, cursor)
        for _ in range(3):
            await expect(StoreUnavailableError, a, cursor)
        assert a.listed() == 1
        if how == "does not answer":
            server.resume()
            a.clock.advance(5)
            assert await a.walk(cursor) == pages[1:]
            assert a.listed() == 0


async def test_a_store_that_failed_is_left_alone_for_five_seconds(
    shared_server: Server, namespace: str
) -> None:
    """Meanwhile no page sends it a byte; then one asks, and as soon as it answers none lists."""
    async with (
        Proxy(shared_server) as proxy,
        nodes(proxy.port, 1, namespace=namespace) as (a,),
    ):
        pages = await a.walk()
        a.listed()
        a.hurry(0.2)
        proxy.stall()
        assert await a.page(pages[0].next_cursor) == pages[1]
        for _ in range(2):
            sent = proxy.requests, proxy.connections
            for _ in range(4):
                assert await a.walk() == pages
                a.clock.advance(1.2)
            assert (proxy.requests, proxy.connections) == sent
            a.clock.advance(0.2)
            assert await a.page(pages[0].next_cursor) == pages[1]
            assert (proxy.requests, proxy.connections) != sent
        a.hurry(10)
        proxy.flow()
        a.clock.advance(5)
        a.listed()
        assert await a.walk(pages[0].next_cursor) == pages[1:]
        assert a.listed() == 0


async def test_what_is_near_is_served_while_the_server_is_down(server: Server) -> None:
    """A node that has a walk's objects near goes on without a listing, though the list changed."""
    async with nodes(server.port, 2, near=True) as (a, b):
        pages = await a.walk()
        assert await b.walk(pages[0].next_cursor) == pages[1:]
        server.kill()
        for each in (a, b):
            each.listing.items.clear()
            each.listed()
            assert await each.walk(pages[0].next_cursor) == pages[1:]
            assert each.listed() == 0


# Replies are lost


@pytest.mark.parametrize("retrying", [True, False])
async def test_whichever_reply_is_lost_a_walk_is_right(
    shared_server: Server, namespace: str, retrying: bool
) -> None:
    """Same bytes, no duplicate item, no listing, and nothing stored twice."""
    async with (
        Proxy(shared_server) as proxy,
        Redis(host=HOST, port=proxy.port) if retrying else impatient(proxy.port) as client,
    ):
        for lost in range(8):
            there = f"{namespace}:{lost}"
            now = moment()
            a, b = Node(client, there, now=now), Node(client, there, now=now)
            expected = await Node(client, f"{there}:undisturbed", now=now).walk()
            proxy.drop_reply = lost
            pages = [await a.page()]
            pages += await b.walk(pages[0].next_cursor)
            assert proxy.drop_reply == -1
            assert pages == expected
            assert (a.listed(), b.listed()) == (1, 0)
            assert len(shared_server.keys(there)) == 2 * 36


# Objects are lost


LATE_ITEM: Final = b'I{"name":"tool-277"'
"""An item of the last page."""


def evict(server: Server) -> None:
    """Let the server need memory, and throw out some of what will expire."""
    before = server.command("DBSIZE")
    used = int(server.command("INFO", "memory")["used_memory"])
    server.command("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
    server.command("CONFIG", "SET", "maxmemory", used - 30_000)
    wait_until(lambda: server.command("DBSIZE") < before, "eviction")
    server.command("CONFIG", "SET", "maxmemory", 0)


def expire(server: Server) -> None:
    """Let everything expire before its time, as a clock set forward does."""
    server.commands([("PEXPIREAT", key, 1) for key in server.keys("test")])


LOSSES: Final[dict[str, Callable[[Server], object]]] = {
    "flushed": lambda server: server.command("FLUSHALL"),
    "expired": expire,
    "evicted": evict,
    "root": lambda server: server.command("DEL", key_starting(server, b"R")),
    "node": lambda server: server.command("DEL", key_starting(server, b"N")),
    "item": lambda server: server.command("DEL", key_starting(server, LATE_ITEM)),
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_what_is_lost_is_healed_once_for_all_nodes(server: Server, loss: str) -> None:
    """One listing on one node: same pages and cursors, all objects back, and no other listing."""
    async with nodes(server.port, 3, count=300, page_size=50) as (a, b, c):
        pages = await a.walk()
        assert await b.walk() == await c.walk() == pages
        stored = contents(server)
        for each in (a, b, c):
            each.listed()
        LOSSES[loss](server)
        assert len(contents(server)) < len(stored)
        for each in (b, a, c, b):
            assert await each.walk(pages[0].next_cursor) == pages[1:]
        assert (a.listed(), b.listed(), c.listed()) == (0, 1, 0)
        assert contents(server) == stored
        assert min(server.commands([("TTL", key) for key in stored])) > 600


async def test_a_loss_that_near_stores_hide_is_healed_for_all(server: Server) -> None:
    """Nodes with all objects near go on, and the first that has not lists once and repairs."""
    async with nodes(server.port, 4, near=True) as (a, b, c, d):
        pages = await a.walk()
        cursor = pages[0].next_cursor
        assert await b.walk(cursor) == pages[1:]
        server.command("FLUSHALL")
        for each in (a, b, c, d):
            each.listing.calls = 0
            assert await each.walk(cursor) == pages[1:]
        assert (a.listed(), b.listed(), c.listed(), d.listed()) == (0, 0, 1, 0)
        assert len(server.keys("test")) == 36


@pytest.mark.parametrize("loss", LOSSES)
async def test_what_is_lost_of_a_changed_list_is_refused(server: Server, loss: str) -> None:
    """A page is the old one, whole, or SnapshotLostError: never part of one, nor another list."""
    async with nodes(server.port, 2, count=300, page_size=50) as (a, b):
        pages = await a.walk()
        LOSSES[loss](server)
        b.listing.items.reverse()
        refused = 0
        for before, page in pairwise(pages):
            try:
                assert await b.page(before.next_cursor) == page
            except SnapshotLostError:
                refused += 1
        assert refused >= 1
        assert b.listed() == 1
        if loss in ("flushed", "expired", "root"):
            assert refused == 5


# The server refuses


async def test_a_full_server_serves_the_walks_under_way(server: Server) -> None:
    """At maxmemory with noeviction old walks are read; new ones list, and are stored later."""
    async with nodes(server.port, 2) as (a, b):
        old = await a.walk()
        server.command("CONFIG", "SET", "maxmemory", 1)
        for each in (a, b):
            each.listing.items.reverse()
            each.listed()
        new = await a.walk()
        assert items_of(new) == a.listing.items
        assert a.listed() == len(new)
        assert await b.walk(new[0].next_cursor) == new[1:]
        assert b.listed() == len(new) - 1
        assert await b.walk(old[0].next_cursor) == old[1:]
        assert await a.walk(old[0].next_cursor) == old[1:]
        assert (a.listed(), b.listed()) == (0, 0)

        server.command("CONFIG", "SET", "maxmemory", 0)
        b.clock.advance(5)
        assert await b.walk(new[0].next_cursor) == new[1:]
        assert await a.walk(new[0].next_cursor) == new[1:]
        assert (a.listed(), b.listed()) == (0, 1)


@pytest.mark.parametrize("command", ["MGET", "EXPIRETIME", "SET"])
async def test_a_forbidden_command_costs_listings_and_is_logged_once(
    server: Server, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without one of its rights a store is as if down, and one line names the command."""
    rules = [*documented_acl(), f"-{command.lower()}"]
    server.command("ACL", "SETUSER", "cursorkit", *rules)
    async with nodes(server.port, 1, namespace="cursorkit", username="cursorkit") as (a,):
        pages = await a.walk()
        assert items_of(pages) == a.listing.items
        for _ in range(3):
            a.clock.advance(5)
            assert await a.walk() == pages
        lines = [record.getMessage() for record in caplog.records]
        assert len([line for line in lines if "ACL forbids" in line]) == 1
        assert len([line for line in lines if f"ACL forbids {command}" in line]) == 1
        if command == "MGET":
            a.listing.items.reverse()
            await expect(StoreUnavailableError, a, pages[0].next_cursor)


# Values are bad

BAD_VALUES: Final[dict[str, Callable[[bytes, bytes], list[tuple[Any, ...]]]]] = {
    "list": lambda key, blob: [("DEL", key), ("RPUSH", key, blob)],
    "hash": lambda key, blob: [("DEL", key), ("HSET", key, "field", blob)],
    "bit rot": lambda key, blob: [("SETRANGE", key, 1, bytes([blob[1] ^ 1]))],
    "truncated": lambda key, blob: [("SET", key, blob[:-1], "KEEPTTL")],
    "longer": lambda key, blob: [("APPEND", key, b"\x00")],
    "empty": lambda key, blob: [("SET", key, b"", "KEEPTTL")],
    "foreign": lambda key, blob: [("SET", key, b'I{"name":"of another tenant"}')],
    "bomb": lambda key, blob: [("SET", key, blob[:1] + b"\xdd\xff\xff\xff\xff", "KEEPTTL")],
    "nested bomb": lambda key, blob: [("SET", key, blob[:1] + b"\x91" * 100_000, "KEEPTTL")],
}


@pytest.mark.parametrize("start", [b"R", b"N", LATE_ITEM], ids=["root", "node", "item"])
async def test_a_bad_value_is_counted_healed_and_repaired(
    shared_server: Server, namespace: str, start: bytes
) -> None:
    """Whatever is wrong, and wherever: one listing, one count, and no second heal on any node."""
    at = nodes(shared_server.port, 2, namespace=namespace, count=300, page_size=100)
    async with at as (a, b):
        pages = await a.walk()
        cursor = pages[0].next_cursor
        stored = contents(shared_server, namespace)
        key = key_starting(shared_server, start, namespace)
        a.listed()
        for spoil in BAD_VALUES.values():
            before = b.redis.bad_objects
            shared_server.commands(spoil(key, stored[key]))
            assert await b.walk(cursor) == pages[1:]
            assert b.redis.bad_objects > before
            assert contents(shared_server, namespace) == stored
            assert await a.walk(cursor) == await b.walk(cursor) == pages[1:]
            assert (a.listed(), b.listed()) == (0, 1)
        assert a.redis.bad_objects == 0
        assert min(shared_server.commands([("TTL", key) for key in stored])) > 600


@pytest.mark.parametrize("bad", BAD_VALUES)
async def test_a_bad_value_of_a_changed_list_is_lost(
    shared_server: Server, namespace: str, bad: str
) -> None:
    """What stands in the snapshot's place is never served."""
    async with nodes(shared_server.port, 1, namespace=namespace) as (a,):
        cursor = (await a.page()).next_cursor
        for key, blob in contents(shared_server, namespace).items():
            shared_server.commands(BAD_VALUES[bad](key, blob))
        a.listing.items.reverse()
        await expect(SnapshotLostError, a, cursor)
