"""What a page and a walk cost in a host: FastMCP with cursorkit, and with pages of its own.

The official client asks in memory, so that the protocol's work is in every figure and the network
in none. FastMCP makes the whole list for each of its own pages; their walk is computed from a
sample of its pages, since it takes the better part of a minute. The walk with cursorkit is walked.

Garbage collection is on, as it is in a server: long lists that are made and dropped are what it
works on. So means over many pages are taken, and the best round of each.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from fastmcp import FastMCP
from fastmcp.server.providers import Provider
from fastmcp.tools import Tool
from mcp import Client, types
from mcp.server import Server
from mcp.types.version import LATEST_MODERN_VERSION

from benchmarks.descriptors import descriptors
from benchmarks.harness import Measurement, Ratio, Report, in_turns, show
from cursorkit import ExpiringCodec, Key, KeyRing, MemoryStore, SignedCodec, SnapshotPaginator
from cursorkit.adapters.fastmcp import paginate

__all__ = ["main", "run"]

_PAGE: Final = 50

_WALKS: Final = 40
"""So many walks with cursorkit should take no longer than one without."""

_CURSORKIT: Final = "FastMCP with cursorkit"
_OWN: Final = f"FastMCP with list_page_size={_PAGE}"
_READY: Final = "low-level server, ready slice"


_Item = Mapping[str, Any]


class _Ready(Provider):
    """Tools that are there: what is measured is the host, not where its tools come from."""

    def __init__(self, items: Sequence[_Item]) -> None:
        super().__init__()
        self._tools = [
            Tool(
                name=item["name"],
                title=item["title"],
                description=item["description"],
                parameters=item["inputSchema"],
                annotations=types.ToolAnnotations.model_validate(item["annotations"]),
            )
            for item in items
        ]

    async def _list_tools(self) -> Sequence[Tool]:
        return self._tools


def _with_cursorkit(provider: Provider) -> FastMCP[Any]:
    app = FastMCP[Any]("catalog", providers=[provider])
    codec = ExpiringCodec(SignedCodec(KeyRing(Key(bytes(range(32))))), ttl=600)
    paginator = SnapshotPaginator(codec, MemoryStore(), max_items=1_000_000)
    paginate(app, paginator, page_size=_PAGE, max_pages=None)
    return app


def _with_own_pages(provider: Provider) -> FastMCP[Any]:
    return FastMCP[Any]("catalog", providers=[provider], list_page_size=_PAGE)


def _ready_slice(items: Sequence[_Item]) -> Server[Any]:
    tools = [types.Tool.model_validate(item) for item in items[:_PAGE]]

    async def handler(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools, next_cursor="more")

    return Server[Any]("catalog", on_list_tools=handler)


class _Contest:
    """A client for each contestant, and the best time of each figure."""

    def __init__(self, clients: Mapping[str, Client], sample: int) -> None:
        self._clients = clients
        self._sample = sample
        self.pages = 0
        self.page = dict.fromkeys(clients, float("inf"))
        self.walk = float("inf")

    async def _page(self, kind: str, cursor: str | None) -> str | None:
        client = self._clients[kind]
        return (await client.list_tools(cursor=cursor, cache_mode="bypass")).next_cursor

    async def time(self, kind: str) -> None:
        """Time a whole walk, or a sample of pages."""
        start = time.perf_counter()
        cursor = await self._page(kind, None)
        first = time.perf_counter() - start
        pages = 1
        while cursor is not None and (kind == _CURSORKIT or pages <= self._sample):
            cursor = await self._page(kind, cursor)
            pages += 1
        whole = time.perf_counter() - start
        self.page[kind] = min(self.page[kind], (whole - first) / (pages - 1))
        if kind == _CURSORKIT:
            self.pages = pages
            self.walk = min(self.walk, whole)


async def _contest(items: Sequence[_Item], *, rounds: int, sample: int, seed: int) -> _Contest:
    provider = _Ready(items)
    servers: dict[str, Server[Any]] = {
        _CURSORKIT: _server_of(_with_cursorkit(provider)),
        _OWN: _server_of(_with_own_pages(provider)),
        _READY: _ready_slice(items),
    }
    async with AsyncExitStack() as stack:
        clients = {
            kind: await stack.enter_async_context(Client(server, mode=LATEST_MODERN_VERSION))
            for kind, server in servers.items()
        }
        contest = _Contest(clients, sample)
        for kind in in_turns(servers, rounds=rounds, seed=seed):
            await contest.time(kind)
    return contest


def _server_of(app: FastMCP[Any]) -> Server[Any]:
    server: Server[Any] = app._mcp_server  # pyright: ignore[reportPrivateUsage]  # what a client takes
    return server


def run(*, tools: int, rounds: int, sample: int, seed: int) -> Report:
    """Time pages and walks of a list of so many tools."""
    report = Report(
        f"Pages of {_PAGE} of {tools:,} tools, in memory, by the official client",
        {"rounds": rounds, "pages sampled": sample, "seed": seed},
        ["cursorkit", "fastmcp", "mcp"],
    )
    items = descriptors(tools, seed=seed)
    with asyncio.Runner() as runner:
        found = runner.run(_contest(items, rounds=rounds, sample=sample, seed=seed))
    own = found.page[_OWN] * found.pages
    report.measurements += [
        *(Measurement("page after the first", kind, each) for kind, each in found.page.items()),
        Measurement(f"walk of {found.pages} pages", _CURSORKIT, found.walk),
        Measurement(f"walk of {found.pages} pages", f"{_OWN}, computed", own),
    ]
    report.ratios += [
        Ratio(
            f"{_WALKS} walks with cursorkit / one with list_page_size", _WALKS * found.walk / own, 1
        ),
        Ratio("page with cursorkit / ready slice", found.page[_CURSORKIT] / found.page[_READY], 2),
    ]
    return report


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_hosts", description=__doc__)
    parser.add_argument("--tools", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5, help="the best of these counts")
    parser.add_argument("--sample", type=int, default=8, help="pages that are timed, of 160")
    parser.add_argument("--seed", type=int, default=1, help="for the tools, and the order")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = parser.parse_args(argv)
    report = run(tools=given.tools, rounds=given.rounds, sample=given.sample, seed=given.seed)
    show([report], as_json=given.json)


if __name__ == "__main__":
    main()
