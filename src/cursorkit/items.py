"""Items of a list to bytes and back, for snapshots.

A page returns what `decode` gives, the first page too, so that every page of a walk has the same
types whichever node serves it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgpack
from pydantic_core import from_json

from cursorkit.errors import ConfigurationError, SourceError, StoreDataError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["ItemEncoding", "JsonItems", "ModelItems", "MsgpackItems"]

T = TypeVar("T")


class ItemEncoding(Protocol[T]):
    """How items are stored. Equal items must give equal bytes on every node."""

    @property
    def name(self) -> str:
        """The encoding's name, ASCII, at most 64 characters; part of the root."""
        ...

    def encode(self, item: T, /) -> bytes:
        """Return the item's bytes.

        Raises:
            SourceError: If the item has none.
        """
        ...

    def decode(self, data: bytes, /) -> T:
        """Return the item.

        Raises:
            StoreDataError: If `data` is not what `encode` makes.
        """
        ...


class JsonItems:
    """Items as compact JSON: whatever `json` writes, with JSON's own losses.

    A tuple comes back as a list and an int key as text (of 1 and "1" in one mapping, the later one
    is left); NaN and infinities are refused; ints of any size, floats and unicode are exact.
    Members keep their order.
    """

    name: str = "json"

    def __init__(self) -> None:
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        self._to_text = encoder.encode

    def encode(self, item: Any, /) -> bytes:
        """Return the item as UTF-8 JSON."""
        try:
            return self._to_text(item).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SourceError(
                f"an item cannot be encoded as JSON ({_kind(error)}); for models give"
                " items=ModelItems(the model)"
            ) from None

    def decode(self, data: bytes, /) -> Any:
        """Return the item."""
        try:
            return from_json(data)
        except ValueError:
            pass  # Nested deeper than it goes, or no JSON at all.
        try:
            return json.loads(data.decode())
        except (ValueError, RecursionError):
            raise StoreDataError("a stored item is not JSON") from None


class MsgpackItems:
    """Items as MessagePack: bytes, int keys and 64-bit ints are exact; tuples are refused."""

    name: str = "msgpack"

    def encode(self, item: Any, /) -> bytes:
        """Return the item in MessagePack."""
        try:
            return msgpack.packb(item, strict_types=True)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SourceError(f"an item cannot be encoded as MessagePack: {_kind(error)}") from None

    def decode(self, data: bytes, /) -> Any:
        """Return the item."""
        try:
            return msgpack.unpackb(data, strict_map_key=False)
        except (TypeError, ValueError, RecursionError):
            raise StoreDataError("a stored item is not MessagePack") from None


class ModelItems(Generic[T]):
    """Items of one type that pydantic knows (a model, dataclass or TypedDict), as JSON.

    On Python 3.11 pydantic wants `typing_extensions.TypedDict`.

    Args:
        model: The items' type, for example a `BaseModel` subclass or a union of them. It must not
            hold sets: their order differs between processes, and with it the root of equal lists.

    Raises:
        ConfigurationError: If the model holds a set.
    """

    name: str = "model"

    def __init__(self, model: type[T]) -> None:
        # Imported here, so that `import cursorkit` stays light.
        from pydantic import TypeAdapter  # noqa: PLC0415

        self._adapter: TypeAdapter[T] = TypeAdapter(model)
        if _holds_set(self._adapter):
            name = getattr(model, "__name__", "the model")
            raise ConfigurationError(
                f"{name} holds a set, whose order differs between processes; give it a list or"
                " tuple, or a serializer that sorts it"
            )

    def encode(self, item: T, /) -> bytes:
        """Return the item as JSON, its fields by alias."""
        try:
            data = self._adapter.dump_json(item, by_alias=True, warnings="error")
            # pydantic writes what it would not read: None, a NaN as null, a model without a field.
            self._adapter.validate_json(data)
            return data
        except Exception as error:  # noqa: BLE001  # a model's own validators raise what they like
            raise SourceError(f"an item cannot be encoded as its model: {_kind(error)}") from None

    def decode(self, data: bytes, /) -> T:
        """Return the item, validated."""
        try:
            return self._adapter.validate_json(data)
        except Exception:  # noqa: BLE001  # a model's own validators raise what they like
            raise StoreDataError("a stored item does not fit its model") from None


def _holds_set(adapter: TypeAdapter[Any]) -> bool:
    from pydantic.errors import PydanticUserError  # noqa: PLC0415

    try:
        schema = json.dumps(adapter.json_schema(mode="serialization"), default=str)
    except PydanticUserError:
        return False  # A type without a JSON schema; what it writes is its author's business.
    return '"uniqueItems": true' in schema


def _kind(error: Exception) -> str:
    # The error's own text may hold the item.
    return type(error).__name__
