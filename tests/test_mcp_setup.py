"""How the adapter is set up: what it refuses at once, what it leaves alone, what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer, Server
from mcp.types import CallToolResult, PaginatedRequestParams, TextContent, Tool

from cursorkit import ConfigurationError, OffsetCodec, OffsetPaginator
from cursorkit.adapters import mcp as adapter
from cursorkit.adapters.mcp import CursorPagination, list_handler
from tests.mcp_kit import (
    ERAS,
    INTERNAL_ERROR,
    LISTS,
    MODERN,
    Host,
    always,
    ask,
    connected,
    full_server,
    in_memory,
    names,
    new_paginator,
    refused,
    tool,
    walk,
)

each_era = pytest.mark.parametrize("era", ERAS)


def _middleware(**options: Any) -> object:
    return CursorPagination(options.pop("paginator", new_paginator()), **options)


def _handler(**options: Any) -> object:
    paginator = options.pop("paginator", new_paginator())
    return list_handler("tools/list", paginator, always([]), **options)


each_way = pytest.mark.parametrize("make", [_middleware, _handler])

Make = Callable[..., object]


@each_way
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("audience", "", "audience is empty"),
        ("audience", None, "audience is a NoneType"),
        ("audience", b"demo", "audience is a bytes"),
        ("paginator", OffsetPaginator(OffsetCodec()), "give a SnapshotPaginator"),
        ("page_size", 0, "page_size is 0; give an int from 1 to 10000"),
        ("page_size", True, "page_size is True"),
        ("page_size", 10_001, "page_size is 10001"),
        ("page_size", 2.0, "page_size is 2.0"),
        ("max_pages", 0, "max_pages is 0"),
        ("max_pages", False, "max_pages is False"),
        ("max_page_bytes", -1, "max_page_bytes is -1"),
        ("principal", "alice", "principal is a str; give a callable or None"),
        ("auth_epoch", 7, "auth_epoch is a int"),
        ("bind", {}, "bind is a dict"),
        ("visible", [True], "visible is a list"),
    ],
)
def test_what_cannot_work_is_refused_at_construction(
    make: Make, name: str, value: Any, message: str
) -> None:
    """A wrong argument is a `ConfigurationError` that says what was given and what to give."""
    with pytest.raises(ConfigurationError, match=message):
        make(**{"audience": "demo", name: value})


@pytest.mark.parametrize(
    ("page_sizes", "message"),
    [
        ({"tool/list": 5}, "'tool/list' is no list of MCP; give one of tools/list, "),
        ({"tools/call": 5}, "'tools/call' is no list of MCP"),
        ({5: 5}, "5 is no list of MCP"),
        ({"tools/list": 0}, r"page_sizes\['tools/list'\] is 0; give an int from 1 to 10000"),
        ({"tools/list": True}, r"page_sizes\['tools/list'\] is True"),
        ({"tools/list": 10_001}, r"page_sizes\['tools/list'\] is 10001"),
        ({"skills/list": 33}, r"page_sizes\['skills/list'\] is 33; give an int from 1 to 32"),
        ([5], "page_sizes is a mapping"),
    ],
)
def test_wrong_page_sizes_are_refused_at_construction(page_sizes: Any, message: str) -> None:
    """A list that does not exist, or a size that its list does not allow, is named."""
    with pytest.raises(ConfigurationError, match=message):
        CursorPagination(new_paginator(), audience="demo", page_sizes=page_sizes)


def test_a_handler_for_an_unknown_list_is_refused() -> None:
    """`list_handler` knows the same lists."""
    with pytest.raises(ConfigurationError, match="'tools/call' is no list of MCP"):
        list_handler("tools/call", new_paginator(), always([]), audience="demo")


def test_a_source_that_is_no_callable_is_refused() -> None:
    """A list in place of a source would be frozen for good."""
    source: Any = []
    with pytest.raises(ConfigurationError, match="source is a list; give a callable"):
        list_handler("tools/list", new_paginator(), source, audience="demo")


def test_the_adapter_names_its_extra() -> None:
    """Without the SDK, or with one that is too old, the import says what to install."""
    source = Path(__file__).parents[1] / "src"
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    for broken in (
        "sys.modules['mcp'] = None",
        "sys.modules['mcp.server'] = types.ModuleType('x')",
    ):
        program = (
            f"import sys, types; {broken}\n"
            "try:\n    import cursorkit.adapters.mcp\n"
            "except ImportError as error:\n    print(error)"
        )
        result = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert "pip install 'cursorkit[mcp]'" in result.stdout


@pytest.mark.parametrize("name", adapter.__all__)
def test_what_the_adapter_offers_is_there_and_documented(name: str) -> None:
    """Each name of `__all__` can be imported and has a docstring."""
    assert getattr(adapter, name).__doc__


async def seen_by(pagination: CursorPagination, ctx: Any) -> Any:
    """Return the context that the handler below sees."""
    seen: list[Any] = []

    async def call_next(below: Any) -> None:
        seen.append(below)

    assert await pagination(ctx, call_next) is None
    return seen[0]


@pytest.mark.anyio
@each_era
async def test_other_messages_pass_untouched(era: str) -> None:
    """Calls, reads, unknown methods, notifications and lists that are off get the very context."""
    contexts: list[Any] = []

    async def keep(ctx: Any, call_next: Any) -> Any:
        contexts.append(ctx)
        return await call_next(ctx)

    async with in_memory(full_server([keep]), era) as client:
        await ask(client, "tools/list", {"cursor": "x"})
    (ctx,) = (ctx for ctx in contexts if ctx.method == "tools/list")
    pagination = CursorPagination(
        new_paginator(), audience="demo", page_sizes=dict.fromkeys(["prompts/list"])
    )
    for method in ("tools/call", "initialize", "server/discover", "unknown", "prompts/list"):
        other = replace(ctx, method=method)
        assert await seen_by(pagination, other) is other
    notification = replace(ctx, request_id=None)
    assert await seen_by(pagination, notification) is notification


@pytest.mark.anyio
@each_era
async def test_a_tool_is_called_as_ever(era: str) -> None:
    """The middleware does not touch what the lists name."""
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    async with in_memory(full_server([pagination]), era) as client:
        result = await client.call_tool("n6", {"text": "hello"})
    assert result.structured_content == {"result": "hello"}


@pytest.mark.anyio
@each_era
async def test_the_handler_below_never_sees_a_cursor(era: str) -> None:
    """It gets the same request without one, its other params and `_meta` unchanged."""
    seen: list[Any] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        seen.append((ctx.method, dict(ctx.params or {})))
        return await call_next(ctx)

    pagination = CursorPagination(new_paginator(store=_Forgetful()), audience="demo", page_size=4)
    params = {"filter": "x", "_meta": {"example.com/x": 1}}
    async with in_memory(full_server([pagination, watch]), era) as client:
        await walk(client, params=params)
    listed = [params for method, params in seen if method == "tools/list"]
    assert len(listed) == 2
    assert all("cursor" not in params for params in listed)
    assert all(params["filter"] == "x" for params in listed)
    assert all(params["_meta"]["example.com/x"] == 1 for params in listed)


class _Forgetful:
    """A store that has lost everything."""

    async def put(self, objects: Any, *, deadline: int, repair: bool = False) -> None:
        """Keep nothing."""

    async def get(self, digests: Any) -> list[bytes | None]:
        """Find nothing."""
        return [None] * len(digests)


# Sources of `list_handler`.


def _models() -> list[Tool]:
    return [tool(f"t{number:02}") for number in range(7)]


def _dicts() -> list[dict[str, Any]]:
    return [
        {"name": model.name, "description": model.description, "inputSchema": model.input_schema}
        for model in _models()
    ]


def _plain(ctx: Any) -> Any:
    return _models()


def _of_dicts(ctx: Any) -> Any:
    return _dicts()


def _iterator(ctx: Any) -> Any:
    return iter(_models())


async def _awaited(ctx: Any) -> Any:
    return tuple(_models())


async def _generated(ctx: Any) -> AsyncIterator[Any]:
    for model in _models():
        yield model


@pytest.mark.anyio
@each_era
@pytest.mark.parametrize("source", [_plain, _of_dicts, _iterator, _awaited, _generated])
async def test_a_source_gives_models_or_dicts_however_it_likes(
    era: str, source: Callable[[Any], Any]
) -> None:
    """Models and wire dicts, from a list, an iterator, a coroutine or a generator, are the same."""
    handler = list_handler("tools/list", new_paginator(), source, audience="demo", page_size=3)
    async with in_memory(Server("demo", on_list_tools=handler), era) as client:
        pages = await walk(client)
    assert [item for page in pages for item in page["tools"]] == _dicts()


@pytest.mark.anyio
@each_era
@pytest.mark.parametrize("item", [None, "t", 5, ["name"], {"title": "no name"}])
async def test_an_item_of_another_type_is_an_internal_error(era: str, item: Any) -> None:
    """Whatever is no tool fails the list, and nothing of it is served."""
    handler = list_handler("tools/list", new_paginator(), always([item]), audience="demo")
    async with in_memory(Server("demo", on_list_tools=handler), era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR


@pytest.mark.anyio
async def test_an_endless_source_is_stopped_and_closed() -> None:
    """A generator beyond `max_items` is an internal error, and is not left half-way."""
    closed: list[bool] = []

    async def endless(ctx: Any) -> AsyncIterator[Tool]:
        number = 0
        try:
            while True:
                yield tool(f"t{number}")
                number += 1
        finally:
            closed.append(True)

    handler = list_handler("tools/list", new_paginator(), endless, audience="demo")
    async with in_memory(Server("demo", on_list_tools=handler), MODERN) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR
        assert closed == [True]


@pytest.mark.anyio
@each_era
@pytest.mark.parametrize("method", LISTS)
async def test_every_list_has_a_handler(era: str, method: str) -> None:
    """`list_handler` serves each of the SDK's four lists, from what an MCPServer has."""
    plain = full_server([])
    listed = {
        "tools/list": plain.list_tools,
        "resources/list": plain.list_resources,
        "resources/templates/list": plain.list_resource_templates,
        "prompts/list": plain.list_prompts,
    }

    async def source(ctx: Any) -> Any:
        return await listed[method]()

    handler = list_handler(method, new_paginator(), source, audience="demo", page_size=3)
    server = Server("demo")
    server.add_request_handler(method, PaginatedRequestParams, handler)
    async with in_memory(server, era) as client:
        pages = await walk(client, method)
    async with in_memory(plain, era) as client:
        expected = await ask(client, method)
    member = LISTS[method]
    assert [len(page[member]) for page in pages] == [3, 3, 1]
    assert [item for page in pages for item in page[member]] == expected[member]


@pytest.mark.anyio
async def test_an_unchanged_source_version_spares_the_source() -> None:
    """While the version is the same, first pages of one list cost one call of the source."""
    host = Host("list_handler", source_version="1")
    async with in_memory(host.server, MODERN) as client:
        assert await walk(client) == await walk(client)
    assert host.calls == 1


@pytest.mark.anyio
async def test_a_handler_takes_the_cursor_of_its_params() -> None:
    """Called by code of the host's own, a handler reads the typed params, and None is no cursor."""
    contexts: list[Any] = []

    async def keep(ctx: Any, call_next: Any) -> Any:
        contexts.append(ctx)
        return await call_next(ctx)

    host = Host("list_handler")
    host.server.middleware.append(keep)
    async with in_memory(host.server, MODERN) as client:
        first = await ask(client, "tools/list")
    entry = host.server.get_request_handler("tools/list")
    ctx = contexts[-1]
    page = await entry.handler(ctx, PaginatedRequestParams(cursor=first["nextCursor"]))
    assert names([page]) == ["t03", "t04", "t05"]
    assert names([await entry.handler(ctx, None)]) == ["t00", "t01", "t02"]


@pytest.mark.anyio
async def test_a_tool_call_does_not_walk_the_list_where_schemas_are_given() -> None:
    """With `get_tool_input_schema` a call over HTTP asks for no page; without it, for many."""

    async def call(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=params.name)])

    tools = [tool(f"t{number}") for number in range(12)]
    handler = list_handler(
        "tools/list", new_paginator(), always(tools), audience="demo", page_size=3
    )
    counts: list[int] = []
    for lookup in (None, always({"type": "object"})):
        methods: list[str] = []

        async def watch(ctx: Any, call_next: Any, seen: list[str] = methods) -> Any:
            seen.append(ctx.method)
            return await call_next(ctx)

        server = Server(
            "demo", on_list_tools=handler, on_call_tool=call, get_tool_input_schema=lookup
        )
        server.middleware.append(watch)
        async with connected(server, MODERN, "http") as client:
            await ask(client, "tools/call", {"name": "t11", "arguments": {"a": 1}})
        counts.append(methods.count("tools/list"))
    assert counts == [4, 0]


def test_the_middleware_fits_the_sdks_types() -> None:
    """An `MCPServer` takes the middleware in its constructor and in its list."""
    pagination = CursorPagination(new_paginator(), audience="demo")
    server = MCPServer("demo", middleware=[pagination])
    assert pagination in server.middleware
