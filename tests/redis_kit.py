"""What the tests of RedisStore share: objects, clients, children and cancellations."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from cursorkit.stores.base import StoredObject, digest_of
from cursorkit.stores.redis import RedisStore
from tests.servers import HOST

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[1]


def soon(seconds: int = 600) -> int:
    """Return a deadline that is some seconds away."""
    return int(time.time()) + seconds


def stored(blob: bytes, level: int = 0) -> StoredObject:
    """Return an object under its right name."""
    return StoredObject(digest_of(blob), blob, level)


def items(count: int, *, size: int = 100, seed: int = 0) -> list[StoredObject]:
    """Return distinct objects of level 0."""
    source = random.Random(f"{seed} {count} {size}")  # noqa: S311  # examples, no secrets
    return [stored(b"I" + source.randbytes(size)) for _ in range(count)]


def tree(count: int, *, seed: int = 0) -> list[StoredObject]:
    """Return items, the nodes of fifty above them, and a root above those: levels 0, 1 and 2."""
    leaves = items(count, seed=seed)
    nodes = [
        stored(b"N" + b"".join(digests(leaves[start : start + 50])), 1)
        for start in range(0, count, 50)
    ]
    return [*leaves, *nodes, stored(b"R" + b"".join(digests(nodes)), 2)]


def children(blob: bytes) -> list[bytes]:
    """Return the digests that a node or root of `tree` refers to."""
    if blob[:1] == b"I":
        return []
    return [blob[start : start + 32] for start in range(1, len(blob), 32)]


def digests(objects: list[StoredObject]) -> list[bytes]:
    """Return the names of objects."""
    return [o.digest for o in objects]


def blobs(objects: list[StoredObject]) -> list[bytes | None]:
    """Return what a store that holds all of them answers."""
    return [o.blob for o in objects]


def key_of(namespace: str, digest: bytes) -> bytes:
    """Return the key of an object, as documented."""
    return f"{namespace}:1:".encode() + base64.urlsafe_b64encode(digest).rstrip(b"=")


def impatient(port: int) -> Redis:
    """Return a client that never tries again by itself: what helps then is the store's doing."""
    return Redis(host=HOST, port=port, retry=Retry(NoBackoff(), 0))


def patient(client: Redis | RedisCluster, namespace: str = "test", **settings: Any) -> RedisStore:
    """Return a store for tests in which time is not the point: a busy machine is no failure."""
    return RedisStore(client, namespace=namespace, timeout=10, **settings)


def sentinel_at(port: int, **settings: Any) -> Sentinel:
    """Return what asks the Sentinel at a port."""
    sentinel: Any = Sentinel
    made: Sentinel = sentinel([(HOST, port)], **settings)
    return made


def documented_acl(*, cluster: bool = False) -> list[str]:
    """Return the rules of the operator page, as ACL SETUSER takes them after the name."""
    page = (ROOT / "docs" / "redis.md").read_text()
    alone, on_cluster = re.findall(r"^ACL SETUSER cursorkit (.+)$", page, re.MULTILINE)
    return str(on_cluster if cluster else alone).replace("PASSWORD", "sesame").split()


async def live(store: RedisStore) -> None:
    """Do with a store all that can be done."""
    objects = tree(60)
    await store.put(objects, deadline=soon())
    await store.put(objects, deadline=soon(700))
    await store.get([*digests(objects), digest_of(b"absent")])
    await store.put(objects, deadline=soon(800), repair=True)
    assert list(await store.get(digests(objects))) == blobs(objects)


async def cancelled(call: Coroutine[Any, Any, T], after: float, how: str) -> T | None:
    """Cancel a call after some seconds, by "task", "twice" or "scope"; return what it answered."""
    if how == "scope":
        with anyio.move_on_after(after):
            return await call
        return None
    task = asyncio.ensure_future(call)
    await asyncio.wait({task}, timeout=after)
    task.cancel()
    if how == "twice":
        await asyncio.sleep(0)
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        return await task
    return None


def child(code: str, *args: object) -> subprocess.Popen[bytes]:
    """Run some code in a process of its own."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(code: str, *args: object) -> str:
    """Run some code in a process of its own, and return what it printed."""
    with child(code, *args) as process:
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    return printed.decode()
