"""Pages of a live list by sort key: what comes after an item, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Final, Literal, TypeAlias, TypeVar
from uuid import UUID

from cursorkit.binding import Binding, ParamValue
from cursorkit.checks import check_int
from cursorkit.codecs.base import CursorCodec
from cursorkit.errors import ConfigurationError, EncodingError, SourceError
from cursorkit.paginators.page import Page
from cursorkit.positions import MAX_PAGE_SIZE, Keyset, KeysetValue

__all__ = ["KeysetPaginator", "KeysetPlan", "Nulls", "SortKey", "asc", "desc"]

T = TypeVar("T")

Nulls: TypeAlias = Literal["first", "last"]
"""Where None stands among the values of a sort key."""

_TYPES: Final = (bool, int, float, str, bytes, Decimal, date, datetime, UUID)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One of the things that a list is ordered by. Made by `asc` and `desc`.

    Attributes:
        name: What it is called.
        descending: Whether great values come first.
        nulls: Where None stands; None if the value is never None.
        value_type: The exact type of its values; None if that is not checked.

    Raises:
        ConfigurationError: If an argument is anything else.
    """

    name: str
    descending: bool
    nulls: Nulls | None = None
    value_type: type[KeysetValue] | None = None

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise ConfigurationError("a sort key is named by a str that is not empty")
        if self.nulls not in (None, "first", "last"):
            raise ConfigurationError(f'nulls of {self.name} is neither "first" nor "last"')
        if self.value_type not in (None, *_TYPES):
            allowed = ", ".join(each.__name__ for each in _TYPES)
            raise ConfigurationError(f"the type of {self.name} is none of {allowed}")

    def reversed(self) -> SortKey:
        """Return the sort key of the list read backwards."""
        nulls: dict[Nulls | None, Nulls] = {"first": "last", "last": "first"}
        return SortKey(self.name, not self.descending, nulls.get(self.nulls), self.value_type)


def asc(
    name: str, value_type: type[KeysetValue] | None = None, *, nulls: Nulls | None = None
) -> SortKey:
    """Return a sort key with small values first.

    Args:
        name: What it is called, for example the column. Cursors are bound to it.
        value_type: The exact type of its values (bool is not int, datetime is not date): a cursor
            or a row that holds another is refused. None checks nothing; then only the database
            notices when a column's type changes, or, like SQLite, does not.
        nulls: Where None stands, "first" or "last". Databases differ: say what the query says. Left
            out, the value is never None, and a row where it is None is refused.

    Raises:
        ConfigurationError: If an argument is anything else.
    """
    return SortKey(name, False, nulls, value_type)


def desc(
    name: str, value_type: type[KeysetValue] | None = None, *, nulls: Nulls | None = None
) -> SortKey:
    """Return a sort key with great values first; see `asc`."""
    return SortKey(name, True, nulls, value_type)


@dataclass(frozen=True, slots=True)
class KeysetPlan:
    """What to ask the database for: the first `fetch` rows that stand after `after` in `order`.

    Attributes:
        order: The order to fetch in: that of the list, reversed for a page before another.
        after: One value for each sort key; None to begin at the start.
        fetch: The most rows to fetch: one more than a page, to learn whether any remain.
        backwards: Whether `order` is reversed.
        expires_at: When the walk ends, absolute Unix seconds; None on a first page, or if never.
        binding: What this list's cursors are bound to: the caller's binding and the order.
    """

    order: tuple[SortKey, ...]
    after: tuple[KeysetValue, ...] | None
    fetch: int
    backwards: bool = False
    expires_at: int | None = None
    binding: Binding = field(kw_only=True)


class KeysetPaginator:
    """Pages of a live list by the sort key of a page's last item; nothing is stored.

    The caller asks the database, so any database will do::

        plan = keyset.plan(cursor, binding)
        rows = ...  # the first plan.fetch rows after plan.after in plan.order
        page = keyset.finish(plan, rows, key=lambda row: (row.created, row.id))

    or, with SQLAlchemy, ``rows = session.execute(apply(statement, plan, Row.created, Row.id))``.

    A row that keeps its key during a walk is seen exactly once, whatever is inserted, deleted or
    updated meanwhile, the row that the cursor was made from included. A row whose key changes may
    be missed or seen twice: order by what does not change, or use `SnapshotPaginator`.

    The database alone compares values; here they are compared for being the same. So a value must
    go back to the database as it came from there: no rounded timestamps, no text for numbers.

    Args:
        codec: Mints and reads the cursors; it must authenticate.
        order: What the list is ordered by. All sort keys together are unique, which the last one,
            never None, usually ensures alone.
        page_size: Items a page, 1 to 10,000.

    Raises:
        ConfigurationError: If the codec does not authenticate, the order is empty, names a sort key
            twice or ends with one that may be None, or `page_size` is out of range.
    """

    def __init__(
        self, codec: CursorCodec, order: Sequence[SortKey], *, page_size: int = 50
    ) -> None:
        if not codec.authenticates:
            raise ConfigurationError(
                f"KeysetPaginator was given {type(codec).__name__}, whose cursors anyone can make,"
                " with any value for the database; give it SignedCodec or SealedCodec"
            )
        self._codec = codec
        self._order = _check_order(order)
        self._bound_order: list[ParamValue] = [
            [part.name, "desc" if part.descending else "asc", part.nulls] for part in self._order
        ]
        self._page_size = check_int("page_size", page_size, 1, MAX_PAGE_SIZE)

    def plan(
        self, cursor: str | None, binding: Binding, *, page_size: int | None = None
    ) -> KeysetPlan:
        """Return what to ask the database for.

        Args:
            cursor: None for the first page; "" is a cursor, and an invalid one.
            binding: What the cursors belong to. The order is added to it.
            page_size: Overrides the paginator's.

        Raises:
            CursorError: If the cursor is refused; also an authentic one whose values do not fit
                the order.
            ConfigurationError: If `page_size` is out of range.
        """
        size = self._page_size
        if page_size is not None:
            size = check_int("page_size", page_size, 1, MAX_PAGE_SIZE)
        binding = self._bound(binding)
        if cursor is None:
            return KeysetPlan(self._order, None, size + 1, binding=binding)
        decoded = self._codec.decode(cursor, binding)
        backwards, *values = decoded.expect(Keyset).values
        if type(backwards) is not bool or _misfit(self._order, values) is not None:
            raise decoded.refusal("kind")
        order = self._order
        if backwards:
            order = tuple(part.reversed() for part in order)
        return KeysetPlan(
            order, tuple(values), size + 1, backwards, decoded.expires_at, binding=binding
        )

    def finish(
        self,
        plan: KeysetPlan,
        rows: Iterable[T],
        *,
        key: Callable[[T], tuple[KeysetValue, ...]],
    ) -> Page[T]:
        """Return the page that the fetched rows make.

        Its `previous_cursor` leads to the page before, with the items in the list's own order, and
        may find it empty: what stood there can be deleted. An empty page has no cursors.

        Args:
            plan: What was asked for.
            rows: What the database answered, in its order.
            key: Returns a row's value for each sort key of the paginator's order.

        Raises:
            SourceError: If the rows cannot be the answer, or cannot be paged: a key does not fit
                the order, is None where that is not declared, or cannot be in a cursor; two rows
                have one key; or the row that the page should start after is in it.
        """
        items = list(rows)
        keys = [self._key(number, key(row)) for number, row in enumerate(items)]
        if any(one == other for one, other in pairwise(keys)):
            raise SourceError("two rows have one key: the last sort key is not unique")
        if plan.after in keys:
            raise SourceError(
                "the row that the page should start after is in it: the query does not exclude it,"
                " or the database does not compare the key's values as it keeps them"
            )
        size = plan.fetch - 1
        more = len(items) > size
        items, keys = items[:size], keys[:size]
        if not items:
            return Page([])
        if plan.backwards:
            items.reverse()
            keys.reverse()
        after = self._mint(plan, False, keys[-1]) if more or plan.backwards else None
        further = more if plan.backwards else plan.after is not None
        before = self._mint(plan, True, keys[0]) if further else None
        expires_at = plan.expires_at
        if plan.after is None and after is not None:
            # The codec may have given it an expiry, and it alone knows which.
            expires_at = self._codec.decode(after, plan.binding).expires_at
        return Page(items, after, expires_at, previous_cursor=before)

    def _bound(self, binding: Binding) -> Binding:
        # The caller's params go in as one value: none of their names can meet the order's.
        params = {"order": self._bound_order, "params": binding.pieces()["params"]}
        return binding.replace(params=params)

    def _key(self, number: int, values: tuple[KeysetValue, ...]) -> tuple[KeysetValue, ...]:
        if not isinstance(values, tuple):
            raise SourceError(f"the key of a row is a tuple, not {type(values).__name__}")
        problem = _misfit(self._order, values)
        if problem is None:
            try:
                return Keyset(values).values
            except EncodingError as error:
                problem = str(error)
        raise SourceError(f"the key of row {number} cannot be in a cursor: {problem}")

    def _mint(self, plan: KeysetPlan, backwards: bool, values: tuple[KeysetValue, ...]) -> str:
        position = Keyset((backwards, *values))
        try:
            return self._codec.encode(position, plan.binding, expires_at=plan.expires_at)
        except EncodingError as error:
            problem = str(error)
        raise SourceError(f"the key of a row cannot be in a cursor: {problem}")


def _check_order(order: Sequence[SortKey]) -> tuple[SortKey, ...]:
    order = tuple(order) if isinstance(order, Sequence) else ()
    if not order or not all(isinstance(part, SortKey) for part in order):
        raise ConfigurationError('order is made of asc("...") and desc("..."), at least one')
    names = [part.name for part in order]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"order names a sort key twice: {', '.join(names)}")
    if order[-1].nulls is not None:
        raise ConfigurationError(
            f"the last sort key, {names[-1]}, may be None and so cannot be unique; add one that is"
            ' unique, for example asc("id")'
        )
    return order


def _misfit(order: Sequence[SortKey], values: Sequence[object]) -> str | None:
    """Return why the values are not those of the order, None if they may be."""
    if len(values) != len(order):
        return f"it has {len(values)} values for {len(order)} sort keys"
    for part, value in zip(order, values, strict=True):
        if value is None:
            if part.nulls is None:
                return f'{part.name} is None; declare it with nulls="first" or "last"'
        elif part.value_type is not None and type(value) is not part.value_type:
            return f"{part.name} is {type(value).__name__}, not {part.value_type.__name__}"
    return None
