"""Tools and prompts, called by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from cursorkit.catalogs.base import Entry, Registry

__all__ = ["Handler", "PromptCatalog", "ToolCatalog"]

Handler: TypeAlias = Callable[[Mapping[str, Any], Any], Any]
"""Gets the arguments and the host's context of the request; returns the result, or awaits it."""


class _Named(Registry[Handler]):
    _name_key = "name"

    def add(self, entry: Entry, handler: Handler) -> None:
        """Add an entry at the end, or replace that of the same name where it stands.

        Args:
            entry: As it goes on the wire, or a model that dumps to that; a copy is kept.
            handler: Answers for it, sync or async.

        Raises:
            ConfigurationError: If it has no name.
            SourceError: If it is not JSON.
        """
        self._put(self._wire(entry), handler)

    async def _answer(self, name: str, arguments: Mapping[str, Any], context: Any) -> Any:
        answer = self._handler(name)(arguments, context)
        return await answer if inspect.isawaitable(answer) else answer


class ToolCatalog(_Named):
    """An ordered catalog of tools."""

    method = "tools/list"

    async def call(self, name: str, arguments: Mapping[str, Any], context: Any = None) -> Any:
        """Return what the handler of a tool returns.

        Raises:
            NotRegistered: If there is no such tool.
        """
        return await self._answer(name, arguments, context)


class PromptCatalog(_Named):
    """An ordered catalog of prompts."""

    method = "prompts/list"

    async def get(self, name: str, arguments: Mapping[str, str], context: Any = None) -> Any:
        """Return what the handler of a prompt returns.

        Raises:
            NotRegistered: If there is no such prompt.
        """
        return await self._answer(name, arguments, context)
