"""Catalogs on a low-level server: lists in pages, what they name, and word of their changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, cast

from mcp.server import CacheHint, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import authenticated_principal
from mcp.server.subscriptions import SubscriptionBus
from mcp.types import (
    CallToolRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)
from pydantic import BaseModel

from cursorkit.adapters.mcp.binder import (
    AuthEpoch,
    Bind,
    Context,
    Principal,
    refused,
    scopes_epoch,
)
from cursorkit.adapters.mcp.boundary import boundary
from cursorkit.adapters.mcp.changes import announce_changes
from cursorkit.adapters.mcp.choice import AnyCatalog, chosen_catalogs
from cursorkit.adapters.mcp.handlers import list_handler
from cursorkit.adapters.mcp.pager import DEFAULT_MAX_PAGES, DEFAULT_PAGE_SIZE, Visible
from cursorkit.adapters.mcp.reads import call_handler, get_handler, read_handler
from cursorkit.adapters.mcp.skills import SkillsExtension
from cursorkit.catalogs import Catalog, ResourceCatalog, Resources, ToolCatalog
from cursorkit.errors import ConfigurationError
from cursorkit.paginators.snapshot import SnapshotPaginator, SourceVersion, settled

__all__ = ["serve"]

_log: Final = logging.getLogger("cursorkit")

_RESOURCES: Final = ("resources/list", "resources/templates/list")
"""Whose catalogs are asked for a resource, in this order."""

_Handlers: TypeAlias = dict[str, tuple[type[BaseModel], Callable[[Context, Any], Awaitable[Any]]]]
"""The params and the handler of each method."""


def serve(
    server: Server[Any],
    catalogs: Iterable[AnyCatalog],
    paginator: SnapshotPaginator,
    *,
    audience: str,
    principal: Principal | None = authenticated_principal,
    auth_epoch: AuthEpoch | None = scopes_epoch,
    bind: Bind | None = None,
    visible: Visible | None = None,
    page_size: int = DEFAULT_PAGE_SIZE,
    max_pages: int | None = DEFAULT_MAX_PAGES,
    max_page_bytes: int | None = None,
    subscriptions: SubscriptionBus | None = None,
) -> None:
    """Serve catalogs from a low-level server, before it runs.

    ::

        tools = ToolCatalog()
        server = Server("catalog")
        serve(server, [tools], paginator, audience="catalog")

    Each catalog gets the handlers of its list and of what the list names, which turns the server's
    capability on; a server with templates lists its resources, too, be it none. Skills are served
    as by `SkillsExtension`, which has settings of its own.

    Handlers of entries get the request's context, and return what the SDK's handlers return, or a
    text (for resources also bytes). A tool that raises is answered with a result that says no more
    than that it failed; what is not found with -32602 (a resource with -32002 before 2026-07-28,
    its URI in `data`); an `MCPError` passes; everything else is an internal error.

    Clients are told of changes, those of a tenth of a second at once: on streams that listen, and
    on connections of 2025 revisions that outlive a request (so not where HTTP is stateless, or
    answers in JSON). Where they cannot be told, nothing is advertised.

    What is your own stays: a handler that the server has already, and of two catalogs for one list
    the one that is none of cursorkit's. A warning in the log says what is not used for it.

    A list is no permission: handlers authorize calls and reads by their context, as ever.

    Args:
        server: Not yet running.
        catalogs: One for each list; a `CompositeResources` stands for its two.
        paginator: Cuts the pages. Its own `page_size` is not used.
        audience: As for `CursorPagination`, like all that is not listed here.
        principal: Whom cursors belong to.
        auth_epoch: What cursors die with.
        bind: Adds to the binding.
        visible: Asked on every page of every list.
        page_size: Items a page of the lists whose catalog has no page size of its own.
        max_pages: The longest walk.
        max_page_bytes: The most bytes of items a page.
        subscriptions: Carries the word of changes, for example to other nodes; a server with a
            handler for ``subscriptions/listen`` needs the bus of that handler here. By default a
            bus within this process.

    Raises:
        ConfigurationError: If a catalog is none, or two of one kind serve one list; if the bus of
            the server's own ``subscriptions/listen`` is missing; or if an argument is out of range.
    """
    if not isinstance(server, Server):
        raise ConfigurationError(
            f"server is a {type(server).__name__}; give a low-level mcp.server.Server, or put"
            " CursorPagination into the middleware of one that has lists of its own"
        )
    chosen = chosen_catalogs(catalogs)
    readers = [chosen[method] for method in _RESOURCES if method in chosen]
    if readers and server.get_request_handler("resources/list") is None:
        # The capability hangs on this one.
        chosen.setdefault("resources/list", ResourceCatalog())
    shared: dict[str, Any] = {
        "audience": audience,
        "principal": principal,
        "auth_epoch": auth_epoch,
        "bind": bind,
        "visible": visible,
        "max_page_bytes": max_page_bytes,
    }
    skills = _skills_of(server, chosen, paginator, page_size, shared)
    handlers: _Handlers = {}
    for method, catalog in chosen.items():
        handler = list_handler(
            method,
            paginator,
            catalog.entries,
            page_size=page_size if catalog.page_size is None else catalog.page_size,
            max_pages=max_pages,
            cache_hint=_hint(server, catalog),
            source_version=_version_of(catalog),
            **shared,
        )
        handlers[method] = (PaginatedRequestParams, handler)
    listed = {method for method in handlers if server.get_request_handler(method) is None}
    announce_changes(server, [chosen[method] for method in listed], subscriptions)
    _install(server, handlers | _read_handlers(chosen, readers))
    if skills is not None:
        skills.install(server)
    server.middleware.append(_TextCursors(listed))
    tools = chosen.get("tools/list")
    if isinstance(tools, ToolCatalog) and server.get_tool_input_schema is None:
        server.get_tool_input_schema = partial(_input_schema, tools)


def _skills_of(
    server: Server[Any],
    chosen: dict[str, Any],
    paginator: SnapshotPaginator,
    page_size: int,
    shared: Mapping[str, Any],
) -> SkillsExtension | None:
    """Take the skills from the catalogs: they are an extension, with methods of its own."""
    catalog = chosen.pop("skills/list", None)
    if catalog is None:
        return None
    if server.get_request_handler("skills/list") is not None:
        _warn_of_own_handler("skills/list")
        return None
    return SkillsExtension(
        catalog, paginator, page_size=page_size, directory_page_size=page_size, **shared
    )


def _hint(server: Server[Any], catalog: Catalog) -> CacheHint | None:
    hint = catalog.cache_hint
    if hint is None:
        return server.cache_hints.get(catalog.method)
    return CacheHint(ttl_ms=hint.ttl_ms, scope=hint.scope)


def _version_of(catalog: Catalog) -> SourceVersion | None:
    if catalog.version is None:
        return None

    async def version() -> str:
        now: Any = catalog.version
        return cast("str", await settled(cast("Any", now()) if callable(now) else now))

    return version


def _read_handlers(chosen: Mapping[str, Any], readers: Sequence[Resources]) -> _Handlers:
    handlers: _Handlers = {}
    if "tools/list" in chosen:
        handlers["tools/call"] = (CallToolRequestParams, call_handler(chosen["tools/list"]))
    if "prompts/list" in chosen:
        handlers["prompts/get"] = (GetPromptRequestParams, get_handler(chosen["prompts/list"]))
    if readers:
        handlers["resources/read"] = (ReadResourceRequestParams, read_handler(readers))
    return handlers


def _install(server: Server[Any], handlers: _Handlers) -> None:
    for method, (params_type, handler) in handlers.items():
        if server.get_request_handler(method) is None:
            server.add_request_handler(method, params_type, handler)
        else:
            _warn_of_own_handler(method)


def _warn_of_own_handler(method: str) -> None:
    _log.warning(
        "the server has a handler for %s of its own, which stays; the catalog that was given for it"
        " is not used there",
        method,
    )


def _input_schema(tools: ToolCatalog, name: str) -> Mapping[str, Any] | None:
    """Return a tool's input schema; without this the SDK walks the list on each call over HTTP."""
    return (tools.find(name) or {}).get("inputSchema")


class _TextCursors:
    """Middleware that refuses a cursor that is no text as every other that is invalid.

    The SDK would refuse it with another message, before it comes to a handler.
    """

    def __init__(self, methods: Collection[str]) -> None:
        self._methods = methods

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        cursor = (ctx.params or {}).get("cursor") if ctx.method in self._methods else None
        if cursor is None or type(cursor) is str:
            return await call_next(ctx)
        with boundary(ctx.method):
            raise refused("type", cursor, ctx.method)
