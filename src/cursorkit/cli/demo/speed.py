"""The time per page, beside the same walk with plain offsets."""

from __future__ import annotations

import time
from typing import Final

from mcp import Client

from cursorkit.cli.demo.report import Report

__all__ = ["ROUNDS", "show_speed", "time_walks"]

ROUNDS: Final = 9
"""Walks by each client."""


async def time_walks(clients: dict[str, Client]) -> dict[str, list[float]]:
    """Walk by each client, in turns; return the best time of each page in seconds."""
    best: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, client in clients.items():
            times = await _page_times(client)
            best[name] = [min(pair) for pair in zip(best.get(name, times), times, strict=True)]
    return best


async def _page_times(client: Client) -> list[float]:
    times: list[float] = []
    cursor: str | None = None
    while True:
        start = time.perf_counter()
        cursor = (await client.list_tools(cursor=cursor)).next_cursor
        times.append(time.perf_counter() - start)
        if cursor is None:
            return times


def show_speed(report: Report, times: dict[str, list[float]]) -> None:
    """Print the times of two, and their ratios. Nothing is claimed here."""
    columns = ("paged by", "first page", "a later page", "a page of the walk")
    table = report.table(*columns, right=frozenset(range(1, 4)))
    figures = {name: _figures(pages) for name, pages in times.items()}
    for name, row in figures.items():
        table.add_row(name, *(f"{seconds * 1000:.1f} ms" for seconds in row))
    ours, theirs = figures.values()
    ratios = (f"{mine / other:.2f}" for mine, other in zip(ours, theirs, strict=True))
    table.add_row("ratio", *ratios, style="bold")
    report.console.print(table)


def _figures(pages: list[float]) -> tuple[float, float, float]:
    """Return the first page's time, and the means of the later ones and of all."""
    return pages[0], sum(pages[1:]) / max(len(pages) - 1, 1), sum(pages) / len(pages)
