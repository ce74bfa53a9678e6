"""Keyset pages of what SQLAlchemy selects, Core or ORM. Needs ``cursorkit[sqlalchemy]``.

For SQLite 3.30 or later and PostgreSQL: other databases lack ``NULLS FIRST`` or comparisons of row
values. A value must go back to the database as it came from there. It does not where

- SQLite fills a timestamp by ``server_default=func.now()``: that text has no fraction of a second,
  the one that SQLAlchemy compares it with has, and rows of one second are lost or come again; give
  the column a Python ``default``, or the type ``sqlite.DATETIME(truncate_microseconds=True)``;
- SQLite keeps a ``Numeric``: a float, read with ten digits; use an Integer of the smallest unit;
- a PostgreSQL column is ``REAL``: use ``DOUBLE PRECISION``.

For pages that cost a page there must be an index of the columns in their order, and with the same
directions and places of NULL where these are mixed or declared (``created DESC, id``). Where NULL
stands last, a page before the NULLs still costs a reading of the index from its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from cursorkit.errors import ConfigurationError
from cursorkit.paginators.keyset import KeysetPlan, SortKey
from cursorkit.positions import KeysetValue

try:
    from sqlalchemy import (
        Column,
        ColumnElement,
        Select,
        SQLColumnExpression,
        and_,
        literal,
        or_,
        tuple_,
    )
except ImportError as missing:
    raise ImportError(
        "cursorkit.adapters.sqlalchemy needs SQLAlchemy: pip install 'cursorkit[sqlalchemy]'",
        name="sqlalchemy",
    ) from missing

__all__ = ["apply"]

SelectT = TypeVar("SelectT", bound=Select[Any])


def apply(statement: SelectT, plan: KeysetPlan, *columns: SQLColumnExpression[Any]) -> SelectT:
    """Return the statement that fetches the rows of a plan, for `KeysetPaginator.finish`.

    Args:
        statement: Selects the whole list. Its own order, limit and offset are replaced.
        plan: Of `KeysetPaginator.plan`.
        columns: What each sort key of the paginator's order is in the database, in that order:
            columns, mapped attributes or expressions.

    Raises:
        ConfigurationError: If there are not as many columns as sort keys, one is no column, or one
            may be NULL and its sort key does not say where NULL stands: a comparison would drop
            such rows in silence. Only a `Column` is known to be nullable; of an expression or an
            outer join you must know it yourself.
    """
    if len(columns) != len(plan.order):
        raise ConfigurationError(
            f"apply was given {len(columns)} columns for {len(plan.order)} sort keys"
        )
    elements = [_element(column, part) for column, part in zip(columns, plan.order, strict=True)]
    if plan.after is not None:
        statement = statement.where(_comes_after(elements, plan.order, plan.after))
    ordered = [_ordered(element, part) for element, part in zip(elements, plan.order, strict=True)]
    return statement.order_by(None).order_by(*ordered).limit(plan.fetch).offset(None)


def _element(column: SQLColumnExpression[Any], part: SortKey) -> ColumnElement[Any]:
    if not isinstance(column, SQLColumnExpression):
        raise ConfigurationError(
            f"{part.name} is a {type(column).__name__}; give apply a column, not its name"
        )
    element = cast("ColumnElement[Any]", column).expression  # of a mapped attribute, its column
    if part.nulls is None and isinstance(element, Column) and element.nullable:
        raise ConfigurationError(
            f"the column of {part.name} is nullable, and rows where it is NULL would be dropped;"
            ' declare it with nulls="first" or "last", or make the column NOT NULL'
        )
    return element


def _ordered(column: ColumnElement[Any], part: SortKey) -> ColumnElement[Any]:
    ordered = column.desc() if part.descending else column.asc()
    if part.nulls is None:
        return ordered  # as an index has it
    return ordered.nulls_first() if part.nulls == "first" else ordered.nulls_last()


def _comes_after(
    columns: Sequence[ColumnElement[Any]],
    order: Sequence[SortKey],
    values: Sequence[KeysetValue],
) -> ColumnElement[bool]:
    if len({part.descending for part in order}) == 1 and all(part.nulls is None for part in order):
        # One comparison of row values: the database finds the place in an index in one step.
        left = tuple_(*columns)
        right = tuple_(*map(_literal, columns, values))
        return left < right if order[0].descending else left > right
    ways: list[ColumnElement[bool]] = []
    tied: list[ColumnElement[bool]] = []
    for column, part, value in zip(columns, order, values, strict=True):
        ways += [and_(*tied, way) for way in _beyond(column, part, value)]
        tied.append(column.is_(None) if value is None else column == _literal(column, value))
    after = or_(*ways)
    first, value = order[0], values[0]
    if value is None or first.nulls == "last":
        return after
    # Implied, but it lets the database begin at the place: it cannot see through the OR.
    bound = _literal(columns[0], value)
    return and_(columns[0] <= bound if first.descending else columns[0] >= bound, after)


def _beyond(
    column: ColumnElement[Any], part: SortKey, value: KeysetValue
) -> list[ColumnElement[bool]]:
    """Return how a row stands after a value in one sort key: in any of these ways."""
    if value is None:
        return [column.is_not(None)] if part.nulls == "first" else []
    bound = _literal(column, value)
    beyond = [column < bound if part.descending else column > bound]
    return [*beyond, column.is_(None)] if part.nulls == "last" else beyond


def _literal(column: ColumnElement[Any], value: KeysetValue) -> ColumnElement[Any]:
    # Of the column's type, so that it is sent as a stored value would be; True needs it as well.
    return literal(value, column.type)
