"""Takes a list from its handler before the SDK shapes it, and shapes it a piece at a time.

The SDK makes three forms of a whole list, all there at once, and the garbage collector goes through
each of them again and again: of a long list that is most of what a first page costs. Shaped a piece
at a time, and kept as bytes, it is the same list, byte for byte.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import anyio.lowlevel
from mcp.server import Server
from mcp.types.methods import MONOLITH_RESULTS, serialize_server_result
from pydantic import BaseModel

from cursorkit.adapters.mcp.binder import Context
from cursorkit.adapters.mcp.items import Shaped
from cursorkit.adapters.mcp.lists import LISTS, ListSpec

__all__ = ["Caught", "catching", "make_catchable"]

_PIECE: Final = 16
"""Items shaped at once: so few that what is made of them is gone before the collector ages it."""

_Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


class Caught:
    """The list of a handler's answer; nothing until it has one that can be caught.

    Args:
        server: Whose handler is asked. Others that it asks in turn keep their answers.
    """

    def __init__(self, server: Server[Any]) -> None:
        self.server = server
        self._model: type[BaseModel] | None = None
        self._field = ""
        self._items: Sequence[BaseModel] = ()

    def catch(self, result: BaseModel, spec: ListSpec) -> BaseModel:
        """Keep a result's list, and return the result without it."""
        model = type(result)
        names = {field.alias or name: name for name, field in model.model_fields.items()}
        field = names.get(spec.result_key)
        if field is None:
            return result
        self._model, self._field, self._items = model, field, getattr(result, field)
        return result.model_copy(update={field: []})

    def shaped(self, spec: ListSpec, version: str) -> AsyncGenerator[Shaped] | None:
        """Return the list as it goes on the wire of a revision, None if nothing was caught."""
        return None if self._model is None else self._shape(self._model, spec, version)

    async def _shape(
        self, model: type[BaseModel], spec: ListSpec, version: str
    ) -> AsyncGenerator[Shaped]:
        # Taken from the end of a list of their own, so that each is gone when it is shaped.
        items, self._items = list(reversed(self._items)), ()
        while items:
            await anyio.lowlevel.checkpoint()
            members: dict[str, Any] = {self._field: items[: -_PIECE - 1 : -1]}
            del items[-_PIECE:]
            piece = model.model_construct(**members)
            dumped = piece.model_dump(by_alias=True, mode="json", exclude_none=True)
            wire = serialize_server_result(spec.method, version, dumped)
            for item in wire[spec.result_key]:
                yield Shaped(spec.item_key, item)


_catching: Final[ContextVar[Caught | None]] = ContextVar("cursorkit_catching", default=None)


@contextmanager
def catching(server: Server[Any]) -> Generator[Caught]:
    """Catch the list of the server's handler that is called inside, if it can be caught."""
    caught = Caught(server)
    token = _catching.set(caught)
    try:
        yield caught
    finally:
        _catching.reset(token)


def make_catchable(server: Server[Any]) -> None:
    """Let the lists of a server's handlers be caught, those of the SDK's own methods."""
    for method, spec in LISTS.items():
        entry = server.get_request_handler(method)
        if entry is not None and method in MONOLITH_RESULTS:
            handler = _catchable(server, spec, entry.handler)
            server.add_request_handler(method, entry.params_type, handler)


def _catchable(server: Server[Any], spec: ListSpec, handler: _Handler) -> _Handler:
    async def catchable(ctx: Context, params: Any) -> Any:
        result = await handler(ctx, params)
        caught = _catching.get()
        if caught is None or caught.server is not server or ctx.method != spec.method:
            return result
        return caught.catch(result, spec) if isinstance(result, BaseModel) else result

    return catchable
