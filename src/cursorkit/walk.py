"""The client's side: walk every page of a list, and have all of it or an error.

A page is anything with `items` and `next_cursor`, so that this works over `SnapshotPaginator.page`,
a REST client, or an MCP client; for the latter, `cursorkit.adapters.mcp.client` has ready helpers.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import anyio

from cursorkit.checks import MAX_TTL, check_int, check_seconds
from cursorkit.errors import CursorError, WalkError
from cursorkit.items import JsonItems
from cursorkit.positions import MAX_INTEGER

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_RESTARTS",
    "Budget",
    "Fetch",
    "PageLike",
    "all_items",
    "json_size",
    "pages",
]

T_co = TypeVar("T_co", covariant=True)


class PageLike(Protocol[T_co]):
    """A page of a list: `cursorkit.Page`, or anything of its shape."""

    @property
    def items(self) -> Sequence[T_co]:
        """The page's items; may be empty although a next page exists."""
        ...

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last. "" is a cursor."""
        ...


T = TypeVar("T")
P = TypeVar("P", bound=PageLike[Any])

Fetch: TypeAlias = Callable[[str | None], Awaitable[P]]
"""Returns the page of a cursor, the first for None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a walk may cost. A walk that costs more raises `WalkError`; it is never cut short.

    Attributes:
        max_pages: Pages a walk, at least 1. Ends a walk whose cursors never end.
        max_items: Items a walk, at least 1.
        max_bytes: Bytes of all items, as `size` counts them; None counts none.
        max_seconds: From the call to the last page, restarts and the time that the caller takes
            between pages included; None sets no limit.

    Raises:
        ConfigurationError: If a number is out of range.
    """

    max_pages: int = 1_000
    max_items: int = 1_000_000
    max_bytes: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_int("max_pages", self.max_pages, 1, MAX_INTEGER)
        check_int("max_items", self.max_items, 1, MAX_INTEGER)
        if self.max_bytes is not None:
            check_int("max_bytes", self.max_bytes, 1, MAX_INTEGER)
        if self.max_seconds is not None:
            check_seconds("max_seconds", self.max_seconds, MAX_TTL)


DEFAULT_BUDGET: Final = Budget()
DEFAULT_RESTARTS: Final = 2

_JSON: Final = JsonItems()


def json_size(item: object) -> int:
    """Return the bytes of an item as compact JSON.

    Raises:
        SourceError: If the item is not JSON; give the walk a `size` of your own.
    """
    return len(_JSON.encode(item))


def pages(
    fetch: Fetch[P],
    *,
    budget: Budget = DEFAULT_BUDGET,
    size: Callable[[Any], int] = json_size,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[P]:
    """Iterate over the pages of a list, first to last. Nothing is restarted.

    A page is checked before it is given out, so a server that repeats itself delivers nothing
    twice. Only a loop that ends without an error has seen the whole list.

    Args:
        fetch: Returns the page of a cursor. What it raises passes through.
        budget: What the walk may cost.
        size: Returns the bytes of an item; asked only where `budget.max_bytes` is set.
        clock: Returns seconds that only rise.

    Raises:
        WalkError: If a cursor came twice, or the walk costs more than its budget.
    """
    return _Walk(fetch, budget, size, _Watch(budget, clock))


def _is_cursor_error(error: Exception) -> bool:
    return isinstance(error, CursorError)


async def all_items(
    fetch: Fetch[PageLike[T]],
    *,
    fetch_anew: Callable[[], Awaitable[PageLike[T]]] | None = None,
    is_invalid_cursor: Callable[[Exception], bool] = _is_cursor_error,
    max_restarts: int = DEFAULT_RESTARTS,
    budget: Budget = DEFAULT_BUDGET,
    size: Callable[[Any], int] = json_size,
    clock: Callable[[], float] = time.monotonic,
) -> list[T]:
    """Return the whole list, or raise.

    Where a cursor is refused, all that was fetched is dropped and the walk starts again from a new
    first page. A cursor that was refused is never sent again. A refused first page is not repeated.

    Args:
        fetch: Returns the page of a cursor. What it raises passes through, refusals excepted.
        fetch_anew: Fetches the first page of a restart, past any response cache, which would give
            the dead cursor again; None uses `fetch`.
        is_invalid_cursor: Whether an error of `fetch` says that the cursor is refused.
        max_restarts: Walks after the first, 0 to 100.
        budget: What each walk may cost; its time is for all of them together.
        size: Returns the bytes of an item; asked only where `budget.max_bytes` is set.
        clock: Returns seconds that only rise.

    Raises:
        WalkError: If a cursor came twice, the walk costs more than its budget, or cursors are
            refused still after the last restart (the last refusal is the `__cause__`).
        ConfigurationError: If `max_restarts` is out of range.
    """
    check_int("max_restarts", max_restarts, 0, 100)
    watch = _Watch(budget, clock)
    dead: set[bytes] = set()

    async def fetch_live(cursor: str | None) -> PageLike[T]:
        if cursor is None:
            return await (fetch_anew() if dead and fetch_anew is not None else fetch(None))
        if _digest(cursor) in dead:
            raise WalkError("the server hands out a cursor that it has refused", "dead")
        try:
            return await fetch(cursor)
        except Exception as error:
            if not is_invalid_cursor(error):
                raise
            dead.add(_digest(cursor))
            raise _RefusedError(error) from None

    refusal: Exception | None = None
    for _ in range(max_restarts + 1):
        try:
            walk = _Walk(fetch_live, budget, size, watch)
            return [item async for page in walk for item in page.items]
        except _RefusedError as refused:
            refusal = refused.error
    raise WalkError(
        f"a cursor was refused in each of {max_restarts + 1} walks", "restarts"
    ) from refusal


def _digest(cursor: str) -> bytes:
    """Return what is remembered of a cursor: a server may hand out long ones."""
    if type(cursor) is not str:
        raise WalkError("the server gave something else than text for a cursor", "page")
    return hashlib.sha256(cursor.encode("utf-8", "surrogatepass")).digest()


class _RefusedError(Exception):
    """A cursor was refused on a later page."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Watch:
    """The time that a walk may take, counted from now."""

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self._seconds = budget.max_seconds
        self._clock = clock
        self._end = clock() + (math.inf if budget.max_seconds is None else budget.max_seconds)

    async def fetch(self, fetch: Fetch[P], cursor: str | None) -> P:
        left = self._end - self._clock()
        if left > 0:
            with anyio.move_on_after(left):
                page = await fetch(cursor)
                if self._clock() <= self._end:
                    return page
        raise WalkError(f"the walk took longer than max_seconds={self._seconds}", "seconds")


class _Walk(Generic[P]):
    """An iterator rather than a generator: one that is left half way needs no closing."""

    def __init__(
        self, fetch: Fetch[P], budget: Budget, size: Callable[[Any], int], watch: _Watch
    ) -> None:
        self._fetch = fetch
        self._budget = budget
        self._size = size
        self._watch = watch
        self._cursor: str | None = None
        self._seen: set[bytes] = set()
        self._pages = self._items = self._bytes = 0

    def __aiter__(self) -> _Walk[P]:
        return self

    async def __anext__(self) -> P:
        if self._pages and self._cursor is None:
            raise StopAsyncIteration
        if self._pages == self._budget.max_pages:
            raise WalkError(f"the list has more than max_pages={self._pages}", "pages")
        page = await self._watch.fetch(self._fetch, self._cursor)
        # All before the page is given out: a server that ignores cursors gave the first page again.
        name = None if page.next_cursor is None else _digest(page.next_cursor)
        if name in self._seen:
            raise WalkError("the server gave a cursor twice, so the walk would not end", "repeated")
        self._count(page)
        self._pages += 1
        self._cursor = page.next_cursor
        if name is not None:
            self._seen.add(name)
        return page

    def _count(self, page: PageLike[Any]) -> None:
        limit = self._budget
        self._items += len(page.items)
        if self._items > limit.max_items:
            raise WalkError(f"the list has more than max_items={limit.max_items}", "items")
        if limit.max_bytes is not None:
            self._bytes += sum(map(self._size, page.items))
            if self._bytes > limit.max_bytes:
                raise WalkError(f"the items take more than max_bytes={limit.max_bytes}", "bytes")
