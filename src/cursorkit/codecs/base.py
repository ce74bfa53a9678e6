"""What a codec is, and what all codecs share: the text form, and decoding under a key ring."""

from __future__ import annotations

import binascii
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from logging import DEBUG, WARNING
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from cursorkit.binding import Binding, check_binding
from cursorkit.checks import check_int
from cursorkit.errors import (
    ConfigurationError,
    CursorError,
    EncodingError,
    ExpiredCursorError,
    InvalidCursorError,
    RefusalReason,
    SnapshotLostError,
)
from cursorkit.keys import Key, KeyRing
from cursorkit.positions import Position, decode_body, encode_body
from cursorkit.refusals import is_logged, log_minted, log_refused

__all__ = [
    "DEFAULT_MAX_LENGTH",
    "HEADER_BYTES",
    "TAG_BYTES",
    "CursorCodec",
    "DecodedCursor",
    "KeyedCodec",
    "check_codec",
    "check_max_length",
    "from_text",
    "suites_of",
    "to_text",
]

DEFAULT_MAX_LENGTH: Final = 4096
"""The longest cursor, in characters, that a codec mints or reads unless told otherwise."""

HEADER_BYTES: Final = 5
"""Suite and kid."""

TAG_BYTES: Final = 16

_BYTES: Final = frozenset(range(256))

PositionT = TypeVar("PositionT", bound=Position)


class CursorCodec(Protocol):
    """Positions to cursors and back, bound to what a `Binding` says."""

    @property
    def authenticates(self) -> bool:
        """True if a cursor that decodes is proved to be minted here and unaltered."""
        ...

    @property
    def max_ttl(self) -> float | None:
        """The longest life in seconds that the codec grants, None if it sets no limit."""
        ...

    def encode(self, position: Position, binding: Binding, *, expires_at: int | None = None) -> str:
        """Mint a cursor.

        Args:
            position: What the cursor shall denote.
            binding: What it belongs to.
            expires_at: Absolute Unix seconds, 1 to 2^53-1; a cursor is valid while
                ``now < expires_at``. None leaves it to the codec.

        Raises:
            EncodingError: If the codec would refuse the cursor: too long, a kind of position that
                it does not carry, an expiry out of range.
        """
        ...

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        """Return what the cursor denotes.

        Args:
            cursor: As the client sent it. "" is a cursor, and an invalid one.
            binding: What it must belong to.
            now: Unix seconds; None asks the codec's clock, once.

        Raises:
            InvalidCursorError: Malformed, unauthentic, or of another binding.
            ExpiredCursorError: Authentic, but ``now >= expires_at``.
        """
        ...


class DecodedCursor:
    """An accepted cursor.

    Attributes:
        position: What it denotes.
        expires_at: Absolute Unix seconds, None if it never expires.
    """

    __slots__ = ("_origin", "expires_at", "position")

    def __init__(
        self,
        position: Position,
        expires_at: int | None = None,
        origin: tuple[str, Binding, Key | None] | None = None,
    ) -> None:
        self.position = position
        self.expires_at = expires_at
        self._origin = origin

    def __repr__(self) -> str:
        return f"DecodedCursor({self.position!r}, expires_at={self.expires_at})"

    def expect(self, kind: type[PositionT]) -> PositionT:
        """Return the position if it is of this kind.

        Raises:
            InvalidCursorError: If it is another kind: a cursor of another paginator.
        """
        if type(self.position) is not kind:
            raise self.refusal("kind")
        return self.position

    def refusal(self, reason: RefusalReason) -> CursorError:
        """Return the error to raise when this authentic cursor is refused after all, and log it."""
        error = SnapshotLostError() if reason == "lost" else InvalidCursorError(reason)
        cursor, binding, key = self._origin or (None, None, None)
        if is_logged(WARNING):
            log_refused(error, cursor, binding, key, kid_known=key is not None)
        return error


def suites_of(codec: CursorCodec) -> frozenset[int]:
    """Return the suites whose cursors a codec reads: its `suites`; none if it does not say.

    Not in the protocol: only `FallbackCodec` needs it.
    """
    suites: Any = getattr(codec, "suites", None)
    if isinstance(suites, frozenset) and suites <= _BYTES:
        return cast("frozenset[int]", suites)
    return frozenset()


_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# "+" and "/" become blanks: they must not pass for what "-" and "_" become.
_TO_STANDARD: Final = bytes.maketrans(b"-_+/", b"+/  ")
_FROM_STANDARD: Final = bytes.maketrans(b"+/", b"-_")


def to_text(raw: bytes) -> str:
    """Return base64url without padding (RFC 4648 §5)."""
    return binascii.b2a_base64(raw, newline=False).translate(_FROM_STANDARD).rstrip(b"=").decode()


def from_text(cursor: object, max_length: int) -> bytes:
    """Return the bytes of a cursor's text, its type, length and alphabet checked in this order.

    Raises:
        InvalidCursorError: Unless `cursor` is the one text that `to_text` gives for its bytes.
    """
    if type(cursor) is not str:
        raise InvalidCursorError("type")
    if len(cursor) > max_length:
        raise InvalidCursorError("length")
    raw = None
    try:
        text = cursor.encode("ascii").translate(_TO_STANDARD)
        raw = binascii.a2b_base64(text + b"==")
    except ValueError:  # a character beyond ASCII, or a length that no bytes have
        text = b""
    # Lenient until here: what decides is that these bytes have this text and no other.
    if raw is None or binascii.b2a_base64(raw, newline=False).rstrip(b"=") != text:
        foreign = not cursor.isascii() or cursor.encode().translate(None, _LETTERS)
        raise InvalidCursorError("alphabet" if foreign else "encoding")
    return raw


def check_codec(codec: object, where: str) -> None:
    """Raise `ConfigurationError` for what is no codec: a key ring is the likeliest mistake."""
    if isinstance(codec, type) or not isinstance(getattr(codec, "authenticates", None), bool):
        what = codec.__name__ if isinstance(codec, type) else type(codec).__name__
        raise ConfigurationError(f"{where} was given {what}; give it a codec: SignedCodec(ring)")


def check_max_length(max_length: int) -> int:
    """Return `max_length` if it is an int from 64 to 1,048,576 characters.

    Raises:
        ConfigurationError: If it is anything else.
    """
    return check_int("max_length (characters of a cursor)", max_length, 64, 1024 * 1024)


class KeyedCodec(ABC):
    """What the codecs over a key ring share: the header, the order of checks, the expiry.

    A codec is immutable and may be shared by threads and event loops. Equal positions under equal
    bindings give equal cursors. To revoke a key, make a codec with another ring.

    Args:
        ring: Mints with its primary key, reads with any of its keys, found by kid.
        clock: Returns Unix seconds; asked once a decode, unless the caller gives `now`.
        max_length: The longest cursor minted or read, in characters.
    """

    authenticates: bool = True
    max_ttl: float | None = None

    _suite: ClassVar[bytes]

    def __init__(
        self,
        ring: KeyRing,
        *,
        clock: Callable[[], float] = time.time,
        max_length: int = DEFAULT_MAX_LENGTH,
    ) -> None:
        if not isinstance(ring, KeyRing):
            raise ConfigurationError(
                f"a codec needs a KeyRing, not {type(ring).__name__}; make one with"
                " KeyRing.from_env(), KeyRing.from_file() or `python -m cursorkit.keys`"
            )
        self._primary = ring.primary
        self._keys = {self._suite + key.kid: key for key in ring}
        self._header = self._suite + ring.primary.kid
        self._clock = clock
        self._max_length = check_max_length(max_length)

    def encode(self, position: Position, binding: Binding, *, expires_at: int | None = None) -> str:
        """Mint a cursor under the primary key.

        Raises:
            EncodingError: If the cursor would be too long, or `expires_at` is out of range.
            ConfigurationError: If `binding` is no `Binding`.
        """
        if type(binding) is not Binding:  # A call would cost each cursor.
            check_binding(binding)
        key = self._primary
        body = encode_body(position, expires_at)
        cursor = to_text(self._header + self._protect(key, binding, body))
        if len(cursor) > self._max_length:
            raise EncodingError(f"the cursor would be longer than {self._max_length} characters")
        if is_logged(DEBUG):
            log_minted(cursor, binding, key)
        return cursor

    def decode(self, cursor: str, binding: Binding, *, now: float | None = None) -> DecodedCursor:
        """Return what an authentic cursor denotes. An expiry that is present is enforced.

        Raises:
            InvalidCursorError: Malformed, unauthentic, or of another binding.
            ExpiredCursorError: Authentic, but its expiry has come.
            ConfigurationError: If `binding` is no `Binding`.
        """
        if type(binding) is not Binding:
            check_binding(binding)
        key = None
        try:
            raw = from_text(cursor, self._max_length)
            key = self._keys.get(raw[:HEADER_BYTES])
            if key is None or len(raw) <= HEADER_BYTES + TAG_BYTES:
                raise InvalidCursorError(self._unreadable(raw))
            body = self._verify(key, binding, raw[HEADER_BYTES:])
            if body is None:
                raise InvalidCursorError("tag")
            position, expires_at = decode_body(body)
            if expires_at is not None:
                now = self._clock() if now is None else now
                if not now < expires_at:  # Not `>=`: a clock that gives NaN refuses.
                    raise ExpiredCursorError
        except CursorError as error:
            if is_logged(WARNING):
                known = key is not None
                log_refused(error, cursor, binding, key or self._primary, kid_known=known)
            raise
        return DecodedCursor(position, expires_at, (cursor, binding, key))

    def _unreadable(self, raw: bytes) -> RefusalReason:
        if raw and raw[:1] != self._suite:
            return "suite"
        return "encoding" if len(raw) <= HEADER_BYTES + TAG_BYTES else "key"

    @property
    def suites(self) -> frozenset[int]:
        """The first byte of its cursors."""
        return frozenset(self._suite)

    @abstractmethod
    def _protect(self, key: Key, binding: Binding, body: bytes) -> bytes:
        """Return what follows the header: the body and its tag, in the suite's form."""

    @abstractmethod
    def _verify(self, key: Key, binding: Binding, protected: bytes) -> bytes | None:
        """Return the authentic body, or None if the tag is wrong."""
