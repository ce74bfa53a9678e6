"""What every snapshot store must do, as tests to inherit. Needs pytest, with anyio's plugin."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress

import anyio
import pytest

from cursorkit.errors import StoreDataError
from cursorkit.items import JsonItems
from cursorkit.snapshots import build, encode_items, read
from cursorkit.stores.base import (
    MAX_BLOB_BYTES,
    SnapshotStore,
    StoredObject,
    VerifiedBlobs,
    digest_of,
    verified,
)
from cursorkit.testing.clock import FakeClock

__all__ = ["SharedStoreConformance", "StoreConformance"]

_LEASE = 600


def _clock() -> FakeClock:
    # A server has its own clock, which is the real one.
    return FakeClock(time.time())


def _objects(count: int, *, size: int = 64, level: int = 0) -> list[StoredObject]:
    """Return objects that no other test has."""
    start = b"I" + os.urandom(16)
    blobs = [(start + number.to_bytes(4, "big")).ljust(size, b".") for number in range(count)]
    return [StoredObject(digest_of(blob), blob, level) for blob in blobs]


def _digests(objects: Sequence[StoredObject]) -> list[bytes]:
    return [stored.digest for stored in objects]


async def _check_kept(store: SnapshotStore, objects: Sequence[StoredObject]) -> None:
    answers = await store.get(_digests(objects))
    assert list(answers) == [stored.blob for stored in objects]


async def _check_absent(store: SnapshotStore, objects: Sequence[StoredObject]) -> None:
    answers = await store.get(_digests(objects))
    assert list(answers) == [None] * len(objects)


@pytest.mark.anyio
class StoreConformance:
    """Tests that a store must pass. Inherit, and fill in `make_store`.

    ::

        class TestMyStore(StoreConformance):
            @asynccontextmanager
            async def make_store(self, clock):
                async with MyClient() as client:
                    yield MyStore(client, clock=clock)

    Each test uses objects of its own, so the stores that `make_store` gives may share a server. A
    store of one event loop only overrides the fixture ``anyio_backend``. For a store whose objects
    are kept outside the process, inherit from `SharedStoreConformance` instead.
    """

    def make_store(self, clock: FakeClock) -> AbstractAsyncContextManager[SnapshotStore]:
        """Return a store, closed at the end of the context.

        Args:
            clock: Starts at the present. A store that lives by a server's clock may ignore it.
        """
        raise NotImplementedError("fill in make_store(clock)")

    async def test_blobs_come_back_in_the_order_asked(self) -> None:
        """`get` answers each digest in its place, whatever the order of the put."""
        clock, objects = _clock(), _objects(5)
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)
            await _check_kept(store, objects[::-1])
            await _check_kept(store, [objects[3], objects[0], objects[3], objects[3]])

    async def test_an_absent_object_is_none_in_its_place(self) -> None:
        """A digest that was never put is None, and its neighbours are served."""
        clock, (first, second, never) = _clock(), _objects(3)
        async with self.make_store(clock) as store:
            await store.put([first, second], deadline=int(clock()) + _LEASE)
            answers = await store.get(_digests([first, never, second]))
            assert list(answers) == [first.blob, None, second.blob]

    async def test_nothing_is_a_request_like_any_other(self) -> None:
        """To put no object and to ask for none does no harm."""
        clock = _clock()
        async with self.make_store(clock) as store:
            await store.put([], deadline=int(clock()) + _LEASE)
            assert list(await store.get([])) == []

    async def test_objects_may_come_from_an_iterator(self) -> None:
        """The objects of a put are read once, so a generator will do."""
        clock, objects = _clock(), _objects(5)
        async with self.make_store(clock) as store:
            await store.put(iter(objects), deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)

    async def test_every_blob_comes_back_unchanged(self) -> None:
        """Blobs of one byte to 1 MiB, with every byte value, come back as exact `bytes`."""
        blobs = [
            os.urandom(1),
            os.urandom(16) + bytes(range(256)) * 4,
            os.urandom(16) + "grüße 🎉\r\n\x00".encode(),
            os.urandom(MAX_BLOB_BYTES),
        ]
        clock, objects = _clock(), [StoredObject(digest_of(blob), blob) for blob in blobs]
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)
            assert {type(blob) for blob in await store.get(_digests(objects))} == {bytes}

    async def test_many_objects_go_in_one_put_and_one_get(self) -> None:
        """1,500 objects, and 4 MiB in five objects, are put and got whole."""
        clock = _clock()
        async with self.make_store(clock) as store:
            for objects in (_objects(1500), _objects(5, size=4 * 1024 * 1024 // 5)):
                await store.put(objects, deadline=int(clock()) + _LEASE)
                await _check_kept(store, objects)

    async def test_a_repeated_put_changes_nothing(self) -> None:
        """A put that is sent again, as after a lost reply, leaves what was there."""
        clock, objects = _clock(), _objects(5)
        async with self.make_store(clock) as store:
            for repair in (False, False, True, False):
                await store.put(objects, deadline=int(clock()) + _LEASE, repair=repair)
                await _check_kept(store, objects)

    async def test_one_put_may_hold_an_object_twice(self) -> None:
        """A list with two equal items has one object for both."""
        clock, objects = _clock(), _objects(2)
        async with self.make_store(clock) as store:
            await store.put([*objects, *objects], deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)

    async def test_an_object_is_kept_until_its_deadline(self) -> None:
        """One second before the deadline it is still there."""
        clock, objects = _clock(), _objects(3)
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + _LEASE)
            clock.advance(_LEASE - 1)
            await _check_kept(store, objects)

    async def test_a_shorter_lease_never_shortens_a_longer_one(self) -> None:
        """Putting an object until an earlier time leaves its deadline, with repair too."""
        clock, objects = _clock(), _objects(3)
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + _LEASE)
            await store.put(objects, deadline=int(clock()) + 5)
            await store.put(objects, deadline=int(clock()) + 5, repair=True)
            clock.advance(_LEASE - 1)
            await _check_kept(store, objects)

    async def test_a_longer_lease_extends_a_shorter_one(self) -> None:
        """Putting an object until a later time keeps it until then, with repair too."""
        for repair in (False, True):
            clock, objects = _clock(), _objects(3)
            async with self.make_store(clock) as store:
                await store.put(objects, deadline=int(clock()) + 5)
                await store.put(objects, deadline=int(clock()) + _LEASE, repair=repair)
                clock.advance(_LEASE - 1)
                await _check_kept(store, objects)

    async def test_what_has_expired_can_be_put_again(self) -> None:
        """An object that is put again after its deadline is there again."""
        clock, objects = _clock(), _objects(3)
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + 5)
            clock.advance(_LEASE)
            await store.put(objects, deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)

    async def test_repair_puts_what_is_absent(self) -> None:
        """A put with `repair` keeps objects that were never put before, and those that were."""
        clock, objects = _clock(), _objects(4)
        async with self.make_store(clock) as store:
            await store.put(objects[:2], deadline=int(clock()) + _LEASE)
            await store.put(objects, deadline=int(clock()) + _LEASE, repair=True)
            await _check_kept(store, objects)

    async def test_a_blob_is_never_given_under_anothers_digest(self) -> None:
        """An object put under the wrong name is refused or absent, and harms no right one."""
        clock, (right, other) = _clock(), _objects(2)
        wrong = StoredObject(right.digest, other.blob)
        async with self.make_store(clock) as store:
            with suppress(StoreDataError):
                await store.put([wrong], deadline=int(clock()) + _LEASE)
            await _check_absent(store, [right])
            await store.put([right], deadline=int(clock()) + _LEASE, repair=True)
            await _check_kept(store, [right])

    async def test_what_an_answer_vouches_for_is_true(self) -> None:
        """An answer that says it was verified was: for the digests asked, in their order."""
        clock, objects = _clock(), _objects(4)
        async with self.make_store(clock) as store:
            await store.put(objects[1:], deadline=int(clock()) + _LEASE)
            digests = _digests(objects)
            answers = await store.get(digests)
            if isinstance(answers, VerifiedBlobs):
                assert answers.digests == tuple(digests)
            assert list(verified(digests, list(answers))) == list(answers)

    async def test_a_put_that_ends_half_way_leaves_no_root_and_is_completed(self) -> None:
        """Where the objects end in an error the upper level is not there; a new put stores all."""
        clock, items, roots = _clock(), _objects(300), _objects(1, level=1)

        def broken() -> Iterator[StoredObject]:
            yield from items
            raise _BrokenSourceError

        async with self.make_store(clock) as store:
            with pytest.raises(_BrokenSourceError):
                await store.put(broken(), deadline=int(clock()) + _LEASE)
            await _check_absent(store, roots)
            await store.put([*items, *roots], deadline=int(clock()) + _LEASE)
            await _check_kept(store, [*items, *roots])

    async def test_a_cancelled_put_is_completed_by_the_next(self) -> None:
        """A caller that is cancelled leaves a store that works, and objects that can be put."""
        clock, objects = _clock(), [*_objects(600), *_objects(1, level=1)]
        async with self.make_store(clock) as store:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await store.put(objects, deadline=int(clock()) + _LEASE)
            await store.put(objects, deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)

    async def test_tasks_put_and_get_the_same_objects_at_once(self) -> None:
        """Twenty tasks that publish and read one list all read it whole."""
        clock, objects = _clock(), _objects(50)
        async with self.make_store(clock) as store:

            async def publish_and_read(lease: int) -> None:
                await store.put(objects, deadline=int(clock()) + lease)
                await _check_kept(store, objects)

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(publish_and_read, _LEASE + number % 3)

    async def test_a_list_is_read_back_slice_by_slice(self) -> None:
        """The tree of 700 items is put, and each of its slices read is that of the list."""
        mark = os.urandom(8).hex()
        items = [{"name": f"{mark}-{number}"} for number in range(700)]
        encoding, clock = JsonItems(), _clock()
        tree = await build(await encode_items(items, encoding), encoding.name)
        async with self.make_store(clock) as store:
            await store.put(tree.objects(), deadline=int(clock()) + _LEASE)
            for offset, count in ((0, 50), (250, 10), (254, 1), (255, 300), (699, 50), (0, 700)):
                found = await read(store, tree.root, encoding.name, offset, count)
                assert found.total == len(items)
                assert [encoding.decode(each) for each in found.payloads] == items[offset:][:count]


class SharedStoreConformance(StoreConformance):
    """Tests for a store whose objects are outside the process, where others reach them.

    The stores that `make_store` gives within one test share their objects, as those of two nodes.
    """

    async def damage(self, store: SnapshotStore, digest: bytes, blob: bytes | None) -> None:
        """Put another blob in the place of an object, behind the store's back; None removes it."""
        raise NotImplementedError("fill in damage(store, digest, blob)")

    async def test_a_damaged_object_is_absent(self) -> None:
        """Whatever stands in its place, a blob that is not the object's is not given."""
        clock, objects = _clock(), _objects(3)
        whole = objects[1].blob
        bad = [b"", whole[:-1], whole + b".", objects[0].blob, b"null", b"\xdd\xff\xff\xff\xff"]
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + _LEASE)
            for blob in (*bad, b"\x91" * 100_000, os.urandom(2 * MAX_BLOB_BYTES), None):
                await self.damage(store, objects[1].digest, blob)
                answers = await store.get(_digests(objects))
                assert list(answers) == [objects[0].blob, None, objects[2].blob]

    async def test_repair_mends_what_is_damaged(self) -> None:
        """A put with `repair` writes again what is absent or bad, and it stays."""
        clock, objects = _clock(), _objects(4)
        async with self.make_store(clock) as store:
            for blob in (b"rotten", objects[0].blob, None):
                await store.put(objects, deadline=int(clock()) + _LEASE)
                await self.damage(store, objects[1].digest, blob)
                await self.damage(store, objects[2].digest, blob)
                await store.put(objects, deadline=int(clock()) + _LEASE, repair=True)
                await _check_kept(store, objects)
                await _check_kept(store, objects)

    async def test_a_store_that_met_a_loss_stores_again(self) -> None:
        """After a get that found objects absent, a put without `repair` stores them again."""
        clock, objects = _clock(), _objects(4)
        async with self.make_store(clock) as store:
            await store.put(objects, deadline=int(clock()) + _LEASE)
            for stored in objects:
                await self.damage(store, stored.digest, None)
            await _check_absent(store, objects[:1])
            await store.put(objects, deadline=int(clock()) + _LEASE)
            await _check_kept(store, objects)

    async def test_two_nodes_share_objects(self) -> None:
        """What one node puts the other gets, and neither shortens the other's lease."""
        clock, objects = _clock(), _objects(4)
        async with self.make_store(clock) as one, self.make_store(clock) as other:
            await one.put(objects, deadline=int(clock()) + _LEASE)
            await _check_kept(other, objects)
            await other.put(objects, deadline=int(clock()) + 5)
            clock.advance(_LEASE - 1)
            await _check_kept(one, objects)
            await _check_kept(other, objects)


class _BrokenSourceError(Exception):
    pass
