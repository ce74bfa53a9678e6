"""The examples of hosts do what they say: a FastMCP app, a gateway, a REST list."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.server import Server
from mcp.types import CallToolResult, TextContent

from cursorkit.adapters.mcp.client import list_all_tools
from examples import fastmcp_server, gateway, rest_list
from tests.mcp_kit import (
    ERAS,
    INVALID_CURSOR,
    MODERN,
    RING,
    ask,
    flipped,
    in_memory,
    names,
    refused,
    served,
    tool,
    walk,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]

each_era = pytest.mark.parametrize("era", ERAS)


def program(name: str, *arguments: str) -> StdioServerParameters:
    """Return how an example is started, as its docstring says."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "examples" / f"{name}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": path, "CURSORKIT_KEYS": RING.to_json()},
    )


# FastMCP.

TOOLS = ["add", "multiply", "negate", "statistics_mean", "statistics_spread"]


async def test_the_fastmcp_app_runs_as_a_program() -> None:
    """It serves its own tools and the mounted app's in pages, and a call reaches the latter."""
    async with Client(program("fastmcp_server")) as client:
        pages = await walk(client)
        assert await refused(client, "tools/list", {"cursor": ""}) == INVALID_CURSOR
        result = await client.call_tool("statistics_mean", {"numbers": [1, 3]})
    assert [len(page["tools"]) for page in pages] == [3, 2]
    assert names(pages) == TOOLS
    assert result.structured_content == {"result": 2}


@each_era
async def test_the_fastmcp_app_refuses_what_it_did_not_mint(era: str) -> None:
    """A flipped byte, garbage and the empty string are one and the same error."""
    app = fastmcp_server.new_app(RING)
    async with in_memory(app._mcp_server, era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
        for forged in (flipped(cursor), "garbage", "", cursor + "="):
            assert await refused(client, "tools/list", {"cursor": forged}) == INVALID_CURSOR


# The gateway.


class Upstream:
    """A server behind the gateway, with seven tools in pages of two."""

    def __init__(self, name: str) -> None:
        self.tools = [tool(f"{name}{number}") for number in range(7)]
        self.fails_at: str | None = None
        self.calls: list[str] = []
        self.server = Server("upstream", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> Any:
        cursor = params.cursor
        if cursor is not None and cursor == self.fails_at:
            raise ValueError("SECRET")
        start = 0 if cursor is None else int(cursor)
        tools = [
            each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in self.tools
        ]
        page = {"tools": tools[start : start + 2], "ttlMs": 60_000, "cacheScope": "private"}
        more = {"nextCursor": str(start + 2)} if start + 2 < len(tools) else {}
        return {**page, **more, "resultType": "complete"}

    async def _call(self, ctx: Any, params: Any) -> CallToolResult:
        self.calls.append(params.name)
        return CallToolResult(content=[TextContent(text=str(params.arguments))])


class TwoUpstreams:
    """A gateway to "a" and "b"."""

    def __init__(self) -> None:
        self.a, self.b = Upstream("x"), Upstream("y")
        upstreams: Mapping[str, Any] = {"a": self.a.server, "b": self.b.server}
        self.server = gateway.new_server(RING, upstreams)
        self.tools = [f"a.x{n}" for n in range(7)] + [f"b.y{n}" for n in range(7)]


@each_era
async def test_the_gateway_serves_both_upstreams_as_one_list(era: str) -> None:
    """Every tool of both comes once, in order, under its upstream's name."""
    two = TwoUpstreams()
    async with in_memory(two.server, era) as client:
        pages = await walk(client)
    assert [len(page["tools"]) for page in pages] == [3, 3, 3, 3, 2]
    assert names(pages) == two.tools


@each_era
async def test_a_walk_through_the_gateway_outlives_its_upstreams(era: str) -> None:
    """Later pages ask no upstream: one that changes, or fails by now, changes nothing."""
    two = TwoUpstreams()

    def change() -> None:
        two.a.tools.clear()
        two.b.fails_at = "2"

    async with in_memory(two.server, era) as client:
        assert names(await walk(client, between=change)) == two.tools


@each_era
@pytest.mark.parametrize("cursor", ["2", "6"])
async def test_an_upstream_that_fails_is_reported(era: str, cursor: str) -> None:
    """Wherever in its list it fails, the gateway's list is an error that names it, and no more."""
    two = TwoUpstreams()
    two.b.fails_at = cursor
    async with in_memory(two.server, era) as client:
        error = await refused(client, "tools/list", {})
        two.b.fails_at = None
        assert len(await list_all_tools(client)) == 14
    assert error == {"code": -32603, "message": "Upstream b cannot be listed"}


async def test_a_call_goes_to_the_upstream_that_its_tool_names() -> None:
    """The prefix finds the upstream, and is not sent to it."""
    two = TwoUpstreams()
    async with in_memory(two.server, MODERN) as client:
        called = await ask(client, "tools/call", {"name": "b.y3", "arguments": {"k": 1}})
        error = await refused(client, "tools/call", {"name": "c.y3"})
    assert called["content"] == [{"type": "text", "text": "{'k': 1}"}]
    assert (two.a.calls, two.b.calls) == ([], ["y3"])
    assert error == {"code": -32602, "message": "Unknown tool"}


async def test_the_gateway_runs_as_a_program() -> None:
    """It walks two servers over HTTP; one that is not there is reported."""
    a, b = Upstream("x"), Upstream("y")
    async with (
        served(a.server.streamable_http_app()) as first,
        served(b.server.streamable_http_app()) as second,
        Client(program("gateway", f"a={first}", f"b={second}")) as client,
    ):
        listed = await list_all_tools(client)
    async with Client(program("gateway", f"a={first}")) as client:
        error = await refused(client, "tools/list", {})
    assert len(listed) == 14
    assert error["message"] == "Upstream a cannot be listed"


# The REST list.


def rest_client() -> httpx.AsyncClient:
    """Return an HTTP client of the app, without a network."""
    transport = httpx.ASGITransport(rest_list.new_app(RING))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


async def get(client: httpx.AsyncClient, user: str = "alice", **params: str) -> httpx.Response:
    """Ask for a page."""
    return await client.get("/articles", params=params, headers={"X-User": user})


async def test_the_rest_list_is_walked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk is the list of its first page, in order, whatever is published meanwhile."""
    expected = [article.id for article in reversed(rest_list.ARTICLES)]
    found: list[int] = []
    params: dict[str, str] = {}
    async with rest_client() as client:
        for _ in range(3):
            page = (await get(client, **params)).raise_for_status().json()
            assert page["total"] == 12
            found += [article["id"] for article in page["items"]]
            params = {"cursor": page["next_cursor"]}
            newest = rest_list.Article(id=100, title="Newest", tag="news")
            monkeypatch.setattr(rest_list, "ARTICLES", [*rest_list.ARTICLES[1:], newest])
    assert found == expected
    assert params == {"cursor": None}


async def test_a_rest_cursor_is_bound_to_user_and_filter() -> None:
    """Another user, another filter, garbage and "" are one and the same 400."""
    async with rest_client() as client:
        cursor = (await get(client, tag="news")).json()["next_cursor"]
        good = await get(client, tag="news", cursor=cursor)
        assert [article["tag"] for article in good.json()["items"]] == ["news"] * 2
        refusals = [
            await get(client, "bob", tag="news", cursor=cursor),
            await get(client, tag="sport", cursor=cursor),
            await get(client, cursor=cursor),
            await get(client, tag="news", cursor=flipped(cursor)),
            await get(client, tag="news", cursor=""),
        ]
    answers = {(refusal.status_code, refusal.text) for refusal in refusals}
    assert answers == {(400, '{"detail":"Invalid or expired cursor"}')}


async def test_the_page_is_described_by_its_model() -> None:
    """The response model is the page, so that clients are told what it holds."""
    schema = rest_list.new_app(RING).openapi()
    answer = schema["paths"]["/articles"]["get"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/ArticlePage"}
    page = schema["components"]["schemas"]["ArticlePage"]["properties"]
    assert page["items"]["items"] == {"$ref": "#/components/schemas/Article"}
