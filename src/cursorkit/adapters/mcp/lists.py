"""The lists of MCP that can be paged: one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel

from cursorkit.errors import ConfigurationError
from cursorkit.positions import MAX_PAGE_SIZE

__all__ = ["LISTS", "ListSpec", "WireItem", "spec_of", "wire_form"]

WireItem: TypeAlias = dict[str, Any]
"""An item as it goes on the wire."""


@dataclass(frozen=True, slots=True)
class ListSpec:
    """A list method.

    Attributes:
        method: The JSON-RPC method, for example ``"tools/list"``.
        result_key: The member of the result that holds the items.
        item_key: The member of an item, a text, that no two items share.
        max_page_size: The most items a page that the method's specification allows.
        cacheable: Whether its results carry `ttlMs` and `cacheScope` (from 2026-07-28 on).
    """

    method: str
    result_key: str
    item_key: str
    max_page_size: int = MAX_PAGE_SIZE
    cacheable: bool = True

    def key(self, item: WireItem) -> str:
        """Return what no other item of the list may share."""
        key: str = item[self.item_key]
        return key

    def items_of(self, result: Mapping[str, Any]) -> list[WireItem] | None:
        """Return the items of a result, None if it is not the complete list that it should be."""
        found = result.get(self.result_key)
        whole = result.get("resultType", "complete") == "complete"
        if not whole or not isinstance(found, list | tuple):
            return None
        items: list[WireItem] = []
        for member in cast("Sequence[object]", found):
            item = wire_form(member)
            if item is None or type(item.get(self.item_key)) is not str:
                return None
            items.append(item)
        return items


LISTS: Final[Mapping[str, ListSpec]] = {
    spec.method: spec
    for spec in (
        ListSpec("tools/list", "tools", "name"),
        ListSpec("resources/list", "resources", "uri"),
        ListSpec("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ListSpec("prompts/list", "prompts", "name"),
        ListSpec("skills/list", "skills", "uri", max_page_size=32),
        ListSpec("resources/directory/read", "resources", "uri", cacheable=False),
    )
}


def wire_form(value: object) -> dict[str, Any] | None:
    """Return a mapping as a dict, a model as the SDK writes it; None for others."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def spec_of(method: object) -> ListSpec:
    """Return the row of a method.

    Raises:
        ConfigurationError: If there is none.
    """
    spec = LISTS.get(method) if isinstance(method, str) else None
    if spec is None:
        raise ConfigurationError(f"{method!r} is no list of MCP; give one of {', '.join(LISTS)}")
    return spec
