"""The one table of stores: what must hold for every store is tested over each of its rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import pytest

from cursorkit.stores.base import SnapshotStore
from cursorkit.stores.memory import MemoryStore
from cursorkit.testing.clock import FakeClock

Open: TypeAlias = Callable[
    [FakeClock, pytest.FixtureRequest], AbstractAsyncContextManager[SnapshotStore]
]
Damage: TypeAlias = Callable[[SnapshotStore, bytes, bytes | None], Awaitable[None]]


@dataclass(frozen=True)
class StoreRow:
    """A kind of store.

    Attributes:
        name: For the tests' ids.
        open: Gives an empty store, which is closed with its context. The request is the test's, to
            get what fixtures hold: a server, for example.
        damage: As `SharedStoreConformance.damage`, for a store whose objects are kept outside the
            process. Those opened within one test then share them.
        backends: The event loops it runs on.
    """

    name: str
    open: Open
    damage: Damage | None = None
    backends: tuple[str, ...] = ("asyncio", "trio")


@asynccontextmanager
async def _memory(clock: FakeClock, _: pytest.FixtureRequest) -> AsyncGenerator[SnapshotStore]:
    yield MemoryStore(clock=clock)


STORES: Final = (StoreRow("memory", _memory),)
