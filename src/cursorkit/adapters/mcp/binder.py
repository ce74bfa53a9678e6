"""What the cursors of a request are bound to."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from logging import WARNING
from typing import Any, Final, TypeAlias, TypeVar

from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import authenticated_principal

from cursorkit.binding import Binding
from cursorkit.errors import (
    ConfigurationError,
    EncodingError,
    InvalidCursorError,
    RefusalReason,
)
from cursorkit.paginators.snapshot import settled
from cursorkit.refusals import hosts_own, is_logged, log_refused

__all__ = [
    "AuthEpoch",
    "Bind",
    "Binder",
    "Context",
    "Principal",
    "check_callable",
    "refused",
    "scopes_epoch",
]

Context: TypeAlias = ServerRequestContext[Any, Any]
"""The SDK's context of a request."""

Principal: TypeAlias = Callable[[Context], str | None | Awaitable[str | None]]
"""Says whom a request's cursors belong to; None for nobody in particular. Not the token's text,
which changes when it is refreshed."""

AuthEpoch: TypeAlias = Callable[[Context], str | None | Awaitable[str | None]]
"""Returns whatever changes when the principal's grants change."""

Bind: TypeAlias = Callable[[Context, Binding], Binding | Awaitable[Binding]]
"""Returns the binding with a partition, a locale or further params."""

T = TypeVar("T")

_log: Final = logging.getLogger("cursorkit")

_NOT_BOUND: Final = frozenset({"cursor", "_meta"})


def scopes_epoch(ctx: Context) -> str | None:
    """Return a digest of the access token's scopes, None without a token."""
    token = get_access_token()
    if token is None:
        return None
    return hashlib.sha256(json.dumps(sorted(set(token.scopes))).encode()).hexdigest()


class Binder:
    """Makes bindings from requests.

    Args:
        audience: The service that mints the cursors.
        principal: As `Principal`, or None.
        auth_epoch: As `AuthEpoch`, or None.
        bind: As `Bind`, or None.

    Raises:
        ConfigurationError: If `audience` is no text or empty, or another argument no callable.
    """

    def __init__(
        self,
        *,
        audience: str,
        principal: Principal | None,
        auth_epoch: AuthEpoch | None,
        bind: Bind | None,
    ) -> None:
        if type(audience) is not str or not audience:
            raise ConfigurationError(
                f"audience is {'empty' if audience == '' else f'a {type(audience).__name__}'};"
                " give the name of your service, the same text on every node"
            )
        self._audience = audience
        self._principal = check_callable("principal", principal)
        self._auth_epoch = check_callable("auth_epoch", auth_epoch)
        self._bind = check_callable("bind", bind)
        self._warned = False

    @property
    def is_for_everybody(self) -> bool:
        """Whether cursors are the same whoever asks: judged by settings, not by one request."""
        return self._principal is None and self._auth_epoch is None and self._bind is None

    async def bind(self, ctx: Context, method: str, cursor: object) -> Binding:
        """Return the binding of a request for a page of `method`.

        Raises:
            InvalidCursorError: If the request's params have no canonical form.
            TypeError: If a callback returns another type than it should.
        """
        with hosts_own():
            principal = await self._text("principal", self._principal, ctx)
            auth_epoch = await self._text("auth_epoch", self._auth_epoch, ctx)
        self._warn_of_shared_principals()
        given = ctx.params or {}
        params = {name: value for name, value in given.items() if name not in _NOT_BOUND}
        try:
            binding = Binding(
                method,
                audience=self._audience,
                principal=principal,
                protocol_version=ctx.protocol_version,
                auth_epoch=auth_epoch,
                params=params,
            )
        except EncodingError:
            _check_params(params, method, cursor)
            raise
        if self._bind is None:
            return binding
        with hosts_own():
            bound = await settled(self._bind(ctx, binding))
        if not isinstance(bound, Binding):
            raise TypeError(f"bind returned a {type(bound).__name__}, not a Binding")
        return bound

    async def _text(self, name: str, callback: Principal | None, ctx: Context) -> str | None:
        if callback is None:
            return None
        value = await settled(callback(ctx))
        if value is not None and type(value) is not str:
            raise TypeError(f"{name} returned a {type(value).__name__}, not a str or None")
        return value

    def _warn_of_shared_principals(self) -> None:
        if self._warned or self._principal is not authenticated_principal:
            return
        token = get_access_token()
        if token is not None and token.subject is None:
            self._warned = True
            _log.warning(
                "an access token names a client but no subject: all who use that client are one"
                " principal, and each other's cursors work for them; have the token verifier set"
                " the subject, or give a principal of your own"
            )


def _check_params(params: Mapping[str, Any], method: str, cursor: object) -> None:
    """Raise `InvalidCursorError` if it is the client's params that have no canonical form."""
    try:
        Binding(method, params=params)
    except EncodingError:
        raise refused("binding", cursor, method) from None


def refused(reason: RefusalReason, cursor: object, method: str) -> InvalidCursorError:
    """Return the error to raise for a cursor that comes to no codec, and log it."""
    error = InvalidCursorError(reason)
    if is_logged(WARNING):
        log_refused(error, cursor, Binding(method), None, kid_known=False)
    return error


def check_callable(name: str, value: T | None) -> T | None:
    """Return `value` if it is a callable or None.

    Raises:
        ConfigurationError: If it is anything else.
    """
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name} is a {type(value).__name__}; give a callable or None")
    return value
