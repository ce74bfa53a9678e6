"""RedisStore when the primary changes: replicas, failover by hand, Sentinel."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio

import pytest
from redis import exceptions as driver
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from cursorkit.errors import StoreUnavailableError
from cursorkit.stores.base import digest_of
from cursorkit.stores.redis import RedisStore
from tests.redis_kit import blobs, digests, impatient, items, patient, sentinel_at, soon, tree
from tests.servers import (
    HOST,
    Proxy,
    Server,
    follow,
    replicated,
    running_sentinel,
    wait_until,
)

pytestmark = pytest.mark.anyio


async def test_a_demoted_primary_is_left_for_the_new_one(
    pair: tuple[Server, Server], address: Proxy
) -> None:
    """READONLY makes the store ask the address again, once: the new primary takes the objects."""
    primary, replica = pair
    before, after = tree(60, seed=1), tree(60, seed=2)
    async with impatient(address.port) as client:
        store = patient(client)
        await asyncio.gather(*(store.put(before, deadline=soon()) for _ in range(5)))
        replicated(primary, replica)
        replica.command("REPLICAOF", "NO", "ONE")
        follow(primary, replica)
        address.target = replica
        await store.put(after, deadline=soon())
        assert len(replica.keys("test")) == len(before) + len(after)
        assert list(await store.get(digests([*before, *after]))) == blobs([*before, *after])


async def test_a_primary_demoted_for_good_is_unavailable_and_recovers(
    pair: tuple[Server, Server],
) -> None:
    """Where the address leads to the replica, writes are refused until it is primary again."""
    primary, replica = pair
    objects, more = tree(60, seed=1), tree(60, seed=2)
    async with Redis(host=HOST, port=primary.port) as client:
        store = patient(client)
        await store.put(objects, deadline=soon())
        replicated(primary, replica)
        replica.command("REPLICAOF", "NO", "ONE")
        follow(primary, replica)
        with pytest.raises(StoreUnavailableError) as raised:
            await store.put(more, deadline=soon())
        assert raised.value.answered
        assert isinstance(raised.value.__cause__, driver.ReadOnlyError)
        assert list(await store.get(digests(objects))) == blobs(objects)
        primary.command("REPLICAOF", "NO", "ONE")
        await store.put(more, deadline=soon())
        assert list(await store.get(digests(more))) == blobs(more)


async def test_lag_is_not_loss(pair: tuple[Server, Server], address: Proxy) -> None:
    """What a replica does not have yet is asked of the primary, never reported as absent."""
    primary, replica = pair
    early, late = items(20, seed=1), items(20, seed=2)
    async with impatient(primary.port) as writer, impatient(address.port) as client:
        address.target = replica
        store = patient(client)
        node = patient(writer)
        await node.put(early, deadline=soon())
        replicated(primary, replica)
        assert list(await store.get(digests(early))) == blobs(early)

        replica.command("REPLICAOF", HOST, 1)  # The link breaks: from now on it lags for ever.
        await node.put(late, deadline=soon())
        with pytest.raises(StoreUnavailableError):
            await store.get(digests(late))
        address.target = primary
        assert list(await store.get(digests([*early, *late]))) == blobs([*early, *late])
        assert list(await store.get([digest_of(b"absent")])) == [None]


async def test_a_detached_replica_is_left_for_the_primary(
    pair: tuple[Server, Server], address: Proxy
) -> None:
    """MASTERDOWN makes the store ask the address again, once; a lasting one is unavailability."""
    primary, replica = pair
    objects = items(20)
    replica.command("CONFIG", "SET", "replica-serve-stale-data", "no")
    async with impatient(address.port) as client:
        store = patient(client)
        await store.put(objects, deadline=soon())
        address.target = replica
        address.cut()
        replica.command("REPLICAOF", HOST, 1)
        with pytest.raises(StoreUnavailableError) as raised:
            await store.get(digests(objects))
        assert not raised.value.answered
        assert isinstance(raised.value.__cause__, driver.ResponseError)
        address.target = primary
        assert list(await store.get(digests(objects))) == blobs(objects)


async def test_a_lost_write_is_absent_and_stored_again(
    pair: tuple[Server, Server], address: Proxy
) -> None:
    """A write that was acknowledged and lost in a failover is absent, and a new put brings it."""
    primary, replica = pair
    early, late = items(20, seed=1), items(20, seed=2)
    async with impatient(address.port) as client:
        store = patient(client)
        await store.put(early, deadline=soon())
        replicated(primary, replica)
        replica.command("REPLICAOF", "NO", "ONE")
        await store.put(late, deadline=soon())
        address.target = replica
        primary.kill()
        found = await store.get(digests([*early, *late]))
        assert list(found) == [*blobs(early), *[None] * len(late)]
        await store.put(late, deadline=soon() - 5)
        assert list(await store.get(digests(late))) == blobs(late)


def _wait_for(sentinel: Server, primary: Server) -> None:
    """Return as soon as Sentinel names this primary."""
    wait_until(
        lambda: sentinel.command("SENTINEL MASTERS")["main"]["port"] == primary.port, "failover"
    )


async def test_sentinel_leads_to_the_new_primary(program: str, pair: tuple[Server, Server]) -> None:
    """After the primary has crashed, the same store goes on as soon as Sentinel has a new one."""
    primary, replica = pair
    objects = tree(60)
    with running_sentinel(program, primary) as watcher:
        sentinel = sentinel_at(watcher.port, socket_timeout=0.5)
        async with sentinel.master_for("main") as client:
            store = RedisStore(client, namespace="test", timeout=1)
            await store.put(objects, deadline=soon())
            replicated(primary, replica)
            primary.kill()
            with pytest.raises(StoreUnavailableError):
                await store.get(digests(objects))
            _wait_for(watcher, replica)
            assert list(await store.get(digests(objects))) == blobs(objects)
            await store.put(objects, deadline=soon(900))
        for one in sentinel.sentinels:
            await one.aclose()


async def test_sentinel_is_asked_again_after_readonly(
    program: str, pair: tuple[Server, Server]
) -> None:
    """A demoted primary that still answers is left for the one that Sentinel names."""
    primary, replica = pair
    before, after = items(20, seed=1), items(20, seed=2)
    with running_sentinel(program, primary) as watcher:
        sentinel = sentinel_at(watcher.port)
        async with sentinel.master_for("main", retry=Retry(NoBackoff(), 0)) as client:
            store = patient(client)
            await store.put(before, deadline=soon())
            replicated(primary, replica)
            wait_until(lambda: watcher.command("SENTINEL", "FAILOVER", "main"), "failover")
            _wait_for(watcher, replica)
            follow(primary, replica)
            await store.put(after, deadline=soon())
            assert len(replica.keys("test")) == len(before) + len(after)
        for one in sentinel.sentinels:
            await one.aclose()
