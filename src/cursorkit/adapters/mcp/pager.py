"""What the middleware and the list handlers share: from a request to the members of its page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from mcp.server import CacheHint
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from cursorkit.adapters.mcp.binder import (
    AuthEpoch,
    Bind,
    Binder,
    Context,
    Principal,
    check_callable,
)
from cursorkit.adapters.mcp.hints import ttl_ms
from cursorkit.adapters.mcp.items import ScopedItems
from cursorkit.adapters.mcp.lists import ListSpec, WireItem
from cursorkit.binding import Binding
from cursorkit.checks import check_int
from cursorkit.errors import ConfigurationError
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator, Source, SourceVersion
from cursorkit.positions import MAX_PAGE_SIZE
from cursorkit.snapshots import MAX_ITEMS

__all__ = ["DEFAULT_MAX_PAGES", "DEFAULT_PAGE_SIZE", "ListPager", "Visible"]

DEFAULT_PAGE_SIZE: Final = 250
"""Items a page. Large, because several clients read only the first page."""

DEFAULT_MAX_PAGES: Final = 64
"""The shortest walk that an official client reads."""

Visible: TypeAlias = Callable[
    [Context, Sequence[WireItem]], Sequence[bool] | Awaitable[Sequence[bool]]
]
"""Says of each item, as it goes on the wire, whether the request's principal may see it."""


class ListPager:
    """Pages any of the lists for one host. The arguments are those of `CursorPagination`."""

    def __init__(
        self,
        paginator: SnapshotPaginator,
        *,
        audience: str,
        principal: Principal | None,
        auth_epoch: AuthEpoch | None,
        bind: Bind | None,
        visible: Visible | None,
        max_pages: int | None,
        max_page_bytes: int | None,
    ) -> None:
        if not isinstance(paginator, SnapshotPaginator):
            raise ConfigurationError(
                f"paginator is a {type(paginator).__name__}; give a SnapshotPaginator"
            )
        self._paginator = paginator
        self._binder = Binder(
            audience=audience, principal=principal, auth_epoch=auth_epoch, bind=bind
        )
        self._visible = check_callable("visible", visible)
        if max_pages is not None:
            check_int("max_pages", max_pages, 1, MAX_ITEMS)
        if max_page_bytes is not None:
            check_int("max_page_bytes", max_page_bytes, 1, 2**53)
        self._max_pages = max_pages
        self._max_page_bytes = max_page_bytes

    @property
    def filters(self) -> bool:
        """Whether `visible` decides what may be shown."""
        return self._visible is not None

    def may_be_public(self, hint: CacheHint) -> bool:
        """Return whether pages with this hint may be cached for everybody.

        That is settled by what cursors are bound to, not by a single request: an anonymous
        request's page must not reach those who are known, either.
        """
        return hint.scope == "public" and self._binder.is_for_everybody and self._visible is None

    async def bind(self, ctx: Context, spec: ListSpec, cursor: object) -> Binding:
        """Return what the cursors of a request are bound to.

        Raises:
            InvalidCursorError: If the request's params have no canonical form.
        """
        return await self._binder.bind(ctx, spec.method, cursor)

    async def page(
        self,
        ctx: Context,
        spec: ListSpec,
        binding: Binding,
        cursor: Any,
        source: Source[WireItem],
        items: ScopedItems,
        *,
        page_size: int,
        hint: CacheHint,
        source_version: SourceVersion | None = None,
    ) -> dict[str, Any]:
        """Return the members of a result that depend on the page.

        Args:
            ctx: The request's.
            spec: Its list.
            binding: From `bind`.
            cursor: As the client sent it, of whatever type; None for the first page.
            source: Lists all items.
            items: Their encoding, for this request only.
            page_size: Items a page, at most what `spec` allows.
            hint: What the host says of its list, for a first page.
            source_version: As for the paginator.
        """
        visible = self._visible
        # Pages grow to keep a walk short, but not where the list has a limit of its own.
        grows = spec.max_page_size == MAX_PAGE_SIZE
        page = await self._paginator.page(
            cursor,
            source,
            binding,
            page_size=page_size,
            key=spec.key,
            visible=None if visible is None else lambda shown: visible(ctx, shown),
            max_pages=self._max_pages if grows else None,
            max_page_bytes=self._max_page_bytes,
            items=items,
            source_version=source_version,
        )
        members: dict[str, Any] = {spec.result_key: page.items}
        if page.next_cursor is not None:
            members["nextCursor"] = page.next_cursor
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            members["resultType"] = "complete"
            if spec.cacheable:
                members |= self._cache_fields(page, binding, items, cursor, hint)
        return members

    def _cache_fields(
        self,
        page: Page[WireItem],
        binding: Binding,
        items: ScopedItems,
        cursor: object,
        hint: CacheHint,
    ) -> dict[str, Any]:
        # Only first pages are kept by clients, and only for them is the host's hint known.
        wanted = hint.ttl_ms if cursor is None and binding.locale is None else 0
        return {
            "ttlMs": ttl_ms(wanted, page, self._paginator.clock),
            "cacheScope": "public" if items.public else "private",
        }
