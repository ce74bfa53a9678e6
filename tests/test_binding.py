"""A binding is one string of bytes: no two bindings that differ share it."""

from __future__ import annotations

import copy
import enum
import itertools
import math
import pickle
import re
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cursorkit import Binding, ConfigurationError, EncodingError, Offset, OffsetCodec
from cursorkit.binding import check_binding, pae
from tests import independent
from tests.strategies import FIELDS, binding_arguments, param_values

EVERY: dict[str, Any] = {
    "purpose": "tools/list",
    "audience": "catalog",
    "partition": b"\x00tenant",
    "principal": "alice",
    "protocol_version": "2026-07-28",
    "locale": "en",
    "auth_epoch": "é",
    "params": {"filter": "a"},
}


class Count(enum.IntEnum):
    ONE = 1


class Label(enum.StrEnum):
    A = "a"


class Real(float):
    pass


def data(**arguments: Any) -> bytes:
    """Return the associated data of a binding."""
    given: dict[str, Any] = {"purpose": "tools/list", **arguments}
    return Binding(**given).associated_data


def of_params(params: Any) -> bytes:
    """Return the associated data of a binding with these params."""
    return data(params=params)


# The bytes.


def test_pae_gives_pasetos_own_examples() -> None:
    """The encoding is PASETO's, with the examples of its specification."""
    assert pae([]) == bytes(8)
    assert pae([b""]) == b"\x01" + bytes(7) + bytes(8)
    assert pae([b"test"]) == b"\x01" + bytes(7) + b"\x04" + bytes(7) + b"test"
    assert pae(iter([b"a", b"bc"])) == independent.pae(b"a", b"bc")


def test_the_associated_data_of_a_full_binding() -> None:
    """Eight pieces in the order of the format, each with its presence byte and length before it."""
    pieces = (
        b"\x01tools/list",
        b"\x01catalog",
        b"\x01\x00tenant",
        b"\x01alice",
        b"\x012026-07-28",
        b"\x01en",
        b"\x01\xc3\xa9",
        b"\x01" + independent.pae(b"filter", b"\xa1a"),
    )
    assert data(**EVERY) == independent.pae(*pieces)
    assert Binding(**EVERY).pieces() == dict(zip(EVERY, pieces, strict=True))


def test_the_associated_data_of_a_bare_binding() -> None:
    """Every field that is absent is one zero byte."""
    assert data() == independent.pae(b"\x01tools/list", *[b"\x00"] * 7)
    assert Binding("").pieces()["purpose"] == b"\x01"


@given(binding_arguments())
def test_the_associated_data_is_that_of_the_description(arguments: dict[str, Any]) -> None:
    """An encoder written from the format's description gives the same bytes."""
    assert Binding(**arguments).associated_data == independent.associated_data(**arguments)


@given(binding_arguments())
def test_pieces_are_those_of_the_associated_data(arguments: dict[str, Any]) -> None:
    """The pieces, in their order, make the associated data."""
    binding = Binding(**arguments)
    assert list(binding.pieces()) == [*FIELDS, "params"]
    assert pae(binding.pieces().values()) == binding.associated_data


def canonical(value: Any) -> Any:
    """Return what must tell two arguments apart: types, text as bytes, maps without an order."""
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return ("map", sorted((name, canonical(member)) for name, member in members.items()))
    if isinstance(value, list):
        return ("array", [*map(canonical, cast("Sequence[Any]", value))])
    return (type(value).__name__, repr(value))


def canonical_arguments(arguments: dict[str, Any]) -> Any:
    """Return what must tell two bindings apart: in a field, text is its UTF-8 bytes."""
    texts = [arguments.get(name) for name in FIELDS]
    as_bytes = [value.encode() if isinstance(value, str) else value for value in texts]
    return as_bytes, canonical(arguments.get("params") or {})


@given(binding_arguments(), binding_arguments())
def test_the_associated_data_is_injective(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Two bindings have the same bytes exactly if every field is the same."""
    same = canonical_arguments(first) == canonical_arguments(second)
    assert (Binding(**first).associated_data == Binding(**second).associated_data) is same
    assert (Binding(**first) == Binding(**second)) is same


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_pae_is_injective(first: list[bytes], second: list[bytes]) -> None:
    """No two lists of pieces give the same bytes."""
    assert (pae(first) == pae(second)) is (first == second)


@given(param_values(), param_values())
def test_param_values_are_told_apart(first: Any, second: Any) -> None:
    """Two params have the same bytes exactly if they are the same in type and value."""
    same = canonical(first) == canonical(second)
    assert (of_params({"a": first}) == of_params({"a": second})) is same


@pytest.mark.parametrize("name", FIELDS[1:])
def test_absent_empty_and_zero_are_three_things(name: str) -> None:
    """None is the same as not given, and differs from "", b"\\x00" and every other value."""
    assert data(**{name: None}) == data()
    values = [data(**{name: value}) for value in (None, "", "\x00", "0", "None", b"\x01")]
    assert len(set(values)) == len(values)


def test_a_border_between_fields_cannot_be_moved() -> None:
    """Neighbours that spell the same text together are different bindings."""
    seen: set[bytes] = set()
    for left, right in itertools.pairwise(FIELDS):
        for border in range(4):
            seen.add(data(**{left: "abc"[:border], right: "abc"[border:]}))
        seen.add(data(**{left: "abc"}))
        if right != "purpose":
            seen.add(data(**{right: "abc"}))
    # A field alone is written twice where it is a right and then a left neighbour.
    assert len(seen) == 6 * 4 + 7


def test_text_is_its_utf_8_bytes_and_nothing_is_normalised() -> None:
    """Bytes are taken as they are; composed, decomposed, padded and recased texts differ."""
    assert data(principal="é") == data(principal="é".encode())
    texts = ["é", "e\u0301", "É", " é", "é\n", "\xe9\x00"]
    assert len({data(principal=text) for text in texts}) == len(texts)
    assert data(principal=Label.A) == data(principal="a")


@pytest.mark.parametrize("size", [0, 1, 127, 128, 254, 255, 256, 257, 65_536])
@pytest.mark.parametrize("value", ["a", "é", b"\xff"])
def test_the_length_of_a_text_is_that_of_its_bytes(size: int, value: str | bytes) -> None:
    """Texts of every length have the form of the description, in bytes and not in characters."""
    arguments: dict[str, Any] = dict.fromkeys(FIELDS, value * size)
    assert data(**arguments) == independent.associated_data(**arguments)


# Params.


def test_empty_params_are_absent() -> None:
    """A request without params and one with an empty object are the same request."""
    assert of_params({}) == of_params(None) == data()


def test_the_order_of_params_does_not_matter() -> None:
    """Names are bound in the order of their UTF-8 bytes, in nested maps too."""
    names = ["b", "a", "", "é", "z", "\uffff", "\U00010000"]
    nested = {name: {other: index for index, other in enumerate(names)} for name in names}
    turned = {
        name: {other: names.index(other) for other in reversed(names)} for name in sorted(names)
    }
    assert of_params(nested) == of_params(turned)
    assert of_params(nested) == independent.associated_data("tools/list", params=nested)
    assert of_params({"a": {"x": 1, "y": 2}}) == of_params({"a": {"y": 2, "x": 1}})
    assert of_params({"a": [1, 2]}) != of_params({"a": [2, 1]})


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        ([1, [2]], (1, (2,))),
        ({"x": 1}, MappingProxyType({"x": 1})),
        (1, Count.ONE),
        ("a", Label.A),
        (1.5, Real(1.5)),
    ],
)
def test_kinds_that_json_does_not_tell_apart_are_the_same(plain: Any, other: Any) -> None:
    """Tuples are arrays, mappings are maps, and enums and subclasses their plain values."""
    assert of_params({"a": plain}) == of_params({"a": other})


def test_values_that_python_calls_equal_are_told_apart() -> None:
    """True, 1, 1.0, "1", b"1", [1], 0.0 and -0.0 are different params."""
    values: list[Any] = [True, 1, 1.0, "1", b"1", [1], {"1": 1}, 0, 0.0, -0.0, False, None, "", []]
    values += [{}, [[]], [None], {"": None}]
    assert len({of_params({"a": value}) for value in values}) == len(values)


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 0.1, 5e-324, 1.7976931348623157e308])
def test_numbers_at_the_limits_are_bound(value: float) -> None:
    """Every int of 64 bits and every finite float has a canonical form."""
    assert of_params({"a": value}) == independent.associated_data("tools/list", params={"a": value})


WRAPS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda value: [value],
    "tuples": lambda value: (value,),
    "maps": lambda value: {"a": value},
}


def nested(depth: int, wrap: Callable[[Any], Any] = WRAPS["lists"]) -> Any:
    """Return a value within a list, or in what `wrap` makes, so many times."""
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def cyclic() -> Any:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        10**30,
        math.nan,
        math.inf,
        -math.inf,
        "\udc80",
        {"\udc80": 1},
        {1: 2},
        {b"a": 1},
        {None: 1},
        {"a", "b"},
        frozenset({1}),
        bytearray(b"a"),
        memoryview(b"a"),
        1j,
        object(),
        range(3),
        [[{"x": {1}}]],
        nested(65),
        cyclic(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_param_without_a_canonical_form_is_refused(value: Any) -> None:
    """What would be coerced, lost or looped over is an `EncodingError` that quotes nothing."""
    with pytest.raises(EncodingError) as caught:
        of_params({"a": value})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "\udc80" not in str(caught.value)


@pytest.mark.parametrize("name", [1, b"a", None, ("a",), "\udc80"])
def test_a_param_name_is_text(name: Any) -> None:
    """A name of another type, or with a lone surrogate, is refused."""
    with pytest.raises(EncodingError):
        of_params({name: 1})


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_params_may_be_nested_64_deep(wrap: Callable[[Any], Any]) -> None:
    """The deepest nesting that is allowed is bound, and the next one refused, maps like arrays."""
    assert of_params({"a": nested(64, wrap)}) != of_params({"a": nested(63, wrap)})
    with pytest.raises(EncodingError, match=r"^params are nested deeper than 64$"):
        of_params({"a": nested(65, wrap)})


@pytest.mark.parametrize("params", [5, "abc", [("a", 1)], {"a"}, object()])
def test_params_are_a_mapping(params: Any) -> None:
    """Params of another type are refused with the error of every bad binding."""
    with pytest.raises(EncodingError):
        Binding("tools/list", params=params)


# Fields.


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [1, True, 1.5, ["a"], {"a": 1}, bytearray(b"a"), object()])
def test_a_field_is_text_bytes_or_none(name: str, value: Any) -> None:
    """Nothing is coerced to text."""
    with pytest.raises(EncodingError) as caught:
        data(**{name: value})
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", FIELDS)
def test_a_lone_surrogate_is_refused_without_a_trace_of_the_text(name: str) -> None:
    """The error about a text that is not Unicode holds nothing of it, nor does its context."""
    with pytest.raises(EncodingError) as caught:
        data(**{name: "principal\udc80"})
    assert "principal" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


# The object.


def test_a_binding_shows_no_values() -> None:
    """`repr` and `str` name the fields that are present and nothing else."""
    assert repr(Binding(**EVERY)) == f"<Binding of {', '.join(EVERY)}>"
    assert str(Binding("secret", principal="alice")) == "<Binding of purpose, principal>"
    assert f"{Binding('secret', params={})}" == "<Binding of purpose>"


def test_a_binding_is_immutable() -> None:
    """No field can be set, added or deleted, and the params cannot be written to."""
    binding = Binding(**EVERY)
    before = binding.associated_data
    for name in (*EVERY, "associated_data", "extra"):
        with pytest.raises(AttributeError):
            setattr(binding, name, "x")
        with pytest.raises(AttributeError):
            delattr(binding, name)
    with pytest.raises(TypeError):
        cast("dict[str, Any]", binding.params)["filter"] = "b"
    assert binding.associated_data == before


def test_what_is_bound_is_what_the_params_were() -> None:
    """Params that change after the binding was made change neither its bytes nor its cursors."""
    members: list[Any] = [1]
    params: dict[str, Any] = {"a": members}
    binding = Binding("tools/list", params=params)
    cursor = OffsetCodec().encode(Offset(5), binding)
    same = Binding("tools/list", params={"a": [1]})
    members.append(cyclic())
    params["b"] = 2
    assert binding == same
    assert binding.pieces() == same.pieces()
    assert repr(binding) == repr(same)
    assert OffsetCodec().decode(cursor, binding).position == Offset(5)
    assert set(binding.params or ()) == {"a"}


def test_equal_bindings_have_equal_hashes() -> None:
    """Bindings are equal by their bytes, and to nothing else."""
    first = Binding("tools/list", principal="é", params={"a": 1, "b": 2})
    second = Binding("tools/list", principal="é".encode(), params={"b": 2, "a": 1})
    assert first == second
    assert hash(first) == hash(second)
    assert first != Binding("tools/list", principal="é")
    assert first != first.associated_data
    assert len({first, second}) == 1
    assert hash(first) != hash(Binding("tools/list", principal="é"))


def test_a_binding_can_be_copied_and_sent_to_another_process() -> None:
    """Copies have the bytes of the original."""
    binding = Binding("tools/list", principal="alice")
    assert copy.copy(binding) == binding
    assert pickle.loads(pickle.dumps(binding)) == binding  # noqa: S301  # our own bytes


@pytest.mark.parametrize("name", EVERY)
def test_replace_changes_one_field(name: str) -> None:
    """`replace` gives the binding that the same arguments with one change would give."""
    value: Any = {"other": 1} if name == "params" else "other"
    changed = Binding(**EVERY).replace(**{name: value})
    assert changed == Binding(**{**EVERY, name: value})
    assert changed != Binding(**EVERY)
    assert Binding(**EVERY).replace() == Binding(**EVERY)
    assert getattr(changed, name) == value


def test_fields_can_be_read() -> None:
    """Each argument is an attribute with the value that was given."""
    binding = Binding(**EVERY)
    assert {name: getattr(binding, name) for name in EVERY} == EVERY
    assert Binding("tools/list").params is None


SURROGATE = "text with a lone surrogate cannot be bound"
REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"purpose": None}, "a binding needs a purpose: the list, for example 'tools/list'"),
    (
        {"principal": 5, "locale": True},
        "a binding holds str, bytes or None, and params; principal is of type int,"
        " locale is of type bool",
    ),
    ({"locale": "\udc80"}, SURROGATE),
    ({"params": [("a", 1)]}, "params are a mapping, not list"),
    ({"params": {1: 2}}, "a name in params is text, not int"),
    ({"params": {"\udc80": 2}}, SURROGATE),
    ({"params": {"a": "\udc80"}}, SURROGATE),
    ({"params": {"a": 2**64}}, "an int in params must fit 64 bits"),
    ({"params": {"a": math.inf}}, "a float in params must be finite"),
    ({"params": {"a": {1}}}, "params hold JSON's types and bytes, not set"),
    ({"params": {str(n): 0 for n in range(1001)}}, "params hold more than 1000 values"),
    ({"params": {"a": [0] * 1000}}, "params hold more than 1000 values, nested ones included"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSALS)
def test_a_refusal_says_what_was_given_and_what_is_allowed(
    arguments: dict[str, Any], message: str
) -> None:
    """The message of an `EncodingError` names the rule and the type, never the value."""
    with pytest.raises(EncodingError, match=f"^{re.escape(message)}$"):
        data(**arguments)


@pytest.mark.parametrize("given", [None, "tools/list", {"purpose": "tools/list"}, Binding])
def test_what_is_no_binding_is_told_from_one(given: Any) -> None:
    """A binding passes; anything else is told by its type, with an example of a binding."""
    check_binding(Binding("tools/list"))
    with pytest.raises(ConfigurationError) as caught:
        check_binding(given)
    assert str(caught.value) == (
        f"binding is of type {type(given).__name__}; give a Binding, for example"
        " Binding('tools/list', principal=user, audience='catalog')"
    )


@pytest.mark.parametrize(
    "params",
    [
        {"a": [0] * 1000},
        {"a": [list[int]()] * 1000},
        {"a": {str(number): 0 for number in range(1000)}},
        {str(number): 0 for number in range(1001)},
        {"a": {str(number): 0 for number in range(100_000)}},
    ],
    ids=["flat", "nested", "map", "names", "long"],
)
def test_params_hold_at_most_1000_values(params: Any) -> None:
    """A client's params do not make a request dear."""
    with pytest.raises(EncodingError, match="1000 values"):
        Binding("tools/list", params=params)


@pytest.mark.parametrize(
    "params",
    [{"a": [0] * 999}, {str(n): 0 for n in range(1000)}, {"a": {str(n): 0 for n in range(999)}}],
    ids=["flat", "names", "map"],
)
def test_a_thousand_params_are_bound(params: Any) -> None:
    """The limit itself is allowed."""
    assert of_params(params) == independent.associated_data("tools/list", params=params)


def test_a_binding_with_params_can_be_copied_and_sent_to_another_process() -> None:
    """A copy binds the same bytes."""
    binding = Binding("tools/list", principal="alice", params={"filter": ["a"]})
    for other in (copy.deepcopy(binding), pickle.loads(pickle.dumps(binding))):  # noqa: S301  # ours
        assert other == binding
        assert other.params == {"filter": ["a"]}


def test_a_pickle_of_another_version_is_refused() -> None:
    """A binding with a field too few or too many is not taken for one with less in it."""
    make, arguments = Binding(**EVERY).__reduce__()
    assert make(*arguments) == Binding(**EVERY)
    for others in (arguments[:-1], (*arguments, "new")):
        with pytest.raises(ValueError, match="zip"):
            make(*others)


def test_a_field_of_another_type_is_named() -> None:
    """An int for a user's id is the likeliest mistake; its value is not shown."""
    principal: Any = 123456
    with pytest.raises(EncodingError, match="principal is of type int") as caught:
        Binding("tools/list", principal=principal)
    assert "123456" not in str(caught.value)


class Query(dict[str, Any]):
    """A multi-dict: what it iterates over has a name twice."""

    def items(self) -> Any:
        return [*super().items(), *super().items()]


@pytest.mark.parametrize("params", [Query(a=1), {"q": Query(a=1)}, {"q": [Query(a=1)]}])
def test_a_name_twice_in_params_is_refused(params: Any) -> None:
    """Which of two values counts is not for the binding to choose: either would bind the same."""
    with pytest.raises(EncodingError, match=r"^params have a name twice, .* give its values"):
        Binding("tools/list", params=params)
