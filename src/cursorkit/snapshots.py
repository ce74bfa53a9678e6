"""Snapshots as content-addressed trees: build one, read a slice of one.

An object is a kind byte and a payload, named by its digest:

    I  an item, as its encoding makes it
    N  a node: the digests of up to 255 items or nodes
    R  the root: item count, name of the item encoding, digests of the top level

The tree follows from the items alone, so the root's digest names the list: the same list is the
same root on every node, and a store that answers with anything else is found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeVar

import anyio.lowlevel
import msgpack

from cursorkit.errors import SourceError
from cursorkit.items import ItemEncoding
from cursorkit.stores.base import (
    MAX_BLOB_BYTES,
    SnapshotStore,
    StoredObject,
    VerifiedObject,
    digest_of,
    verified,
)

__all__ = ["MAX_ITEMS", "MissingObjectError", "Slice", "Tree", "build", "encode_items", "read"]

T = TypeVar("T")

MAX_ITEMS: Final = 1_000_000
"""The longest list, in items."""

_FAN_OUT: Final = 255
"""Children of a node: 255 digests and a kind byte stay below 8 KiB, an allocation size."""

_DIGEST_BYTES: Final = 32

_YIELD_EVERY: Final = 256
"""Items encoded or hashed between two checkpoints: about a millisecond for 1 kB each."""


async def encode_items(items: Sequence[T], encoding: ItemEncoding[T]) -> list[bytes]:
    """Return each item's blob: its kind byte and its bytes.

    Raises:
        SourceError: If an item cannot be encoded, or is larger than an object may be.
    """
    blobs: list[bytes] = []
    for number, item in enumerate(items):
        if number % _YIELD_EVERY == 0:
            await anyio.lowlevel.checkpoint()
        try:
            blob = b"I" + encoding.encode(item)
        except SourceError as error:
            kind = type(item).__name__
            raise SourceError(f"item {number}, of type {kind}: {error}") from error.__cause__
        if len(blob) > MAX_BLOB_BYTES:
            raise SourceError(
                f"item {number} takes {len(blob)} bytes; an item may take {MAX_BLOB_BYTES}"
            )
        blobs.append(blob)
    return blobs


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive items of a snapshot.

    Attributes:
        total: Items in the snapshot.
        payloads: The items' bytes; empty if the slice starts at or past the end.
    """

    total: int
    payloads: Sequence[bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tree:
    """A snapshot in memory.

    Attributes:
        root: Its name, 32 bytes.
        blobs: The items' blobs, in order.
    """

    root: bytes
    blobs: Sequence[bytes] = field(repr=False)
    _levels: Sequence[Sequence[StoredObject]] = field(repr=False)

    def objects(self) -> Iterator[StoredObject]:
        """Return every object, level by level, the root last."""
        return chain.from_iterable(self._levels)

    def slice(self, offset: int, count: int) -> Slice:
        """Return up to `count` items from `offset` on."""
        blobs = self.blobs[offset : offset + count]
        return Slice(len(self.blobs), [blob[1:] for blob in blobs])


async def build(blobs: Sequence[bytes], encoding: str) -> Tree:
    """Return the tree of a list.

    Args:
        blobs: The items' blobs, in order.
        encoding: The name of the items' encoding.
    """
    level: list[StoredObject] = []
    for number, blob in enumerate(blobs):
        if number % _YIELD_EVERY == 0:
            await anyio.lowlevel.checkpoint()
        level.append(VerifiedObject(digest_of(blob), blob))
    levels = [level]
    while len(level) > _FAN_OUT:
        level = [
            _above(b"N" + _joined(level[start : start + _FAN_OUT]), len(levels))
            for start in range(0, len(level), _FAN_OUT)
        ]
        levels.append(level)
    root = _above(b"R" + msgpack.packb([len(blobs), encoding, _joined(level)]), len(levels))
    return Tree(root.digest, blobs, [*levels, [root]])


def _joined(objects: Sequence[StoredObject]) -> bytes:
    return b"".join([stored.digest for stored in objects])


def _above(blob: bytes, level: int) -> StoredObject:
    return VerifiedObject(digest_of(blob), blob, level)


def _widths(count: int) -> list[int]:
    """Return how many objects each level has, items first, up to the root's children."""
    widths = [count]
    while widths[-1] > _FAN_OUT:
        widths.append(-(-widths[-1] // _FAN_OUT))
    return widths


class MissingObjectError(Exception):
    """An object is absent from the store, or is not what its place in the tree asks for."""


async def read(store: SnapshotStore, root: bytes, encoding: str, offset: int, count: int) -> Slice:
    """Return a slice from the store: one `get` a level of the tree, whatever the list's length.

    Raises:
        MissingObjectError: If an object on the way is absent or bad.
        StoreError: As the store's `get` raises it.
    """
    total, digests = _parse_root((await _fetch(store, [root], b"R"))[0], encoding)
    if offset >= total:
        return Slice(total, ())
    end = min(offset + count, total)
    widths = _widths(total)
    first = 0  # The place in its level of the first of `digests`.
    for height in range(len(widths) - 1, 0, -1):
        covered = _FAN_OUT**height
        low, high = offset // covered, (end - 1) // covered + 1
        nodes = await _fetch(store, _digests(digests, low - first, high - first), b"N")
        first = low * _FAN_OUT
        digests = b"".join(nodes)
        below = min(high * _FAN_OUT, widths[height - 1]) - first
        if len(digests) != below * _DIGEST_BYTES:
            raise MissingObjectError
    return Slice(total, await _fetch(store, _digests(digests, offset - first, end - first), b"I"))


def _parse_root(payload: bytes, encoding: str) -> tuple[int, bytes]:
    try:
        total, name, top = msgpack.unpackb(payload)
    except (ValueError, TypeError):
        raise MissingObjectError from None
    # Another node with another encoding made this snapshot: its items cannot be read here.
    if name != encoding or type(total) is not int or type(top) is not bytes:
        raise MissingObjectError
    if not 0 < total <= MAX_ITEMS or len(top) != _widths(total)[-1] * _DIGEST_BYTES:
        raise MissingObjectError
    return total, top


def _digests(joined: bytes, low: int, high: int) -> list[bytes]:
    return [
        joined[start : start + _DIGEST_BYTES]
        for start in range(low * _DIGEST_BYTES, high * _DIGEST_BYTES, _DIGEST_BYTES)
    ]


async def _fetch(store: SnapshotStore, digests: list[bytes], kind: bytes) -> list[bytes]:
    """Return the payloads of objects of one kind."""
    payloads: list[bytes] = []
    for blob in verified(digests, await store.get(digests)):
        if blob is None or blob[:1] != kind:
            raise MissingObjectError
        payloads.append(blob[1:])
    return payloads
