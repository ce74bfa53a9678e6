"""Two processes that share a key ring and nothing else continue each other's walks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from cursorkit import (
    Binding,
    CursorError,
    ExpiringCodec,
    Key,
    KeyRing,
    MemoryStore,
    SignedCodec,
    SnapshotPaginator,
)

Request: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]

SRC = Path(__file__).parents[1] / "src"
BINDING = Binding("tools/list", principal="alice", audience="catalog")


async def serve() -> None:
    """Be one node: a request a line on stdin, an answer a line on stdout.

    A request changes the list, or asks for the page of a cursor.
    """
    codec = ExpiringCodec(SignedCodec(KeyRing.from_env()), ttl=600)
    paginator = SnapshotPaginator(codec, MemoryStore(), page_size=10)
    items: list[str] = []
    listings = 0

    def source() -> list[str]:
        nonlocal listings
        listings += 1
        return items

    for line in sys.stdin:
        request: Request = json.loads(line)
        answer: Answer = {}
        if "items" in request:
            items = request["items"]
        else:
            try:
                page = await paginator.page(request["cursor"], source, BINDING)
                answer = {"items": page.items, "cursor": page.next_cursor}
            except CursorError as error:
                answer = {"error": type(error).__name__}
        print(json.dumps({**answer, "listings": listings}), flush=True)  # noqa: T201


class NodeProcess:
    """A node in a process of its own."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def ask(self, **request: Any) -> Answer:
        """Send a request and return the answer."""
        await self._requests.send(json.dumps(request).encode() + b"\n")
        answer: Answer = json.loads(await self._answers.receive_until(b"\n", 10**6))
        return answer

    async def page(self, cursor: str | None) -> Answer:
        """Return the page of a cursor, without the count of listings."""
        answer = await self.ask(cursor=cursor)
        del answer["listings"]
        return answer

    async def listings(self) -> int:
        """Return how often the node has listed."""
        return int((await self.ask(cursor=""))["listings"])


@asynccontextmanager
async def node_process(ring: KeyRing) -> AsyncGenerator[NodeProcess]:
    """Run a node with these keys; it ends with its stdin."""
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "CURSORKIT_KEYS": ring.to_json()}
    command = [sys.executable, __file__]
    async with await anyio.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, env=env
    ) as process:
        with anyio.fail_after(60):
            yield NodeProcess(process)
            assert process.stdin is not None
            await process.stdin.aclose()
            assert await process.wait() == 0


@pytest.mark.anyio
async def test_a_walk_goes_on_in_another_process() -> None:
    """Page 1 from A and the rest from B are one list, healed by one listing; byte-identical."""
    ring = KeyRing(Key.generate())
    items = [f"tool-{number}" for number in range(35)]
    async with node_process(ring) as a, node_process(ring) as b:
        await a.ask(items=items)
        await b.ask(items=items)
        first = await a.page(None)
        walked, cursor = first["items"], first["cursor"]
        while cursor is not None:
            page = await b.page(cursor)
            assert page == await a.page(cursor)
            walked, cursor = walked + page["items"], page["cursor"]
        assert walked == items
        assert (await a.listings(), await b.listings()) == (1, 1)


@pytest.mark.anyio
async def test_a_changed_list_in_another_process_is_lost_and_never_restarted() -> None:
    """A node that never had the snapshot, and lists something else, refuses; the first goes on."""
    ring = KeyRing(Key.generate())
    items = [f"tool-{number}" for number in range(35)]
    async with node_process(ring) as a, node_process(ring) as b:
        await a.ask(items=items)
        await b.ask(items=items[1:])
        first = await a.page(None)
        for _ in range(3):
            assert await b.page(first["cursor"]) == {"error": "SnapshotLostError"}
        assert await b.listings() == 1
        await a.ask(items=[])
        assert (await a.page(first["cursor"]))["items"] == items[10:20]


if __name__ == "__main__":
    anyio.run(serve)
