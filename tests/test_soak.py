"""The soak: a short one finds nothing, and with a fault planted in the paginator it finds that."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import soak, soak_walks
from benchmarks.harness import Report
from benchmarks.soak import Settings, run
from benchmarks.soak_faults import faults_of
from benchmarks.soak_fleet import fleets_of
from benchmarks.soak_walks import Tally
from cursorkit import Page, SnapshotLostError, SnapshotPaginator, StoreUnavailableError

SMALL = Settings(walks=150, faults=15, minutes=2, stores=("memory",))


class Swaps(SnapshotPaginator):
    """Gives two items in the wrong order."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        page = await super().page(cursor, *args, **options)
        return Page([*page.items[::-1]], page.next_cursor, page.expires_at, page.total)


class Drops(SnapshotPaginator):
    """Leaves out the first item of each later page."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        page = await super().page(cursor, *args, **options)
        items = [*page.items][cursor is not None :]
        return Page(items, page.next_cursor, page.expires_at, page.total)


class Repeats(SnapshotPaginator):
    """Begins each later page with the last item of the first one that it served."""

    last: Any = None

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        page = await super().page(cursor, *args, **options)
        items = [*page.items]
        if cursor is None:
            self.last = items[-1]
        elif self.last is not None:
            items[0] = self.last
        return Page(items, page.next_cursor, page.expires_at, page.total)


class Restarts(SnapshotPaginator):
    """Begins anew, without a word, where a snapshot is lost."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        try:
            return await super().page(cursor, *args, **options)
        except SnapshotLostError:
            return await super().page(None, *args, **options)


class Ends(SnapshotPaginator):
    """Says of each first page that it is the last."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        page = await super().page(cursor, *args, **options)
        return Page(page.items, None, None, page.total)


class Refuses(SnapshotPaginator):
    """Takes every snapshot for lost."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        if cursor is not None:
            raise SnapshotLostError
        return await super().page(cursor, *args, **options)


class GivesUp(SnapshotPaginator):
    """Takes the store for unavailable."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        if cursor is not None:
            raise StoreUnavailableError("down")
        return await super().page(cursor, *args, **options)


class Breaks(SnapshotPaginator):
    """Has a fault of its own."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        if cursor is not None:
            raise KeyError(cursor)
        return await super().page(cursor, *args, **options)


class Hangs(SnapshotPaginator):
    """Never answers."""

    async def page(self, cursor: str | None, *args: Any, **options: Any) -> Page[Any]:
        await asyncio.Event().wait()
        return await super().page(cursor, *args, **options)


PLANTED: dict[type[SnapshotPaginator], str] = {
    Swaps: "wrong order",
    Drops: "missing items",
    Repeats: "duplicate items",
    Restarts: "silent restart",
    Ends: "missing items",
    Refuses: "refused",
    GivesUp: "unavailable",
    Breaks: "raised KeyError",
    Hangs: "stuck",
}


def test_a_short_soak_finds_nothing() -> None:
    """With every kind of fault on a memory store and on a server, every walk is whole."""
    settings = Settings(120, 40, 3, stores=("memory", "tiered"), servers=("valkey",))
    report, tally = run(settings)
    assert tally.described == []
    assert not tally.violations
    assert all(ratio.met for ratio in report.ratios)
    assert tally.walks.total() >= 120
    assert tally.outcomes["complete"] > 60
    assert tally.walks.keys() == {"memory", "tiered on valkey"}
    assert tally.changes > 0

    async def kinds() -> set[str]:
        async with fleets_of(("memory", "tiered"), ("valkey",), seed=1, make=Swaps) as fleets:
            return {name for fleet in fleets for name in faults_of(fleet)}

    assert tally.faults.keys() == asyncio.run(kinds())
    assert len(tally.faults) == 15


@pytest.mark.parametrize("paginator", PLANTED)
def test_a_planted_fault_is_found(
    paginator: type[SnapshotPaginator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way of being wrong is told by its name, with all that tells which walk it was."""
    monkeypatch.setattr(soak_walks, "_PATIENCE", 1 if paginator is Hangs else 30)
    settings = SMALL
    if paginator is Restarts:
        settings = replace(SMALL, walks=300, faults=150)
    elif paginator is Hangs:
        settings = replace(SMALL, walks=1, faults=0)
    report, tally = run(settings, paginator)
    assert tally.violations[PLANTED[paginator]] > 0
    assert 0 < len(tally.described) <= 10
    assert all(text.startswith("memory: ") and " walk " in text for text in tally.described)
    assert not all(ratio.met for ratio in report.ratios)


def test_the_command_prints_seed_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a violation is a success."""
    arguments = ["--stores=memory", "--walks=150", "--faults=15", "--seed=7"]
    assert soak.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "seed 7" in printed
    assert "violations: silent restart" in printed
    assert soak.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["violations"] == []
    assert found["settings"]["seed"] == 7


def with_swaps(settings: Settings) -> tuple[Report, Tally]:
    """Soak with a fault planted."""
    return run(settings, Swaps)


def test_the_command_fails_where_something_is_wrong_or_nothing_was_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A violation is printed; a run of no time proves nothing."""
    assert soak.main(["--stores=memory", "--minutes=0"]) == 1
    monkeypatch.setattr(soak, "run", with_swaps)
    capsys.readouterr()
    assert soak.main(["--stores=memory", "--walks=150", "--faults=15"]) == 1
    assert "wrong order: " in capsys.readouterr().out
