"""A low-level Server whose tools/list comes in pages from a source that is asked once a walk.

export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
python examples/lowlevel_server.py     # speaks MCP on stdin and stdout
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    TextContent,
    Tool,
)

from cursorkit import ExpiringCodec, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import list_handler

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}

ACTIONS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "reverse": lambda text: text[::-1],
    "strip": str.strip,
    "title": str.title,
    "upper": str.upper,
}


async def list_tools(ctx: ServerRequestContext[Any, Any]) -> list[Tool]:
    """Return every tool; in earnest, ask a database here."""
    return [
        Tool(name=name, description=f"Return the text in {name} form.", input_schema=SCHEMA)
        for name in sorted(ACTIONS)
    ]


async def call_tool(
    ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
) -> CallToolResult:
    action = ACTIONS.get(params.name)
    if action is None:
        raise MCPError(INVALID_PARAMS, "Unknown tool")
    text = action(str((params.arguments or {}).get("text", "")))
    return CallToolResult(content=[TextContent(type="text", text=text)])


def new_server(ring: KeyRing) -> Server[Any]:
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    paginator = SnapshotPaginator(codec, MemoryStore())
    return Server(
        "texts",
        on_list_tools=list_handler(
            "tools/list", paginator, list_tools, audience="texts", page_size=3
        ),
        on_call_tool=call_tool,
        # Without this, each tools/call over HTTP walks tools/list until it has found the tool.
        get_tool_input_schema=lambda name: SCHEMA if name in ACTIONS else None,
    )


async def main() -> None:
    server = new_server(KeyRing.from_env())
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
