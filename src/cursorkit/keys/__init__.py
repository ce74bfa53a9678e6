"""Keys and key rings. ``python -m cursorkit.keys`` makes a ring and rotates its keys."""

from __future__ import annotations

import base64
import functools
import hmac
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self, cast, final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from cursorkit.errors import ConfigurationError

__all__ = ["Key", "KeyRing", "key_error"]

_MIN_SECRET_BYTES: Final = 32
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
# At most 32 characters: the text of a secret has 43 or more, so one that was put in the place of a
# name never passes for a name that may be shown.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


# What is wrong is returned as text and raised by the outermost function, after it has let go of the
# input: raised where it is found, an error would carry the input in its context or in its frames.
# A half-made `self` goes too: whoever prints the frames would trip over it.


def key_error(problem: str) -> ConfigurationError:
    """Return the error for a problem with keys; it names the command that mends it."""
    return ConfigurationError(f"{problem}; python -m cursorkit.keys makes and rotates key rings")


def _given(value: object) -> str:
    """Return the type and length of a value, never the value."""
    length = f" of length {len(value)}" if isinstance(value, str | bytes | bytearray) else ""
    return f"given: {type(value).__name__}{length}"


def _is_name(value: object) -> bool:
    return type(value) is str and _NAME.fullmatch(value) is not None


def _bad_name(name: object) -> str:
    return f"a name is 1 to 32 characters of A-Z a-z 0-9 . _ -; {_given(name)}"


def _bad_secret(secret: object) -> str:
    return (
        "a secret is at least 32 bytes, or their canonical base64url text without padding, at least"
        f" 43 characters; {_given(secret)}"
    )


def _to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _from_text(text: str) -> bytes | None:
    """Return the bytes that `text` is the one base64url spelling of, None if there are none."""
    if _BASE64URL.fullmatch(text) is None or len(text) % 4 == 1:
        return None
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return raw if hmac.compare_digest(_to_text(raw), text) else None


def _bytes_of(secret: object) -> bytes | None:
    """Return the secret's bytes, None if it is not allowed."""
    raw = _from_text(secret) if type(secret) is str else secret
    return raw if type(raw) is bytes and len(raw) >= _MIN_SECRET_BYTES else None


def _derive(secret: bytes, info: bytes, length: int, *, salt: bytes = b"cursorkit/1") -> bytes:
    """Return `length` bytes by HKDF-SHA-256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(secret)


class _Guarded:
    """Immutable and full of secrets: a copy is the object itself, and there are no pickles."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled, its secrets would go along;"
            " let the other process read CURSORKIT_KEYS or the file itself"
        )

    def __getstate__(self) -> NoReturn:
        self.__reduce__()


@final
class Key(_Guarded):
    """A secret, its public id and what is derived from it. Immutable; shows and pickles no secret.

    Args:
        secret: At least 32 bytes from a cryptographic random source. Bytes are taken as they are,
            text is canonical base64url without padding (RFC 4648 §5). Nothing else is coerced.
        name: What operators call it: 1 to 32 characters of ``A-Z a-z 0-9 . _ -``. By default the
            kid in hex.

    Raises:
        ConfigurationError: If the secret or the name is anything else.
    """

    __slots__ = ("_fingerprint_key", "_hmac_key", "_kid", "_name", "_secret", "_siv_key")

    def __init__(self, secret: bytes | str, *, name: str | None = None) -> None:
        raw = _bytes_of(secret)
        if raw is None:
            problem = _bad_secret(secret)
            del self, secret, name
            raise key_error(problem)
        if name is not None and not _is_name(name):
            problem = _bad_name(name)
            del self, secret, name, raw
            raise key_error(problem)
        self._secret = raw
        self._kid = _derive(raw, b"kid", 4)
        self._hmac_key = _derive(raw, b"hmac-sha256-128", 32)
        self._siv_key = _derive(raw, b"aes-256-siv", 64)
        self._fingerprint_key = _derive(raw, b"fingerprint", 32)
        self._name = self._kid.hex() if name is None else name

    @classmethod
    def generate(
        cls, *, name: str | None = None, random: Callable[[int], bytes] = os.urandom
    ) -> Key:
        """Return a key with a new secret of 32 bytes.

        Args:
            name: As for `Key`.
            random: Returns that many bytes from a cryptographic random source.

        Raises:
            ConfigurationError: If the name is not allowed, or `random` returns no 32 bytes.
        """
        return cls(random(_MIN_SECRET_BYTES), name=name)

    @property
    def name(self) -> str:
        """What operators call the key."""
        return self._name

    @property
    def kid(self) -> bytes:
        """The 4 bytes that name the key in a cursor. No secret."""
        return self._kid

    @property
    def hmac_key(self) -> bytes:
        """The 32 bytes that sign cursors. A secret."""
        return self._hmac_key

    @property
    def siv_key(self) -> bytes:
        """The 64 bytes that seal cursors. A secret."""
        return self._siv_key

    def fingerprint(self, data: bytes) -> bytes:
        """Return 4 bytes that stand for `data` in a log: equal for equal data, else meaningless."""
        return hmac.digest(self._fingerprint_key, data, "sha256")[:4]

    def __repr__(self) -> str:
        return f"<Key {self._name} kid={self._kid.hex()}>"


@final
class KeyRing(_Guarded):
    """The key that mints, and the keys whose cursors are still read. Immutable.

    A cursor's kid picks its key; the order of the verify-only keys means nothing.

    Args:
        primary: Mints every cursor.
        verify_only: Not yet primary, or no longer.

    Raises:
        ConfigurationError: If two keys share a secret, a kid or a name.
    """

    __slots__ = ("_by_kid", "_primary", "_verify_only")

    def __init__(self, primary: Key, *verify_only: Key) -> None:
        problem = _ring_problem((primary, *verify_only))
        if problem is not None:
            del self, primary, verify_only
            raise key_error(problem)
        self._primary = primary
        self._verify_only = verify_only
        self._by_kid = {key.kid: key for key in (primary, *verify_only)}

    @classmethod
    def from_env(
        cls, variable: str = "CURSORKIT_KEYS", *, environ: Mapping[str, str] | None = None
    ) -> KeyRing:
        """Read a ring from an environment variable, in the form that `to_json` writes.

        Args:
            variable: Its name.
            environ: Where it is looked up; None means `os.environ`.

        Raises:
            ConfigurationError: If it is not set or is no ring; says what is wrong in which entry.
        """
        text = (os.environ if environ is None else environ).get(variable)
        ring = "is not set" if text is None else _parse(text)
        if isinstance(ring, str):
            # A secret may stand where the variable's name belongs.
            shown = f" {variable}" if _is_name(variable) else ""
            del text, environ, variable
            raise key_error(f"the environment variable{shown} {ring}")
        return ring

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> KeyRing:
        """Read a ring from a file, in the form that `to_json` writes.

        Raises:
            ConfigurationError: If it cannot be read or is no ring; says what is wrong in which
                entry.
        """
        ring = _parse_file(Path(path))
        if isinstance(ring, str):
            # The path is not shown: the text of a ring may stand where it belongs.
            del path
            raise key_error(f"the key ring file {ring}")
        return ring

    @classmethod
    def ephemeral(cls, *, random: Callable[[int], bytes] = os.urandom) -> KeyRing:
        """Return a ring with one new key that nobody else has.

        Its cursors die with the process and are refused by every other one; the first call in a
        process warns of that with a `RuntimeWarning`.

        Args:
            random: As for `Key.generate`.
        """
        _warn_of_ephemeral_keys()
        return cls(Key.generate(name="ephemeral", random=random))

    @property
    def primary(self) -> Key:
        """The key that mints."""
        return self._primary

    @property
    def verify_only(self) -> tuple[Key, ...]:
        """The other keys."""
        return self._verify_only

    def find(self, kid: bytes) -> Key | None:
        """Return the key with this kid, None if the ring has none."""
        return self._by_kid.get(kid)

    def lint(self, new: KeyRing, *, waited: bool = False) -> list[str]:
        """Return why valid cursors would be refused if nodes went from this ring to `new`.

        While they change over, one after the other, both rings mint, and each must read what the
        other mints. Where a change begins before the last one is on every node, ask each ring that
        is still in use.

        Args:
            new: What each node gets next.
            waited: Whether every node has had this ring, and no other, for the longest ttl +
                quantum + clock skew: no cursor of a verify-only key lives then.

        Returns:
            A line for each key that is at fault, naming it; none if no cursor is refused.
        """
        problems: list[str] = []
        if not _holds(self, new.primary):
            problems.append(
                f"{new.primary} mints before every node reads it: add it as verify-only first"
            )
        if not _holds(new, self.primary):
            problems.append(f"{self.primary} still mints: promote another key before removing it")
        if not waited:
            problems += [
                f"{key} is removed while its cursors may live: wait for the longest ttl + quantum"
                " + clock skew after the last change is on every node"
                for key in self.verify_only
                if not _holds(new, key)
            ]
        return problems

    def to_json(self) -> str:
        """Return the ring as one line of JSON, **with every secret in it**, for a secret store.

        This is the only way in which a secret leaves a ring.
        """
        keys = {key.name: _to_text(_secret_of(key)) for key in self}
        return json.dumps({"primary": self._primary.name, "keys": keys})

    def __iter__(self) -> Iterator[Key]:
        return iter((self._primary, *self._verify_only))

    def __len__(self) -> int:
        return len(self._by_kid)

    def __repr__(self) -> str:
        verify_only = ", ".join(key.name for key in self._verify_only)
        return f"<KeyRing primary={self._primary.name} verify_only=[{verify_only}]>"


@functools.cache
def _warn_of_ephemeral_keys() -> None:
    warnings.warn(
        "ephemeral keys: cursors die with this process, and no other process reads them;"
        " python -m cursorkit.keys makes a key ring to share",
        RuntimeWarning,
        stacklevel=3,
    )


def _secret_of(key: Key) -> bytes:
    return key._secret  # pyright: ignore[reportPrivateUsage]  # never public, even as a method


def _holds(ring: KeyRing, key: Key) -> bool:
    return any(hmac.compare_digest(_secret_of(key), _secret_of(other)) for other in ring)


def _ring_problem(keys: Sequence[object]) -> str | None:
    seen: list[Key] = []
    for key in keys:
        if not isinstance(key, Key):
            return f"a key ring holds Key objects; {_given(key)}"
        for other in seen:
            if hmac.compare_digest(_secret_of(key), _secret_of(other)):
                return f"the keys {other.name} and {key.name} have the same secret"
            if key.kid == other.kid:
                return f"the keys {other.name} and {key.name} have the same kid: replace one"
            if key.name == other.name:
                return f"two keys have the name {key.name}"
        seen.append(key)
    return None


# The text form of a ring.


def _json_type(value: object) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "an array"
        case _:
            return "an object"


def _parse_file(path: Path) -> KeyRing | str:
    """Return the ring in a file, or what is wrong with the file."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "is not UTF-8"
    except ValueError:
        return "has a path that no file can have"
    return _parse(text)


def _parse(text: str) -> KeyRing | str:
    """Return the ring that `text` spells, or what is wrong with it."""
    from pydantic import BaseModel, ConfigDict, ValidationError  # noqa: PLC0415  # slow to import

    class Ring(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")

        primary: str
        keys: tuple[tuple[str, str], ...]

    if not text.strip():
        return "is empty"
    try:
        # An object becomes a tuple of pairs: a dict would hide a name that is there twice.
        parsed = json.loads(text, object_pairs_hook=tuple)
    except json.JSONDecodeError as error:
        return f"is not JSON at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError):
        return "is not JSON: nested too deep, or a number too long"
    if not isinstance(parsed, tuple):
        return f"must be a JSON object, not {_json_type(parsed)}"
    members = cast("tuple[tuple[str, object], ...]", parsed)
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        return 'has a member twice; allowed are "primary" and "keys", once each'
    try:
        ring = Ring.model_validate(dict(members))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return _shape_problem(first["type"], first["loc"], first["input"], names)
    return _build(ring.primary, ring.keys)


def _shape_problem(
    kind: str, location: tuple[int | str, ...], value: object, names: list[str]
) -> str:
    """Return in words of our own what pydantic found: its words quote the input."""
    match location:
        case ("primary" | "keys" as member,) if kind == "missing":
            return f'has no "{member}"'
        case ("primary",):
            return f'must have the name of a key as "primary", not {_json_type(value)}'
        case ("keys",):
            return f'must have an object as "keys", not {_json_type(value)}'
        case ("keys", int() as index, *_):
            where = f'has an error in entry {index + 1} of "keys"'
            return f"{where}: a secret is text, not {_json_type(value)}"
        case _:
            number = next(n for n, name in enumerate(names, 1) if name not in {"primary", "keys"})
            return f'has an unknown member, number {number}; allowed are "primary" and "keys"'


def _build(primary: str, entries: tuple[tuple[str, str], ...]) -> KeyRing | str:
    keys: dict[str, Key] = {}
    for number, (name, secret) in enumerate(entries, 1):
        where = f'has an error in entry {number} of "keys"'
        if not _is_name(name):
            return f"{where}: {_bad_name(name)}"
        if name in keys:
            return f"{where}: {name} is there twice"
        if _bytes_of(secret) is None:
            return f"{where}, {name}: {_bad_secret(secret)}"
        keys[name] = Key(secret, name=name)
    if primary not in keys:
        return f'must name one of its keys as "primary"; it has {", ".join(keys) or "none"}'
    problem = _ring_problem(list(keys.values()))
    if problem is not None:
        return f"has an error: {problem}"
    return KeyRing(keys.pop(primary), *keys.values())
