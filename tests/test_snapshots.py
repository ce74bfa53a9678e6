"""Trees of objects: one list has one root, and a slice read back is the slice of that list."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit.errors import SourceError, StoreUnavailableError
from cursorkit.items import JsonItems
from cursorkit.snapshots import (
    MAX_ITEMS,
    MissingObjectError,
    Slice,
    Tree,
    build,
    encode_items,
    read,
)
from cursorkit.stores.base import MAX_BLOB_BYTES, StoredObject, digest_of
from cursorkit.stores.memory import MemoryStore
from cursorkit.testing.clock import FakeClock
from tests.snapshot_fakes import WatchedStore

pytestmark = pytest.mark.anyio

FOREVER = 2**40
SIZES = [1, 2, 254, 255, 256, 509, 510, 511, 255 * 255, 255 * 255 + 1]
"""Lists around the points where a node is full, or the tree grows by a level."""


def payload(number: int) -> bytes:
    """Return the bytes of an item."""
    return struct.pack(">I", number)


_stored: dict[int, tuple[Tree, MemoryStore]] = {}


async def stored_list(size: int) -> tuple[Tree, MemoryStore]:
    """Return a list's tree and a store that has it, each made once."""
    if size not in _stored:
        tree = await build([b"I" + payload(number) for number in range(size)], "raw")
        store = MemoryStore(max_bytes=2**30, clock=FakeClock())
        await store.put(tree.objects(), deadline=FOREVER)
        _stored[size] = tree, store
    return _stored[size]


def named(blob: bytes, level: int = 0) -> StoredObject:
    """Return a blob under its name."""
    return StoredObject(digest_of(blob), blob, level)


async def store_of(*blobs: bytes) -> MemoryStore:
    """Return a store that has these blobs, whatever they are."""
    store = MemoryStore(clock=FakeClock())
    await store.put([named(blob) for blob in blobs], deadline=FOREVER)
    return store


# Building.


async def test_a_small_tree_is_fixed_byte_by_byte() -> None:
    """The objects of a list of two are what the format says: roots outlive versions."""
    tree = await build([b'I"a"', b'I"b"'], "json")
    digests = [hashlib.sha256(b"cursorkit/1:" + blob).digest() for blob in (b'I"a"', b'I"b"')]
    root = b"R\x93\x02\xa4json\xc4\x40" + digests[0] + digests[1]
    assert list(tree.objects()) == [
        StoredObject(digests[0], b'I"a"', 0),
        StoredObject(digests[1], b'I"b"', 0),
        StoredObject(hashlib.sha256(b"cursorkit/1:" + root).digest(), root, 1),
    ]
    assert tree.root.hex() == "fc0e1be758ee2d03d3e9842ab1b4bbf3bfc579802fc868496976b2010c1f5b34"
    assert tree.slice(1, 9) == Slice(2, [b'"b"'])


@pytest.mark.parametrize("size", SIZES)
async def test_a_tree_has_the_shape_that_its_size_gives(size: int) -> None:
    """Levels of nodes of 255 stand on the items until 255 are left, then the root; each named."""
    tree, _ = await stored_list(size)
    levels: dict[int, list[StoredObject]] = {}
    for stored in tree.objects():
        assert digest_of(stored.blob) == stored.digest
        levels.setdefault(stored.level, []).append(stored)
    assert list(levels) == sorted(levels), "children come first"
    widths = [size]
    while widths[-1] > 255:
        widths.append(-(-widths[-1] // 255))
    assert [len(objects) for objects in levels.values()] == [*widths, 1]
    (root,) = levels[len(widths)]
    assert root.digest == tree.root
    below = b"".join(stored.digest for stored in levels[0])
    for level in range(1, len(widths)):
        nodes = [stored.blob for stored in levels[level]]
        assert all(blob[:1] == b"N" and len(blob) <= 1 + 255 * 32 < 8192 for blob in nodes)
        assert b"".join(blob[1:] for blob in nodes) == below
        below = b"".join(stored.digest for stored in levels[level])
    assert root.blob[:1] == b"R"
    assert msgpack.unpackb(root.blob[1:]) == [size, "raw", below]


ITEM_LISTS = st.lists(st.binary(max_size=2), min_size=1, max_size=6)


@given(ITEM_LISTS, ITEM_LISTS)
async def test_a_root_is_equal_exactly_where_the_list_is(
    some: list[bytes], others: list[bytes]
) -> None:
    """Equal lists have one root; another order, count or item is another root."""
    one = await build([b"I" + item for item in some], "raw")
    other = await build([b"I" + item for item in others], "raw")
    assert (one.root == other.root) == (some == others)


async def test_another_encoding_is_another_root() -> None:
    """The same bytes under another encoding's name are another list."""
    trees = [await build([b"I1"], name) for name in ("json", "msgpack", "model")]
    assert len({tree.root for tree in trees}) == 3


async def test_equal_items_are_one_object_each_time() -> None:
    """A list of 1,000 equal items is stored as one item, its nodes and its root."""
    tree = await build([b"I1"] * 1000, "json")
    store = MemoryStore(clock=FakeClock())
    await store.put(tree.objects(), deadline=FOREVER)
    assert len(store) == 4
    found = await read(store, tree.root, "json", 500, 20)
    assert list(found.payloads) == [b"1"] * 20


async def test_an_item_is_a_kind_byte_and_its_encoding() -> None:
    """What is hashed is "I" and the item's bytes, so that no node is an item."""
    assert await encode_items([1, "a"], JsonItems()) == [b"I1", b'I"a"']


async def test_an_item_larger_than_an_object_may_be_is_refused() -> None:
    """1 MiB with its kind byte is the most; the message names the item's number and size."""
    fits = "x" * (MAX_BLOB_BYTES - 3)
    blobs = await encode_items(["a", fits], JsonItems())
    assert len(blobs[1]) == MAX_BLOB_BYTES
    with pytest.raises(SourceError) as failure:
        await encode_items(["a", fits + "x"], JsonItems())
    assert str(failure.value) == "item 1 takes 1048577 bytes; an item may take 1048576"


@pytest.mark.both_backends
async def test_long_lists_are_encoded_and_hashed_with_pauses() -> None:
    """While 20,000 items are encoded, and then hashed, another task gets a turn for each 256."""
    beats = encoded = 0

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            await anyio.lowlevel.checkpoint()
            beats += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heartbeat)
        blobs = await encode_items(range(20_000), JsonItems())
        encoded = beats
        await build(blobs, "json")
        tasks.cancel_scope.cancel()
    assert 50 < encoded < 200
    assert 50 < beats - encoded < 200


@pytest.mark.parametrize("count", [1, 256, 257])
async def test_what_was_cancelled_is_not_begun(count: int) -> None:
    """Nothing is encoded or hashed for a client that has gone."""
    for work in (encode_items([1] * count, JsonItems()), build([b"I1"] * count, "json")):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await work
        assert scope.cancelled_caught


async def test_the_error_of_an_encoding_names_the_item_and_keeps_the_cause() -> None:
    """Its number and type, then what the encoding says."""
    cause = ValueError("x")

    class Refusing(JsonItems):
        def encode(self, item: Any, /) -> bytes:
            if item == 1:
                return b"1"
            raise SourceError("no") from cause

    with pytest.raises(SourceError) as failure:
        await encode_items([1, "a"], Refusing())
    assert str(failure.value) == "item 1, of type str: no"
    assert failure.value.__cause__ is cause


async def test_a_tree_and_a_slice_show_no_items() -> None:
    """Their repr holds the root and the total, not the items."""
    tree, _ = await stored_list(2)
    assert "payload" not in repr(tree.slice(0, 2))
    assert "total=2" in repr(tree.slice(0, 2))
    assert payload(1) not in repr(tree).encode("latin-1", "replace")
    assert repr(tree) == f"Tree(root={tree.root!r})"


# Reading.


def borders(size: int) -> list[tuple[int, int]]:
    """Return slices at and across the borders of nodes, and at the end."""
    places = {
        0,
        1,
        253,
        254,
        255,
        256,
        509,
        510,
        255 * 255 - 1,
        255 * 255,
        size - 1,
        size,
        size + 9,
    }
    return [
        (offset, count)
        for offset in sorted(places)
        if 0 <= offset <= size + 9
        for count in (1, 2, 255, 256, 600)
    ]


@pytest.mark.parametrize("size", SIZES)
async def test_slices_at_the_borders_of_nodes_are_the_lists(size: int) -> None:
    """A slice from the store is the list's own slice, wherever nodes begin and end."""
    tree, store = await stored_list(size)
    for offset, count in borders(size):
        found = await read(store, tree.root, "raw", offset, count)
        assert found.total == size
        expected = [payload(number) for number in range(size)[offset : offset + count]]
        assert list(found.payloads) == expected
        assert list(tree.slice(offset, count).payloads) == expected


@given(st.sampled_from(SIZES), st.integers(0, 66_000), st.integers(1, 700))
async def test_any_slice_is_the_lists(size: int, offset: int, count: int) -> None:
    """Any offset, even past the end, and any count give what slicing the list gives."""
    tree, store = await stored_list(size)
    found = await read(store, tree.root, "raw", offset, count)
    expected = [payload(number) for number in range(size)[offset : offset + count]]
    assert found.total == size
    assert list(found.payloads) == expected


async def test_the_largest_page_of_the_largest_level_is_read() -> None:
    """10,000 items in the middle of a list of three levels come in one slice."""
    tree, store = await stored_list(SIZES[-1])
    found = await read(store, tree.root, "raw", 30_000, 10_000)
    assert list(found.payloads) == [payload(number) for number in range(30_000, 40_000)]


@pytest.mark.parametrize(("size", "gets"), [(255, 2), (256, 3), (255 * 255, 3), (255 * 255 + 1, 4)])
async def test_a_page_costs_one_get_a_level(size: int, gets: int) -> None:
    """A slice asks once for each level, and only for the nodes and items on its way."""
    tree, inner = await stored_list(size)
    store = WatchedStore()
    store.inner = inner
    await read(store, tree.root, "raw", size // 2, 50)
    assert store.gets == gets
    assert len(store.asked) <= 1 + 2 * (gets - 2) + 50


@pytest.mark.parametrize(
    ("offset", "count", "nodes"),
    [(0, 255, 1), (0, 256, 2), (254, 1, 1), (255, 1, 1), (254, 2, 2), (255, 255, 1), (510, 90, 1)],
)
async def test_only_the_nodes_on_the_way_are_asked_for(offset: int, count: int, nodes: int) -> None:
    """A slice that ends with a node's last item does not get the next node."""
    tree, inner = await stored_list(600)
    store = WatchedStore()
    store.inner = inner
    await read(store, tree.root, "raw", offset, count)
    assert len(store.asked) == 1 + nodes + count


@pytest.mark.parametrize("offset", [600, 601, 2**53])
async def test_past_the_end_nothing_but_the_root_is_asked_for(offset: int) -> None:
    """It tells that the slice is empty."""
    tree, inner = await stored_list(600)
    store = WatchedStore()
    store.inner = inner
    assert await read(store, tree.root, "raw", offset, 10) == Slice(600, ())
    assert store.asked == [tree.root]


async def test_the_longest_list_has_a_million_items() -> None:
    """A root of one more is none, though its digests are as many as that would have."""
    for total in (1_000_000, 1_000_001):
        blob = b"R" + msgpack.packb([total, "raw", bytes(16 * 32)])
        store = await store_of(blob)
        if total == MAX_ITEMS:
            assert await read(store, digest_of(blob), "raw", total, 1) == Slice(total, ())
        else:
            with pytest.raises(MissingObjectError):
                await read(store, digest_of(blob), "raw", total, 1)


async def test_an_error_of_the_store_is_passed_on() -> None:
    """A store that cannot be asked is not taken for one that has nothing."""
    tree, _ = await stored_list(300)
    store = WatchedStore()
    store.fail(StoreUnavailableError("down"))
    with pytest.raises(StoreUnavailableError):
        await read(store, tree.root, "raw", 0, 10)


@pytest.mark.parametrize("size", [255, 600])
async def test_any_object_that_is_missing_makes_the_slice_missing(size: int) -> None:
    """With any one object on its way lost there is no slice: never a partial one."""
    tree, inner = await stored_list(size)
    store = WatchedStore()
    store.inner = inner
    await read(store, tree.root, "raw", 200, 50)
    for digest in set(store.asked):
        damaged = WatchedStore()
        damaged.inner = inner
        damaged.lose([digest])
        with pytest.raises(MissingObjectError):
            await read(damaged, tree.root, "raw", 200, 50)


# Rotten contents: the root's name is right, what it names is not a snapshot.


def top(*blobs: bytes) -> bytes:
    """Return the joined digests of blobs."""
    return b"".join(digest_of(blob) for blob in blobs)


ROTTEN_ROOTS: list[bytes] = [
    b"",
    b"R",
    b"R\xc1",
    b"R" + b"\x91" * 100_000,
    b"R\xdd\xff\xff\xff\xff",
    b"R\xdf\xff\xff\xff\xff",
    b"R\x81\x90\x01",
    b"R\xa1\xff",
    b"R" + bytes.fromhex("d81c81d81d00"),
    b"R" + msgpack.packb([1, "raw", top(b"I1")]) + b"\x00",
    b"R" + msgpack.packb([1, "raw", top(b"I1")])[:-1],
    b"I" + msgpack.packb([1, "raw", top(b"I1")]),
    b"N" + top(b"I1"),
    *(
        b"R" + msgpack.packb(root)
        for root in (
            None,
            1,
            "raw",
            [],
            [1, "raw"],
            [1, "raw", top(b"I1"), 0],
            {1: 1, 2: 2, 3: 3},
            [1, "json", top(b"I1")],
            [1, b"raw", top(b"I1")],
            [1, ["raw"], top(b"I1")],
            [0, "raw", b""],
            [-1, "raw", top(b"I1")],
            [True, "raw", top(b"I1")],
            [1.0, "raw", top(b"I1")],
            ["1", "raw", top(b"I1")],
            [None, "raw", top(b"I1")],
            [2**63, "raw", top(b"I1")],
            [1_000_001, "raw", top(b"I1")],
            [2, "raw", top(b"I1")],
            [1, "raw", top(b"I1", b"I1")],
            [1, "raw", b""],
            [1, "raw", top(b"I1")[:-1]],
            [1, "raw", "x" * 32],
            [1, "raw", None],
            [1, "raw", [top(b"I1")]],
            [256, "raw", top(b"I1")],
            [1, "raw", digest_of(b"absent")],
            [1, "raw", top(b"N1")],
            [1, "raw", top(b"R")],
        )
    ),
]


@pytest.mark.parametrize("blob", ROTTEN_ROOTS, ids=range(len(ROTTEN_ROOTS)))
async def test_a_root_that_is_no_root_is_missing(blob: bytes) -> None:
    """Bombs, wrong types, wrong counts and wrong kinds are all as good as no snapshot."""
    store = await store_of(blob, b"I1", b"N1", b"R")
    with pytest.raises(MissingObjectError):
        await read(store, digest_of(blob), "raw", 0, 10)


def root_over(count: int, *children: bytes) -> bytes:
    """Return a root of so many items over these nodes."""
    return b"R" + msgpack.packb([count, "raw", top(*children)])


FULL = b"N" + top(b"I1") * 255
ONE = b"N" + top(b"I1")


@pytest.mark.parametrize(
    "blobs",
    [
        (root_over(256, FULL, ONE), FULL),
        (root_over(256, FULL, b"N"), FULL, b"N"),
        (root_over(256, FULL, ONE + b"x"), FULL, ONE + b"x"),
        (root_over(256, FULL, ONE[:-1]), FULL, ONE[:-1]),
        (root_over(256, FULL, FULL), FULL),
        (root_over(256, b"N" + top(b"I1") * 254, ONE), b"N" + top(b"I1") * 254, ONE),
        (root_over(256, FULL, b"I1"), FULL),
        (root_over(256, FULL, b"I" + top(b"I1")), FULL, b"I" + top(b"I1")),
        (root_over(256, FULL, b"N" + top(FULL)), FULL, b"N" + top(FULL)),
        (root_over(256, FULL, b"N" + top(b"R")), FULL, b"N" + top(b"R"), b"R"),
        (root_over(256, FULL, b"N" + b"\x00" * 32), FULL, b"N" + b"\x00" * 32),
    ],
    ids=range(11),
)
async def test_a_node_that_is_no_node_is_missing(blobs: Sequence[bytes]) -> None:
    """A node with too few or many children, a foreign kind, or a dead end gives no slice."""
    store = await store_of(*blobs, b"I1")
    with pytest.raises(MissingObjectError):
        await read(store, digest_of(blobs[0]), "raw", 250, 6)


async def test_the_trees_that_these_are_spoiled_from_are_read() -> None:
    """The same objects without the fault give the slice: the tests above fail for their faults."""
    store = await store_of(root_over(256, FULL, ONE), FULL, ONE, root_over(1, b"I1"), b"I1")
    found = await read(store, digest_of(root_over(256, FULL, ONE)), "raw", 250, 10)
    assert found == Slice(256, [b"1"] * 6)
    assert await read(store, digest_of(root_over(1, b"I1")), "raw", 0, 1) == Slice(1, [b"1"])


Substitute: TypeAlias = Callable[[Any, Any], Any]


class Substituting(MemoryStore):
    """A store that answers with other blobs than it was asked for."""

    def __init__(self, substitute: Substitute) -> None:
        super().__init__(clock=FakeClock())
        self.substitute = substitute

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        answer: Sequence[bytes | None] = self.substitute(await super().get(digests), digests)
        return answer


SUBSTITUTES: list[Substitute] = [
    lambda blobs, _: [blob and blob[:1] + b"x" + blob[2:] for blob in blobs],
    lambda blobs, _: [blob and bytearray(blob) for blob in blobs],
    lambda blobs, _: [blob and memoryview(blob) for blob in blobs],
    lambda blobs, _: [blob and blob.decode("latin-1") for blob in blobs],
    lambda blobs, _: [blob and blob + b"\x00" for blob in blobs],
    lambda blobs, _: [blob and blob[:-1] for blob in blobs],
    lambda blobs, _: [b"" for _ in blobs],
    lambda blobs, _: [0 for _ in blobs],
    lambda blobs, _: [blobs[0]] * len(blobs) if len(blobs) > 1 else [None],
    lambda blobs, _: blobs[:-1],
    lambda blobs, _: [*blobs, None],
    lambda blobs, _: (),
    lambda _, digests: digests,
]


@pytest.mark.parametrize("substitute", SUBSTITUTES, ids=range(len(SUBSTITUTES)))
async def test_a_store_that_substitutes_is_found_out(substitute: Substitute) -> None:
    """Whatever it answers in place of what was put, there is no slice, and no other error."""
    tree, _ = await stored_list(300)
    store = Substituting(substitute)
    await store.put(tree.objects(), deadline=FOREVER)
    with pytest.raises(MissingObjectError):
        await read(store, tree.root, "raw", 250, 10)


class Misdirecting(MemoryStore):
    """A store that looks up others than it was asked for, and vouches for what it found."""

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        return await super().get(digests[::-1])


async def test_a_store_that_answers_in_another_order_is_found_out() -> None:
    """Blobs that were checked against their own digests do not pass for those asked."""
    tree, _ = await stored_list(255)
    store = Misdirecting(clock=FakeClock())
    await store.put(tree.objects(), deadline=FOREVER)
    with pytest.raises(MissingObjectError):
        await read(store, tree.root, "raw", 0, 10)
