"""Walks from the client's side, over fakes that misbehave and over cursorkit's own pages."""

from __future__ import annotations

import math
import pickle
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import pytest

from cursorkit import (
    Binding,
    ConfigurationError,
    ExpiredCursorError,
    InvalidCursorError,
    Key,
    KeyRing,
    Page,
    SignedCodec,
    SnapshotLostError,
    SnapshotPaginator,
    SourceError,
    WalkError,
)
from cursorkit.walk import Budget, PageLike, all_items, json_size, pages

Answer = Page[int] | Exception


class Script:
    """A server whose answer to each cursor is written down; it records what it is asked."""

    def __init__(self, answers: Mapping[str | None, Answer]) -> None:
        self.answers = answers
        self.asked: list[str | None] = []

    async def fetch(self, cursor: str | None) -> Page[int]:
        self.asked.append(cursor)
        answer = self.answers[cursor]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Forgetful:
    """A server of six items, two a page, whose first walks lose their second cursor.

    Args:
        losses: How many walks are lost.
        names: Gives the cursor of a walk and an offset.
    """

    def __init__(self, losses: int, names: Callable[[int, int], str]) -> None:
        self.losses = losses
        self.names = names
        self.walks = 0
        self.asked: list[str | None] = []

    async def fetch(self, cursor: str | None) -> Page[int]:
        self.asked.append(cursor)
        if cursor is None:
            self.walks += 1
            offset = 0
        else:
            offsets = {self.names(self.walks, offset): offset for offset in (2, 4)}
            offset = offsets[cursor]
        if offset == 4 and self.walks <= self.losses:
            raise ExpiredCursorError
        items = [100 * self.walks + item for item in range(offset, offset + 2)]
        return Page(items, None if offset == 4 else self.names(self.walks, offset + 2))


def of_the_walk(walk: int, offset: int) -> str:
    return f"{walk}:{offset}"


def always_the_same(walk: int, offset: int) -> str:
    del walk
    return str(offset)


def endless(asked: list[str | None]) -> Callable[[str | None], Any]:
    async def fetch(cursor: str | None) -> Page[int]:
        asked.append(cursor)
        return Page([len(asked)], f"fresh-{len(asked)}")

    return fetch


async def slices(cursor: str | None, total: int, page_size: int) -> Page[int]:
    start = 0 if cursor is None else int(cursor)
    end = start + page_size
    return Page(list(range(start, min(end, total))), str(end) if end < total else None)


async def collect(walk: AsyncIterator[Page[int]], into: list[int]) -> None:
    async for page in walk:
        into += page.items


def reason_of(info: pytest.ExceptionInfo[WalkError]) -> str:
    return info.value.reason


@pytest.mark.both_backends
@pytest.mark.anyio
@pytest.mark.parametrize("total", [0, 1, 6, 7])
@pytest.mark.parametrize("page_size", [1, 2, 3, 6, 7, 8])
async def test_a_walk_is_the_whole_list(total: int, page_size: int) -> None:
    """At every page size the walk gives each item once, in order, in as many requests as pages."""
    asked: list[str | None] = []

    async def fetch(cursor: str | None) -> Page[int]:
        asked.append(cursor)
        return await slices(cursor, total, page_size)

    assert await all_items(fetch) == list(range(total))
    assert len(asked) == max(1, math.ceil(total / page_size))
    assert [len(page.items) async for page in pages(fetch)] == [
        len(range(start, min(start + page_size, total)))
        for start in range(0, max(total, 1), page_size)
    ]


@pytest.mark.anyio
async def test_a_page_is_anything_of_the_shape() -> None:
    """Whatever has `items` and `next_cursor` is a page, and `pages` gives it out as it came."""

    class Row:
        items = ("a", "b")
        next_cursor = None

    row = Row()

    async def fetch(cursor: str | None) -> PageLike[str]:
        assert cursor is None
        return row

    assert [page async for page in pages(fetch)] == [row]
    assert await all_items(fetch) == ["a", "b"]


@pytest.mark.anyio
async def test_an_empty_string_is_a_cursor() -> None:
    """ "" is sent to the server like any cursor; only an absent cursor ends the walk."""
    server = Script({None: Page([1], ""), "": Page([2], "x"), "x": Page([3])})
    assert await all_items(server.fetch) == [1, 2, 3]
    assert server.asked == [None, "", "x"]


@pytest.mark.anyio
async def test_an_empty_page_is_not_the_end() -> None:
    """The walk goes on after empty pages that carry a cursor, the first and the last page too."""
    server = Script({None: Page([], "a"), "a": Page([1], "b"), "b": Page([], "c"), "c": Page([])})
    assert await all_items(server.fetch) == [1]
    assert server.asked == [None, "a", "b", "c"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answers", "delivered"),
    [
        ({None: Page([1], "a"), "a": Page([1], "a")}, [1]),
        ({None: Page([1], ""), "": Page([1], "")}, [1]),
        ({None: Page([1], "a"), "a": Page([2], "b"), "b": Page([1], "a")}, [1, 2]),
    ],
    ids=["the first page again", "the first page again, empty cursor", "a circle"],
)
async def test_a_repeated_cursor_raises_before_items_come_twice(
    answers: dict[str | None, Answer], delivered: list[int]
) -> None:
    """A server that repeats a cursor gives a typed error, and no item twice."""
    seen: list[int] = []
    with pytest.raises(WalkError) as streamed:
        await collect(pages(Script(answers).fetch), seen)
    assert reason_of(streamed) == "repeated"
    assert seen == delivered
    server = Script(answers)
    with pytest.raises(WalkError) as buffered:
        await all_items(server.fetch)
    assert reason_of(buffered) == "repeated"
    assert len(server.asked) == len(answers)


@pytest.mark.anyio
async def test_cursors_that_never_end_are_ended_by_the_page_budget() -> None:
    """Fresh cursors without end raise after `max_pages` requests, with and without a setting."""
    asked: list[str | None] = []
    with pytest.raises(WalkError) as caught:
        await all_items(endless(asked), budget=Budget(max_pages=7))
    assert reason_of(caught) == "pages"
    assert len(asked) == 7
    asked.clear()
    with pytest.raises(WalkError):
        await all_items(endless(asked))
    assert len(asked) == 1_000


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [1, 3, 64, 100])
async def test_exactly_max_pages_pages_succeed(limit: int) -> None:
    """A list of `max_pages` pages is walked whole; one page more raises."""
    budget = Budget(max_pages=limit)
    walked = await all_items(lambda cursor: slices(cursor, 2 * limit, 2), budget=budget)
    assert walked == list(range(2 * limit))
    with pytest.raises(WalkError) as caught:
        await all_items(lambda cursor: slices(cursor, 2 * limit + 1, 2), budget=budget)
    assert reason_of(caught) == "pages"
    assert f"max_pages={limit}" in str(caught.value)


@pytest.mark.anyio
async def test_exactly_max_items_items_succeed() -> None:
    """A list of `max_items` items is walked whole; with one more, its page is not delivered."""
    budget = Budget(max_items=6)
    assert len(await all_items(lambda cursor: slices(cursor, 6, 2), budget=budget)) == 6
    seen: list[int] = []
    with pytest.raises(WalkError) as caught:
        await collect(pages(lambda cursor: slices(cursor, 7, 2), budget=budget), seen)
    assert reason_of(caught) == "items"
    assert seen == list(range(6))


@pytest.mark.anyio
async def test_exactly_max_bytes_bytes_succeed() -> None:
    """Items that take `max_bytes` together are walked whole; one byte less raises."""

    async def fetch(cursor: str | None) -> Page[str]:
        return Page(["é"], None) if cursor else Page(["abc"], "x")

    size = len('"abc"') + len('"é"'.encode())
    assert await all_items(fetch, budget=Budget(max_bytes=size)) == ["abc", "é"]
    with pytest.raises(WalkError) as caught:
        await all_items(fetch, budget=Budget(max_bytes=size - 1))
    assert reason_of(caught) == "bytes"


@pytest.mark.anyio
async def test_bytes_are_counted_as_the_caller_says() -> None:
    """`size` replaces the JSON count, and is not asked without a byte budget."""

    async def fetch(cursor: str | None) -> Page[bytes]:
        assert cursor is None
        return Page([b"12", b"345"])

    assert await all_items(fetch, budget=Budget(max_bytes=5), size=len) == [b"12", b"345"]
    with pytest.raises(WalkError):
        await all_items(fetch, budget=Budget(max_bytes=4), size=len)
    assert await all_items(fetch) == [b"12", b"345"]
    with pytest.raises(SourceError):
        await all_items(fetch, budget=Budget(max_bytes=5))


def test_json_size_is_the_compact_size() -> None:
    """An item's bytes are those of its compact JSON in UTF-8."""
    assert json_size({"a": [1, "é"]}) == len('{"a":[1,"é"]}'.encode())


@pytest.mark.anyio
async def test_a_walk_that_lost_its_cursor_starts_again() -> None:
    """A refused cursor drops what was fetched and restarts; the dead cursor is sent once only."""
    server = Forgetful(1, of_the_walk)
    assert await all_items(server.fetch) == [200, 201, 202, 203, 204, 205]
    assert server.asked == [None, "1:2", "1:4", None, "2:2", "2:4"]


@pytest.mark.anyio
@pytest.mark.parametrize("max_restarts", [0, 1, 2, 5])
async def test_restarts_are_bounded(max_restarts: int) -> None:
    """A server that always forgets is walked `max_restarts` times more, then there is an error."""
    server = Forgetful(100, of_the_walk)
    with pytest.raises(WalkError) as caught:
        await all_items(server.fetch, max_restarts=max_restarts)
    assert reason_of(caught) == "restarts"
    assert isinstance(caught.value.__cause__, ExpiredCursorError)
    assert server.walks == max_restarts + 1
    assert len(set(server.asked)) == len([each for each in server.asked if each]) + 1


@pytest.mark.anyio
async def test_a_dead_cursor_is_never_sent_again() -> None:
    """Where the new walk comes to a cursor that was refused, it raises without sending it."""
    server = Forgetful(1, always_the_same)
    with pytest.raises(WalkError) as caught:
        await all_items(server.fetch)
    assert reason_of(caught) == "dead"
    assert server.asked == [None, "2", "4", None, "2"]


@pytest.mark.anyio
async def test_a_restart_passes_by_the_response_cache() -> None:
    """The first walk may use a cached first page; a restart takes its first page anew."""
    server = Forgetful(1, of_the_walk)
    cached = await server.fetch(None)
    first = {None: cached}

    async def fetch(cursor: str | None) -> Page[int]:
        return first[cursor] if cursor in first else await server.fetch(cursor)

    walked = await all_items(fetch, fetch_anew=lambda: server.fetch(None))
    assert walked == [200, 201, 202, 203, 204, 205]
    stale = Script({None: Page([1], "old"), "old": SnapshotLostError()})
    with pytest.raises(WalkError) as caught:
        await all_items(stale.fetch)
    assert reason_of(caught) == "dead"
    assert stale.asked == [None, "old", None]


@pytest.mark.anyio
async def test_a_refused_first_page_is_not_repeated() -> None:
    """An error of the first page passes through as it is: there is no cursor to blame."""
    refusal = InvalidCursorError("binding")
    server = Script({None: refusal})
    with pytest.raises(InvalidCursorError) as caught:
        await all_items(server.fetch)
    assert caught.value is refusal
    assert server.asked == [None]


@pytest.mark.both_backends
@pytest.mark.anyio
@pytest.mark.parametrize("error", [OSError("down"), TimeoutError("slow"), KeyError("x")])
async def test_any_other_error_passes_through(error: Exception) -> None:
    """What is no refusal is not retried, renamed or wrapped, a timeout of the transport neither."""
    server = Script({None: Page([1], "a"), "a": error})
    with pytest.raises(type(error)) as caught:
        await all_items(server.fetch, budget=Budget(max_seconds=60))
    assert caught.value is error
    assert server.asked == [None, "a"]


@pytest.mark.anyio
async def test_the_caller_says_what_a_refusal_is() -> None:
    """`is_invalid_cursor` decides on errors of later pages, so a fetch may raise what it likes."""
    gone = Script({None: Page([1], "a"), "a": LookupError("gone")})
    walked = await all_items(
        gone.fetch,
        fetch_anew=lambda: slices(None, 2, 2),
        is_invalid_cursor=lambda error: isinstance(error, LookupError),
    )
    assert walked == [0, 1]
    assert gone.asked == [None, "a"]
    gone.answers = {None: Page([1], "a"), "a": InvalidCursorError("tag")}
    with pytest.raises(InvalidCursorError):
        await all_items(gone.fetch, is_invalid_cursor=lambda error: False)


@pytest.mark.anyio
async def test_pages_passes_a_refusal_through() -> None:
    """A stream cannot take back what it gave, so it restarts nothing."""
    server = Forgetful(1, of_the_walk)
    seen: list[int] = []
    with pytest.raises(ExpiredCursorError):
        await collect(pages(server.fetch), seen)
    assert seen == [100, 101, 102, 103]


@pytest.mark.anyio
async def test_a_stream_can_be_asked_again_after_an_error() -> None:
    """After an error of the fetch the next step asks for the same page, and skips none."""
    down = [True]

    async def fetch(cursor: str | None) -> Page[int]:
        if cursor == "2" and down.pop():
            down.append(False)
            raise OSError("down")
        return await slices(cursor, 6, 2)

    walk = pages(fetch)
    assert (await anext(walk)).items == [0, 1]
    with pytest.raises(OSError, match="down"):
        await anext(walk)
    assert [page.items async for page in walk] == [[2, 3], [4, 5]]
    with pytest.raises(StopAsyncIteration):
        await anext(walk)


@pytest.mark.both_backends
@pytest.mark.anyio
async def test_a_fetch_that_hangs_is_cancelled() -> None:
    """A page that does not come is given up at `max_seconds`, in a stream as in a whole walk."""
    now = [0.0]

    async def fetch(cursor: str | None) -> Page[int]:
        if cursor is not None:
            await anyio.sleep_forever()
        now[0] += 59.99
        return Page([1], "a")

    budget = Budget(max_seconds=60)
    with pytest.raises(WalkError) as caught:
        await all_items(fetch, budget=budget, clock=lambda: now[0])
    assert reason_of(caught) == "seconds"
    walk = pages(fetch, budget=budget, clock=lambda: now[0])
    assert (await anext(walk)).items == [1]
    with pytest.raises(WalkError) as streamed:
        await anext(walk)
    assert reason_of(streamed) == "seconds"


@pytest.mark.anyio
@pytest.mark.parametrize(("limit", "whole"), [(4, True), (3.99, False)])
async def test_exactly_max_seconds_succeed(limit: float, whole: bool) -> None:
    """A walk that takes just `max_seconds` succeeds; a page that comes later is not delivered."""
    now = [1000.0]

    async def fetch(cursor: str | None) -> Page[int]:
        now[0] += 2
        return await slices(cursor, 4, 2)

    async def walk() -> list[int]:
        budget = Budget(max_seconds=limit)
        return await all_items(fetch, budget=budget, clock=lambda: now[0])

    if whole:
        assert await walk() == [0, 1, 2, 3]
    else:
        with pytest.raises(WalkError) as caught:
            await walk()
        assert reason_of(caught) == "seconds"


@pytest.mark.anyio
async def test_the_time_is_for_all_restarts_together() -> None:
    """Restarts do not turn the watch back, while pages and items are counted anew."""
    now = [0.0]
    server = Forgetful(1, of_the_walk)

    async def fetch(cursor: str | None) -> Page[int]:
        now[0] += 1
        return await server.fetch(cursor)

    enough = Budget(max_pages=3, max_items=6, max_seconds=6)
    assert len(await all_items(fetch, budget=enough, clock=lambda: now[0])) == 6
    server.walks = 0
    too_little = Budget(max_seconds=5)
    with pytest.raises(WalkError) as caught:
        await all_items(fetch, budget=too_little, clock=lambda: now[0])
    assert reason_of(caught) == "seconds"


@pytest.mark.anyio
async def test_the_caller_takes_time_of_a_stream_too() -> None:
    """Where the caller has used up the time between two pages, no further page is asked for."""
    now = [0.0]
    server = Script({None: Page([1], "a"), "a": Page([2])})
    walk = pages(server.fetch, budget=Budget(max_seconds=10), clock=lambda: now[0])
    await anext(walk)
    now[0] = 10
    with pytest.raises(WalkError):
        await anext(walk)
    assert server.asked == [None]


@pytest.mark.both_backends
@pytest.mark.anyio
async def test_the_callers_own_cancellation_is_left_alone() -> None:
    """A walk that is cancelled from outside is cancelled, and says nothing of its budget."""

    async def fetch(cursor: str | None) -> Page[int]:
        del cursor
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        raise AssertionError

    with anyio.CancelScope() as scope:
        await all_items(fetch, budget=Budget(max_seconds=60))
    assert scope.cancelled_caught


@pytest.mark.parametrize("field", ["max_pages", "max_items", "max_bytes"])
@pytest.mark.parametrize("value", [0, -1, True, 1.0, math.inf, "1"])
def test_a_count_that_cannot_work_is_refused(field: str, value: Any) -> None:
    """Counts are ints of at least 1; the message names the field."""
    with pytest.raises(ConfigurationError, match=field):
        Budget(**{field: value})


@pytest.mark.parametrize("value", [0, -1, True, math.nan, math.inf, "1"])
def test_a_time_that_cannot_work_is_refused(value: Any) -> None:
    """Seconds are finite and above 0."""
    with pytest.raises(ConfigurationError, match="max_seconds"):
        Budget(max_seconds=value)


@pytest.mark.anyio
@pytest.mark.parametrize("value", [-1, 101, True, 1.0])
async def test_restarts_that_cannot_work_are_refused(value: Any) -> None:
    """`max_restarts` is an int from 0 to 100, and nothing is fetched otherwise."""
    server = Script({})
    with pytest.raises(ConfigurationError, match="max_restarts"):
        await all_items(server.fetch, max_restarts=value)
    assert server.asked == []


def test_a_walk_error_survives_pickling() -> None:
    """The error can go to another process with its reason."""
    error = pickle.loads(pickle.dumps(WalkError("told", "pages")))  # noqa: S301
    assert isinstance(error, WalkError)
    assert (str(error), error.reason) == ("told", "pages")


@pytest.mark.both_backends
@pytest.mark.anyio
async def test_a_walk_of_a_changed_list_is_one_of_its_states() -> None:
    """Over a storeless paginator: a list changed half way is walked again, and never mixed."""
    paginator = SnapshotPaginator(SignedCodec(KeyRing(Key.generate())), None, page_size=2)
    binding = Binding("things")
    items = ["a", "b", "c", "d", "e"]
    changes = [["a", "x", "y", "d", "e"]]
    asked: list[str | None] = []

    async def fetch(cursor: str | None) -> Page[str]:
        asked.append(cursor)
        page = await paginator.page(cursor, lambda: items, binding)
        if cursor is None and changes:
            items[:] = changes.pop()
        return page

    assert await all_items(fetch) == ["a", "x", "y", "d", "e"]
    assert len(asked) == 5
    assert asked.count(asked[1]) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("cursor", [5, ["x"], {}, False, b"x"], ids=repr)
async def test_a_cursor_that_is_no_text_is_an_error(cursor: Any) -> None:
    """A page of another shape is told, and never followed."""

    async def fetch(given: str | None) -> Any:
        return Page([1], cursor)

    with pytest.raises(WalkError) as caught:
        await all_items(fetch)
    assert caught.value.reason == "page"
