"""Cache hints, clamped to what holds for pages with cursors (revision 2026-07-28)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp.server import CacheHint

from cursorkit.paginators.page import Page

__all__ = ["hint_of", "ttl_ms"]


def hint_of(result: Mapping[str, Any]) -> CacheHint:
    """Return the hint that a result carries; what it does not say is private and stale at once."""
    ttl, scope = result.get("ttlMs"), result.get("cacheScope")
    return CacheHint(
        ttl_ms=ttl if type(ttl) is int and ttl > 0 else 0,
        scope="public" if scope == "public" else "private",
    )


def ttl_ms(wanted: int, page: Page[Any], clock: Callable[[], float]) -> int:
    """Return how long a first page may be cached, in milliseconds.

    At most half of what its cursor has left to live: a client that goes on from a cached page still
    has the other half for its walk.
    """
    if page.expires_at is None:
        return wanted
    return max(0, min(wanted, int((page.expires_at - clock()) * 500)))
