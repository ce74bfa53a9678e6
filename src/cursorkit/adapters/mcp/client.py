"""The client's side of MCP: whole lists by the SDK's `Client` or FastMCP's.

Each returns the whole list or raises. Where the server refuses a cursor (-32602), the list is
walked again, from a first page that no response cache gave.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from mcp import Client, MCPError
from mcp.client.caching import CacheMode
from mcp.types import (
    INVALID_PARAMS,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from pydantic import BaseModel

from cursorkit.paginators.page import Page
from cursorkit.walk import DEFAULT_BUDGET, DEFAULT_RESTARTS, Budget, all_items

__all__ = [
    "FastMCPClient",
    "SkillsClient",
    "SkillsPage",
    "is_invalid_cursor",
    "list_all_prompts",
    "list_all_resource_templates",
    "list_all_resources",
    "list_all_skills",
    "list_all_tools",
]

T = TypeVar("T", bound=BaseModel)
T_co = TypeVar("T_co", bound=BaseModel, covariant=True)


class _Result(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


R = TypeVar("R", bound=_Result)
R_co = TypeVar("R_co", bound=_Result, covariant=True)


class _GetsPage(Protocol[R_co]):
    def __call__(
        self, *, cursor: str | None = None, cache_mode: CacheMode = "use"
    ) -> Awaitable[R_co]: ...


class FastMCPClient(Protocol):
    """What is needed of `fastmcp.Client`."""

    async def list_tools_mcp(
        self, *, cursor: str | None = None, cache_mode: CacheMode = "use"
    ) -> ListToolsResult:
        """Return a page of tools."""
        ...

    async def list_resources_mcp(
        self, *, cursor: str | None = None, cache_mode: CacheMode = "use"
    ) -> ListResourcesResult:
        """Return a page of resources."""
        ...

    async def list_resource_templates_mcp(
        self, *, cursor: str | None = None, cache_mode: CacheMode = "use"
    ) -> ListResourceTemplatesResult:
        """Return a page of resource templates."""
        ...

    async def list_prompts_mcp(
        self, *, cursor: str | None = None, cache_mode: CacheMode = "use"
    ) -> ListPromptsResult:
        """Return a page of prompts."""
        ...


class SkillsPage(_Result, Protocol[T_co]):
    """A page of skills, of whatever type the client has for them."""

    @property
    def skills(self) -> Sequence[T_co]:
        """The page's skills."""
        ...


class SkillsClient(Protocol[T_co]):
    """A client with the skills extension: `fastmcp.Client` has it since 4.2, the SDK's has not."""

    async def list_skills_mcp(
        self, *, cursor: str | None = None, cache_mode: CacheMode = "use"
    ) -> SkillsPage[T_co]:
        """Return a page of skills."""
        ...


async def list_all_tools(
    client: Client | FastMCPClient,
    *,
    budget: Budget = DEFAULT_BUDGET,
    max_restarts: int = DEFAULT_RESTARTS,
) -> list[Tool]:
    """Return every tool of a server, in its order.

    Raises:
        WalkError: If a cursor came twice, the walk costs more than its budget, or cursors are
            refused still after `max_restarts`.
        MCPError: What the server answered, refused cursors excepted.
    """
    get = client.list_tools if isinstance(client, Client) else client.list_tools_mcp
    return await _all(get, lambda result: result.tools, budget, max_restarts)


async def list_all_resources(
    client: Client | FastMCPClient,
    *,
    budget: Budget = DEFAULT_BUDGET,
    max_restarts: int = DEFAULT_RESTARTS,
) -> list[Resource]:
    """Return every resource of a server, in its order. Raises as `list_all_tools` does."""
    get = client.list_resources if isinstance(client, Client) else client.list_resources_mcp
    return await _all(get, lambda result: result.resources, budget, max_restarts)


async def list_all_resource_templates(
    client: Client | FastMCPClient,
    *,
    budget: Budget = DEFAULT_BUDGET,
    max_restarts: int = DEFAULT_RESTARTS,
) -> list[ResourceTemplate]:
    """Return every resource template of a server, in its order. Raises as `list_all_tools` does."""
    get = (
        client.list_resource_templates
        if isinstance(client, Client)
        else client.list_resource_templates_mcp
    )
    return await _all(get, lambda result: result.resource_templates, budget, max_restarts)


async def list_all_prompts(
    client: Client | FastMCPClient,
    *,
    budget: Budget = DEFAULT_BUDGET,
    max_restarts: int = DEFAULT_RESTARTS,
) -> list[Prompt]:
    """Return every prompt of a server, in its order. Raises as `list_all_tools` does."""
    get = client.list_prompts if isinstance(client, Client) else client.list_prompts_mcp
    return await _all(get, lambda result: result.prompts, budget, max_restarts)


async def list_all_skills(
    client: SkillsClient[T],
    *,
    budget: Budget = DEFAULT_BUDGET,
    max_restarts: int = DEFAULT_RESTARTS,
) -> list[T]:
    """Return every skill of a server, in its order. Raises as `list_all_tools` does."""
    return await _all(client.list_skills_mcp, lambda result: result.skills, budget, max_restarts)


def is_invalid_cursor(error: Exception) -> bool:
    """Return whether an error of a request with a cursor says that the cursor is refused."""
    return isinstance(error, MCPError) and error.code == INVALID_PARAMS


async def _all(
    get: _GetsPage[R], items_of: Callable[[R], Sequence[T]], budget: Budget, max_restarts: int
) -> list[T]:
    async def fetch(cursor: str | None, cache_mode: CacheMode = "use") -> Page[T]:
        result = await get(cursor=cursor, cache_mode=cache_mode)
        return Page(list(items_of(result)), result.next_cursor)

    return await all_items(
        fetch,
        fetch_anew=lambda: fetch(None, "refresh"),
        is_invalid_cursor=is_invalid_cursor,
        max_restarts=max_restarts,
        budget=budget,
        size=_wire_size,
    )


def _wire_size(item: BaseModel) -> int:
    return len(item.model_dump_json(by_alias=True, exclude_none=True))
