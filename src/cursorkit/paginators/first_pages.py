"""First pages that are remembered while their list's `source_version` is unchanged."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["FirstPage", "FirstPages"]

_MAX_COUNT: Final = 1000
_MAX_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The first page of a list, as it was cut.

    Attributes:
        payloads: The items' bytes.
        total: Items in the list.
        page_size: Items a page of the walk.
        root: The snapshot's name; None if the list fits this page, so that there is none.
        deadline: Until when the store keeps the snapshot, Unix seconds.
    """

    payloads: Sequence[bytes] = field(repr=False)
    total: int
    page_size: int
    root: bytes | None
    deadline: int


class FirstPages:
    """The most recently used first pages, at most 1,000 of them and 16 MiB. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: OrderedDict[bytes, FirstPage] = OrderedDict()
        self._bytes = 0

    def get(self, name: bytes, deadline: int) -> FirstPage | None:
        """Return a page whose snapshot is kept until `deadline` at least."""
        with self._lock:
            page = self._pages.get(name)
            if page is None or (page.root is not None and page.deadline < deadline):
                return None
            self._pages.move_to_end(name)
            return page

    def put(self, name: bytes, page: FirstPage) -> None:
        """Remember a page."""
        with self._lock:
            self._forget(self._pages.pop(name, None))
            self._pages[name] = page
            self._bytes += _size(page)
            while len(self._pages) > _MAX_COUNT or self._bytes > _MAX_BYTES:
                self._forget(self._pages.popitem(last=False)[1])

    def forget(self, root: bytes) -> None:
        """Forget the pages of a snapshot that the store has lost."""
        with self._lock:
            for name in [name for name, page in self._pages.items() if page.root == root]:
                self._forget(self._pages.pop(name))

    def _forget(self, page: FirstPage | None) -> None:
        if page is not None:
            self._bytes -= _size(page)


def _size(page: FirstPage) -> int:
    return sum(map(len, page.payloads))
