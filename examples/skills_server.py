"""An MCPServer with the Agent Skills below a directory: their list in pages, and their files.

A skill with a scope in its metadata is only for access tokens that have it. What is edited on disk
is served at once, but a walk that has begun goes on with the entries of its first page.

    export CURSORKIT_KEYS="$(python -m cursorkit.keys)"
    python examples/skills_server.py path/to/skills     # speaks MCP on stdin and stdout
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from mcp.server import MCPServer, ServerRequestContext
from mcp.server.auth.middleware.auth_context import get_access_token

from cursorkit import ExpiringCodec, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import SkillsExtension
from cursorkit.catalogs.skills import SkillCatalog


def visible(
    ctx: ServerRequestContext[Any, Any], skills: Sequence[dict[str, Any]]
) -> Sequence[bool]:
    """Say of each skill whether the caller may see it; its files are kept from others, too."""
    token = get_access_token()
    scopes = [] if token is None else token.scopes
    needed = [skill["frontmatter"].get("metadata", {}).get("scope") for skill in skills]
    return [scope is None or scope in scopes for scope in needed]


def new_server(ring: KeyRing, path: str | os.PathLike[str]) -> MCPServer:
    codec = ExpiringCodec(SignedCodec(ring), ttl=600)
    skills = SkillsExtension(
        SkillCatalog.from_directory(path),
        SnapshotPaginator(codec, MemoryStore()),
        audience="skills",
        visible=visible,
        page_size=2,
    )
    # Both: as an extension it has the new methods, as middleware it answers resources/read.
    return MCPServer("skills", extensions=[skills], middleware=[skills])


if __name__ == "__main__":
    new_server(KeyRing.from_env(), sys.argv[1]).run()
