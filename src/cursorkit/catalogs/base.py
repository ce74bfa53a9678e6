"""What a catalog is: an ordered, mutable registry that feeds a list handler.

A catalog of your own, over a database say, implements `Catalog` and the read side of its list.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from cursorkit.checks import check_int
from cursorkit.errors import ConfigurationError, NotRegistered
from cursorkit.items import JsonItems
from cursorkit.paginators.snapshot import SourceVersion
from cursorkit.positions import MAX_PAGE_SIZE

__all__ = [
    "CacheHint",
    "Catalog",
    "Entries",
    "Entry",
    "Listeners",
    "Prompts",
    "Registry",
    "Resources",
    "Skills",
    "Tools",
    "Unsubscribe",
    "WireEntry",
]

Entry: TypeAlias = Mapping[str, Any] | BaseModel
"""An entry of a list: as it goes on the wire, or a model that dumps to that by alias."""

WireEntry: TypeAlias = dict[str, Any]
"""An entry as it goes on the wire."""

Entries: TypeAlias = Iterable[Entry] | AsyncIterable[Entry]
"""Entries in the list's order."""

Unsubscribe: TypeAlias = Callable[[], None]
"""Ends a subscription; further calls do nothing."""


class CacheHint(Protocol):
    """What a catalog says of caching its list; the SDK's `mcp.server.CacheHint` has this shape."""

    @property
    def ttl_ms(self) -> int:
        """For how long a client may keep a page, in milliseconds."""
        ...

    @property
    def scope(self) -> Literal["public", "private"]:
        """Whether others than the principal who got the page may use it."""
        ...


class Catalog(Protocol):
    """An ordered list with a name for each entry, that may change.

    `context` is whatever the host knows of a request; the catalogs of cursorkit never read it.
    """

    @property
    def method(self) -> str:
        """The list that it feeds, for example ``"tools/list"``."""
        ...

    @property
    def page_size(self) -> int | None:
        """Items a page; None takes the setting that all lists share."""
        ...

    @property
    def cache_hint(self) -> CacheHint | None:
        """What clients are told of caching; None takes the host's setting."""
        ...

    @property
    def version(self) -> SourceVersion | None:
        """Changes whenever the list does, and never comes back; None lists for each walk."""
        ...

    def entries(self, context: Any) -> Entries | Awaitable[Entries]:
        """Return all entries, in their order."""
        ...

    def on_list_changed(self, callback: Callable[[], None]) -> Unsubscribe:
        """Have `callback` called after each change, also those made elsewhere, as in a database."""
        ...


class Tools(Catalog, Protocol):
    """A catalog for ``tools/list`` and ``tools/call``."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: Any) -> Any:
        """Return the result of a tool.

        Raises:
            NotRegistered: If there is no such tool.
        """
        ...


class Prompts(Catalog, Protocol):
    """A catalog for ``prompts/list`` and ``prompts/get``."""

    async def get(self, name: str, arguments: Mapping[str, str], context: Any) -> Any:
        """Return the messages of a prompt.

        Raises:
            NotRegistered: If there is no such prompt.
        """
        ...


class Resources(Catalog, Protocol):
    """A catalog for ``resources/list`` or ``resources/templates/list``, and ``resources/read``."""

    async def read(self, uri: str, context: Any) -> Any:
        """Return the contents of a resource.

        Raises:
            NotRegistered: If the catalog knows nothing of this URI; another may be asked.
            NotFound: If it is this catalog's to answer, and there is nothing.
        """
        ...


class Skills(Catalog, Protocol):
    """A catalog for ``skills/list``, ``skills/get`` and ``resources/directory/read``.

    An entry is named by the URI of its ``SKILL.md``: ``.../name/SKILL.md``.
    """

    async def get(self, uri: str, context: Any) -> Entry:
        """Return the entry of a skill as it is now, whether it is listed or not.

        Raises:
            NotRegistered: If there is no such skill.
        """
        ...

    async def directory(self, uri: str, context: Any) -> Entries:
        """Return what is in a directory, as resources.

        Raises:
            NotFound: If there is no such directory.
        """
        ...

    async def read(self, uri: str, context: Any) -> Any:
        """Return the contents of a file of a skill, as a result of ``resources/read``.

        Raises:
            NotRegistered: If the catalog knows nothing of this URI; another may be asked.
            NotFound: If it is this catalog's to answer, and there is nothing.
        """
        ...


_log: Final = logging.getLogger("cursorkit")
_JSON: Final = JsonItems()


class Listeners:
    """Callbacks, called in the order in which they came. For catalogs to implement their side."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], None]] = {}

    def subscribe(self, callback: Callable[[], None]) -> Unsubscribe:
        """Add a callback; a callback that is added twice is called twice."""
        subscription = object()
        self._callbacks[subscription] = callback

        def unsubscribe() -> None:
            self._callbacks.pop(subscription, None)

        return unsubscribe

    def notify(self) -> None:
        """Call each callback once. One that fails is logged, and keeps no other from its call."""
        for subscription, callback in list(self._callbacks.items()):
            if subscription in self._callbacks:
                try:
                    callback()
                except Exception:  # noqa: BLE001  # whatever it raises, the change is made
                    _log.exception("a listener failed; the catalog has changed all the same")


HandlerT = TypeVar("HandlerT")


class Registry(Generic[HandlerT]):
    """What the built-in catalogs share: entries in the order in which their names first came.

    Safe under threads. Listeners are called synchronously, in the thread that makes the change.

    Args:
        page_size: Items a page of this list, 1 to 10,000; None takes the setting of all lists.
        cache_hint: What clients are told of caching this list; None takes the host's setting.

    Raises:
        ConfigurationError: If `page_size` is out of range.
    """

    method: ClassVar[str]
    _name_key: ClassVar[str]

    def __init__(
        self, *, page_size: int | None = None, cache_hint: CacheHint | None = None
    ) -> None:
        if page_size is not None:
            check_int("page_size", page_size, 1, MAX_PAGE_SIZE)
        self.page_size = page_size
        self.cache_hint = cache_hint
        self._rows: dict[str, tuple[WireEntry, HandlerT]] = {}
        self._lock = threading.Lock()
        self._listeners = Listeners()
        # A count alone would be the same for two catalogs, or after a restart.
        self._origin = secrets.token_hex(8)
        self._changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def version(self) -> str:
        """Another text after each change; no other catalog ever has the same."""
        return f"{self._origin}-{self._changes}"

    def entries(self, context: Any = None) -> list[WireEntry]:
        """Return all entries, in their order. They are the catalog's: do not change them."""
        del context
        with self._lock:
            return [entry for entry, _ in self._rows.values()]

    def find(self, name: str) -> WireEntry | None:
        """Return the entry of a name (or URI), None if there is none."""
        row = self._rows.get(name)
        return None if row is None else row[0]

    def remove(self, name: str) -> bool:
        """Remove the entry of a name (or URI), and return whether it was there."""
        with self._lock:
            if self._rows.pop(name, None) is None:
                return False
            self._changes += 1
        self._listeners.notify()
        return True

    def on_list_changed(self, callback: Callable[[], None]) -> Unsubscribe:
        """Have `callback` called after each `add`, and each `remove` of something."""
        return self._listeners.subscribe(callback)

    def _put(self, entry: WireEntry, handler: HandlerT) -> None:
        with self._lock:
            self._check(entry[self._name_key], handler)
            self._rows[entry[self._name_key]] = (entry, handler)
            self._changes += 1
        self._listeners.notify()

    def _check(self, name: str, handler: HandlerT) -> None:
        """Raise if an entry goes together with no other; called under the lock."""

    def _handler(self, name: str) -> HandlerT:
        row = self._rows.get(name)
        if row is None:
            raise NotRegistered("the catalog has no such entry")
        return row[1]

    def _handlers(self) -> list[HandlerT]:
        with self._lock:
            return [handler for _, handler in self._rows.values()]

    def _wire(self, entry: Entry) -> WireEntry:
        """Return a copy of an entry as it goes on the wire."""
        if isinstance(entry, BaseModel):
            entry = entry.model_dump(mode="json", by_alias=True, exclude_none=True)
        wire: WireEntry = _JSON.decode(_JSON.encode(dict(entry)))
        name = wire.get(self._name_key)
        if type(name) is not str or not name:
            raise ConfigurationError(
                f"an entry of {self.method} needs a text as {self._name_key!r}"
            )
        return wire
