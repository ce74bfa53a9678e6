"""What a page costs, and what a snapshot takes.

The claim is that a page of a long list costs what a page of a short one does. The pages come from a
memory store, beside `OffsetPaginator` slicing a list that is ready and whose items are not frozen.
What the numbers do not show: making the list, which every page by offset has to pay for where it is
not ready; the network and the protocol around a page; a store shared over the network; garbage
collection, which is off while a page is timed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from benchmarks.descriptors import descriptors
from benchmarks.harness import Measurement, Ratio, Report, in_turns, show
from cursorkit import (
    Binding,
    ExpiringCodec,
    Key,
    KeyRing,
    MemoryStore,
    OffsetPaginator,
    SignedCodec,
    SnapshotPaginator,
)

__all__ = ["main", "run"]

_PAGE: Final = 50
_SAMPLE: Final = 20
"""Pages of each list that are timed, spread over it."""

_PRINCIPALS_LIST: Final = 200
"""Items of the list that many principals share."""

_GOAL: Final = 1.2

_SNAPSHOT: Final = "page from the memory store"
_OFFSET: Final = "page by offset, ready list"

_Item = dict[str, Any]


def _codec() -> ExpiringCodec:
    return ExpiringCodec(SignedCodec(KeyRing(Key(bytes(range(32))))), ttl=600)


def _binding(principal: str = "alice") -> Binding:
    return Binding("tools/list", audience="catalog", principal=principal)


def _snapshot_paginator(store: MemoryStore) -> SnapshotPaginator:
    return SnapshotPaginator(_codec(), store, page_size=_PAGE, max_items=1_000_000)


def _sampled(cursors: Sequence[str]) -> list[str]:
    step = max(len(cursors) // _SAMPLE, 1)
    return [cursors[index * step % len(cursors)] for index in range(_SAMPLE)]


class _List:
    """One list, its snapshot in a memory store, and a sample of its pages' cursors."""

    def __init__(self, items: list[_Item]) -> None:
        self.items = items
        self.store = MemoryStore(max_bytes=len(items) * 4096 + 2**20)
        self._snapshot = _snapshot_paginator(self.store)
        self._offset = OffsetPaginator(_codec(), page_size=_PAGE)
        self._snapshot_cursors: list[str] = []
        self._offset_cursors: list[str] = []

    async def walk(self) -> None:
        """Walk it once in both ways, and keep cursors of pages all over it."""
        cursors: list[str] = []
        page = await self._snapshot.page(None, lambda: self.items, _binding())
        while page.next_cursor is not None:
            cursors.append(page.next_cursor)
            page = await self._snapshot.page(page.next_cursor, _no_source, _binding())
        self._snapshot_cursors = _sampled(cursors)
        cursors = []
        page = self._offset.page(None, self.items, _binding())
        while page.next_cursor is not None:
            cursors.append(page.next_cursor)
            page = self._offset.page(page.next_cursor, self.items, _binding())
        self._offset_cursors = _sampled(cursors)

    async def time_page(self, kind: str, number: int) -> float:
        """Return the seconds that a page of the sample takes."""
        start = time.perf_counter()
        if kind == _SNAPSHOT:
            cursor = self._snapshot_cursors[number]
            await self._snapshot.page(cursor, _no_source, _binding())
        else:
            self._offset.page(self._offset_cursors[number], self.items, _binding())
        return time.perf_counter() - start


def _no_source() -> list[_Item]:
    raise AssertionError("a page after the first one asked for the list")


def _time_first_page(runner: asyncio.Runner, items: list[_Item], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        paginator = _snapshot_paginator(MemoryStore(max_bytes=len(items) * 4096 + 2**20))
        start = time.perf_counter()
        runner.run(paginator.page(None, lambda: items, _binding()))
        best = min(best, time.perf_counter() - start)
    return best


async def _store_for(principals: int, seed: int) -> MemoryStore:
    """Return a store after the first pages of one list by that many principals."""
    items = descriptors(_PRINCIPALS_LIST, seed=seed)
    store = MemoryStore()
    paginator = _snapshot_paginator(store)
    for number in range(principals):
        await paginator.page(None, lambda: items, _binding(f"principal-{number}"))
    return store


def run(*, lengths: Sequence[int], rounds: int, principals: int, seed: int) -> Report:
    """Time pages of lists of these lengths, and weigh what many principals store."""
    items = descriptors(max(lengths), seed=seed)
    sizes = [len(json.dumps(item, separators=(",", ":"))) for item in items[:1000]]
    report = Report(
        f"A page of {_PAGE} items of {sum(sizes) / len(sizes):.0f} bytes",
        {"rounds": rounds, "pages of a list": _SAMPLE, "principals": principals, "seed": seed},
        ["cursorkit", "cryptography", "msgpack"],
    )
    with asyncio.Runner() as runner:
        lists = {length: _List(items[:length]) for length in lengths}
        for each in lists.values():
            runner.run(each.walk())
        _compare(report, runner.run(_best_pages(lists, rounds, seed)), lengths)
        for length, each in lists.items():
            seconds = _time_first_page(runner, each.items, min(rounds, 3))
            report.measurements.append(
                Measurement("first page: list, freeze, store", f"{length:,} items", seconds)
            )
        _weigh(report, runner, principals, seed)
    return report


def _weigh(report: Report, runner: asyncio.Runner, principals: int, seed: int) -> None:
    taken: list[int] = []
    for number in (1, principals):
        store = runner.run(_store_for(number, seed))
        group = f"stored, a list of {_PRINCIPALS_LIST} items"
        name = f"after {number:,} principals' first pages" if number > 1 else "after one first page"
        report.measurements += [
            Measurement(group, name, len(store), "objects"),
            Measurement(group, name, store.bytes_used, "bytes"),
        ]
        taken.append(store.bytes_used)
    ratio = Ratio(f"bytes for {principals:,} principals / for one", taken[1] / taken[0], 1)
    report.ratios.append(ratio)


async def _best_pages(
    lists: dict[int, _List], rounds: int, seed: int
) -> dict[tuple[str, int], float]:
    """Return the mean over the sample of each page's best time, by kind and length."""
    pages = list(product((_SNAPSHOT, _OFFSET), lists, range(_SAMPLE)))
    best = dict.fromkeys(pages, float("inf"))
    gc.disable()
    try:
        for page in in_turns(pages, rounds=rounds, seed=seed):
            kind, length, number = page
            best[page] = min(best[page], await lists[length].time_page(kind, number))
    finally:
        gc.enable()
    means: dict[tuple[str, int], float] = {}
    for (kind, length, _), seconds in best.items():
        means[kind, length] = means.get((kind, length), 0) + seconds / _SAMPLE
    return means


def _compare(report: Report, best: dict[tuple[str, int], float], lengths: Sequence[int]) -> None:
    report.measurements += [
        Measurement(kind, f"{length:,} items", seconds) for (kind, length), seconds in best.items()
    ]
    short, *longer = sorted(lengths)
    for kind, goal in ((_SNAPSHOT, _GOAL), (_OFFSET, None)):
        for length in longer:
            value = best[kind, length] / best[kind, short]
            report.ratios.append(Ratio(f"{kind}: {length:,} items / {short:,}", value, goal))
    long = max(lengths)
    value = best[_SNAPSHOT, long] / best[_OFFSET, long]
    report.ratios.append(Ratio(f"from the memory store / by offset, {long:,} items", value))


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_pages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="the best of these counts")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--principals", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="for the items, and the order")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = parser.parse_args(argv)
    report = run(
        lengths=given.lengths, rounds=given.rounds, principals=given.principals, seed=given.seed
    )
    show([report], as_json=given.json)


if __name__ == "__main__":
    main()
