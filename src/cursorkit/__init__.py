"""Signed cursors and snapshot pagination for servers that list things."""

from cursorkit.binding import Binding
from cursorkit.codecs.base import CursorCodec, DecodedCursor
from cursorkit.codecs.expiring import ExpiringCodec
from cursorkit.codecs.fallback import FallbackCodec
from cursorkit.codecs.offset import OffsetCodec
from cursorkit.codecs.sealed import SealedCodec
from cursorkit.codecs.signed import SignedCodec
from cursorkit.errors import (
    ConfigurationError,
    CursorError,
    CursorkitError,
    EncodingError,
    ExpiredCursorError,
    InvalidCursorError,
    NotFound,
    NotRegistered,
    SnapshotLostError,
    SourceError,
    StoreDataError,
    StoreError,
    StoreUnavailableError,
    WalkError,
)
from cursorkit.items import ItemEncoding, JsonItems, ModelItems, MsgpackItems
from cursorkit.keys import Key, KeyRing
from cursorkit.paginators.keyset import KeysetPaginator, asc, desc
from cursorkit.paginators.offset import OffsetPaginator
from cursorkit.paginators.page import Page
from cursorkit.paginators.snapshot import SnapshotPaginator
from cursorkit.positions import Keyset, Offset, Opaque, SnapshotOffset
from cursorkit.stores.base import SnapshotStore, StoredObject
from cursorkit.stores.memory import MemoryStore

__all__ = [
    "Binding",
    "ConfigurationError",
    "CursorCodec",
    "CursorError",
    "CursorkitError",
    "DecodedCursor",
    "EncodingError",
    "ExpiredCursorError",
    "ExpiringCodec",
    "FallbackCodec",
    "InvalidCursorError",
    "ItemEncoding",
    "JsonItems",
    "Key",
    "KeyRing",
    "Keyset",
    "KeysetPaginator",
    "MemoryStore",
    "ModelItems",
    "MsgpackItems",
    "NotFound",
    "NotRegistered",
    "Offset",
    "OffsetCodec",
    "OffsetPaginator",
    "Opaque",
    "Page",
    "SealedCodec",
    "SignedCodec",
    "SnapshotLostError",
    "SnapshotOffset",
    "SnapshotPaginator",
    "SnapshotStore",
    "SourceError",
    "StoreDataError",
    "StoreError",
    "StoreUnavailableError",
    "StoredObject",
    "WalkError",
    "asc",
    "desc",
]
