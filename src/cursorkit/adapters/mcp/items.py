"""Items as they went on the wire, and with them the scope of their list's cache hints.

`cacheScope` must be the same on all pages of a list, and a later page is served without the handler
that set it, maybe on another node. So it travels in the snapshot: the items of a list that may be
cached for everybody end in a space, which is JSON all the same. The root, and so the cursor's
signature, covers it.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
)
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from mcp.server import ServerRequestContext

from cursorkit.adapters.mcp.lists import WireItem, wire_form
from cursorkit.errors import SourceError
from cursorkit.items import JsonItems
from cursorkit.paginators.snapshot import settled

__all__ = ["ListSource", "ScopedItems", "Shaped", "wire_items"]

ListSource: TypeAlias = Callable[
    [ServerRequestContext[Any, Any]],
    Iterable[Any] | AsyncIterable[Any] | Awaitable[Iterable[Any] | AsyncIterable[Any]],
]
"""Lists all items for a request, in a deterministic order: the SDK's models, or mappings as they go
on the wire."""

_JSON: Final = JsonItems()
_FOR_EVERYBODY: Final = b" "


class Shaped(dict[str, Any]):
    """An item whose JSON is there already. Of its members it has only the one that names it.

    Args:
        name: That member.
        item: The item as it goes on the wire.

    Attributes:
        data: Its JSON.
    """

    __slots__ = ("data",)

    def __init__(self, name: str, item: WireItem) -> None:
        super().__init__({name: item[name]})
        self.data = _JSON.encode(item)


class ScopedItems:
    """Compact JSON for the items of one request.

    Attributes:
        public: Whether the list may be cached for everybody. Set before items are encoded; what was
            decoded says so itself.
    """

    name = "json"

    def __init__(self) -> None:
        self.public = False

    def encode(self, item: WireItem, /) -> bytes:
        """Return the item as UTF-8 JSON, with a space at the end if it is public."""
        data = item.data if isinstance(item, Shaped) else _JSON.encode(item)
        return data + _FOR_EVERYBODY if self.public else data

    def decode(self, data: bytes, /) -> WireItem:
        """Return the item."""
        self.public = data.endswith(_FOR_EVERYBODY)
        item: WireItem = _JSON.decode(data)
        return item


async def wire_items(
    source: ListSource,
    ctx: ServerRequestContext[Any, Any],
    errors: AbstractContextManager[None],
) -> AsyncIterator[WireItem]:
    """Yield the items of a source in their wire form.

    Args:
        source: Lists them.
        ctx: The request's.
        errors: Sees what the source raises.

    Raises:
        SourceError: If an item is neither a model nor a mapping.
    """
    with errors:
        found: Iterable[Any] | AsyncIterable[Any] = await settled(source(ctx))
        if isinstance(found, AsyncIterable):
            try:
                async for item in found:
                    yield _wire_item(item)
            finally:
                if isinstance(found, AsyncGenerator):
                    await found.aclose()
        else:
            for item in found:
                yield _wire_item(item)


def _wire_item(item: object) -> WireItem:
    wire = wire_form(item)
    if wire is None:
        raise SourceError(f"a source gives models or mappings, not {type(item).__name__}")
    return wire
