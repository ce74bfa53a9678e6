"""What a soak walks: lists that change, and nodes of a service whose store is made to fail."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from benchmarks.servers import HOST, SERVERS, Proxy, Server, running
from cursorkit import (
    ExpiringCodec,
    Key,
    KeyRing,
    MemoryStore,
    SealedCodec,
    SignedCodec,
    SnapshotPaginator,
    SnapshotStore,
)
from cursorkit.healing import SnapshotStats
from cursorkit.stores.redis import RedisStore
from cursorkit.stores.tiered import TieredStore

if TYPE_CHECKING:
    from benchmarks.soak_walks import Walk

__all__ = [
    "KINDS",
    "NAMESPACE",
    "PRINCIPALS",
    "TIMEOUT",
    "ChangingList",
    "Clock",
    "Fleet",
    "Item",
    "MakePaginator",
    "Node",
    "Remote",
    "Version",
    "fleets_of",
    "shows",
]

Item: TypeAlias = dict[str, Any]
MakePaginator: TypeAlias = Callable[..., SnapshotPaginator]

KINDS: Final = ("memory", "redis", "tiered")
"""The stores that a fleet may have; all but the first have a server."""

NAMESPACE: Final = "soak"
PRINCIPALS: Final = ("alice", "bob", "carol")

TIMEOUT: Final = 2.0
"""Of the stores, in seconds."""

_RATE: Final = 10
"""How much faster than the servers' the nodes' clocks go: left alone for 5 s is half a second."""

_TTL: Final = 3600
_SKEW: Final = 0.7
"""Seconds by which each node's clock is ahead of the one before."""

_LEFT_ALONE: Final = 5
_REMEMBERED: Final = 30
"""Of `cursorkit.healing`: seconds for which a store and a list are not asked again."""

_SLACK: Final = 1.0
"""Seconds that a busy machine may be late in all of that."""

_NODES: Final = 4
_LENGTHS: Final = (6, 12, 25, 50, 280)
"""About as long are the lists; the last has nodes between its items and its root."""

_NEAR_AGE: Final = 30
_MIB: Final = 1024 * 1024


class Clock:
    """Unix seconds that pass faster than real ones.

    It starts at the real time and is ahead from then on, so that servers, which have a clock of
    their own, drop nothing early.

    Args:
        ahead: Seconds that it starts later.
    """

    def __init__(self, ahead: float = 0) -> None:
        self._start = time.time() + ahead
        self._began = time.monotonic()

    def __call__(self) -> float:
        return self._start + _RATE * (time.monotonic() - self._began)


@dataclass(frozen=True, eq=False)
class Version:
    """A list as it was for a while.

    Attributes:
        number: How many versions there were before.
        since: From when on, in seconds of `time.monotonic`.
        items: All of them, for whomever.
    """

    number: int
    since: float
    items: Sequence[Item]

    def view(self, principal: str) -> list[Item]:
        """Return what a principal may see."""
        return [item for item in self.items if shows(item, principal)]


def shows(item: Item, principal: str) -> bool:
    """Tell whether a principal may see an item."""
    hidden: str = item["hidden"]
    return hidden != principal


class ChangingList:
    """A list that changes, and what it was not long ago."""

    def __init__(self, name: str, length: int, draw: random.Random) -> None:
        self.name = name
        self._length = length
        self._made = 0
        items = [self._new(draw) for _ in range(length)]
        self.versions = deque([Version(0, time.monotonic(), items)], maxlen=300)

    @property
    def now(self) -> Version:
        return self.versions[-1]

    def change(self, draw: random.Random) -> None:
        """Add, remove, move or replace an item, or become again what it was before."""
        items = list(self.now.items)
        at, to = draw.randrange(len(items)), draw.randrange(len(items))
        how = draw.randrange(5)
        if how == 0 and len(items) < 1.2 * self._length:
            items.insert(at, self._new(draw))
        elif how == 1 and len(items) > 0.8 * self._length:
            del items[at]
        elif how == 2:
            items.insert(to, items.pop(at))
        elif how == 3:
            items = list(draw.choice(list(self.versions)[-4:]).items)
        else:
            items[at] = {**items[at], "revision": self._next()}
        self.versions.append(Version(self.now.number + 1, time.monotonic(), items))

    def differed(self, items: Sequence[Item], principal: str, begun: float, asked: float) -> bool:
        """Tell whether a node may have found that a list was another one since.

        Args:
            items: What the walk pages.
            principal: Whose view that is.
            begun: When the walk began, in seconds of `time.monotonic`.
            asked: When the page was asked for.
        """
        recent = asked - _REMEMBERED / _RATE - _SLACK
        known = begun < self.versions[0].since
        ends = [*[version.since for version in self.versions][1:], math.inf]
        for version, end in zip(self.versions, ends, strict=True):
            if version.view(principal) == items:
                known = True
            elif known and end >= recent:
                return True
        return False

    def _new(self, draw: random.Random) -> Item:
        number = self._next()
        return {
            "name": f"{self.name}-{number}",
            "revision": number,
            "hidden": draw.choice((*PRINCIPALS, "", "", "")),
            "description": draw.randbytes(draw.randrange(5, 40)).hex(),
        }

    def _next(self) -> int:
        self._made += 1
        return self._made


class Node:
    """A node of a service: a paginator with a codec, and a store of its own or a shared one.

    Attributes:
        patient: Whether its driver tries again by itself, and so waits where others ask anew.
    """

    def __init__(self, fleet: Fleet, number: int, make: MakePaginator) -> None:
        self.number = number
        self.patient = number % 2 == 0
        self.clock = Clock(number * _SKEW)
        self._fleet = fleet
        self._make = make
        self._store = fleet.make_store(self)
        self.paginator = self._paginator(fleet.ring)

    def restart(self) -> None:
        """Be a new process: know nothing of what was before."""
        self._store = self._fleet.make_store(self)
        self.use(self._fleet.ring)

    def use(self, ring: KeyRing) -> None:
        """Go on with another ring."""
        self._fleet.count(self.paginator.stats)
        self.paginator = self._paginator(ring)

    def _paginator(self, ring: KeyRing) -> SnapshotPaginator:
        codec = self._fleet.codec(ring, clock=self.clock)
        expiring = ExpiringCodec(codec, ttl=_TTL, clock=self.clock)
        return self._make(expiring, self._store, ttl=_TTL, clock=self.clock)


@dataclass
class _Trouble:
    """A time in which the server could not be asked, or connections to it were lost."""

    begun: float
    connection: bool
    ended: float = math.inf


@dataclass(frozen=True)
class Remote:
    """A server, the proxy through which nodes ask it, and a client that asks it directly."""

    server: Server
    proxy: Proxy
    admin: Any


class Fleet:
    """The nodes of a service and its lists.

    Args:
        name: Of its store and server.
        draw: Where its lists and keys come from.
        make_store: Makes a node's store, when it starts.
        codec: Of the nodes.
        make: Makes a paginator.
        remote: Its server; None if the nodes share a store in memory.
        memory: That store.

    Attributes:
        losses: Faults so far that may have lost objects.
        walks: Those under way.
        cancelling: Whether the next page is to be cancelled.
        cancelled: Set as soon as one was.
    """

    def __init__(
        self,
        name: str,
        draw: random.Random,
        make_store: Callable[[Node], SnapshotStore],
        *,
        codec: type[SignedCodec | SealedCodec],
        make: MakePaginator,
        remote: Remote | None = None,
        memory: MemoryStore | None = None,
    ) -> None:
        self.name = name
        self.remote = remote
        self.memory = memory
        self.make_store = make_store
        self.codec = codec
        self.losses = 0
        self.walks: set[Walk] = set()
        self.cancelling = False
        self.cancelled = asyncio.Event()
        self.lists = [ChangingList(f"{name}/{length}", length, draw) for length in _LENGTHS]
        self._troubles: deque[_Trouble] = deque(maxlen=1000)
        self._past = SnapshotStats()
        self._retired: dict[Key, float] = {}
        self.ring = KeyRing(Key(draw.randbytes(32)))
        self.nodes = [Node(self, number, make) for number in range(_NODES)]

    @property
    def stats(self) -> SnapshotStats:
        """What happened on all nodes that are and were."""
        found = [self._past, *(node.paginator.stats for node in self.nodes)]
        names = [each.name for each in fields(SnapshotStats)]
        return SnapshotStats(**{name: sum(getattr(each, name) for each in found) for name in names})

    def count(self, stats: SnapshotStats) -> None:
        """Keep the counts of a paginator that ends."""
        for each in fields(SnapshotStats):
            name = each.name
            setattr(self._past, name, getattr(self._past, name) + getattr(stats, name))

    @contextmanager
    def trouble(self, *, connection: bool = False) -> Generator[None]:
        """Note that the server is away or refuses, or that connections are lost, what is inside."""
        trouble = _Trouble(time.monotonic(), connection)
        self._troubles.append(trouble)
        self.losses += 1  # What is put meanwhile is not kept.
        try:
            yield
        finally:
            trouble.ended = time.monotonic()

    def late(self, begun: float, ended: float) -> None:
        """Note that this process or the server had no processor for a while."""
        self._troubles.append(_Trouble(begun, connection=False, ended=ended))

    def may_be_unavailable(self, node: Node, asked: float) -> bool:
        """Tell whether a page that was asked for then may be told that the store is unavailable.

        One connection that breaks is no reason, but for a driver that waits before it tries again.
        """
        recent = asked - TIMEOUT - _LEFT_ALONE / _RATE - _SLACK
        found = [each.connection for each in self._troubles if each.ended >= recent]
        return not all(found) or len(found) >= (1 if node.patient else 2)

    def last_trouble(self) -> str:
        """Return how long ago the server was not well, for the text of a violation."""
        if not self._troubles:
            return "never"
        last = max(self._troubles, key=lambda each: each.ended)
        what = "connections lost" if last.connection else "server away"
        return f"{what} {time.monotonic() - last.ended:.2f} s ago"

    def next_key(self, draw: random.Random) -> tuple[KeyRing, KeyRing]:
        """Return the two rings of a rotation: one that reads a new key, and one that mints it."""
        now = time.monotonic()
        old, new = self.ring.primary, Key(draw.randbytes(32))
        living = [
            key
            for key in self.ring.verify_only
            if now - self._retired[key] < (_TTL + 60 + 60) / _RATE
        ]
        self._retired = {key: self._retired[key] for key in living} | {old: now}
        self.ring = KeyRing(new, old, *living)
        return KeyRing(old, new, *living), self.ring


async def _client(stack: AsyncExitStack, port: int, *, patient: bool) -> Redis:
    make: Any = Redis
    options: dict[str, Any] = {} if patient else {"retry": Retry(NoBackoff(), 0)}
    client: Redis = await stack.enter_async_context(make(host=HOST, port=port, **options))
    return client


async def _remote_fleet(
    stack: AsyncExitStack, kind: str, server: str, draw: random.Random, make: MakePaginator
) -> Fleet:
    process = stack.enter_context(running(SERVERS[server]))
    proxy = await stack.enter_async_context(Proxy(process))
    admin = await _client(stack, process.port, patient=True)
    clients = [await _client(stack, proxy.port, patient=patient) for patient in (False, True)]

    def make_store(node: Node) -> SnapshotStore:
        client = clients[node.patient]
        clock = node.clock
        far = RedisStore(client, namespace=NAMESPACE, timeout=TIMEOUT, clock=clock)
        if kind == "redis":
            return far
        near = MemoryStore(max_bytes=_MIB, clock=clock)
        return TieredStore(near, far, max_age=_NEAR_AGE, clock=clock)

    return Fleet(
        f"{kind} on {server}",
        draw,
        make_store,
        codec=SealedCodec if kind == "tiered" else SignedCodec,
        make=make,
        remote=Remote(process, proxy, admin),
    )


def _memory_fleet(draw: random.Random, make: MakePaginator) -> Fleet:
    memory = MemoryStore(max_bytes=_MIB, clock=Clock())

    def make_store(_: Node) -> SnapshotStore:
        return memory

    return Fleet("memory", draw, make_store, codec=SignedCodec, make=make, memory=memory)


@asynccontextmanager
async def fleets_of(
    kinds: Iterable[str], servers: Sequence[str], *, seed: int, make: MakePaginator
) -> AsyncGenerator[list[Fleet]]:
    """Run a fleet for each kind of store, on each kind of server that it may have."""
    async with AsyncExitStack() as stack:
        fleets: list[Fleet] = []
        for kind in kinds:
            for server in servers if kind != "memory" else [""]:
                draw = random.Random(f"{seed} {kind} {server}")  # noqa: S311  # sample data
                if server:
                    fleets.append(await _remote_fleet(stack, kind, server, draw, make))
                else:
                    fleets.append(_memory_fleet(draw, make))
        yield fleets
