"""Walks of real MCP servers by the official client: each is the list at its first request."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from fastmcp import FastMCP
from mcp.server import Server

from cursorkit import MemoryStore
from cursorkit.adapters.mcp import CursorPagination, list_handler
from tests.mcp_kit import (
    ERAS,
    HOSTS,
    LISTS,
    Host,
    always,
    ask,
    connected,
    full_server,
    in_memory,
    names,
    new_paginator,
    tool,
    walk,
    whole_list,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("era", ERAS),
]

each_host = pytest.mark.parametrize("kind", HOSTS)


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("method", LISTS)
async def test_each_list_of_an_mcpserver_is_walked_whole(
    era: str, transport: str, method: str
) -> None:
    """Each of the four lists comes in order and without duplicates, three items a page."""
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    async with connected(full_server([pagination]), era, transport) as client:
        pages = await walk(client, method)
    member = LISTS[method]
    assert [len(page[member]) for page in pages] == [3, 3, 1]
    assert names(pages, member) == [f"n{number}" for number in range(7)]


@each_host
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_walk_stays_the_list_of_its_first_page(era: str, transport: str, kind: str) -> None:
    """Tools that come and go between pages neither skip nor repeat nor show in the walk."""
    host = Host(kind, 10)

    def change() -> None:
        host.remove(host.tools[0].name)
        host.tools.insert(0, tool(f"new{len(host.tools)}{host.calls}"))
        host.remove(host.tools[-1].name)

    async with connected(host.server, era, transport) as client:
        pages = await walk(client, between=change)
        changed = await walk(client)
    assert names(pages) == [f"t{number:02}" for number in range(10)]
    assert names(changed) == [tool.name for tool in host.tools]


@pytest.mark.both_backends
@each_host
async def test_the_list_handler_runs_once_a_walk(era: str, kind: str) -> None:
    """Four pages cost one call of the handler below."""
    host = Host(kind, 10)
    async with in_memory(host.server, era) as client:
        pages = await walk(client)
    assert len(pages) == 4
    assert host.calls == 1


@each_host
@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (3, [3]), (6, [3, 3])])
async def test_no_page_follows_a_full_last_one(
    era: str, kind: str, count: int, sizes: list[int]
) -> None:
    """The last page has no `nextCursor` key, be it full, empty or the only one."""
    async with in_memory(Host(kind, count).server, era) as client:
        pages = await walk(client)
    assert [len(page["tools"]) for page in pages] == sizes
    assert "nextCursor" not in pages[-1]
    assert all(page["nextCursor"] for page in pages[:-1])


@each_host
async def test_a_page_asked_again_is_the_same_page(era: str, kind: str) -> None:
    """Twenty requests with one cursor, all at once, get the same bytes, next cursor included."""
    host = Host(kind, 10)
    answers: list[str] = []
    async with in_memory(host.server, era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
        host.tools.clear()

        async def fetch() -> None:
            answers.append(json.dumps(await ask(client, "tools/list", {"cursor": cursor})))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(fetch)
    assert len(answers) == 20
    assert len(set(answers)) == 1
    assert "t03" in answers[0]


@each_host
async def test_another_node_serves_the_next_page_from_the_shared_store(era: str, kind: str) -> None:
    """A node that has never listed its tools goes on where another one began."""
    store = MemoryStore()
    first = Host(kind, 5, paginator=new_paginator(store=store))
    second = Host(kind, 0, paginator=new_paginator(store=store))
    async with in_memory(first.server, era) as client:
        page = await ask(client, "tools/list")
    async with in_memory(second.server, era) as client:
        rest = await walk(client, params={"cursor": page["nextCursor"]})
    assert names([page, *rest]) == ["t00", "t01", "t02", "t03", "t04"]
    assert second.calls == 0


@each_host
async def test_another_node_heals_from_its_own_list(era: str, kind: str) -> None:
    """Without a shared store, a node whose list is the same lists once and serves the rest."""
    first, second = Host(kind, 10), Host(kind, 10)
    async with in_memory(first.server, era) as client:
        page = await ask(client, "tools/list")
    async with in_memory(second.server, era) as client:
        rest = await walk(client, params={"cursor": page["nextCursor"]})
    assert names([page, *rest]) == [f"t{number:02}" for number in range(10)]
    assert second.calls == 1


@each_host
async def test_pages_grow_until_an_official_client_reads_the_whole_walk(
    era: str, kind: str
) -> None:
    """200 tools at three a page would be 67 pages, so pages of four make it 50; 64 is the most."""
    async with in_memory(Host(kind, 200).server, era) as client:
        pages = await walk(client)
    assert len(pages) == 50
    async with in_memory(Host(kind, 200, max_pages=None).server, era) as client:
        pages = await walk(client)
    assert len(pages) == 67


@each_host
async def test_a_page_of_many_bytes_is_shorter(era: str, kind: str) -> None:
    """A byte budget cuts pages before the page size does."""
    async with in_memory(Host(kind, 6, max_page_bytes=300).server, era) as client:
        pages = await walk(client)
    assert [len(page["tools"]) for page in pages] == [2, 2, 2]


async def test_a_small_server_needs_one_page_by_default(era: str) -> None:
    """Unless told otherwise a page has 250 items, whatever the paginator's own size is."""
    tools = [tool(f"t{number}") for number in range(251)]
    handler = list_handler("tools/list", new_paginator(), always(tools), audience="demo")
    pagination = CursorPagination(new_paginator(), audience="demo")
    plain = Server("demo", on_list_tools=whole_list(tools))
    plain.middleware.append(pagination)
    for server in (plain, Server("demo", on_list_tools=handler)):
        async with in_memory(server, era) as client:
            pages = await walk(client)
        assert [len(page["tools"]) for page in pages] == [250, 1]


async def test_page_sizes_are_set_per_list(era: str) -> None:
    """A list with a size of its own has it, and None leaves a list as it is."""
    pagination = CursorPagination(
        new_paginator(),
        audience="demo",
        page_size=3,
        page_sizes={"tools/list": 5, "prompts/list": None},
    )
    async with in_memory(full_server([pagination]), era) as client:
        sizes = {
            method: [len(page[member]) for page in await walk(client, method)]
            for method, member in LISTS.items()
        }
        ignored = await ask(client, "prompts/list", {"cursor": "whatever"})
    assert sizes == {
        "tools/list": [5, 2],
        "resources/list": [3, 3, 1],
        "resources/templates/list": [3, 3, 1],
        "prompts/list": [7],
    }
    assert len(ignored["prompts"]) == 7


async def test_a_registered_tool_that_is_removed_stays_in_the_walk(era: str) -> None:
    """The tool manager of an MCPServer may change in mid-walk, too."""
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    server = full_server([pagination])
    removed = iter(["n1", "n5"])
    async with in_memory(server, era) as client:
        pages = await walk(client, between=lambda: server.remove_tool(next(removed)))
        after = await walk(client)
    assert names(pages) == [f"n{number}" for number in range(7)]
    assert names(after) == ["n0", "n2", "n3", "n4", "n6"]


async def test_what_a_middleware_below_hides_is_never_paged(era: str) -> None:
    """Pages are cut from what the middlewares below let through: full pages, nothing ragged."""

    async def hide_even(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            result["tools"] = [item for item in result["tools"] if int(item["name"][1:]) % 2]
        return result

    pagination = CursorPagination(new_paginator(), audience="demo", page_size=2)
    async with in_memory(full_server([pagination, hide_even], 8), era) as client:
        pages = await walk(client)
    assert [len(page["tools"]) for page in pages] == [2, 2]
    assert names(pages) == ["n1", "n3", "n5", "n7"]


async def test_the_official_client_reads_the_pages(era: str) -> None:
    """The client's typed `list_tools` walks by `next_cursor` until that is None."""
    async with in_memory(Host("MCPServer", 7).server, era) as client:
        found: list[str] = []
        cursor = None
        for _ in range(3):
            page = await client.list_tools(cursor=cursor)
            found += [tool.name for tool in page.tools]
            cursor = page.next_cursor
    assert cursor is None
    assert found == [f"t{number:02}" for number in range(7)]


async def test_fastmcp_takes_the_same_middleware(era: str) -> None:
    """On the server inside a FastMCP app the middleware pages its tools."""
    app = FastMCP("demo")
    for number in range(7):
        app.tool(name=f"n{number}")(_echo)
    inner: Server[Any] = app._mcp_server  # pyright: ignore[reportPrivateUsage]  # no public way
    inner.middleware.append(CursorPagination(new_paginator(), audience="demo", page_size=3))
    removed = iter(["n1", "n5"])
    async with in_memory(inner, era) as client:
        pages = await walk(client, between=lambda: app.local_provider.remove_tool(next(removed)))
    assert names(pages) == [f"n{number}" for number in range(7)]


def _echo(text: str) -> str:
    return text
