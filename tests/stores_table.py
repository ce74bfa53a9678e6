"""The one table of stores: what must hold for every store is tested over each of its rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import pytest
from redis.asyncio import Redis, RedisCluster

from cursorkit.stores.base import SnapshotStore
from cursorkit.stores.memory import MemoryStore
from cursorkit.stores.redis import RedisStore
from cursorkit.stores.tiered import TieredStore
from cursorkit.testing.clock import FakeClock
from tests.redis_kit import key_of, patient
from tests.servers import HOST, Cluster, Server

Open: TypeAlias = Callable[
    [FakeClock, pytest.FixtureRequest], AbstractAsyncContextManager[SnapshotStore]
]
Damage: TypeAlias = Callable[[SnapshotStore, bytes, bytes | None], Awaitable[None]]


@dataclass(frozen=True)
class StoreRow:
    """A kind of store.

    Attributes:
        name: For the tests' ids.
        open: Gives an empty store, which is closed with its context. The request is the test's, to
            get what fixtures hold: a server, for example.
        damage: As `SharedStoreConformance.damage`, for a store whose objects are kept outside the
            process. Those opened within one test then share them.
        backends: The event loops it runs on.
    """

    name: str
    open: Open
    damage: Damage | None = None
    backends: tuple[str, ...] = ("asyncio", "trio")


@asynccontextmanager
async def _memory(clock: FakeClock, _: pytest.FixtureRequest) -> AsyncGenerator[SnapshotStore]:
    yield MemoryStore(clock=clock)


@asynccontextmanager
async def _tiered(clock: FakeClock, _: pytest.FixtureRequest) -> AsyncGenerator[SnapshotStore]:
    yield TieredStore(MemoryStore(clock=clock), MemoryStore(clock=clock), clock=clock)


_NAMESPACE: Final = "table"
"""Of every test: each has objects of its own."""


@asynccontextmanager
async def _redis(clock: FakeClock, request: pytest.FixtureRequest) -> AsyncGenerator[RedisStore]:
    server: Server = request.getfixturevalue("shared_server")
    async with Redis(host=HOST, port=server.port) as client:
        yield patient(client, _NAMESPACE, clock=clock)


async def _damage_redis(store: SnapshotStore, digest: bytes, blob: bytes | None) -> None:
    assert isinstance(store, RedisStore)
    client = store._server._client
    key = key_of(_NAMESPACE, digest)
    if blob is None:
        await client.execute_command("DEL", key)
    else:
        await client.execute_command("SET", key, blob, "KEEPTTL")


@asynccontextmanager
async def _cluster(clock: FakeClock, request: pytest.FixtureRequest) -> AsyncGenerator[RedisStore]:
    cluster: Cluster = request.getfixturevalue("cluster")
    async with RedisCluster(startup_nodes=cluster.startup_nodes) as client:
        yield patient(client, _NAMESPACE, clock=clock)


class _Near(MemoryStore):
    """A near store that can be made to lose an object."""

    def lose(self, digest: bytes) -> None:
        if digest in self._objects:
            self._drop(digest)


@asynccontextmanager
async def _near_redis(
    clock: FakeClock, request: pytest.FixtureRequest
) -> AsyncGenerator[SnapshotStore]:
    async with _redis(clock, request) as far:
        yield TieredStore(_Near(clock=clock), far, clock=clock)


async def _damage_both(store: SnapshotStore, digest: bytes, blob: bytes | None) -> None:
    assert isinstance(store, TieredStore)
    assert isinstance(store._near, _Near)
    store._near.lose(digest)
    await _damage_redis(store._far, digest, blob)


STORES: Final = (
    StoreRow("memory", _memory),
    StoreRow("tiered", _tiered),
    StoreRow("redis", _redis, _damage_redis, ("asyncio",)),
    StoreRow("cluster", _cluster, _damage_redis, ("asyncio",)),
    StoreRow("tiered-redis", _near_redis, _damage_both, ("asyncio",)),
)
