"""What keyset pages are compared with: rows sorted in plain Python, and walks over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from cursorkit import Binding, KeysetPaginator, Page
from cursorkit.paginators.keyset import KeysetPlan, SortKey

BINDING = Binding("rows", principal="alice", params={"tag": "x"})

Key = tuple[Any, ...]
Fetch = Callable[[KeysetPlan], Sequence[Any]]
"""Asks a database."""


def compare(order: Sequence[SortKey], left: Key, right: Key) -> int:
    """Return a number below, at or above 0 as `left` stands before, at or after `right`."""
    for part, one, other in zip(order, left, right, strict=True):
        if (one is None) != (other is None):
            return 1 if (one is None) == (part.nulls == "last") else -1
        if one is not None and one != other:
            return 1 if (one > other) != part.descending else -1
    return 0


def in_order(keys: Sequence[Key], order: Sequence[SortKey]) -> list[Key]:
    """Return keys sorted."""

    def by_order(left: Key, right: Key) -> int:
        return compare(order, left, right)

    return sorted(keys, key=cmp_to_key(by_order))


def answer(keys: Sequence[Key], plan: KeysetPlan) -> list[Key]:
    """Return what a database answers whose rows are nothing but keys."""
    after = plan.after
    found = [key for key in keys if after is None or compare(plan.order, key, after) > 0]
    return in_order(found, plan.order)[: plan.fetch]


class Walker:
    """Follows cursors both ways.

    Args:
        keyset: Under test.
        fetch: Asks a database, which may change with each call.
        key: As for `KeysetPaginator.finish`.
        page_size: Items a page.
    """

    def __init__(
        self,
        keyset: KeysetPaginator,
        fetch: Fetch,
        key: Callable[[Any], Key] = lambda row: row,
        *,
        page_size: int = 3,
    ) -> None:
        self._keyset = keyset
        self._fetch = fetch
        self._key = key
        self._page_size = page_size

    def page(self, cursor: str | None) -> Page[Any]:
        """Return one page."""
        plan = self._keyset.plan(cursor, BINDING, page_size=self._page_size)
        return self._keyset.finish(plan, self._fetch(plan), key=self._key)

    def forwards(self, cursor: str | None = None, *, most: int = 500) -> list[Page[Any]]:
        """Return all pages from a cursor on."""
        pages = [self.page(cursor)]
        while (following := pages[-1].next_cursor) is not None:
            pages.append(self.page(following))
            assert len(pages) <= most, "the walk does not end"
        return pages

    def backwards(self, page: Page[Any], *, most: int = 500) -> list[Page[Any]]:
        """Return all pages before a page, in the list's order."""
        pages: list[Page[Any]] = []
        cursor = page.previous_cursor
        while cursor is not None:
            pages.insert(0, self.page(cursor))
            cursor = pages[0].previous_cursor
            assert len(pages) <= most, "the walk does not end"
        return pages


def items_of(pages: Sequence[Page[Any]]) -> list[Any]:
    """Return the items of all pages."""
    return [item for page in pages for item in page.items]
