"""What type checkers see of the public API. Never run: mypy and basedpyright read it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type

from sqlalchemy import Table, select

from cursorkit import (
    Binding,
    CursorCodec,
    CursorError,
    CursorkitError,
    DecodedCursor,
    ExpiringCodec,
    FallbackCodec,
    ItemEncoding,
    JsonItems,
    Key,
    KeyRing,
    Keyset,
    KeysetPaginator,
    MemoryStore,
    ModelItems,
    MsgpackItems,
    Offset,
    OffsetCodec,
    OffsetPaginator,
    Opaque,
    Page,
    SealedCodec,
    SignedCodec,
    SnapshotOffset,
    SnapshotPaginator,
    SnapshotStore,
    StoredObject,
    asc,
    desc,
)
from cursorkit.adapters.sqlalchemy import apply
from cursorkit.errors import RefusalReason
from cursorkit.positions import KeysetValue, Position


@dataclass
class Tool:
    """An item of a list."""

    name: str


def keys() -> None:
    """A ring is made of keys, from wherever they come."""
    key = Key.generate()
    assert_type(key, Key)
    assert_type(key.name, str)
    assert_type(key.kid, bytes)
    ring = KeyRing(key, Key.generate())
    assert_type(ring.primary, Key)
    assert_type(ring.verify_only, tuple[Key, ...])
    assert_type(ring.find(b"kid1"), Key | None)
    assert_type(KeyRing.from_env(), KeyRing)
    assert_type(KeyRing.from_file("ring.json"), KeyRing)
    assert_type(KeyRing.ephemeral(), KeyRing)


def codecs(ring: KeyRing, cursor: str) -> None:
    """Every codec is a `CursorCodec`; what it decodes is narrowed by `expect`."""
    signed: CursorCodec = SignedCodec(ring)
    expiring: CursorCodec = ExpiringCodec(signed, ttl=600)
    unsigned: CursorCodec = OffsetCodec()
    sealed: CursorCodec = SealedCodec(ring)
    fallback: CursorCodec = FallbackCodec(sealed, signed)
    binding = Binding("tools/list", principal="alice", params={"tags": ["a", 1, None]})
    for codec in (signed, expiring, unsigned, sealed, fallback):
        assert_type(codec.authenticates, bool)
        assert_type(codec.max_ttl, float | None)
        assert_type(codec.encode(Offset(50), binding, expires_at=1), str)
        decoded = codec.decode(cursor, binding, now=0.0)
        assert_type(decoded, DecodedCursor)
        assert_type(decoded.position, Position)
        assert_type(decoded.expires_at, int | None)
        assert_type(decoded.expect(Offset), Offset)
        assert_type(decoded.expect(Offset).offset, int)
        assert_type(decoded.expect(Keyset).values, tuple[KeysetValue, ...])
        assert_type(decoded.expect(SnapshotOffset).root, bytes)
        assert_type(decoded.expect(Opaque).data, bytes)
        decoded.expect(str)  # type: ignore[type-var]  # not a position
    Binding()  # type: ignore[call-arg]  # the list must be named
    Binding("tools/list", principal=7)  # type: ignore[arg-type]  # not text
    ExpiringCodec(signed)  # type: ignore[call-arg]  # no default lifetime


def bindings(binding: Binding) -> None:
    """What was bound can be read, and changed in a copy."""
    assert_type(binding.purpose, str)
    assert_type(binding.principal, str | bytes | None)
    assert_type(binding.associated_data, bytes)
    assert_type(binding.replace(locale="de"), Binding)


def errors(error: CursorError) -> None:
    """The reason of a refusal is of a closed list."""
    root: CursorkitError = error
    assert_type(error.reason, RefusalReason)
    del root


def offset_pages(codec: CursorCodec, binding: Binding) -> None:
    """A page holds what the sequence held."""
    page = OffsetPaginator(codec, page_size=3).page(None, [Tool("a")], binding)
    assert_type(page, Page[Tool])
    assert_type(page.items, list[Tool])
    assert_type(page.next_cursor, str | None)
    assert_type(page.expires_at, int | None)
    assert_type(page.total, int | None)


def keyset_pages(codec: CursorCodec, binding: Binding, table: Table) -> None:
    """A plan asks a database of any kind; a page holds what it answered."""
    order = (desc("created", datetime, nulls="last"), asc("id", int))
    keyset = KeysetPaginator(codec, order=order, page_size=3)
    plan = keyset.plan("c", binding, page_size=5)
    assert_type(plan.after, tuple[KeysetValue, ...] | None)
    assert_type(plan.fetch, int)
    assert_type(plan.backwards, bool)
    page = keyset.finish(plan, [Tool("a")], key=lambda tool: (tool.name, 1))
    assert_type(page, Page[Tool])
    assert_type(page.previous_cursor, str | None)
    statement = select(table.c.id)
    statement = apply(statement, plan, table.c.created, table.c.id)  # the type is kept
    keyset.finish(plan, [Tool("a")], key=lambda tool: tool.name)  # type: ignore[arg-type, return-value]  # no tuple
    asc("id", nulls="middle")  # type: ignore[arg-type]  # no such place
    desc("id", object)  # type: ignore[arg-type]  # no cursor holds it
    apply(statement, plan, "id")  # type: ignore[arg-type]  # a name, not a column


async def snapshot_pages(codec: CursorCodec, binding: Binding) -> None:
    """A source is sync or async; the encoding says what a page holds."""

    def listed() -> Iterable[Tool]:
        return [Tool("a")]

    async def awaited() -> Sequence[Tool]:
        return [Tool("a")]

    async def streamed() -> AsyncIterator[Tool]:
        yield Tool("a")

    async def shown(items: Sequence[Tool]) -> Sequence[bool]:
        return [True for _ in items]

    store: SnapshotStore = MemoryStore()
    tools = ModelItems(Tool)
    paginator = SnapshotPaginator(codec, store, page_size=50, ttl=600, quantum=60)
    assert_type(await paginator.page(None, listed, binding, items=tools), Page[Tool])
    assert_type(await paginator.page("c", awaited, binding, items=tools), Page[Tool])
    assert_type(
        await paginator.page(
            None,
            streamed,
            binding,
            items=tools,
            key=lambda tool: tool.name,
            visible=shown,
            max_pages=64,
            source_version="7",
        ),
        Page[Tool],
    )
    SnapshotPaginator(codec, None)
    SnapshotPaginator(codec, object())  # type: ignore[arg-type]  # no store
    paginator.page(None, [Tool("a")], binding)  # type: ignore[arg-type, unused-coroutine]  # not a callable


def item_encodings() -> None:
    """JSON and MessagePack carry anything, a model its own type."""
    anything: tuple[ItemEncoding[Any], ItemEncoding[Any]] = (JsonItems(), MsgpackItems())
    for encoding in anything:
        assert_type(encoding.name, str)
    tools: ItemEncoding[Tool] = ModelItems(Tool)
    assert_type(tools.decode(b"{}"), Tool)
    assert_type(tools.encode(Tool("a")), bytes)


class OwnStore:
    """A store of a user's own needs two methods and no base class."""

    async def put(
        self, objects: Iterable[StoredObject], *, deadline: int, repair: bool = False
    ) -> None:
        """Keep nothing."""

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        """Have nothing."""
        return [None] * len(digests)


def own_store(codec: CursorCodec) -> None:
    """The paginator takes it."""
    SnapshotPaginator(codec, OwnStore())
