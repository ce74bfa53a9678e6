"""Pages for MCP servers built with the official SDK, version 2.3 or later.

`CursorPagination` is middleware for `MCPServer`; `list_handler` makes list handlers for the
low-level `Server`, and `serve` wires whole catalogs to one. Needs the extra ``cursorkit[mcp]``.
"""

try:
    from mcp.server import CacheHint as _CacheHint  # there since SDK 2
except ImportError as _error:
    raise ImportError(
        "cursorkit.adapters.mcp needs the MCP SDK, version 2.3 or later:"
        " pip install 'cursorkit[mcp]'"
    ) from _error

from cursorkit.adapters.mcp.binder import scopes_epoch
from cursorkit.adapters.mcp.handlers import list_handler
from cursorkit.adapters.mcp.middleware import CursorPagination
from cursorkit.adapters.mcp.serve import serve
from cursorkit.adapters.mcp.skills import SkillsExtension

__all__ = ["CursorPagination", "SkillsExtension", "list_handler", "scopes_epoch", "serve"]

del _CacheHint
