"""A list handler of your own that takes from cursorkit its cursors only.

It pages a sorted list by the last name seen, so nothing is stored, and removing that very tool
skips nothing. The codec does the rest: a cursor cannot be forged, expires, and is refused for
another list, another principal and another protocol revision.

    export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
    python examples/custom_list_handler.py     # speaks MCP on stdin and stdout
"""

from __future__ import annotations

from typing import Any

import anyio
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.mcpserver import authenticated_principal
from mcp.server.stdio import stdio_server
from mcp.types import INVALID_PARAMS, ListToolsResult, PaginatedRequestParams, Tool

from cursorkit import Binding, CursorCodec, CursorError, ExpiringCodec, KeyRing, Keyset, SignedCodec

PAGE_SIZE = 3

NAMES = ["apple", "banana", "cherry", "damson", "elderberry"]


class ToolList:
    """Pages a sorted list of tools."""

    def __init__(self, codec: CursorCodec) -> None:
        self._codec = codec

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        binding = Binding(
            "tools/list",
            audience="fruits",
            principal=authenticated_principal(ctx),
            protocol_version=ctx.protocol_version,
        )
        cursor = None if params is None else params.cursor
        after = ""
        if cursor is not None:  # never "if cursor": "" is a cursor, and an invalid one
            try:
                after = str(self._codec.decode(cursor, binding).expect(Keyset).values[0])
            except CursorError:
                # One message for every reason; the log has the reason.
                raise MCPError(INVALID_PARAMS, "Invalid cursor") from None
        rest = [name for name in NAMES if name > after]
        page = rest[:PAGE_SIZE]
        return ListToolsResult(
            tools=[Tool(name=name, input_schema={"type": "object"}) for name in page],
            next_cursor=(
                self._codec.encode(Keyset((page[-1],)), binding) if len(rest) > len(page) else None
            ),
        )


def new_server(ring: KeyRing) -> Server[Any]:
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    return Server("fruits", on_list_tools=ToolList(codec))


async def main() -> None:
    server = new_server(KeyRing.from_env())
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
