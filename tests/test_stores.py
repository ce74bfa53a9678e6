"""Every store passes the conformance suite, and the suite finds what is wrong with a store."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit.errors import StoreDataError
from cursorkit.stores.base import (
    SnapshotStore,
    StoredObject,
    VerifiedBlobs,
    digest_of,
    verified,
)
from cursorkit.testing.clock import FakeClock
from cursorkit.testing.stores import SharedStoreConformance, StoreConformance
from tests.snapshot_fakes import SharedDict
from tests.stores_table import STORES, StoreRow


def rows(*, shared: bool) -> pytest.MarkDecorator:
    """Run tests over the table's rows, each on all of its event loops."""
    cases = [
        pytest.param(row, backend, id=f"{row.name}-{backend}")
        for row in STORES
        if (row.damage is not None) == shared
        for backend in row.backends
    ]
    return pytest.mark.parametrize(("row", "anyio_backend"), cases)


@rows(shared=False)
class TestStores(StoreConformance):
    """The suite, over every store that keeps its objects to itself."""

    @pytest.fixture(autouse=True)
    def _keep(self, row: StoreRow, request: pytest.FixtureRequest) -> None:
        self.row, self.request = row, request

    def make_store(self, clock: FakeClock) -> AbstractAsyncContextManager[SnapshotStore]:
        return self.row.open(clock, self.request)


@rows(shared=True)
@pytest.mark.usefixtures("program")
class TestSharedStores(SharedStoreConformance):
    """The suite of shared stores, over every store that has its objects in a server."""

    @pytest.fixture(autouse=True)
    def _keep(self, row: StoreRow, request: pytest.FixtureRequest) -> None:
        self.row, self.request = row, request

    def make_store(self, clock: FakeClock) -> AbstractAsyncContextManager[SnapshotStore]:
        return self.row.open(clock, self.request)

    async def damage(self, store: SnapshotStore, digest: bytes, blob: bytes | None) -> None:
        assert self.row.damage is not None
        await self.row.damage(store, digest, blob)


class SharedDictSuite(SharedStoreConformance):
    """The suite of shared stores over `SharedDict`, or over one with a fault."""

    def __init__(self, kind: type[SharedDict]) -> None:
        self.kind = kind
        self.objects: dict[bytes, tuple[bytes, int]] = {}

    @asynccontextmanager
    async def make_store(self, clock: FakeClock) -> AsyncGenerator[SnapshotStore]:
        yield self.kind(self.objects, clock)

    async def damage(self, store: SnapshotStore, digest: bytes, blob: bytes | None) -> None:
        _, until = self.objects.pop(digest, (b"", 2**53))
        if blob is not None:
            self.objects[digest] = (blob, until)


SUITE = [name for name, _ in inspect.getmembers(SharedStoreConformance) if "test_" in name]


@pytest.mark.parametrize("name", SUITE)
def test_a_shared_store_without_fault_passes(name: str) -> None:
    """The simplest right store passes each test of the suite of shared stores."""
    anyio.run(getattr(SharedDictSuite(SharedDict), name))


# Stores with one fault each.


class Unordered(SharedDict):
    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return await super().get(sorted(digests))


class SkipsTheAbsent(SharedDict):
    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return [blob for blob in await super().get(digests) if blob is not None]


class RefusesNothing(SharedDict):
    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        if not digests:
            raise StoreDataError("wrong number of arguments")
        return await super().get(digests)


class ReadsTwice(SharedDict):
    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        if sum(len(each.blob) for each in objects):
            await super().put(objects, deadline=deadline, repair=repair)


class GivesBytearrays(SharedDict):
    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        blobs = await super().get(digests)
        return [blob if blob is None else bytearray(blob) for blob in blobs]  # type: ignore[misc]  # as an untyped driver does


class KeepsTheFirstThousand(SharedDict):
    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        await super().put(list(objects)[:1000], deadline=deadline, repair=repair)


class DropsTheKnown(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        if self.objects.pop(stored.digest, None) is None:
            super().keep(stored, deadline, repair=repair)


class HalvesLeases(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        now = int(self.clock())
        super().keep(stored, now + (deadline - now) // 2, repair=repair)


class LastLeaseWins(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        self.objects[stored.digest] = (stored.blob, deadline)


class FirstLeaseWins(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        _, until = self.objects.get(stored.digest, (b"", deadline))
        self.objects[stored.digest] = (stored.blob, until)


class RepairsTheKnownOnly(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        if not repair or stored.digest in self.objects:
            super().keep(stored, deadline, repair=repair)


class NeverChecks(SharedDict):
    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return [self.find(digest) for digest in digests]


class VouchesForOthers(SharedDict):
    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return VerifiedBlobs(digests[::-1], await super().get(digests))


class StaysBusy(SharedDict):
    busy = False

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        assert not self.busy, "one put at a time"
        self.busy = True
        await anyio.lowlevel.checkpoint()
        await super().put(objects, deadline=deadline, repair=repair)
        self.busy = False


class KeepsItemsOnly(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        if stored.level == 0:
            super().keep(stored, deadline, repair=repair)


class NeverRepairs(SharedDict):
    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        super().keep(stored, deadline, repair=False)


class BelievesItsMemory(SharedDict):
    def __init__(self, objects: dict[bytes, tuple[bytes, int]], clock: FakeClock) -> None:
        super().__init__(objects, clock)
        self.believed: dict[bytes, int] = {}

    def keep(self, stored: StoredObject, deadline: int, *, repair: bool) -> None:
        if repair or self.believed.get(stored.digest, 0) < deadline:
            super().keep(stored, deadline, repair=repair)
            self.believed[stored.digest] = deadline


class KeepsToItself(SharedDict):
    def __init__(self, objects: dict[bytes, tuple[bytes, int]], clock: FakeClock) -> None:
        super().__init__({}, clock)


FAULTS: dict[str, type[SharedDict]] = {
    "test_blobs_come_back_in_the_order_asked": Unordered,
    "test_an_absent_object_is_none_in_its_place": SkipsTheAbsent,
    "test_nothing_is_a_request_like_any_other": RefusesNothing,
    "test_objects_may_come_from_an_iterator": ReadsTwice,
    "test_every_blob_comes_back_unchanged": GivesBytearrays,
    "test_many_objects_go_in_one_put_and_one_get": KeepsTheFirstThousand,
    "test_a_repeated_put_changes_nothing": DropsTheKnown,
    "test_one_put_may_hold_an_object_twice": DropsTheKnown,
    "test_an_object_is_kept_until_its_deadline": HalvesLeases,
    "test_a_shorter_lease_never_shortens_a_longer_one": LastLeaseWins,
    "test_a_longer_lease_extends_a_shorter_one": FirstLeaseWins,
    "test_what_has_expired_can_be_put_again": FirstLeaseWins,
    "test_repair_puts_what_is_absent": RepairsTheKnownOnly,
    "test_a_blob_is_never_given_under_anothers_digest": NeverChecks,
    "test_what_an_answer_vouches_for_is_true": VouchesForOthers,
    "test_a_put_that_ends_half_way_leaves_no_root_and_is_completed": StaysBusy,
    "test_a_cancelled_put_is_completed_by_the_next": StaysBusy,
    "test_tasks_put_and_get_the_same_objects_at_once": StaysBusy,
    "test_a_list_is_read_back_slice_by_slice": KeepsItemsOnly,
    "test_a_damaged_object_is_absent": NeverChecks,
    "test_repair_mends_what_is_damaged": NeverRepairs,
    "test_a_store_that_met_a_loss_stores_again": BelievesItsMemory,
    "test_two_nodes_share_objects": KeepsToItself,
}


@pytest.mark.parametrize("name", SUITE)
def test_each_test_of_the_suite_finds_a_fault(name: str) -> None:
    """For each test of the suite there is a store that does not pass it."""
    with pytest.raises(Exception) as failure:  # noqa: PT011  # each fault fails in its own way
        anyio.run(getattr(SharedDictSuite(FAULTS[name]), name))
    assert not isinstance(failure.value, NotImplementedError)


@pytest.mark.parametrize("suite", [StoreConformance(), SharedStoreConformance()])
def test_a_suite_that_is_not_filled_in_says_so(suite: StoreConformance) -> None:
    """Without `make_store` or `damage` a suite fails, and names what is missing."""
    with pytest.raises(NotImplementedError, match="make_store"):
        suite.make_store(FakeClock())
    if isinstance(suite, SharedStoreConformance):
        with pytest.raises(NotImplementedError, match="damage"):
            anyio.run(suite.damage, SharedDict({}, FakeClock()), b"", None)


# What stores share: names of objects, and the check of answers.


def test_an_objects_name_is_fixed() -> None:
    """The digest of a blob is SHA-256 of "cursorkit/1:" and the blob: names outlive versions."""
    digest = "b969bc7d8ac8e209d1ba0192d83044ff50b5390852b83c65d2944802a71e3cc3"
    assert digest_of(b"I1").hex() == digest


def test_an_object_shows_no_blob() -> None:
    """The repr of a stored object holds its digest and level, not what may be private."""
    stored = StoredObject(digest_of(b"Isecret"), b"Isecret", 2)
    assert "secret" not in repr(stored)
    assert "level=2" in repr(stored)


@given(st.lists(st.tuples(st.binary(max_size=1), st.none() | st.binary(max_size=1))))
def test_only_blobs_of_their_digests_are_verified(pairs: list[tuple[bytes, bytes | None]]) -> None:
    """Of an answer, what passes is each blob that hashes to the digest in its place, else None."""
    digests = [digest_of(blob) for blob, _ in pairs]
    passed = verified(digests, [answer for _, answer in pairs])
    assert list(passed) == [blob if answer == blob else None for blob, answer in pairs]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_answer_of_another_length_is_all_absent(count: int) -> None:
    """An answer that is too short or too long vouches for nothing."""
    digests = [digest_of(b"I1"), digest_of(b"I2")]
    assert list(verified(digests, [b"I1", b"I2", b"I3"][:count])) == [None, None]


def test_a_mutable_blob_is_absent() -> None:
    """A bytearray could change after the check: it is not taken, even with the right bytes."""
    answer: list[bytes | None] = [bytearray(b"I1")]  # type: ignore[list-item]  # an untyped driver
    assert list(verified([digest_of(b"I1")], answer)) == [None]


def test_a_verified_answer_vouches_for_its_own_digests_only() -> None:
    """Passed on for other digests, or for these in another order, it is checked again."""
    one, two = digest_of(b"I1"), digest_of(b"I2")
    answer = verified([one, two], [b"I1", b"I2"])
    assert verified([one, two], answer) is answer
    assert list(verified([two, one], answer)) == [None, None]
    assert list(verified([one, one], answer)) == [b"I1", None]
    assert list(verified([one, two], answer[::-1])) == [None, None]
