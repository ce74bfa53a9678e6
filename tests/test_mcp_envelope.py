"""What is around and inside the items: cache hints, `_meta`, and every byte of a descriptor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.server import CacheHint, Server
from mcp.types import ListToolsResult, PaginatedRequestParams

from cursorkit import Binding, MemoryStore
from cursorkit.adapters.mcp import CursorPagination, list_handler
from tests.mcp_kit import (
    CACHE_FIELDS,
    ERAS,
    HOSTS,
    INTERNAL_ERROR,
    INVALID_CURSOR,
    LEGACY,
    LISTS,
    MODERN,
    FakeClock,
    Host,
    always,
    ask,
    full_server,
    in_memory,
    new_paginator,
    post,
    refused,
    served,
    tool,
    walk,
    whole_list,
)

pytestmark = pytest.mark.anyio

each_era = pytest.mark.parametrize("era", ERAS)
each_host = pytest.mark.parametrize("kind", HOSTS)

PUBLIC = CacheHint(ttl_ms=3_600_000, scope="public")
NOBODY: dict[str, Any] = {"principal": None, "auth_epoch": None}

SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "demo", "version": "1.0"}}


def german(ctx: Any, binding: Binding) -> Binding:
    """Bind to a locale."""
    return binding.replace(locale="de")


def tenant(ctx: Any, binding: Binding) -> Binding:
    """Bind to a partition."""
    return binding.replace(partition="a")


def all_visible(ctx: Any, items: Any) -> list[bool]:
    """Hide nothing."""
    return [True] * len(items)


def hints(pages: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return scope and time to live of each page."""
    return [(page["cacheScope"], page["ttlMs"]) for page in pages]


@each_host
async def test_a_list_for_everybody_stays_public_on_every_page(kind: str) -> None:
    """With nothing bound to anybody the host's scope holds; later pages are not to be kept."""
    paginator = new_paginator(FakeClock(1_000_000))
    host = Host(kind, 7, paginator=paginator, cache_hint=PUBLIC, **NOBODY)
    async with in_memory(host.server, MODERN) as client:
        pages = await walk(client)
    # Half of the 620 seconds until the cursors end.
    assert hints(pages) == [("public", 310_000), ("public", 0), ("public", 0)]


@each_host
async def test_a_shorter_time_to_live_is_the_hosts_own(kind: str) -> None:
    """A host's `ttlMs` is shortened, never made longer."""
    hint = CacheHint(ttl_ms=1000, scope="private")
    async with in_memory(Host(kind, 7, cache_hint=hint).server, MODERN) as client:
        pages = await walk(client)
    assert hints(pages) == [("private", 1000), ("private", 0), ("private", 0)]


@each_host
async def test_a_single_page_has_no_cursor_to_outlive(kind: str) -> None:
    """Without a cursor the host's time to live is not shortened."""
    async with in_memory(Host(kind, 3, cache_hint=PUBLIC, **NOBODY).server, MODERN) as client:
        pages = await walk(client)
    assert hints(pages) == [("public", 3_600_000)]


@each_host
@pytest.mark.parametrize("count", [0, 3, 7])
@pytest.mark.parametrize(
    "own",
    [
        {"principal": always(None)},
        {"principal": always("alice")},
        {"auth_epoch": always(None)},
        {"visible": all_visible},
        {"bind": tenant},
        {"bind": german},
    ],
)
async def test_a_list_of_somebodys_own_is_private_on_every_page(
    kind: str, count: int, own: dict[str, Any]
) -> None:
    """Whatever binds cursors, or may bind them, keeps pages out of shared caches."""
    host = Host(kind, count, cache_hint=PUBLIC, **{**NOBODY, **own})
    async with in_memory(host.server, MODERN) as client:
        pages = await walk(client)
    assert {scope for scope, _ in hints(pages)} == {"private"}


@each_host
@pytest.mark.parametrize("count", [3, 7])
async def test_a_localized_list_is_not_kept(kind: str, count: int) -> None:
    """A client's cache knows no language, so what depends on one is stale at once."""
    host = Host(kind, count, cache_hint=PUBLIC, bind=german, **NOBODY)
    async with in_memory(host.server, MODERN) as client:
        pages = await walk(client)
    assert set(hints(pages)) == {("private", 0)}


@each_host
async def test_the_scope_travels_with_the_snapshot(kind: str) -> None:
    """A node whose own list was never asked gives later pages the scope of the first."""
    store = MemoryStore()
    first = Host(kind, paginator=new_paginator(store=store), cache_hint=PUBLIC, **NOBODY)
    second = Host(kind, 0, paginator=new_paginator(store=store), cache_hint=PUBLIC, **NOBODY)
    async with in_memory(first.server, MODERN) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    async with in_memory(second.server, MODERN) as client:
        rest = await walk(client, params={"cursor": cursor})
    assert set(hints(rest)) == {("public", 0)}
    assert second.calls == 0


@each_host
async def test_a_healed_page_has_the_scope_of_the_first(kind: str) -> None:
    """A node that lists again to serve a later page gives it the same scope."""
    first = Host(kind, cache_hint=PUBLIC, **NOBODY)
    second = Host(kind, cache_hint=PUBLIC, **NOBODY)
    async with in_memory(first.server, MODERN) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    async with in_memory(second.server, MODERN) as client:
        page = await ask(client, "tools/list", {"cursor": cursor})
    assert hints([page]) == [("public", 0)]
    assert second.calls == 1


@each_host
async def test_a_scope_never_changes_within_a_walk(kind: str) -> None:
    """A node whose scope is another one by now cannot go on with the walk of a lost snapshot."""
    first = Host(kind, cache_hint=PUBLIC, **NOBODY)
    second = Host(kind, **NOBODY)
    async with in_memory(first.server, MODERN) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    async with in_memory(second.server, MODERN) as client:
        assert await refused(client, "tools/list", {"cursor": cursor}) == INVALID_CURSOR


@each_host
async def test_every_page_has_the_members_of_a_first_one(kind: str) -> None:
    """On 2026-07-28 all pages name the server, and have the same members but the cursor."""
    async with in_memory(Host(kind).server, MODERN) as client:
        pages = await walk(client)
    members = {"tools", "_meta", *CACHE_FIELDS}
    assert [set(page) - {"nextCursor"} for page in pages] == [members] * 4
    assert {page["resultType"] for page in pages} == {"complete"}
    assert [page["_meta"] for page in pages] == [SERVER_INFO] * 4


@each_host
async def test_on_2025_revisions_a_page_is_its_items_and_its_cursor(kind: str) -> None:
    """No cache field, no `resultType` and no `_meta` appears, whatever the host says of caching."""
    app = Host(kind, 4, cache_hint=PUBLIC).server.streamable_http_app(
        stateless_http=True, json_response=True
    )
    async with served(app) as url:
        first = await post(url, "tools/list", {}, LEGACY)
        cursor = first["result"]["nextCursor"]
        last = await post(url, "tools/list", {"cursor": cursor}, LEGACY)
    assert set(first["result"]) == {"tools", "nextCursor"}
    assert set(last["result"]) == {"tools"}


@pytest.mark.parametrize("kind", ["MCPServer", "middleware"])
async def test_a_node_that_only_goes_on_names_the_server_too(kind: str) -> None:
    """A node that has served no first page asks its server once what it is."""
    seen: list[str] = []

    async def watch(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    store = MemoryStore()
    first = Host(kind, paginator=new_paginator(store=store))
    second = Host(kind, paginator=new_paginator(store=store))
    second.server.middleware.append(watch)
    async with in_memory(first.server, MODERN) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    async with in_memory(second.server, MODERN) as client:
        rest = await walk(client, params={"cursor": cursor})
    assert [page["_meta"] for page in rest] == [SERVER_INFO] * 3
    assert seen == ["server/discover"]


async def test_a_server_that_cannot_say_what_it_is_serves_its_pages() -> None:
    """Without an answer to `server/discover` a later page has no `_meta`."""
    store = MemoryStore()
    first = Host("middleware", paginator=new_paginator(store=store))
    second = Host("middleware", paginator=new_paginator(store=store))
    del second.server._request_handlers["server/discover"]
    async with in_memory(first.server, MODERN) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    async with in_memory(second.server, MODERN) as client:
        page = await ask(client, "tools/list", {"cursor": cursor})
    assert len(page["tools"]) == 3
    assert "_meta" not in page


ODD_TOOLS = [
    tool(
        "numbers",
        input_schema={
            "type": "object",
            "properties": {
                "big": {"type": "integer", "maximum": 2**64, "minimum": -(2**200)},
                "float": {"type": "number", "enum": [1.0, 1, -0.0, 1e22, 0.1, 5e-324, 1e308]},
                "null": {"default": None, "enum": [None, True, False]},
            },
        },
    ),
    tool("unicode", description="\u65e5\u672c \U0001f600 \x7f \u2028 \u0000 <script> \\ \"'"),
    tool("large", description="\u00e9" * 100_000),
    tool("empty", description="", title="", input_schema={"type": "object", "properties": {}}),
    tool(
        "deep",
        input_schema={"type": "object", "allOf": [[[[{"": {"a b": [1, [2, [3]]]}}]]]]},
        output_schema={"type": "object", "required": []},
        _meta={"example.com/x": {"y": [2**64, 1.0]}},
    ),
]


async def raw_tools(server: Any, era: str) -> str:
    """Return the tools of all pages, as JSON text, of a server asked over HTTP."""
    tools: list[Any] = []
    params: dict[str, Any] = {}
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        for _ in range(10):
            result = (await post(url, "tools/list", params, era))["result"]
            tools += result["tools"]
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}
    return json.dumps(tools)


@each_era
@each_host
async def test_descriptors_are_served_as_without_cursorkit(era: str, kind: str) -> None:
    """Large ints, floats, unicode and long texts reach the wire exactly as from a plain server."""
    expected = await raw_tools(Server("plain", on_list_tools=whole_list(ODD_TOOLS)), era)
    paged = Host(kind, source=lambda: ODD_TOOLS, page_size=2)
    assert await raw_tools(paged.server, era) == expected
    assert paged.calls == 1


@each_era
@pytest.mark.parametrize("method", LISTS)
async def test_an_unpaged_list_is_the_same_with_cursorkit(era: str, method: str) -> None:
    """The items of a walk are those that the server gives without the middleware."""
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    async with in_memory(full_server([]), era) as client:
        plain = await ask(client, method)
    async with in_memory(full_server([pagination]), era) as client:
        pages = await walk(client, method)
    member = LISTS[method]
    assert [item for page in pages for item in page[member]] == plain[member]


# Methods that the SDK does not know, as extensions bring them.


def extended(method: str, answer: Any, *, paged: bool = True, **settings: Any) -> Server[Any]:
    """Return a server with a list method of its own, and the middleware."""

    async def handler(ctx: Any, params: Any) -> Any:
        return answer(ctx) if callable(answer) else answer

    server = Server("demo", version="1.0")
    server.add_request_handler(method, PaginatedRequestParams, handler)
    if paged:
        pagination = CursorPagination(new_paginator(), audience="demo", max_pages=None, **settings)
        server.middleware.append(pagination)
    return server


def skills(count: int) -> list[dict[str, Any]]:
    """Return entries of `skills/list`."""
    return [
        {"uri": f"skill://s{number}/SKILL.md", "frontmatter": {"name": "s"}, "resources": []}
        for number in range(count)
    ]


@each_era
async def test_skills_come_in_pages_of_32(era: str) -> None:
    """A list that the SDK does not know is paged alike, 32 entries at most, by its own rules."""
    answer = {"skills": skills(70), "ttlMs": 50, "cacheScope": "public", "resultType": "complete"}
    async with in_memory(extended("skills/list", answer), era) as client:
        pages = await walk(client, "skills/list")
    assert [len(page["skills"]) for page in pages] == [32, 32, 6]
    assert [skill for page in pages for skill in page["skills"]] == skills(70)
    present = [{name for name in CACHE_FIELDS if name in page} for page in pages]
    assert present == [set(CACHE_FIELDS) if era == MODERN else set()] * 3


async def test_skills_without_cache_fields_get_the_ones_they_need() -> None:
    """On 2026-07-28 `ttlMs` and `cacheScope` are required, so a page has them."""
    async with in_memory(extended("skills/list", {"skills": skills(3)}), MODERN) as client:
        pages = await walk(client, "skills/list")
    assert hints(pages) == [("private", 0)]


@each_era
async def test_a_directory_is_paged_and_bound_to_its_uri(era: str) -> None:
    """The cursor of one directory is refused for another, and no cache field appears."""

    def answer(ctx: Any) -> dict[str, Any]:
        base = ctx.params["uri"]
        entries = [{"uri": f"{base}/{number}", "name": str(number)} for number in range(300)]
        return {"resources": entries}

    method = "resources/directory/read"
    async with in_memory(extended(method, answer), era) as client:
        pages = await walk(client, method, {"uri": "skill://a"})
        cursor = pages[0]["nextCursor"]
        error = await refused(client, method, {"uri": "skill://b", "cursor": cursor})
    assert [len(page["resources"]) for page in pages] == [250, 50]
    assert error == INVALID_CURSOR
    assert all("ttlMs" not in page and "cacheScope" not in page for page in pages)


@each_era
@pytest.mark.parametrize(
    "answer",
    [
        {"other": 1},
        {"skills": "text"},
        {"skills": None},
        {"skills": [1, 2]},
        {"skills": [{"uri": "a"}, {"name": "no uri"}]},
        {"skills": [{"uri": 5}]},
        {"skills": [{"uri": "a"}], "resultType": "input_required"},
        {"other": 1, "nextCursor": "x"},
    ],
)
async def test_a_shape_that_is_not_known_is_left_alone(era: str, answer: dict[str, Any]) -> None:
    """What is no complete list of entries is answered as it would be without the middleware."""
    async with in_memory(extended("skills/list", answer, paged=False), era) as client:
        plain = await ask(client, "skills/list")
    async with in_memory(extended("skills/list", answer), era) as client:
        assert await ask(client, "skills/list") == plain


@each_era
async def test_a_list_that_lost_its_shape_cannot_heal(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """To a later page an answer of unknown shape is an internal error, never an empty page."""
    async with in_memory(extended("skills/list", {"skills": skills(40)}), era) as client:
        cursor = (await ask(client, "skills/list"))["nextCursor"]
    async with in_memory(extended("skills/list", {"other": 1}), era) as client:
        assert await refused(client, "skills/list", {"cursor": cursor}) == INTERNAL_ERROR
    assert "the handler of skills/list no longer answers with a list" in caplog.text


@each_era
async def test_a_null_cursor_of_the_handler_below_is_none(era: str) -> None:
    """`nextCursor: null` from a handler is no page, and never reaches the wire."""
    answer = {"skills": skills(2), "nextCursor": None}
    async with served(
        extended("skills/list", answer).streamable_http_app(stateless_http=True, json_response=True)
    ) as url:
        result = (await post(url, "skills/list", {}, era))["result"]
    assert result["skills"] == skills(2)
    assert "nextCursor" not in result


@each_era
async def test_a_handlers_own_meta_stays_on_its_page(era: str) -> None:
    """`_meta` is no part of the snapshot: later pages name the server only."""
    meta = {"example.com/x": 1}
    answer = {"skills": skills(40), "_meta": meta}
    async with in_memory(extended("skills/list", answer), era) as client:
        pages = await walk(client, "skills/list")
    stamp = SERVER_INFO if era == MODERN else {}
    assert pages[0]["_meta"] == meta | stamp
    assert pages[1].get("_meta", {}) == stamp


@each_era
@pytest.mark.parametrize("taken", [False, True])
async def test_a_handlers_own_ttl_and_meta_are_on_its_page(era: str, taken: bool) -> None:
    """What the handler below says for itself wins over the host's hint, clamped as that is."""
    hint = CacheHint(ttl_ms=60_000, scope="private")

    async def handler(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[tool(f"t{number}") for number in range(4)],
            ttl_ms=5000,
            _meta={"example.com/x": 1},
        )

    server = Server("demo", version="1.0", cache_hints={"tools/list": hint}, on_list_tools=handler)
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    server.middleware.append(pagination)
    if taken:
        pagination.take_from(server)
    async with in_memory(server, era) as client:
        first, second = await walk(client)
    assert first["_meta"] == {"example.com/x": 1} | (SERVER_INFO if era == MODERN else {})
    assert second.get("_meta", {}) == (SERVER_INFO if era == MODERN else {})
    assert first.get("ttlMs") == (5000 if era == MODERN else None)


@each_era
async def test_a_handler_around_list_handler_adds_to_every_page(era: str) -> None:
    """Pages are dicts, to which `_meta` and a shorter ttl can be added; the SDK shapes the rest."""
    host = Host("list_handler", 4, cache_hint=CacheHint(ttl_ms=60_000, scope="private"))
    paged = host.server.get_request_handler("tools/list").handler

    async def list_tools(ctx: Any, params: Any) -> Any:
        page = await paged(ctx, params)
        shorter = {"ttlMs": min(page["ttlMs"], 1000)} if "ttlMs" in page else {}
        return {**page, **shorter, "_meta": {"example.com/x": 1}}

    host.server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    async with in_memory(host.server, era) as client:
        pages = await walk(client)
    meta = {"example.com/x": 1} | (SERVER_INFO if era == MODERN else {})
    assert [page["_meta"] for page in pages] == [meta, meta]
    expected = [1000, 0] if era == MODERN else [None, None]
    assert [page.get("ttlMs") for page in pages] == expected


@each_era
async def test_list_handler_serves_a_method_of_an_extension(era: str) -> None:
    """`list_handler` makes a handler for `Server.add_request_handler` as well."""
    handler = list_handler("skills/list", new_paginator(), lambda ctx: skills(40), audience="demo")
    server = Server("demo", version="1.0")
    server.add_request_handler("skills/list", PaginatedRequestParams, handler)
    async with in_memory(server, era) as client:
        pages = await walk(client, "skills/list")
    assert [len(page["skills"]) for page in pages] == [32, 8]
    assert all(("ttlMs" in page) == (era == MODERN) for page in pages)


class Entry(dict[str, Any]):
    """A dict of somebody's own."""


def hide_secrets(ctx: Any, items: Any) -> list[bool]:
    return [not item["uri"].startswith("secret") for item in items]


@each_era
@pytest.mark.parametrize(
    "entries",
    [
        tuple({"uri": uri} for uri in ("a", "secret", "b")),
        [Entry(uri=uri) for uri in ("a", "secret", "b")],
    ],
    ids=["tuple", "dict subclass"],
)
async def test_visible_is_asked_about_lists_of_other_types(era: str, entries: Any) -> None:
    """What a middleware below makes of a list is filtered all the same."""
    server = extended("skills/list", {"skills": entries}, visible=hide_secrets)
    async with in_memory(server, era) as client:
        shown = (await ask(client, "skills/list"))["skills"]
    assert [entry["uri"] for entry in shown] == ["a", "b"]


@each_era
@pytest.mark.parametrize("entries", [[{"uri": "secret"}, {"name": "no uri"}], {"uri": "secret"}, 5])
async def test_what_visible_cannot_be_asked_about_is_not_shown(era: str, entries: Any) -> None:
    """Fail closed: a shape that is not known is an internal error where items are filtered."""
    server = extended("skills/list", {"skills": entries}, visible=hide_secrets)
    async with in_memory(server, era) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
