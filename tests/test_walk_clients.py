"""Whole lists by the official client and FastMCP's, from servers that misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import fastmcp
import mcp
import pytest
import uvicorn
from fastmcp.skills import SkillsClientExtension
from fastmcp.skills.provider import SkillsDirectoryProvider
from mcp import MCPError
from mcp.server import MCPServer, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from cursorkit import WalkError
from cursorkit.adapters.mcp.client import (
    list_all_prompts,
    list_all_resource_templates,
    list_all_resources,
    list_all_skills,
    list_all_tools,
)
from cursorkit.walk import Budget

Client: TypeAlias = "mcp.Client | fastmcp.Client[Any]"
Connect: TypeAlias = Callable[[], contextlib.AbstractAsyncContextManager[Client]]

LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def item(number: int) -> dict[str, Any]:
    """Return an entry that is valid in each of the four lists."""
    name = f"item-{number:04}"
    uri = f"test://items/{number}"
    return {
        "name": name,
        "inputSchema": {"type": "object"},
        "uri": uri,
        "uriTemplate": f"{uri}/{{x}}",
    }


def page(numbers: range, next_cursor: str | None = None) -> dict[str, Any]:
    """Return what a script answers: items, and a cursor that is left out where it is None."""
    found: dict[str, Any] = {"items": [item(number) for number in numbers]}
    return found if next_cursor is None else {**found, "nextCursor": next_cursor}


Script: TypeAlias = Callable[[str | None], dict[str, Any]]
"""Returns the page of a cursor, or raises."""


class Scripted:
    """Middleware that answers every list by a script, and records the cursors it was sent.

    Every call of a tool is answered with content that is no number.
    """

    def __init__(self) -> None:
        self.script: Script = lambda cursor: page(range(0))
        self.asked: list[str | None] = []
        self.ttl_ms = 0

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if ctx.method == "tools/call":
            call: dict[str, Any] = {"content": [], "structuredContent": {"sum": "not a number"}}
            return call | {"resultType": "complete"} if modern else call
        if ctx.method not in LISTS:
            return await call_next(ctx)
        cursor = (ctx.params or {}).get("cursor")
        self.asked.append(cursor)
        answer = self.script(cursor)
        result = {LISTS[ctx.method]: answer.pop("items"), **answer}
        if modern:
            result |= {"resultType": "complete", "ttlMs": self.ttl_ms, "cacheScope": "private"}
        return result


class Hosted:
    """A scripted server, in memory and on a loopback port."""

    def __init__(self, scripted: Scripted, url: str, server: MCPServer[Any]) -> None:
        self.scripted = scripted
        self.url = url
        self.server = server


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    """Serve one scripted server for all tests of this module."""
    scripted = Scripted()
    server = MCPServer[Any]("scripted", middleware=[scripted])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            server.streamable_http_app(), log_level="error", ws="none", timeout_graceful_shutdown=1
        )
        http = uvicorn.Server(config)
        thread = threading.Thread(target=http.run, args=([listener],))
        thread.start()
        try:
            deadline = time.monotonic() + 15
            while not http.started:
                assert thread.is_alive()
                assert time.monotonic() < deadline
                threading.Event().wait(0.01)
            yield Hosted(scripted, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", server)
        finally:
            http.should_exit = True
            thread.join(15)
    assert not thread.is_alive()


@pytest.fixture(params=["sdk", "fastmcp"])
def kind(request: pytest.FixtureRequest) -> str:
    """Run a test by the official client and by FastMCP's."""
    return str(request.param)


@pytest.fixture(params=["memory", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    """Run a test in memory and over streamable HTTP."""
    return str(request.param)


@pytest.fixture(params=["auto", "legacy"])
def connect(request: pytest.FixtureRequest, kind: str, transport: str, hosted: Hosted) -> Connect:
    """Open a client of the scripted server, of either era."""

    def open_client() -> contextlib.AbstractAsyncContextManager[Client]:
        target: Any = hosted.server if transport == "memory" else hosted.url
        if kind == "sdk":
            return mcp.Client(target, mode=request.param)
        return fastmcp.Client(target, mode=request.param, cache=True)

    hosted.scripted.asked.clear()
    hosted.scripted.ttl_ms = 0
    return open_client


@pytest.fixture
def scripted(hosted: Hosted) -> Scripted:
    """Return the script to be written."""
    return hosted.scripted


def slices(total: int, page_size: int) -> Script:
    """Return the script of a list that is in order."""

    def script(cursor: str | None) -> dict[str, Any]:
        start = 0 if cursor is None else int(cursor)
        end = start + page_size
        return page(range(start, min(end, total)), str(end) if end < total else None)

    return script


def names(total: int) -> list[str]:
    """Return the names of the first items."""
    return [f"item-{number:04}" for number in range(total)]


async def names_of(client: Client, **options: Any) -> list[str]:
    """Return the names of all tools."""
    return [tool.name for tool in await list_all_tools(client, **options)]


def invalid_cursor() -> MCPError:
    """Return what a server says of a cursor that it refuses."""
    return MCPError(INVALID_PARAMS, "Invalid cursor")


@pytest.mark.anyio
async def test_every_list_is_walked_whole(connect: Connect, scripted: Scripted) -> None:
    """Tools, resources, templates and prompts come whole and in order, by the cursors given."""
    scripted.script = slices(7, 3)
    async with connect() as client:
        tools = await list_all_tools(client)
        resources = await list_all_resources(client)
        templates = await list_all_resource_templates(client)
        prompts = await list_all_prompts(client)
    assert [tool.name for tool in tools] == names(7)
    assert [resource.uri for resource in resources] == [item(n)["uri"] for n in range(7)]
    assert [each.uri_template for each in templates] == [item(n)["uriTemplate"] for n in range(7)]
    assert [prompt.name for prompt in prompts] == names(7)
    assert scripted.asked == [None, "3", "6"] * 4


@pytest.mark.anyio
async def test_a_repeated_cursor_raises(connect: Connect, scripted: Scripted) -> None:
    """A server that ignores cursors is noticed at its second page; no half list comes out."""
    scripted.script = lambda cursor: page(range(3), "again")
    async with connect() as client:
        with pytest.raises(WalkError) as caught:
            await list_all_tools(client)
    assert caught.value.reason == "repeated"
    assert scripted.asked == [None, "again"]


@pytest.mark.anyio
async def test_cursors_without_end_raise(connect: Connect, scripted: Scripted) -> None:
    """A server whose cursors never end is left after the pages of the budget."""
    scripted.script = lambda cursor: page(range(1), f"{cursor}+")
    async with connect() as client:
        with pytest.raises(WalkError) as caught:
            await list_all_tools(client, budget=Budget(max_pages=9))
    assert caught.value.reason == "pages"
    assert len(scripted.asked) == 9


@pytest.mark.anyio
async def test_the_other_budgets_raise(connect: Connect, scripted: Scripted) -> None:
    """Items and bytes are counted, bytes as on the wire: a budget of one less raises."""
    scripted.script = slices(4, 2)
    async with connect() as client:
        tools = await list_all_tools(client)
        wire = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools)
        fitting = Budget(max_pages=2, max_items=4, max_bytes=wire, max_seconds=60)
        assert await list_all_tools(client, budget=fitting) == tools
        for reason, budget in {
            "items": Budget(max_items=3),
            "bytes": Budget(max_bytes=wire - 1),
        }.items():
            with pytest.raises(WalkError) as caught:
                await list_all_tools(client, budget=budget)
            assert caught.value.reason == reason


@pytest.mark.anyio
async def test_an_empty_string_is_sent_on(connect: Connect, scripted: Scripted) -> None:
    """ "" is a cursor like any other, and the walk goes on with it."""
    pages = {None: ("", range(2)), "": ("z", range(2, 3)), "z": (None, range(3, 5))}
    scripted.script = lambda cursor: page(pages[cursor][1], pages[cursor][0])
    async with connect() as client:
        assert await names_of(client) == names(5)
    assert scripted.asked == [None, "", "z"]


@pytest.mark.anyio
async def test_an_empty_page_is_not_the_end(connect: Connect, scripted: Scripted) -> None:
    """A page without items but with a cursor is one page of several."""
    pages = {
        None: ("a", range(0)),
        "a": ("b", range(1)),
        "b": ("c", range(0)),
        "c": (None, range(1, 2)),
    }
    scripted.script = lambda cursor: page(pages[cursor][1], pages[cursor][0])
    async with connect() as client:
        assert await names_of(client) == names(2)


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["memory"], indirect=True)
@pytest.mark.parametrize("limit", [64, 100])
async def test_long_walks_come_whole(connect: Connect, scripted: Scripted, limit: int) -> None:
    """Where official clients stop, at 64 or 100 pages, nothing is cut; a budget raises instead."""
    scripted.script = slices(limit + 1, 1)
    async with connect() as client:
        assert await names_of(client) == names(limit + 1)
        assert await names_of(client, budget=Budget(max_pages=limit + 1)) == names(limit + 1)
        with pytest.raises(WalkError) as caught:
            await names_of(client, budget=Budget(max_pages=limit))
    assert caught.value.reason == "pages"


class Changing:
    """A list that changes at its second page, whose old cursors are refused from then on."""

    def __init__(self, changes: int) -> None:
        self.generation = 0
        self.changes = changes

    def __call__(self, cursor: str | None) -> dict[str, Any]:
        if cursor is None:
            return page(
                range(100 * self.generation, 100 * self.generation + 2), f"{self.generation}"
            )
        if self.changes:
            self.changes -= 1
            self.generation += 1
        if cursor != str(self.generation):
            raise invalid_cursor()
        return page(range(100 * self.generation + 2, 100 * self.generation + 4))


@pytest.mark.anyio
async def test_a_list_that_changes_is_walked_again(connect: Connect, scripted: Scripted) -> None:
    """Refused half way, the walk starts over and is the new list, past the client's own cache."""
    scripted.ttl_ms = 60_000
    scripted.script = Changing(changes=1)
    async with connect() as client:
        if isinstance(client, mcp.Client):
            await client.list_tools()
        else:
            await client.list_tools_mcp()
        scripted.asked.clear()
        assert await names_of(client) == [f"item-{number:04}" for number in range(100, 104)]
    restart = [None, "1"]
    assert [cursor for cursor in scripted.asked if cursor == "0"] == ["0"]
    assert scripted.asked[-2:] == restart


@pytest.mark.anyio
async def test_a_list_that_always_changes_raises(connect: Connect, scripted: Scripted) -> None:
    """After the last restart there is an error, and no cursor was sent twice."""
    scripted.script = Changing(changes=100)
    async with connect() as client:
        with pytest.raises(WalkError) as caught:
            await list_all_tools(client, max_restarts=3)
    assert caught.value.reason == "restarts"
    assert isinstance(caught.value.__cause__, MCPError)
    assert scripted.asked == [None, "0", None, "1", None, "2", None, "3"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "failing", "asked"),
    [(INVALID_PARAMS, None, [None]), (INTERNAL_ERROR, "2", [None, "2"])],
    ids=["refused first page", "another error later"],
)
async def test_what_is_no_refused_cursor_passes_through(
    connect: Connect, scripted: Scripted, code: int, failing: str | None, asked: list[str | None]
) -> None:
    """-32602 for a request without a cursor, and any other code, is the caller's to see."""

    def script(cursor: str | None) -> dict[str, Any]:
        if cursor == failing:
            raise MCPError(code, "told")
        return slices(4, 2)(cursor)

    scripted.script = script
    async with connect() as client:
        with pytest.raises(MCPError) as caught:
            await list_all_tools(client)
    assert (caught.value.code, caught.value.message) == (code, "told")
    assert scripted.asked == asked


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["sdk"], indirect=True)
async def test_a_whole_walk_teaches_the_client_every_schema(
    connect: Connect, scripted: Scripted
) -> None:
    """After a whole walk the official client checks any tool's result, and lists nothing for it."""
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}

    def script(cursor: str | None) -> dict[str, Any]:
        found = slices(6, 2)(cursor)
        for each in found["items"]:
            each["outputSchema"] = schema
        return found

    scripted.script = script
    async with connect() as client:
        assert isinstance(client, mcp.Client)
        await list_all_tools(client)
        scripted.asked.clear()
        with pytest.raises(RuntimeError, match="structured"):
            await client.call_tool("item-0005", {})
    assert scripted.asked == []


@pytest.mark.anyio
@pytest.mark.parametrize("page_size", [None, 1, 2])
async def test_skills_are_walked_whole(tmp_path: Path, page_size: int | None) -> None:
    """FastMCP's client gives every skill of a server with pages of its own."""
    for name in ("one", "three", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
    server = fastmcp.FastMCP[Any]("skills", list_page_size=page_size)
    server.add_provider(SkillsDirectoryProvider(tmp_path))
    async with fastmcp.Client(server, extensions=[SkillsClientExtension()]) as client:
        skills = await list_all_skills(client)
    assert [skill.frontmatter.name for skill in skills] == ["one", "three", "two"]
