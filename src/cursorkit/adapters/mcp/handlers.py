"""List handlers for a low-level server of the MCP SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, TypeAlias

from mcp.server import CacheHint
from mcp.server.mcpserver import authenticated_principal
from mcp.types import PaginatedRequestParams

from cursorkit.adapters.mcp.binder import AuthEpoch, Bind, Context, Principal, scopes_epoch
from cursorkit.adapters.mcp.boundary import boundary
from cursorkit.adapters.mcp.items import ListSource, ScopedItems, wire_items
from cursorkit.adapters.mcp.lists import spec_of
from cursorkit.adapters.mcp.pager import (
    DEFAULT_MAX_PAGES,
    DEFAULT_PAGE_SIZE,
    ListPager,
    Visible,
)
from cursorkit.checks import check_int
from cursorkit.errors import ConfigurationError
from cursorkit.paginators.snapshot import SnapshotPaginator, SourceVersion
from cursorkit.positions import MAX_PAGE_SIZE

__all__ = ["ListHandler", "list_handler"]

ListHandler: TypeAlias = Callable[[Context, PaginatedRequestParams | None], Awaitable[Any]]
"""What ``Server(on_list_tools=...)`` and ``Server.add_request_handler`` take. It returns
a dict, which the SDK validates and shapes for the request's revision as it does a model."""


def list_handler(
    method: str,
    paginator: SnapshotPaginator,
    source: ListSource,
    *,
    audience: str,
    principal: Principal | None = authenticated_principal,
    auth_epoch: AuthEpoch | None = scopes_epoch,
    bind: Bind | None = None,
    visible: Visible | None = None,
    page_size: int = DEFAULT_PAGE_SIZE,
    max_pages: int | None = DEFAULT_MAX_PAGES,
    max_page_bytes: int | None = None,
    cache_hint: CacheHint | None = None,
    source_version: SourceVersion | None = None,
) -> ListHandler:
    """Return a handler that pages what `source` lists.

    ::

        on_list_tools = list_handler("tools/list", paginator, source, audience="catalog")
        Server("catalog", on_list_tools=on_list_tools, get_tool_input_schema=schemas.get)

    Give the server `get_tool_input_schema`, too: without it, each ``tools/call`` over HTTP walks
    the server's own ``tools/list`` until it has found the tool.

    `source` runs for a first page, and where a snapshot is healed; a later page asks only
    `visible`. See `CursorPagination` for what follows from that. An `MCPError` that it raises on a
    first page reaches the client unchanged.

    A page is a dict, so that a handler of your own can call this one and add to its pages `_meta`,
    or, from 2026-07-28 on, a shorter ``ttlMs``::

        async def list_tools(ctx, params):
            page = await paged(ctx, params)
            return {**page, "_meta": {"example.com/region": "eu"}}

    A cursor that is no text never gets here: the SDK refuses it as "Invalid request parameters".
    For the one message everywhere, put `CursorPagination` into ``Server.middleware`` instead.

    Args:
        method: The list, for example ``"tools/list"``.
        paginator: Cuts the pages. Its own `page_size` is not used.
        source: Called with the request's context; returns all items, the SDK's models or dicts as
            they go on the wire, in a deterministic order. Sync or async, as is its iterable.
        audience: As for `CursorPagination`, like all that is not listed here.
        principal: Whom cursors belong to.
        auth_epoch: What cursors die with.
        bind: Adds to the binding.
        visible: Asked on every page.
        page_size: Items a page.
        max_pages: The longest walk.
        max_page_bytes: The most bytes of items a page.
        cache_hint: How the list may be cached, clamped as by `CursorPagination`; not at all by
            default. The server's own `cache_hints` do not apply to a list that sets its own.
        source_version: While it is unchanged, a first page of a list seen before does not call
            `source`. Not used where `visible` is given.

    Raises:
        ConfigurationError: If an argument is out of range, or `method` is an unknown list.
    """
    spec = spec_of(method)
    size = min(check_int("page_size", page_size, 1, MAX_PAGE_SIZE), spec.max_page_size)
    if not callable(source):
        raise ConfigurationError(f"source is a {type(source).__name__}; give a callable")
    hint = CacheHint() if cache_hint is None else cache_hint
    pager = ListPager(
        paginator,
        audience=audience,
        principal=principal,
        auth_epoch=auth_epoch,
        bind=bind,
        visible=visible,
        max_pages=max_pages,
        max_page_bytes=max_page_bytes,
    )

    async def handler(ctx: Context, params: PaginatedRequestParams | None) -> dict[str, Any]:
        cursor = None if params is None else params.cursor
        items = ScopedItems()
        items.public = pager.may_be_public(hint)
        with boundary(method) as here:
            binding = await pager.bind(ctx, spec, cursor)
            return await pager.page(
                ctx,
                spec,
                binding,
                cursor,
                lambda: wire_items(source, ctx, here.passes() if cursor is None else nullcontext()),
                items,
                page_size=size,
                hint=hint,
                source_version=source_version,
            )

    return handler
