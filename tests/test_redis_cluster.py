"""RedisStore on a cluster of three primaries."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import RedisCluster
from redis.crc import key_slot

from cursorkit.errors import StoreUnavailableError
from cursorkit.stores.base import digest_of
from cursorkit.stores.redis import RedisStore
from tests.redis_kit import (
    blobs,
    cancelled,
    digests,
    documented_acl,
    items,
    key_of,
    live,
    patient,
    run,
    soon,
    tree,
)
from tests.servers import HOST, Cluster, Server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[RedisCluster]:
    """A client with the driver's defaults."""
    async with RedisCluster(startup_nodes=cluster.startup_nodes) as own:
        yield own


@pytest.fixture
def store(client: RedisCluster, namespace: str) -> RedisStore:
    """A store on the shared cluster."""
    return patient(client, namespace)


async def test_objects_are_spread_and_come_back(
    store: RedisStore, cluster: Cluster, namespace: str
) -> None:
    """A tree lies on all nodes, each key with its deadline, and comes back whole."""
    objects = tree(300)
    deadline = soon()
    await store.put(objects, deadline=deadline)
    absent = digest_of(b"absent")
    found = await store.get([*digests(objects), absent, objects[0].digest])
    assert list(found) == [*blobs(objects), None, objects[0].blob]
    assert min(len(node.keys(namespace)) for node in cluster.nodes) > 50
    for node in cluster.nodes:
        times = node.commands(("EXPIRETIME", key) for key in node.keys(namespace))
        assert set(times) == {deadline}


async def test_leases_rise_and_bad_values_are_repaired(
    store: RedisStore, cluster: Cluster, namespace: str
) -> None:
    """Deadlines, losses and repairs are as on one server."""
    objects = tree(60)
    longer = soon(900)
    await store.put(objects, deadline=longer)
    await store.put(objects, deadline=soon(600))
    key = key_of(namespace, objects[3].digest)
    cluster.holder(key).command("SET", key, b"Ibad", "KEEPTTL")
    other = key_of(namespace, objects[4].digest)
    cluster.holder(other).commands([("DEL", other), ("RPUSH", other, "x")])
    found = list(await store.get(digests(objects)))
    assert found == [*blobs(objects)[:3], None, None, *blobs(objects)[5:]]
    await store.put(objects, deadline=soon(600), repair=True)
    assert list(await store.get(digests(objects))) == blobs(objects)
    assert cluster.holder(key).command("EXPIRETIME", key) == longer
    assert store.bad_objects == 3


def _move(slot: int, source: Server, target: Server) -> None:
    """Begin to move a slot: from here on its keys are with the one or with the other."""
    names = {node: node.command("CLUSTER", "MYID") for node in (source, target)}
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])


def _settle(slot: int, source: Server, target: Server) -> None:
    """End the move, its keys and all."""
    for key in source.command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
        source.command("MIGRATE", HOST, target.port, key, 0, 5000)
    name = target.command("CLUSTER", "MYID")
    for node in (target, source):
        node.command("CLUSTER", "SETSLOT", slot, "NODE", name)


async def test_a_walk_goes_on_while_a_slot_moves(
    store: RedisStore, cluster: Cluster, namespace: str
) -> None:
    """Before, during and after the move of a slot, gets and puts give right answers."""
    objects, more = tree(60, seed=1), tree(60, seed=2)
    await store.put(objects, deadline=soon())
    key = key_of(namespace, objects[7].digest)
    slot, source = key_slot(key), cluster.holder(key)
    target = next(node for node in cluster.nodes if node is not source)
    _move(slot, source, target)
    try:
        assert list(await store.get(digests(objects))) == blobs(objects)
        source.command("MIGRATE", HOST, target.port, key, 0, 5000)
        for _ in range(3):
            assert list(await store.get(digests(objects))) == blobs(objects)
        await store.put(objects, deadline=soon(900), repair=True)
        await store.put(more, deadline=soon())
    finally:
        _settle(slot, source, target)
    assert list(await store.get(digests([*objects, *more]))) == blobs([*objects, *more])
    assert cluster.holder(key).command("EXPIRETIME", key) >= soon(890)
    _move(slot, target, source)
    _settle(slot, target, source)
    assert list(await store.get(digests(objects))) == blobs(objects)


# redis-py drops the connections of nodes that it replaces without closing them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_node_lost_is_told_in_time_and_forgotten_when_it_is_back(
    client: RedisCluster, cluster: Cluster, namespace: str
) -> None:
    """With a node gone calls fail in time, roots never precede children, then all recovers."""
    hasty = RedisStore(client, namespace=namespace, timeout=0.5)
    store = patient(client, namespace)
    objects, *others = [tree(90, seed=seed) for seed in range(4)]
    await store.put(objects, deadline=soon())
    lost = cluster.nodes[1]
    lost.kill()
    try:
        # First its connections break, then, after the node timeout, the cluster says CLUSTERDOWN.
        for other in others:
            for call in (hasty.get(digests(objects)), hasty.put(other, deadline=soon())):
                start = time.monotonic()
                with pytest.raises(StoreUnavailableError) as raised:
                    await call
                assert time.monotonic() - start < 3
                assert not raised.value.answered
    finally:
        lost.start()
        cluster.wait_until_well()
    found = list(await store.get(digests(objects)))
    assert {None} < set(found) <= {None, *blobs(objects)}
    above = [o.digest for other in others for o in other if o.level > 0]
    assert set(await store.get(above)) == {None}
    for again in (objects, *others):
        await store.put(again, deadline=soon())
        assert list(await store.get(digests(again))) == blobs(again)
    await client.aclose()
    gc.collect()


async def test_cancellations_leave_nothing_behind(
    client: RedisCluster, cluster: Cluster, namespace: str
) -> None:
    """However calls are cancelled: no other call's bytes, and no more connections."""
    source = random.Random(7)  # noqa: S311  # no secret
    store = RedisStore(client, namespace=namespace, concurrency=4, timeout=10)
    lists = [items(20, seed=seed) for seed in range(5)]
    for objects in lists:
        await store.put(objects, deadline=soon())
    at_rest = [node.connections() for node in cluster.nodes]

    async def one() -> None:
        objects = source.choice(lists)
        after = source.random() * 0.02
        how = source.choice(["task", "twice", "scope"])
        answer: Any = await cancelled(store.get(digests(objects)), after, how)
        assert answer is None or list(answer) == blobs(objects)

    for _ in range(15):
        await asyncio.gather(*(one() for _ in range(20)))
    assert store.bad_objects == 0
    for before, node in zip(at_rest, cluster.nodes, strict=True):
        # A cancelled call's connection may be on its way back while the next call takes another.
        assert node.connections() <= before + 2 * 4
    answers = await asyncio.gather(*(store.get(digests(o)) for o in lists))
    assert [list(answer) for answer in answers] == [blobs(o) for o in lists]


def test_a_store_outlives_its_event_loop(cluster: Cluster, namespace: str) -> None:
    """`asyncio.run` three times with one client: every call is answered right."""
    code = """
        import asyncio, sys, time
        from redis.asyncio import RedisCluster
        from cursorkit.stores.redis import RedisStore
        from tests.redis_kit import blobs, digests, items

        client = RedisCluster(host="127.0.0.1", port=int(sys.argv[1]))
        store = RedisStore(client, namespace=sys.argv[2], timeout=10)
        objects = items(100)

        async def use():
            await store.put(objects, deadline=int(time.time()) + 600)
            assert list(await store.get(digests(objects))) == blobs(objects)
            print("right")

        for _ in range(3):
            asyncio.run(use())
        """
    assert run(code, cluster.nodes[0].port, namespace).count("right") == 3


async def test_the_documented_acl_suffices(cluster: Cluster) -> None:
    """An account with exactly the rules of the operator page can do all that a store does."""
    for node in cluster.nodes:
        node.command("ACL", "SETUSER", "cursorkit", *documented_acl(cluster=True))
    async with RedisCluster(
        startup_nodes=cluster.startup_nodes, username="cursorkit", password="sesame"
    ) as client:
        await live(patient(client, "cursorkit"))
