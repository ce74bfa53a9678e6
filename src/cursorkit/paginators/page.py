"""What every paginator returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Page"]

T = TypeVar("T")


@dataclass(frozen=True)  # No slots: on Python 3.11 `Page[int](…)` would fail.
class Page(Generic[T]):
    """A page of a list.

    Attributes:
        items: The page's items, in the list's order. May be empty although a next page exists.
        next_cursor: The cursor of the next page; None on the last. Never "".
        expires_at: When its cursors end, absolute Unix seconds; None without one, or if they do not
            expire.
        total: Items in the whole walk, before `visible` hides any on a page; None if not known.
        previous_cursor: The cursor of the page before; None on the first, and always but for
            `KeysetPaginator`.
    """

    items: list[T]
    next_cursor: str | None = None
    expires_at: int | None = None
    total: int | None = None
    previous_cursor: str | None = None
