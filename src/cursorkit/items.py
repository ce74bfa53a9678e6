"""Items of a list to bytes and back, for snapshots.

A page returns what `decode` gives, the first page too, so that every page of a walk has the same
types whichever node serves it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgpack

from cursorkit.errors import SourceError, StoreDataError

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

    A tuple comes back as a list and an int key as text; NaN and infinities are refused; ints of any
    size, floats and unicode are exact. Members keep their order.
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
            raise SourceError(f"an item cannot be encoded as JSON: {_kind(error)}") from None

    def decode(self, data: bytes, /) -> Any:
        """Return the item."""
        try:
            return json.loads(data)
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

    Args:
        model: The items' type, for example a `BaseModel` subclass or a union of them.
    """

    name: str = "model"

    def __init__(self, model: type[T]) -> None:
        # Imported here, so that `import cursorkit` stays light.
        from pydantic import TypeAdapter  # noqa: PLC0415

        self._adapter: TypeAdapter[T] = TypeAdapter(model)

    def encode(self, item: T, /) -> bytes:
        """Return the item as JSON, its fields by alias."""
        try:
            data = self._adapter.dump_json(item, by_alias=True, warnings="error")
            # pydantic writes what it would not read: None, a NaN as null, a model without a field.
            self._adapter.validate_json(data)
            return data
        except (TypeError, ValueError, RecursionError) as error:
            raise SourceError(f"an item cannot be encoded as its model: {_kind(error)}") from None

    def decode(self, data: bytes, /) -> T:
        """Return the item, validated."""
        try:
            return self._adapter.validate_json(data)
        except ValueError:
            raise StoreDataError("a stored item does not fit its model") from None


def _kind(error: Exception) -> str:
    # The error's own text may hold the item.
    return type(error).__name__
