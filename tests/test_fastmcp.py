"""FastMCP apps with pages: where the middleware goes, and what comes before it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastmcp
import pytest
from fastmcp import Context, FastMCP
from fastmcp.server.auth import DebugTokenVerifier, StaticTokenVerifier
from fastmcp.server.dependencies import get_http_headers
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.skills.provider import SkillsDirectoryProvider
from fastmcp.tools import Tool
from mcp import types
from mcp.server import CacheHint, MCPServer, Server

from cursorkit import ConfigurationError, MemoryStore
from cursorkit.adapters import fastmcp as adapter
from cursorkit.adapters.fastmcp import paginate
from cursorkit.adapters.mcp import CursorPagination
from cursorkit.adapters.mcp.client import list_all_tools
from tests.mcp_kit import (
    ERAS,
    INTERNAL_ERROR,
    INVALID_CURSOR,
    LISTS,
    MODERN,
    always,
    ask,
    flipped,
    in_memory,
    names,
    new_paginator,
    over_http,
    refused,
    served,
    walk,
)

each_era = pytest.mark.parametrize("era", ERAS)

OBJECT = {"type": "object"}

NOBODY: dict[str, Any] = {"principal": None, "auth_epoch": None}


def _echo(text: str) -> str:
    return text


def _nothing() -> str:
    return ""


def new_app(name: str = "demo", count: int = 7, **options: Any) -> FastMCP[Any]:
    """Return an app with `count` entries in each of the four lists: n0, n1 and so on."""
    app = FastMCP[Any](name, **options)
    for number in range(count):
        app.tool(_echo, name=f"n{number}")
        app.resource(f"data://n{number}", name=f"n{number}")(_nothing)
        app.resource(f"data://n{number}/{{text}}", name=f"n{number}")(_echo)
        app.prompt(_nothing, name=f"n{number}")
    return app


def paged(app: FastMCP[Any], **options: Any) -> Any:
    """Page an app, three items a page; return the SDK's server inside it."""
    paginator = options.pop("paginator", None) or new_paginator()
    options.setdefault("page_size", 3)
    paginate(app, paginator, **options)
    return app._mcp_server


# What is refused at once.


def test_an_app_with_pages_of_its_own_is_refused() -> None:
    """`list_page_size` under cursorkit would cut lists short, so it is named and refused."""
    with pytest.raises(ConfigurationError, match="the app has list_page_size=2, and paged twice"):
        paginate(FastMCP[Any]("demo", list_page_size=2), new_paginator())


def test_an_app_is_paged_once() -> None:
    """A second call is refused, and leaves the first in place."""
    app = FastMCP[Any]("demo")
    pagination = paginate(app, new_paginator())
    with pytest.raises(ConfigurationError, match="paged already"):
        paginate(app, new_paginator())
    assert [each for each in app._mcp_server.middleware if each is pagination] == [pagination]


@pytest.mark.parametrize("app", [None, MCPServer("demo"), fastmcp.FastMCP])
def test_what_is_no_app_is_refused(app: Any) -> None:
    """Another kind of server is named by its type."""
    with pytest.raises(ConfigurationError, match=f"app is a {type(app).__name__}; give a FastMCP"):
        paginate(app, new_paginator())


@pytest.mark.parametrize("gone", ["_mcp_server", "_list_page_size"])
def test_a_release_that_moved_its_inside_is_refused(gone: str) -> None:
    """An attribute that is not there any more is named at once, not at the first request."""
    app = FastMCP[Any]("demo")
    delattr(app, gone)
    with pytest.raises(ConfigurationError, match=f"this release of FastMCP has no {gone}"):
        paginate(app, new_paginator())


@pytest.mark.parametrize("inside", [None, object(), FastMCP[Any]("inner")])
def test_an_inside_of_another_kind_is_refused(inside: Any) -> None:
    """What is found in place of the SDK's server is not touched."""
    app: Any = FastMCP[Any]("demo")
    app._mcp_server = inside
    with pytest.raises(ConfigurationError, match="this release of FastMCP has no _mcp_server"):
        paginate(app, new_paginator())


def test_a_middleware_that_is_no_list_is_refused() -> None:
    """A chain that cannot be appended to is not overwritten."""
    app: Any = FastMCP[Any]("demo")
    app._mcp_server.middleware = tuple(app._mcp_server.middleware)
    with pytest.raises(ConfigurationError, match=r"no _mcp_server\.middleware"):
        paginate(app, new_paginator())


def test_a_made_up_name_is_no_audience() -> None:
    """FastMCP makes up a name for each process, under which no other node's cursors would work."""
    with pytest.raises(ConfigurationError, match="was given no name"):
        paginate(FastMCP[Any](), new_paginator())
    assert paginate(FastMCP[Any](), new_paginator(), audience="demo")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"audience": ""}, "audience is empty"),
        ({"page_size": 0}, "page_size is 0"),
        ({"page_sizes": {"tools": 5}}, "'tools' is no list of MCP"),
        ({"visible": [True]}, "visible is a list"),
        ({"max_pages": 0}, "max_pages is 0"),
    ],
)
def test_wrong_settings_leave_the_app_as_it_was(options: dict[str, Any], message: str) -> None:
    """What `CursorPagination` refuses is refused, and nothing is installed."""
    app = FastMCP[Any]("demo")
    before = list(app._mcp_server.middleware)
    with pytest.raises(ConfigurationError, match=message):
        paginate(app, new_paginator(), **options)
    assert app._mcp_server.middleware == before


def test_the_adapter_names_its_extra() -> None:
    """Without FastMCP, the import says what to install."""
    source = Path(__file__).parents[1] / "src"
    program = (
        "import sys; sys.modules['fastmcp'] = None\n"
        "try:\n    import cursorkit.adapters.fastmcp\n"
        "except ImportError as error:\n    print(error)"
    )
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "pip install 'cursorkit[fastmcp]'" in result.stdout


@pytest.mark.parametrize("name", adapter.__all__)
def test_what_the_adapter_offers_is_there_and_documented(name: str) -> None:
    """Each name of `__all__` can be imported and has a docstring."""
    assert getattr(adapter, name).__doc__


# Pages.


@pytest.mark.anyio
@each_era
@pytest.mark.parametrize("method", LISTS)
async def test_a_list_is_what_it_is_without_pages(era: str, method: str) -> None:
    """The items of a walk are those that the app gives unpaged, byte for byte."""
    async with in_memory(new_app()._mcp_server, era) as client:
        plain = await ask(client, method)
    async with in_memory(paged(new_app()), era) as client:
        pages = await walk(client, method)
    member = LISTS[method]
    assert [len(page[member]) for page in pages] == [3, 3, 1]
    assert [item for page in pages for item in page[member]] == plain[member]


@pytest.mark.anyio
@each_era
async def test_a_walk_is_one_list_while_the_app_changes(era: str) -> None:
    """Tools that come and go between two pages change nothing for the walk."""
    app = new_app()
    gone = iter(["n0", "n6"])

    def change() -> None:
        name = next(gone)
        app.local_provider.remove_tool(name)
        app.tool(_nothing, name=f"not-{name}")

    async with in_memory(paged(app), era) as client:
        pages = await walk(client, between=change)
        anew = await walk(client)
    assert names(pages) == [f"n{number}" for number in range(7)]
    assert names(anew) == ["n1", "n2", "n3", "n4", "n5", "not-n0", "not-n6"]


@pytest.mark.anyio
async def test_skills_are_paged_too(tmp_path: Path) -> None:
    """The skills of FastMCP's own extension come in pages, complete and in their order."""
    skills = [f"skill-{number}" for number in range(7)]
    for name in skills:
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
    app = FastMCP[Any]("demo")
    server = paged(app)
    app.add_provider(SkillsDirectoryProvider(tmp_path))
    async with in_memory(server, MODERN) as client:
        pages = await walk(client, "skills/list")
        error = await refused(client, "skills/list", {"cursor": "garbage"})
    assert [len(page["skills"]) for page in pages] == [3, 3, 1]
    assert [each["frontmatter"]["name"] for page in pages for each in page["skills"]] == skills
    assert error == INVALID_CURSOR


@pytest.mark.anyio
@each_era
async def test_every_cursor_that_was_not_minted_here_is_refused_alike(era: str) -> None:
    """Forged, foreign and ill-typed cursors are one error, without data, and FastMCP's own too."""
    async with in_memory(paged(new_app()), era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
        other = (await ask(client, "prompts/list"))["nextCursor"]
        offset = "eyJvIjogM30="  # {"o": 3}, as FastMCP's own pages have it
        hostile: list[Any] = ["", "garbage", flipped(cursor), cursor + "=", other, offset, 5, {}]
        for forged in hostile:
            assert await refused(client, "tools/list", {"cursor": forged}) == INVALID_CURSOR
        assert names([await ask(client, "tools/list", {"cursor": cursor})]) == ["n3", "n4", "n5"]


@pytest.mark.anyio
async def test_the_audience_is_the_apps_name() -> None:
    """A cursor works on each node of one name, and on no app of another."""
    store = MemoryStore()
    same, other = new_app(), new_app("other")
    servers = [paged(app, paginator=new_paginator(store=store)) for app in (new_app(), same, other)]
    async with in_memory(servers[0], MODERN) as client:
        params = {"cursor": (await ask(client, "tools/list"))["nextCursor"]}
    async with in_memory(servers[1], MODERN) as client:
        assert names([await ask(client, "tools/list", params)]) == ["n3", "n4", "n5"]
    async with in_memory(servers[2], MODERN) as client:
        assert await refused(client, "tools/list", params) == INVALID_CURSOR


@pytest.mark.anyio
async def test_an_app_that_pages_by_itself_later_on_cuts_nothing() -> None:
    """Pages under the pages are an internal error, never a list that is cut short."""
    app = new_app()
    server = paged(app)
    app._list_page_size = 2
    async with in_memory(server, MODERN) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR


@pytest.mark.anyio
@each_era
async def test_a_tool_is_called_as_ever_and_sees_whole_lists(era: str) -> None:
    """Calls are not touched, and the lists of a tool's own context come whole."""
    app = new_app()

    @app.tool
    async def count(ctx: Context) -> int:
        return len(await ctx.list_prompts())

    async with in_memory(paged(app), era) as client:
        assert (await client.call_tool("n6", {"text": "hello"})).structured_content == {
            "result": "hello"
        }
        assert (await client.call_tool("count", {})).structured_content == {"result": 7}


@pytest.mark.anyio
@pytest.mark.parametrize("nobody", [True, False])
async def test_the_apps_cache_hints_are_clamped(nobody: bool) -> None:
    """FastMCP's own ttl and scope hold, public only where cursors are bound to nobody."""
    app = new_app(cache_ttl=5, cache_scope="public")
    async with in_memory(paged(app, **(NOBODY if nobody else {})), MODERN) as client:
        pages = await walk(client)
    scope = "public" if nobody else "private"
    assert [(page["cacheScope"], page["ttlMs"]) for page in pages] == [
        (scope, CacheHint(5000).ttl_ms),
        (scope, 0),
        (scope, 0),
    ]


# What comes before the pages.


@pytest.mark.anyio
@each_era
async def test_mounted_servers_are_paged_on_the_root(era: str) -> None:
    """A mounted app's tools are in the root's pages, once each, whatever it does for itself."""
    root, child, own = new_app(count=2), new_app("child", 4), new_app("own", 4, list_page_size=2)
    paginate(child, new_paginator(), page_size=1)
    root.mount(child, namespace="c")
    root.mount(own, namespace="o")
    async with in_memory(paged(root), era) as client:
        pages = await walk(client)
    assert [len(page["tools"]) for page in pages] == [3, 3, 3, 1]
    expected = ["n0", "n1"] + [f"{prefix}_n{number}" for prefix in "co" for number in range(4)]
    assert names(pages) == expected


class Even(Middleware):
    """Hides every other tool, and counts what it sees."""

    def __init__(self) -> None:
        self.listed = 0
        self.failed: list[str] = []

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Count the failures."""
        try:
            return await call_next(context)
        except Exception as error:
            self.failed.append(str(error))
            raise

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: Any
    ) -> Sequence[Tool]:
        """Hide the tools with an odd number."""
        self.listed += 1
        return [tool for tool in await call_next(context) if int(tool.name[1:]) % 2 == 0]


@pytest.mark.anyio
@each_era
async def test_filtering_middleware_comes_first_and_once(era: str) -> None:
    """Pages are cut from what the app's own middleware lets through, and it sees refusals."""
    even = Even()
    server = paged(new_app(middleware=[even]))
    async with in_memory(server, era) as client:
        pages = await walk(client)
        await refused(client, "tools/list", {"cursor": "garbage"})
    assert [len(page["tools"]) for page in pages] == [3, 1]
    assert names(pages) == ["n0", "n2", "n4", "n6"]
    assert even.listed == 1
    assert even.failed == ["Invalid cursor"]


@pytest.mark.anyio
@each_era
async def test_a_cursor_belongs_to_whom_the_token_names(era: str) -> None:
    """Over HTTP with FastMCP's auth, a cursor is of its user, and ends with a change of scopes."""
    tokens: dict[str, dict[str, Any]] = {
        "a": {"client_id": "app", "sub": "alice", "scopes": ["read"]},
        "b": {"client_id": "app", "sub": "bob", "scopes": ["read"]},
        "c": {"client_id": "app", "sub": "alice", "scopes": ["read", "write"]},
    }
    app = new_app(auth=StaticTokenVerifier(tokens))
    paged(app)
    async with served(app.http_app()) as url:
        async with over_http(url, era, token="a") as client:
            assert len(await list_all_tools(client)) == 7
            params = {"cursor": (await ask(client, "tools/list"))["nextCursor"]}
        for token in "bc":
            async with over_http(url, era, token=token) as client:
                assert await refused(client, "tools/list", params) == INVALID_CURSOR


@pytest.mark.anyio
async def test_a_verifier_without_subjects_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Users of one client fall together without a `principal`, and the log says so once."""
    app = new_app(auth=DebugTokenVerifier())
    paged(app)
    async with served(app.http_app()) as url:
        for token in "ab":
            async with over_http(url, MODERN, token=token) as client:
                await walk(client)
    warnings = [each for each in caplog.records if "names a client but no subject" in each.message]
    assert [each.levelno for each in warnings] == [logging.WARNING]


@pytest.mark.anyio
@each_era
async def test_a_principal_of_ones_own_sees_the_request(era: str) -> None:
    """FastMCP's dependencies work in callbacks, so that a header can tell users apart."""

    def principal(ctx: Any) -> str | None:
        return get_http_headers(include={"authorization"}).get("authorization")

    app = new_app()
    paged(app, principal=principal)
    async with served(app.http_app()) as url:
        async with over_http(url, era, token="alice") as client:
            params = {"cursor": (await ask(client, "tools/list"))["nextCursor"]}
            assert names([await ask(client, "tools/list", params)]) == ["n3", "n4", "n5"]
        async with over_http(url, era, token="bob") as client:
            assert await refused(client, "tools/list", params) == INVALID_CURSOR


@pytest.mark.anyio
@each_era
async def test_what_was_taken_away_is_hidden_in_mid_walk(era: str) -> None:
    """`visible` is asked on every page, about whole items, with the request's context."""
    hidden: set[str] = set()
    seen: set[str] = set()

    def visible(ctx: Any, items: Sequence[dict[str, Any]]) -> list[bool]:
        seen.add(ctx.protocol_version)
        assert all("inputSchema" in item for item in items)
        return [item["name"] not in hidden for item in items]

    async with in_memory(paged(new_app(), visible=visible), era) as client:
        pages = await walk(client, between=lambda: hidden.update({"n4", "n6"}))
    assert names(pages) == ["n0", "n1", "n2", "n3", "n5"]
    assert seen == {era}


def test_the_middleware_is_the_same_object_as_elsewhere() -> None:
    """What `paginate` returns is a `CursorPagination`, last in the chain of the app's server."""
    app = FastMCP[Any]("demo")
    pagination = paginate(app, new_paginator(), principal=always("alice"))
    assert type(pagination) is CursorPagination
    assert app._mcp_server.middleware[-1] is pagination


# Whole lists are taken from their handlers before the SDK shapes them.


async def as_it_is(ctx: Any, call_next: Any) -> Any:
    """Do nothing, but below the pages, so that nothing is taken from the handlers."""
    return await call_next(ctx)


@pytest.mark.anyio
@each_era
@pytest.mark.parametrize("method", LISTS)
async def test_a_list_that_was_taken_is_the_same_list(era: str, method: str) -> None:
    """Nodes that take lists from handlers and nodes that do not heal each other's walks."""
    servers = [paged(new_app(count=50), page_size=20) for _ in range(2)]
    servers[1].middleware.append(as_it_is)
    member = LISTS[method]
    walks: list[list[Any]] = []
    for first, second in (servers, reversed(servers)):
        async with in_memory(first, era) as one, in_memory(second, era) as other:
            pages = [await ask(one, method)]
            pages += await walk(other, method, {"cursor": pages[0]["nextCursor"]})
        walks.append(pages)
    async with in_memory(new_app(count=50)._mcp_server, era) as client:
        plain = await ask(client, method)
    for pages in walks:
        assert [len(page[member]) for page in pages] == [20, 20, 10]
        assert [item for page in pages for item in page[member]] == plain[member]


@pytest.mark.anyio
@each_era
async def test_middleware_below_the_pages_sees_whole_lists(era: str) -> None:
    """What is appended later hides what it hides; and the page has the server's `_meta`."""

    async def hide(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            result["tools"] = [tool for tool in result["tools"] if tool["name"] != "n1"]
        return result

    server = paged(new_app())
    server.middleware.append(hide)
    async with in_memory(server, era) as client:
        assert names(await walk(client)) == ["n0", "n2", "n3", "n4", "n5", "n6"]


@pytest.mark.anyio
async def test_a_server_that_is_asked_in_turn_keeps_its_list() -> None:
    """A list that asks another app's list, in the same task, gets it whole."""
    inner = new_app("inner")
    paged(inner, page_sizes={"tools/list": None})
    outer = FastMCP[Any]("outer")

    class Ask(Middleware):
        async def on_list_tools(
            self, context: MiddlewareContext[Any], call_next: Any
        ) -> Sequence[Tool]:
            async with in_memory(inner._mcp_server, MODERN) as client:
                found = await client.list_tools()
            return [Tool(name=f"inner-{each.name}", parameters=OBJECT) for each in found.tools]

    outer.add_middleware(Ask())
    async with in_memory(paged(outer), MODERN) as client:
        assert names(await walk(client)) == [f"inner-n{number}" for number in range(7)]


@pytest.mark.anyio
async def test_a_handler_that_asks_for_another_list_gets_it_whole() -> None:
    """Only the list that is paged is taken from its handler."""
    server = Server[Any]("demo")

    async def resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        found = [types.Resource(name=f"r{number}", uri=f"data://{number}") for number in range(7)]
        return types.ListResourcesResult(resources=found)

    async def tools(ctx: Any, params: Any) -> types.ListToolsResult:
        entry = server.get_request_handler("resources/list")
        assert entry is not None
        found: Any = await entry.handler(ctx, params)
        listed = [
            types.Tool(name=f"read-{each.name}", input_schema=OBJECT) for each in found.resources
        ]
        return types.ListToolsResult(tools=listed)

    params = types.PaginatedRequestParams
    server.add_request_handler("resources/list", params, resources)
    server.add_request_handler("tools/list", params, tools)
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    server.middleware.append(pagination)
    pagination.take_from(server)
    async with in_memory(server, MODERN) as client:
        assert names(await walk(client)) == [f"read-r{number}" for number in range(7)]


def taking(answer: Any) -> Server[Any]:
    """Return a low-level server whose pages take its tools from this handler's answer."""

    async def handler(ctx: Any, params: Any) -> Any:
        return answer

    server = Server[Any]("demo", on_list_tools=handler)
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    server.middleware.append(pagination)
    pagination.take_from(server)
    return server


@pytest.mark.anyio
@each_era
@pytest.mark.parametrize("broken", [0, 40])
async def test_a_list_that_cannot_be_shaped_is_an_internal_error(era: str, broken: int) -> None:
    """An item that no revision allows fails the list, wherever it is, and nothing is served."""
    tools = [types.Tool(name=f"t{number}", input_schema=OBJECT) for number in range(50)]
    tools[broken] = types.Tool.model_construct(name=5, input_schema=OBJECT)
    async with in_memory(taking(types.ListToolsResult(tools=tools)), era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer",
    [
        {
            "tools": [{"name": "t", "inputSchema": OBJECT}],
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        },
        types.ListToolsResult(tools=[types.Tool(name="t", input_schema=OBJECT)]),
    ],
)
async def test_a_handler_may_answer_with_a_dict(answer: Any) -> None:
    """What is no model goes the ordinary way, to the same page."""
    async with in_memory(taking(answer), MODERN) as client:
        (page,) = await walk(client)
    assert page["tools"] == [{"name": "t", "inputSchema": OBJECT}]


@pytest.mark.anyio
async def test_a_handler_that_pages_is_refused_as_ever() -> None:
    """A list that is a page already is noticed, though it is taken before the SDK has it."""
    result = types.ListToolsResult(tools=[], next_cursor="more")
    async with in_memory(taking(result), MODERN) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR


@pytest.mark.anyio
async def test_an_answer_without_a_list_is_left_alone() -> None:
    """A model of another shape is answered as it would be without pages."""
    result = types.EmptyResult()
    async with in_memory(taking(result), MODERN) as client:
        error = await refused(client, "tools/list", {})
    assert error["message"] == "Handler returned an invalid result"
