"""Offset pages are slices of the list as it is now; no cursor ends or restarts a walk quietly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit.codecs.base import CursorCodec
from cursorkit.codecs.expiring import ExpiringCodec
from cursorkit.codecs.offset import OffsetCodec
from cursorkit.codecs.signed import SignedCodec
from cursorkit.errors import ConfigurationError, ExpiredCursorError, InvalidCursorError
from cursorkit.paginators.offset import OffsetPaginator
from cursorkit.paginators.page import Page
from cursorkit.positions import MAX_INTEGER, Offset, Opaque, SnapshotOffset
from cursorkit.testing.clock import FakeClock
from tests.snapshot_fakes import ALICE, BOB, RING, codec_of, items_of

CODECS: dict[str, CursorCodec] = {
    "unsigned": OffsetCodec(),
    "signed": SignedCodec(RING, clock=FakeClock()),
    "expiring": codec_of(FakeClock()),
}
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


def walk(paginator: OffsetPaginator, sequence: Sequence[Any], **options: Any) -> list[Page[Any]]:
    """Return the pages of a walk."""
    pages = [paginator.page(None, sequence, ALICE, **options)]
    while (cursor := pages[-1].next_cursor) is not None:
        pages.append(paginator.page(cursor, sequence, ALICE, **options))
        assert len(pages) <= len(sequence), "the walk does not end"
    return pages


@every_codec
@given(total=st.integers(0, 40), page_size=st.integers(1, 41))
def test_a_walk_is_the_list(codec: CursorCodec, total: int, page_size: int) -> None:
    """For every length and page size: full pages, then the rest without a cursor, and no more."""
    paginator = OffsetPaginator(codec, page_size=page_size)
    pages = walk(paginator, range(total))
    assert items_of(pages) == list(range(total))
    assert len(pages) == max(1, math.ceil(total / page_size))
    assert all(len(page.items) == page_size for page in pages[:-1])
    assert all(page.total == total for page in pages)
    assert pages[-1] == Page(pages[-1].items, None, None, total)


@every_codec
def test_an_empty_list_is_an_empty_page(codec: CursorCodec) -> None:
    """There is one page, without items and without a cursor."""
    assert OffsetPaginator(codec).page(None, [], ALICE) == Page([], None, None, 0)


@every_codec
def test_an_empty_cursor_is_invalid(codec: CursorCodec) -> None:
    """ "" is a cursor, and never the first page."""
    with pytest.raises(InvalidCursorError):
        OffsetPaginator(codec).page("", range(9), ALICE)


@every_codec
def test_an_offset_past_the_end_is_refused(codec: CursorCodec) -> None:
    """At the end, past it, or of a list that has shrunk: a refusal, not an empty last page."""
    paginator = OffsetPaginator(codec, page_size=4)
    for offset in (8, 9, 2**31, MAX_INTEGER):
        with pytest.raises(InvalidCursorError) as failure:
            paginator.page(codec.encode(Offset(offset), ALICE), range(8), ALICE)
        assert failure.value.reason == "range"
    cursor = paginator.page(None, range(8), ALICE).next_cursor
    for sequence in (range(4), range(0)):
        with pytest.raises(InvalidCursorError):
            paginator.page(cursor, sequence, ALICE)
    assert paginator.page(cursor, range(5), ALICE).items == [4]


@pytest.mark.parametrize("name", ["signed", "expiring"])
@pytest.mark.parametrize(
    "position", [SnapshotOffset(bytes(32), 4, 4), Opaque(b"\x04")], ids=["3", "4"]
)
def test_another_kind_of_position_is_refused(name: str, position: SnapshotOffset | Opaque) -> None:
    """An authentic cursor of another paginator is invalid here."""
    codec = CODECS[name]
    with pytest.raises(InvalidCursorError) as failure:
        OffsetPaginator(codec).page(codec.encode(position, ALICE), range(8), ALICE)
    assert failure.value.reason == "kind"


@every_codec
def test_a_cursor_of_another_list_or_codec_is_refused(codec: CursorCodec) -> None:
    """A cursor for one list is no cursor for another, nor is one that another suite made."""
    paginator = OffsetPaginator(codec, page_size=4)
    cursor = paginator.page(None, range(8), ALICE).next_cursor
    for other in (ALICE.replace(purpose="prompts/list"), ALICE.replace(params={"tag": "new"})):
        with pytest.raises(InvalidCursorError):
            paginator.page(cursor, range(8), other)
    foreign = CODECS["signed"] if isinstance(codec, OffsetCodec) else CODECS["unsigned"]
    with pytest.raises(InvalidCursorError):
        paginator.page(foreign.encode(Offset(4), ALICE), range(8), ALICE)


def test_a_signed_cursor_is_its_principals_alone() -> None:
    """Another principal's cursor is refused by a codec that authenticates."""
    paginator = OffsetPaginator(CODECS["signed"], page_size=4)
    cursor = paginator.page(None, range(8), ALICE).next_cursor
    with pytest.raises(InvalidCursorError):
        paginator.page(cursor, range(8), BOB)


@every_codec
@pytest.mark.parametrize(
    "cursor", [b"", 0, 1, True, [], {}, 1.5, "bogus", "4", "\u0661", "A" * 9999]
)
def test_garbage_is_refused(codec: CursorCodec, cursor: Any) -> None:
    """What is no cursor is never the first page."""
    with pytest.raises(InvalidCursorError):
        OffsetPaginator(codec).page(cursor, range(8), ALICE)


@every_codec
def test_the_page_size_may_be_given_for_each_page(codec: CursorCodec) -> None:
    """A page's own size overrides the paginator's, and the offsets stay right."""
    paginator = OffsetPaginator(codec, page_size=4)
    first = paginator.page(None, range(8), ALICE, page_size=3)
    second = paginator.page(first.next_cursor, range(8), ALICE)
    third = paginator.page(second.next_cursor, range(8), ALICE, page_size=10_000)
    assert [page.items for page in (first, second, third)] == [[0, 1, 2], [3, 4, 5, 6], [7]]
    assert paginator.page(None, range(8), ALICE, page_size=1).items == [0]


def test_a_page_has_50_items_unless_told() -> None:
    """The default of the constructor."""
    assert len(OffsetPaginator(CODECS["signed"]).page(None, range(99), ALICE).items) == 50


@every_codec
@pytest.mark.parametrize(
    "size", [0, -1, -5, 10_001, 2**31 - 1, True, False, 5.0, math.nan, math.inf, "5"]
)
def test_a_page_size_out_of_range_is_refused(codec: CursorCodec, size: Any) -> None:
    """At construction, and for a page with or without a cursor, before anything is sliced."""
    problem = r"^page_size is .*; give an int from 1 to 10000$"
    with pytest.raises(ConfigurationError, match=problem):
        OffsetPaginator(codec, page_size=size)
    paginator = OffsetPaginator(codec, page_size=4)
    cursor = paginator.page(None, range(8), ALICE).next_cursor
    for given_cursor in (None, cursor):
        with pytest.raises(ConfigurationError, match=problem):
            paginator.page(given_cursor, range(8), ALICE, page_size=size)


@every_codec
def test_a_cursor_may_be_used_again(codec: CursorCodec) -> None:
    """Nothing is consumed by reading: the same cursor gives the same page and next cursor."""
    paginator = OffsetPaginator(codec, page_size=4)
    cursor = paginator.page(None, range(12), ALICE).next_cursor
    pages = [paginator.page(cursor, range(12), ALICE) for _ in range(10)]
    assert pages == [pages[0]] * 10


def test_the_expiry_of_a_walk_is_that_of_its_first_cursor() -> None:
    """A continuation copies the expiry it came with; a walk cannot be prolonged page by page."""
    clock = FakeClock(1_800_000_000)
    codec = ExpiringCodec(SignedCodec(RING, clock=clock), ttl=600, clock=clock)
    paginator = OffsetPaginator(codec, page_size=4)
    first = paginator.page(None, range(20), ALICE)
    assert first.expires_at == 1_800_000_600
    clock.advance(300)
    second = paginator.page(first.next_cursor, range(20), ALICE)
    assert second.expires_at == 1_800_000_600
    clock.advance(299.999)
    assert paginator.page(second.next_cursor, range(20), ALICE).expires_at == 1_800_000_600
    clock.advance(0.001)
    with pytest.raises(ExpiredCursorError):
        paginator.page(second.next_cursor, range(20), ALICE)


def test_what_is_no_codec_is_refused() -> None:
    """A key ring in its place is told, and what to give."""
    ring: Any = RING
    with pytest.raises(ConfigurationError) as failure:
        OffsetPaginator(ring)
    assert str(failure.value) == (
        "OffsetPaginator was given KeyRing; give it a codec: SignedCodec(ring)"
    )


def test_the_list_is_live() -> None:
    """As documented: an item inserted before the offset repeats one, an item removed skips one."""
    paginator = OffsetPaginator(CODECS["signed"], page_size=2)
    cursor = paginator.page(None, list("abcd"), ALICE).next_cursor
    assert paginator.page(cursor, list("xabcd"), ALICE).items == ["b", "c"]
    assert paginator.page(cursor, list("bcd"), ALICE).items == ["d"]


def test_a_page_is_a_list_of_its_own() -> None:
    """Changing the items of a page changes nothing of the sequence."""
    sequence = [1, 2, 3]
    OffsetPaginator(CODECS["signed"]).page(None, sequence, ALICE).items.clear()
    assert sequence == [1, 2, 3]


def test_a_page_may_be_made_with_its_items_type() -> None:
    """`Page[int](...)` is a page, on every version of Python."""
    assert Page[int]([1]) == Page([1])
