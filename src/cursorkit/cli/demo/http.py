"""A server on a free loopback port, and what talks to it: the official client, and raw requests."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette

__all__ = ["ERAS", "HANDSHAKE", "MODERN", "Connection", "connect", "serve"]

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
ERAS: Final = (MODERN, HANDSHAKE)
"""The protocol's two eras, by the latest revision of each."""

_TIMEOUT: Final = 20


class _Server(uvicorn.Server):
    """Uvicorn, as a task that says when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave Ctrl-C to whoever runs the event loop."""
        yield

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until `should_exit`: cancelled in the middle, uvicorn would complain."""
        with anyio.CancelScope(shield=True):
            await self.serve([listener])


@asynccontextmanager
async def serve(app: Starlette) -> AsyncGenerator[str]:
    """Serve an app on a free loopback port while the context is open; yield its MCP address."""
    config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=2)
    server = _Server(config)
    # By its protocol asyncio knows that it may turn off Nagle's delays, worth 40 ms a page.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve_on, listener)
            with anyio.fail_after(_TIMEOUT):
                await server.ready.wait()
            try:
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                # The group waits until it has stopped.
                server.should_exit = True


class Connection:
    """A user's connection in one era.

    Attributes:
        client: The official client.
    """

    def __init__(self, client: Client, http: httpx2.AsyncClient, url: str, era: str) -> None:
        self.client = client
        self._http = http
        self._url = url
        self._era = era
        self._session: dict[str, str] = {}

    async def raw(self, method: str, cursor: object) -> dict[str, Any]:
        """Send a request for a page with any JSON as its cursor; return the reply as it came."""
        if self._era != MODERN:
            return await self._post(method, {"cursor": cursor}, self._session)
        meta = {
            "io.modelcontextprotocol/protocolVersion": self._era,
            "io.modelcontextprotocol/clientInfo": {"name": "demo", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {"mcp-protocol-version": self._era, "mcp-method": method}
        return await self._post(method, {"cursor": cursor, "_meta": meta}, headers)

    async def shake_hands(self) -> None:
        """Open a session for raw requests, which the handshake era needs."""
        if self._era == MODERN:
            return
        params = {
            "protocolVersion": self._era,
            "capabilities": {},
            "clientInfo": {"name": "demo", "version": "1"},
        }
        await self._post("initialize", params, self._session)
        self._session["mcp-protocol-version"] = self._era
        await self._post("notifications/initialized", None, self._session)

    async def _post(
        self, method: str, params: dict[str, Any] | None, headers: dict[str, str]
    ) -> dict[str, Any]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message |= {"id": 1, "params": params}
        accepted = {"accept": "application/json, text/event-stream"}
        response = await self._http.post(self._url, json=message, headers=accepted | headers)
        if "mcp-session-id" in response.headers:
            self._session["mcp-session-id"] = response.headers["mcp-session-id"]
        return _reply(response.text)


def _reply(text: str) -> dict[str, Any]:
    """Return the JSON-RPC reply in a body, be it JSON or a stream of events."""
    lines = text.splitlines()
    events = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
    for data in events or [text]:
        message: dict[str, Any] = json.loads(data) if data.strip() else {}
        if "id" in message:
            return message
    return {}


@asynccontextmanager
async def connect(url: str, token: str, era: str) -> AsyncGenerator[Connection]:
    """Connect with a bearer token while the context is open."""
    http = httpx2.AsyncClient(
        headers={"authorization": f"Bearer {token}"},
        timeout=_TIMEOUT,
        trust_env=False,  # a proxy has no business on the loopback
    )
    async with (
        http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=MODERN if era == MODERN else "legacy",
        ) as client,
    ):
        connection = Connection(client, http, url, era)
        await connection.shake_hands()
        yield connection
