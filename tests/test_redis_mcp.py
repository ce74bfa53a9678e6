"""What an MCP client sees of the snapshot store's faults, and of two servers behind one store."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import pytest
from mcp import Client
from redis.asyncio import Redis

from cursorkit.stores.redis import RedisStore
from cursorkit.testing.clock import FakeClock
from tests.mcp_kit import (
    ERAS,
    INTERNAL_ERROR,
    INVALID_CURSOR,
    Host,
    ask,
    in_memory,
    names,
    new_paginator,
    over_http,
    refused,
    served,
    walk,
)
from tests.redis_kit import child
from tests.redis_nodes import moment
from tests.servers import HOST, SERVERS, Server, running

pytestmark = pytest.mark.anyio

Result: TypeAlias = dict[str, Any]


class Node:
    """An MCP server of a service, and a client of it.

    Attributes:
        host: The server. Its list can be changed.
        client: Connected to it.
        clock: The server's.
    """

    def __init__(self, host: Host, client: Client, clock: FakeClock) -> None:
        self.host = host
        self.client = client
        self.clock = clock

    async def rest(self, page: Result) -> list[Result]:
        """Return the pages after this one."""
        return await rest(self.client, page)

    def listed(self) -> int:
        """Return how often it listed since it was last asked."""
        calls, self.host.calls = self.host.calls, 0
        return calls


def following(page: Result) -> dict[str, str]:
    """Return what asks for the page after this one."""
    return {"cursor": page["nextCursor"]}


async def rest(client: Client, page: Result) -> list[Result]:
    """Return the pages after this one."""
    pages = [page]
    while "nextCursor" in pages[-1]:
        pages.append(await ask(client, "tools/list", following(pages[-1])))
    return pages[1:]


@asynccontextmanager
async def nodes(server: Server, era: str, *timeouts: float) -> AsyncGenerator[list[Node]]:
    """Run MCP servers that share a store, each with a client; `timeouts` are of their stores."""
    async with contextlib.AsyncExitStack() as stack:
        found: list[Node] = []
        now = moment()
        for timeout in timeouts:
            redis = await stack.enter_async_context(Redis(host=HOST, port=server.port))
            clock = FakeClock(now)
            store = RedisStore(redis, namespace="test", timeout=timeout)
            host = Host("MCPServer", 10, paginator=new_paginator(clock, store))
            client = await stack.enter_async_context(in_memory(host.server, era))
            found.append(Node(host, client, clock))
        yield found


def _rot(server: Server) -> None:
    server.commands([("SET", key, b"Irotten") for key in server.keys("test")])


def _mistype(server: Server) -> None:
    for key in server.keys("test"):
        server.commands([("DEL", key), ("RPUSH", key, b"I")])


UNAVAILABLE: Final[dict[str, Callable[[Server], object]]] = {
    "down": Server.kill,
    "silent": Server.pause,
    "forbidden": lambda server: server.command("ACL", "SETUSER", "default", "-mget"),
}
LOST: Final[dict[str, Callable[[Server], object]]] = {
    "flushed": lambda server: server.command("FLUSHALL"),
    "rotten": _rot,
    "of another type": _mistype,
}

each_era = pytest.mark.parametrize("era", ERAS)


@each_era
@pytest.mark.parametrize("fault", UNAVAILABLE)
async def test_an_unavailable_store_costs_the_client_nothing(
    server: Server, era: str, fault: str
) -> None:
    """Every page is the one that the store would have given, to the byte; first pages come, too."""
    async with nodes(server, era, 10, 0.3) as (a, b):
        pages = await walk(a.client)
        UNAVAILABLE[fault](server)
        assert await b.rest(pages[0]) == pages[1:]
        assert await walk(b.client) == pages


@each_era
@pytest.mark.parametrize("fault", UNAVAILABLE)
async def test_an_unavailable_store_of_a_changed_list_is_an_internal_error(
    server: Server, era: str, fault: str
) -> None:
    """The client may try again: it is never told that the cursor is invalid, nor anything else."""
    async with nodes(server, era, 10, 0.3) as (a, b):
        pages = await walk(a.client)
        UNAVAILABLE[fault](server)
        b.host.remove("t07")
        for page in pages[:-1]:
            assert await refused(b.client, "tools/list", following(page)) == INTERNAL_ERROR
        assert len(names(await walk(b.client))) == 9


@each_era
async def test_a_retry_succeeds_when_the_store_is_back(server: Server, era: str) -> None:
    """What was an internal error is the right page afterwards, though the list changed."""
    async with nodes(server, era, 10, 0.3) as (a, b):
        pages = await walk(a.client)
        server.pause()
        b.host.remove("t07")
        assert await refused(b.client, "tools/list", following(pages[0])) == INTERNAL_ERROR
        server.resume()
        b.clock.advance(5)
        b.listed()
        assert names(await b.rest(pages[0])) == names(pages[1:])
        assert b.listed() == 0


@each_era
@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_snapshot_is_healed_unseen(server: Server, era: str, fault: str) -> None:
    """One server lists once, its pages are those of before, and the other lists nothing."""
    async with nodes(server, era, 10, 10) as (a, b):
        pages = await walk(a.client)
        LOST[fault](server)
        a.listed()
        assert await b.rest(pages[0]) == pages[1:]
        assert await a.rest(pages[0]) == pages[1:]
        assert (a.listed(), b.listed()) == (0, 1)


@each_era
@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_snapshot_of_a_changed_list_is_an_invalid_cursor(
    server: Server, era: str, fault: str
) -> None:
    """The client is told to start again, in the same words as for any bad cursor."""
    async with nodes(server, era, 10, 10) as (a, b):
        pages = await walk(a.client)
        LOST[fault](server)
        b.host.remove("t07")
        for page in pages[:-1]:
            assert await refused(b.client, "tools/list", following(page)) == INVALID_CURSOR
        assert b.listed() == 1
        assert len(names(await walk(b.client))) == 9


# Two server processes

PROCESS: Final = """
    import sys
    import anyio
    from tests.test_redis_mcp import serve

    anyio.run(serve, int(sys.argv[1]), int(sys.argv[2]))
    """


async def serve(port: int, count: int) -> None:
    """Serve so many tools over HTTP, print the URL, and a line whenever they are listed."""

    class Announcing(Host):
        def listed(self) -> Any:
            print("listed", flush=True)  # noqa: T201
            return super().listed()

    async with Redis(host=HOST, port=port) as redis:
        store = RedisStore(redis, namespace="test", timeout=10)
        host = Announcing("MCPServer", count, paginator=new_paginator(store=store))
        async with served(host.server.streamable_http_app()) as url:
            print(url, flush=True)  # noqa: T201
            await anyio.sleep_forever()


class ServerProcess:
    """An MCP server in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdout is not None
        self.url = process.stdout.readline().decode().strip()

    def end(self) -> int:
        """Kill it, and return how often it listed."""
        self._process.kill()
        printed, errors = self._process.communicate(timeout=30)
        assert errors == b""
        return printed.count(b"listed")


@contextlib.contextmanager
def two_processes(server: Server) -> Generator[tuple[ServerProcess, ServerProcess]]:
    """Run two MCP servers behind one store, of which the second has no tool."""
    with child(PROCESS, server.port, 10) as one, child(PROCESS, server.port, 0) as other:
        try:
            yield ServerProcess(one), ServerProcess(other)
        finally:
            one.kill()
            other.kill()


async def test_a_walk_goes_over_two_server_processes() -> None:
    """Pages from two uvicorns in turn, and from one when the other is killed, are one list."""
    with running(SERVERS["valkey"]) as server, two_processes(server) as (a, b):
        everything = [f"t{number:02}" for number in range(10)]
        firsts: list[Result] = []
        for era in ERAS:
            async with over_http(a.url, era) as on_a, over_http(b.url, era) as on_b:
                pages = [await ask(on_a, "tools/list")]
                for client in (on_b, on_a, on_b):
                    pages.append(await ask(client, "tools/list", following(pages[-1])))
            assert names(pages) == everything
            firsts.append(pages[0])
        assert a.end() == len(ERAS)
        for era, first in zip(ERAS, firsts, strict=True):
            async with over_http(b.url, era) as on_b:
                assert names([first, *await rest(on_b, first)]) == everything
        assert b.end() == 0
