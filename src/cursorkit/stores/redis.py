"""Snapshots shared by all nodes of a service, in Redis or Valkey. `docs/redis.md` is for operators.

An object is a string at ``{namespace}:1:{digest in base64url}`` that expires by itself. Every
command may be repeated: one whose reply was lost changes nothing the second time. Times given to
the server are absolute and only ever rise, so no node shortens what another relies on.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeGuard, TypeVar, cast

from cursorkit.checks import check_int, check_seconds
from cursorkit.errors import (
    ConfigurationError,
    StoreDataError,
    StoreError,
    StoreUnavailableError,
)
from cursorkit.stores.base import StoredObject, VerifiedBlobs, verified

try:
    from redis import exceptions as driver
    from redis.asyncio import Redis, RedisCluster
except ImportError as missing:
    raise ImportError(
        "RedisStore needs redis-py: pip install 'cursorkit[redis]'", name="redis"
    ) from missing

__all__ = ["RedisStore"]

T = TypeVar("T")

_log: Final = logging.getLogger("cursorkit")

_LAYOUT: Final = "1"
"""A part of every key: another layout of the keys or values never meets this one's."""

_CHUNK_OBJECTS: Final = 256
_CHUNK_BYTES: Final = 1024 * 1024

_YIELD_EVERY: Final = 4096
"""Objects with a known lease between two checkpoints: about a millisecond."""

_AGAIN_AFTER: Final = 0.05
"""Seconds after which a chunk that did not heed its timeout is told again."""

_ROUNDS: Final = 3
"""How often a chunk is tried. Once is usual, twice where another node was faster."""

_ABSENT: Final = -2
_WITHOUT_EXPIRY: Final = -1
"""What EXPIRETIME answers in place of a time."""

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_TO_BASE64URL: Final = bytes.maketrans(b"+/", b"-_")

_Command: TypeAlias = tuple[bytes | str | int, ...]


class RedisStore:
    """Objects in Redis 7 or Valkey: one server, behind Sentinel, or a cluster.

    Needs asyncio. The client is yours: it is never closed, and connects at the first call. One
    client serves one event loop; when that has ended, the store goes on in the next one.

    Args:
        client: A `redis.asyncio` client: `Redis`, what Sentinel's `master_for` returns, or
            `RedisCluster`. It must return bytes and read from primaries.
        namespace: The start of every key: 1 to 64 of A-Z a-z 0-9 _ . : / -
        timeout: Seconds for a chunk of up to 256 objects or 1 MiB, retries included, whatever the
            client's own timeouts are.
        concurrency: Chunks under way at once; further ones wait. Each takes one connection, on a
            cluster one of each node, so the client's pool should hold as many.
        max_leases: Objects for which this node remembers that they are kept, 120 bytes each. A list
            that is longer is asked for again whenever it is published.
        clock: Returns Unix seconds. Only to tell a deadline that is past.

    Raises:
        ConfigurationError: If the client or a setting cannot work.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        *,
        namespace: str,
        timeout: float = 1.0,
        concurrency: int = 8,
        max_leases: int = 200_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        _check_client(client)
        if type(namespace) is not str or _NAMESPACE.fullmatch(namespace) is None:
            raise ConfigurationError(
                f"namespace is {str(namespace)[:80]!r}; give 1 to 64 of A-Z a-z 0-9 _ . : / - ,"
                " for example 'cursorkit:production'"
            )
        self._prefix = f"{namespace}:{_LAYOUT}:".encode()
        self._server = _Server(
            client,
            probe=self._prefix + b"primary",
            timeout=check_seconds("timeout", timeout, 3600),
            concurrency=check_int("concurrency", concurrency, 1, 10_000),
        )
        self._max_leases = check_int("max_leases", max_leases, 2, 2**31)
        self._leases = _Leases(self._max_leases)
        self._clock = clock
        self._bad_objects = 0

    @property
    def bad_objects(self) -> int:
        """How often a value was met that is not what its key names, since the start."""
        return self._bad_objects

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        """Keep every object at least until `deadline`. Nothing is sent if that is within a second.

        Raises:
            StoreUnavailableError: If the server cannot be asked in time, or refuses.
            StoreDataError: If its answer makes no sense.
            ConfigurationError: If the event loop is not asyncio's.
        """
        if deadline - self._clock() < 1:
            return
        chunk: dict[bytes, StoredObject] = {}
        size = level = known = 0
        for stored in objects:
            if not repair and self._leases.cover(stored.digest, deadline):
                known += 1
                if known % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                continue
            full = len(chunk) == _CHUNK_OBJECTS or size + len(stored.blob) > _CHUNK_BYTES
            # A level is sent only after every reply of the level below.
            if chunk and (full or stored.level != level):
                await self._keep(chunk, deadline, repair=repair)
                chunk, size = {}, 0
            chunk[stored.digest] = stored
            size += len(stored.blob)
            level = stored.level
        if chunk:
            await self._keep(chunk, deadline, repair=repair)

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        """Return the blobs of `digests`, in their order, None where absent or bad.

        Raises:
            StoreUnavailableError: If the server cannot be asked in time, or refuses.
            StoreDataError: If its answer makes no sense.
            ConfigurationError: If the event loop is not asyncio's.
        """
        found: list[bytes | None] = []
        for start in range(0, len(digests), _CHUNK_OBJECTS):
            part = digests[start : start + _CHUNK_OBJECTS]
            async with self._server.chunk():
                blobs = await self._server.read(self._keys(part))
            checked = verified(part, blobs)
            if None in checked:
                # All may be lost, and belief in leases that are gone would keep it lost.
                self._leases = _Leases(self._max_leases)
                self._count_bad(checked.count(None) - blobs.count(None))
            found += checked
        return VerifiedBlobs(digests, found)

    def _keys(self, digests: Iterable[bytes]) -> list[bytes]:
        # With a zero behind it a digest fills 44 characters, so one call encodes all of them.
        padded = b"".join([digest + b"\0" for digest in digests])
        text = binascii.b2a_base64(padded, newline=False).translate(_TO_BASE64URL)
        return [self._prefix + text[start : start + 43] for start in range(0, len(text), 44)]

    def _count_bad(self, count: int) -> None:
        if count:
            self._bad_objects += count
            _log.warning("values in the store that are not what their keys name: %d", count)

    async def _keep(self, chunk: dict[bytes, StoredObject], deadline: int, *, repair: bool) -> None:
        async with self._server.chunk():
            # A get that meets a loss meanwhile makes new leases: what is proved here is forgotten.
            leases = self._leases
            # Another task may have proved some while this one waited for its turn.
            unproved = {d: o for d, o in chunk.items() if repair or not leases.cover(d, deadline)}
            for _ in range(_ROUNDS):
                if unproved:
                    unproved = await self._extend(unproved, deadline, repair=repair)
            if not unproved:
                leases.remember(chunk, deadline)
                return
        raise StoreUnavailableError(
            "objects changed under this publication, three times over", answered=True
        )

    async def _extend(
        self, objects: dict[bytes, StoredObject], deadline: int, *, repair: bool
    ) -> dict[bytes, StoredObject]:
        """Keep objects until `deadline`; return those for which no reply proves it."""
        keys = self._keys(objects)
        times = await self._server.send([("EXPIRETIME", key) for key in keys])
        if not all(type(until) is int for until in times):
            raise StoreDataError("the server answered EXPIRETIME with something else than a time")
        aged = list(zip(objects.values(), keys, times, strict=True))
        short = [entry for entry in aged if entry[2] < deadline]
        replies = await self._server.send([_lease(*entry, deadline) for entry in short])
        unproved = [entry[0] for entry, done in zip(short, replies, strict=True) if not done]
        if repair:
            unproved += await self._mend([(o, key) for o, key, until in aged if until != _ABSENT])
        return {o.digest: o for o in unproved}

    async def _mend(self, there: list[tuple[StoredObject, bytes]]) -> list[StoredObject]:
        """Overwrite values that are not what they should be; return what was to be overwritten."""
        blobs = await self._server.read([key for _, key in there])
        bad = [entry for entry, blob in zip(there, blobs, strict=True) if blob != entry[0].blob]
        # KEEPTTL, since a time of ours might be shorter than what another node has set just now.
        replies = await self._server.send(
            [("SET", key, stored.blob, "XX", "KEEPTTL") for stored, key in bad]
        )
        self._count_bad(sum(bool(done) for done in replies))
        return [stored for stored, _ in bad]


def _lease(stored: StoredObject, key: bytes, until: int, deadline: int) -> _Command:
    if until == _ABSENT:
        return "SET", key, stored.blob, "NX", "EXAT", deadline
    return "EXPIREAT", key, deadline, "NX" if until == _WITHOUT_EXPIRY else "GT"


class _Leases:
    """Objects known to be kept, and until when: of the latest ones, at least half the limit."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._new: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def cover(self, digest: bytes, deadline: int) -> bool:
        return self._new.get(digest, 0) >= deadline or self._old.get(digest, 0) >= deadline

    def remember(self, digests: Iterable[bytes], deadline: int) -> None:
        for digest in digests:
            if len(self._new) >= self._half:
                self._old, self._new = self._new, {}
            self._new[digest] = deadline


class _Pool(Protocol):
    def reset(self) -> None: ...
    def disconnect(self, inuse_connections: bool) -> Coroutine[Any, Any, None]: ...


class _Pipeline(Protocol):
    def execute_command(self, *args: bytes | str | int) -> object: ...
    async def execute(self, *, raise_on_error: bool) -> list[Any]: ...


class _Client(Protocol):
    """What is used of `Redis` and `RedisCluster`, whose own annotations are loose."""

    async def execute_command(self, *args: bytes | str | int) -> Any: ...
    async def mget_nonatomic(self, keys: Sequence[bytes]) -> Any: ...
    def pipeline(self, *, transaction: bool) -> _Pipeline: ...


class _Server:
    """The client, bounded in time, with its errors made ours and stale connections replaced."""

    def __init__(
        self, client: Redis | RedisCluster, *, probe: bytes, timeout: float, concurrency: int
    ) -> None:
        self._client = cast("_Client", client)
        self._pool: _Pool | None = None
        self._drop_connections: Callable[[], Coroutine[Any, Any, None]]
        if isinstance(client, RedisCluster):
            # It has a pool for each node, and hides them. It does this itself when a node is gone.
            self._drop_connections = client.aclose
        else:
            self._pool = cast("_Pool", client.connection_pool)
            self._drop_connections = partial(self._pool.disconnect, inuse_connections=False)
        self._probe = probe
        self._timeout = timeout
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reconnections = 0
        self._forbidden: set[object] = set()

    @asynccontextmanager
    async def chunk(self) -> AsyncGenerator[None]:
        """Bound what is done inside by the timeout and the concurrency."""
        await self._enter_loop()
        try:
            # Up to Python 3.11 the first may be lost: asyncio.wait_for, with which redis-py writes,
            # forgets a cancellation that comes as the write ends.
            late = asyncio.timeout(self._timeout + _AGAIN_AFTER)
            async with late, asyncio.timeout(self._timeout), self._slots:
                yield
        except TimeoutError as error:
            cause = _retried(error)
            raise StoreUnavailableError(
                f"no answer within {self._timeout} s: {type(cause).__name__}"
            ) from cause

    async def send(self, commands: Sequence[_Command]) -> list[Any]:
        """Return the replies to commands that were sent together."""
        if not commands:
            return []
        replies = await self._ask(lambda: self._pipeline(commands))
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, Exception):
                raise self._translated(reply, command[0]) from reply
        return replies

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of `keys`, None where the primary has none or no string."""
        if not keys:
            return []
        values: Any = await self._ask(lambda: self._values(keys), "MGET")
        if self._pool is not None and _answers(values, keys) and None in values:
            # A replica that lags answers the same. It refuses what might write, so ask behind that.
            probe = "EXPIREAT", self._probe, 1, "GT"
            _, values = await self._ask(lambda: self._pipeline([probe, ("MGET", *keys)]))
            if isinstance(values, Exception):
                raise self._translated(values, "MGET") from values
        if not _answers(values, keys):
            raise StoreDataError("the server answered MGET with something else than its values")
        return values

    async def _values(self, keys: Sequence[bytes]) -> Any:
        # A cluster refuses an MGET over several slots, even if one node has them all.
        if self._pool is None:
            return await self._client.mget_nonatomic(keys)
        return await self._client.execute_command("MGET", *keys)

    async def _pipeline(self, commands: Sequence[_Command]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        # Errors that redis-py raises itself hold the command, and so the objects.
        replies = await pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception) and _is_stale(reply):
                raise reply
        return replies

    async def _ask(self, call: Callable[[], Coroutine[Any, Any, T]], command: str = "") -> T:
        """Return what the driver answers, asked once more where another connection may help."""
        reconnections = self._reconnections
        try:
            try:
                return await self._run(call)
            except Exception as error:
                if not _is_stale(error):
                    raise
                await _apart(self._reconnect(reconnections))
                return await self._run(call)
        except Exception as error:  # noqa: BLE001  # RuntimeError, OSError, even KeyError: it varies
            failure = error
        # The one error of Python's own that holds what it read.
        hidden = isinstance(failure, UnicodeDecodeError)
        raise self._translated(failure, command) from (None if hidden else failure)

    async def _run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await (call() if self._pool is not None else _apart(call()))

    def _translated(self, error: Exception, command: object) -> StoreError:
        if isinstance(error, driver.NoPermissionError) and command not in self._forbidden:
            self._forbidden.add(command)
            _log.warning(
                "the server's ACL forbids %s; docs/redis.md has the rules that suffice",
                command or "a command that the client sends when it connects",
            )
        if isinstance(error, UnicodeDecodeError) or str(error).startswith("WRONGTYPE"):
            return StoreDataError("the server answered something else than an object")
        name = type(error).__name__
        read_only = isinstance(error, driver.ReadOnlyError)
        if isinstance(error, driver.ResponseError) and (read_only or not _is_stale(error)):
            what = command or "the request"
            return StoreUnavailableError(f"the server refused {what}: {name}", answered=True)
        return StoreUnavailableError(f"the server could not be asked: {name}")

    async def _reconnect(self, seen: int) -> None:
        """Make the next calls connect anew, unless somebody did so since `seen`."""
        if seen == self._reconnections:
            self._reconnections += 1
            await self._drop_connections()

    async def _enter_loop(self) -> None:
        """Drop what belongs to an event loop that has ended."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(
                "RedisStore needs asyncio, as redis-py does; under trio use MemoryStore"
            ) from None
        ended = self._loop
        if loop is ended:
            return
        if ended is not None and ended.is_running():
            raise StoreUnavailableError(
                "another event loop is using the client; give each its own client and store"
            )
        self._loop = loop
        self._slots = asyncio.Semaphore(self._concurrency)
        if ended is None:
            return
        if self._pool is None:
            with suppress(RuntimeError):  # The old connections cannot say good-bye any more.
                await _apart(self._drop_connections())
            return
        self._pool.reset()
        # A lock stays with the loop in which somebody first had to wait for it.
        for name, lock in list(vars(self._pool).items()):
            if isinstance(lock, asyncio.Lock | asyncio.Condition):
                setattr(self._pool, name, type(lock)())


def _is_stale(error: Exception) -> bool:
    """Tell whether another connection may help: this one broke, or leads to no primary any more."""
    gone = driver.ConnectionError, driver.TimeoutError, driver.ReadOnlyError, driver.ClusterError
    # Old versions of redis-py know MASTERDOWN only on clusters.
    return isinstance(error, gone) or str(error).startswith("MASTERDOWN")


async def _apart(call: Coroutine[Any, Any, T]) -> T:
    """Return what a call returns that runs in a task of its own.

    redis-py gathers tasks for clusters and disconnections, and asyncio.gather forgets who cancelled
    it: anyio would then not know a cancellation of its own, and let it out of its scope.
    """
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task])
    finally:
        if not task.done():
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            task.cancel()
    return task.result()


def _retried(error: BaseException) -> BaseException:
    """Return the error over which the driver was trying again when its time was up, if any."""
    link: BaseException | None = error
    while link is not None and not isinstance(link, driver.RedisError):
        link = link.__cause__ or link.__context__
    return link or error


def _answers(values: object, keys: Sequence[bytes]) -> TypeGuard[list[bytes | None]]:
    return isinstance(values, list) and len(cast("list[object]", values)) == len(keys)


def _check_client(client: Redis | RedisCluster) -> None:
    if not isinstance(client, Redis | RedisCluster):
        raise ConfigurationError(
            f"client is of type {type(client).__name__}; give a redis.asyncio Redis, the one that"
            " Sentinel.master_for returns, or a RedisCluster"
        )
    if client.get_connection_kwargs().get("decode_responses"):
        raise ConfigurationError(
            "the client has decode_responses=True, but objects are bytes; give a client without it"
        )
    if isinstance(client, RedisCluster):
        # redis-py 5.2 knows no load_balancing_strategy.
        strategy = getattr(client, "load_balancing_strategy", None)
        replica = client.read_from_replicas or strategy is not None
    else:
        # Only the pool that Sentinel makes has is_master.
        replica = not getattr(client.connection_pool, "is_master", True)
    if replica:
        raise ConfigurationError(
            "the client reads from replicas, which lag, so that objects would seem lost; give one"
            " without read_from_replicas and load_balancing_strategy, and from master_for"
        )
