"""The files below a directory as resources: canonicalize, contain, authorize, and only then read.

The list is the directory as it was at the first page, walked by signed cursors.

    export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
    python examples/filesystem_resources.py path/to/files     # speaks MCP on stdin and stdout
"""

from __future__ import annotations

import base64
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from anyio.to_thread import run_sync
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from cursorkit import ExpiringCodec, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import list_handler

Context = ServerRequestContext[Any, Any]
OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class Files:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)

    def allowed(self, ctx: Context, path: Path) -> bool:
        """Authorize. Here nobody gets names that begin with a dot; in earnest, ask who calls."""
        names = path.relative_to(self.root).parts
        return all(name.isprintable() and not name.startswith(".") for name in names)

    def listed(self, ctx: Context) -> list[types.Resource]:
        paths = [Path(place, name) for place, _, names in os.walk(self.root) for name in names]
        return [
            types.Resource(uri=path.as_uri(), name=path.name)
            for path in sorted(paths)
            if path.is_file() and not path.is_symlink() and self.allowed(ctx, path)
        ]

    def path_of(self, uri: str) -> Path | None:
        """Return the canonical path of a file below the directory, None for all else."""
        try:
            parts = urlsplit(uri)
            if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query:
                return None
            path = Path(unquote(parts.path, errors="strict")).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            return None
        return path if path.is_relative_to(self.root) and path.is_file() else None

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        path = self.path_of(uri)
        data = await run_sync(self._read, path) if path and self.allowed(ctx, path) else None
        if data is None:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        try:
            text = types.TextResourceContents(uri=uri, text=data.decode())
            return types.ReadResourceResult(contents=[text])
        except UnicodeDecodeError:
            blob = types.BlobResourceContents(uri=uri, blob=base64.b64encode(data).decode())
            return types.ReadResourceResult(contents=[blob])

    def _read(self, path: Path) -> bytes | None:
        with ExitStack() as opened, suppress(OSError):
            at: int | None = None
            # Name by name: whatever is a link by now is not followed.
            for name in (str(self.root), *path.relative_to(self.root).parts[:-1]):
                at = os.open(name, OPEN, dir_fd=at)
                opened.callback(os.close, at)
            with open(os.open(path.name, OPEN, dir_fd=at), "rb") as file:
                return file.read()
        return None


def new_server(ring: KeyRing, root: Path) -> Server[Any]:
    files = Files(root)
    paginator = SnapshotPaginator(ExpiringCodec(SignedCodec(ring), ttl=600), MemoryStore())
    pages = list_handler("resources/list", paginator, files.listed, audience="files", page_size=3)
    return Server("files", on_list_resources=pages, on_read_resource=files.read)


async def main() -> None:
    server = new_server(KeyRing.from_env(), Path(sys.argv[1]))
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
