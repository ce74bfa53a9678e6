"""A row that keeps its key is seen once, both ways; what does not fit is refused on either side."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit import (
    Binding,
    ConfigurationError,
    CursorCodec,
    CursorError,
    ExpiredCursorError,
    ExpiringCodec,
    FallbackCodec,
    InvalidCursorError,
    Keyset,
    KeysetPaginator,
    Offset,
    OffsetCodec,
    Opaque,
    Page,
    SealedCodec,
    SignedCodec,
    SnapshotOffset,
    SourceError,
    asc,
    desc,
)
from cursorkit.paginators.keyset import KeysetPlan, Nulls, SortKey
from cursorkit.testing import FakeClock
from tests.codecs_table import RING
from tests.keyset_rows import BINDING, Key, Walker, answer, compare, in_order, items_of
from tests.strategies import bindings

NOW = 1_800_000_000
SIGNED = SignedCodec(RING, clock=FakeClock(NOW))
NUMBERS = (asc("n", int),)
AWARE = datetime(2026, 1, 1, tzinfo=UTC)
NAIVE = AWARE.replace(tzinfo=None)
TIES = (desc("created"), asc("id", int))


def numbers(count: int, *, codec: CursorCodec = SIGNED, page_size: int = 3) -> Walker:
    """Return walks over the numbers below `count`."""
    keys = [(number,) for number in range(count)]
    keyset = KeysetPaginator(codec, NUMBERS)
    return Walker(keyset, lambda plan: answer(keys, plan), page_size=page_size)


def reason_of(keyset: KeysetPaginator, cursor: Any, binding: Binding = BINDING) -> str:
    """Return why a cursor is refused."""
    with pytest.raises(CursorError) as caught:
        keyset.plan(cursor, binding)
    return caught.value.reason


# Walks.


@st.composite
def orders(draw: st.DrawFn) -> tuple[SortKey, ...]:
    """Return orders of up to two sort keys that may be None, and a last one that is unique."""
    make: st.SearchStrategy[Callable[..., SortKey]] = st.sampled_from([asc, desc])
    nulls: st.SearchStrategy[Nulls] = st.sampled_from(["first", "last"])
    parts = [
        draw(make)(f"part-{number}", nulls=draw(nulls)) for number in range(draw(st.integers(0, 2)))
    ]
    return (*parts, draw(make)("id", int))


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[SortKey, ...], list[Key]]:
    """Return an order, and rows full of ties and None."""
    order = draw(orders())
    value = st.sampled_from([None, None, 1, 2, 2])
    ids = draw(st.lists(st.integers(-(2**70), 2**70), unique=True, max_size=12))
    return order, [(*(draw(value) for _ in order[:-1]), number) for number in ids]


@given(tables())
def test_a_walk_is_the_sorted_list_for_every_page_size(
    table: tuple[tuple[SortKey, ...], list[Key]],
) -> None:
    """From one item a page to one more than there are, forwards and back, pages mirror exactly."""
    order, keys = table
    for page_size in range(1, len(keys) + 2):
        walker = Walker(
            KeysetPaginator(SIGNED, order),
            lambda plan: answer(keys, plan),
            page_size=page_size,
        )
        pages = walker.forwards()
        assert items_of(pages) == in_order(keys, order)
        assert len(pages) == max(1, math.ceil(len(keys) / page_size))
        assert [page.items for page in walker.backwards(pages[-1])] == [
            page.items for page in pages[:-1]
        ]


@given(tables(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_rows_that_stay_are_seen_once_whatever_happens_to_the_others(
    table: tuple[tuple[SortKey, ...], list[Key]], page_size: int, random: Any
) -> None:
    """Before each page rows come and go, the cursor's own among them; the rest is never missed."""
    order, keys = table
    staying, going = keys[::2], keys[1::2]
    new = [(*random.choice(keys)[:-1], 2**71 + number) for number in range(20) if keys]

    def fetch(plan: KeysetPlan) -> list[Key]:
        coming = [new.pop() for _ in range(random.randrange(3)) if new]
        return answer(staying + coming + [key for key in going if random.random() < 0.5], plan)

    walker = Walker(KeysetPaginator(SIGNED, order), fetch, page_size=page_size)
    pages = walker.forwards()
    walks = [items_of(pages)]
    if pages[-1].items:
        walks.append(items_of([*walker.backwards(pages[-1]), pages[-1]]))
    for seen in walks:
        assert seen == in_order(seen, order)
        assert len(set(seen)) == len(seen)
        assert set(staying) <= set(seen)


def test_a_hundred_equal_keys_come_seven_a_page_both_ways() -> None:
    """Ties of the first sort key are kept apart by the last one (100 rows in a millisecond)."""
    created = NAIVE.replace(microsecond=1000)
    keys = [(created + timedelta(microseconds=number // 50), number) for number in range(100)]
    walker = Walker(KeysetPaginator(SIGNED, TIES), lambda plan: answer(keys, plan), page_size=7)
    pages = walker.forwards()
    assert items_of(pages) == in_order(keys, TIES)
    assert items_of(walker.backwards(pages[-1])) == items_of(pages[:-1])


def test_the_pages_before_an_item_are_full_but_for_the_first() -> None:
    """Before item 15, ten a page: 5 to 14, then 0 to 4; and no page before that."""
    walker = numbers(20, page_size=5)
    fourth = walker.forwards()[3]
    assert fourth.items[0] == (15,)
    walker = numbers(20, page_size=10)
    before = walker.page(fourth.previous_cursor)
    assert before.items == [(number,) for number in range(5, 15)]
    first = walker.page(before.previous_cursor)
    assert (first.items, first.previous_cursor) == ([(number,) for number in range(5)], None)
    assert items_of(walker.forwards(first.next_cursor)) == [(number,) for number in range(5, 20)]


def test_turning_back_and_forth_stays_in_place() -> None:
    """The page after the page before a page is that page again."""
    walker = numbers(10)
    second = walker.forwards()[1]
    first = walker.page(second.previous_cursor)
    again = walker.page(first.next_cursor)
    assert again == second


@pytest.mark.parametrize("count", range(9))
def test_which_pages_have_which_cursors(count: int) -> None:
    """The first page has none back, the last none on, and a page that is exactly full is last."""
    pages = numbers(count, page_size=2).forwards()
    assert [page.next_cursor is None for page in pages] == [False] * (len(pages) - 1) + [True]
    assert [page.previous_cursor is None for page in pages] == [True] + [False] * (len(pages) - 1)
    assert len(pages) == max(1, math.ceil(count / 2))
    assert all(page.total is None for page in pages)


def test_an_empty_page_has_no_cursors() -> None:
    """Where all that stood beyond was deleted, a walk ends instead of turning in a circle."""
    keys: list[Key] = [(number,) for number in range(9)]
    walker = Walker(KeysetPaginator(SIGNED, NUMBERS), lambda plan: answer(keys, plan))
    middle = walker.forwards()[1]
    keys.clear()
    assert walker.page(None) == Page([])
    assert walker.page(middle.next_cursor) == Page([])
    assert walker.page(middle.previous_cursor) == Page([])


def test_a_deleted_anchor_skips_nothing() -> None:
    """The row that the cursor was made from, gone or filtered out, is not looked for."""
    keys: list[Key] = [(number,) for number in range(6)]
    walker = Walker(KeysetPaginator(SIGNED, NUMBERS), lambda plan: answer(keys, plan))
    first = walker.page(None)
    keys.remove((2,))
    assert items_of(walker.forwards(first.next_cursor)) == [(3,), (4,), (5,)]


def test_the_same_cursor_gives_the_same_page_on_every_node() -> None:
    """Nothing is used up: asked again, or of another paginator, pages and cursors are the same."""
    first = numbers(9).page(None)
    assert numbers(9).page(None) == first
    assert [numbers(9).page(first.next_cursor) for _ in range(3)] == [
        numbers(9).page(first.next_cursor)
    ] * 3


@pytest.mark.parametrize(
    "codec",
    [
        SealedCodec(RING),
        FallbackCodec(SealedCodec(RING), SignedCodec(RING)),
        ExpiringCodec(SealedCodec(RING), ttl=60),
    ],
)
def test_every_codec_that_authenticates_will_do(codec: CursorCodec) -> None:
    """Sealed, in a change of suites, or with an expiry: the walk is the list."""
    assert items_of(numbers(10, codec=codec).forwards()) == [(number,) for number in range(10)]


# What the database is asked for.


def test_a_plan_says_all_that_a_query_needs() -> None:
    """The order to fetch in, after what, and one row more than a page; backwards it is mirrored."""
    order = (desc("created", datetime, nulls="last"), asc("id", int))
    keyset = KeysetPaginator(SIGNED, order, page_size=2)
    plan = keyset.plan(None, BINDING)
    assert (plan.order, plan.after, plan.fetch, plan.backwards) == (order, None, 3, False)
    rows = [(NAIVE - timedelta(number), number) for number in range(5)]
    first = keyset.finish(plan, rows[:3], key=lambda row: row)
    plan = keyset.plan(first.next_cursor, BINDING, page_size=1)
    assert (plan.order, plan.after, plan.fetch, plan.backwards) == (order, rows[1], 2, False)
    second = keyset.finish(plan, rows[2:4], key=lambda row: row)
    plan = keyset.plan(second.previous_cursor, BINDING)
    mirrored = (asc("created", datetime, nulls="first"), desc("id", int))
    assert (plan.order, plan.after, plan.fetch, plan.backwards) == (mirrored, rows[2], 3, True)


def test_sort_keys_mirror_twice_to_themselves() -> None:
    """Ascending and descending, None first and last change places; the rest stays."""
    assert asc("a", int, nulls="first").reversed() == desc("a", int, nulls="last")
    assert asc("a").reversed() == desc("a")
    for part in (asc("a", str, nulls="last"), desc("b", nulls="first"), desc("c", UUID)):
        assert part.reversed().reversed() == part


VALUES = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    -(2**100),
    1.55,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    "",
    "日本",
    "acme",
    "ACME",
    b"\x00\xff",
    Decimal("1.10"),
    Decimal("-0.00"),
    date.min,
    date.max,
    datetime.min,  # noqa: DTZ901  # naive on purpose
    datetime.max,  # noqa: DTZ901
    NAIVE.replace(microsecond=999918),
    AWARE,
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5, seconds=1))),
    UUID(int=2**128 - 1),
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_exactly(value: Any) -> None:
    """What is to come after is the value itself, of its own type, to the last digit and zone."""
    keyset = KeysetPaginator(SIGNED, (asc("value", nulls="first"), asc("id")), page_size=1)
    rows = [(value, 1), (value, 2)]
    page = keyset.finish(keyset.plan(None, BINDING), rows, key=lambda row: row)
    after = keyset.plan(page.next_cursor, BINDING).after
    assert after is not None
    assert Keyset(after) == Keyset((value, 1))
    assert repr(after[0]) == repr(Keyset((value,)).values[0])
    if isinstance(value, datetime):
        found = after[0]
        assert isinstance(found, datetime)
        assert found.utcoffset() == value.utcoffset()


def test_naive_and_aware_datetimes_are_different_values() -> None:
    """Cursors of the same wall clock, with and without a zone, differ, and neither is converted."""
    keyset = KeysetPaginator(SIGNED, (asc("created", datetime),), page_size=1)
    cursors: set[str | None] = set()
    for created in (NAIVE, AWARE):
        rows = [(created,), (created + timedelta(1),)]
        page = keyset.finish(keyset.plan(None, BINDING), rows, key=lambda row: row)
        assert keyset.plan(page.next_cursor, BINDING).after == (created,)
        cursors.add(page.next_cursor)
    assert len(cursors) == 2


# Binding.


def test_a_cursor_of_another_order_is_refused() -> None:
    """Another name, direction, place of None, sequence or number of sort keys is another list."""
    orders = [
        (asc("a"), asc("b")),
        (desc("a"), asc("b")),
        (asc("a"), desc("b")),
        (asc("a", nulls="first"), asc("b")),
        (asc("a", nulls="last"), asc("b")),
        (asc("b"), asc("a")),
        (asc("b"),),
        (asc("ab"),),
        (asc("a"), asc("b"), asc("c")),
    ]
    for mine in orders:
        keyset = KeysetPaginator(SIGNED, mine, page_size=1)
        rows = [tuple(number + index for index, _ in enumerate(mine)) for number in (1, 2)]
        cursor = keyset.finish(keyset.plan(None, BINDING), rows, key=lambda row: row).next_cursor
        for other in orders:
            keyset = KeysetPaginator(SIGNED, other)
            if other is mine:
                assert keyset.plan(cursor, BINDING).after == rows[0]
            else:
                assert reason_of(keyset, cursor) == "tag"


@given(bindings(), bindings())
def test_orders_and_the_callers_params_never_meet(one: Binding, other: Binding) -> None:
    """Whatever the caller binds, under whatever names, cursors of different bindings differ."""
    keysets = [KeysetPaginator(SIGNED, order) for order in (NUMBERS, (desc("n", int),))]
    bound = {
        (number, binding): keyset.plan(None, binding).binding
        for number, keyset in enumerate(keysets)
        for binding in (one, other)
    }
    assert len(set(bound.values())) == len(bound)
    # An order that was put into the params by hand is the caller's own affair.
    nested = keysets[0].plan(None, bound[0, one]).binding
    assert nested not in bound.values()


def test_the_order_is_bound_as_documented() -> None:
    """Nodes of two releases share cursors: names and directions in the binding never change."""
    binding = Binding("rows", params={"tag": "x"})
    order = (desc("created", nulls="last"), asc("id", int))
    assert KeysetPaginator(SIGNED, order).plan(None, binding).binding == Binding(
        "rows",
        params={
            "order": [["created", "desc", "last"], ["id", "asc", None]],
            "params": binding.pieces()["params"],
        },
    )


@pytest.mark.parametrize(
    "change",
    [{"principal": "mallory"}, {"purpose": "other"}, {"params": None}, {"params": {"tag": "y"}}],
)
def test_a_cursor_of_another_binding_is_refused(change: dict[str, Any]) -> None:
    """Another principal, list or filter refuses it; the order alone does not make it valid."""
    cursor = numbers(9).page(None).next_cursor
    keyset = KeysetPaginator(SIGNED, NUMBERS)
    assert keyset.plan(cursor, BINDING)
    assert reason_of(keyset, cursor, BINDING.replace(**change)) == "tag"
    with pytest.raises(InvalidCursorError):
        SIGNED.decode(cast(str, cursor), BINDING)


def test_what_is_bound_is_what_the_params_were() -> None:
    """A list that the caller changes after making the binding changes nothing."""
    tags: list[Any] = ["a"]
    binding = Binding("rows", params={"tags": tags})
    keyset = KeysetPaginator(SIGNED, NUMBERS, page_size=1)
    plan = keyset.plan(None, binding)
    tags.append("b")
    assert keyset.plan(None, binding).binding == plan.binding


# Refusals.


@pytest.mark.parametrize("cursor", ["", "bogus", "0", "A" * 50, b"", 0, False])
def test_what_is_no_cursor_is_never_the_first_page(cursor: Any) -> None:
    """Only None asks for the first page."""
    with pytest.raises(InvalidCursorError):
        KeysetPaginator(SIGNED, NUMBERS).plan(cursor, BINDING)


@pytest.mark.parametrize(
    "position",
    [
        Offset(1),
        Opaque(b""),
        SnapshotOffset(bytes(32), 0, 1),
        Keyset((False,)),
        Keyset((False, 1)),
        Keyset((1, NAIVE, 2)),
        Keyset((0, NAIVE, 2)),
        Keyset((None, NAIVE, 2)),
        Keyset((False, NAIVE, 2, 3)),
        Keyset((False, NAIVE, None)),
        Keyset((False, NAIVE, True)),
        Keyset((False, NAIVE, 1.0)),
        Keyset((False, NAIVE, "1")),
        Keyset((False, date(2026, 1, 1), 1)),
        Keyset((False, "2026-01-01", 1)),
        Keyset((True, b"2026-01-01", 1)),
    ],
    ids=repr,
)
def test_an_authentic_cursor_that_does_not_fit_the_order_is_refused(
    caplog: pytest.LogCaptureFixture, position: Any
) -> None:
    """Another kind, count or type of values is an invalid cursor, one line in the log; no query."""
    keyset = KeysetPaginator(SIGNED, (asc("created", datetime, nulls="last"), asc("id", int)))
    cursor = SIGNED.encode(position, keyset.plan(None, BINDING).binding)
    assert reason_of(keyset, cursor) == "kind"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "reason=kind " in record.getMessage()


def test_without_a_declared_type_only_none_is_looked_at() -> None:
    """Types are checked where they are declared, and only there."""
    keyset = KeysetPaginator(SIGNED, (asc("a", nulls="first"), asc("b")))
    bound = keyset.plan(None, BINDING).binding
    for values in ((None, 1), ("x", b"y")):
        cursor = SIGNED.encode(Keyset((False, *values)), bound)
        assert keyset.plan(cursor, BINDING).after == values
    assert reason_of(keyset, SIGNED.encode(Keyset((False, 1, None)), bound)) == "kind"


def test_the_directions_of_a_cursor_cannot_be_swapped() -> None:
    """A cursor back and one on to the same row differ in an authentic value."""
    second = numbers(9).forwards()[1]
    keyset = KeysetPaginator(SIGNED, NUMBERS)
    assert keyset.plan(second.next_cursor, BINDING).backwards is False
    assert keyset.plan(second.previous_cursor, BINDING).backwards is True


# Expiry.


def test_a_walk_keeps_the_expiry_that_it_began_with() -> None:
    """Both ways, on every page, and the page says what is in the cursor."""
    clock = FakeClock(NOW)
    codec = ExpiringCodec(SignedCodec(RING, clock=clock), ttl=600, clock=clock)
    walker = numbers(9, codec=codec)
    first = walker.page(None)
    assert first.expires_at == NOW + 600
    clock.advance(599)
    second = walker.page(first.next_cursor)
    again = walker.page(second.previous_cursor)
    assert second.expires_at == again.expires_at == NOW + 600
    bound = KeysetPaginator(codec, NUMBERS).plan(None, BINDING).binding
    for cursor in (second.next_cursor, second.previous_cursor, again.next_cursor):
        assert codec.decode(cast(str, cursor), bound).expires_at == NOW + 600
    clock.advance(1)
    with pytest.raises(ExpiredCursorError):
        walker.page(second.next_cursor)


def test_without_an_expiry_none_is_told() -> None:
    """A page without cursors, and one whose cursors never end, has no `expires_at`."""
    assert {page.expires_at for page in numbers(9).forwards()} == {None}
    codec = ExpiringCodec(SignedCodec(RING), ttl=600)
    assert numbers(3, codec=codec).page(None).expires_at is None


# Rows that cannot be paged.


def finish(order: tuple[SortKey, ...], rows: list[Any]) -> Page[Any]:
    """Return the first page of rows that are their own keys."""
    keyset = KeysetPaginator(SIGNED, order, page_size=9)
    return keyset.finish(keyset.plan(None, BINDING), rows, key=lambda row: row)


NULLABLE = (asc("a", int, nulls="first"), asc("id", int))
ONE_KEY = "^two rows have one key: the last sort key is not unique$"


@pytest.mark.parametrize(
    ("order", "rows", "problem"),
    [
        (TIES, [(None, 1)], "row 0 .*created is None"),
        (NULLABLE, [(None, 1), (1, None)], "row 1 .*id is None"),
        (NULLABLE, [(None, True)], "id is bool, not int"),
        (NULLABLE, [(1.0, 1)], "a is float, not int"),
        (NULLABLE, [(1,)], "1 values for 2 sort keys"),
        (NULLABLE, [(1, 2, 3)], "3 values for 2 sort keys"),
        (NULLABLE, [[1, 2]], "a tuple, not list"),
        (NUMBERS, [1], "a tuple, not int"),
        ((asc("text"),), ["x"], "a tuple, not str"),
        (TIES, [(math.nan, 1)], "finite"),
        (TIES, [(math.inf, 1)], "finite"),
        (TIES, [("\udc80", 1)], "surrogate"),
        (TIES, [(object(), 1)], "cannot hold object"),
        (TIES, [(2, 1), (2, 1)], ONE_KEY),
        (TIES, [(2, 1), (2.0, 1)], ONE_KEY),
        (TIES, [(Decimal("2.0"), 1), (Decimal("2.00"), 1)], ONE_KEY),
        ((asc("at"),), [(AWARE,)] * 2, ONE_KEY),
    ],
)
def test_rows_that_cannot_be_paged_are_refused(
    order: tuple[SortKey, ...], rows: list[Any], problem: str
) -> None:
    """Ours, not the client's fault: each row is looked at, not only those that a page ends with."""
    with pytest.raises(SourceError, match=problem) as caught:
        finish(order, rows)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_equal_keys_are_refused_for_every_page_size() -> None:
    """Also where the second one is the row that tells whether any remain."""
    rows = [(1,), (2,), (2,), (3,)]
    for page_size in (2, 3, 4, 9):
        keyset = KeysetPaginator(SIGNED, NUMBERS, page_size=page_size)
        plan = keyset.plan(None, BINDING)
        with pytest.raises(SourceError):
            keyset.finish(plan, rows[: plan.fetch], key=lambda row: row)


@pytest.mark.parametrize("rows", [[(2,), (3,)], [(1,), (2,), (3,)], [(1,), (2,)]])
def test_a_query_that_repeats_the_row_it_should_start_after_is_refused(rows: list[Key]) -> None:
    """`>=` for `>`, or a database that keeps other values than the key: no endless walk."""
    keyset = KeysetPaginator(SIGNED, NUMBERS, page_size=2)
    first = keyset.finish(keyset.plan(None, BINDING), [(1,), (2,), (3,)], key=lambda row: row)
    plan = keyset.plan(first.next_cursor, BINDING)
    with pytest.raises(SourceError) as failure:
        keyset.finish(plan, rows, key=lambda row: row)
    assert str(failure.value) == (
        "the row that the page should start after is in it: the query does not exclude it,"
        " or the database does not compare the key's values as it keeps them"
    )


def test_the_order_of_values_is_the_databases_business() -> None:
    """A collation that Python does not share is no reason to stop: values are not compared."""
    names = ["acme", "ACME", "Acme", "b", "Ä", "a"]
    keyset = KeysetPaginator(SIGNED, (asc("name", str), asc("id", int)), page_size=2)
    seen: list[str] = []
    cursor: str | None = None
    for start in (0, 2, 4):
        plan = keyset.plan(cursor, BINDING)
        rows = list(enumerate(names))[start : start + plan.fetch]
        page = keyset.finish(plan, rows, key=lambda row: (row[1], row[0]))
        seen += [name for _, name in page.items]
        cursor = page.next_cursor
    assert (seen, cursor) == (names, None)


def test_a_key_too_long_for_a_cursor_is_a_source_error() -> None:
    """A page that ends with it cannot be continued, and the message does not hold the key."""
    rows = [("x" * 5000,), ("y",)]
    keyset = KeysetPaginator(SIGNED, (asc("text", str),), page_size=1)
    with pytest.raises(SourceError, match="longer than 4096") as caught:
        keyset.finish(keyset.plan(None, BINDING), rows, key=lambda row: row)
    assert "xx" not in str(caught.value)
    assert caught.value.__context__ is None
    assert finish((asc("text", str),), rows).items == rows


def test_rows_come_from_any_iterable_and_are_not_keys() -> None:
    """Objects, and more of them than were asked for, from an iterator."""

    def rows() -> Iterator[dict[str, int]]:
        yield from ({"id": number} for number in range(9))

    keyset = KeysetPaginator(SIGNED, NUMBERS, page_size=2)
    page = keyset.finish(keyset.plan(None, BINDING), rows(), key=lambda row: (row["id"],))
    assert page.items == [{"id": 0}, {"id": 1}]
    assert keyset.plan(page.next_cursor, BINDING).after == (1,)


# Settings.


@pytest.mark.parametrize("page_size", [0, -1, 10_001, 2**31, True, 1.0, "5", None])
def test_a_page_size_out_of_range_is_refused(page_size: Any) -> None:
    """From 1 to 10,000, an int, wherever it is given."""
    problem = r"^page_size is .*; give an int from 1 to 10000$"
    with pytest.raises(ConfigurationError, match=problem):
        KeysetPaginator(SIGNED, NUMBERS, page_size=page_size)
    if page_size is not None:
        with pytest.raises(ConfigurationError, match=problem):
            KeysetPaginator(SIGNED, NUMBERS).plan(None, BINDING, page_size=page_size)


def test_a_page_has_50_items_unless_told() -> None:
    """One row more is asked for."""
    assert KeysetPaginator(SIGNED, NUMBERS).plan(None, BINDING).fetch == 51


NO_ORDER = 'order is made of asc("...") and desc("..."), at least one'
NOT_UNIQUE = (
    "the last sort key, {}, may be None and so cannot be unique; add one that is unique,"
    ' for example asc("id")'
)


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ((), NO_ORDER),
        ([], NO_ORDER),
        ("id", NO_ORDER),
        (("id",), NO_ORDER),
        (asc("id"), NO_ORDER),
        (None, NO_ORDER),
        ((asc("a"), desc("a")), "order names a sort key twice: a, a"),
        ((asc("a", nulls="first"),), NOT_UNIQUE.format("a")),
        ((asc("a"), asc("b", nulls="last")), NOT_UNIQUE.format("b")),
    ],
)
def test_an_order_that_cannot_work_is_refused(order: Any, problem: str) -> None:
    """Not empty, each sort key once, and the last one never None."""
    with pytest.raises(ConfigurationError) as failure:
        KeysetPaginator(SIGNED, order)
    assert str(failure.value) == problem


NO_NAME = "a sort key is named by a str that is not empty"
NO_PLACE = 'nulls of id is neither "first" nor "last"'
NO_TYPE = "the type of id is none of bool, int, float, str, bytes, Decimal, date, datetime, UUID"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"name": ""}, NO_NAME),
        ({"name": None}, NO_NAME),
        ({"name": b"id"}, NO_NAME),
        ({"name": "id", "nulls": "FIRST"}, NO_PLACE),
        ({"name": "id", "nulls": True}, NO_PLACE),
        ({"name": "id", "nulls": []}, NO_PLACE),
        ({"name": "id", "value_type": object}, NO_TYPE),
        ({"name": "id", "value_type": "int"}, NO_TYPE),
        ({"name": "id", "value_type": [int]}, NO_TYPE),
        ({"name": "id", "value_type": type(None)}, NO_TYPE),
    ],
)
@pytest.mark.parametrize("make", [asc, desc])
def test_a_sort_key_that_cannot_work_is_refused(
    make: Callable[..., SortKey], arguments: dict[str, Any], problem: str
) -> None:
    """A name, a place for None, and a type that cursors carry."""
    with pytest.raises(ConfigurationError) as failure:
        make(**arguments)
    assert str(failure.value) == problem


def test_an_unsigned_codec_is_refused() -> None:
    """With it anyone could put any value into the query."""
    with pytest.raises(ConfigurationError) as failure:
        KeysetPaginator(OffsetCodec(), NUMBERS)
    assert str(failure.value) == (
        "KeysetPaginator was given OffsetCodec, whose cursors anyone can make, with any value for"
        " the database; give it SignedCodec or SealedCodec"
    )


def test_the_plan_tells_nothing_of_the_binding() -> None:
    """Its repr may be logged."""
    assert "alice" not in repr(KeysetPaginator(SIGNED, NUMBERS).plan(None, BINDING))


def test_the_comparison_that_tests_rely_on_is_right() -> None:
    """None where it is declared, ties to the next sort key."""
    order = (desc("a", nulls="last"), asc("b"))
    assert in_order([(None, 1), (1, 2), (1, 1), (2, 5)], order) == [
        (2, 5),
        (1, 1),
        (1, 2),
        (None, 1),
    ]
    assert compare(order, (1, 1), (1, 1)) == 0
