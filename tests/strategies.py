"""Random positions and bindings."""

from __future__ import annotations

from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from cursorkit import Binding, Keyset, Offset, Opaque, SnapshotOffset
from cursorkit.positions import Position

FIELDS = (
    "purpose",
    "audience",
    "partition",
    "principal",
    "protocol_version",
    "locale",
    "auth_epoch",
)


def decimals() -> st.SearchStrategy[Decimal]:
    """Return decimals of every sign, digits and exponent that a keyset holds."""
    digits = st.lists(st.integers(0, 9), min_size=1, max_size=100).map(tuple)
    exponent = st.integers(-8, 8) | st.integers(-6144, 6144)
    return st.tuples(st.integers(0, 1), digits, exponent).map(Decimal)


def datetimes() -> st.SearchStrategy[Any]:
    """Return datetimes, naive and with every offset in whole seconds."""
    offset = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
    return st.datetimes(timezones=st.none() | offset)


def keyset_values() -> st.SearchStrategy[Any]:
    """Return values of every type that a keyset holds."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**1024) + 1, 2**1024 - 1),
        st.integers(-(2**65), 2**65),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=40),
        st.binary(max_size=40),
        decimals(),
        st.dates(),
        datetimes(),
        st.uuids(),
    )


def keysets() -> st.SearchStrategy[Keyset]:
    """Return keysets of one to five values."""
    return st.lists(keyset_values(), min_size=1, max_size=5).map(tuple).map(Keyset)


def offsets() -> st.SearchStrategy[Offset]:
    """Return offsets, small ones more often."""
    return st.builds(Offset, st.integers(0, 300) | st.integers(0, 2**53 - 1))


def positions() -> st.SearchStrategy[Position]:
    """Return positions of every kind."""
    return st.one_of(
        offsets(),
        keysets(),
        st.builds(
            SnapshotOffset,
            st.binary(min_size=32, max_size=32),
            st.integers(0, 2**53 - 1),
            st.integers(1, 10_000),
        ),
        st.builds(Opaque, st.binary(max_size=300)),
    )


def param_values() -> st.SearchStrategy[Any]:
    """Return values of params, nested ones too."""
    return st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5)
        | st.binary(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=6,
    )


def binding_arguments() -> st.SearchStrategy[dict[str, Any]]:
    """Return arguments of `Binding`, over few letters so that borders between fields matter."""
    short = st.text("ab\x00", max_size=3)
    value = st.none() | short | st.text(max_size=8) | st.binary(max_size=4)
    params = st.none() | st.dictionaries(short, param_values(), max_size=3)
    fields: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(FIELDS[1:], value)
    return st.fixed_dictionaries({"purpose": short}, optional={**fields, "params": params})


def bindings() -> st.SearchStrategy[Binding]:
    """Return bindings."""
    return binding_arguments().map(lambda arguments: Binding(**arguments))
