"""Pages for FastMCP 4: the same middleware as for the SDK's servers, installed into an app.

Needs the extra ``cursorkit[fastmcp]``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

try:
    from fastmcp import FastMCP
except ImportError as _error:
    raise ImportError(
        "cursorkit.adapters.fastmcp needs FastMCP, version 4.2 or later:"
        " pip install 'cursorkit[fastmcp]'"
    ) from _error
from mcp.server import Server
from mcp.server.mcpserver import authenticated_principal

from cursorkit.adapters.mcp import CursorPagination, scopes_epoch
from cursorkit.adapters.mcp.binder import AuthEpoch, Bind, Principal
from cursorkit.adapters.mcp.pager import DEFAULT_MAX_PAGES, DEFAULT_PAGE_SIZE, Visible
from cursorkit.errors import ConfigurationError
from cursorkit.paginators.snapshot import SnapshotPaginator

__all__ = ["paginate"]

_MISSING: Final = object()


def paginate(
    app: FastMCP[Any],
    paginator: SnapshotPaginator,
    *,
    audience: str | None = None,
    principal: Principal | None = authenticated_principal,
    auth_epoch: AuthEpoch | None = scopes_epoch,
    bind: Bind | None = None,
    visible: Visible | None = None,
    page_size: int = DEFAULT_PAGE_SIZE,
    page_sizes: Mapping[str, int | None] | None = None,
    max_pages: int | None = DEFAULT_MAX_PAGES,
    max_page_bytes: int | None = None,
) -> CursorPagination:
    """Page the lists of a FastMCP app, skills included, and keep each walk one list.

    ::

        app = FastMCP("catalog")
        paginate(app, paginator)

    Where things are: the app's auth, its transforms, its mounted servers and what its own
    middleware hides from a list come first, once a walk; what they let through is what is paged.

    - **Mounted servers**: install it on the root. What is installed on a mounted server serves
      only the clients that connect to that server itself.
    - **FastMCP's middleware**: for a later page `on_list_tools` and the like do not run, and
      `on_message` and `on_request` only if its cursor is refused. Whoever filters by more than the
      token's scopes gives `visible` or an `auth_epoch`, as `CursorPagination` explains. What must
      see every request, to limit or to bill it, belongs in front of the app, in the HTTP server.
    - **Auth**: some of FastMCP's verifiers name no subject (`DebugTokenVerifier`,
      `InMemoryOAuthProvider`), so that all who use one client are one principal, and each other's
      cursors work for them. A warning in the log says so, once. Give a `principal` of your own
      then; FastMCP's `get_access_token` and `get_http_headers` work in it.
    - **A context in a tool**: `ctx.list_tools` and the like see the whole list, not pages.

    FastMCP has no public place for middleware that sees cursors, so the private one is used.
    Whether it is there is checked at once, not at the first request.

    Args:
        app: Built with ``list_page_size=None``, FastMCP's default.
        paginator: Cuts the pages. Its own `page_size` is not used.
        audience: The service that mints the cursors; by default the app's name. A fleet needs the
            same on every node.
        principal: As for `CursorPagination`, like all that is not listed here.
        auth_epoch: What cursors die with.
        bind: Adds to the binding.
        visible: Asked on every page.
        page_size: Items a page; of skills at most 32.
        page_sizes: Items a page by method; None leaves that list as it is.
        max_pages: The longest walk.
        max_page_bytes: The most bytes of items a page.

    Returns:
        The middleware, now in its place.

    Raises:
        ConfigurationError: If the app pages by itself, is paged already, has neither a name of its
            own nor an `audience`, or is of a release whose inside is another; or if an argument is
            out of range.
    """
    server = _server_of(app)
    _check_unpaged(app, server)
    pagination = CursorPagination(
        paginator,
        audience=_name_of(app) if audience is None else audience,
        principal=principal,
        auth_epoch=auth_epoch,
        bind=bind,
        visible=visible,
        page_size=page_size,
        page_sizes=page_sizes,
        max_pages=max_pages,
        max_page_bytes=max_page_bytes,
    )
    # Last, so innermost: FastMCP's context of the request is there for the callbacks.
    server.middleware.append(pagination)
    pagination.take_from(server)
    return pagination


def _server_of(app: object) -> Server[Any]:
    """Return the SDK's server inside an app."""
    if not isinstance(app, FastMCP):
        raise ConfigurationError(f"app is a {type(app).__name__}; give a FastMCP")
    server: Any = getattr(cast("object", app), "_mcp_server", None)
    if not _has_middleware(server):
        raise _moved("_mcp_server.middleware")
    found: Server[Any] = server
    return found


def _has_middleware(server: object) -> bool:
    return isinstance(getattr(server, "middleware", None), list) and isinstance(server, Server)


def _check_unpaged(app: FastMCP[Any], server: Server[Any]) -> None:
    own = getattr(app, "_list_page_size", _MISSING)
    if own is _MISSING:
        raise _moved("_list_page_size")
    if own is not None:
        raise ConfigurationError(
            f"the app has list_page_size={own}, and paged twice its lists would be cut short;"
            " leave it out, and give page_size to paginate"
        )
    if any(isinstance(each, CursorPagination) for each in server.middleware):
        raise ConfigurationError("the app is paged already; call paginate once")


def _moved(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"this release of FastMCP has no {name}, which paginate needs; use a release from 4.2 on"
        " and before 5, or a newer cursorkit"
    )


def _name_of(app: FastMCP[Any]) -> str:
    """Return the app's name, if it was given one: FastMCP makes up another for each process."""
    made_up = rf"{re.escape(type(app).__name__)}-[0-9a-f]{{4}}"
    if re.fullmatch(made_up, app.name):
        raise ConfigurationError(
            "the app was given no name, and the one that FastMCP made up is another on each node"
            " and after each start, so that no cursor would outlive it; name the app, or give an"
            " audience"
        )
    return app.name
