"""Tells clients that a list has changed, where they can be told.

On 2026-07-28 that is on a ``subscriptions/listen`` stream, before on a connection that outlives
its requests. A bus of the SDK carries the word to both; one that spans processes carries it to
the clients of other nodes, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ServerNotification,
    SubscriptionsListenRequestParams,
    ToolListChangedNotification,
)

from cursorkit.adapters.mcp.binder import Context
from cursorkit.catalogs.base import Catalog, Unsubscribe
from cursorkit.errors import ConfigurationError

__all__ = ["announce_changes"]

_log: Final = logging.getLogger("cursorkit")

_LISTEN: Final = "subscriptions/listen"

_EVENTS: Final[Mapping[str, ServerEvent]] = {
    "tools/list": ToolsListChanged(),
    "prompts/list": PromptsListChanged(),
    "resources/list": ResourcesListChanged(),
    "resources/templates/list": ResourcesListChanged(),
}

_CAPABILITIES: Final[Mapping[ServerEvent, str]] = {
    ToolsListChanged(): "tools",
    PromptsListChanged(): "prompts",
    ResourcesListChanged(): "resources",
}

_NOTIFICATIONS: Final[Mapping[ServerEvent, ServerNotification]] = {
    ToolsListChanged(): ToolListChangedNotification(),
    PromptsListChanged(): PromptListChangedNotification(),
    ResourcesListChanged(): ResourceListChangedNotification(),
}

_GATHER: Final = 0.1
"""Seconds from a change until clients are told: all changes in between are one notification."""

_MAX_CONNECTIONS: Final = 10_000
"""Connections of 2025 revisions that are told; the SDK's own limit of sessions."""

_Lifespan: TypeAlias = Callable[[Server[Any]], AbstractAsyncContextManager[Any]]


def announce_changes(
    server: Server[Any], catalogs: Sequence[Catalog], bus: SubscriptionBus | None
) -> None:
    """Have the clients of a server told whenever one of the catalogs changes.

    Args:
        server: Not yet running.
        catalogs: Of the lists that it serves.
        bus: Carries the word; None for one within this process.

    Raises:
        ConfigurationError: If the server has a handler for ``subscriptions/listen``, and no `bus`
            is given.
    """
    watched = [catalog for catalog in catalogs if catalog.method in _EVENTS]
    if not watched:
        return
    listens = server.get_request_handler(_LISTEN) is not None
    if listens and bus is None:
        raise ConfigurationError(
            f"the server has a handler for {_LISTEN} of its own; give the bus of that handler as"
            " subscriptions, so that it hears of changes"
        )
    changes = _Changes(server, watched, InMemorySubscriptionBus() if bus is None else bus)
    changes.bus_is_own = bus is None
    if not listens:
        listen = ListenHandler(changes.bus)
        server.add_request_handler(_LISTEN, SubscriptionsListenRequestParams, listen)
    server.lifespan = changes.lifespan
    # First, so that no other middleware waits for as long as a connection lasts.
    server.middleware.insert(0, changes)


class _Changes:
    """Middleware and lifespan of a server whose lists change."""

    def __init__(
        self, server: Server[Any], catalogs: Sequence[Catalog], bus: SubscriptionBus
    ) -> None:
        self.bus = bus
        self.bus_is_own = False
        self._lifespan: _Lifespan = server.lifespan
        self._catalogs = catalogs
        self._capabilities = {_CAPABILITIES[_EVENTS[each.method]] for each in catalogs}
        self._connections: dict[int, object] = {}
        self._runs: list[_Run] = []
        self._unsubscribe: list[Unsubscribe] = []

    # The lifespan gives a task group on the server's event loop; listeners of a catalog are called
    # in whatever thread changes it.

    @asynccontextmanager
    async def lifespan(self, server: Server[Any]) -> AsyncGenerator[Any]:
        """Run with the server, inside its own lifespan."""
        async with self._lifespan(server) as state:
            failure: Exception | None = None
            async with BlockingPortal() as portal, anyio.create_task_group() as tasks:
                run = _Run(self.bus, portal, tasks)
                self._begin(run)
                try:
                    yield state
                except Exception as error:  # noqa: BLE001  # raised below, outside of the groups
                    failure = error
                finally:
                    self._end(run)
                    tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure

    def _begin(self, run: _Run) -> None:
        self._runs.append(run)
        if len(self._runs) == 1:
            self._unsubscribe = [
                catalog.on_list_changed(self._listener(_EVENTS[catalog.method]))
                for catalog in self._catalogs
            ]

    def _end(self, run: _Run) -> None:
        self._runs.remove(run)
        if not self._runs:
            for unsubscribe in self._unsubscribe:
                unsubscribe()
        for event in run.take():
            self._listener(event)()

    def _listener(self, event: ServerEvent) -> Callable[[], None]:
        def changed() -> None:
            # One run tells everybody: the bus is the same for all.
            for run in self._runs[:1]:
                run.changed(event)

        return changed

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Advertise what can be sent, and send it to connections of 2025 revisions."""
        result = await call_next(ctx)
        if isinstance(result, dict):
            # A channel that could carry a request is one that outlives this message.
            if ctx.method == "initialize" and ctx.session.can_send_request:
                self._advertise(result)
            elif ctx.method == "server/discover" and self.bus_is_own:
                self._withdraw(result)
        elif ctx.method == "notifications/initialized" and ctx.session.can_send_request:
            await self._tell(ctx.session)
        return result

    def _advertise(self, result: dict[str, Any]) -> None:
        for name, capability in result.get("capabilities", {}).items():
            if name in self._capabilities:
                capability["listChanged"] = True

    def _withdraw(self, result: dict[str, Any]) -> None:
        """Take back what the SDK advertises of every list as soon as one can be listened to."""
        for name, capability in result.get("capabilities", {}).items():
            if name in _CAPABILITIES.values():
                capability["listChanged"] = name in self._capabilities
                if "subscribe" in capability:
                    capability["subscribe"] = False

    async def _tell(self, session: ServerSession) -> None:
        """Pass on what the bus says, until the connection is closed and this is cancelled."""
        # One object for as long as the connection is not initialized anew.
        client = session.client_params
        known = id(client) in self._connections
        if client is None or known or len(self._connections) >= _MAX_CONNECTIONS:
            return
        news = _News()
        self._connections[id(client)] = client
        unsubscribe = self.bus.subscribe(news.add)
        try:
            while True:
                for event in await news.take():
                    await session.send_notification(_NOTIFICATIONS[event])
        finally:
            unsubscribe()
            del self._connections[id(client)]


class _News:
    """Events that wait for a slow connection, each once."""

    def __init__(self) -> None:
        self._events: dict[ServerEvent, None] = {}
        self._come = anyio.Event()

    def add(self, event: ServerEvent) -> None:
        """Keep an event that is a notification of a changed list."""
        if event in _NOTIFICATIONS:
            self._events[event] = None
            self._come.set()

    async def take(self) -> list[ServerEvent]:
        """Wait for events, and return them."""
        await self._come.wait()
        self._come = anyio.Event()
        events = list(self._events)
        self._events.clear()
        return events


class _Run:
    """One run of a server: where its event loop is, and what is to be told."""

    def __init__(self, bus: SubscriptionBus, portal: BlockingPortal, tasks: TaskGroup) -> None:
        self._bus = bus
        self._portal = portal
        self._tasks = tasks
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._events: dict[ServerEvent, None] = {}

    def changed(self, event: ServerEvent) -> None:
        """Have an event published soon. May be called in any thread."""
        with self._lock:
            first = not self._events
            self._events[event] = None
        if not first:
            return
        if threading.get_ident() == self._thread:
            self._tasks.start_soon(self._publish)
            return
        # A run that has just ended has nobody left to tell.
        with suppress(RuntimeError):
            self._portal.start_task_soon(self._tasks.start_soon, self._publish)

    def take(self) -> list[ServerEvent]:
        """Return the events that are not published yet."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    async def _publish(self) -> None:
        await anyio.sleep(_GATHER)
        for event in self.take():
            try:
                await self._bus.publish(event)
            except Exception:  # noqa: BLE001  # a bus that is down must not end the server
                _log.exception("clients were not told that a list has changed")
