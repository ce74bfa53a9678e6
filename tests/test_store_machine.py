"""The stores against one model, step by step: in memory, on Valkey, and on Redis where it is there.

Each server has two nodes, which share what it holds and believe what they themselves kept there.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# redis-py's own annotations are loose.

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from cursorkit.stores.memory import MemoryStore
from cursorkit.stores.redis import RedisStore
from cursorkit.testing.clock import FakeClock
from tests.redis_kit import key_of, tree
from tests.servers import HOST, SERVERS, Server, running

T = TypeVar("T")

OBJECTS: Final = tree(5)
"""Items, a node and a root, in the order in which a list is put."""

DIGESTS: Final = [stored.digest for stored in OBJECTS]
BLOBS: Final = {stored.digest: stored.blob for stored in OBJECTS}

PLACES: Final = list(range(len(OBJECTS)))
SUBSETS: Final = st.just(PLACES) | st.sets(st.sampled_from(PLACES)).map(sorted)
NODES: Final = st.sampled_from(["one", "other"])
SECONDS: Final = st.sampled_from([600, 60, -1])


@dataclass
class Kept:
    """What a store should hold under a digest: until when, and whether it is what was put."""

    until: int | None
    good: bool = True


@dataclass
class Node:
    """A node's stores, one a server, and until when it believes each object to be kept."""

    stores: Mapping[str, RedisStore]
    believed: dict[bytes, int] = field(default_factory=dict[bytes, int])


class Stores(RuleBasedStateMachine):
    """Does the same to all stores, and compares each with the model."""

    servers: ClassVar[Mapping[str, Server]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(float(int(time.time())))
        self.namespace = f"machine:{uuid.uuid4().hex}"
        self.runner = asyncio.Runner()
        self.clients = [Redis(host=HOST, port=server.port) for server in self.servers.values()]
        self.nodes = {name: Node(self.opened()) for name in ("one", "other")}
        self.memory = MemoryStore(clock=self.clock)
        self.near: dict[bytes, int] = {}
        self.far: dict[bytes, Kept] = {}

    def opened(self) -> dict[str, RedisStore]:
        """Return a store for each server."""
        return {
            name: RedisStore(client, namespace=self.namespace, timeout=20, clock=self.clock)
            for name, client in zip(self.servers, self.clients, strict=True)
        }

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what a call returns, in the machine's one event loop."""
        return self.runner.run(call)

    def teardown(self) -> None:
        """Close what the machine opened."""
        for client in self.clients:
            self.run(client.aclose())
        self.runner.close()

    def tell(self, digest: bytes, *commands: tuple[Any, ...]) -> None:
        """Send each server commands about the key of an object, which stands for their None."""
        key = key_of(self.namespace, digest)
        for server in self.servers.values():
            server.commands([tuple(key if word is None else word for word in c) for c in commands])

    @rule(name=NODES, places=SUBSETS, seconds=SECONDS, repair=st.booleans())
    def put(self, name: str, places: list[int], seconds: int, repair: bool) -> None:
        """Leases only ever rise, and nothing is sent that the node believes to be kept."""
        node = self.nodes[name]
        objects = [OBJECTS[place] for place in places]
        deadline = int(self.clock.now) + seconds
        self.run(self.memory.put(objects, deadline=deadline, repair=repair))
        for store in node.stores.values():
            self.run(store.put(objects, deadline=deadline, repair=repair))
        for digest in [stored.digest for stored in objects]:
            if not self.near.get(digest, 0) > self.clock.now:
                self.near[digest] = 0
            self.near[digest] = max(self.near[digest], deadline)
            if seconds < 1 or (not repair and node.believed.get(digest, 0) >= deadline):
                continue
            kept = self.far.setdefault(digest, Kept(deadline))
            kept.until = max(kept.until or 0, deadline)
            kept.good |= repair
            node.believed[digest] = deadline

    @rule(name=NODES, places=SUBSETS)
    def get(self, name: str, places: list[int]) -> None:
        """What is there comes back as it was put; a miss makes a node forget what it believes."""
        digests = [DIGESTS[place] for place in places]
        near = [BLOBS[d] if self.near.get(d, 0) > self.clock.now else None for d in digests]
        assert list(self.run(self.memory.get(digests))) == near
        far = [BLOBS[d] if d in self.far and self.far[d].good else None for d in digests]
        for store in self.nodes[name].stores.values():
            assert list(self.run(store.get(digests))) == far
        if None in far:
            self.nodes[name].believed.clear()

    @rule(seconds=st.sampled_from([60, 1000]))
    def wait(self, seconds: int) -> None:
        """Time passes; the servers' own clocks stand still, so their keys are made to expire."""
        self.clock.advance(seconds)
        for digest, kept in list(self.far.items()):
            if kept.until is not None and kept.until <= self.clock.now:
                self.lose(digest)

    @rule(digest=st.sampled_from(DIGESTS))
    def lose(self, digest: bytes) -> None:
        """An object is evicted, or expires early."""
        self.tell(digest, ("PEXPIREAT", None, 1))
        self.far.pop(digest, None)

    @rule(name=NODES)
    def lose_all(self, name: str) -> None:
        """The servers are emptied, and a node meets the loss."""
        for digest in DIGESTS:
            self.lose(digest)
        self.get(name, PLACES)

    @rule(digest=st.sampled_from(DIGESTS), value=st.sampled_from([b"", b"I", b"Irotten"]))
    def rot(self, digest: bytes, value: bytes) -> None:
        """A value is another than what was put."""
        self.tell(digest, ("SET", None, value, "XX", "KEEPTTL"))
        if digest in self.far:
            self.far[digest].good = False

    @rule(digest=st.sampled_from(DIGESTS))
    def mistype(self, digest: bytes) -> None:
        """A key of ours is a list, which never expires."""
        self.tell(digest, ("DEL", None), ("RPUSH", None, b"I"))
        self.far[digest] = Kept(None, good=False)

    @rule(name=NODES)
    def restart(self, name: str) -> None:
        """A node forgets what it believed; what is kept stays."""
        self.nodes[name] = Node(self.opened())

    @invariant()
    def the_servers_hold_what_the_model_does(self) -> None:
        """The same keys, each until the time of its longest lease."""
        keys = [key_of(self.namespace, digest) for digest in DIGESTS]
        expected = [self.far[d].until or -1 if d in self.far else -2 for d in DIGESTS]
        for server in self.servers.values():
            assert server.commands([("EXPIRETIME", key) for key in keys]) == expected


def test_all_stores_agree_with_the_model() -> None:
    """Whatever is put, asked for, lost or spoiled: every store answers what the model does."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(running(SERVERS[name])) for name in SERVERS}
        machine = type("Machine", (Stores,), {"servers": servers})
        examples = settings().max_examples // 3  # a third of the profile's: each takes 50 steps
        run_state_machine_as_test(machine, settings=settings(max_examples=examples))
