"""Items come back as they were, or are refused when they are encoded; bad bytes never come back."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_serializer,
    field_validator,
)
from typing_extensions import TypedDict

from cursorkit.errors import ConfigurationError, SourceError, StoreDataError
from cursorkit.items import ItemEncoding, JsonItems, ModelItems, MsgpackItems
from cursorkit.positions import Offset


class Tool(BaseModel):
    name: str
    kind: Literal["tool"] = "tool"
    input_schema: dict[str, Any] = Field(default_factory=dict, alias="inputSchema")


class Prompt(BaseModel):
    name: str
    kind: Literal["prompt"] = "prompt"
    arguments: list[str] = []


class Row(TypedDict):
    id: int
    label: str


@dataclass
class Point:
    x: float
    y: float


JSON = JsonItems()
MSGPACK = MsgpackItems()
TOOLS = ModelItems(Tool)
ENCODINGS: list[ItemEncoding[Any]] = [JSON, MSGPACK, TOOLS]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)
MSGPACK_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT | st.integers(0, 9) | st.binary(max_size=3), inner, max_size=4)
    ),
)


def cyclic() -> list[Any]:
    """Return a list that holds itself."""
    loop: list[Any] = []
    loop.append(loop)
    return loop


def nested(depth: int) -> list[Any]:
    """Return lists within lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@given(JSON_VALUES)
def test_json_items_come_back_exactly(item: Any) -> None:
    """Whatever JSON can say is given back equal, type by type, and has one spelling."""
    data = JSON.encode(item)
    back = JSON.decode(data)
    assert repr(back) == repr(item)
    assert JSON.encode(back) == data


@given(MSGPACK_VALUES)
def test_msgpack_items_come_back_exactly(item: Any) -> None:
    """Whatever MessagePack can say, bytes and int keys included, is given back equal."""
    data = MSGPACK.encode(item)
    back = MSGPACK.decode(data)
    assert repr(back) == repr(item)
    assert MSGPACK.encode(back) == data


def test_a_legal_schema_with_odd_values_comes_back_exactly() -> None:
    """Ints beyond 64 bits, floats, unicode, long texts and the order of members are kept."""
    item = {
        "name": "z",
        "description": "ß🎉\u2028\x00" + "x" * 100_000,
        "inputSchema": {"maximum": 2**64, "minimum": -(10**40), "multipleOf": 1.55, "a": 1e-320},
    }
    back = JSON.decode(JSON.encode(item))
    assert back == item
    assert json.dumps(back) == json.dumps(item)


def test_json_items_are_compact_utf8() -> None:
    """No space is spent on separators or escapes: what goes on the wire is what is stored."""
    assert JSON.encode({"name": "ü", "tags": [1, 2]}) == '{"name":"ü","tags":[1,2]}'.encode()


def test_jsons_own_losses_are_the_documented_ones() -> None:
    """A tuple comes back as a list, an int key as text: on every page of a walk alike."""
    assert JSON.decode(JSON.encode({1: (2, 3)})) == {"1": [2, 3]}


@pytest.mark.parametrize(
    "item",
    [
        math.nan, math.inf, {"x": -math.inf}, b"bytes", {1, 2}, object(), "\ud800", 10**5000,
        datetime(2026, 1, 1, tzinfo=UTC), {(1, 2): 3}, Offset(1), cyclic(), nested(200_000),
        Point(1, 2), Tool(name="a"),
    ],
    ids=lambda item: type(item).__name__,
)  # fmt: skip
def test_what_json_cannot_say_is_refused(item: Any) -> None:
    """An item that would not come back is a `SourceError` when it is encoded."""
    with pytest.raises(SourceError):
        JSON.encode(item)


@pytest.mark.parametrize(
    "item",
    [
        (1, 2), {"x": (1,)}, {1, 2}, object(), "\ud800", 2**64, -(2**63) - 1, Offset(1), cyclic(),
        datetime(2026, 1, 1, tzinfo=UTC), nested(200_000), Point(1, 2), Tool(name="a"),
    ],
    ids=lambda item: type(item).__name__,
)  # fmt: skip
def test_what_messagepack_cannot_say_is_refused(item: Any) -> None:
    """Tuples, wide ints and foreign types are a `SourceError`, not something similar."""
    with pytest.raises(SourceError):
        MSGPACK.encode(item)


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=lambda each: each.name)
@pytest.mark.parametrize("depth", [1, 100, 510, 512, 900, 1023, 1024, 5000])
def test_nesting_is_given_back_or_refused(encoding: ItemEncoding[Any], depth: int) -> None:
    """An item nested however deep comes back, or fails with an error of cursorkit's own."""
    try:
        back = encoding.decode(encoding.encode(nested(depth)))
    except (SourceError, StoreDataError):
        assert depth > 510
    else:
        levels = 0
        while back:
            (back,), levels = back, levels + 1
        assert levels == depth


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (Tool, Tool(name="a", inputSchema={"maximum": 2**64})),
        (Point, Point(1.5, -0.0)),
        (Row, {"id": 1, "label": "ü"}),
        (dict[str, Any], {"any": [1, "thing"]}),
        (Tool | Prompt, Prompt(name="p", arguments=["a"])),
        (Tool | Prompt, Tool(name="p")),
    ],
)
def test_models_come_back_as_their_own_type(kind: Any, item: Any) -> None:
    """Models, dataclasses, TypedDicts and unions of them are given back equal."""
    encoding: ModelItems[Any] = ModelItems(kind)
    back = encoding.decode(encoding.encode(item))
    assert back == item
    assert type(back) is type(item)


def test_models_are_stored_by_their_aliases() -> None:
    """A field has the name that it has on the wire."""
    assert json.loads(TOOLS.encode(Tool(name="a", inputSchema={"x": 1})))["inputSchema"] == {"x": 1}


@pytest.mark.parametrize(
    "item", [{"name": "a"}, "a", 5, None, Tool.model_construct(), Tool.model_construct(name=1)]
)
def test_an_item_that_is_not_its_model_is_refused(item: Any) -> None:
    """An item of another type than was declared is a `SourceError`, not stored as it happens."""
    with pytest.raises(SourceError):
        TOOLS.encode(item)


def test_a_value_that_a_model_cannot_hold_is_refused() -> None:
    """What pydantic cannot write, or writes as something that it will not read, is refused."""
    with pytest.raises(SourceError):
        ModelItems(Point).encode(Point(math.nan, 0))
    with pytest.raises(SourceError):
        TOOLS.encode(Tool(name="a", inputSchema={"x": object()}))
    with pytest.raises(SourceError):
        TOOLS.encode(Tool(name="\ud800"))


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=lambda each: each.name)
def test_an_error_does_not_show_the_item(encoding: ItemEncoding[Any]) -> None:
    """The message says what is wrong with an item, not what is in it."""
    with pytest.raises(SourceError) as failure:
        encoding.encode({"name": "secret-name", "bad": {"secret-set"}})
    assert "secret" not in str(failure.value)
    assert "an item cannot be encoded" in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


# Truncated, foreign, of the wrong type, nested without end, and lengths that are lies.
NOT_JSON = [
    b"", b"{", b'{"name": "a"', b"\xff", b"[" * 200_000, b"\x91" * 100_000, b"nul", b"1 2",
    b"\xdd\xff\xff\xff\xff", bytes.fromhex("d81c81d81d00"), b"1" * 5000,
]  # fmt: skip
NOT_MSGPACK = [
    b"", b"\x92\x01", b"\xa5a", b"\xc1", b"\x01\x01", b"\x91" * 100_000, b"\x81\x90\x01",
    b"\xdd\xff\xff\xff\xff", bytes.fromhex("d81c81d81d00"), b"\xd6\xff\x00", b"\xa1\xff", b"null",
]  # fmt: skip
NOT_A_TOOL = [*NOT_JSON, b'{"name":1}', b'{"name":"a","kind":"prompt"}', b"[]", b"{}", b"null"]
BAD: list[tuple[ItemEncoding[Any], list[bytes]]] = [
    (JSON, NOT_JSON),
    (MSGPACK, NOT_MSGPACK),
    (TOOLS, NOT_A_TOOL),
]


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        pytest.param(encoding, data, id=f"{encoding.name}-{number}")
        for encoding, bad in BAD
        for number, data in enumerate(bad)
    ],
)
def test_bad_bytes_are_a_store_data_error(encoding: ItemEncoding[Any], data: bytes) -> None:
    """Bytes that the encoding did not make are refused; the message holds nothing of them."""
    with pytest.raises(StoreDataError) as failure:
        encoding.decode(data)
    assert failure.value.__suppress_context__
    assert len(str(failure.value)) < 50


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda each: each.name)
@given(data=st.binary(max_size=60))
def test_random_bytes_raise_nothing_else(encoding: ItemEncoding[Any], data: bytes) -> None:
    """No bytes whatever make a decoder raise anything but `StoreDataError`."""
    with contextlib.suppress(StoreDataError):
        encoding.decode(data)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda each: each.name)
def test_a_length_that_is_a_lie_allocates_nothing(encoding: ItemEncoding[Any]) -> None:
    """A header that claims four thousand million members is refused before any is allocated."""
    tracemalloc.start()
    try:
        for data in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"):
            with pytest.raises(StoreDataError):
                encoding.decode(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_encodings_have_names_of_their_own() -> None:
    """The names, which are part of every root, differ, are short and ASCII."""
    names = [encoding.name for encoding in ENCODINGS]
    assert names == ["json", "msgpack", "model"]


@given(JSON_VALUES)
def test_equal_items_have_equal_bytes_on_every_node(item: Any) -> None:
    """Two encoders, as two nodes have, give the same bytes for an item and its copy."""
    assert JsonItems().encode(copy.deepcopy(item)) == JSON.encode(item)


def test_msgpack_is_what_other_readers_read() -> None:
    """A stored item is plain MessagePack, with nothing of cursorkit's in it."""
    item = {"id": os.urandom(8), "n": [1, None, True]}
    assert msgpack.unpackb(MSGPACK.encode(item)) == item


class Tagged(BaseModel):
    tags: set[str]


class Ordered(BaseModel):
    tags: set[str]

    @field_serializer("tags")
    def sort(self, tags: set[str]) -> list[str]:
        return sorted(tags)


def test_a_model_with_a_set_is_refused() -> None:
    """Sets have another order in each process: equal lists would have different roots."""
    with pytest.raises(ConfigurationError, match="Tagged holds a set"):
        ModelItems(Tagged)
    item = Ordered(tags={"b", "a"})
    assert ModelItems(Ordered).encode(item) == b'{"tags":["a","b"]}'


def test_a_type_without_a_json_schema_may_be_an_item() -> None:
    """What a type's own serializer writes is its author's business."""

    def written(value: Any) -> str:
        return str(value)

    plain: Any = Annotated[Any, PlainSerializer(written), WithJsonSchema({"type": "string"})]
    without_schema: Any = Callable[[], None]
    assert ModelItems(plain).encode("a") == b'"a"'
    assert ModelItems(without_schema)


def test_a_validator_that_raises_is_the_lists_error() -> None:
    """Whatever a model's own code raises, it is the list that cannot be paged."""

    class Odd(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str) -> str:
            if name == "bad":
                raise KeyError(name)
            return name

    items = ModelItems(Odd)
    with pytest.raises(SourceError):
        items.encode(Odd.model_construct(name="bad"))
    with pytest.raises(StoreDataError):
        items.decode(b'{"name":"bad"}')
