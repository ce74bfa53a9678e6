"""What the snapshots of a large fleet take, by simulation: ``python -m benchmarks.simulate_fleet``.

When each principal began its latest walk is drawn; from that follows whose views are stored at the
fullest moment. Their objects are counted by the arithmetic of the tree. Where there are more views
than the sample holds, each further one is taken to add what one of the sample's second half added.
The tables are those of `docs/scaling.md`, which says how to read them.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

__all__ = [
    "ITEM_BYTES",
    "Change",
    "Fleet",
    "Held",
    "Objects",
    "changes",
    "deadline_of",
    "fleets",
    "hold",
    "main",
    "stored_bytes",
]

View: TypeAlias = Sequence[int]
"""The items of a list, by number."""

ITEM_BYTES: Final = 1018
"""An item's blob: of 1 kB, as the descriptors of the benchmarks."""

_FAN_OUT: Final = 255
_TTL: Final = 600
_QUANTUM: Final = 60
_GRACE: Final = 120
"""As in cursorkit: the most children of a node; seconds."""

_ROOT_HEAD: Final = 13
"""Bytes of a root beside its digests: kind, item count, name of the encoding, headers."""

_LIST: Final = 1000
_OWN: Final = 20
"""Items of a tenant's own, beside those that all see."""

_LENGTHS: Final = (1000, 10_000, 100_000, 1_000_000)


def stored_bytes(blob: int) -> int:
    """Return what an object of `blob` bytes takes in a server that allocates with jemalloc.

    A value has a header of up to six bytes and is rounded up to the allocator's next size; there
    are four sizes to a power of two. The key, the expiry and the places in tables take about 180.
    """
    value = blob + 6
    step = 1 << max((value - 1).bit_length() - 3, 4)
    return 180 + -(-value // step) * step


def deadline_of(start: float) -> int:
    """Return until when the snapshot of a walk that begins at `start` is kept."""
    expires_at = math.ceil((start + _TTL) / _QUANTUM) * _QUANTUM
    return math.ceil(expires_at / _TTL) * _TTL + _GRACE


class Objects:
    """The distinct objects of all views that were added: items, and nodes with the roots."""

    def __init__(self) -> None:
        self.items: set[int] = set()
        self.bytes = 0
        self._nodes: dict[tuple[int, ...], int] = {}

    @property
    def nodes(self) -> int:
        return len(self._nodes)

    def add(self, view: View) -> None:
        """Add the objects of one view's tree."""
        before = len(self.items)
        self.items.update(view)
        self.bytes += (len(self.items) - before) * stored_bytes(ITEM_BYTES)
        level, height = view, 0
        while len(level) > _FAN_OUT:
            height += 1
            starts = range(0, len(level), _FAN_OUT)
            level = [self._node(height, level[start : start + _FAN_OUT], 1) for start in starts]
        self._node(0, level, _ROOT_HEAD)

    def _node(self, height: int, children: View, head: int) -> int:
        """Return the number of a node, or, at height 0, of a root."""
        known = len(self._nodes)
        number = self._nodes.setdefault((height, *children), known)
        if number == known:
            self.bytes += stored_bytes(head + 32 * len(children))
        return number


@dataclass(frozen=True, slots=True)
class Fleet:
    """Who sees what: principal n sees view n modulo `views`."""

    name: str
    views: int
    view: Callable[[int], View]


def fleets(principals: int, *, tenants: int, seed: int) -> list[Fleet]:
    """Return the fleets of the table."""
    shared = range(_LIST)

    def draw(*number: object) -> random.Random:
        return random.Random(f"{seed} {number}")  # noqa: S311  # sample data

    def without(share: float) -> Callable[[int], View]:
        def view(number: int) -> View:
            chance = draw(share, number).random
            return [item for item in shared if chance() >= share]

        return view

    def own(number: int) -> View:
        return range(_LIST + number * _OWN, _LIST + (number + 1) * _OWN)

    def mixed(number: int) -> View:
        view = list(shared)
        for item in own(number):
            view.insert(int(draw(number, item).random() * len(view)), item)
        return view

    tenant = f"{tenants:,} tenants, each with {_OWN} items of its own"
    return [
        Fleet("all see the same list", 1, lambda _: shared),
        Fleet("20 roles, each without a random 10 %", 20, without(0.1)),
        Fleet("1,000 roles, each without a random 10 %", 1000, without(0.1)),
        Fleet(f"{tenant} in front", tenants, lambda number: [*own(number), *shared]),
        Fleet(f"{tenant} in between", tenants, mixed),
        Fleet("each without a random 2 % of its own", principals, without(0.02)),
    ]


@dataclass(frozen=True, slots=True)
class Held:
    """What a fleet's snapshots take. `one_more`: the bytes that a further view adds; 0 for one."""

    name: str
    views: int
    items: int
    nodes: int
    bytes: int
    one_more: int


def hold(fleet: Fleet, principals: Iterable[int], *, sample: int) -> Held:
    """Count what the views of these principals take."""
    numbers = sorted({principal % fleet.views for principal in principals})
    taken = numbers[:: math.ceil(len(numbers) / sample)]
    objects = Objects()
    half = len(taken) // 2
    for number in taken[:half]:
        objects.add(fleet.view(number))
    first = len(objects.items), objects.nodes, objects.bytes
    for number in taken[half:]:
        objects.add(fleet.view(number))
    whole = len(objects.items), objects.nodes, objects.bytes
    added = [
        (after - before) / (len(taken) - half) for before, after in zip(first, whole, strict=True)
    ]
    missing = len(numbers) - len(taken)
    items, nodes, size = (
        round(count + missing * each) for count, each in zip(whole, added, strict=True)
    )
    return Held(fleet.name, len(numbers), items, nodes, size, round(added[2]) if half else 0)


def _active(principals: int, walks_an_hour: float, seed: int) -> list[int]:
    """Return whose latest walk's snapshot is stored at the fullest moment: just before some end."""
    moment = 1000 * _TTL + _GRACE - 1
    draw = random.Random(seed).expovariate  # noqa: S311  # a simulation
    ages = (draw(walks_an_hour / 3600) for _ in range(principals))
    return [number for number, age in enumerate(ages) if deadline_of(moment - age) > moment]


@dataclass(frozen=True, slots=True)
class Change:
    """What one more item makes a node write: at the end of a list, and in front of it."""

    length: int
    end_nodes: int
    end_bytes: int
    front_nodes: int
    front_bytes: int


def changes(length: int) -> Change:
    """Count what is new after an item was added to a list."""
    after = range(length + 1)
    found: list[int] = []
    for before in (after[:-1], after[1:]):
        objects = Objects()
        objects.add(before)
        old = objects.nodes, objects.bytes
        objects.add(after)
        found += [objects.nodes - old[0], objects.bytes - old[1]]
    return Change(length, *found)


def _size(value: float) -> str:
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _print(held: Sequence[Held], active: int, changed: Sequence[Change]) -> None:
    copy = _LIST * stored_bytes(ITEM_BYTES)
    print(f"At the fullest moment {active:,} principals have a snapshot.")
    print(f"A copy of the list for each would take {_size(active * copy)}.\n")
    print(_row("what principals see", "views", "items", "nodes, roots", "memory", "a view more"))
    print("|---|---:|---:|---:|---:|---:|")
    for each in held:
        counts = [f"{count:,}" for count in (each.views, each.items, each.nodes)]
        more = _size(each.one_more) if each.one_more else "-"
        print(_row(each.name, *counts, _size(each.bytes), more))
    print()
    print(_row("items", "one more at the end: new nodes", "bytes", "in front: new nodes", "bytes"))
    print("|---:|---:|---:|---:|---:|")
    for change in changed:
        end = f"{change.end_nodes:,}", _size(change.end_bytes)
        front = f"{change.front_nodes:,}", _size(change.front_bytes)
        print(_row(f"{change.length:,}", *end, *front))


def main(argv: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulate_fleet", description=__doc__
    )
    parser.add_argument("--principals", type=int, default=1_000_000)
    parser.add_argument("--walks", type=float, default=1.0, help="that each begins in an hour")
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=2000, help="views that are counted, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    given = parser.parse_args(argv)
    active = _active(given.principals, given.walks, given.seed)
    held = [
        hold(fleet, active, sample=given.sample)
        for fleet in fleets(given.principals, tenants=given.tenants, seed=given.seed)
    ]
    changed = [changes(length) for length in _LENGTHS]
    if given.json:
        found = {"held": [asdict(each) for each in held], "active": len(active)}
        print(json.dumps({**found, "changes": [asdict(each) for each in changed]}))
    else:
        _print(held, len(active), changed)


if __name__ == "__main__":
    main()
