"""One codec mints, several read; a fleet changes its suite without refusing a cursor."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from cursorkit import (
    Binding,
    ConfigurationError,
    CursorCodec,
    DecodedCursor,
    ExpiredCursorError,
    ExpiringCodec,
    FallbackCodec,
    InvalidCursorError,
    KeysetPaginator,
    Offset,
    OffsetCodec,
    Opaque,
    SealedCodec,
    SignedCodec,
    asc,
)
from cursorkit.positions import Position
from cursorkit.testing import FakeClock
from tests.codecs_table import RING

BINDING = Binding("tools/list", principal="alice")
SIGNED = SignedCodec(RING, clock=FakeClock())
SEALED = SealedCodec(RING, clock=FakeClock())
BOTH = FallbackCodec(SEALED, SIGNED)


class Wrapper:
    """A codec of a user's own around another, which may or may not tell the truth about it."""

    max_ttl: float | None = None

    def __init__(self, inner: CursorCodec, suites: Any = None, authenticates: bool = True) -> None:
        self.inner = inner
        self.authenticates = authenticates
        if suites is not None:
            self.suites = suites

    def encode(self, position: Position, binding: Binding, *, expires_at: int | None = None) -> str:
        return self.inner.encode(position, binding, expires_at=expires_at)

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        return self.inner.decode(cursor, binding, now=now)


def test_it_mints_with_the_first_and_reads_the_others() -> None:
    """What it mints is the primary's cursor; it reads that of each codec that it was given."""
    assert BOTH.encode(Offset(50), BINDING) == SEALED.encode(Offset(50), BINDING)
    for codec in (SEALED, SIGNED, BOTH):
        assert BOTH.decode(codec.encode(Offset(50), BINDING), BINDING).position == Offset(50)


def test_a_suite_that_it_was_not_given_is_refused() -> None:
    """With signed cursors no longer accepted they are invalid, as are unsigned ones always."""
    sealed = FallbackCodec(SEALED)
    for codec in (SIGNED, OffsetCodec()):
        with pytest.raises(InvalidCursorError) as caught:
            sealed.decode(codec.encode(Offset(50), BINDING), BINDING)
        assert caught.value.reason == "suite"


def test_the_length_limit_is_that_of_the_codec_that_reads() -> None:
    """A cursor that its codec carries is read, however long; only its start is looked at before."""
    long = SignedCodec(RING, max_length=100_000)
    cursor = long.encode(Opaque(bytes(50_000)), BINDING)
    assert FallbackCodec(SEALED, long).decode(cursor, BINDING).position == Opaque(bytes(50_000))


def test_the_expiry_and_now_are_those_of_the_codec_that_reads() -> None:
    """`expires_at` comes through, and `now` is handed on."""
    cursor = SIGNED.encode(Offset(50), BINDING, expires_at=100)
    assert BOTH.decode(cursor, BINDING, now=99).expires_at == 100
    with pytest.raises(ExpiredCursorError):
        BOTH.decode(cursor, BINDING, now=100)
    assert BOTH.encode(Offset(50), BINDING, expires_at=100) == SEALED.encode(
        Offset(50), BINDING, expires_at=100
    )


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (None, "type"),
        (b"EQAA", "type"),
        ([], "type"),
        ("", "encoding"),
        ("E", "encoding"),
        ("ERER", "encoding"),
        ("EhIS", "encoding"),
        ("=", "alphabet"),
        ("Eh=S", "alphabet"),
        ("\u0661" * 50, "alphabet"),
        ("A" * 50, "suite"),
        ("E" * 48, "suite"),  # 0x10
        ("A" * 1_000_000, "length"),
        ("EhIS" * 20, "key"),
        ("ERER" * 20, "key"),
    ],
)
def test_a_refusal_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, cursor: Any, reason: str
) -> None:
    """One codec refuses, with its reason: no trial of each, and no line for each."""
    with pytest.raises(InvalidCursorError) as caught:
        BOTH.decode(cursor, BINDING)
    assert caught.value.reason == reason
    assert caught.value.__context__ is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"reason={reason} " in record.getMessage()


def test_a_cursor_is_read_under_the_key_of_its_own_suite() -> None:
    """A signed cursor with the sealed suite's byte, and the other way round, is a bad tag."""
    for codec, other in ((SIGNED, "Eh"), (SEALED, "ER")):
        cursor = codec.encode(Offset(50), BINDING)
        moved = other + cursor[2:]
        assert moved != cursor
        with pytest.raises(InvalidCursorError) as caught:
            BOTH.decode(moved, BINDING)
        assert caught.value.reason in {"tag", "key"}


@pytest.mark.parametrize(
    ("codecs", "name"),
    [
        ((OffsetCodec(),), "OffsetCodec"),
        ((SIGNED, OffsetCodec()), "OffsetCodec"),
        ((OffsetCodec(), SIGNED), "OffsetCodec"),
        ((SEALED, Wrapper(SIGNED, frozenset({0x11}), authenticates=False)), "Wrapper"),
        ((SEALED, Wrapper(OffsetCodec(), frozenset({0x01}))), "Wrapper"),
        ((SEALED, Wrapper(SIGNED, frozenset({0x01, 0x11}))), "Wrapper"),
        ((SEALED, Wrapper(SIGNED, frozenset(range(256)))), "Wrapper"),
        (
            (SEALED, ExpiringCodec(Wrapper(OffsetCodec(), frozenset({0x01})), ttl=1)),
            "ExpiringCodec",
        ),
    ],
)
def test_an_unsigned_codec_is_refused_wherever_it_is(
    codecs: tuple[CursorCodec, ...], name: str
) -> None:
    """One that does not authenticate, or reads unsigned cursors behind a wrapper, is not let in."""
    with pytest.raises(ConfigurationError) as caught:
        FallbackCodec(*codecs)
    assert str(caught.value) == (
        f"FallbackCodec was given {name}, whose cursors anyone can make: whoever is refused by one"
        " codec would come in by the other; give it SignedCodec or SealedCodec"
    )


@pytest.mark.parametrize(
    ("codecs", "name"),
    [
        ((SIGNED, SIGNED), "SignedCodec"),
        ((SIGNED, SealedCodec(RING), SignedCodec(RING)), "SignedCodec"),
        ((BOTH, SIGNED), "SignedCodec"),
        ((SIGNED, FallbackCodec(SEALED, Wrapper(SIGNED, frozenset({0x11})))), "FallbackCodec"),
    ],
)
def test_two_codecs_for_one_suite_are_refused(codecs: tuple[CursorCodec, ...], name: str) -> None:
    """Which of them would read is no question of order, so there is one; nested ones count."""
    with pytest.raises(ConfigurationError) as caught:
        FallbackCodec(*codecs)
    assert str(caught.value) == (
        f"{name} reads a suite that an earlier codec reads; to read the cursors of several keys,"
        " give one codec a KeyRing with all of them"
    )


NO_SUITES: tuple[object, ...] = (
    None,
    frozenset[int](),
    frozenset({b"\x12"}),
    frozenset({256}),
    {0x12},
    0x12,
)


@pytest.mark.parametrize("suites", NO_SUITES, ids=repr)
def test_a_codec_that_does_not_say_its_suites_is_refused(suites: Any) -> None:
    """A codec of one's own needs `suites` here, and nowhere else; what it lacks is said."""
    own = Wrapper(SEALED, suites)
    assert KeysetPaginator(own, (asc("id"),))
    for codec in (own, ExpiringCodec(own, ttl=600)):
        assert codec.decode(SEALED.encode(Offset(1), BINDING, expires_at=100), BINDING, now=0)
        with pytest.raises(ConfigurationError) as caught:
            FallbackCodec(codec)
        assert str(caught.value) == (
            f"{type(codec).__name__} does not say what suites it reads; give it, or the codec"
            " within, an attribute `suites`: a frozenset of its cursors' first bytes, as ints"
        )


def test_a_codec_of_ones_own_takes_part() -> None:
    """With `suites` it reads what its suite says."""
    own = FallbackCodec(SIGNED, Wrapper(SEALED, frozenset({0x12})))
    assert own.decode(SEALED.encode(Offset(7), BINDING), BINDING).position == Offset(7)


def test_a_fallback_codec_is_a_codec_among_others() -> None:
    """It authenticates, says its suites, and fits into others and into `ExpiringCodec`."""
    assert BOTH.authenticates
    assert BOTH.suites == {0x11, 0x12}
    for codec in (FallbackCodec(BOTH), ExpiringCodec(BOTH, ttl=600, clock=FakeClock())):
        assert codec.suites == {0x11, 0x12}
        cursor = codec.encode(Offset(50), BINDING)
        assert codec.decode(cursor, BINDING).position == Offset(50)
        assert BOTH.decode(cursor, BINDING).position == Offset(50)


def expiring(codec: CursorCodec, ttl: float = 600) -> CursorCodec:
    """Return a codec that stamps."""
    return ExpiringCodec(codec, ttl=ttl, clock=FakeClock())


def test_its_max_ttl_is_what_all_its_codecs_have() -> None:
    """A walk begun under one codec goes on under the other, with the expiry that it began with."""
    assert BOTH.max_ttl is None
    both = FallbackCodec(expiring(SEALED), expiring(SIGNED))
    assert both.max_ttl == 600
    decoded = both.decode(expiring(SIGNED).encode(Offset(1), BINDING), BINDING)
    again = both.encode(Offset(2), BINDING, expires_at=decoded.expires_at)
    assert both.decode(again, BINDING).expires_at == decoded.expires_at


@pytest.mark.parametrize("codecs", list(itertools.permutations((0, 300, 600), 2)))
def test_different_lives_are_refused(codecs: tuple[int, int]) -> None:
    """A cursor of the longer life could not be continued by the codec of the shorter one."""
    first, second = (
        expiring(codec, ttl) if ttl else codec
        for codec, ttl in zip((SIGNED, SEALED), codecs, strict=True)
    )
    with pytest.raises(ConfigurationError) as caught:
        FallbackCodec(first, second)
    shown = ", ".join(sorted(f"{ttl} s" if ttl else "none" for ttl in codecs))
    assert str(caught.value) == (
        f"the codecs of a FallbackCodec have different max_ttl: {shown}; put one ExpiringCodec"
        " around the FallbackCodec and none inside"
    )


# A fleet that moves.

STAGES: tuple[Callable[[CursorCodec, CursorCodec], CursorCodec], ...] = (
    lambda old, new: old,
    FallbackCodec,
    lambda old, new: FallbackCodec(new, old),
    lambda old, new: new,
)
"""What each node runs; a stage begins when the last one is on every node."""


@pytest.mark.parametrize("codecs", [(SIGNED, SEALED), (SEALED, SIGNED)])
def test_a_fleet_moves_from_one_suite_to_the_other_without_refusing_a_cursor(
    codecs: tuple[CursorCodec, CursorCodec],
) -> None:
    """Node by node through the four stages, and back: each node serves each walk to its end."""
    nodes = [KeysetPaginator(STAGES[0](*codecs), (asc("n", int),), page_size=2) for _ in range(3)]
    waiting: list[str] = []
    for stage in (1, 2, 3, 2, 1, 0):
        if stage in {0, 3}:  # the walks under way come to their end before a suite is given up
            waiting.clear()
        moved = KeysetPaginator(STAGES[stage](*codecs), (asc("n", int),), page_size=2)
        for number in range(3):
            waiting += [first for node in nodes if (first := page(node, None)[1]) is not None]
            nodes[number] = moved
            for cursor in waiting:
                for node in nodes:
                    assert rest(node, nodes, cursor) == [2, 3, 4, 5, 6]


def test_a_stage_left_out_refuses_cursors() -> None:
    """Without the first step a node that has not moved yet refuses what one that has minted."""
    moved = FallbackCodec(SEALED, SIGNED)
    with pytest.raises(InvalidCursorError):
        SIGNED.decode(moved.encode(Offset(1), BINDING), BINDING)


def page(node: KeysetPaginator, cursor: str | None) -> tuple[list[int], str | None]:
    """Return a page of the numbers to 6."""
    plan = node.plan(cursor, BINDING)
    start = 0 if plan.after is None else int(str(plan.after[0])) + 1
    found = node.finish(plan, range(start, 7)[: plan.fetch], key=lambda number: (number,))
    return found.items, found.next_cursor


def rest(first: KeysetPaginator, nodes: list[KeysetPaginator], cursor: str | None) -> list[int]:
    """Return what is left of a walk, its pages served by each node in turn."""
    seen: list[int] = []
    for node in itertools.islice(itertools.cycle([first, *nodes]), 10):
        items, cursor = page(node, cursor)
        seen += items
        if cursor is None:
            return seen
    raise AssertionError("the walk does not end")
