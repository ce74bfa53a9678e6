"""A gateway: the tools of two upstream servers as one list, each with its upstream's name in front.

export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
python examples/gateway.py docs=http://127.0.0.1:8001/mcp mail=http://127.0.0.1:8002/mcp

It speaks MCP on stdin and stdout. Upstreams are walked for a first page only, whole or not at all:
if one of them fails, the list is an error that names it, and never half a list.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, Tool

from cursorkit import ExpiringCodec, KeyRing, MemoryStore, Page, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import list_handler
from cursorkit.adapters.mcp.client import is_invalid_cursor
from cursorkit.walk import Budget, all_items

BUDGET = Budget(max_items=5_000, max_seconds=30)

Context = ServerRequestContext[Any, Any]


class Gateway:
    """Upstreams by name: anything that `mcp.Client` connects to."""

    def __init__(self, upstreams: Mapping[str, Any]) -> None:
        self._upstreams = upstreams

    async def list_tools(self, ctx: Context) -> list[Tool]:
        tools: list[Tool] = []
        for name, upstream in self._upstreams.items():
            try:
                found = await walk_tools(upstream)
            except Exception:
                logging.exception("upstream %s cannot be listed", name)
                raise MCPError(INTERNAL_ERROR, f"Upstream {name} cannot be listed") from None
            tools += [tool.model_copy(update={"name": f"{name}.{tool.name}"}) for tool in found]
        return tools

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> Any:
        name, _, tool = params.name.partition(".")
        if name not in self._upstreams:
            raise MCPError(INVALID_PARAMS, "Unknown tool")
        async with Client(self._upstreams[name]) as client:
            return await client.call_tool(tool, params.arguments)


async def walk_tools(upstream: Any) -> list[Tool]:
    """Return all tools of an upstream, or raise."""
    async with Client(upstream) as client:

        async def fetch(cursor: str | None) -> Page[Tool]:
            result = await client.list_tools(cursor=cursor, cache_mode="bypass")
            return Page(result.tools, result.next_cursor)

        return await all_items(fetch, is_invalid_cursor=is_invalid_cursor, budget=BUDGET)


def new_server(ring: KeyRing, upstreams: Mapping[str, Any]) -> Server[Any]:
    gateway = Gateway(upstreams)
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    paginator = SnapshotPaginator(codec, MemoryStore())
    return Server(
        "gateway",
        on_list_tools=list_handler(
            "tools/list", paginator, gateway.list_tools, audience="gateway", page_size=3
        ),
        on_call_tool=gateway.call_tool,
        # The upstream checks what it is sent; without this, each call would walk all upstreams.
        get_tool_input_schema=lambda name: None,
    )


async def main(arguments: list[str]) -> None:
    upstreams = dict(argument.split("=", 1) for argument in arguments)
    server = new_server(KeyRing.from_env(), upstreams)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
