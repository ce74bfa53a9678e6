"""The memory store is bounded, expires lazily, and is safe under threads and event loops."""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit.errors import ConfigurationError, StoreDataError
from cursorkit.stores.base import MAX_BLOB_BYTES, StoredObject, VerifiedObject, digest_of
from cursorkit.stores.memory import MemoryStore
from cursorkit.testing.clock import FakeClock

MIB = 1024 * 1024

pytestmark = pytest.mark.anyio


def an_object(number: int, size: int = 100) -> StoredObject:
    """Return an object; equal numbers are equal objects."""
    blob = b"I" + str(number).encode().ljust(size - 1, b".")
    return StoredObject(digest_of(blob), blob)


async def kept(store: MemoryStore, objects: Sequence[StoredObject]) -> list[bool]:
    """Return of each object whether the store has it; it never has another in its place."""
    answers = await store.get([stored.digest for stored in objects])
    for stored, blob in zip(objects, answers, strict=True):
        assert blob is None or blob == stored.blob
    return [blob is not None for blob in answers]


@pytest.mark.parametrize("size", [0, -1, MIB - 1, True, 2.0**30, math.nan, None, "64 MiB", 2**54])
def test_a_bound_that_cannot_work_is_refused(size: Any) -> None:
    """The message says what was given and what is allowed."""
    with pytest.raises(ConfigurationError, match=r"max_bytes is .*; give an int from 1048576 to"):
        MemoryStore(max_bytes=size)


async def test_what_it_takes_is_counted() -> None:
    """`len` and `bytes_used` count each object once, its overhead included."""
    store = MemoryStore(clock=FakeClock())
    assert (len(store), store.bytes_used) == (0, 0)
    objects = [an_object(number) for number in range(10)]
    for _ in range(3):
        await store.put(objects, deadline=2**40)
    assert len(store) == 10
    assert 10 * 100 < store.bytes_used <= 10 * 400


async def test_the_least_recently_used_objects_go_first() -> None:
    """A full store keeps what was put or got last, and its bound holds."""
    store = MemoryStore(max_bytes=MIB, clock=FakeClock())
    old = [an_object(number, 100_000) for number in range(10)]
    await store.put(old, deadline=2**40)
    await store.put([old[0]], deadline=2**40)
    assert await kept(store, [old[1]]) == [True]
    await store.put([an_object(number, 100_000) for number in range(10, 15)], deadline=2**40)
    assert store.bytes_used <= MIB
    survivors = [0, 1, 7, 8, 9]
    assert await kept(store, old) == [number in survivors for number in range(10)]


async def test_an_object_larger_than_the_store_is_dropped_and_the_store_works_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What does not fit at all is absent; the operator is told to raise the bound."""
    store = MemoryStore(max_bytes=MIB, clock=FakeClock())
    large, small = an_object(1, MAX_BLOB_BYTES), an_object(2)
    with caplog.at_level(logging.WARNING, "cursorkit"):
        await store.put([large], deadline=2**40)
    assert "raise max_bytes" in caplog.text
    assert await kept(store, [large]) == [False]
    assert store.bytes_used == 0
    caplog.clear()
    await store.put([small], deadline=2**40)
    assert await kept(store, [small]) == [True]
    assert caplog.text == ""


async def test_an_object_ends_at_its_deadline() -> None:
    """It is there until just before the instant, and absent at it."""
    clock = FakeClock(1000)
    store = MemoryStore(clock=clock)
    await store.put([an_object(1)], deadline=2000)
    clock.now = 1999.999
    assert await kept(store, [an_object(1)]) == [True]
    clock.now = 2000
    assert await kept(store, [an_object(1)]) == [False]


async def test_expired_objects_are_dropped_when_they_are_met() -> None:
    """A get drops the expired object that it asks for; a put those that were used least lately."""
    clock = FakeClock(1000)
    store = MemoryStore(clock=clock)
    await store.put([an_object(number) for number in range(100)], deadline=2000)
    clock.now = 2000
    assert len(store) == 100
    await kept(store, [an_object(99)])
    assert len(store) == 99
    await store.put([an_object(100)], deadline=3000)
    assert len(store) == 1
    assert store.bytes_used == 100 + 256


async def test_an_expired_object_that_was_not_met_lives_again_when_it_is_put() -> None:
    """A put with a later deadline is a new lease, whether the old object was dropped or not."""
    clock = FakeClock(1000)
    store = MemoryStore(clock=clock)
    await store.put([an_object(1)], deadline=2000)
    clock.now = 2500
    await store.put([an_object(1)], deadline=3000)
    assert await kept(store, [an_object(1)]) == [True]
    assert len(store) == 1


async def test_one_get_reads_the_clock_once() -> None:
    """A page sees one time: its objects do not expire one after the other while it is read."""
    clock = FakeClock(1000)
    store = MemoryStore(clock=clock)
    objects = [an_object(number) for number in range(50)]
    await store.put(objects, deadline=1010)
    clock.tick, clock.readings = 1.0, 0
    assert await kept(store, objects) == [True] * 50
    assert clock.readings == 1


async def test_an_object_under_anothers_digest_is_refused() -> None:
    """A put of a blob under a wrong name raises, and keeps nothing of it."""
    store = MemoryStore(clock=FakeClock())
    with pytest.raises(StoreDataError):
        await store.put([StoredObject(an_object(1).digest, an_object(2).blob)], deadline=2**40)
    assert len(store) == 0


async def test_an_object_that_was_verified_is_not_hashed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever computed or checked the digest says so, and the store takes it for that."""

    def never(blob: bytes) -> bytes:
        raise AssertionError("hashed again")

    known = an_object(1)
    monkeypatch.setattr("cursorkit.stores.memory.digest_of", never)
    store = MemoryStore(clock=FakeClock())
    await store.put([VerifiedObject(*known)], deadline=2**40)
    assert await kept(store, [known]) == [True]


async def test_a_buffer_that_is_reused_changes_nothing_that_was_kept() -> None:
    """A mutable blob is copied when it is put."""
    store = MemoryStore(clock=FakeClock())
    buffer = bytearray(an_object(1).blob)
    stored = StoredObject(an_object(1).digest, buffer)  # type: ignore[arg-type]  # untyped callers
    await store.put([stored], deadline=2**40)
    buffer[:] = b"I" + b"x" * 99
    assert list(await store.get([stored.digest])) == [an_object(1).blob]


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "get", "wait"]), st.integers(0, 9), st.integers(0, 9))
    )
)
async def test_it_keeps_what_a_dict_with_deadlines_keeps(
    steps: list[tuple[str, int, int]],
) -> None:
    """With room enough, every get answers as a model does that never forgets before a deadline."""
    clock, model = FakeClock(0), dict[int, int]()
    store = MemoryStore(clock=clock)
    for step, number, seconds in steps:
        if step == "put":
            deadline = int(clock.now) + seconds
            await store.put([an_object(number)], deadline=deadline)
            model[number] = max(model.get(number, 0), deadline)
        elif step == "wait":
            clock.advance(seconds)
        else:
            alive = [clock.now < model.get(each, 0) for each in range(number + 1)]
            assert await kept(store, [an_object(each) for each in range(number + 1)]) == alive
    assert store.bytes_used == len(store) * (100 + 256)


@pytest.mark.both_backends
async def test_a_long_put_lets_other_tasks_run() -> None:
    """While 20,000 objects are put, another task gets its turn many times."""
    store = MemoryStore(clock=FakeClock())
    beats = 0

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            await anyio.lowlevel.checkpoint()
            beats += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat)
        await store.put([an_object(number) for number in range(20_000)], deadline=2**40)
        tasks.cancel_scope.cancel()
    assert beats > 50
    assert len(store) == 20_000


def test_threads_share_a_store() -> None:
    """32 threads, each with an event loop, put, get, evict and expire; no answer is wrong."""
    clock = FakeClock(1000)
    store = MemoryStore(max_bytes=MIB, clock=clock)
    objects = [an_object(number, 20_000) for number in range(100)]
    start = threading.Barrier(32)

    async def use(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311  # reproducible, not secret
        for _ in range(60):
            some = chance.sample(objects, 8)
            await store.put(some, deadline=int(clock.now) + chance.randrange(3))
            await kept(store, chance.sample(objects, 8))
            clock.advance(0.01)

    def thread(seed: int) -> None:
        start.wait(timeout=30)
        anyio.run(use, seed, backend="trio" if seed % 4 == 0 else "asyncio")

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(thread, range(32)))
    assert store.bytes_used == len(store) * (20_000 + 256)
    assert store.bytes_used <= MIB


async def test_a_put_in_one_task_and_a_get_in_another_meet_between_two_objects() -> None:
    """A get in the middle of a put sees whole objects or none, never the root alone."""
    store = MemoryStore(clock=FakeClock())
    items = [an_object(number) for number in range(1000)]
    root = StoredObject(digest_of(b"R"), b"R", 1)
    seen: list[int] = []

    def objects() -> Iterator[StoredObject]:
        yield from items
        yield root

    async def look() -> None:
        while len(seen) < 3:
            found = await kept(store, [*items, root])
            assert not found[-1] or all(found)
            seen.append(sum(found))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await store.put(objects(), deadline=2**40)
    assert 0 < seen[0] < 1001
