"""Pages of a live sequence by offset: what SDKs do today, with any codec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from cursorkit.binding import Binding, check_binding
from cursorkit.checks import check_int
from cursorkit.codecs.base import CursorCodec, check_codec
from cursorkit.paginators.page import Page
from cursorkit.positions import MAX_PAGE_SIZE, Offset

__all__ = ["OffsetPaginator"]

T = TypeVar("T")


class OffsetPaginator:
    """Slices a live sequence; nothing is stored.

    **A list that changes during a walk skips or repeats items**, as with every offset: use
    `SnapshotPaginator` where that matters. With `OffsetCodec` the cursors are forgeable, too.

    Args:
        codec: Mints and reads the cursors.
        page_size: Items a page, 1 to 10,000.

    Raises:
        ConfigurationError: If `page_size` is out of range.
    """

    def __init__(self, codec: CursorCodec, *, page_size: int = 50) -> None:
        check_codec(codec, "OffsetPaginator")
        self._codec = codec
        self._page_size = check_int("page_size", page_size, 1, MAX_PAGE_SIZE)

    def page(
        self,
        cursor: str | None,
        sequence: Sequence[T],
        binding: Binding,
        *,
        page_size: int | None = None,
    ) -> Page[T]:
        """Return a page.

        Args:
            cursor: None for the first page; "" is a cursor, and an invalid one.
            sequence: The whole list, as it is now.
            binding: What the cursors belong to.
            page_size: Overrides the paginator's.

        Raises:
            CursorError: If the cursor is refused; also one at or past the end of the list, which
                has shrunk since: a silent end would look like a complete walk.
            ConfigurationError: If `page_size` is out of range.
        """
        check_binding(binding)
        size = self._page_size
        if page_size is not None:
            size = check_int("page_size", page_size, 1, MAX_PAGE_SIZE)
        total = len(sequence)
        start, expires_at = 0, None
        if cursor is not None:
            decoded = self._codec.decode(cursor, binding)
            start, expires_at = decoded.expect(Offset).offset, decoded.expires_at
            if start >= total:
                raise decoded.refusal("range")
        end = start + size
        items = list(sequence[start:end])
        if end >= total:
            return Page(items, total=total)
        next_cursor = self._codec.encode(Offset(end), binding, expires_at=expires_at)
        if cursor is None:
            # The codec may have given it an expiry of its own.
            expires_at = self._codec.decode(next_cursor, binding).expires_at
        return Page(items, next_cursor, expires_at, total)
