"""Nodes of a service that share a Redis, a Valkey or a cluster, for tests of walks over them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import msgpack
import pytest
from redis.asyncio import Redis, RedisCluster

from cursorkit.paginators.page import Page
from cursorkit.stores.memory import MemoryStore
from cursorkit.stores.redis import RedisStore
from cursorkit.stores.tiered import TieredStore
from cursorkit.testing.clock import FakeClock
from tests.redis_kit import key_of
from tests.servers import HOST, Cluster, Server
from tests.snapshot_fakes import ALICE, Listing, node, tools

Pages: TypeAlias = list[Page[Any]]


class Node:
    """A node of a service: a paginator, with a list and a store of its own.

    Args:
        client: Its own client.
        namespace: Where the nodes of one service meet.
        count: Tools in the list.
        timeout: Of the store; by default so long that a busy machine is no failure.
        near: Whether it has a near store, too.
        now: What its clock shows; nodes that show the same moment give equal pages equal cursors.
        skew: Seconds that its clock is ahead.
        options: Of the paginator.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        namespace: str,
        *,
        count: int = 35,
        timeout: float = 10,
        near: bool = False,
        now: float | None = None,
        skew: float = 0,
        **options: Any,
    ) -> None:
        self.client = client
        self.listing = Listing(tools(count))
        self.clock = FakeClock((moment() if now is None else now) + skew)
        self.redis = RedisStore(client, namespace=namespace, timeout=timeout)
        store = TieredStore(MemoryStore(), self.redis) if near else self.redis
        self.paginator = node(store, self.clock, **options)

    async def page(self, cursor: str | None = None) -> Page[Any]:
        """Return a page."""
        return await self.paginator.page(cursor, self.listing, ALICE)

    async def walk(self, cursor: str | None = None) -> Pages:
        """Return the pages from a cursor to the last."""
        pages = [await self.page(cursor)]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(await self.page(cursor))
        return pages

    def hurry(self, timeout: float) -> None:
        """Let the store wait for so many seconds only: from here on it is about time."""
        self.redis._server._timeout = timeout

    def listed(self) -> int:
        """Return how often it listed since it was last asked."""
        calls, self.listing.calls = self.listing.calls, 0
        return calls


def moment() -> float:
    """Return a moment for the nodes of one test: the start of the quantum that is.

    The server's clock is the machine's, so the nodes' must be near it. Equal pages have equal
    cursors for 59 s after it.
    """
    return time.time() // 60 * 60 + 1


def _client(where: int | Cluster, username: str | None) -> Redis | RedisCluster:
    if isinstance(where, Cluster):
        return RedisCluster(startup_nodes=where.startup_nodes)
    return Redis(host=HOST, port=where, username=username, password=username and "sesame")


@asynccontextmanager
async def nodes(
    where: int | Cluster,
    number: int,
    *,
    namespace: str = "test",
    username: str | None = None,
    **how: Any,
) -> AsyncGenerator[list[Node]]:
    """Run so many nodes, each with a client of its own that has the driver's defaults.

    Args:
        where: A server's port, or a cluster.
        number: How many.
        namespace: Where they meet.
        username: An account, whose password is "sesame".
        how: As `Node` takes it.
    """
    async with contextlib.AsyncExitStack() as stack:
        found: list[Node] = []
        how = {"now": moment(), **how}
        for _ in range(number):
            client: Any = await stack.enter_async_context(_client(where, username))
            found.append(Node(client, namespace, **how))
        yield found


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None]:
    """Fail unless what is inside ends in time."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


def contents(server: Server | Cluster, namespace: str = "test") -> dict[bytes, bytes]:
    """Return all that is stored."""
    found: dict[bytes, bytes] = {}
    for each in server.nodes if isinstance(server, Cluster) else [server]:
        keys = each.keys(namespace)
        found.update(zip(keys, each.commands([("GET", key) for key in keys]), strict=True))
    return found


def key_starting(server: Server | Cluster, start: bytes, namespace: str = "test") -> bytes:
    """Return the key of an object that starts so: b"R", or the start of an item, for example."""
    stored = contents(server, namespace)
    return next(key for key, blob in stored.items() if blob.startswith(start))


def referred(blob: bytes) -> list[bytes]:
    """Return the digests that an object refers to."""
    if blob[:1] == b"I":
        return []
    joined: bytes = blob[1:] if blob[:1] == b"N" else msgpack.unpackb(blob[1:])[2]
    return [joined[start : start + 32] for start in range(0, len(joined), 32)]


def check_whole(stored: dict[bytes, bytes], namespace: str = "test") -> None:
    """Check that each object that is stored has its children."""
    for blob in stored.values():
        assert {key_of(namespace, digest) for digest in referred(blob)} <= stored.keys()


async def expect(error: type[Exception], node: Node, cursor: str | None) -> None:
    """Check that a page is refused in this way."""
    with pytest.raises(error) as raised:
        await node.page(cursor)
    assert type(raised.value) is error
