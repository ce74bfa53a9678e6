"""The servers of the demo: one paged by cursorkit, one by plain offsets, over the same tools."""

from __future__ import annotations

import base64
import json
import math
import secrets
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import CallNext, HandlerResult
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.tools import Tool
from mcp.types import ListToolsResult, PaginatedRequestParams
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

from cursorkit.adapters.mcp import CursorPagination
from cursorkit.cli.demo.tools import generated_tools
from cursorkit.codecs.expiring import ExpiringCodec
from cursorkit.codecs.signed import SignedCodec
from cursorkit.keys import Key, KeyRing
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.stores.memory import MemoryStore

__all__ = ["PAGE_SIZE", "Catalog", "Clock", "Users"]

PAGE_SIZE: Final = 50
_PROMPTS: Final = 12
_PROMPTS_PAGE: Final = 5
_TTL: Final = 600
_QUANTUM: Final = 60


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = float(math.floor(time.time()))

    def __call__(self) -> float:
        """Return Unix seconds."""
        return self.now

    @property
    def next_expiry(self) -> int:
        """When cursors expire that are minted now."""
        return math.ceil((self.now + _TTL) / _QUANTUM) * _QUANTUM


class Users:
    """Two users and their bearer tokens; the SDK asks it who a token stands for."""

    def __init__(self) -> None:
        self.tokens = {name: secrets.token_urlsafe() for name in ("alice", "bob")}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whom a token stands for, None if it is unknown."""
        for name, known in self.tokens.items():
            if secrets.compare_digest(token, known):
                return AccessToken(token=token, client_id="demo", scopes=["list"], subject=name)
        return None


class Catalog:
    """A list of tools that changes, and two servers of it.

    Attributes:
        clock: What cursors and the store go by.
        listings: How often the list of tools was made.
    """

    def __init__(self, tools: int, users: Users) -> None:
        self.clock = Clock()
        self.listings = 0
        self._users = users
        self._supply: Iterator[Tool] = generated_tools()
        self._store = MemoryStore(clock=self.clock)
        codec = ExpiringCodec(
            SignedCodec(KeyRing(Key.generate(name="demo")), clock=self.clock),
            ttl=_TTL,
            quantum=_QUANTUM,
            clock=self.clock,
        )
        paginator = SnapshotPaginator(
            codec, self._store, ttl=_TTL, quantum=_QUANTUM, clock=self.clock
        )
        pagination = CursorPagination(
            paginator,
            audience="demo",
            page_size=PAGE_SIZE,
            page_sizes={"prompts/list": _PROMPTS_PAGE},
        )
        self._server = MCPServer(
            "demo",
            tools=list(islice(self._supply, tools)),
            middleware=[pagination, self._count],
            auth=_auth(),
            token_verifier=users,
            log_level="ERROR",
        )
        for number in range(_PROMPTS):
            self._server.add_prompt(Prompt.from_function(_prompt, name=f"prompt_{number}"))

    def app(self) -> Starlette:
        """Return the server whose pages cursorkit cuts."""
        return self._server.streamable_http_app()

    def offset_app(self) -> Starlette:
        """Return a server of the SDK's low level that slices the same list at plain offsets."""
        server: Server[Any] = Server("offsets", on_list_tools=self._offset_page)
        return server.streamable_http_app(auth=_auth(), token_verifier=self._users)

    async def names(self) -> list[str]:
        """Return the names of the tools as they are now."""
        return [tool.name for tool in await self._server.list_tools()]

    def change(self, names: list[str], added: int) -> None:
        """Remove tools, and add new ones at the end."""
        for name in names:
            self._server.remove_tool(name)
        for tool in islice(self._supply, added):
            self._server.add_tool(
                tool.fn,
                name=tool.name,
                title=tool.title,
                description=tool.description,
                annotations=tool.annotations,
            )

    @property
    def stored(self) -> tuple[int, int]:
        """How many objects the store holds, and how many bytes they take."""
        return len(self._store), self._store.bytes_used

    async def _count(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        self.listings += ctx.method == "tools/list"
        return await call_next(ctx)

    async def _offset_page(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        cursor = None if params is None else params.cursor
        start = 0 if cursor is None else json.loads(base64.urlsafe_b64decode(cursor))["o"]
        end = start + PAGE_SIZE
        self.listings += 1
        tools = await self._server.list_tools()
        state = json.dumps({"o": end}).encode()
        following = base64.urlsafe_b64encode(state).decode() if end < len(tools) else None
        return ListToolsResult(tools=tools[start:end], next_cursor=following)


def _auth() -> AuthSettings:
    return AuthSettings(issuer_url=AnyHttpUrl("https://issuer.example"), resource_server_url=None)


def _prompt(topic: str) -> str:
    """Ask for a summary."""
    return f"Summarize what is known about {topic}."
