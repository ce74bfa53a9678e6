"""Middleware of the MCP SDK that pages the lists of the server below it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from mcp.server import CacheHint, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver import authenticated_principal
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from cursorkit.adapters.mcp.binder import AuthEpoch, Bind, Context, Principal, scopes_epoch
from cursorkit.adapters.mcp.boundary import boundary
from cursorkit.adapters.mcp.hints import hint_of
from cursorkit.adapters.mcp.items import ScopedItems
from cursorkit.adapters.mcp.lists import LISTS, ListSpec, WireItem, spec_of, wire_form
from cursorkit.adapters.mcp.pager import (
    DEFAULT_MAX_PAGES,
    DEFAULT_PAGE_SIZE,
    ListPager,
    Visible,
)
from cursorkit.adapters.mcp.shaping import Caught, catching, make_catchable
from cursorkit.adapters.mcp.stamp import discovered_stamp, stamp_in
from cursorkit.checks import check_int
from cursorkit.errors import ConfigurationError, SourceError
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.positions import MAX_PAGE_SIZE

__all__ = ["CursorPagination"]

_OWN: Final = frozenset({"nextCursor", "resultType", "ttlMs", "cacheScope"})
"""Members of a result that the page decides on, not the handler below."""

_WholeList: TypeAlias = Sequence[WireItem] | AsyncIterable[WireItem]

_Page: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
"""`ListPager.page`, but for the source of the list."""


class CursorPagination:
    """Pages the lists of an `MCPServer`, or of a low-level `Server`, and keeps each walk one list.

    ::

        MCPServer("catalog", middleware=[CursorPagination(paginator, audience="catalog")])

    Put it first, so that what other middlewares hide is hidden before pages are cut. One object
    serves one server.

    **A later page does not run the list handler below, nor the filters inside it**: that is what
    makes it cheap. A cursor dies when the scopes of its access token change (`auth_epoch`). Where
    what a principal may see depends on anything else, roles from a database for example, give
    `visible` or an `auth_epoch` of your own, or an item that was taken away stays listed until the
    walk's cursors expire. A list is no permission: authorize calls and reads as ever.

    Cache hints (revision 2026-07-28): ``cacheScope`` stays ``"public"`` only where `principal`,
    `auth_epoch`, `bind` and `visible` are all None, and is the same on all pages of a walk;
    ``ttlMs`` of a first page is at most half of what its cursor has left to live, of a later one 0.

    Args:
        paginator: Cuts the pages. Its own `page_size` is not used.
        audience: The service that mints the cursors, the same text on every node.
        principal: Says of a request whom its cursors belong to; by default the access token's
            client, issuer and subject, None without a token. None binds to nobody.
        auth_epoch: Says what a cursor dies with; by default a digest of the token's scopes.
        bind: Takes ``(ctx, binding)`` and returns a binding with a partition, a locale, or params,
            if the list depends on more than the request's own params:
            ``lambda ctx, binding: binding.replace(partition=tenant_of(ctx))``. A list with a locale
            is never kept in a client's cache.
        visible: Takes ``(ctx, items)`` and returns a bool for each item, whether it may be shown;
            items are dicts as they go on the wire; asked on every page:
            ``lambda ctx, items: [allowed(ctx, item["name"]) for item in items]``. Sync or async,
            like the three above. What raises is an internal error, never "absent" or "shown".
        page_size: Items a page, 1 to 10,000; of `skills/list` at most 32.
        page_sizes: Items a page by method; None leaves that list as it is. For example
            ``{"tools/list": 100, "prompts/list": None}``.
        max_pages: The longest walk: the pages of a longer list grow. 64 is the shortest that an
            official client reads. None does not bound it.
        max_page_bytes: The most bytes of items a page; it wins over `max_pages`.

    Raises:
        ConfigurationError: If an argument is out of range, or names an unknown list.
    """

    def __init__(
        self,
        paginator: SnapshotPaginator,
        *,
        audience: str,
        principal: Principal | None = authenticated_principal,
        auth_epoch: AuthEpoch | None = scopes_epoch,
        bind: Bind | None = None,
        visible: Visible | None = None,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_sizes: Mapping[str, int | None] | None = None,
        max_pages: int | None = DEFAULT_MAX_PAGES,
        max_page_bytes: int | None = None,
    ) -> None:
        self._pager = ListPager(
            paginator,
            audience=audience,
            principal=principal,
            auth_epoch=auth_epoch,
            bind=bind,
            visible=visible,
            max_pages=max_pages,
            max_page_bytes=max_page_bytes,
        )
        self._page_sizes = _page_sizes(page_size, page_sizes)
        self._stamp: dict[str, Any] | None = None
        self._server: Server[Any] | None = None
        self._sees_items = visible is not None

    def take_from(self, server: Server[Any]) -> None:
        """Take whole lists from this server's handlers before the SDK shapes them.

        That is several times as fast, and the pages are the same. Done only while this is the
        server's last middleware, so that none below misses the list. For adapters that have the
        server at hand; handlers that are added later are asked in the ordinary way.
        """
        make_catchable(server)
        self._server = server

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request for a page; pass on every other message untouched."""
        page_size = self._page_sizes.get(ctx.method)
        if page_size is None or ctx.request_id is None:
            return await call_next(ctx)
        spec = LISTS[ctx.method]
        below = _Below(spec, ctx, call_next, self._pager, self._catches_from())
        cursor = (ctx.params or {}).get("cursor")  # JSON's null is none
        with boundary(ctx.method) as here:
            binding = await self._pager.bind(ctx, spec, cursor)
            page = partial(self._pager.page, ctx, spec, binding, cursor, page_size=page_size)
            if cursor is not None:
                return await self._later(ctx, call_next, below, page)
            with here.passes():
                result = await below.ask()
            return await self._first(ctx, below, page, result)

    def _catches_from(self) -> Server[Any] | None:
        # `visible` is given whole items.
        server = None if self._sees_items else self._server
        return server if server is not None and server.middleware[-1] is self else None

    async def _first(
        self, ctx: Context, below: _Below, page: _Page, result: HandlerResult
    ) -> HandlerResult:
        wire = wire_form(result)
        listed = None if wire is None else below.list_in(wire)
        if wire is None or listed is None:
            return result
        members = await page(lambda: listed, below.items, hint=hint_of(wire))
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._stamp = stamp_in(wire)
        return {name: value for name, value in wire.items() if name not in _OWN} | members

    async def _later(
        self, ctx: Context, call_next: CallNext, below: _Below, page: _Page
    ) -> dict[str, Any]:
        members = await page(below.relist, below.items, hint=CacheHint())
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if self._stamp is None:
                self._stamp = await discovered_stamp(ctx, call_next)
            if self._stamp:
                members["_meta"] = dict(self._stamp)
        return members


class _Below:
    """The list handler below, for one request."""

    def __init__(
        self,
        spec: ListSpec,
        ctx: Context,
        call_next: CallNext,
        pager: ListPager,
        server: Server[Any] | None,
    ) -> None:
        self.spec = spec
        self.items = ScopedItems()
        self._ctx = ctx
        self._call_next = call_next
        self._pager = pager
        self._server = server
        self._caught: Caught | None = None

    async def ask(self) -> HandlerResult:
        """Return what the handler answers to the same request without its cursor."""
        params = self._ctx.params
        if params is not None:
            params = {name: value for name, value in params.items() if name != "cursor"}
        ctx = replace(self._ctx, params=params)
        if self._server is None:
            return await self._call_next(ctx)
        with catching(self._server) as self._caught:
            return await self._call_next(ctx)

    def list_in(self, wire: Mapping[str, Any]) -> _WholeList | None:
        """Return the whole list in an answer, None if it has a shape that is not known.

        Its scope goes to the encoding of its items.

        Raises:
            SourceError: If the answer is a page already, or `visible` cannot be asked about it.
        """
        listed = self.spec.items_of(wire)
        if listed is not None and wire.get("nextCursor") is not None:
            raise SourceError(
                f"the handler of {self.spec.method} pages already, and paged twice its list would"
                " be cut short; let it return the whole list, or turn paging off here with"
                f" page_sizes={{{self.spec.method!r}: None}}"
            )
        if listed is None and self.spec.result_key in wire and self._pager.filters:
            raise SourceError(
                f"the handler of {self.spec.method} answers in a shape whose items `visible` cannot"
                " be asked about"
            )
        self.items.public = self._pager.may_be_public(hint_of(wire))
        caught = None
        if self._caught is not None:
            caught = self._caught.shaped(self.spec, self._ctx.protocol_version)
        return listed if caught is None else caught

    async def relist(self) -> _WholeList:
        """Return the list as it is now, to heal a snapshot."""
        wire = wire_form(await self.ask())
        listed = None if wire is None else self.list_in(wire)
        if listed is None:
            raise SourceError(f"the handler of {self.spec.method} no longer answers with a list")
        return listed


def _page_sizes(page_size: int, page_sizes: Mapping[str, int | None] | None) -> dict[str, int]:
    """Return the page size of each list that is paged."""
    check_int("page_size", page_size, 1, MAX_PAGE_SIZE)
    sizes = {method: min(page_size, spec.max_page_size) for method, spec in LISTS.items()}
    if page_sizes is None:
        return sizes
    if not isinstance(page_sizes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise ConfigurationError("page_sizes is a mapping of methods to page sizes or None")
    for method, size in page_sizes.items():
        spec = spec_of(method)
        if size is None:
            del sizes[method]
        else:
            sizes[method] = check_int(f"page_sizes[{method!r}]", size, 1, spec.max_page_size)
    return sizes
