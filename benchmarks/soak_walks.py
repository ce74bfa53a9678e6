"""The walks of a soak, and what is wrong with a page."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from benchmarks.soak_fleet import PRINCIPALS, Fleet, Item, Node, Version, shows
from cursorkit import Binding, Page, SnapshotLostError, StoreUnavailableError

__all__ = ["Tally", "Violation", "Walk"]

_PATIENCE: Final = 30
"""Seconds after which a page is stuck."""

_TRIES: Final = 100
_PAUSE: Final = 0.1
"""How often, and after how many seconds, a walk asks again while the store is unavailable."""

_LONG: Final = 0.1
"""How likely it is that a walk is of the longest list, which costs as much as all the others."""

_CHANGES: Final = 0.15
_TWICE: Final = 0.08
_BACK: Final = 0.04
"""How likely it is that a list changes before a page, and that a page is asked for twice at once,
or again later."""

_PAGE_BYTES: Final = 60
"""Bytes of a page for each item of its list, where they are bounded: a third to a half of it."""

Answer: TypeAlias = Page[Item] | None
"""A page, or None where there is none this time."""


class Violation(Exception):  # noqa: N818  # the word of its report
    """Something that must not happen.

    Attributes:
        kind: What, in a few words.
        text: What was found, and what was expected.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


@dataclass
class Tally:
    """What happened so far.

    Attributes:
        outcomes: How walks ended.
        answers: How requests for a page ended.
        faults: By kind.
        violations: By kind.
        described: The first violations.
    """

    walks: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    violations: Counter[str] = field(default_factory=Counter[str])
    described: list[str] = field(default_factory=list[str])
    items: int = 0
    changes: int = 0
    listings: int = 0
    late: int = 0

    def blame(self, violation: Violation, where: str) -> None:
        """Count a violation, and keep the text of the first ten."""
        self.violations[violation.kind] += 1
        if len(self.described) < 10:
            self.described.append(f"{where}: {violation}")


class _Lost(Exception):  # noqa: N818
    """The walk was refused, as it had to be."""


class Walk:
    """One walk, page by page, each by a node drawn anew.

    Args:
        fleet: Whose nodes these are.
        number: Of the walk in its run; with the seed it decides every choice.
        seed: Of the run.
        tally: Where it counts.
    """

    def __init__(self, fleet: Fleet, number: int, *, seed: int, tally: Tally) -> None:
        self.number = number
        self.fleet = fleet
        self._tally = tally
        self._draw = draw = random.Random(f"{seed}/{number}")  # noqa: S311  # choices, no secrets
        *shorter, longest = fleet.lists
        self._list = longest if draw.random() < _LONG else draw.choice(shorter)
        self._principal = draw.choice(PRINCIPALS)
        length = len(self._list.now.items)
        self._options: dict[str, Any] = {
            "page_size": draw.randrange(max(2, length // 8), max(4, length)),
            "key": draw.choice((None, _name_of)),
            "max_page_bytes": draw.choice((None, None, 1000 + _PAGE_BYTES * length)),
        }
        self._hides = draw.random() < 0.3
        self._versioned = draw.random() < 0.3
        self._listed = draw.randrange(3)
        self._seen: Version | None = None
        self._begun = time.monotonic()
        self.items: Sequence[Item] = ()
        self.at = 0

    async def run(self) -> None:
        """Walk to the end; raise a `Violation` if anything is wrong."""
        self.fleet.walks.add(self)
        try:
            await self._walk()
            self._tally.outcomes["complete"] += 1
        except _Lost:
            self._tally.outcomes["refused, snapshot lost and list changed"] += 1
        except TimeoutError:
            self._tally.outcomes["given up, store unavailable"] += 1
        finally:
            self.fleet.walks.discard(self)

    async def _walk(self) -> None:
        page = await self._next(None)
        cursors: list[tuple[str, int]] = []
        while True:
            self.at += len(page.items)
            cursor = page.next_cursor
            if cursor is None:
                return
            cursors.append((cursor, self.at))
            if self._draw.random() < _CHANGES:
                self._draw.choice(self.fleet.lists).change(self._draw)
                self._tally.changes += 1
            if self._draw.random() < _BACK:
                await self._ask(*self._draw.choice(cursors))
            page = await self._next(cursor)

    async def _next(self, cursor: str | None) -> Page[Item]:
        """Return the next page, asked for until there is one."""
        for _ in range(_TRIES):
            twice = cursor is not None and self._draw.random() < _TWICE
            asked = [self._ask(cursor, self.at) for _ in range(1 + twice)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for answer in answers:
                if isinstance(answer, Violation):
                    raise answer
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                if answer is not None:
                    return answer
            await asyncio.sleep(_PAUSE)
        raise TimeoutError

    async def _ask(self, cursor: str | None, at: int) -> Answer:
        """Ask a node for a page and check it; return None if it is worth to ask again."""
        node = self._draw.choice(self.fleet.nodes)
        asked = time.monotonic()
        try:
            page = await self._request(cursor, node)
            if page is None:
                self._tally.answers["cancelled"] += 1
                return None
            self._check(page, at)
        except StoreUnavailableError as error:
            self._check_unavailable(error, cursor, node, asked)
            self._tally.answers["store unavailable"] += 1
            return None
        except SnapshotLostError as error:
            if cursor is None or not self._changed(asked) or not self.fleet.losses:
                raise self._violation("refused", "a snapshot that is not lost", at, node) from error
            self._tally.answers["snapshot lost"] += 1
            raise _Lost from error
        except Violation as violation:
            raise self._violation(violation.kind, violation.text, at, node) from None
        except Exception as error:
            name = type(error).__name__
            reason = getattr(error, "reason", error)
            raise self._violation(f"raised {name}", repr(reason), at, node) from error
        self._tally.answers["page"] += 1
        self._tally.items += len(page.items)
        return page

    async def _request(self, cursor: str | None, node: Node) -> Page[Item] | None:
        """Ask for a page; return None if this was cancelled meanwhile, as a fault."""
        task = asyncio.ensure_future(self._page(cursor, node))
        cancels = self.fleet.cancelling
        if cancels:
            for _ in range(self._draw.randrange(1, 8)):
                await asyncio.sleep(self._draw.choice((0, 0, 0.001)))
            task.cancel()
        await asyncio.wait({task}, timeout=_PATIENCE)
        if not task.done():
            task.cancel()
            raise Violation("stuck", f"no page within {_PATIENCE} s")
        if not task.cancelled():
            return task.result()
        if not cancels:
            raise Violation("cancelled", "nobody did")
        self.fleet.cancelling = False
        self.fleet.cancelled.set()
        return None

    async def _page(self, cursor: str | None, node: Node) -> Page[Item]:
        options = dict(self._options)
        if self._hides:
            options["visible"] = self._visible
        if cursor is None and self._versioned:
            options["source_version"] = self._version
        binding = Binding("tools/list", principal=self._principal, audience=self._list.name)
        return await node.paginator.page(
            cursor, self._source(first=cursor is None), binding, **options
        )

    def _version(self) -> str:
        self._seen = self._list.now
        return str(self._seen.number)

    def _visible(self, items: Sequence[Item]) -> list[bool]:
        return [shows(item, self._principal) for item in items]

    def _source(self, *, first: bool) -> Callable[[], Any]:
        """Return what lists, in one of the ways there are; the first listing is what is paged."""

        def listed() -> list[Item]:
            self._tally.listings += 1
            version = self._list.now
            if first:
                self._seen = version
            return list(version.items) if self._hides else version.view(self._principal)

        async def later() -> list[Item]:
            await asyncio.sleep(0.002 * self._draw.random())
            items = listed()
            await asyncio.sleep(0.002 * self._draw.random())
            return items

        async def one_by_one() -> AsyncGenerator[Item]:
            for number, item in enumerate(listed()):
                if number % 50 == 0:
                    await asyncio.sleep(0)
                yield item

        return (listed, later, one_by_one)[self._listed]

    def _changed(self, asked: float) -> bool:
        return self._list.differed(self.items, self._principal, self._begun, asked)

    def _check_unavailable(
        self, error: StoreUnavailableError, cursor: str | None, node: Node, asked: float
    ) -> None:
        if cursor is None:
            problem = "a first page needs no store"
        elif not self._changed(asked):
            problem = "the list is what it was"
        elif not self.fleet.may_be_unavailable(node, asked):
            problem = f"the server is well, {self.fleet.last_trouble()}"
        else:
            return
        text = f"{problem}; {error}, {error.__cause__!r}"
        raise self._violation("unavailable", text, self.at, node) from error

    def _check(self, page: Page[Item], at: int) -> None:
        """Check that a page is the right slice, and the last one exactly at the end."""
        if at == 0:
            assert self._seen is not None
            self.items = self._seen.view(self._principal)
        end = at + len(page.items)
        expected = self.items[at:end]
        if page.items != expected:
            raise Violation(*self._fault_of(page.items, at))
        if page.total != len(self.items):
            raise Violation("wrong total", f"{page.total}, not {len(self.items)}")
        size: int = self._options["page_size"]
        if len(page.items) > size or (self.items and not page.items):
            raise Violation("wrong size", f"{len(page.items)} items; {size} were asked for")
        if (page.next_cursor is None) != (end == len(self.items)):
            kind = "missing items" if page.next_cursor is None else "no end"
            raise Violation(kind, f"ends at {end} of {len(self.items)}")

    def _fault_of(self, items: Sequence[Item], at: int) -> tuple[str, str]:
        """Return the kind of what is wrong with a page's items, and a description."""
        end = at + len(items)
        text = f"{_names(items)}, not {_names(self.items[at:end])}"
        views = [version.view(self._principal) for version in self._list.versions]
        for view in views:
            if items and view != self.items and items in (view[at:end], view[: len(items)]):
                return "silent restart", f"a page of another list: {text}"
        if any(item in self.items[:at] for item in items):
            return "duplicate items", text
        if any(item not in self.items for item in items):
            return "wrong items", text
        missing = [item for item in self.items[at:end] if item not in items]
        return ("missing items" if missing else "wrong order"), text

    def _violation(self, kind: str, text: str, at: int, node: Node) -> Violation:
        unique = self._options["key"] is not None
        options = {
            **self._options,
            "key": unique,
            "visible": self._hides,
            "source_version": self._versioned,
        }
        return Violation(
            kind,
            f"{text}; walk {self.number} of {self._list.name} as {self._principal}, at item {at},"
            f" asked of node {node.number} with {options}",
        )


def _name_of(item: Item) -> str:
    name: str = item["name"]
    return name


def _names(items: Sequence[Item]) -> str:
    shown = [f"{item['name']}.{item['revision']}" for item in items[:6]]
    return f"{len(items)} items {shown}"
