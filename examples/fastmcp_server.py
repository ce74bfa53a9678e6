"""A FastMCP app whose lists come in pages, those of a mounted app included.

export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
python examples/fastmcp_server.py      # speaks MCP on stdin and stdout
"""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP

from cursorkit import ExpiringCodec, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.fastmcp import paginate


def new_statistics() -> FastMCP[Any]:
    app = FastMCP[Any]("statistics")

    @app.tool
    def mean(numbers: list[float]) -> float:
        """Return the mean of numbers."""
        return sum(numbers) / len(numbers)

    @app.tool
    def spread(numbers: list[float]) -> float:
        """Return the difference of the largest and the smallest number."""
        return max(numbers) - min(numbers)

    return app


def new_app(ring: KeyRing) -> FastMCP[Any]:
    app = FastMCP[Any]("calculator")

    @app.tool
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @app.tool
    def multiply(a: float, b: float) -> float:
        """Multiply two numbers."""
        return a * b

    @app.tool
    def negate(a: float) -> float:
        """Change a number's sign."""
        return -a

    app.mount(new_statistics(), namespace="statistics")
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    # On the root, which is the one that clients connect to; the audience is its name.
    paginate(app, SnapshotPaginator(codec, MemoryStore()), page_size=3)
    return app


if __name__ == "__main__":
    new_app(KeyRing.from_env()).run(show_banner=False)
