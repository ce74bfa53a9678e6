"""RedisStore when a server, the network or the caller fails."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import textwrap
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from redis import exceptions as driver
from redis.asyncio import BlockingConnectionPool, Redis

from cursorkit.errors import StoreUnavailableError
from cursorkit.stores.base import StoredObject, digest_of
from cursorkit.stores.redis import RedisStore
from tests.redis_kit import (
    blobs,
    cancelled,
    child,
    children,
    digests,
    documented_acl,
    impatient,
    items,
    key_of,
    live,
    patient,
    run,
    soon,
    stored,
    tree,
)
from tests.servers import HOST, Proxy, Server, wait_until

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None]:
    """Fail unless what is inside ends in time."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


# Down, slow, and back again


async def test_a_server_that_is_down_is_told_within_the_timeout(server: Server) -> None:
    """With the driver's defaults, ten retries among them, a call ends 1.2 s after a crash."""
    async with Redis(host=HOST, port=server.port) as client:
        store = RedisStore(client, namespace="test")
        objects = items(5)
        await store.put(objects, deadline=soon())
        server.kill()
        for call in (store.get(digests(objects)), store.put(objects, deadline=soon(900))):
            async with within(1.2):
                with pytest.raises(StoreUnavailableError) as raised:
                    await call
            assert not raised.value.answered
            assert raised.value.__cause__ is not None


async def test_a_server_that_comes_back_is_used_again(server: Server) -> None:
    """After a crash and a restart the same store works, and what was lost is stored again."""
    async with impatient(server.port) as client:
        store = patient(client)
        objects = tree(60)
        await store.put(objects, deadline=soon())
        server.kill()
        with pytest.raises(StoreUnavailableError):
            await store.get(digests(objects))
        server.start()
        assert list(await store.get(digests(objects))) == [None] * len(objects)
        await store.put(objects, deadline=soon())
        assert list(await store.get(digests(objects))) == blobs(objects)


async def test_a_server_that_stalls_is_told_within_the_timeout(server: Server) -> None:
    """A frozen server costs one timeout for a get or a put of many chunks, and no wrong reply."""
    async with Redis(host=HOST, port=server.port) as client:
        store, hasty = patient(client), RedisStore(client, namespace="test", timeout=0.2)
        objects = items(600)
        await store.put(objects, deadline=soon())
        server.pause()
        for call in (hasty.get(digests(objects)), hasty.put(objects, deadline=soon(900))):
            async with within(1):
                with pytest.raises(StoreUnavailableError, match=r"within 0\.2 s"):
                    await call
        server.resume()
        for start in range(0, 600, 100):
            part = objects[start : start + 100]
            assert list(await store.get(digests(part))) == blobs(part)


async def test_a_host_that_accepts_and_says_nothing_is_told_within_the_timeout() -> None:
    """A connection that opens without a word costs one timeout."""
    with socket.create_server((HOST, 0)) as silent:
        async with Redis(host=HOST, port=silent.getsockname()[1], protocol=3) as client:
            store = RedisStore(client, namespace="test", timeout=0.2)
            async with within(1):
                with pytest.raises(StoreUnavailableError):
                    await store.get([digest_of(b"x")])


async def test_waiting_for_a_turn_counts(server: Server) -> None:
    """Many calls at once on a frozen server all end together, not one timeout after another."""
    async with Redis(host=HOST, port=server.port) as client:
        store = RedisStore(client, namespace="test", timeout=0.3, concurrency=2)
        await store.get([digest_of(b"x")])
        server.pause()
        async with within(5):
            calls = (store.get([digest_of(b"x")]) for _ in range(50))
            answers = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(answer) for answer in answers} == {StoreUnavailableError}
        server.resume()


# Lost replies and broken connections


@pytest.mark.parametrize("retrying", [True, False])
async def test_a_command_whose_reply_was_lost_is_harmless(
    shared_server: Server, namespace: str, retrying: bool
) -> None:
    """Whichever reply is lost, the command is sent again: same bytes, same times, no duplicate."""
    published: list[StoredObject] = []
    deadline = soon()
    async with Proxy(shared_server) as proxy:
        client = Redis(host=HOST, port=proxy.port) if retrying else impatient(proxy.port)
        store = patient(client, namespace)
        for lost in range(6):
            objects = tree(60, seed=lost)
            published += objects
            for repair in (False, True):
                await client.ping()
                proxy.drop_reply = lost
                await store.put(objects, deadline=deadline, repair=repair)
                assert proxy.drop_reply == -1
            proxy.drop_reply = 0
            assert list(await store.get(digests(objects))) == blobs(objects)
            assert proxy.drop_reply == -1
        await client.aclose()
    keys = shared_server.keys(namespace)
    assert sorted(keys) == sorted(key_of(namespace, o.digest) for o in published)
    assert set(shared_server.commands(("EXPIRETIME", key) for key in keys)) == {deadline}


async def test_broken_connections_are_replaced(shared_server: Server, namespace: str) -> None:
    """When every connection breaks, idle or in mid-call, all calls succeed all the same."""
    objects = items(20)
    async with Proxy(shared_server) as proxy, impatient(proxy.port) as client:
        store = patient(client, namespace)
        await store.put(objects, deadline=soon())
        for in_mid_call in (False, True, False, True):
            if in_mid_call:
                proxy.stall()
            else:
                proxy.cut()
            seen = proxy.requests
            calls = [asyncio.ensure_future(store.get(digests(objects))) for _ in range(20)]
            if in_mid_call:
                await proxy.wait_for_requests(seen + 8)
                proxy.cut()
                proxy.flow()
            answers = await asyncio.gather(*calls)
            assert {tuple(answer) for answer in answers} == {tuple(blobs(objects))}


async def test_a_reply_that_comes_too_late_is_nobodys(
    shared_server: Server, namespace: str
) -> None:
    """Replies held back beyond the timeout never answer a later call."""
    first, second = items(30, seed=1), items(30, seed=2)
    async with Proxy(shared_server) as proxy, impatient(proxy.port) as client:
        store = patient(client, namespace)
        hasty = RedisStore(client, namespace=namespace, timeout=0.2)
        await store.put([*first, *second], deadline=soon())
        for _ in range(3):
            proxy.stall()
            with pytest.raises(StoreUnavailableError):
                await hasty.get(digests(first))
            proxy.flow()
            assert list(await store.get(digests(second))) == blobs(second)
        assert store.bad_objects == 0


# Refusals


async def test_a_flush_is_met_once(server: Server) -> None:
    """After FLUSHALL one miss is enough for the next publication to store everything."""
    async with Redis(host=HOST, port=server.port) as client:
        store = patient(client)
        objects = tree(120)
        await store.put(objects, deadline=soon())
        server.command("FLUSHALL")
        assert list(await store.get([objects[-1].digest])) == [None]
        await store.put(objects, deadline=soon() - 5)
        assert list(await store.get(digests(objects))) == blobs(objects)


async def test_a_full_server_refuses_writes_and_serves_reads(server: Server) -> None:
    """At maxmemory with noeviction new objects are refused; what is stored is read and extended."""
    async with Redis(host=HOST, port=server.port) as client:
        store = patient(client)
        kept, new = tree(60, seed=1), tree(60, seed=2)
        await store.put(kept, deadline=soon())
        server.command("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailableError, match="refused SET") as raised:
            await store.put(new, deadline=soon())
        assert raised.value.answered
        assert isinstance(raised.value.__cause__, driver.OutOfMemoryError)
        assert len(server.keys("test")) == len(kept)
        await store.put(kept, deadline=soon(900))
        assert list(await store.get(digests(kept))) == blobs(kept)
        server.command("CONFIG", "SET", "maxmemory", 0)
        await store.put(new, deadline=soon())
        assert list(await store.get(digests(new))) == blobs(new)


async def test_no_value_is_in_an_error(server: Server) -> None:
    """What was to be stored is in no message of the error, its cause or its context."""
    server.command("CONFIG", "SET", "maxmemory", 1)
    async with Redis(host=HOST, port=server.port) as client:
        store = patient(client)
        with pytest.raises(StoreUnavailableError) as raised:
            await store.put([stored(b"Ia secret of an item")], deadline=soon())
    link: BaseException | None = raised.value
    while link is not None:
        assert "secret" not in f"{link!r} {link} {link.args}"
        link = link.__cause__ or link.__context__


async def test_a_server_that_cannot_save_refuses_writes(server: Server) -> None:
    """NOREPLICAS is a refusal: the server answered, and reads go on."""
    async with Redis(host=HOST, port=server.port) as client:
        store = patient(client)
        objects = items(5)
        await store.put(objects, deadline=soon())
        server.command("CONFIG", "SET", "min-replicas-to-write", 3)
        with pytest.raises(StoreUnavailableError, match="refused EXPIREAT") as raised:
            await store.put(objects, deadline=soon(900))
        assert raised.value.answered
        found = await store.get([*digests(objects), digest_of(b"absent")])
        assert list(found) == [*blobs(objects), None]


@pytest.mark.parametrize("protocol", [2, 3])
async def test_the_documented_acl_suffices(server: Server, protocol: int) -> None:
    """An account with exactly the rules of the operator page can do all that a store does."""
    server.command("ACL", "SETUSER", "cursorkit", *documented_acl())
    async with Redis(
        host=HOST, port=server.port, username="cursorkit", password="sesame", protocol=protocol
    ) as client:
        store = patient(client, "cursorkit")
        objects = tree(60)
        await live(store)
        server.command("LPUSH", key_of("cursorkit", digest_of(b"Iwrong")), b"x")
        await store.put([stored(b"Iwrong"), *objects], deadline=soon(), repair=True)
        assert list(await store.get([digest_of(b"Iwrong")])) == [b"Iwrong"]


@pytest.mark.parametrize("command", ["MGET", "EXPIRETIME", "SET", "EXPIREAT"])
async def test_a_smaller_acl_is_refused_and_logged_once(
    server: Server, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without one of the rules the store is unavailable, and one line names the command."""
    rules = [*documented_acl(), f"-{command.lower()}"]
    server.command("ACL", "SETUSER", "cursorkit", *rules)
    async with Redis(
        host=HOST, port=server.port, username="cursorkit", password="sesame"
    ) as client:
        store = patient(client, "cursorkit")
        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match=f"refused {command}") as raised:
                await live(store)
            assert raised.value.answered
            assert isinstance(raised.value.__cause__, driver.NoPermissionError)
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "ACL" in line and command in line] == lines[:1]
    assert caplog.records[0].levelno == logging.WARNING


async def test_a_namespace_outside_the_acl_is_refused(server: Server) -> None:
    """The account of one namespace reaches no key of another."""
    server.command("ACL", "SETUSER", "cursorkit", *documented_acl())
    async with Redis(
        host=HOST, port=server.port, username="cursorkit", password="sesame"
    ) as client:
        with pytest.raises(StoreUnavailableError):
            await patient(client, "other").get([digest_of(b"x")])


async def test_a_wrong_password_is_unavailable(server: Server) -> None:
    """An account that cannot log in is an unavailable store, and the password is in no message."""
    server.command("ACL", "SETUSER", "cursorkit", *documented_acl())
    async with Redis(
        host=HOST, port=server.port, username="cursorkit", password="mistaken"
    ) as client:
        with pytest.raises(StoreUnavailableError) as raised:
            await RedisStore(client, namespace="cursorkit", timeout=0.3).get([digest_of(b"x")])
    assert isinstance(raised.value.__cause__, driver.AuthenticationError)
    assert "mistaken" not in f"{raised.value} {raised.value.__cause__}"


# Crashes and cancellations

PUBLISHER = """
    import asyncio, itertools, sys, time
    from redis.asyncio import Redis
    from cursorkit.stores.redis import RedisStore
    from tests.redis_kit import tree

    async def main():
        async with Redis(host="127.0.0.1", port=int(sys.argv[1])) as client:
            store = RedisStore(client, namespace="test", timeout=10)
            for seed in itertools.count():
                await store.put(tree(400, seed=seed), deadline=int(time.time()) + 600)

    asyncio.run(main())
    """


def wait_for_keys(server: Server, count: int) -> None:
    """Return as soon as the server has so many keys."""
    wait_until(lambda: server.command("DBSIZE") >= count, "publication")


def test_a_crash_in_mid_publish_leaves_no_root_without_children(server: Server) -> None:
    """Wherever a publisher is killed, each object has its children, and each key will expire."""
    for killed_at in (300, 1500):
        server.command("FLUSHALL")
        with child(PUBLISHER, server.port) as publisher:
            try:
                wait_for_keys(server, killed_at)
            finally:
                publisher.kill()
        keys = server.keys("test")
        assert min(server.commands(("TTL", key) for key in keys)) > 0
        values = server.commands(("GET", key) for key in keys)
        named = {key_of("test", child) for value in values for child in children(value)}
        assert named <= set(keys)
        assert len(keys) >= killed_at


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_thousand_cancellations_leave_nothing_behind(
    server: Server, blocking: bool
) -> None:
    """However calls are cancelled: no other call's bytes, no more connections, no stuck pool."""
    source = random.Random(7)  # noqa: S311  # no secret
    pool = BlockingConnectionPool(host=HOST, port=server.port, max_connections=6, timeout=5)
    client = Redis.from_pool(pool) if blocking else Redis(host=HOST, port=server.port)
    async with client:
        store = RedisStore(client, namespace="test", concurrency=6, timeout=10)
        lists = [items(40, seed=seed) for seed in range(10)]
        for objects in lists:
            await store.put(objects, deadline=soon())

        async def one() -> None:
            objects = source.choice(lists)
            call: Any = (
                store.get(digests(objects))
                if source.random() < 0.6
                else store.put(objects, deadline=soon(source.randrange(700, 10_000)))
            )
            after = source.random() * 0.01
            answer = await cancelled(call, after, source.choice(["task", "twice", "scope"]))
            assert answer is None or list(answer) == blobs(objects)

        for _ in range(50):
            await asyncio.gather(*(one() for _ in range(20)))
        assert store.bad_objects == 0
        assert server.connections() <= 6
        for objects in lists:
            answers = await asyncio.gather(*(store.get(digests(objects)) for _ in range(6)))
            assert {tuple(answer) for answer in answers} == {tuple(blobs(objects))}


# Event loops, forks


LOOPS = """
    import asyncio, os, sys, time
    from redis.asyncio import Redis
    from cursorkit.errors import StoreError
    from cursorkit.stores.redis import RedisStore
    from tests.redis_kit import blobs, digests, items

    store = RedisStore(
        Redis(host="127.0.0.1", port=int(sys.argv[1])), namespace="test", timeout=10
    )
    objects = items(300)

    async def use(at_once):
        await store.put(objects, deadline=int(time.time()) + 600)
        calls = (store.get(digests(objects)) for _ in range(at_once))
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(answer, StoreError) or list(answer) == blobs(objects), answer
            print("error" if isinstance(answer, StoreError) else "right")
    """


def test_a_store_outlives_its_event_loop(server: Server) -> None:
    """`asyncio.run` five times with one store: every call is answered right."""
    code = textwrap.dedent(LOOPS) + "for n in (1, 1, 5, 5, 1):\n    asyncio.run(use(n))\n"
    assert run(code, server.port).count("right") == 13


def test_a_fork_between_two_loops_is_harmless(server: Server) -> None:
    """A store made and used before a fork serves parent and child, on connections of their own."""
    code = textwrap.dedent(LOOPS) + textwrap.dedent("""
        asyncio.run(use(1))
        sys.stdout.flush()
        child = os.fork()
        asyncio.run(use(3))
        sys.stdout.flush()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        else:
            os._exit(0)
        asyncio.run(use(2))
        """)
    assert run(code, server.port).count("right") == 9


def test_a_fork_inside_a_loop_is_told(server: Server) -> None:
    """A child forked while the loop runs is refused, and its parent's connections stay whole."""
    code = textwrap.dedent(LOOPS) + textwrap.dedent("""
        async def main():
            await use(2)
            sys.stdout.flush()
            child = os.fork()
            if not child:
                os._exit(os.spawnlp(os.P_WAIT, "true", "true") if not inside() else 1)
            await use(2)
            assert os.waitpid(child, 0)[1] == 0
            await use(2)

        def inside():
            asyncio._set_running_loop(None)
            try:
                asyncio.run(store.get(digests(objects)))
            except StoreError:
                return False
            return True

        asyncio.run(main())
        """)
    assert run(code, server.port).count("right") == 6


async def test_a_second_running_loop_is_told(server: Server) -> None:
    """A client cannot serve two running event loops: the second one is told, the first goes on."""
    async with Redis(host=HOST, port=server.port) as client:
        store = patient(client)
        objects = items(10)
        await store.put(objects, deadline=soon())

        def elsewhere() -> Sequence[bytes | None]:
            return asyncio.run(store.get(digests(objects)))

        with pytest.raises(StoreUnavailableError, match="another event loop"):
            await asyncio.to_thread(elsewhere)
        assert list(await store.get(digests(objects))) == blobs(objects)
