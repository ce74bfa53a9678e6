"""An MCPServer whose lists come in pages: one middleware, and no change to the tools.

export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
python examples/mcp_server.py          # speaks MCP on stdin and stdout
"""

from __future__ import annotations

from mcp.server import MCPServer

from cursorkit import ExpiringCodec, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import CursorPagination


def new_server(ring: KeyRing) -> MCPServer:
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    paginator = SnapshotPaginator(codec, MemoryStore())
    pagination = CursorPagination(paginator, audience="calculator", page_size=3)
    server = MCPServer("calculator", middleware=[pagination])

    @server.tool()
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @server.tool()
    def subtract(a: float, b: float) -> float:
        """Subtract one number from another."""
        return a - b

    @server.tool()
    def multiply(a: float, b: float) -> float:
        """Multiply two numbers."""
        return a * b

    @server.tool()
    def divide(a: float, b: float) -> float:
        """Divide one number by another."""
        return a / b

    @server.tool()
    def negate(a: float) -> float:
        """Change a number's sign."""
        return -a

    return server


if __name__ == "__main__":
    new_server(KeyRing.from_env()).run()
