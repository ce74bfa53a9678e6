"""What the tests of the MCP adapter share: servers, clients of both eras, walks, raw requests."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio
import httpx2
import uvicorn
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server import CacheHint, MCPServer, Server
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import AnyHttpUrl, ConfigDict
from starlette.applications import Starlette

from cursorkit import ExpiringCodec, Key, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import CursorPagination, list_handler
from cursorkit.stores.base import SnapshotStore

RING: Final = KeyRing(Key(bytes(range(32)), name="test"))

MODERN: Final = LATEST_MODERN_VERSION
LEGACY: Final = LATEST_HANDSHAKE_VERSION
ERAS: Final = (MODERN, LEGACY)

CACHE_FIELDS: Final = ("resultType", "ttlMs", "cacheScope")

LISTS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The SDK's lists, and the members of their results."""


_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. Only loopback is asked, and the default takes long to read its certificates."""

_PATIENCE: Final = 60.0
"""Seconds to wait for an answer: the client's own 5 are too few on a machine under load."""


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def new_paginator(
    clock: Callable[[], float] | None = None, store: SnapshotStore | None = None
) -> SnapshotPaginator:
    """Return a paginator with a memory store of its own, under the tests' key."""
    clocks: dict[str, Any] = {} if clock is None else {"clock": clock}
    codec = ExpiringCodec(SignedCodec(RING, **clocks), ttl=600, **clocks)
    store = MemoryStore(**clocks) if store is None else store
    return SnapshotPaginator(codec, store, ttl=600, **clocks)


def _echo(text: str) -> str:
    return text


def _nothing() -> str:
    return ""


def full_server(middleware: Sequence[Any], count: int = 7, **options: Any) -> MCPServer:
    """Return a server with `count` entries in each of the four lists: n0, n1 and so on."""
    server = MCPServer(
        "demo", version="1.0", middleware=middleware, log_level="CRITICAL", **options
    )
    for number in range(count):
        server.add_tool(_echo, name=f"n{number}")
        server.resource(f"data://n{number}", name=f"n{number}")(_nothing)
        server.resource(f"data://n{number}/{{text}}", name=f"n{number}")(_echo)
        server.prompt(name=f"n{number}")(_nothing)
    return server


def always(value: Any) -> Callable[..., Any]:
    """Return a callback that answers every time with the same value."""

    def callback(*arguments: Any) -> Any:
        return value

    return callback


def tool(name: str, **members: Any) -> types.Tool:
    """Return a tool's descriptor."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    members = {"description": f"Echoes, as {name}.", "input_schema": schema, **members}
    return types.Tool(name=name, **members)


class Host:
    """A server whose tools can be changed, and that counts how often they are listed.

    Args:
        kind: One of `HOSTS`.
        count: Tools at the start: t00 and so on.
        settings: `paginator`, a new one unless given; `source`, what the list handler does, if not
            to return the tools; `cache_hint`, how the host says that its tools may be cached; all
            else goes to `CursorPagination` or `list_handler`.
    """

    def __init__(self, kind: str, count: int = 10, **settings: Any) -> None:
        self.tools = [tool(f"t{number:02}") for number in range(count)]
        self.calls = 0
        self._source: Callable[[], Any] | None = settings.pop("source", None)
        self.paginator: SnapshotPaginator = settings.pop("paginator", None) or new_paginator()
        hint = settings.pop("cache_hint", None)
        self.server = HOSTS[kind](self, hint, {"audience": "demo", "page_size": 3, **settings})

    def listed(self) -> Any:
        """Return all tools, as the list handler below the pages does."""
        self.calls += 1
        return list(self.tools) if self._source is None else self._source()

    def remove(self, name: str) -> None:
        """Take a tool out of the list."""
        self.tools = [tool for tool in self.tools if tool.name != name]


class _MutableServer(MCPServer):
    """An `MCPServer` whose tools are those of a host."""

    host: Host

    async def list_tools(self) -> list[types.Tool]:
        found: list[types.Tool] = self.host.listed()
        return found


def whole_list(tools: Sequence[types.Tool]) -> Callable[..., Any]:
    """Return a low-level list handler that knows nothing of pages."""

    async def handler(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(tools))

    return handler


def _hints(cache_hint: CacheHint | None) -> dict[Any, CacheHint]:
    return {} if cache_hint is None else {"tools/list": cache_hint}


def _mcp_server(host: Host, cache_hint: CacheHint | None, options: dict[str, Any]) -> MCPServer:
    server = _MutableServer(
        "demo",
        version="1.0",
        log_level="CRITICAL",
        cache_hints=_hints(cache_hint),
        middleware=[CursorPagination(host.paginator, **options)],
    )
    server.host = host
    return server


def _low_level(host: Host, cache_hint: CacheHint | None, options: dict[str, Any]) -> Server[Any]:
    async def handler(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=host.listed())

    server = Server("demo", version="1.0", cache_hints=_hints(cache_hint), on_list_tools=handler)
    server.middleware.append(CursorPagination(host.paginator, **options))
    return server


def _handler(host: Host, cache_hint: CacheHint | None, options: dict[str, Any]) -> Server[Any]:
    handler = list_handler(
        "tools/list", host.paginator, lambda ctx: host.listed(), cache_hint=cache_hint, **options
    )
    return Server("demo", version="1.0", on_list_tools=handler)


HOSTS: Final[Mapping[str, Callable[[Host, CacheHint | None, dict[str, Any]], Any]]] = {
    "MCPServer": _mcp_server,
    "middleware": _low_level,
    "list_handler": _handler,
}
"""Every way to page the tools of a server: one row each."""


def in_memory(server: MCPServer | Server[Any], era: str) -> Client:
    """Return a client that is connected in memory."""
    return Client(server, mode="legacy" if era == LEGACY else era)


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextlib.asynccontextmanager
async def served(app: Starlette) -> AsyncGenerator[str]:
    """Serve an app on a free loopback port; give the URL of its MCP endpoint."""
    # It listens before the server runs: who connects early waits for it.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
        server = _Uvicorn(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(server.serve, sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                server.should_exit = True


@contextlib.asynccontextmanager
async def over_http(url: str, era: str, *, token: str | None = None) -> AsyncGenerator[Client]:
    """Connect a client over streamable HTTP."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, verify=_NO_TLS, timeout=_PATIENCE) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="legacy" if era == LEGACY else era) as client:
            yield client


@contextlib.asynccontextmanager
async def connected(
    server: MCPServer | Server[Any], era: str, transport: str
) -> AsyncGenerator[Client]:
    """Connect a client in memory ("memory") or over streamable HTTP ("http")."""
    if transport == "memory":
        async with in_memory(server, era) as client:
            yield client
    else:
        async with served(server.streamable_http_app()) as url, over_http(url, era) as client:
            yield client


class _AnyResult(types.Result):
    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, params: Mapping[str, Any] | None = None) -> Any:
    """Send a request as it is, through the real session; return the result's members."""
    request = types.Request[dict[str, Any], str](method=method, params=dict(params or {}))
    result = await client.session.send_request(request, _AnyResult)
    return result.model_dump(by_alias=True, exclude_none=True)


async def refused(client: Client, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request that must fail; return the error as it came."""
    try:
        await ask(client, method, params)
    except MCPError as error:
        return error.error.model_dump(exclude_unset=True)
    raise AssertionError("not refused")


async def walk(
    client: Client,
    method: str = "tools/list",
    params: Mapping[str, Any] | None = None,
    between: Callable[[], object] = lambda: None,
) -> list[dict[str, Any]]:
    """Fetch every page of a list; `between` is called before each but the first."""
    pages: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while len(pages) < 100:
        pages.append(await ask(client, method, {**(params or {}), **cursor}))
        if "nextCursor" not in pages[-1]:
            return pages
        cursor = {"cursor": pages[-1]["nextCursor"]}
        between()
    raise AssertionError("the walk does not end")


def names(pages: Sequence[Mapping[str, Any]], member: str = "tools") -> list[str]:
    """Return the names of all items of a walk."""
    return [item["name"] for page in pages for item in page[member]]


def flipped(cursor: str, position: int = -5) -> str:
    """Return a cursor with one character changed."""
    other = "A" if cursor[position] != "A" else "B"
    characters = list(cursor)
    characters[position] = other
    return "".join(characters)


INVALID_CURSOR: Final = {"code": -32602, "message": "Invalid cursor"}
INTERNAL_ERROR: Final = {"code": -32603, "message": "Internal error"}


def raw_request(
    method: str, params: Mapping[str, Any], era: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the body and the headers of a request on the wire."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": era}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
    if era == MODERN:
        headers["Mcp-Method"] = method
        body["params"]["_meta"] = {
            types.PROTOCOL_VERSION_META_KEY: era,
            types.CLIENT_INFO_META_KEY: {"name": "raw", "version": "1"},
            types.CLIENT_CAPABILITIES_META_KEY: {},
        }
    return body, headers


async def post(
    url: str, method: str, params: Mapping[str, Any], era: str, *, token: str | None = None
) -> dict[str, Any]:
    """Send a request with a plain HTTP client to a stateless server that answers in JSON."""
    body, headers = raw_request(method, params, era)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx2.AsyncClient(verify=_NO_TLS, timeout=_PATIENCE) as http:
        response = await http.post(url, json=body, headers=headers)
    answer: dict[str, Any] = response.json()
    return answer


class Tokens:
    """A token verifier: what each token stands for can be changed in mid-walk."""

    def __init__(self, **tokens: AccessToken) -> None:
        self.known = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token stands for."""
        return self.known.get(token)


def access(subject: str | None, *scopes: str) -> AccessToken:
    """Return what a token of one client stands for."""
    return AccessToken(token="t", client_id="app", scopes=list(scopes) or ["read"], subject=subject)


def authenticated(tokens: Tokens) -> dict[str, Any]:
    """Return the options of an `MCPServer` that asks for tokens."""
    url = AnyHttpUrl("http://127.0.0.1:9")
    settings = AuthSettings(
        issuer_url=url,
        resource_server_url=url,
        required_scopes=["read"],
        validate_token_resource=False,
    )
    return {"auth": settings, "token_verifier": tokens}
