"""Every list in every host, over every transport, in both eras, by the official client."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from tests.hosts_table import (
    DIRECTORY,
    HOSTS,
    MEMBERS,
    PAGE_SIZE,
    expected,
    http_app,
    in_process,
)
from tests.mcp_kit import (
    CACHE_FIELDS,
    ERAS,
    INVALID_CURSOR,
    LEGACY,
    MODERN,
    ask,
    flipped,
    in_memory,
    over_http,
    refused,
    served,
)

pytestmark = pytest.mark.anyio

ROOT: Final = Path(__file__).parents[1]

TRANSPORTS: Final = ("memory", "http", "stdio")

PARAMS: Final[Mapping[str, dict[str, Any]]] = {"resources/directory/read": {"uri": DIRECTORY}}
"""What is asked for besides the cursor."""

NO_CACHE_FIELDS: Final = {"resources/directory/read"}


class Connection(NamedTuple):
    """A client of a host, for all tests of its lists."""

    host: str
    era: str
    client: Client

    async def change(self) -> int:
        """Have every list changed; return how often that has been done."""
        result = await self.client.call_tool("change", {})
        (content,) = result.content
        assert isinstance(content, TextContent)
        return int(content.text)

    async def page(self, method: str, **cursor: Any) -> dict[str, Any]:
        """Ask for a page."""
        page: dict[str, Any] = await ask(self.client, method, {**PARAMS.get(method, {}), **cursor})
        return page

    async def refusal(self, method: str, cursor: Any) -> dict[str, Any]:
        """Ask for a page that must be refused."""
        return await refused(self.client, method, {**PARAMS.get(method, {}), "cursor": cursor})

    async def walk(self, method: str, *, changing: bool) -> list[dict[str, Any]]:
        """Fetch every page of a list, that may change before each but the first."""
        pages = [await self.page(method)]
        while "nextCursor" in pages[-1]:
            assert len(pages) < 10
            if changing:
                await self.change()
            pages.append(await self.page(method, cursor=pages[-1]["nextCursor"]))
        return pages


@pytest.fixture(
    scope="module",
    params=list(product(HOSTS, TRANSPORTS, ERAS)),
    ids=" ".join,
)
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[Connection]:
    """Connect the official client to a host over a transport, in an era."""
    host, transport, era = request.param
    async with AsyncExitStack() as stack:
        if transport == "memory":
            client = await stack.enter_async_context(in_memory(in_process(HOSTS[host]()), era))
        elif transport == "http":
            url = await stack.enter_async_context(served(http_app(HOSTS[host]())))
            client = await stack.enter_async_context(over_http(url, era))
        else:
            mode = "legacy" if era == LEGACY else era
            client = await stack.enter_async_context(Client(program(host), mode=mode))
        yield Connection(host, era, client)


def program(host: str) -> StdioServerParameters:
    """Return how a host is started that speaks on stdin and stdout."""
    path = os.pathsep.join(
        filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH")])
    )
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "tests.hosts_table", host],
        env={**os.environ, "PYTHONPATH": path},
    )


def named(pages: list[dict[str, Any]], method: str) -> list[str]:
    """Return the names of all entries of a walk."""
    entries = [entry for page in pages for entry in page[MEMBERS[method]]]
    return [entry.get("name") or entry["frontmatter"]["name"] for entry in entries]


each_list = pytest.mark.parametrize("method", MEMBERS)


def is_served(connection: Connection, method: str) -> bool:
    """Return whether a host has a list: FastMCP has skills on 2026-07-28 only."""
    return (connection.host, connection.era, method) != ("FastMCP", LEGACY, "skills/list")


@each_list
async def test_a_walk_is_the_list_at_its_first_page(connection: Connection, method: str) -> None:
    """While the list changes, a walk is complete, ordered, without duplicates, its fields right."""
    if not is_served(connection, method):
        assert (await connection.refusal(method, None))["code"] == -32601
        return
    generation = await connection.change()
    pages = await connection.walk(method, changing=True)
    assert named(pages, method) == expected(method, generation)
    assert [len(page[MEMBERS[method]]) for page in pages[:-1]] == [PAGE_SIZE] * 2
    generation = await connection.change()
    assert named(await connection.walk(method, changing=False), method) == expected(
        method, generation
    )
    fields = [{name: page[name] for name in CACHE_FIELDS if name in page} for page in pages]
    if connection.era == LEGACY:
        assert fields == [{}] * len(pages)
    elif method in NO_CACHE_FIELDS:
        assert fields == [{"resultType": "complete"}] * len(pages)
    else:
        private = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        assert fields == [private] * len(pages)


@each_list
async def test_every_refusal_is_one_error(connection: Connection, method: str) -> None:
    """Forged, foreign and ill-typed cursors are -32602 "Invalid cursor", and have no data."""
    other = "prompts/list" if method == "tools/list" else "tools/list"
    foreign = (await connection.page(other))["nextCursor"]
    hostile: list[Any] = ["", "garbage", foreign, 5, True, {}]
    if is_served(connection, method):
        cursor = (await connection.page(method))["nextCursor"]
        hostile += [flipped(cursor), cursor + "=", cursor[:-1]]
    for forged in hostile:
        assert await connection.refusal(method, forged) == INVALID_CURSOR


def test_the_table_is_whole() -> None:
    """Three hosts, six lists, three transports and two eras."""
    assert (len(HOSTS), len(MEMBERS), len(TRANSPORTS), ERAS) == (3, 6, 3, (MODERN, LEGACY))
