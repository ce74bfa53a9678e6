"""Catalogs on a low-level server: lists, what they name, and word of their changes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.to_thread
import pytest
from anyio.abc import TaskStatus
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server import CacheHint, MCPServer, Server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types import (
    CallToolResult,
    GetPromptResult,
    InitializedNotification,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
)

from cursorkit import ConfigurationError, NotFound, NotRegistered
from cursorkit.adapters.mcp import serve
from cursorkit.catalogs import (
    CompositeResources,
    Listeners,
    PromptCatalog,
    ResourceCatalog,
    ResourceTemplateCatalog,
    ToolCatalog,
)
from tests.hosts_table import DIRECTORY, State, StateSkills
from tests.mcp_kit import (
    ERAS,
    INTERNAL_ERROR,
    INVALID_CURSOR,
    LEGACY,
    LISTS,
    MODERN,
    always,
    ask,
    connected,
    flipped,
    in_memory,
    names,
    new_paginator,
    refused,
    served,
    tool,
    walk,
    whole_list,
)

pytestmark = pytest.mark.anyio

each_era = pytest.mark.parametrize("era", ERAS)
on_both_backends = pytest.mark.both_backends

NOBODY: Final[dict[str, Any]] = {"principal": None, "auth_epoch": None}


class Shelf:
    """A catalog for each list with `count` entries: n0, n1 and so on."""

    def __init__(self, count: int = 5) -> None:
        self.tools = ToolCatalog()
        self.prompts = PromptCatalog()
        self.resources = ResourceCatalog()
        self.templates = ResourceTemplateCatalog()
        for number in range(count):
            name, uri = f"n{number}", f"data://n{number}"
            self.tools.add(tool(name), lambda arguments, ctx: f"got {arguments['text']}")
            self.prompts.add({"name": name}, lambda arguments, ctx: f"say {arguments['text']}")
            self.resources.add({"uri": uri, "name": name}, lambda uri, ctx: uri.encode())
            template = {"uriTemplate": f"{uri}/{{text}}", "name": name}
            self.templates.add(template, lambda uri, variables, ctx: variables["text"])

    def server(self, **options: Any) -> Server[Any]:
        """Return a server of all four, two items a page."""
        composite = CompositeResources(self.resources, self.templates)
        return serving(self.tools, self.prompts, composite, **options)


def serving(*catalogs: Any, server: Server[Any] | None = None, **options: Any) -> Server[Any]:
    """Return a server of these catalogs, two items a page."""
    server = Server("demo", version="1.0") if server is None else server
    options = {"audience": "demo", "page_size": 2, **options}
    serve(server, catalogs, options.pop("paginator", None) or new_paginator(), **options)
    return server


class Database:
    """A catalog of tools of somebody's own, over what would be a database."""

    method = "tools/list"
    page_size: int | None = 3
    cache_hint: CacheHint | None = CacheHint(ttl_ms=1000, scope="public")

    def __init__(self, count: int = 7) -> None:
        self.names = [f"row{number}" for number in range(count)]
        self.revision = 0
        self.listed = 0
        self.listeners = Listeners()

    @property
    def version(self) -> Callable[[], Any]:
        """Ask for the revision, as a database is asked."""

        async def revision() -> str:
            return f"revision {self.revision}"

        return revision

    async def entries(self, context: Any) -> AsyncIterator[Mapping[str, Any]]:
        """Query the rows."""
        self.listed += 1

        async def rows() -> AsyncIterator[Mapping[str, Any]]:
            for name in self.names:
                yield {"name": name, "inputSchema": {"type": "object"}}

        return rows()

    def on_list_changed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have changes reported that others make."""
        return self.listeners.subscribe(callback)

    async def call(self, name: str, arguments: Mapping[str, Any], context: Any) -> Any:
        """Answer for a row."""
        if name not in self.names:
            raise NotRegistered("no such row")
        return f"{name} for {context.protocol_version}"


def discovering(server: Server[Any], era: str) -> Client:
    """Return a client that asks first what the server can do."""
    return Client(server, mode="legacy" if era == LEGACY else "auto")


# Lists.


@each_era
@pytest.mark.parametrize("method", LISTS)
async def test_each_catalogs_list_comes_in_pages(era: str, method: str) -> None:
    """The entries of each catalog come whole, in order, as they were added."""
    shelf = Shelf()
    catalogs: list[Any] = [shelf.tools, shelf.resources, shelf.templates, shelf.prompts]
    (catalog,) = (each for each in catalogs if each.method == method)
    async with in_memory(shelf.server(), era) as client:
        pages = await walk(client, method)
    member = LISTS[method]
    assert [len(page[member]) for page in pages] == [2, 2, 1]
    assert [item for page in pages for item in page[member]] == catalog.entries()


@each_era
async def test_a_walk_is_one_list_while_the_catalog_changes(era: str) -> None:
    """What is added, replaced and removed between two pages changes nothing for the walk."""
    shelf = Shelf()

    def change() -> None:
        shelf.tools.remove("n3")
        shelf.tools.add(tool("n4", description="another"), always(""))
        shelf.tools.add(tool("new"), always(""))

    async with in_memory(shelf.server(), era) as client:
        before = await walk(client)
        assert await walk(client, between=change) == before
        assert names(await walk(client)) == ["n0", "n1", "n2", "n4", "new"]


@each_era
async def test_every_invalid_cursor_is_one_error(era: str) -> None:
    """Forged, foreign and ill-typed cursors are -32602 "Invalid cursor" without data."""
    async with in_memory(Shelf().server(), era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
        other = (await ask(client, "prompts/list"))["nextCursor"]
        hostile: list[Any] = ["", "garbage", flipped(cursor), cursor + "=", other, 5, True, [], {}]
        for forged in hostile:
            assert await refused(client, "tools/list", {"cursor": forged}) == INVALID_CURSOR
        assert len(await walk(client, params={"cursor": None})) == 3


async def test_a_cursor_that_is_no_text_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The reason of a refusal before the handler is in the log as every other."""
    async with in_memory(Shelf().server(), MODERN) as client:
        await refused(client, "tools/list", {"cursor": 5})
    assert "refused cursor: reason=type list='tools/list'" in caplog.text


async def test_an_unchanged_catalog_is_listed_once() -> None:
    """A catalog's version spares its listing until it changes."""
    rows = Database()
    async with in_memory(serving(rows), MODERN) as client:
        await walk(client)
        await walk(client)
        assert rows.listed == 1
        rows.revision += 1
        await walk(client)
    assert rows.listed == 2


async def test_a_catalog_without_a_version_is_listed_for_each_walk() -> None:
    """None as a version promises nothing."""

    class Unversioned(Database):
        version = None  # type: ignore[assignment]  # a protocol's member may be an attribute

    rows = Unversioned()
    async with in_memory(serving(rows), MODERN) as client:
        await walk(client)
        await walk(client)
    assert rows.listed == 2


async def test_a_catalogs_own_page_size_and_hint_win() -> None:
    """A catalog keeps its own; one without takes the shared page size and the server's hint."""
    shelf = Shelf()
    shelf.tools.page_size = 4
    shelf.tools.cache_hint = CacheHint(ttl_ms=500, scope="public")
    hints: Any = dict.fromkeys(("tools/list", "prompts/list"), CacheHint(1000, "private"))
    server = shelf.server(server=Server("demo", cache_hints=hints), **NOBODY)
    async with in_memory(server, MODERN) as client:
        pages = {method: await walk(client, method) for method in LISTS}
    assert [len(page["tools"]) for page in pages["tools/list"]] == [4, 1]
    firsts = {method: (page["cacheScope"], page["ttlMs"]) for method, (page, *_) in pages.items()}
    assert firsts == {
        "tools/list": ("public", 500),
        "prompts/list": ("private", 1000),
        "resources/list": ("private", 0),
        "resources/templates/list": ("private", 0),
    }


async def test_what_a_principal_may_not_see_is_asked_on_every_page() -> None:
    """`visible` gets the request's context, whose method says which list it is."""
    hidden: set[tuple[str, str]] = set()

    def visible(ctx: Any, items: Any) -> list[bool]:
        return [(ctx.method, item["name"]) not in hidden for item in items]

    hide = {("tools/list", "n3"), ("prompts/list", "n2")}
    async with in_memory(Shelf().server(visible=visible), MODERN) as client:
        pages = await walk(client, between=lambda: hidden.update(hide))
    assert names(pages) == ["n0", "n1", "n2", "n4"]


# What the lists name.


@each_era
async def test_what_the_lists_name_is_there(era: str) -> None:
    """A tool is called, a prompt got, a resource read by exact URI and by template."""
    async with in_memory(Shelf().server(), era) as client:
        called = await ask(client, "tools/call", {"name": "n4", "arguments": {"text": "x"}})
        got = await ask(client, "prompts/get", {"name": "n4", "arguments": {"text": "x"}})
        exact = await ask(client, "resources/read", {"uri": "data://n4"})
        matched = await ask(client, "resources/read", {"uri": "data://n4/a%2Fb"})
    assert called["content"] == [{"type": "text", "text": "got x"}]
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "say x"}}]
    assert exact["contents"] == [{"uri": "data://n4", "blob": "ZGF0YTovL240"}]
    assert matched["contents"] == [{"uri": "data://n4/a%2Fb", "text": "a/b"}]


@each_era
async def test_a_result_of_the_sdk_goes_as_it_is(era: str) -> None:
    """A handler may return the SDK's own result, and gets the request's context."""
    tools, prompts, resources = ToolCatalog(), PromptCatalog(), ResourceCatalog()

    async def call(arguments: Mapping[str, Any], ctx: Any) -> CallToolResult:
        content = TextContent(text=ctx.method)
        return CallToolResult(content=[content], structured_content={"a": 1})

    async def get(arguments: Mapping[str, str], ctx: Any) -> GetPromptResult:
        return GetPromptResult(description=ctx.method, messages=[])

    async def read(uri: str, ctx: Any) -> ReadResourceResult:
        content = TextResourceContents(uri=uri, mime_type="text/html", text=ctx.method)
        return ReadResourceResult(contents=[content])

    tools.add(tool("t"), call)
    prompts.add({"name": "p"}, get)
    resources.add({"uri": "data://r", "name": "r"}, read)
    async with in_memory(serving(tools, prompts, resources), era) as client:
        called = await ask(client, "tools/call", {"name": "t"})
        got = await ask(client, "prompts/get", {"name": "p"})
        found = await ask(client, "resources/read", {"uri": "data://r"})
    assert called["content"] == [{"type": "text", "text": "tools/call"}]
    assert called["structuredContent"] == {"a": 1}
    assert (got["description"], got["messages"]) == ("prompts/get", [])
    assert found["contents"] == [
        {"uri": "data://r", "mimeType": "text/html", "text": "resources/read"}
    ]


@each_era
async def test_what_is_not_found_has_the_code_of_its_revision(era: str) -> None:
    """A missing resource is -32602, before 2026-07-28 -32002, its URI in `data`."""
    code = -32602 if era == MODERN else -32002
    uri = "data://none"
    async with in_memory(Shelf().server(), era) as client:
        assert await refused(client, "resources/read", {"uri": uri}) == {
            "code": code,
            "message": "Resource not found",
            "data": {"uri": uri},
        }
        assert await refused(client, "tools/call", {"name": "none"}) == {
            "code": -32602,
            "message": "Unknown tool",
        }
        assert await refused(client, "prompts/get", {"name": "none"}) == {
            "code": -32602,
            "message": "Unknown prompt",
        }


@each_era
async def test_not_found_is_final_and_not_registered_is_not(era: str) -> None:
    """A reader of an exact URI decides whether the templates are asked."""

    def missing(uri: str, ctx: Any) -> str:
        raise NotFound("gone") if uri.endswith("final") else NotRegistered("ask another")

    shelf = Shelf(0)
    for name in ("final", "open"):
        shelf.resources.add({"uri": f"data://x/{name}", "name": name}, missing)
    template = {"uriTemplate": "data://x/{text}", "name": "all"}
    shelf.templates.add(template, lambda uri, variables, ctx: "from the template")
    async with in_memory(shelf.server(), era) as client:
        error = await refused(client, "resources/read", {"uri": "data://x/final"})
        found = await ask(client, "resources/read", {"uri": "data://x/open"})
    assert error["message"] == "Resource not found"
    assert found["contents"][0]["text"] == "from the template"


def failing(error: Exception) -> Server[Any]:
    """Return a server whose every entry raises."""

    def fail(*_: Any) -> Any:
        raise error

    shelf = Shelf(0)
    shelf.tools.add(tool("x"), fail)
    shelf.prompts.add({"name": "x"}, fail)
    shelf.resources.add({"uri": "data://x", "name": "x"}, fail)
    shelf.templates.add({"uriTemplate": "data://x/{y}", "name": "x"}, fail)
    return shelf.server()


@each_era
async def test_no_text_of_an_error_leaves_the_server(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that raises has failed, and no more; all else is an internal error; the log has it."""
    async with in_memory(failing(ValueError("SECRET")), era) as client:
        result = await ask(client, "tools/call", {"name": "x"})
        errors = [
            await refused(client, "prompts/get", {"name": "x"}),
            await refused(client, "resources/read", {"uri": "data://x"}),
            await refused(client, "resources/read", {"uri": "data://x/y"}),
        ]
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "The tool failed."}]
    assert errors == [INTERNAL_ERROR] * 3
    assert caplog.text.count("SECRET") >= 4


@each_era
async def test_an_error_of_the_protocol_passes(era: str) -> None:
    """An `MCPError` of a handler is its own word to the client."""
    error = {"code": -32001, "message": "told", "data": {"a": 1}}
    server = failing(MCPError(error["code"], error["message"], error["data"]))  # type: ignore[arg-type]  # a dict's values
    async with in_memory(server, era) as client:
        assert await refused(client, "tools/call", {"name": "x"}) == error
        assert await refused(client, "prompts/get", {"name": "x"}) == error
        assert await refused(client, "resources/read", {"uri": "data://x"}) == error


@pytest.mark.parametrize("own", [False, True])
async def test_a_call_over_http_does_not_walk_the_list(own: bool) -> None:
    """A catalog's schemas serve the SDK's check of headers, unless the server has its own."""
    asked: list[str] = []
    methods: list[str] = []

    def schema(name: str) -> None:
        asked.append(name)

    async def watch(ctx: Any, call_next: Any) -> Any:
        methods.append(ctx.method)
        return await call_next(ctx)

    options: dict[str, Any] = {"get_tool_input_schema": schema} if own else {}
    server = Shelf().server(server=Server("demo", **options))
    server.middleware.append(watch)
    lookup = server.get_tool_input_schema
    assert lookup is not None
    async with connected(server, MODERN, "http") as client:
        await ask(client, "tools/call", {"name": "n4", "arguments": {"text": "x"}})
        assert "tools/list" not in methods
        assert asked == (["n4"] if own else [])
        assert own or (lookup("n4"), lookup("none")) == (tool("n4").input_schema, None)


# Whose catalog it is.


@each_era
async def test_a_catalog_of_ones_own_takes_the_place_of_a_built_in_one(era: str) -> None:
    """It turns the capability on, keeps its page size and hint, and answers its calls."""
    async with discovering(serving(Database(), **NOBODY), era) as client:
        assert client.server_capabilities.tools is not None
        pages = await walk(client)
        result = await ask(client, "tools/call", {"name": "row5"})
        error = await refused(client, "tools/call", {"name": "row9"})
    assert [len(page["tools"]) for page in pages] == [3, 3, 1]
    assert names(pages) == [f"row{number}" for number in range(7)]
    assert result["content"][0]["text"] == f"row5 for {era}"
    assert error["message"] == "Unknown tool"
    if era == MODERN:
        assert (pages[0]["cacheScope"], pages[0]["ttlMs"]) == ("public", 1000)


@pytest.mark.parametrize("first", ["own", "built-in"])
async def test_of_two_catalogs_ones_own_wins(first: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whichever comes first, the user's own is served, and a warning names the other."""
    shelf, rows = Shelf(), Database()
    catalogs = (rows, shelf.tools) if first == "own" else (shelf.tools, rows)
    async with in_memory(serving(*catalogs, shelf.prompts), MODERN) as client:
        assert names(await walk(client)) == rows.names
        assert len(await walk(client, "prompts/list")) == 3
        assert await refused(client, "tools/call", {"name": "n0"})
    (warning,) = (each for each in caplog.records if each.levelno == logging.WARNING)
    assert warning.getMessage() == (
        "tools/list is served from Database; the ToolCatalog that was given for it too is not used"
    )


async def test_a_subclass_is_ones_own() -> None:
    """Who changes a built-in catalog's ways has one of their own."""

    class Mine(ToolCatalog):
        pass

    mine = Mine()
    mine.add(tool("mine"), always("x"))
    async with in_memory(serving(Shelf().tools, mine), MODERN) as client:
        assert names(await walk(client)) == ["mine"]


async def test_a_handler_that_the_server_has_stays(caplog: pytest.LogCaptureFixture) -> None:
    """What was there is not replaced; a warning says what the catalog does not do."""
    server = Server("demo", on_list_tools=whole_list([tool("own")]))
    shelf = Shelf()
    async with in_memory(shelf.server(server=server), MODERN) as client:
        assert names(await walk(client)) == ["own"]
        assert await ask(client, "tools/call", {"name": "n0", "arguments": {"text": "x"}})
        # Of its changes there is nothing to tell.
        assert not shelf.tools._listeners._callbacks
    (warning,) = (each for each in caplog.records if each.levelno == logging.WARNING)
    assert "the server has a handler for tools/list of its own, which stays" in warning.getMessage()


@each_era
async def test_templates_alone_turn_resources_on(era: str) -> None:
    """A server of templates has an empty list of resources, and says that it has resources."""
    templates = Shelf().templates
    async with discovering(serving(templates), era) as client:
        assert client.server_capabilities.resources is not None
        assert (await ask(client, "resources/list"))["resources"] == []
        assert len(await walk(client, "resources/templates/list")) == 3
        assert await ask(client, "resources/read", {"uri": "data://n0/x"})


@each_era
async def test_skills_are_served_next_to_the_others(era: str) -> None:
    """Skills come in pages, with a directory; alone, they promise no word of changes."""
    server = serving(StateSkills(State()))
    assert server.get_request_handler("subscriptions/listen") is None
    async with in_memory(server, era) as client:
        pages = await walk(client, "skills/list")
        children = await walk(client, "resources/directory/read", {"uri": DIRECTORY})
        assert (await ask(client, "resources/list"))["resources"] == []
    assert [len(page["skills"]) for page in pages] == [2, 2, 2, 1]
    assert [len(page["resources"]) for page in children] == [2, 2, 2, 1]


async def test_a_handler_for_skills_that_the_server_has_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Skills of the host's own are not replaced, nor served twice."""

    async def own(ctx: Any, params: Any) -> dict[str, Any]:
        return {"skills": [], "ttlMs": 0, "cacheScope": "private", "own": True}

    server = Server[Any]("demo")
    server.add_request_handler("skills/list", PaginatedRequestParams, own)
    async with in_memory(serving(StateSkills(State()), server=server), MODERN) as client:
        assert (await ask(client, "skills/list"))["own"] is True
    assert "a handler for skills/list of its own, which stays" in caplog.text
    assert server.get_request_handler("skills/get") is None


async def test_templates_leave_the_resources_of_the_host_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where the host lists resources itself, templates add nothing to that, and warn of nothing."""

    async def own(ctx: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(name="own", uri="data://own")])

    server = serving(Shelf().templates, server=Server("demo", on_list_resources=own))
    async with in_memory(server, MODERN) as client:
        assert names(await walk(client, "resources/list"), "resources") == ["own"]
        assert len(await walk(client, "resources/templates/list")) == 3
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


class _Readless:
    method = "resources/list"


@pytest.mark.parametrize(
    ("catalogs", "message"),
    [
        ([ToolCatalog(), ToolCatalog()], "ToolCatalog and ToolCatalog both serve tools/list"),
        ([Database(), Database()], "Database and Database both serve tools/list"),
        ([{"name": "t"}], "a dict is no catalog of one of tools/list, "),
        ([_Readless()], "a _Readless is no catalog"),
        ([type("Odd", (), {"method": "tools/call"})()], "a Odd is no catalog"),
    ],
)
def test_what_is_no_set_of_catalogs_is_refused(catalogs: list[Any], message: str) -> None:
    """Two of one kind for one list, or what is no catalog, is refused before anything is wired."""
    server = Server[Any]("demo")
    with pytest.raises(ConfigurationError, match=message):
        serve(server, [PromptCatalog(), *catalogs], new_paginator(), audience="demo")
    assert server.get_request_handler("prompts/list") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"audience": ""}, "audience is empty"),
        ({"page_size": 0}, "page_size is 0"),
        ({"visible": 5}, "visible is a int"),
        ({"max_page_bytes": 0}, "max_page_bytes is 0"),
    ],
)
def test_wrong_settings_leave_the_server_as_it_was(options: dict[str, Any], message: str) -> None:
    """What the pages refuse is refused before anything is wired."""
    server = Server[Any]("demo")
    with pytest.raises(ConfigurationError, match=message):
        serving(ToolCatalog(), server=server, **options)
    assert server.get_request_handler("tools/list") is None
    assert server.get_request_handler("subscriptions/listen") is None


def test_only_a_low_level_server_is_served() -> None:
    """A server with lists of its own is sent to the middleware."""
    server: Any = MCPServer("demo")
    with pytest.raises(ConfigurationError, match=r"server is a MCPServer.* CursorPagination"):
        serve(server, [], new_paginator(), audience="demo")


# Word of changes.


class Told:
    """What a client of a 2025 revision was told."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](100)

    async def __call__(self, message: Any) -> None:
        """Note a notification."""
        self._send.send_nowait(message.method)

    async def until(self, method: str) -> list[str]:
        """Return all up to a method's first."""
        told: list[str] = []
        with anyio.fail_after(30):
            while not told or told[-1] != method:
                told.append(await self._receive.receive())
        return told

    def close(self) -> None:
        """Close the streams."""
        self._send.close()
        self._receive.close()


@pytest.fixture
def told() -> Any:
    """Give a message handler for a client."""
    handler = Told()
    yield handler
    handler.close()


TOOLS, PROMPTS, RESOURCES = (
    f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")
)


@on_both_backends
async def test_on_2025_revisions_changes_are_one_notification(told: Told) -> None:
    """However many changes come at once, each list's clients are told once, and later again."""
    shelf = Shelf()
    async with Client(shelf.server(), mode="legacy", message_handler=told) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        await client.list_tools()
        for number in range(20):
            shelf.tools.add(tool(f"more{number}"), always(""))
            await anyio.lowlevel.checkpoint()
        shelf.templates.remove("data://n0/{text}")
        shelf.resources.remove("data://n0")
        shelf.prompts.remove("n0")
        assert await told.until(PROMPTS) == [TOOLS, RESOURCES, PROMPTS]
        shelf.tools.remove("n0")
        assert await told.until(TOOLS) == [TOOLS]


@on_both_backends
async def test_on_2026_07_28_streams_that_listen_are_told() -> None:
    """A stream gets what it asked for, once for all changes at once, and nothing else."""
    shelf = Shelf()
    async with discovering(shelf.server(), MODERN) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed is True
        async with client.listen(tools_list_changed=True, resources_list_changed=True) as stream:
            for number in range(20):
                shelf.tools.add(tool(f"more{number}"), always(""))
                await anyio.lowlevel.checkpoint()
            shelf.prompts.remove("n0")
            shelf.templates.remove("data://n0/{text}")
            with anyio.fail_after(30):
                events = [await anext(stream), await anext(stream)]
    assert events == [ToolsListChanged(), ResourcesListChanged()]


async def test_over_http_both_eras_are_told(told: Told) -> None:
    """One server tells a stream that listens, and a session with its own stream."""
    shelf = Shelf()
    async with served(shelf.server().streamable_http_app()) as url:
        async with (
            Client(url, mode=MODERN) as modern,
            modern.listen(prompts_list_changed=True) as stream,
        ):
            shelf.prompts.remove("n0")
            with anyio.fail_after(30):
                assert await anext(stream) == PromptsListChanged()
        async with Client(
            streamable_http_client(url), mode="legacy", message_handler=told
        ) as legacy:
            assert legacy.server_capabilities.tools is not None
            assert legacy.server_capabilities.tools.list_changed is True
            # What happens before the session's stream is open is lost, so it is done again.
            for number in range(50):
                shelf.tools.add(tool(f"more{number}"), always(""))
                with anyio.move_on_after(1):
                    assert await told.until(TOOLS) == [TOOLS]
                    break
            else:
                raise AssertionError("never told")


@on_both_backends
async def test_changes_in_other_threads_are_told(told: Told) -> None:
    """A catalog is changed in whatever thread, and the server's own loop tells of it."""
    shelf = Shelf()
    async with Client(shelf.server(), mode="legacy", message_handler=told) as client:
        await client.list_tools()
        assert await anyio.to_thread.run_sync(shelf.tools.remove, "n0")
        assert await told.until(TOOLS) == [TOOLS]


async def test_a_catalog_of_ones_own_reports_what_it_did_not_do(told: Told) -> None:
    """A change that somebody else made is told like any other."""
    rows = Database()
    async with Client(serving(rows), mode="legacy", message_handler=told) as client:
        await client.list_tools()
        rows.listeners.notify()
        assert await told.until(TOOLS) == [TOOLS]


@pytest.mark.parametrize("options", [{"stateless_http": True}, {"json_response": True}])
async def test_nothing_is_advertised_where_it_cannot_be_sent(options: dict[str, Any]) -> None:
    """A connection that ends with its answer is told nothing, and promised nothing."""
    app = Shelf().server().streamable_http_app(**options)
    async with served(app) as url, Client(url, mode="legacy") as client:
        assert client.server_capabilities.tools is not None
        assert not client.server_capabilities.tools.list_changed
        assert len(await walk(client)) == 3


async def list_own_prompts(ctx: Any, params: Any) -> ListPromptsResult:
    """List prompts whose changes nobody reports."""
    return ListPromptsResult(prompts=[Prompt(name="own")])


@pytest.mark.parametrize("own_bus", [False, True])
async def test_what_the_host_lists_itself_is_promised_only_with_its_own_bus(own_bus: bool) -> None:
    """The SDK promises word of every list; of those that are not cursorkit's, only the host can."""
    server = Server[Any]("demo", on_list_prompts=list_own_prompts)
    bus = InMemorySubscriptionBus() if own_bus else None
    shelf = Shelf()
    composite = CompositeResources(shelf.resources, shelf.templates)
    async with discovering(serving(composite, server=server, subscriptions=bus), MODERN) as client:
        capabilities = client.server_capabilities
    assert capabilities.prompts is not None
    assert capabilities.resources is not None
    assert capabilities.resources.list_changed is True
    assert (capabilities.prompts.list_changed, capabilities.resources.subscribe) == (
        own_bus,
        own_bus,
    )


async def test_a_bus_of_the_hosts_own_carries_the_word() -> None:
    """What is published on it reaches clients too, from wherever it comes."""
    bus = InMemorySubscriptionBus()
    server = Server[Any]("demo", on_subscriptions_listen=ListenHandler(bus))
    shelf = Shelf()
    heard: list[ServerEvent] = []
    bus.subscribe(heard.append)
    async with (
        in_memory(shelf.server(server=server, subscriptions=bus), MODERN) as client,
        client.listen(tools_list_changed=True) as stream,
    ):
        await bus.publish(ToolsListChanged())
        with anyio.fail_after(30):
            assert await anext(stream) == ToolsListChanged()
            shelf.tools.remove("n0")
            assert await anext(stream) == ToolsListChanged()
    assert heard == [ToolsListChanged()] * 2


async def test_what_else_a_bus_carries_is_not_told(told: Told) -> None:
    """A resource's update is for those who subscribed to it: that is the host's to send."""
    bus, shelf = InMemorySubscriptionBus(), Shelf()
    server = shelf.server(subscriptions=bus)
    async with Client(server, mode="legacy", message_handler=told) as client:
        await client.list_tools()
        await bus.publish(ResourceUpdated("data://n0"))
        await bus.publish(ToolsListChanged())
        assert await told.until(TOOLS) == [TOOLS]


def test_a_listen_handler_without_its_bus_is_refused() -> None:
    """Streams that another bus serves would never hear of the catalogs."""
    server = Server[Any]("demo", on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()))
    with pytest.raises(ConfigurationError, match="give the bus of that handler as subscriptions"):
        Shelf().server(server=server)
    assert server.get_request_handler("tools/list") is None


class DeadBus(InMemorySubscriptionBus):
    """A bus whose backend is down."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = anyio.Event()

    async def publish(self, event: ServerEvent) -> None:
        """Fail."""
        self.tried.set()
        raise ConnectionError("down")


@each_era
async def test_a_bus_that_is_down_does_not_end_the_server(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged, and lists are served as before."""
    bus, shelf = DeadBus(), Shelf()
    async with in_memory(shelf.server(subscriptions=bus), era) as client:
        shelf.tools.remove("n0")
        with anyio.fail_after(30):
            await bus.tried.wait()
        assert names(await walk(client)) == ["n1", "n2", "n3", "n4"]
    assert "clients were not told that a list has changed" in caplog.text


async def test_a_client_that_says_twice_that_it_is_there_is_told_once(told: Told) -> None:
    """A repeated `notifications/initialized` opens nothing more."""
    shelf = Shelf()
    async with Client(shelf.server(), mode="legacy", message_handler=told) as client:
        for _ in range(3):
            await client.session.send_notification(InitializedNotification())
        await client.list_tools()
        shelf.tools.remove("n0")
        assert await told.until(TOOLS) == [TOOLS]
        shelf.prompts.remove("n0")
        assert await told.until(PROMPTS) == [PROMPTS]


@on_both_backends
async def test_a_catalog_outlives_its_servers() -> None:
    """While no server runs, nothing listens to a catalog; several runs are told once."""
    shelf = Shelf()
    bus = InMemorySubscriptionBus()
    heard: list[ServerEvent] = []
    bus.subscribe(heard.append)
    server = shelf.server(subscriptions=bus)
    assert not shelf.tools._listeners._callbacks
    async with (
        server.lifespan(server),
        in_memory(server, MODERN) as client,
        client.listen(tools_list_changed=True) as stream,
    ):
        assert len(shelf.tools._listeners._callbacks) == 1
        shelf.tools.remove("n0")
        with anyio.fail_after(30):
            assert await anext(stream) == ToolsListChanged()
    assert heard == [ToolsListChanged()]
    assert not shelf.tools._listeners._callbacks
    shelf.tools.remove("n1")
    assert heard == [ToolsListChanged()]


async def test_word_that_is_due_passes_to_the_next_run() -> None:
    """A run that ends with something untold leaves it to one that goes on."""
    shelf = Shelf()
    bus = InMemorySubscriptionBus()
    heard = anyio.Event()
    bus.subscribe(lambda event: heard.set())
    server = shelf.server(subscriptions=bus)
    leave = [anyio.Event(), anyio.Event()]

    async def run(number: int, *, task_status: TaskStatus[None]) -> None:
        async with server.lifespan(server):
            task_status.started()
            await leave[number].wait()

    async with anyio.create_task_group() as tasks:
        for number in (0, 1):
            await tasks.start(run, number)
        shelf.tools.remove("n0")
        leave[0].set()
        with anyio.fail_after(30):
            await heard.wait()
        leave[1].set()


async def test_a_lifespan_of_the_hosts_own_is_kept() -> None:
    """Its state reaches handlers, and what is raised inside leaves it as it was."""
    left: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncGenerator[str]:
        try:
            yield "state"
        except KeyError as error:
            left.append(repr(error))
            raise

    server = serving(ToolCatalog(), server=Server[Any]("demo", lifespan=lifespan))
    states: list[Any] = []

    async def run() -> None:
        async with server.lifespan(server) as state:
            states.append(state)
            raise KeyError(1)

    with pytest.raises(KeyError):
        await run()
    assert states == ["state"]
    assert left == ["KeyError(1)"]


async def test_unpaged_results_are_not_touched() -> None:
    """`ListToolsResult` of a handler that stays is served by the SDK as ever."""
    result = ListToolsResult(tools=[tool("own")], next_cursor="theirs")

    async def own(ctx: Any, params: Any) -> ListToolsResult:
        return result

    server = Shelf().server(server=Server("demo", on_list_tools=own))
    async with in_memory(server, LEGACY) as client:
        assert (await ask(client, "tools/list"))["nextCursor"] == "theirs"
