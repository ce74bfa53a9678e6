"""The tiered store reads near first, asks the far store once, and never gets what is bad near."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cursorkit.errors import ConfigurationError, StoreDataError, StoreError, StoreUnavailableError
from cursorkit.stores.base import StoredObject, VerifiedBlobs, digest_of
from cursorkit.stores.memory import MemoryStore
from cursorkit.stores.tiered import TieredStore
from cursorkit.testing.clock import FakeClock
from tests.snapshot_fakes import ALICE, Listing, WatchedStore, items_of, node, tools, unused, walk

MIB = 1024 * 1024
LATER = 2**40

pytestmark = [pytest.mark.anyio, pytest.mark.both_backends]


def objects(count: int, *, size: int = 100) -> list[StoredObject]:
    """Return so many objects of level 0."""
    blobs = [b"I" + str(number).encode().ljust(size - 1, b".") for number in range(count)]
    return [StoredObject(digest_of(blob), blob) for blob in blobs]


def digests(stored: Iterable[StoredObject]) -> list[bytes]:
    return [each.digest for each in stored]


def blobs(stored: Iterable[StoredObject]) -> list[bytes | None]:
    return [each.blob for each in stored]


class Far(WatchedStore):
    """A far store whose gets wait at a gate, and are counted.

    Attributes:
        waiting: How many gets are at the gate.
        requests: What each get asked for.
        repairs: The `repair` of each put.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.requests: list[list[bytes]] = []
        self.repairs: list[bool] = []
        self._gate: anyio.Event | None = None

    def close(self) -> None:
        """Let no get through."""
        self._gate = anyio.Event()

    def open(self) -> None:
        """Let all gets through."""
        assert self._gate is not None
        self._gate.set()
        self._gate = None

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        self.requests.append(list(digests))
        await anyio.lowlevel.checkpoint()  # As over a network, others run meanwhile.
        gate = self._gate
        if gate is not None:
            self.waiting += 1
            try:
                await gate.wait()
            finally:
                self.waiting -= 1
        return await super().get(digests)

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        self.repairs.append(repair)
        await super().put(objects, deadline=deadline, repair=repair)


class Tiers:
    """A tiered store, and its two tiers."""

    def __init__(self, *, near_bytes: int = 64 * MIB, **settings: Any) -> None:
        self.clock = FakeClock()
        self.near = MemoryStore(max_bytes=near_bytes, clock=self.clock)
        self.far = Far()
        self.store = TieredStore(self.near, self.far, clock=self.clock, **settings)

    async def near_count(self, stored: Sequence[StoredObject]) -> int:
        """Return how many objects are near."""
        return sum(blob is not None for blob in await self.near.get(digests(stored)))


async def quiet() -> None:
    """Let every task go on until it waits."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("age", [0, -1, math.nan, math.inf, True, "300", None])
async def test_an_age_that_cannot_work_is_refused(age: Any) -> None:
    """The message names the setting, and says what was given."""
    with pytest.raises(ConfigurationError, match="max_age"):
        TieredStore(MemoryStore(), MemoryStore(), max_age=age)


# What is near, and for how long


async def test_what_is_near_costs_no_request() -> None:
    """Objects that were put or got here are read again without the far store."""
    tiers, stored = Tiers(), objects(10)
    await tiers.store.put(stored[:5], deadline=LATER)
    await tiers.far.put(stored[5:], deadline=LATER)
    assert list(await tiers.store.get(digests(stored))) == blobs(stored)
    assert tiers.far.requests == [digests(stored[5:])]
    for _ in range(3):
        assert list(await tiers.store.get(digests(stored[::-1]))) == blobs(stored[::-1])
    assert len(tiers.far.requests) == 1


async def test_an_object_asked_for_twice_is_fetched_once() -> None:
    """One get with a digest in several places asks for it once, and answers in each place."""
    tiers, (here, there) = Tiers(), objects(2)
    await tiers.near.put([here], deadline=LATER)
    await tiers.far.put([there], deadline=LATER)
    asked = [there, here, there, there, here]
    assert list(await tiers.store.get(digests(asked))) == blobs(asked)
    assert tiers.far.requests == [[there.digest]]


async def test_what_neither_tier_has_is_none_and_asked_again() -> None:
    """Absence is not remembered: another node may put the object at any time."""
    tiers, stored = Tiers(), objects(2)
    assert list(await tiers.store.get(digests(stored))) == [None, None]
    await tiers.far.put(stored, deadline=LATER)
    assert list(await tiers.store.get(digests(stored))) == blobs(stored)


async def test_the_answer_vouches_for_what_was_checked() -> None:
    """Near, far and both together, the answer needs no second check."""
    tiers, stored = Tiers(), objects(4)
    await tiers.far.put(stored, deadline=LATER)
    for part in (stored[:2], stored, stored):
        answer = await tiers.store.get(digests(part))
        assert isinstance(answer, VerifiedBlobs)
        assert answer.digests == tuple(digests(part))


async def test_an_object_is_near_for_its_age() -> None:
    """From a put or a fetch until `max_age` later; reads do not make it younger."""
    tiers, stored = Tiers(max_age=100), objects(4)
    await tiers.store.put(stored[:2], deadline=LATER)
    await tiers.far.put(stored[2:], deadline=LATER)
    await tiers.store.get(digests(stored))
    for _ in range(3):
        tiers.clock.advance(33)
        await tiers.store.get(digests(stored))
    assert len(tiers.far.requests) == 1
    tiers.clock.advance(1)
    assert list(await tiers.store.get(digests(stored))) == blobs(stored)
    assert tiers.far.requests[1:] == [digests(stored)]


async def test_an_object_is_not_near_beyond_its_deadline() -> None:
    """A deadline that comes before the age holds near, too, and far it is the caller's own."""
    tiers, stored = Tiers(max_age=1000), objects(2)
    await tiers.store.put(stored, deadline=int(tiers.clock()) + 60)
    tiers.clock.advance(59)
    assert await tiers.near_count(stored) == 2
    tiers.clock.advance(1)
    assert await tiers.near_count(stored) == 0
    assert list(await tiers.far.get(digests(stored))) == blobs(stored)


async def test_the_near_tier_stays_within_its_bytes() -> None:
    """However much is put and fetched: what does not fit near is fetched again, and right."""
    tiers, stored = Tiers(near_bytes=MIB), objects(40, size=100_000)
    await tiers.store.put(stored[:20], deadline=LATER)
    await tiers.far.put(stored[20:], deadline=LATER)
    for start in range(0, 40, 5):
        part = stored[start : start + 5]
        assert list(await tiers.store.get(digests(part))) == blobs(part)
        assert tiers.near.bytes_used <= MIB


# One request for all who wait


async def test_concurrent_misses_make_one_request() -> None:
    """Twenty tasks that miss the same objects at once are served by one far request."""
    tiers, stored = Tiers(), objects(50)
    await tiers.far.put(stored, deadline=LATER)
    tiers.far.close()
    served = 0

    async def read() -> None:
        nonlocal served
        answer = await tiers.store.get(digests(stored))
        served += list(answer) == blobs(stored)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(read)
        await quiet()
        tiers.far.open()
    assert served == 20
    assert tiers.far.requests == [digests(stored)]


async def test_no_object_is_in_two_requests_at_once() -> None:
    """Tasks whose objects overlap ask each for those that nobody has asked for yet."""
    tiers, stored = Tiers(), objects(30)
    await tiers.far.put(stored, deadline=LATER)
    tiers.far.close()
    answers: list[Sequence[bytes | None]] = []

    async def read(start: int) -> None:
        part = stored[start : start + 20]
        answer = await tiers.store.get(digests(part))
        assert list(answer) == blobs(part)
        answers.append(answer)

    async with anyio.create_task_group() as tasks:
        for start in (0, 5, 10):
            tasks.start_soon(read, start)
            await quiet()
        tiers.far.open()
    assert len(answers) == 3
    assert sorted(tiers.far.asked) == sorted(digests(stored))


async def test_what_was_just_fetched_is_near_for_who_comes_next() -> None:
    """There is no moment between the answer and the near tier in which a request starts anew."""
    tiers, stored = Tiers(), objects(600)  # So many that the near tier pauses while it keeps them.
    await tiers.far.put(stored, deadline=LATER)
    tiers.far.close()

    async def read() -> None:
        assert list(await tiers.store.get(digests(stored))) == blobs(stored)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await quiet()
        tiers.far.open()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(read)
    assert len(tiers.far.requests) == 1


async def test_a_cancelled_fetcher_does_not_fail_those_who_wait() -> None:
    """Where the task that asks is cancelled one of those who wait asks again, for all of them."""
    tiers, stored = Tiers(), objects(5)
    await tiers.far.put(stored, deadline=LATER)
    tiers.far.close()
    leader = anyio.CancelScope()
    served = 0

    async def lead() -> None:
        with leader:
            await tiers.store.get(digests(stored))
            raise AssertionError("not cancelled")

    async def follow() -> None:
        nonlocal served
        answer = await tiers.store.get(digests(stored))
        served += list(answer) == blobs(stored)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lead)
        await quiet()
        for _ in range(19):
            tasks.start_soon(follow)
        await quiet()
        leader.cancel()
        await quiet()
        assert tiers.far.waiting == 1
        tiers.far.open()
    assert served == 19
    assert len(tiers.far.requests) == 2


async def test_a_cancelled_follower_harms_nobody() -> None:
    """A task that is cancelled while it waits for another's request leaves that one alone."""
    tiers, stored = Tiers(), objects(5)
    await tiers.far.put(stored, deadline=LATER)
    tiers.far.close()
    follower = anyio.CancelScope()
    served = 0

    async def read(scope: anyio.CancelScope) -> None:
        nonlocal served
        with scope:
            answer = await tiers.store.get(digests(stored))
            served += list(answer) == blobs(stored)

    async with anyio.create_task_group() as tasks:
        for scope in (anyio.CancelScope(), follower, anyio.CancelScope()):
            tasks.start_soon(read, scope)
            await quiet()
        follower.cancel()
        await quiet()
        tiers.far.open()
    assert served == 2
    assert len(tiers.far.requests) == 1


async def test_a_bad_answer_to_one_is_not_shared() -> None:
    """Each of those who wait asks for itself where the answer made no sense, and is served."""
    tiers, stored = Tiers(), objects(5)
    await tiers.far.put(stored, deadline=LATER)
    tiers.far.close()
    tiers.far.get_error = StoreDataError("nonsense")
    outcomes: list[object] = []

    async def read() -> None:
        try:
            outcomes.append(list(await tiers.store.get(digests(stored))))
        except StoreDataError:
            outcomes.append("bad")
            tiers.far.get_error = None

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(read)
        await quiet()
        tiers.far.open()
    assert outcomes == ["bad", *[blobs(stored)] * 4]
    assert len(tiers.far.requests) == 2


async def test_an_unavailable_store_fails_all_who_wait_at_once() -> None:
    """One failed request fails all that wait for it: none waits for a timeout of its own."""
    tiers, stored = Tiers(), objects(5)
    cause = OSError("refused")
    tiers.far.close()
    tiers.far.get_error = StoreUnavailableError("no connection", answered=True)
    tiers.far.get_error.__cause__ = cause
    raised: list[StoreUnavailableError] = []

    async def read() -> None:
        with pytest.raises(StoreUnavailableError, match="no connection") as error:
            await tiers.store.get(digests(stored))
        raised.append(error.value)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(read)
        await quiet()
        tiers.far.open()
    assert len(tiers.far.requests) == 1
    assert len(set(map(id, raised))) == 20
    assert {error.__cause__ for error in raised} == {cause}
    assert all(error.answered for error in raised)

    tiers.far.get_error = None
    await tiers.far.put(stored, deadline=LATER)
    assert list(await tiers.store.get(digests(stored))) == blobs(stored)


# The far store fails


async def test_what_is_near_is_served_while_the_far_store_is_down() -> None:
    """A get that needs nothing else succeeds; one that does is unavailable, not half answered."""
    tiers, stored = Tiers(), objects(6)
    await tiers.store.put(stored[:3], deadline=LATER)
    tiers.far.fail(StoreUnavailableError("no connection"))
    assert list(await tiers.store.get(digests(stored[:3]))) == blobs(stored[:3])
    with pytest.raises(StoreUnavailableError, match="no connection"):
        await tiers.store.get(digests(stored))


@pytest.mark.parametrize("error", [StoreUnavailableError("full"), StoreDataError("nonsense")])
async def test_a_put_that_fails_far_is_kept_near(error: StoreError) -> None:
    """The caller is told, and this node serves its own objects all the same."""
    tiers, stored = Tiers(), objects(6)
    tiers.far.fail(error)
    with pytest.raises(type(error)):
        await tiers.store.put(iter(stored), deadline=LATER)
    assert list(await tiers.store.get(digests(stored))) == blobs(stored)


async def test_a_repair_goes_through_to_the_far_store() -> None:
    """Whatever is near, a put with `repair` is one far, and one without is none."""
    tiers, stored = Tiers(), objects(3)
    for repair in (False, True, True, False):
        await tiers.store.put(stored, deadline=LATER, repair=repair)
    assert tiers.far.repairs == [False, True, True, False]


class Lying(MemoryStore):
    """A store that answers as it was told to, never with the truth."""

    def __init__(self, answer: list[Any]) -> None:
        super().__init__()
        self.answer = answer

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return self.answer


ONE, TWO = objects(2)


@pytest.mark.parametrize(
    "answer",
    [
        [TWO.blob],
        [b""],
        [b"null"],
        [ONE.blob[:-1]],
        [bytearray(ONE.blob)],
        ["text"],
        [],
        [ONE.blob, ONE.blob],
        VerifiedBlobs([TWO.digest], [TWO.blob]),
        VerifiedBlobs([TWO.digest], [ONE.blob + b"."]),
    ],
    ids=str,
)
async def test_a_bad_far_answer_is_absent_and_never_near(answer: list[Any]) -> None:
    """What is not the object is None, and does not stay: the true object is taken afterwards."""
    near, lying = MemoryStore(clock=FakeClock()), Lying(answer)
    store = TieredStore(near, lying, clock=FakeClock())
    assert list(await store.get([ONE.digest])) == [None]
    assert len(near) == 0
    lying.answer = [ONE.blob]
    assert list(await store.get([ONE.digest])) == [ONE.blob]
    assert len(near) == 1


async def test_a_bad_near_answer_is_fetched() -> None:
    """A near store that lost or mixed up what it had is asked in vain, and the far one is right."""
    far = MemoryStore(clock=FakeClock())
    await far.put([ONE], deadline=LATER)
    for answer in ([TWO.blob], [None], [], [b"rotten"]):
        store = TieredStore(Lying(answer), far, clock=FakeClock())
        assert list(await store.get([ONE.digest])) == [ONE.blob]


# Event loops, and the paginator above


def test_event_loops_share_a_store(anyio_backend: str) -> None:
    """Loops in several threads read the same objects at once, all right, none waiting for ever."""
    near, far = MemoryStore(), MemoryStore()
    store, stored = TieredStore(near, far), objects(300)
    count = 4
    barrier = threading.Barrier(count, timeout=30)
    right: list[bool] = []

    async def use() -> None:
        await far.put(stored, deadline=LATER)
        barrier.wait()
        for start in range(0, 300, 10):
            part = stored[start : start + 20]
            right.append(list(await store.get(digests(part))) == blobs(part))

    threads = [
        threading.Thread(target=anyio.run, args=(use,), kwargs={"backend": anyio_backend})
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert right == [True] * 30 * count


def test_a_request_of_an_ended_loop_is_waited_for_by_nobody(anyio_backend: str) -> None:
    """Where a loop ended in the middle of a request the next loop makes its own."""
    tiers, stored = Tiers(), objects(3)

    async def begin() -> None:
        tiers.far.close()
        await tiers.far.put(stored, deadline=LATER)
        with anyio.move_on_after(0):
            await tiers.store.get(digests(stored))

    async def again() -> None:
        tiers.far.open()
        with anyio.fail_after(10):
            assert list(await tiers.store.get(digests(stored))) == blobs(stored)

    anyio.run(begin, backend=anyio_backend)
    anyio.run(again, backend=anyio_backend)
    assert len(tiers.far.requests) == 2


async def test_a_walk_on_one_node_asks_the_far_store_nothing() -> None:
    """A node that published a list serves all of its pages near, whatever becomes of the list."""
    tiers, listing = Tiers(), Listing(tools(35))
    paginator = node(tiers.store, tiers.clock)
    first = await paginator.page(None, listing, ALICE)
    tiers.far.fail(StoreUnavailableError("no connection"))
    pages = await walk(paginator, unused, cursor=first.next_cursor)
    assert items_of([first, *pages]) == listing.items
    assert tiers.far.requests == []


async def test_another_node_fetches_each_object_once() -> None:
    """A node that has nothing near fetches a walk once, and repeats it without a request."""
    tiers, listing = Tiers(), Listing(tools(300))
    other = node(TieredStore(MemoryStore(clock=tiers.clock), tiers.far, clock=tiers.clock))
    pages = await walk(node(tiers.store, tiers.clock), listing)
    cursor = pages[0].next_cursor
    for _ in range(2):
        assert await walk(other, unused, cursor=cursor) == pages[1:]
    # The root, two nodes, and the items but the first ten.
    asked = tiers.far.asked
    assert len(asked) == len(set(asked)) == 1 + 2 + 290
