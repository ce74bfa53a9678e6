"""The targets: each takes bytes, and raises if they bring out what must never happen."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hmac
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from redis import exceptions as driver
from redis.asyncio import Redis

from cursorkit import (
    Binding,
    ConfigurationError,
    CursorCodec,
    CursorError,
    ExpiringCodec,
    FallbackCodec,
    Key,
    KeyRing,
    OffsetCodec,
    SealedCodec,
    SignedCodec,
    StoredObject,
    StoreError,
)
from cursorkit.binding import pae
from cursorkit.catalogs.skills.frontmatter import FrontmatterError, parse_frontmatter
from cursorkit.catalogs.templates import UriTemplate
from cursorkit.catalogs.uris import check_uri, normal_form
from cursorkit.codecs.base import to_text
from cursorkit.snapshots import MissingObjectError, build, read
from cursorkit.stores.base import VerifiedBlobs, digest_of
from cursorkit.stores.redis import RedisStore

__all__ = ["NOW", "TARGETS"]

Target = Callable[[bytes], None]

NOW: Final = 1_800_000_000

_log: Final = logging.getLogger("cursorkit")
_log.addHandler(logging.NullHandler())
_log.propagate = False

_KEY: Final = Key(bytes(range(32)))
_RING: Final = KeyRing(_KEY, Key(bytes(range(100, 132))))
_BINDING: Final = Binding("tools/list", principal="alice", params={"tag": "new"})


def _clock() -> float:
    return NOW


_SIGNED: Final = SignedCodec(_RING, clock=_clock)
_SEALED: Final = SealedCodec(_RING, clock=_clock)
_CODECS: Final[Sequence[CursorCodec]] = (
    OffsetCodec(),
    _SIGNED,
    _SEALED,
    ExpiringCodec(_SIGNED, ttl=600, clock=_clock),
    FallbackCodec(_SEALED, _SIGNED),
)


# Cursors.


def raw(data: bytes) -> None:
    """Any text, to any codec: refused, or the one cursor of what it denotes."""
    codec = _CODECS[data[0] % len(_CODECS)] if data else _SIGNED
    _decode(codec, data[1:].decode("utf-8", "surrogateescape"))


def body(data: bytes) -> None:
    """Any body, signed or sealed with the key: refused, or the one form of a position."""
    sealed = bool(data) and data[0] % 2 == 1
    codec, suite = (_SEALED, b"\x12") if sealed else (_SIGNED, b"\x11")
    header, content = suite + _KEY.kid, data[1:]
    pieces = [b"cursorkit/1", header, _BINDING.associated_data]
    if sealed:
        protected = AESSIV(_KEY.siv_key).encrypt(content, [pae(pieces)])
    else:
        protected = content + hmac.digest(_KEY.hmac_key, pae([*pieces, content]), "sha256")[:16]
    error = _decode(codec, to_text(header + protected))
    assert error is None or error.reason in {"body", "expired", "length", "encoding"}


def _decode(codec: CursorCodec, cursor: str) -> CursorError | None:
    try:
        decoded = codec.decode(cursor, _BINDING)
    except CursorError as error:
        assert str(error) == "Invalid or expired cursor"
        assert error.__cause__ is None
        assert error.__context__ is None
        return error
    again = codec.encode(decoded.position, _BINDING, expires_at=decoded.expires_at)
    # Another header: of an older key, or of a suite that is only read.
    assert again == cursor or again[:6] != cursor[:6]
    return None


# What a store answers.


_LOOP: Final = asyncio.new_event_loop()

_BLOBS: Final = [b"I" + str(number).encode() for number in range(300)]
_TREE: Final = _LOOP.run_until_complete(build(_BLOBS, "json"))
_OBJECTS: Final = list(_TREE.objects())


class _Answers:
    """Replies made of bytes: each byte says what comes next. At the end, nil for ever."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def reply(self, depth: int = 3) -> object:
        """Return what redis-py might: of any type, an error too."""
        match self.byte() % 9:
            case 1:
                return self.byte() - 3
            case 2:
                return int.from_bytes(self.bytes(8), "big", signed=True)
            case 3:
                return self.bytes(self.byte())
            case 4:
                return _OBJECTS[-1 - self.byte()].blob
            case 5:
                return self.bytes(self.byte()).decode("latin-1")
            case 6 if depth:
                return [self.reply(depth - 1) for _ in range(self.byte() % 5)]
            case 7:
                return self.error()
            case 8:
                return bool(self.byte() % 2)
            case _:
                return None

    def error(self) -> Exception:
        """Return an error of its own: one that is raised again keeps the traces of all times."""
        return copy.copy(_ERRORS[self.byte() % len(_ERRORS)])

    def replies(self, count: int) -> Any:
        """Return as many replies as were asked for, more often than not."""
        match self.byte() % 8:
            case 1:
                return self.reply()
            case 2:
                count += self.byte() - 4
            case _:
                pass
        return [self.reply() for _ in range(count)]


_ERRORS: Final = (
    driver.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    driver.ResponseError("OOM command not allowed"),
    driver.NoPermissionError("NOPERM"),
    driver.ReadOnlyError("READONLY"),
    driver.ConnectionError("closed"),
    driver.TimeoutError("slow"),
    driver.InvalidResponse("what is this"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
    RuntimeError("of the driver"),
    OSError("of the system"),
    KeyError("of the driver"),
)


class _Client(Redis):
    """A client that answers without a server."""

    answers = _Answers(b"")

    async def execute_command(self, *args: Any, **_: Any) -> Any:
        return self._raised(self.answers.replies(len(args) - 1))

    def pipeline(self, *_: Any, **__: Any) -> Any:
        return _Pipeline(self.answers)

    @staticmethod
    def _raised(reply: Any) -> Any:
        if isinstance(reply, Exception):
            raise reply
        return reply


class _Pipeline:
    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._asked: list[Any] = []

    def execute_command(self, *args: Any) -> None:
        self._asked.append(args)

    async def execute(self, *, raise_on_error: bool) -> Any:
        assert not raise_on_error
        replies = [
            self._answers.replies(len(args) - 1) if args[0] == "MGET" else self._answers.reply()
            for args in self._asked
        ]
        if self._answers.byte() == 1:
            raise self._answers.error()
        return replies


_CLIENT: Final = _Client()


def replies(data: bytes) -> None:
    """Any replies of a server: an error of the store, nothing, or what was stored."""
    answers = _CLIENT.answers = _Answers(data)
    store = RedisStore(_CLIENT, namespace="fuzz", clock=_clock)
    match answers.byte() % 3:
        case 0:
            _LOOP.run_until_complete(_get(store, [answers.byte() for _ in range(4)]))
        case 1:
            _LOOP.run_until_complete(_put(store, answers.byte(), repair=answers.byte() % 2 == 1))
        case _:
            _LOOP.run_until_complete(_read(store, answers.byte(), answers.byte()))


async def _get(store: RedisStore, places: list[int]) -> None:
    wanted = [_OBJECTS[-1 - place].digest for place in places]
    try:
        blobs = await store.get(wanted)
    except StoreError:
        return
    assert len(blobs) == len(wanted)
    for digest, blob in zip(wanted, blobs, strict=True):
        assert blob is None or digest_of(blob) == digest


async def _put(store: RedisStore, count: int, *, repair: bool) -> None:
    kept: list[StoredObject] = _OBJECTS[: count % 4]
    with contextlib.suppress(StoreError):
        await store.put(kept, deadline=NOW + 600, repair=repair)


async def _read(store: RedisStore, offset: int, count: int) -> None:
    try:
        found = await read(store, _TREE.root, "json", offset, count)
    except (MissingObjectError, StoreError):
        return
    assert found.total == len(_BLOBS)
    assert list(found.payloads) == list(_TREE.slice(offset, count).payloads)


class _Liar:
    """A store whose blobs nobody checks, as if every hash were right."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self.asked = 0

    async def put(self, objects: Any, *, deadline: int, repair: bool = False) -> None:
        raise NotImplementedError

    async def get(self, digests: Sequence[bytes]) -> Sequence[bytes | None]:
        self.asked += 1
        answers = self._answers
        size = int.from_bytes(answers.bytes(2), "big")
        first = answers.bytes(size)
        return VerifiedBlobs(
            digests, [first, *(answers.bytes(answers.byte()) for _ in digests[1:])]
        )


def tree(data: bytes) -> None:
    """Any objects for a tree, their hashes taken for right: a loss, or a slice that fits."""
    offset, count = int.from_bytes(data[:3], "big"), 1 + int.from_bytes(data[3:4], "big")
    liar = _Liar(_Answers(data[4:]))
    try:
        found = _LOOP.run_until_complete(read(liar, bytes(32), "json", offset, count))
    except MissingObjectError:
        return
    finally:
        assert liar.asked <= 4  # a million items are three levels below a root
    assert len(found.payloads) == max(0, min(count, found.total - offset))


# URIs and their templates.


def uri(data: bytes) -> None:
    """Any text as a URI: none, or a normal form that is its own."""
    text = data.decode("utf-8", "surrogateescape")
    normal = normal_form(text)
    try:
        assert check_uri(text) == normal == text
    except ConfigurationError:
        assert normal != text
    if normal is not None:
        assert normal.isascii()
        assert normal_form(normal) == normal


def template(data: bytes) -> None:
    """Any template and URI: refused, no match, or values that expand to the URI again."""
    text, _, uri = data.decode("utf-8", "surrogateescape").partition("\0")
    try:
        found = UriTemplate(text)
    except ConfigurationError:
        return
    if len(text) <= 100:  # it takes the square of that
        assert found.overlaps(found)
    values = found.match(uri)
    if values is not None:
        assert tuple(values) == found.variables
        assert all(values.values())
        expanded = text
        for name, value in values.items():
            expanded = expanded.replace(f"{{{name}}}", quote(value, safe=""))
        assert found.match(expanded) == values


# Frontmatter.


def frontmatter(data: bytes) -> None:
    """Any bytes as a SKILL.md, or as the fields of one: refused, or what JSON can carry."""
    fields = data[1:] if data[:1] == b"-" else b"---\n" + data + b"\n---\n"
    try:
        found = parse_frontmatter(fields)
    except FrontmatterError:
        return
    assert isinstance(found["name"], str)
    text = json.dumps(found, allow_nan=False)
    assert json.dumps(json.loads(text)) == text


TARGETS: Final[dict[str, Target]] = {
    "raw": raw,
    "body": body,
    "replies": replies,
    "tree": tree,
    "uri": uri,
    "template": template,
    "frontmatter": frontmatter,
}
"""By name; the corpus of each is in ``corpus/NAME``."""
