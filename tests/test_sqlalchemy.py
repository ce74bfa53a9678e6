"""Keyset pages of real databases: SQLite, and PostgreSQL where its server is installed."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import (
    DeclarativeBase,
    InstrumentedAttribute,
    Mapped,
    Session,
    aliased,
    mapped_column,
)

from cursorkit import (
    Binding,
    ConfigurationError,
    KeysetPaginator,
    SealedCodec,
    SourceError,
    asc,
    desc,
)
from cursorkit.adapters.sqlalchemy import apply
from cursorkit.paginators.keyset import KeysetPlan, SortKey
from tests import postgres
from tests.codecs_table import RING
from tests.keyset_rows import Key, Walker, in_order, items_of

# SQLAlchemy warns of what one of these tests is about.
pytestmark = pytest.mark.filterwarnings("ignore:Dialect sqlite:sqlalchemy.exc.SAWarning")

CODEC = SealedCodec(RING)
POSTGRES = postgres.programs()
DATABASES = [
    "sqlite",
    pytest.param(
        "postgresql",
        marks=pytest.mark.skipif(POSTGRES is None, reason="no PostgreSQL server is installed"),
    ),
]


class Base(DeclarativeBase):
    """What the tables share."""


class Row(Base):
    """A row with a column of every type that a keyset holds."""

    __tablename__ = "rows"

    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    score: Mapped[int | None] = mapped_column(sa.BigInteger)
    created: Mapped[datetime] = mapped_column(sa.DateTime)
    seen: Mapped[datetime | None] = mapped_column(sa.DateTime(timezone=True))
    day: Mapped[date | None]
    name: Mapped[str]
    ratio: Mapped[float | None] = mapped_column(sa.Double)
    amount: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2))
    flag: Mapped[bool]
    blob: Mapped[bytes]
    uid: Mapped[UUID] = mapped_column(unique=True)
    note: Mapped[str] = mapped_column(default="")


SPRING = datetime(2026, 3, 1, 12, 0, 0, 999918)  # noqa: DTZ001  # a column without a zone
VALUES: dict[str, tuple[Any, ...]] = {
    "score": (None, None, 0, 1, 1, 2, -(2**63), 2**63 - 1),
    "created": (
        datetime.min,  # noqa: DTZ901
        datetime.max,  # noqa: DTZ901
        SPRING,
        SPRING,
        SPRING + timedelta(microseconds=1),
    ),
    "seen": (
        None,
        datetime(1, 1, 2, tzinfo=UTC),
        datetime(9999, 12, 30, tzinfo=UTC),
        SPRING.replace(tzinfo=UTC),
        SPRING.replace(tzinfo=timezone(timedelta(hours=11))),
    ),
    "day": (None, date.min, date.max, date(2026, 3, 1)),
    "name": ("", "acme", "ACME", "Acme", "日本", "é", "e\u0301", "\U0010ffff", "z" * 300, "%'_"),
    "ratio": (None, None, -0.0, 0.0, 1.55, 0.1 + 0.2, 0.3, 5e-324, math.nextafter(math.inf, 0)),
    "amount": tuple(map(Decimal, ("0.00", "-0.01", "1.10", "1.10", "9999999999.99"))),
    "flag": (True, False),
    "blob": (b"", b"\x00", b"\x00\x00", b"\xff", b"a"),
}
"""Ties, NULLs and extremes."""

COUNT = 20


def make_row(number: int, random: Random) -> dict[str, Any]:
    """Return a row with values that many others have, and an id and uid of its own."""
    row = {name: random.choice(values) for name, values in VALUES.items()}
    uid = {0: 0, 1: 2**128 - 1}.get(number, random.getrandbits(128))
    return {**row, "id": number, "uid": UUID(int=uid)}


@contextmanager
def disposing(engine: sa.Engine) -> Generator[sa.Engine]:
    """Close the engine's connections in the end."""
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture(scope="module", params=DATABASES)
def engine(request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """Return a database with `COUNT` rows."""
    if request.param == "sqlite":
        engine = filled(sa.create_engine("sqlite://"))
        yield engine
        engine.dispose()
    else:
        assert POSTGRES is not None
        with postgres.running(POSTGRES) as url:
            engine = filled(sa.create_engine(url))
            yield engine
            engine.dispose()


def filled(engine: sa.Engine) -> sa.Engine:
    """Make the table, and its rows."""
    Base.metadata.create_all(engine)
    random = Random(20260301)  # noqa: S311
    with engine.begin() as connection:
        connection.execute(sa.insert(Row), [make_row(number, random) for number in range(COUNT)])
    return engine


@pytest.fixture
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Return a connection; what is changed through it is undone."""
    with engine.connect() as connection:
        yield connection


ORDERS: dict[str, tuple[SortKey, ...]] = {
    "id": (asc("id", int),),
    "down": (desc("created", datetime), desc("id", int)),
    "up": (asc("flag", bool), asc("created", datetime), asc("id", int)),
    "mixed": (desc("created", datetime), asc("id", int)),
    "up nulls first": (asc("score", int, nulls="first"), asc("id", int)),
    "up nulls last": (asc("score", int, nulls="last"), asc("id", int)),
    "down nulls first": (desc("score", int, nulls="first"), asc("id", int)),
    "down nulls last": (desc("score", int, nulls="last"), desc("id", int)),
    "four": (
        asc("ratio", float, nulls="last"),
        desc("score", int, nulls="first"),
        desc("flag", bool),
        asc("id", int),
    ),
    "text": (asc("name", str), asc("id", int)),
    "aware": (desc("seen", datetime, nulls="last"), asc("id", int)),
    "date": (asc("day", date, nulls="first"), desc("id", int)),
    "decimal": (desc("amount", Decimal), asc("id", int)),
    "bytes": (asc("blob", bytes), desc("id", int)),
    "uuid": (desc("uid", UUID),),
}
MOVING = {
    name: order for name, order in ORDERS.items() if {"created", "score"} & {o.name for o in order}
}
every_order = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


def columns_of(order: Sequence[SortKey]) -> list[InstrumentedAttribute[Any]]:
    """Return the columns of an order."""
    return [getattr(Row, part.name) for part in order]


def key_of(order: Sequence[SortKey], row: Any) -> Key:
    """Return the key of a row."""
    return tuple(getattr(row, part.name) for part in order)


def walker_over(
    connection: sa.Connection,
    order: Sequence[SortKey],
    page_size: int,
    statement: sa.Select[Any] | None = None,
) -> Walker:
    """Return walks over the table."""
    whole = sa.select(Row) if statement is None else statement

    def fetch(plan: KeysetPlan) -> Sequence[Any]:
        return connection.execute(apply(whole, plan, *columns_of(order))).all()

    keyset = KeysetPaginator(CODEC, order)
    return Walker(keyset, fetch, lambda row: key_of(order, row), page_size=page_size)


# Walks.


@every_order
def test_a_walk_is_the_sorted_table_for_every_page_size(
    connection: sa.Connection, order: tuple[SortKey, ...]
) -> None:
    """From one row a page to one more than there are, forwards and back, sorted as Python does."""
    rows = connection.execute(sa.select(Row)).all()
    keys = in_order([key_of(order, row) for row in rows], order)
    assert len(rows) == COUNT
    for page_size in range(1, COUNT + 2):
        walker = walker_over(connection, order, page_size)
        pages = walker.forwards()
        assert [key_of(order, row) for row in items_of(pages)] == keys
        assert len(pages) == math.ceil(COUNT / page_size)
        assert [page.items for page in walker.backwards(pages[-1])] == [
            page.items for page in pages[:-1]
        ]


class Meddler:
    """Inserts, deletes and updates rows, those of even number but for their note left alone."""

    def __init__(self, connection: sa.Connection, random: Random) -> None:
        self._connection = connection
        self._random = random
        self._others = list(range(1, COUNT, 2))
        self._new = iter([*range(COUNT, COUNT + 10), *range(-10, 0)])

    def meddle(self) -> None:
        """Do up to three things."""
        for _ in range(self._random.randrange(4)):
            self._random.choice([self._insert, self._delete, self._move, self._touch])()

    def _insert(self) -> None:
        number = next(self._new, None)
        if number is not None:
            self._connection.execute(sa.insert(Row).values(make_row(number, self._random)))
            self._others.append(number)

    def _delete(self) -> None:
        if self._others:
            number = self._others.pop(self._random.randrange(len(self._others)))
            self._connection.execute(sa.delete(Row).where(Row.id == number))

    def _move(self) -> None:
        if self._others:
            number = self._random.choice(self._others)
            moved = make_row(number, self._random)
            del moved["id"]
            self._connection.execute(sa.update(Row).where(Row.id == number).values(moved))

    def _touch(self) -> None:
        number = self._random.randrange(COUNT)
        self._connection.execute(sa.update(Row).where(Row.id == number).values(note="touched"))


@pytest.mark.parametrize("order", MOVING.values(), ids=MOVING)
def test_rows_that_stay_are_seen_once_whatever_happens_to_the_others(
    connection: sa.Connection, order: tuple[SortKey, ...]
) -> None:
    """For every page size, both ways, while rows are inserted, deleted and updated in between."""
    random = Random(str(order))  # noqa: S311
    stay = {
        row.id: key_of(order, row) for row in connection.execute(sa.select(Row)) if row.id % 2 == 0
    }
    for page_size in range(1, COUNT + 2):
        savepoint = connection.begin_nested()
        meddler = Meddler(connection, random)
        walker = walker_over(connection, order, page_size)
        pages = [walker.page(None)]
        while (cursor := pages[-1].next_cursor) is not None:
            meddler.meddle()
            pages.append(walker.page(cursor))
        assert_seen_once(items_of(pages), stay, order)
        pages = pages[-1:]
        while (cursor := pages[0].previous_cursor) is not None:
            meddler.meddle()
            pages.insert(0, walker.page(cursor))
        if pages[-1].items:  # an empty page has no way back
            assert_seen_once(items_of(pages), stay, order)
        savepoint.rollback()


def assert_seen_once(rows: list[Any], stay: dict[int, Key], order: Sequence[SortKey]) -> None:
    """Assert that each row that stays is there once, and all are in order."""
    seen = [row.id for row in rows if row.id in stay]
    assert sorted(seen) == sorted(stay)
    assert [stay[number] for number in seen] == in_order(list(stay.values()), order)


@pytest.mark.parametrize("zone", ["Australia/Sydney", "America/St_Johns"])
def test_the_zone_of_process_and_session_changes_no_page(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """A walk that began elsewhere goes on: the same rows, in the same order."""
    for order in (ORDERS["mixed"], ORDERS["aware"]):
        walker = walker_over(connection, order, 5)
        usual = walker.forwards()
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("TZ", zone)
            time.tzset()
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SET LOCAL TIME ZONE '{zone}'"))
            pages = walker.forwards(usual[0].next_cursor)
        time.tzset()
        assert [row.id for row in items_of(pages)] == [row.id for row in items_of(usual[1:])]


def test_a_collation_that_python_does_not_share(connection: sa.Connection) -> None:
    """Where "acme" and "ACME" are the same, the next sort key decides, in order and comparison."""
    if connection.dialect.name == "sqlite":
        collated = sa.collate(Row.name, "NOCASE")
    else:
        connection.execute(
            sa.text(
                "CREATE COLLATION nocase"
                " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            )
        )
        collated = sa.collate(Row.name, "nocase")
    keyset = KeysetPaginator(CODEC, (asc("name", str), desc("id", int)))
    seen: list[list[int]] = []
    for page_size in range(1, COUNT + 2):

        def fetch(plan: KeysetPlan) -> Sequence[Any]:
            return connection.execute(apply(sa.select(Row), plan, collated, Row.id)).all()

        walker = Walker(keyset, fetch, lambda row: (row.name, row.id), page_size=page_size)
        pages = walker.forwards()
        seen.append([row.id for row in items_of(pages)])
        assert [page.items for page in walker.backwards(pages[-1])] == [
            page.items for page in pages[:-1]
        ]
    assert all(each == seen[0] for each in seen)
    names = {row.id: row.name for row in connection.execute(sa.select(Row.id, Row.name))}
    same = [number for number in seen[0] if names[number].lower() == "acme"]
    assert len({names[number] for number in same}) > 1
    assert same == sorted(same, reverse=True)


# What cannot be walked.


@contextlib.contextmanager
def made(table: sa.Table, connection: sa.Connection) -> Generator[None]:
    """Have a table for a while: SQLite's driver does not undo that it was made."""
    table.create(connection)
    try:
        yield
    finally:
        connection.rollback()
        table.drop(connection, checkfirst=True)


@pytest.mark.parametrize("page_size", [1, 5, 9])
def test_a_value_that_is_not_compared_as_it_was_read_is_noticed(
    connection: sa.Connection, page_size: int
) -> None:
    """Where the row that a page ended with would come for ever again, the walk stops."""
    on_sqlite = connection.dialect.name == "sqlite"
    table = sa.Table(
        "inexact",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        # SQLite's own timestamp is a text without a fraction, what SQLAlchemy compares it with has
        # one; a float of four bytes is a little more than the 0.1 that is read.
        sa.Column("at", sa.DateTime, nullable=False, server_default=sa.func.now())
        if on_sqlite
        else sa.Column("at", sa.REAL, nullable=False, server_default="0.1"),
    )
    order = (desc("at"), desc("id")) if on_sqlite else (asc("at"), asc("id"))

    def fetch(plan: KeysetPlan) -> Sequence[Any]:
        return connection.execute(apply(sa.select(table), plan, table.c.at, table.c.id)).all()

    keyset = KeysetPaginator(CODEC, order)
    walker = Walker(keyset, fetch, lambda row: (row.at, row.id), page_size=page_size)
    with made(table, connection):
        connection.execute(sa.insert(table), [{"id": number} for number in range(10)])
        with pytest.raises(SourceError, match="does not compare the key's values as it keeps"):
            walker.forwards()


def test_a_value_is_compared_as_its_column_keeps_it() -> None:
    """SQLite's own timestamps are walked where the column's type leaves out the fraction, too."""
    table = sa.Table(
        "exact",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "at",
            sqlite.DATETIME(truncate_microseconds=True),  # type: ignore[no-untyped-call]  # has no types
            nullable=False,
            server_default=sa.func.now(),
        ),
    )
    with disposing(sa.create_engine("sqlite://")) as engine, engine.connect() as connection:
        table.create(connection)
        connection.execute(sa.insert(table), [{"id": number} for number in range(10)])

        def fetch(plan: KeysetPlan) -> Sequence[Any]:
            return connection.execute(apply(sa.select(table), plan, table.c.at, table.c.id)).all()

        for order in ((asc("at"), asc("id")), (desc("at"), asc("id"))):
            keyset = KeysetPaginator(CODEC, order)
            walker = Walker(keyset, fetch, lambda row: (row.at, row.id), page_size=3)
            assert {row.id for row in items_of(walker.forwards())} == set(range(10))


# Statements.


@pytest.mark.parametrize(
    "order",
    [
        (desc("created"), desc("id")),
        (desc("created"), asc("id")),
        (asc("score", nulls="first"), asc("id")),
    ],
)
def test_a_page_begins_at_its_place_in_an_index(
    connection: sa.Connection, order: tuple[SortKey, ...]
) -> None:
    """The database neither scans what came before nor sorts, with an index of the same order."""
    on_sqlite = connection.dialect.name == "sqlite"
    table = sa.Table(
        "events",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("created", sa.Integer, nullable=False),
        sa.Column("score", sa.Integer),
    )
    columns = [table.c[part.name] for part in order]
    terms: list[sa.ColumnElement[Any]] = []
    for column, part in zip(columns, order, strict=True):
        term = column.desc() if part.descending else column.asc()
        # SQLite has NULL first in each ascending index, and no word for it.
        terms.append(term.nulls_first() if part.nulls and not on_sqlite else term)
    sa.Index("place", *terms)
    plan = KeysetPlan(order, (5, 7), 3, binding=Binding("events"))
    query = apply(sa.select(table), plan, *columns)
    sql = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
    with made(table, connection):
        if not on_sqlite:
            # The table is empty: without these, PostgreSQL reads all of it.
            for other in ("seqscan", "bitmapscan", "sort"):
                connection.execute(sa.text(f"SET LOCAL enable_{other} = off"))
        words = "EXPLAIN QUERY PLAN " if on_sqlite else "EXPLAIN "
        told = "\n".join(row[-1] for row in connection.exec_driver_sql(words + sql))
    assert ("SEARCH events USING INDEX place" if on_sqlite else "Index Cond") in told
    assert "Sort" not in told
    assert "TEMP B-TREE" not in told
    assert "MULTI-INDEX" not in told


def test_order_limit_and_offset_of_the_statement_are_replaced(connection: sa.Connection) -> None:
    """They would break the walk in silence; its filter stays."""
    order = ORDERS["up nulls last"]
    statement = sa.select(Row).where(Row.flag).order_by(Row.name).limit(1).offset(7)
    rows = connection.execute(sa.select(Row).where(Row.flag)).all()
    keys = in_order([key_of(order, row) for row in rows], order)
    pages = walker_over(connection, order, 4, statement).forwards()
    assert [key_of(order, row) for row in items_of(pages)] == keys


def test_objects_aliases_and_expressions_are_paged(connection: sa.Connection) -> None:
    """The ORM's objects, by an alias' column and by a function of one."""
    order = (desc("length", int), asc("id", int))
    other = aliased(Row)
    keyset = KeysetPaginator(CODEC, order)
    with Session(connection) as session:

        def fetch(plan: KeysetPlan) -> Sequence[Row]:
            length = sa.func.length(other.name)
            return session.scalars(apply(sa.select(other), plan, length, other.id)).all()

        walker = Walker(keyset, fetch, lambda row: (len(row.name), row.id), page_size=5)
        rows = items_of(walker.forwards())
        assert all(type(row) is Row for row in rows)
        keys = [(len(row.name), row.id) for row in session.scalars(sa.select(Row))]
        assert [(len(row.name), row.id) for row in rows] == in_order(keys, order)


def test_no_value_is_in_the_text_of_the_statement() -> None:
    """Values are sent beside it, whatever they hold."""
    for first in (asc("name", nulls="last"), desc("name")):
        order = (first, desc("flag"), desc("id"))
        plan = KeysetPlan(order, ("'; DROP", True, 424242), 3, binding=Binding("rows"))
        text = str(apply(sa.select(Row), plan, *columns_of(order)))
        assert "DROP" not in text
        assert "424242" not in text


def plan_of(*order: SortKey) -> KeysetPlan:
    """Return the plan of a first page."""
    return KeysetPaginator(CODEC, order).plan(None, Binding("rows"))


INNER = sa.select(Row.score, Row.id, Row.name).subquery()


@pytest.mark.parametrize(
    "column",
    [Row.score, Row.__table__.c.score, aliased(Row).score, INNER.c.score],
    ids=["mapped", "core", "alias", "subquery"],
)
def test_a_nullable_column_that_is_not_declared_is_refused(column: Any) -> None:
    """Comparisons drop NULL in silence, so the first page already says what to do."""
    with pytest.raises(ConfigurationError, match=r'score is nullable.*nulls="first" or "last"'):
        apply(sa.select(Row), plan_of(asc("score"), asc("id")), column, Row.id)
    for declared in (asc("score", nulls="first"), desc("score", nulls="last")):
        assert apply(sa.select(Row), plan_of(declared, asc("id")), column, Row.id) is not None


@pytest.mark.parametrize(
    "column",
    [
        Row.name,
        Row.__table__.c.name,
        aliased(Row).name,
        INNER.c.name,
        sa.func.coalesce(Row.score, 0),
    ],
    ids=["mapped", "core", "alias", "subquery", "expression"],
)
def test_what_cannot_be_null_needs_no_declaration(column: Any) -> None:
    """A column that is NOT NULL, wherever it is taken from, and an expression, which is trusted."""
    assert apply(sa.select(Row), plan_of(asc("name"), asc("id")), column, Row.id) is not None


def test_columns_that_do_not_fit_the_order_are_refused() -> None:
    """One for each sort key, and columns, not their names."""
    plan = plan_of(asc("name"), asc("id"))
    for columns in ((), (Row.name,), (Row.name, Row.id, Row.flag)):
        with pytest.raises(ConfigurationError, match=f"{len(columns)} columns for 2 sort keys"):
            apply(sa.select(Row), plan, *columns)
    with pytest.raises(ConfigurationError, match="name is a str; give apply a column"):
        apply(sa.select(Row), plan, "name", Row.id)  # type: ignore[arg-type]  # the point


def test_the_module_names_its_extra() -> None:
    """Without SQLAlchemy the import says which extra brings it."""
    code = "import sys; sys.modules['sqlalchemy'] = None; import cursorkit.adapters.sqlalchemy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert b"pip install 'cursorkit[sqlalchemy]'" in done.stderr
