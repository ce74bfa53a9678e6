"""The read sides of catalogs: handlers for ``tools/call``, ``prompts/get``, ``resources/read``."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from cursorkit.adapters.mcp.binder import Context
from cursorkit.adapters.mcp.boundary import boundary
from cursorkit.catalogs.base import Prompts, Tools
from cursorkit.errors import NotFound, NotRegistered

__all__ = ["Reads", "call_handler", "get_handler", "read_handler"]

_log: Final = logging.getLogger("cursorkit")

_RESOURCE_NOT_FOUND: Final = -32002
"""On 2025 revisions; retired since, in favour of -32602."""

_Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


class Reads(Protocol):
    """What is needed of a catalog of resources, or of anything else that has URIs to read."""

    async def read(self, uri: str, context: Any) -> Any:
        """Return the contents of a URI, or raise `NotFound`, or `NotRegistered` to pass it on."""
        ...


def call_handler(tools: Tools) -> _Handler:
    """Return a handler for ``tools/call``. A tool that raises is a result that says it failed."""

    async def handler(ctx: Context, params: CallToolRequestParams) -> Any:
        with boundary("tools/call") as here, here.passes():
            try:
                result = await tools.call(params.name, params.arguments or {}, ctx)
            except NotRegistered:
                raise MCPError(INVALID_PARAMS, "Unknown tool") from None
            except MCPError:
                raise
            except Exception:  # noqa: BLE001  # its text may be anything, and goes to the log
                _log.exception("a tool failed; its client sees that, and no more")
                return CallToolResult(content=_text("The tool failed."), is_error=True)
            return CallToolResult(content=_text(result)) if isinstance(result, str) else result

    return handler


def get_handler(prompts: Prompts) -> _Handler:
    """Return a handler for ``prompts/get``."""

    async def handler(ctx: Context, params: GetPromptRequestParams) -> Any:
        with boundary("prompts/get") as here, here.passes():
            try:
                result = await prompts.get(params.name, params.arguments or {}, ctx)
            except NotRegistered:
                raise MCPError(INVALID_PARAMS, "Unknown prompt") from None
            if isinstance(result, str):
                message = PromptMessage(role="user", content=TextContent(text=result))
                return GetPromptResult(messages=[message])
            return result

    return handler


def read_handler(readers: Sequence[Reads]) -> _Handler:
    """Return a handler for ``resources/read``; who knows nothing of a URI lets the next answer."""

    async def handler(ctx: Context, params: ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        with boundary("resources/read") as here, here.passes():
            try:
                return _contents(uri, await _read(readers, uri, ctx))
            except NotFound:
                modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
                code = INVALID_PARAMS if modern else _RESOURCE_NOT_FOUND
                raise MCPError(code, "Resource not found", {"uri": uri}) from None

    return handler


async def _read(readers: Sequence[Reads], uri: str, ctx: Context) -> Any:
    for reader in readers:
        with suppress(NotRegistered):
            return await reader.read(uri, ctx)
    raise NotFound("no catalog knows the URI")


def _contents(uri: str, found: Any) -> Any:
    if isinstance(found, str):
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=found)])
    if isinstance(found, bytes):
        blob = base64.b64encode(found).decode()
        return ReadResourceResult(contents=[BlobResourceContents(uri=uri, blob=blob)])
    return found


def _text(text: str) -> list[Any]:
    return [TextContent(text=text)]
