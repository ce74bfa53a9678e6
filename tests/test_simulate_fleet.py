"""The simulation counts what real trees hold and servers weigh, and prints the doc's tables."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from benchmarks import simulate_fleet
from benchmarks.servers import HOST, running
from benchmarks.simulate_fleet import ITEM_BYTES, Fleet, Objects, deadline_of, hold, stored_bytes
from cursorkit import (
    Binding,
    ExpiringCodec,
    JsonItems,
    Key,
    KeyRing,
    SignedCodec,
    SnapshotPaginator,
    StoredObject,
)
from cursorkit.snapshots import Tree, build
from cursorkit.stores.redis import RedisStore
from cursorkit.testing.clock import FakeClock

DOC = Path(__file__).parents[1] / "docs" / "scaling.md"

pytestmark = pytest.mark.anyio


async def real(view: Sequence[int]) -> Tree:
    """Return the tree of a list whose items are of the simulated size."""
    blobs = [b"I" + str(item).encode().ljust(ITEM_BYTES - 1, b".") for item in view]
    return await build(blobs, JsonItems.name)


def some_views() -> list[list[int]]:
    """Return lists with and without nodes that share much."""
    source = random.Random(1)  # noqa: S311  # sample data
    shared = list(range(700))
    hiding = [[item for item in shared if source.random() > 0.02] for _ in range(20)]
    return [shared[:255], shared[:256], shared, shared[1:], *hiding, shared]


async def test_objects_are_those_of_real_trees() -> None:
    """Over views that share objects, counts and bytes are those of the union of their trees."""
    objects, found = Objects(), dict[bytes, int]()
    for view in some_views():
        objects.add(view)
        found.update((each.digest, len(each.blob)) for each in (await real(view)).objects())
    assert len(objects.items) == 700
    assert objects.nodes == len(found) - 700
    assert objects.bytes == sum(stored_bytes(size) for size in found.values())


async def test_a_tree_of_three_levels_is_counted() -> None:
    """65,026 items have 256 nodes, two above those, and a root."""
    objects = Objects()
    objects.add(range(255 * 255 + 1))
    tree = await real(range(255 * 255 + 1))
    assert objects.nodes == 256 + 2 + 1
    assert objects.bytes == sum(stored_bytes(len(each.blob)) for each in tree.objects())


async def test_deadlines_are_the_paginators() -> None:
    """A snapshot is kept as long as the simulation says, whenever its walk begins."""
    deadlines: list[int] = []

    class Recorder:
        async def put(
            self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
        ) -> None:
            deadlines.append(deadline)

        async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
            return [None] * len(digests)

    clock = FakeClock(0)
    codec = ExpiringCodec(SignedCodec(KeyRing(Key(bytes(32)))), ttl=600)
    paginator = SnapshotPaginator(codec, Recorder(), page_size=1, clock=clock)
    starts = [1_000_000 + 7.25 * step for step in range(200)]
    for clock.now in starts:
        await paginator.page(None, lambda: [1, 2], Binding("list"))
    assert deadlines == [deadline_of(start) for start in starts]


def test_what_is_not_in_the_sample_is_taken_to_be_like_it() -> None:
    """Counts from a tenth of the views are within 1 % of those of all."""
    fleet = simulate_fleet.fleets(2000, tenants=10, seed=3)[-1]
    sampled = hold(fleet, range(2000), sample=200)
    whole = hold(fleet, range(2000), sample=2000)
    assert sampled.views == whole.views == 2000
    assert sampled.items == whole.items == 1000
    assert sampled.nodes == pytest.approx(whole.nodes, rel=0.01)
    assert sampled.bytes == pytest.approx(whole.bytes, rel=0.01)


def test_principals_of_one_view_share_it() -> None:
    """A view is stored if any of those who see it has a walk: nothing is counted twice."""
    fleet = Fleet("three groups", 3, lambda number: range(number, number + 10))
    held = hold(fleet, [0, 3, 4, 6, 9], sample=100)
    assert (held.views, held.items, held.nodes) == (2, 11, 2)


def test_one_more_item_costs_an_edge_or_every_node() -> None:
    """At the end the nodes on the right edge are new, in front all of them."""
    change = simulate_fleet.changes(1000)
    assert (change.end_nodes, change.front_nodes) == (1 + 1, 4 + 1)
    edge = stored_bytes(1 + 32 * (1001 - 3 * 255)) + stored_bytes(13 + 32 * 4)
    assert change.end_bytes == stored_bytes(ITEM_BYTES) + edge
    assert change.front_bytes > 3 * stored_bytes(1 + 32 * 255)


def test_memory_is_what_a_server_says(program: str) -> None:
    """The model is within a tenth of `used_memory` of a real server."""
    objects = Objects()

    async def store_all(port: int) -> None:
        async with Redis(host=HOST, port=port) as client:
            store = RedisStore(client, namespace="cursorkit")
            for view in views:
                objects.add(view)
                tree = await real(view)
                await store.put(tree.objects(), deadline=int(time.time()) + 600)

    fleet = simulate_fleet.fleets(60, tenants=10, seed=1)[-1]
    views = [fleet.view(number) for number in range(60)]
    with running(program) as server:
        empty: int = server.command("INFO", "memory")["used_memory"]
        anyio.run(store_all, server.port)
        taken: int = server.command("INFO", "memory")["used_memory"] - empty
    assert objects.bytes == pytest.approx(taken, rel=0.1)


def test_the_document_shows_what_the_simulation_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of a run with the default settings, for a million principals, is in the doc."""
    simulate_fleet.main([])
    printed = capsys.readouterr().out
    assert printed in DOC.read_text(encoding="utf-8")


def test_a_small_fleet_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json` there is one object; the number of active principals follows the rate."""
    arguments = ["--principals=2000", "--tenants=20", "--sample=50", "--json"]
    simulate_fleet.main(arguments)
    rare = json.loads(capsys.readouterr().out)
    simulate_fleet.main([*arguments, "--walks=60"])
    often = json.loads(capsys.readouterr().out)
    assert [each["views"] for each in rare["held"][:1]] == [1]
    assert rare["held"][-1]["views"] == rare["active"]
    assert 500 < rare["active"] < 750
    assert often["active"] == 2000
    assert [change["length"] for change in rare["changes"]] == [1000, 10_000, 100_000, 1_000_000]
