"""The faults of a soak. Each tells whether it took effect; only then it counts."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from benchmarks.soak_fleet import NAMESPACE, TIMEOUT, Fleet, Remote
from cursorkit import JsonItems, StoredObject
from cursorkit.snapshots import build, encode_items
from cursorkit.stores.base import MAX_BLOB_BYTES, digest_of

__all__ = ["Fault", "faults_of"]

_LONGEST: Final = 2 * TIMEOUT
"""Seconds for which a server is silent at most."""

_EFFECT: Final = 3.0
"""Seconds within which a fault takes effect, or is none."""

_JSON: Final = JsonItems()

Injection: TypeAlias = Callable[[Fleet, random.Random], Awaitable[bool]]
RemoteInjection: TypeAlias = Callable[[Fleet, Remote, random.Random], Awaitable[bool]]


@dataclass(frozen=True)
class Fault:
    """A kind of fault, and how often it happens beside the others."""

    inject: Injection
    weight: int


async def _until(happened: Callable[[], bool]) -> bool:
    for _ in range(int(_EFFECT / 0.005)):
        if happened():
            return True
        await asyncio.sleep(0.005)
    return False


async def _restart_node(fleet: Fleet, draw: random.Random) -> bool:
    draw.choice(fleet.nodes).restart()
    return True


async def _rotate(fleet: Fleet, draw: random.Random) -> bool:
    """Roll out a new key, node by node: first to be read, then to mint."""
    for ring in fleet.next_key(draw):
        for node in draw.sample(fleet.nodes, len(fleet.nodes)):
            node.use(ring)
            await asyncio.sleep(0.02 * draw.random())
    return True


async def _cancel(fleet: Fleet, draw: random.Random) -> bool:
    del draw
    fleet.cancelled.clear()
    fleet.cancelling = True
    happened = await _until(fleet.cancelled.is_set)
    fleet.cancelling = False
    return happened


async def _crowd_out(fleet: Fleet, size: int, draw: random.Random) -> bool:
    """Put an object that takes so much space; return whether others went for it."""
    assert fleet.memory is not None
    before = len(fleet.memory)
    blob = b"I" + draw.randbytes(size)
    fleet.losses += 1
    await fleet.memory.put([StoredObject(digest_of(blob), blob)], deadline=2**40)
    return len(fleet.memory) <= before > 0


async def _evict_from_memory(fleet: Fleet, draw: random.Random) -> bool:
    return await _crowd_out(fleet, draw.randrange(MAX_BLOB_BYTES // 4, MAX_BLOB_BYTES - 1), draw)


async def _clear_memory(fleet: Fleet, draw: random.Random) -> bool:
    # With its overhead it does not fit itself.
    return await _crowd_out(fleet, MAX_BLOB_BYTES - 1, draw)


async def _victims(fleet: Fleet, draw: random.Random) -> list[tuple[bytes, bytes]]:
    """Return keys and values of some objects that a walk under way still needs."""
    walks = [walk for walk in fleet.walks if walk.at]
    if not walks:
        return []
    walk = draw.choice(sorted(walks, key=lambda each: each.number))
    tree = await build(await encode_items(walk.items, _JSON), _JSON.name)
    needed = list(tree.objects())[walk.at :]
    if draw.random() < 0.3:
        needed = needed[-1:]
    some = draw.sample(needed, draw.randrange(1, len(needed) + 1))
    return [(_key(each.digest), each.blob) for each in some]


def _key(digest: bytes) -> bytes:
    return f"{NAMESPACE}:1:".encode() + base64.urlsafe_b64encode(digest).rstrip(b"=")


async def _told(fleet: Fleet, remote: Remote, commands: list[tuple[Any, ...]]) -> list[Any]:
    fleet.losses += 1
    pipeline: Any = remote.admin.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    replies: list[Any] = await pipeline.execute()
    return replies


async def _delete(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    victims = await _victims(fleet, draw)
    return any(await _told(fleet, remote, [("DEL", key) for key, _ in victims]))


async def _expire(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    victims = await _victims(fleet, draw)
    return any(await _told(fleet, remote, [("PEXPIREAT", key, 1) for key, _ in victims]))


async def _rot(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    victims = await _victims(fleet, draw)
    commands = [
        ("SET", key, _rotten(blob, victims[0][1], draw), "XX", "KEEPTTL") for key, blob in victims
    ]
    return any(await _told(fleet, remote, commands))


def _rotten(blob: bytes, other: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(blob))
    flipped = blob[:at] + bytes([blob[at] ^ (1 << draw.randrange(8))]) + blob[at + 1 :]
    foreign = other if other != blob else b"I{}"
    return draw.choice((flipped, blob[:at], blob + b"\0", foreign, b"R" + draw.randbytes(40)))


_CHANGE_TYPE: Final = (
    "if redis.call('DEL', KEYS[1]) == 0 then return 0 end"
    " redis.call('RPUSH', KEYS[1], 'x') return redis.call('EXPIRE', KEYS[1], 600)"
)


async def _change_type(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    victims = await _victims(fleet, draw)
    return any(await _told(fleet, remote, [("EVAL", _CHANGE_TYPE, 1, key) for key, _ in victims]))


async def _flush(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    del draw
    had, _ = await _told(fleet, remote, [("DBSIZE",), ("FLUSHALL",)])
    return bool(had)


async def _set_memory(remote: Remote, limit: int, policy: str) -> None:
    await remote.admin.config_set("maxmemory-policy", policy)
    await remote.admin.config_set("maxmemory", limit)


async def _evict(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    """Let the server need memory, and throw out some of what will expire.

    Where that is not enough it refuses what is put meanwhile.
    """
    info: Any = await remote.admin.info()
    with fleet.trouble():
        limit = info["used_memory"] - draw.randrange(10_000, 100_000)
        await _set_memory(remote, limit, "volatile-ttl")
        await asyncio.sleep(0.05)
        await _set_memory(remote, 0, "volatile-ttl")
    after: Any = await remote.admin.info("stats")
    return bool(after["evicted_keys"] > info["evicted_keys"])


async def _fill(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    """Let the server refuse what is put, and answer what is asked."""
    with fleet.trouble():
        await _set_memory(remote, 1, "noeviction")
        await asyncio.sleep(0.3 * draw.random())
        await _set_memory(remote, 0, "noeviction")
    return True


async def _drop_reply(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    with fleet.trouble(connection=True):
        remote.proxy.drop_reply = draw.randrange(4)
        dropped = await _until(lambda: remote.proxy.drop_reply == -1)
        remote.proxy.drop_reply = -1
    return dropped


async def _cut(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    del draw
    with fleet.trouble(connection=True):
        remote.proxy.cut()
        await asyncio.sleep(0)
    return True


async def _stall(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    with fleet.trouble():
        remote.proxy.stall()
        await asyncio.sleep(_LONGEST * draw.random())
        remote.proxy.flow()
    return True


async def _pause(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    with fleet.trouble():
        remote.server.pause()
        try:
            await asyncio.sleep(_LONGEST * draw.random())
        finally:
            remote.server.resume()
    return True


async def _kill(fleet: Fleet, remote: Remote, draw: random.Random) -> bool:
    with fleet.trouble():
        await asyncio.to_thread(remote.server.kill)
        await asyncio.sleep(draw.random())
        await asyncio.to_thread(remote.server.start)
    return True


def _on_server(inject: RemoteInjection) -> Injection:
    async def injected(fleet: Fleet, draw: random.Random) -> bool:
        assert fleet.remote is not None
        return await inject(fleet, fleet.remote, draw)

    return injected


_EVERYWHERE: Final[Mapping[str, Fault]] = {
    "node restarted": Fault(_restart_node, 10),
    "key rotated": Fault(_rotate, 2),
    "request cancelled": Fault(_cancel, 15),
}
_IN_MEMORY: Final[Mapping[str, Fault]] = {
    "evicted": Fault(_evict_from_memory, 40),
    "all lost": Fault(_clear_memory, 20),
}
_ON_SERVER: Final[Mapping[str, Fault]] = {
    "deleted": Fault(_on_server(_delete), 25),
    "expired early": Fault(_on_server(_expire), 15),
    "rotten": Fault(_on_server(_rot), 20),
    "of another type": Fault(_on_server(_change_type), 10),
    "all lost": Fault(_on_server(_flush), 5),
    "evicted": Fault(_on_server(_evict), 5),
    "server full": Fault(_on_server(_fill), 2),
    "reply dropped": Fault(_on_server(_drop_reply), 15),
    "connections cut": Fault(_on_server(_cut), 4),
    "replies stalled": Fault(_on_server(_stall), 1),
    "server paused": Fault(_on_server(_pause), 1),
    "server killed": Fault(_on_server(_kill), 2),
}


def faults_of(fleet: Fleet) -> Mapping[str, Fault]:
    """Return the kinds of faults that a fleet may have."""
    return {**_EVERYWHERE, **(_IN_MEMORY if fleet.remote is None else _ON_SERVER)}
