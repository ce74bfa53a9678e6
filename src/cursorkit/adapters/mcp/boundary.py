"""What a client may see of an error: one of two frozen messages, on every revision and transport.

The SDK answers 2025 revisions with the text of whatever exception leaves a handler, so none leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

from cursorkit.errors import CursorError

__all__ = ["Boundary", "boundary"]

_log: Final = logging.getLogger("cursorkit")


class Boundary:
    """Lets one error pass: what the handler below raised on a first page is the host's own word."""

    def __init__(self) -> None:
        self._passing: MCPError | None = None

    @contextmanager
    def passes(self) -> Generator[None]:
        """Let an `MCPError` that is raised inside through to the client, unchanged."""
        try:
            yield
        except MCPError as error:
            self._passing = error
            raise

    def lets_pass(self, error: Exception) -> bool:
        """Return whether this very error was raised inside `passes`."""
        return error is self._passing


@contextmanager
def boundary(method: str) -> Generator[Boundary]:
    """Turn every exception that is raised inside into what a client may see; log the real one.

    Cancellation is no `Exception`, and passes untouched.

    Raises:
        MCPError: "Invalid cursor" for every `CursorError`, else "Internal error"; no data.
    """
    here = Boundary()
    try:
        yield here
    except CursorError:
        # Logged where it was refused, with its reason.
        raise MCPError(INVALID_PARAMS, "Invalid cursor") from None
    except Exception as error:
        if here.lets_pass(error):
            raise
        _log.exception("%s failed; its client sees an internal error", method)
        raise MCPError(INTERNAL_ERROR, "Internal error") from None
