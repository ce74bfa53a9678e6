"""RedisStore against real servers: objects, leases, repair, bad values, and what it sends."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import logging
import random
import re
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import anyio
import fakeredis
import pytest
import redis
import redis.cluster
from redis import exceptions as driver
from redis._parsers import _AsyncHiredisParser, _AsyncRESP2Parser, _AsyncRESP3Parser
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio.sentinel import MasterNotFoundError, SlaveNotFoundError

from cursorkit.errors import (
    ConfigurationError,
    StoreDataError,
    StoreError,
    StoreUnavailableError,
)
from cursorkit.stores.base import StoredObject, digest_of
from cursorkit.stores.redis import RedisStore
from tests.redis_kit import (
    ROOT,
    blobs,
    digests,
    items,
    key_of,
    patient,
    sentinel_at,
    soon,
    stored,
    tree,
)
from tests.servers import HOST, Proxy, Server

pytestmark = pytest.mark.anyio

MSGPACK_BOMB = b"\xdd\xff\xff\xff\xff"


PROTOCOLS: dict[str, dict[str, Any]] = {
    "hiredis-resp2": {"parser_class": _AsyncHiredisParser, "protocol": 2},
    "hiredis-resp3": {"parser_class": _AsyncHiredisParser, "protocol": 3},
    "python-resp2": {"parser_class": _AsyncRESP2Parser, "protocol": 2},
    "python-resp3": {"parser_class": _AsyncRESP3Parser, "protocol": 3},
}


@pytest.fixture
async def client(shared_server: Server) -> AsyncIterator[Redis]:
    """A client with the driver's defaults."""
    async with Redis(host=HOST, port=shared_server.port) as own:
        yield own


@pytest.fixture
def store(client: Redis, namespace: str) -> RedisStore:
    """A store on the shared server."""
    return patient(client, namespace)


class Keys:
    """What the server holds of one namespace, seen from outside the store."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    def names(self) -> list[bytes]:
        return self._server.keys(self._namespace)

    def key(self, stored: StoredObject) -> bytes:
        return key_of(self._namespace, stored.digest)

    def write(self, stored: StoredObject, *command: str | bytes | int) -> Any:
        """Run a command on an object's key: its name, then what follows the key."""
        name, *rest = command
        return self._server.command(name, self.key(stored), *rest)

    def until(self, objects: list[StoredObject]) -> list[int]:
        """Return when each object expires, -1 for never, -2 if it is absent."""
        return self._server.commands([("EXPIRETIME", self.key(o)) for o in objects])

    def delete(self, objects: list[StoredObject]) -> None:
        """Lose objects, as an eviction does."""
        self._server.command("DEL", *map(self.key, objects))


@pytest.fixture
def keys(shared_server: Server, namespace: str) -> Keys:
    return Keys(shared_server, namespace)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_objects_come_back_whole_with_every_parser_and_protocol(
    shared_server: Server, namespace: str, protocol: str
) -> None:
    """What was put comes back byte for byte in the order asked for, whatever the driver's setup."""
    pool = ConnectionPool(host=HOST, port=shared_server.port, **PROTOCOLS[protocol])
    async with Redis.from_pool(pool) as client:
        store = patient(client, namespace)
        objects = tree(120)
        absent = digest_of(b"never put")
        await store.put(objects, deadline=soon())
        await store.put(objects, deadline=soon(700), repair=True)
        asked = [*reversed(digests(objects)), absent, objects[0].digest]
        found = [*reversed(blobs(objects)), None, objects[0].blob]
        assert list(await store.get(asked)) == found


async def test_nothing_is_asked_for_nothing(store: RedisStore, keys: Keys) -> None:
    """No digests give no blobs, and no objects give no keys."""
    await store.put([], deadline=soon())
    assert list(await store.get([])) == []
    assert keys.names() == []


async def test_an_object_twice_in_a_list_is_one_key(store: RedisStore, keys: Keys) -> None:
    """Equal items share one object, in one publication, too."""
    [one] = items(1)
    await store.put([one, one], deadline=soon())
    assert keys.names() == [keys.key(one)]


async def test_keys_carry_namespace_layout_and_digest(
    store: RedisStore, keys: Keys, namespace: str
) -> None:
    """A key is the namespace, the layout's version, and the digest in base64url without padding."""
    objects = items(50)
    await store.put(objects, deadline=soon())
    assert sorted(keys.names()) == sorted(key_of(namespace, o.digest) for o in objects)


async def test_every_key_expires_at_the_deadline_exactly(store: RedisStore, keys: Keys) -> None:
    """Deadlines hold to the second, and no key is without one."""
    objects = tree(70)
    deadline = soon()
    await store.put(objects, deadline=deadline)
    assert set(keys.until(objects)) == {deadline}


@pytest.mark.parametrize(("remaining", "kept"), [(1.0, True), (0.999, False), (0.0004, False)])
async def test_less_than_a_second_is_no_time(
    client: Redis, namespace: str, keys: Keys, remaining: float, kept: bool
) -> None:
    """What would expire within a second is not stored at all; a second is."""
    deadline = soon()
    store = patient(client, namespace, clock=lambda: deadline - remaining)
    await store.put(items(3), deadline=deadline)
    assert len(keys.names()) == (3 if kept else 0)


async def test_a_longer_deadline_extends_and_a_shorter_one_does_not(
    store: RedisStore, keys: Keys
) -> None:
    """A lease only ever rises, on the node that made it and on others."""
    objects = items(5)
    deadline = soon()
    for asked, held in [(0, 0), (60, 60), (30, 60), (120, 120), (0, 120)]:
        await store.put(objects, deadline=deadline + asked)
        assert set(keys.until(objects)) == {deadline + held}


async def test_a_shorter_node_does_not_shorten_a_longer_one(
    client: Redis, namespace: str, keys: Keys
) -> None:
    """Two nodes with different ttl that publish at once, repairs among them, keep the longer."""
    deadline = soon()
    for attempt in range(20):
        short = patient(client, namespace)
        long = patient(client, namespace)
        objects = tree(100, seed=attempt)
        puts = [
            short.put(objects, deadline=deadline, repair=attempt % 4 == 3),
            long.put(objects, deadline=deadline + 60, repair=attempt % 2 == 1),
        ]
        random.Random(attempt).shuffle(puts)  # noqa: S311  # no secret
        await asyncio.gather(*puts)
        assert min(keys.until(objects)) == deadline + 60


async def test_twenty_nodes_publish_one_copy(client: Redis, namespace: str, keys: Keys) -> None:
    """One list published by twenty nodes at once is stored once, and all of them read the same."""
    objects = tree(100)
    nodes = [patient(client, namespace) for _ in range(20)]
    await asyncio.gather(*(node.put(objects, deadline=soon()) for node in nodes))
    assert len(keys.names()) == len(objects)
    answers = await asyncio.gather(*(node.get(digests(objects)) for node in nodes))
    assert {tuple(answer) for answer in answers} == {tuple(blobs(objects))}


async def test_a_key_without_expiry_gets_one(store: RedisStore, keys: Keys) -> None:
    """An object whose key was made permanent expires again after the next publication."""
    objects = items(3)
    deadline = soon()
    keys.write(objects[0], "SET", objects[0].blob)
    await store.put(objects, deadline=deadline)
    assert set(keys.until(objects)) == {deadline}


class Requests(Protocol):
    def __call__(self) -> int: ...


@pytest.fixture
async def counted(shared_server: Server, namespace: str) -> AsyncIterator[tuple[RedisStore, Proxy]]:
    """A store that is connected, and the proxy that counts its round trips."""
    async with Proxy(shared_server) as proxy, Redis(host=HOST, port=proxy.port) as client:
        store = patient(client, namespace)
        await store.get([digest_of(b"to connect")])
        yield store, proxy


async def test_a_known_list_is_published_without_a_request(
    counted: tuple[RedisStore, Proxy],
) -> None:
    """What a node has published before costs nothing until a later deadline is asked for."""
    store, proxy = counted
    objects = items(40)
    await store.put(objects, deadline=soon(600))
    before = proxy.requests
    await store.put(objects, deadline=soon(600) - 5)
    assert proxy.requests == before
    await store.put(objects, deadline=soon(900))
    assert proxy.requests == before + 2


async def test_a_page_costs_one_round_trip(counted: tuple[RedisStore, Proxy]) -> None:
    """Fifty objects are read with one request."""
    store, proxy = counted
    objects = items(50)
    await store.put(objects, deadline=soon())
    before = proxy.requests
    await store.get(digests(objects))
    assert proxy.requests == before + 1


async def test_a_miss_forgets_every_lease(store: RedisStore, keys: Keys) -> None:
    """After a loss the next publication stores everything again, whatever this node believed."""
    objects = items(30)
    await store.put(objects, deadline=soon())
    keys.delete(objects)
    await store.put(objects, deadline=soon() - 5)
    assert keys.names() == []  # It believes its leases: this is what a miss must end.
    assert list(await store.get([objects[7].digest])) == [None]
    await store.put(objects, deadline=soon() - 5)
    assert list(await store.get(digests(objects))) == blobs(objects)


async def test_what_is_proved_before_a_loss_is_not_believed_after(
    client: Redis, namespace: str, keys: Keys
) -> None:
    """A publication under way while a loss is met remembers nothing that may be lost."""
    store = patient(client, namespace)
    objects = items(256)
    publication = asyncio.ensure_future(store.put(objects, deadline=soon()))
    await store.get([digest_of(b"lost")])
    await publication
    keys.delete(objects)
    await store.get([objects[0].digest])
    await store.put(objects, deadline=soon() - 5)
    assert len(keys.names()) == 256


async def test_other_tasks_run_while_a_long_known_list_is_published(
    client: Redis, namespace: str
) -> None:
    """A list of which all is known sends nothing, but lets others have a turn now and then."""
    store = patient(client, namespace)
    [one] = items(1)
    await store.put([one], deadline=soon())
    turns: list[int] = []
    other = asyncio.get_running_loop().create_task(_take(turns))
    await store.put((one for _ in range(5000)), deadline=soon() - 5)
    assert turns == [1]
    await other


async def _take(turns: list[int]) -> None:
    turns.append(1)


async def test_leases_are_bounded(client: Redis, namespace: str) -> None:
    """However many objects are published, at most `max_leases` are remembered, the latest ones."""
    store = patient(client, namespace, max_leases=100)
    objects = items(1000)
    await store.put(objects, deadline=soon())
    known = [o for o in objects if store._leases.cover(o.digest, soon() - 5)]
    assert 50 <= len(known) <= 100
    assert known == objects[-len(known) :]


BAD_VALUES: dict[str, Callable[[Keys, StoredObject], Any]] = {
    "bit rot": lambda keys, o: keys.write(o, "SETRANGE", 5, b"\x00\x01\x02"),
    "truncated": lambda keys, o: keys.write(o, "SET", o.blob[:-1], "KEEPTTL"),
    "empty": lambda keys, o: keys.write(o, "SET", b"", "KEEPTTL"),
    "null": lambda keys, o: keys.write(o, "SET", b"null", "KEEPTTL"),
    "another object": lambda keys, o: keys.write(o, "SET", b"Ianother", "KEEPTTL"),
    "bomb": lambda keys, o: keys.write(o, "SET", MSGPACK_BOMB, "KEEPTTL"),
    "for ever": lambda keys, o: keys.write(o, "SET", b"I"),
}
WRONG_TYPES: dict[str, Callable[[Keys, StoredObject], Any]] = {
    "list": lambda keys, o: (keys.write(o, "DEL"), keys.write(o, "RPUSH", "x")),
    "hash": lambda keys, o: (keys.write(o, "DEL"), keys.write(o, "HSET", "x", "y")),
    "set": lambda keys, o: (keys.write(o, "DEL"), keys.write(o, "SADD", "x")),
    "stream": lambda keys, o: (keys.write(o, "DEL"), keys.write(o, "XADD", "*", "x", "y")),
}


@pytest.mark.parametrize("how", [*BAD_VALUES, *WRONG_TYPES])
async def test_a_bad_value_is_absent_counted_and_repaired(
    store: RedisStore, keys: Keys, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A value that is not what its key names reads as absent, and a repair overwrites it."""
    objects = items(9)
    deadline = soon()
    await store.put(objects, deadline=deadline)
    (BAD_VALUES | WRONG_TYPES)[how](keys, objects[4])

    found = list(await store.get(digests(objects)))
    assert found == [*blobs(objects)[:4], None, *blobs(objects)[5:]]
    # MGET tells nothing of a value that is no string: that is met by the repair.
    assert store.bad_objects == (how in BAD_VALUES)

    await store.put(objects, deadline=deadline, repair=True)
    assert store.bad_objects == 1 + (how in BAD_VALUES)
    assert list(await store.get(digests(objects))) == blobs(objects)
    assert set(keys.until(objects)) == {deadline}
    assert store.bad_objects == 1 + (how in BAD_VALUES)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert "another" not in caplog.text


async def test_without_repair_a_bad_value_stays(store: RedisStore, keys: Keys) -> None:
    """Only a repair reads what is there: publishing again does not."""
    [one] = items(1)
    await store.put([one], deadline=soon())
    keys.write(one, "SET", b"Ibad", "KEEPTTL")
    assert list(await store.get([one.digest])) == [None]
    await store.put([one], deadline=soon(700))
    assert list(await store.get([one.digest])) == [None]


async def test_a_repair_keeps_a_longer_lease(store: RedisStore, keys: Keys) -> None:
    """Overwriting a bad value does not shorten what another node has asked for."""
    objects = items(4)
    longer = soon(900)
    await store.put(objects, deadline=longer)
    keys.write(objects[0], "SET", b"Ibad", "KEEPTTL")
    await store.put(objects, deadline=soon(600), repair=True)
    assert set(keys.until(objects)) == {longer}
    assert list(await store.get(digests(objects))) == blobs(objects)


async def test_a_repair_brings_back_what_is_absent(store: RedisStore, keys: Keys) -> None:
    """A repair asks for everything, whatever this node believes."""
    objects = tree(60)
    await store.put(objects, deadline=soon())
    keys.delete(objects[::3])
    await store.put(objects, deadline=soon(), repair=True)
    assert list(await store.get(digests(objects))) == blobs(objects)
    assert store.bad_objects == 0


class Recorder(Redis):
    """A client that notes what its pipelines hold, and when they are sent and answered."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log: list[tuple[str, list[tuple[Any, ...]]]] = []

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        pipeline = super().pipeline(transaction=transaction, shard_hint=shard_hint)
        execute = pipeline.execute

        async def recorded(raise_on_error: bool = True) -> list[Any]:
            commands = [args for args, _ in pipeline.command_stack]
            self.log.append(("sent", commands))
            replies = await execute(raise_on_error)
            self.log.append(("answered", commands))
            return replies

        pipeline.execute = recorded  # type: ignore[method-assign]
        return pipeline


@pytest.fixture
async def recorder(shared_server: Server) -> AsyncIterator[Recorder]:
    async with Recorder(host=HOST, port=shared_server.port) as own:
        yield own


async def test_chunks_are_bounded_in_objects_and_bytes(recorder: Recorder, namespace: str) -> None:
    """No pipeline holds more than 256 objects, nor more than 1 MiB of them."""
    store = patient(recorder, namespace)
    small, large = items(600), items(9, size=300_000)
    await store.put([*small, *large], deadline=soon())
    writes = [[c for c in sent if c[0] == "SET"] for what, sent in recorder.log if what == "sent"]
    sizes = [(len(w), sum(len(c[2]) for c in w)) for w in writes if w]
    assert [count for count, _ in sizes] == [256, 256, 91, 3, 3]
    assert max(size for _, size in sizes) <= 1024 * 1024
    assert list(await store.get(digests(small))) == blobs(small)


async def test_a_level_waits_for_the_one_below(recorder: Recorder, namespace: str) -> None:
    """A pipeline holds one level, and is sent after every reply of the levels below it."""
    store = patient(recorder, namespace)
    objects = tree(700)
    level = {key_of(namespace, o.digest): o.level for o in objects}
    await store.put(objects, deadline=soon())
    events = [(what, {level[c[1]] for c in commands}) for what, commands in recorder.log]
    assert all(len(levels) == 1 for _, levels in events)
    assert [what for what, _ in events] == ["sent", "answered"] * (len(events) // 2)
    assert [max(levels) for _, levels in events] == sorted(max(levels) for _, levels in events)
    assert {max(levels) for _, levels in events} == {0, 1, 2}


class Adversary(Recorder):
    """A client whose server loses every object between two commands."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        pipeline = super().pipeline(transaction=transaction, shard_hint=shard_hint)
        execute = pipeline.execute

        async def lossy(raise_on_error: bool = True) -> list[Any]:
            asked = pipeline.command_stack[0][0][0] == "EXPIRETIME"
            replies = await execute(raise_on_error)
            return [1 if asked else None for _ in replies]

        pipeline.execute = lossy
        return pipeline


async def test_a_lease_without_proof_is_not_believed(shared_server: Server, namespace: str) -> None:
    """After three rounds without proof the publication fails, and nothing is remembered.

    The server answered all the time, so reads go on.
    """
    async with Adversary(host=HOST, port=shared_server.port) as client:
        store = patient(client, namespace)
        for _ in range(2):
            client.log.clear()
            with pytest.raises(StoreUnavailableError, match="three times") as raised:
                await store.put(items(2), deadline=soon())
            assert raised.value.answered
            names = [commands[0][0] for what, commands in client.log if what == "sent"]
            assert names == ["EXPIRETIME", "EXPIREAT"] * 3


async def test_only_single_key_commands_and_reads_are_sent(server: Server) -> None:
    """A life of puts, gets, misses and repairs uses four commands on keys, and no other."""
    async with Redis(host=HOST, port=server.port) as client:
        await client.info()
        before = {name.removeprefix("cmdstat_") for name in await client.info("commandstats")}
        store = patient(client)
        objects = tree(60)
        await store.put(objects, deadline=soon())
        server.command("DEL", key_of("test", objects[0].digest))
        server.command("SET", key_of("test", objects[1].digest), b"Ibad")
        await store.get([*digests(objects), digest_of(b"absent")])
        await store.put(objects, deadline=soon(700), repair=True)
        used = {name.removeprefix("cmdstat_") for name in server.command("INFO", "commandstats")}
        assert used - before - {"del"} == {"mget", "expiretime", "set", "expireat"}


async def test_connections_are_bounded(server: Server) -> None:
    """A thousand reads at once share `concurrency` connections, and all are answered."""
    async with Redis(host=HOST, port=server.port) as client:
        store = RedisStore(client, namespace="test", concurrency=5, timeout=30)
        objects = items(20)
        await store.put(objects, deadline=soon())
        answers = await asyncio.gather(*(store.get(digests(objects)) for _ in range(1000)))
        assert {tuple(answer) for answer in answers} == {tuple(blobs(objects))}
        assert server.connections() <= 5


async def test_fakeredis_agrees_with_the_server(client: Redis, namespace: str) -> None:
    """The same life gives the same answers on fakeredis, so quick tests may use it."""

    deadline = soon()

    async def life(client: Redis) -> list[object]:
        store = patient(client, namespace)
        objects = tree(60)
        outcomes: list[object] = []
        keys = [key_of(namespace, o.digest) for o in objects]

        async def note() -> None:
            outcomes.append([await client.expiretime(key.decode()) for key in keys])
            outcomes.append(list(await store.get([*digests(objects), digest_of(b"x")])))
            outcomes.append(store.bad_objects)

        for asked in (0, 60, 30):
            await store.put(objects, deadline=deadline + asked)
            await note()
        await client.set(keys[0], b"bad", keepttl=True)
        await client.set(keys[1], b"bad")
        await client.delete(keys[2], keys[3])
        await client.rpush(keys[3], "x")
        await note()
        await store.put(objects, deadline=deadline + 90)
        await note()
        await store.put(objects, deadline=deadline, repair=True)
        await note()
        return outcomes

    async with fakeredis.FakeAsyncRedis() as fake:
        assert await life(fake) == await life(client)


@pytest.mark.parametrize(
    "namespace",
    ["", "a b", "a{b}", "a\n", "a*", "a?", "ä", "x" * 65, "a\x00", 7, None, b"bytes"],
)
def test_a_namespace_that_could_mislead_is_refused(namespace: Any) -> None:
    """Braces would choose the cluster's slot, wildcards the ACL, spaces the operator's eye."""
    with pytest.raises(ConfigurationError, match=r"namespace is .*give 1 to 64"):
        RedisStore(Redis(), namespace=namespace)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("timeout", True),
        ("concurrency", 0),
        ("concurrency", 1.0),
        ("max_leases", 0),
        ("max_leases", True),
    ],
)
def test_a_setting_that_cannot_work_is_refused(setting: str, value: Any) -> None:
    """Zero, negative, NaN, bool and float where int is meant fail at construction."""
    with pytest.raises(ConfigurationError, match=f"{setting} is "):
        RedisStore(Redis(), namespace="test", **{setting: value})


def test_a_client_that_decodes_is_refused() -> None:
    """Objects are bytes: a client that would decode them is refused with what to do."""
    with pytest.raises(ConfigurationError, match=r"decode_responses.*give a client without"):
        RedisStore(Redis(decode_responses=True), namespace="test")
    cluster = RedisCluster(host=HOST, port=1, decode_responses=True)
    with pytest.raises(ConfigurationError, match="decode_responses"):
        patient(cluster)


def test_reading_from_replicas_is_refused() -> None:
    """Replicas lag, which would look like loss: every way to read from them is refused."""
    clients: list[Any] = [sentinel_at(1).slave_for("main")]
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        clients.append(RedisCluster(host=HOST, port=1, read_from_replicas=True))
    for strategy in getattr(redis.cluster, "LoadBalancingStrategy", ()):  # None in redis-py 5.2
        clients.append(RedisCluster(host=HOST, port=1, load_balancing_strategy=strategy))
    for client in clients:
        with pytest.raises(ConfigurationError, match=r"reads from replicas.*master_for"):
            patient(client)


def test_the_operator_page_s_examples_run() -> None:
    """Each way to set up a client that the page shows makes a store."""
    page = (ROOT / "docs" / "redis.md").read_text()
    examples = re.findall(r"```python\n(.+?)```", page, re.DOTALL)
    for example in examples:
        names: dict[str, Any] = {}
        exec(example, names)  # noqa: S102  # this project's own page
        assert isinstance(names["store"], RedisStore)
    assert len(examples) == 3


def test_clients_of_other_kinds_are_refused() -> None:
    """A synchronous client, a URL or a connection pool is refused with what to give instead."""
    others: list[Any] = [redis.Redis(), "redis://localhost", ConnectionPool(), None]
    for other in others:
        with pytest.raises(ConfigurationError, match=r"client is of type .*redis.asyncio"):
            patient(other)


def test_trio_is_refused_with_what_to_use_instead() -> None:
    """Under trio a call says that redis-py needs asyncio, instead of failing deep inside."""
    store = RedisStore(Redis(), namespace="test")
    with pytest.raises(ConfigurationError, match=r"asyncio.*MemoryStore"):
        anyio.run(store.get, [digest_of(b"x")], backend="trio")


def test_the_module_names_its_extra() -> None:
    """Without redis-py the import says which extra brings it."""
    code = "import sys; sys.modules['redis'] = None; import cursorkit.stores.redis"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert b"pip install 'cursorkit[redis]'" in done.stderr


class Failing(Redis):
    """A client that raises in every call."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.calls = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        raise self.error

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        pipeline = super().pipeline(transaction=transaction, shard_hint=shard_hint)

        async def execute(raise_on_error: bool = True) -> list[Any]:
            await self.execute_command()
            return []

        pipeline.execute = execute  # type: ignore[method-assign]
        return pipeline


def _instance(kind: type[Exception]) -> Exception:
    message = "3999 127.0.0.1:6381" if issubclass(kind, driver.AskError) else "a message"
    return kind(message)


DRIVER_ERRORS = [
    _instance(kind)
    for kind in vars(driver).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
] + [
    MasterNotFoundError("a message"),
    SlaveNotFoundError("a message"),
    RuntimeError("Event loop is closed"),
    OSError("a message"),
    TimeoutError("a message"),
    KeyError("a message"),
]


@pytest.mark.parametrize("error", DRIVER_ERRORS, ids=lambda error: type(error).__name__)
async def test_every_error_of_the_driver_is_mapped(error: Exception) -> None:
    """Whatever redis-py raises becomes a StoreUnavailableError with the driver's as its cause."""
    store = RedisStore(Failing(error), namespace="test")
    for call in (store.get([digest_of(b"x")]), store.put(items(1), deadline=soon())):
        with pytest.raises(StoreUnavailableError) as raised:
            await call
        assert raised.value.__cause__ is error
        refused = isinstance(error, driver.ResponseError)
        down = isinstance(error, driver.ClusterError)
        assert raised.value.answered == (refused and not down)
        assert "a message" not in str(raised.value)


def test_the_walk_over_the_driver_s_errors_is_complete() -> None:
    """The list above has the kinds that are no RedisError, and those of every age."""
    kinds = {type(error) for error in DRIVER_ERRORS}
    assert {
        driver.RedisClusterException,
        driver.MasterDownError,
        driver.ReadOnlyError,
        driver.OutOfMemoryError,
        RuntimeError,
    } <= kinds
    assert any(not issubclass(kind, driver.RedisError) for kind in kinds)


@pytest.mark.parametrize(
    "error",
    [
        driver.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        UnicodeDecodeError("utf-8", b"\xffsecret", 0, 1, "invalid start byte"),
    ],
    ids=["wrongtype", "unicode"],
)
async def test_an_answer_that_is_no_object_is_a_data_error(error: Exception) -> None:
    """What cannot be an object counts as absent, and its bytes are in no exception."""
    store = RedisStore(Failing(error), namespace="test")
    with pytest.raises(StoreDataError) as raised:
        await store.get([digest_of(b"x")])
    chain: list[BaseException | None] = [raised.value.__cause__, raised.value.__context__]
    assert not any(isinstance(link, UnicodeDecodeError) for link in chain)


class Babbling(Redis):
    """A client whose server answers something else than was asked for."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return self.answer

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        pipeline = super().pipeline(transaction=transaction, shard_hint=shard_hint)

        async def execute(raise_on_error: bool = True) -> list[Any]:
            return [self.answer for _ in pipeline.command_stack]

        pipeline.execute = execute  # type: ignore[method-assign]
        return pipeline


@pytest.mark.parametrize("answer", [None, b"OK", 7.5, [], [b"x", b"y"], {}])
async def test_a_senseless_answer_is_a_data_error(answer: Any) -> None:
    """An answer of the wrong shape is a StoreDataError, not an accident further on."""
    store = RedisStore(Babbling(answer), namespace="test")
    with pytest.raises(StoreDataError):
        await store.get([digest_of(b"x")])
    with pytest.raises(StoreError):
        await store.put(items(1), deadline=soon())


class Busy(Babbling):
    """A client whose server has no value, and then no time to tell whether it is the primary."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Any:
        self.answer = driver.ResponseError("BUSY running a script")
        return super().pipeline(transaction=transaction, shard_hint=shard_hint)


async def test_a_miss_that_cannot_be_confirmed_is_no_miss() -> None:
    """Absence is believed only after the primary has said so."""
    store = RedisStore(Busy([None]), namespace="test")
    with pytest.raises(StoreUnavailableError, match="refused MGET"):
        await store.get([digest_of(b"x")])


async def test_values_of_other_types_are_absent() -> None:
    """Values that are no bytes, as a wrapped client might give, are bad values."""
    store = RedisStore(Babbling(["text"]), namespace="test")
    assert list(await store.get([digest_of(b"text")])) == [None]
    assert store.bad_objects == 1


async def test_an_object_from_elsewhere_is_checked_by_digest(store: RedisStore, keys: Keys) -> None:
    """A hostile store can refuse, never substitute."""
    good, evil = stored(b"Igood"), stored(b"Ievil")
    await store.put([good], deadline=soon())
    keys.write(good, "SET", evil.blob, "KEEPTTL")
    assert list(await store.get([good.digest])) == [None]
