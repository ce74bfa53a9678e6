"""Walks of a list that changes under them, and what became of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcp import Client
from rich.table import Table

from cursorkit.cli.demo.http import Connection
from cursorkit.cli.demo.report import Report
from cursorkit.cli.demo.servers import Catalog

__all__ = ["CHANGED_AFTER", "Walk", "pages_of", "show_walk", "walk_table", "walk_while_changing"]

CHANGED_AFTER: Final = (1, 3)
"""After which pages the list changes."""

_CHANGED: Final = 5
"""Tools that are removed each time, and added."""

_MOST_PAGES: Final = 100


async def pages_of(
    client: Client, after_page: Callable[[int, list[str]], Awaitable[None]] | None = None
) -> list[list[str]]:
    """Walk ``tools/list`` and return the names on each page.

    Args:
        client: Fetches the pages.
        after_page: Called with the number of each page that has a next one, and all names so far.

    Raises:
        RuntimeError: If the walk does not end.
    """
    pages: list[list[str]] = []
    cursor: str | None = None
    while len(pages) < _MOST_PAGES:
        result = await client.list_tools(cursor=cursor)
        pages.append([tool.name for tool in result.tools])
        cursor = result.next_cursor
        if cursor is None:
            return pages
        if after_page is not None:
            await after_page(len(pages), [name for page in pages for name in page])
    raise RuntimeError(f"the walk did not end within {_MOST_PAGES} pages")


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk: the list at its first request, at its end, and what was seen."""

    first: list[str]
    last: list[str]
    pages: list[list[str]]
    listings: int

    @property
    def seen(self) -> list[str]:
        """All names, page by page."""
        return [name for page in self.pages for name in page]

    @property
    def duplicates(self) -> int:
        """Names that were seen before."""
        return len(self.seen) - len(set(self.seen))

    @property
    def missing(self) -> int:
        """Names that were there from the first request to the last, and were never seen."""
        return len((set(self.first) & set(self.last)) - set(self.seen))


async def walk_while_changing(catalog: Catalog, connection: Connection) -> Walk:
    """Walk the list, and remove and add tools between pages."""

    async def change(page: int, seen: list[str]) -> None:
        if page in CHANGED_AFTER:
            current = await catalog.names()
            known = set(seen)
            before = [name for name in current if name in known][: _CHANGED - 1]
            ahead = [name for name in current if name not in known][:1]
            catalog.change(before + ahead, _CHANGED)

    first = await catalog.names()
    listings = catalog.listings
    pages = await pages_of(connection.client, change)
    return Walk(first, await catalog.names(), pages, catalog.listings - listings)


def walk_table(report: Report) -> Table:
    """Return a table for walks."""
    columns = ("paged by", "revision", "pages", "items", "duplicates", "missing", "listings")
    return report.table(*columns, "as at its start", right=frozenset(range(2, 7)))


def show_walk(report: Report, table: Table, revision: str, walk: Walk) -> None:
    """Add a row of a walk by cursorkit; each cell is a claim."""
    where = f"walk, {revision}:"
    pages, items = len(walk.pages), len(walk.seen)
    exact = walk.seen == walk.first
    table.add_row(
        "cursorkit",
        revision,
        report.cell(pages, f"{where} all in one page", pages > 1),
        report.cell(
            items, f"{where} {items} items, not {len(walk.first)}", items == len(walk.first)
        ),
        report.cell(walk.duplicates, f"{where} {walk.duplicates} duplicates", not walk.duplicates),
        report.cell(walk.missing, f"{where} {walk.missing} missing", not walk.missing),
        report.cell(walk.listings, f"{where} {walk.listings} listings, not 1", walk.listings == 1),
        report.cell("yes" if exact else "no", f"{where} not the list of its first request", exact),
    )
