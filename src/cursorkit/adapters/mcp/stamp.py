"""The server's stamp on results: who it is. What a middleware answers is not stamped by the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp.server.context import CallNext
from mcp.types import SERVER_INFO_META_KEY

from cursorkit.adapters.mcp.binder import Context
from cursorkit.adapters.mcp.lists import wire_form

__all__ = ["discovered_stamp", "stamp_in"]


def stamp_in(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stamp that a result carries, nothing if it has none."""
    meta = wire.get("_meta")
    if not isinstance(meta, dict) or SERVER_INFO_META_KEY not in meta:
        return {}
    return {SERVER_INFO_META_KEY: meta[SERVER_INFO_META_KEY]}


async def discovered_stamp(ctx: Context, call_next: CallNext) -> dict[str, Any]:
    """Return the stamp of an answer that is cheap and always stamped, nothing if there is none."""
    meta = {name: value for name, value in (ctx.params or {}).items() if name == "_meta"}
    try:
        request = replace(ctx, method="server/discover", params=meta)
        return stamp_in(wire_form(await call_next(request)) or {})
    except Exception:  # noqa: BLE001  # whatever fails there, what is to be stamped is good
        return {}
