"""``cursorkit demo``: a real server, a real client, and attempts to break their cursors."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from importlib import metadata
from typing import Final, cast

import anyio
from rich.console import Console

from cursorkit.cli.demo.http import ERAS, MODERN, Connection, connect, serve
from cursorkit.cli.demo.refusals import REFUSED, Found, attempts, show_refusals, try_cursors
from cursorkit.cli.demo.report import Report
from cursorkit.cli.demo.servers import PAGE_SIZE, Catalog, Users
from cursorkit.cli.demo.speed import ROUNDS, show_speed, time_walks
from cursorkit.cli.demo.walks import (
    CHANGED_AFTER,
    pages_of,
    show_walk,
    walk_table,
    walk_while_changing,
)

__all__ = ["run"]

_OFFSETS: Final = "plain offsets"


def run(console: Console, *, tools: int = 320) -> bool:
    """Run the demo and print it; return whether every claim held.

    Args:
        console: Where it is printed.
        tools: How many tools the server lists.
    """
    report = Report(console)
    try:
        anyio.run(_demonstrate, report, tools, backend="asyncio")
    except Exception as error:  # noqa: BLE001  # whatever it is, the demo did not hold
        report.check(f"the demo ended early: {_first_of(error)!r}", False)
    return report.conclude()


def _first_of(error: BaseException) -> BaseException:
    """Return the first error in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class _Stage:
    """Both servers, and who is connected to them."""

    def __init__(self, report: Report, tools: int) -> None:
        self.report = report
        self.users = Users()
        self.catalog = Catalog(tools, self.users)
        self.connections: dict[tuple[str, str], Connection] = {}
        self.offsets: Connection

    async def open(self, stack: AsyncExitStack) -> str:
        """Start all; return the address of the server that cursorkit pages."""
        url = await stack.enter_async_context(serve(self.catalog.app()))
        offsets = await stack.enter_async_context(serve(self.catalog.offset_app()))
        for name, token in self.users.tokens.items():
            for era in ERAS:
                connection = await stack.enter_async_context(connect(url, token, era))
                self.connections[name, era] = connection
        token = self.users.tokens["alice"]
        self.offsets = await stack.enter_async_context(connect(offsets, token, MODERN))
        return url


async def _demonstrate(report: Report, tools: int) -> None:
    stage = _Stage(report, tools)
    async with AsyncExitStack() as stack:
        url = await stage.open(stack)
        report.heading(
            f"cursorkit {metadata.version('cursorkit')} pages an MCP server",
            f"{tools} tools, {PAGE_SIZE} a page, at {url}; the official client of"
            f" mcp {metadata.version('mcp')}.",
        )
        await _show_walks(stage)
        await _show_sharing(stage)
        await _show_refusals(stage)
        await _show_speed(stage)


async def _show_walks(stage: _Stage) -> None:
    pages = " and ".join(map(str, CHANGED_AFTER))
    stage.report.heading(
        "Walks of a list that changes",
        f"After pages {pages}, 5 tools are removed, 4 of them seen before, and 5 are added.",
    )
    table = walk_table(stage.report)
    for era in ERAS:
        connection = stage.connections["alice", era]
        version = connection.client.protocol_version
        stage.report.check(f"the client speaks {version}, not {era}", version == era)
        walk = await walk_while_changing(stage.catalog, connection)
        show_walk(stage.report, table, era, walk)
    walk = await walk_while_changing(stage.catalog, stage.offsets)
    same = "yes" if walk.seen == walk.first else "no"
    figures = (len(walk.pages), len(walk.seen), walk.duplicates, walk.missing, walk.listings)
    table.add_row(_OFFSETS, MODERN, *map(str, figures), same, style="dim")
    stage.report.console.print(table)


async def _show_sharing(stage: _Stage) -> None:
    """Walk by one user, then by the other: the second walk stores nothing."""
    await pages_of(stage.connections["alice", MODERN].client)
    before = stage.catalog.stored
    pages = await pages_of(stage.connections["bob", MODERN].client)
    objects, size = stage.catalog.stored
    added = objects - before[0]
    shared = stage.report.cell(added, f"bob's walk stored {added} objects", added == 0)
    stage.report.heading(
        "Storage",
        f"Alice's three walks stored {objects} objects, {size / 1000:,.0f} kB. Bob, who may see"
        f" the same, walked {len(pages)} pages, added {shared}.",
    )


async def _show_refusals(stage: _Stage) -> None:
    clock = stage.catalog.clock
    cursors = {
        era: (await stage.connections["alice", era].client.list_tools()).next_cursor or ""
        for era in ERAS
    }
    found: dict[str, list[Found]] = {}
    tried = []
    for era, other in zip(ERAS, reversed(ERAS), strict=True):
        users = {user: stage.connections[user, era] for user in stage.users.tokens}
        tried = await attempts(users["alice"], era, cursors[other], clock)
        found[era] = await try_cursors(tried, users, clock)
    stage.report.heading(
        "Cursors that are refused",
        "Each is sent raw and by the official client. The error on the wire is always",
        f"{json.dumps(REFUSED)} and nothing more.",
    )
    show_refusals(stage.report, tried, dict(found))


async def _show_speed(stage: _Stage) -> None:
    stage.report.heading(
        "Time per page",
        f"Over HTTP, the best of {ROUNDS} walks. Plain offsets: a low-level server of the SDK that",
        "makes the whole list for every page and slices it, as FastMCP does.",
    )
    clients = {
        "cursorkit": stage.connections["alice", MODERN].client,
        _OFFSETS: stage.offsets.client,
    }
    show_speed(stage.report, await time_walks(clients))
