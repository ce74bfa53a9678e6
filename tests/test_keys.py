"""Keys and key rings: what is derived, what is accepted, and that no secret ever shows."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import itertools
import json
import logging
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cursorkit import keys
from cursorkit.errors import ConfigurationError
from cursorkit.keys import Key, KeyRing

SECRET: Final = bytes(range(32))
OTHER: Final = hashlib.sha256(b"other").digest()
THIRD: Final = hashlib.sha256(b"third").digest()
ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def reference_hkdf(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 by hand, on the standard library alone."""
    extracted = hmac.digest(salt, secret, "sha256")
    expanded = block = b""
    for counter in itertools.count(1):
        if len(expanded) >= length:
            return expanded[:length]
        block = hmac.digest(extracted, block + info + bytes([counter]), "sha256")
        expanded += block
    raise AssertionError


def library_hkdf(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return keys._derive(secret, info, length, salt=salt)  # pyright: ignore[reportPrivateUsage]


# How a secret would show: any eight characters in a row of any of its spellings.


def fragments(secret: bytes | str) -> set[str]:
    raw = secret if isinstance(secret, bytes) else secret.encode("utf-8", "surrogatepass")
    spellings = [raw.decode("latin-1"), raw.hex(), repr(raw)[2:-1], base64.b64encode(raw).decode()]
    spellings.append(to_text(raw))
    return {text[at : at + 8] for text in spellings for at in range(max(1, len(text) - 7))}


def shown_by(error: BaseException) -> Iterator[str]:
    """Everything that an error tells: itself, its attributes, its chain, the frames in keys.py."""
    chain: list[BaseException] = [error]
    for link in chain:
        yield from (str(link), repr(link), repr(link.args), repr(vars(link)))
        chain += [up for up in (link.__cause__, link.__context__) if up is not None]
        trace: TracebackType | None = link.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == keys.__file__:
                yield from (repr(value) for value in trace.tb_frame.f_locals.values())
            trace = trace.tb_next


ADVICE: Final = "; python -m cursorkit.keys makes and rotates key rings"
NO_SECRET: Final = (
    "a secret is at least 32 bytes, or their canonical base64url text without padding, at least"
    " 43 characters; given: "
)
NO_NAME: Final = "a name is 1 to 32 characters of A-Z a-z 0-9 . _ -; given: "


def refusal(call: Callable[[], object], *secrets: bytes | str) -> str:
    """Return the message of a refusal, having checked that it shows nothing of the secrets."""
    with pytest.raises(ConfigurationError) as caught:
        call()
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = "\n".join(shown_by(error))
    for secret in secrets:
        assert not [fragment for fragment in fragments(secret) if fragment in shown]
    message = str(error)
    assert message.endswith(ADVICE)
    assert "\n" not in message
    return message


# What is derived from a secret


class Rfc5869(NamedTuple):
    secret: bytes
    salt: bytes
    info: bytes
    output: bytes


RFC5869: Final = [
    Rfc5869(
        b"\x0b" * 22,
        bytes(range(0x00, 0x0D)),
        bytes(range(0xF0, 0xFA)),
        bytes.fromhex(
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
        ),
    ),
    Rfc5869(
        bytes(range(0x00, 0x50)),
        bytes(range(0x60, 0xB0)),
        bytes(range(0xB0, 0x100)),
        bytes.fromhex(
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
            "cc30c58179ec3e87c14c01d5c1f3434f1d87"
        ),
    ),
    Rfc5869(
        b"\x0b" * 22,
        b"",
        b"",
        bytes.fromhex(
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
        ),
    ),
]


@pytest.mark.parametrize("hkdf", [library_hkdf, reference_hkdf])
@pytest.mark.parametrize("case", RFC5869, ids=["case 1", "case 2", "case 3"])
def test_hkdf_gives_the_answers_of_rfc_5869(
    hkdf: Callable[[bytes, bytes, bytes, int], bytes], case: Rfc5869
) -> None:
    """The HKDF in use, and the one that checks it here, give RFC 5869's test cases 1 to 3."""
    assert hkdf(case.secret, case.salt, case.info, len(case.output)) == case.output


def test_known_answers_of_one_key() -> None:
    """What one secret derives is fixed: a change would make every cursor out there invalid."""
    key = Key(SECRET)
    assert key.kid.hex() == "d30b176a"
    assert key.hmac_key.hex() == "5edd3ed53eaa82901b61dde0ba346ecd8ecf6bffdb542c71e931e20191332b98"
    assert key.siv_key.hex() == (
        "daa48c4c17c1df8c51e9ac51393c241150ac7efa8e86049fbdf7e3a32312dfd9"
        "24468f1ed07dfaa196bccabc9d42ef482300d3145cefb19fe2386f972d3f151a"
    )
    assert key.fingerprint(b"alice").hex() == "c21876a6"


@given(st.binary(min_size=32, max_size=200))
def test_everything_is_hkdf_of_the_secret(secret: bytes) -> None:
    """Kid, HMAC key, SIV key and fingerprints are HKDF-SHA-256 under the salt cursorkit/1."""
    key = Key(secret)
    salt = b"cursorkit/1"
    assert key.kid == reference_hkdf(secret, salt, b"kid", 4)
    assert key.hmac_key == reference_hkdf(secret, salt, b"hmac-sha256-128", 32)
    assert key.siv_key == reference_hkdf(secret, salt, b"aes-256-siv", 64)
    fingerprint_key = reference_hkdf(secret, salt, b"fingerprint", 32)
    assert key.fingerprint(b"data") == hmac.digest(fingerprint_key, b"data", "sha256")[:4]


@given(st.binary(min_size=32, max_size=100))
def test_text_and_bytes_of_one_secret_are_one_key(secret: bytes) -> None:
    """The base64url text of a secret derives what its bytes derive."""
    as_bytes, as_text = Key(secret), Key(to_text(secret))
    assert (as_text.kid, as_text.hmac_key) == (as_bytes.kid, as_bytes.hmac_key)


def test_every_character_that_a_text_ends_in_counts() -> None:
    """The 64 texts of 33 bytes that differ in the last character are as many secrets."""
    for last in range(64):
        secret = bytes(32) + bytes([last])
        (text,) = json.loads(KeyRing(Key(secret)).to_json())["keys"].values()
        assert text == to_text(secret)
        assert Key(text).kid == Key(secret).kid


@given(st.binary(min_size=32, max_size=64))
def test_a_trailing_nul_makes_another_key(secret: bytes) -> None:
    """A secret and the secret with a NUL behind, alike as HMAC keys, derive different keys."""
    key, longer = Key(secret), Key(secret + b"\0")
    assert key.kid != longer.kid
    assert key.hmac_key != longer.hmac_key
    assert key.siv_key != longer.siv_key
    assert key.fingerprint(b"") != longer.fingerprint(b"")


def test_fingerprints_depend_on_the_data_and_the_key() -> None:
    """A fingerprint is 4 bytes, equal for equal data under one key, and different otherwise."""
    key = Key(SECRET)
    assert key.fingerprint(b"a") == Key(SECRET).fingerprint(b"a")
    prints = {key.fingerprint(b"a"), key.fingerprint(b"b"), Key(OTHER).fingerprint(b"a")}
    assert {len(value) for value in prints} == {4}
    assert len(prints) == 3


# What a Key accepts


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31])
@pytest.mark.parametrize("spell", [bytes, to_text], ids=["bytes", "text"])
def test_short_secrets_are_refused(size: int, spell: Callable[[bytes], bytes | str]) -> None:
    """A secret below 32 bytes is refused as bytes and as text, with its length and the minimum."""
    secret = spell(OTHER[:size])
    message = refusal(lambda: Key(secret), *([secret] if size >= 15 else []))
    assert message == f"{NO_SECRET}{type(secret).__name__} of length {len(secret)}{ADVICE}"


@pytest.mark.parametrize("size", [32, 33, 64, 1000])
def test_long_secrets_are_accepted(size: int) -> None:
    """A secret of 32 bytes or more is accepted as bytes and as text."""
    assert Key(bytes(size)).kid == Key(to_text(bytes(size))).kid


class _Text(str):
    __slots__ = ()


class _Bytes(bytes):
    __slots__ = ()


WRONG_TYPES: Final[list[Any]] = [
    None,
    True,
    0,
    int.from_bytes(OTHER),
    3.5,
    bytearray(OTHER),
    memoryview(OTHER),
    list(OTHER),
    {"secret": to_text(OTHER)},
    _Text(to_text(OTHER)),
    _Bytes(OTHER),
    Key(OTHER),
]


@pytest.mark.parametrize("secret", WRONG_TYPES, ids=lambda secret: type(secret).__name__)
def test_a_secret_is_never_coerced(secret: Any) -> None:
    """Anything but exactly bytes or str is refused as a secret, and told by its type."""
    message = refusal(lambda: Key(secret), OTHER, str(int.from_bytes(OTHER)))
    length = f" of length {len(secret)}" if isinstance(secret, str | bytes | bytearray) else ""
    assert message == f"{NO_SECRET}{type(secret).__name__}{length}{ADVICE}"


TEXT: Final = to_text(OTHER)


@pytest.mark.parametrize(
    "text",
    [
        TEXT + "=",
        TEXT + "\n",
        " " + TEXT,
        TEXT[:20] + " " + TEXT[20:],
        TEXT[:20] + "\n" + TEXT[20:],
        TEXT + "\0",
        TEXT + "\u00e9",
        TEXT + "\ud800",
        TEXT[:-1] + "\uff21",  # a wide A, which some decoders fold
        TEXT + "!",
        '"' + TEXT + '"',
        base64.b64encode(b"\xfb\xff" * 16).decode().rstrip("="),  # + and /
        to_text(bytes(32)) + "AA",  # 45 characters are no whole number of bytes
        OTHER.hex() + ":",
    ],
)
def test_text_that_is_not_canonical_base64url_is_refused(text: str) -> None:
    """Padding, spaces, other alphabets and stray characters are refused, not repaired."""
    message = refusal(lambda: Key(text), text, OTHER)
    assert message == f"{NO_SECRET}str of length {len(text)}{ADVICE}"


def test_one_of_the_spellings_of_the_last_character_is_accepted() -> None:
    """Of the 64 last characters, four of which lenient decoders read alike, one is this secret."""
    same: list[str] = []
    for last in ALPHABET:
        text = TEXT[:-1] + last
        try:
            if Key(text).kid == Key(OTHER).kid:
                same.append(text)
        except ConfigurationError:
            continue
    assert same == [TEXT]


@given(st.text() | st.text(ALPHABET, min_size=40, max_size=50))
def test_any_text_is_a_secret_or_refused_without_showing(text: str) -> None:
    """Text is a secret only if it is the base64url spelling of at least 32 bytes."""
    padded = text + "=" * (-len(text) % 4)
    try:
        raw = base64.b64decode(padded.encode("ascii"), b"-_", validate=True)
    except ValueError:
        raw = b""
    if len(raw) >= 32 and to_text(raw) == text:
        assert Key(text).kid == Key(raw).kid
    else:
        refusal(lambda: Key(text), *([text] if len(text) >= 16 else []))


@pytest.mark.parametrize("name", ["a", "2026-11", "A.b_c-9", "x" * 32])
def test_allowed_names(name: str) -> None:
    """A name is 1 to 32 characters of A-Z a-z 0-9 . _ -."""
    assert Key(SECRET, name=name).name == name


@pytest.mark.parametrize(
    "name",
    ["", "x" * 33, "a b", "a\n", "a/b", "\u00e9", "\u0661", "\ud800", TEXT, OTHER.hex(), OTHER, 7],
)
def test_other_names_are_refused_and_not_shown(name: Any) -> None:
    """A name that is not allowed may be a secret in the wrong place, and is not shown."""
    secrets = [name] if name in {TEXT, OTHER.hex(), OTHER} else []
    message = refusal(lambda: Key(SECRET, name=name), SECRET, *secrets)
    length = f" of length {len(name)}" if isinstance(name, str | bytes) else ""
    assert message == f"{NO_NAME}{type(name).__name__}{length}{ADVICE}"


def test_a_key_without_a_name_is_called_by_its_kid() -> None:
    """The name defaults to the kid in hex."""
    assert Key(SECRET).name == "d30b176a"


def test_generate_takes_32_bytes_from_the_random_source() -> None:
    """A generated key's secret is what the random source gave for 32 bytes."""
    asked: list[int] = []

    def random(size: int) -> bytes:
        asked.append(size)
        return OTHER

    key = Key.generate(name="new", random=random)
    assert (key.name, key.kid, asked) == ("new", Key(OTHER).kid, [32])


def test_generated_keys_differ() -> None:
    """By default two generated keys have different secrets."""
    assert Key.generate().hmac_key != Key.generate().hmac_key


def test_a_random_source_that_gives_too_little_is_refused() -> None:
    """A source of randomness that returns fewer bytes makes no key."""
    message = refusal(lambda: Key.generate(random=lambda _: OTHER[:16]), OTHER[:16])
    assert message == f"{NO_SECRET}bytes of length 16{ADVICE}"


# Immutable, and silent


@pytest.mark.parametrize("name", ["name", "kid", "hmac_key", "siv_key", "other"])
def test_a_key_is_immutable(name: str) -> None:
    """No attribute of a key can be set, added or deleted."""
    key = Key(SECRET)
    with pytest.raises(AttributeError):
        setattr(key, name, b"x")
    with pytest.raises(AttributeError):
        delattr(key, name)


@pytest.mark.parametrize("name", ["primary", "verify_only", "other"])
def test_a_ring_is_immutable(name: str) -> None:
    """No attribute of a ring can be set, added or deleted."""
    ring = KeyRing(Key(SECRET))
    with pytest.raises(AttributeError):
        setattr(ring, name, Key(OTHER))
    with pytest.raises(AttributeError):
        delattr(ring, name)


def test_repr_shows_name_and_kid_only() -> None:
    """What a key or a ring prints is its names and kids."""
    ring = KeyRing(Key(SECRET, name="a"), Key(OTHER, name="b"), Key(THIRD, name="c"))
    assert repr(ring.primary) == str(ring.primary) == "<Key a kid=d30b176a>"
    assert repr(ring) == str(ring) == "<KeyRing primary=a verify_only=[b, c]>"
    assert f"{ring.primary}" == "<Key a kid=d30b176a>"


@pytest.mark.parametrize("guarded", [Key(OTHER), KeyRing(Key(OTHER))], ids=["Key", "KeyRing"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_there_are_no_pickles(guarded: Key | KeyRing, protocol: int) -> None:
    """Pickling a key or a ring fails under every protocol, says why, and shows no secret."""
    name = type(guarded).__name__
    with pytest.raises(TypeError) as caught:
        pickle.dumps(guarded, protocol)
    assert str(caught.value) == (
        f"a {name} cannot be pickled, its secrets would go along;"
        " let the other process read CURSORKIT_KEYS or the file itself"
    )
    shown = "\n".join(shown_by(caught.value))
    assert not [fragment for fragment in fragments(OTHER) if fragment in shown]


@pytest.mark.parametrize("guarded", [Key(OTHER), KeyRing(Key(OTHER))], ids=["Key", "KeyRing"])
def test_no_other_way_out(guarded: Key | KeyRing) -> None:
    """`__getstate__`, `vars` and JSON give nothing of a key or a ring."""
    with pytest.raises(TypeError, match="cannot be pickled"):
        guarded.__getstate__()
    with pytest.raises(TypeError):
        vars(guarded)
    with pytest.raises(TypeError):
        json.dumps(guarded)


@pytest.mark.parametrize("guarded", [Key(OTHER), KeyRing(Key(OTHER))], ids=["Key", "KeyRing"])
def test_a_copy_is_the_same_object(guarded: Key | KeyRing) -> None:
    """Copying a key or a ring, shallow or deep, makes no second copy of a secret."""
    assert copy.copy(guarded) is guarded
    assert copy.deepcopy({"settings": [guarded]})["settings"][0] is guarded


def test_a_logged_refusal_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is logged on the way, and the traceback of a refusal shows no secret in a log."""
    caplog.set_level(logging.DEBUG)
    text = json.dumps({"primary": "a", "keys": {"a": TEXT, "b": TEXT}})
    for call in (
        lambda: Key(OTHER[:31]),
        lambda: Key(SECRET, name=TEXT),
        lambda: KeyRing.from_env(environ={"CURSORKIT_KEYS": text}),
        lambda: KeyRing.from_env(environ={"CURSORKIT_KEYS": text[:-1]}),
    ):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert caplog.text == ""
        logging.getLogger("host").error("no keys", exc_info=caught.value)
        assert not [part for part in fragments(OTHER[:31]) if part in caplog.text]
        caplog.clear()


# Rings

# Two secrets whose kids are equal, found by trying about 100,000.
TWINS: Final = (99_176).to_bytes(32), (103_671).to_bytes(32)


def test_a_ring_finds_keys_by_kid() -> None:
    """Each key is found by its kid, whatever the order, and an unknown kid finds nothing."""
    a, b, c = Key(SECRET), Key(OTHER), Key(THIRD)
    for order in itertools.permutations([a, b, c]):
        ring = KeyRing(*order)
        assert [ring.find(key.kid) for key in (a, b, c)] == [a, b, c]
        assert ring.find(b"\0\0\0\0") is None
        assert ring.find(b"") is None
        assert ring.find(SECRET) is None


def test_a_ring_knows_its_primary_and_the_others() -> None:
    """The primary is the key named as such; iteration gives all keys, primary first."""
    a, b, c = Key(SECRET), Key(OTHER), Key(THIRD)
    ring = KeyRing(b, a, c)
    assert ring.primary is b
    assert ring.verify_only == (a, c)
    assert list(ring) == [b, a, c]
    assert len(ring) == 3
    assert (list(KeyRing(a)), len(KeyRing(a)), KeyRing(a).verify_only) == ([a], 1, ())


def test_a_secret_twice_is_refused() -> None:
    """One secret under two names is refused, and both names are told."""
    ring = (Key(OTHER, name="old"), Key(SECRET), Key(TEXT, name="new"))
    message = refusal(lambda: KeyRing(*ring), OTHER)
    assert message == f"the keys old and new have the same secret{ADVICE}"


def test_a_kid_twice_is_refused() -> None:
    """Two secrets that happen to have one kid are refused together."""
    ring = (Key(TWINS[0], name="a"), Key(TWINS[1], name="b"))
    assert ring[0].kid == ring[1].kid
    message = refusal(lambda: KeyRing(*ring), *TWINS)
    assert message == f"the keys a and b have the same kid: replace one{ADVICE}"


def test_a_name_twice_is_refused() -> None:
    """Two keys of one name are refused."""
    ring = (Key(SECRET, name="a"), Key(OTHER, name="a"))
    message = refusal(lambda: KeyRing(*ring), SECRET, OTHER)
    assert message == f"two keys have the name a{ADVICE}"


@pytest.mark.parametrize("wrong", [OTHER, TEXT, None, bytearray(OTHER), KeyRing(Key(OTHER))])
@pytest.mark.parametrize("place", [0, 1])
def test_a_ring_holds_keys_only(wrong: Any, place: int) -> None:
    """A raw secret, or anything else that is no Key, is refused in a ring and not shown."""
    arguments = [Key(SECRET)]
    arguments.insert(place, wrong)
    message = refusal(lambda: KeyRing(*arguments), SECRET, OTHER)
    assert f"a key ring holds Key objects; given: {type(wrong).__name__}" in message


# The text form


def from_text(text: str) -> KeyRing:
    return KeyRing.from_env(environ={"CURSORKIT_KEYS": text})


def test_the_text_form_comes_back() -> None:
    """A ring written as JSON and read again has the same names, kids, keys and primary."""
    ring = KeyRing(Key(SECRET, name="2026-11"), Key(OTHER, name="2026-08"))
    text = ring.to_json()
    assert json.loads(text) == {
        "primary": "2026-11",
        "keys": {"2026-11": to_text(SECRET), "2026-08": to_text(OTHER)},
    }
    assert "\n" not in text
    again = from_text(text)
    assert again.primary.name == "2026-11"
    assert [(key.name, key.kid, key.hmac_key) for key in again] == [
        (key.name, key.kid, key.hmac_key) for key in ring
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(["a", "b", "c"])), ids="".join)
def test_order_means_nothing_in_the_text_form(order: tuple[str, ...]) -> None:
    """Wherever it stands in the list, the key named as primary mints and all are found."""
    secrets = {"a": SECRET, "b": OTHER, "c": THIRD}
    entries = {name: to_text(secrets[name]) for name in order}
    for text in (
        json.dumps({"primary": "b", "keys": entries}),
        json.dumps({"keys": entries, "primary": "b"}),
    ):
        ring = from_text(text)
        assert ring.primary.kid == Key(OTHER).kid
        assert {key.name for key in ring.verify_only} == {"a", "c"}
        for name, secret in secrets.items():
            found = ring.find(Key(secret).kid)
            assert found is not None
            assert found.name == name


OBJECT: Final = '{"primary": "a", "keys": {"a": "%s"}}' % TEXT  # noqa: UP031  # braces all over

ALLOWED: Final = 'allowed are "primary" and "keys"'
TWICE: Final = f"has a member twice; {ALLOWED}, once each"
UNKNOWN: Final = "has an unknown member"
NO_PRIMARY: Final = 'must have the name of a key as "primary"'
NO_KEYS: Final = 'must have an object as "keys"'
ENTRY: Final = 'has an error in entry 1 of "keys"'

BAD_TEXTS: Final[dict[str, tuple[str, str]]] = {
    "empty": ("", "is empty"),
    "blank": ("  ", "is empty"),
    "a bare secret": (TEXT, "is not JSON at line 1, column 2"),
    "a secret in quotes": (f'"{TEXT}"', "must be a JSON object, not text"),
    "a list": (f'["{TEXT}"]', "must be a JSON object, not an array"),
    "a number": ("1", "must be a JSON object, not a number"),
    "no number": ("NaN", "must be a JSON object, not a number"),
    "null": ("null", "must be a JSON object, not null"),
    "true": ("true", "must be a JSON object, not true"),
    "cut off": (OBJECT[:-1], "is not JSON at line 1, column 78"),
    "trailing": (OBJECT + "}", "is not JSON at line 1, column 79"),
    "second line": (
        f'{{"primary": "a",\n"keys": {{"a": "{TEXT}"',
        "is not JSON at line 2, column 60",
    ),
    "escape": (f'{{"primary": "{TEXT}\\x"}}', "is not JSON at line 1, column 57"),
    "byte order mark": ("\ufeff" + OBJECT, "is not JSON at line 1, column 1"),
    "too deep": (
        f'{{"{TEXT}":' + "[" * 200_000,
        "is not JSON: nested too deep, or a number too long",
    ),
    "too long a number": (
        f'{{"{TEXT}":' + "9" * 5_000 + "}",
        "is not JSON: nested too deep, or a number too long",
    ),
    "nothing in it": ("{}", 'has no "primary"'),
    "no primary": (f'{{"keys": {{"a": "{TEXT}"}}}}', 'has no "primary"'),
    "no keys": (f'{{"primary": "{TEXT}"}}', 'has no "keys"'),
    "primary null": (f'{{"primary": null, "keys": {{"a": "{TEXT}"}}}}', f"{NO_PRIMARY}, not null"),
    "primary object": (
        f'{{"primary": {{"a": "{TEXT}"}}, "keys": {{}}}}',
        f"{NO_PRIMARY}, not an object",
    ),
    "primary list": (f'{{"primary": ["{TEXT}"], "keys": {{}}}}', f"{NO_PRIMARY}, not an array"),
    "primary number": ('{"primary": 1, "keys": {}}', f"{NO_PRIMARY}, not a number"),
    "primary false": ('{"primary": false, "keys": {}}', f"{NO_PRIMARY}, not false"),
    "primary unknown": (
        OBJECT.replace('"primary": "a"', '"primary": "b"'),
        'must name one of its keys as "primary"; it has a',
    ),
    "primary a secret": (
        OBJECT.replace('"primary": "a"', f'"primary": "{TEXT}"'),
        'must name one of its keys as "primary"; it has a',
    ),
    "primary unknown among several": (
        f'{{"primary": "b", "keys": {{"a": "{TEXT}", "c": "{to_text(THIRD)}"}}}}',
        'must name one of its keys as "primary"; it has a, c',
    ),
    "empty keys": (
        '{"primary": "a", "keys": {}}',
        'must name one of its keys as "primary"; it has none',
    ),
    "keys text": (f'{{"primary": "a", "keys": "{TEXT}"}}', f"{NO_KEYS}, not text"),
    "keys list": (f'{{"primary": "a", "keys": ["{TEXT}"]}}', f"{NO_KEYS}, not an array"),
    "keys pairs": (f'{{"primary": "a", "keys": [["a", "{TEXT}"]]}}', f"{NO_KEYS}, not an array"),
    "secret number": (
        OBJECT.replace(f'"{TEXT}"', "123"),
        f"{ENTRY}: a secret is text, not a number",
    ),
    "secret null": (OBJECT.replace(f'"{TEXT}"', "null"), f"{ENTRY}: a secret is text, not null"),
    "secret list": (
        OBJECT.replace(f'"{TEXT}"', f'["{TEXT}"]'),
        f"{ENTRY}: a secret is text, not an array",
    ),
    "secret object": (
        OBJECT.replace(f'"{TEXT}"', f'{{"x": "{TEXT}"}}'),
        f"{ENTRY}: a secret is text, not an object",
    ),
    "secret padded": (
        OBJECT.replace(TEXT, TEXT + "="),
        f"{ENTRY}, a: {NO_SECRET}str of length 44",
    ),
    "secret short": (OBJECT.replace(TEXT, TEXT[:-1]), f"{ENTRY}, a: {NO_SECRET}str of length 42"),
    "secret empty": (OBJECT.replace(TEXT, ""), f"{ENTRY}, a: {NO_SECRET}str of length 0"),
    "secret surrogate": (
        OBJECT.replace(TEXT, TEXT + "\\ud800"),
        f"{ENTRY}, a: {NO_SECRET}str of length 44",
    ),
    "second entry": (
        OBJECT.replace("}}", f', "b": "{to_text(THIRD)[:-2]}"}}}}'),
        f'has an error in entry 2 of "keys", b: {NO_SECRET}str of length 41',
    ),
    "secret as name": (
        OBJECT.replace("}}", f', "{to_text(THIRD)}": "b"}}}}'),
        f'has an error in entry 2 of "keys": {NO_NAME}str of length 43',
    ),
    "empty name": (OBJECT.replace('{"a"', '{""'), f"{ENTRY}: {NO_NAME}str of length 0"),
    "surrogate name": (OBJECT.replace('{"a"', '{"\\ud800"'), f"{ENTRY}: {NO_NAME}str of length 1"),
    "name twice": (
        OBJECT.replace("}}", f', "a": "{to_text(THIRD)}"}}}}'),
        'has an error in entry 2 of "keys": a is there twice',
    ),
    "name twice, escaped": (
        OBJECT.replace("}}", f', "\\u0061": "{to_text(THIRD)}"}}}}'),
        'has an error in entry 2 of "keys": a is there twice',
    ),
    "secret twice": (
        OBJECT.replace("}}", f', "b": "{TEXT}"}}}}'),
        "has an error: the keys a and b have the same secret",
    ),
    "kid twice": (
        f'{{"primary": "a", "keys": {{"a": "{to_text(TWINS[0])}", "b": "{to_text(TWINS[1])}"}}}}',
        "has an error: the keys a and b have the same kid: replace one",
    ),
    "primary twice": (OBJECT.replace("{", '{"primary": "a", ', 1), TWICE),
    "keys twice": (
        OBJECT.replace("{", f'{{"keys": {{"b": "{to_text(THIRD)}"}}, ', 1),
        TWICE,
    ),
    "unknown twice": ('{"x": 1, "x": 2}', TWICE),
    "unknown member": (
        OBJECT.replace("{", '{"Primary": "a", ', 1),
        f"{UNKNOWN}, number 1; {ALLOWED}",
    ),
    "a secret as a member": (
        OBJECT[:-1] + f', "{to_text(THIRD)}": 1}}',
        f"{UNKNOWN}, number 3; {ALLOWED}",
    ),
    "unknown member, no Unicode": (
        OBJECT[:-1] + ', "\\ud800": 1}',
        f"{UNKNOWN}, number 3; {ALLOWED}",
    ),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
@pytest.mark.parametrize("source", ["environment variable CURSORKIT_KEYS", "key ring file"])
def test_a_bad_ring_is_refused_with_the_reason(case: str, source: str, tmp_path: Path) -> None:
    """A text that is no ring is refused: source, entry and rule are told, and never a secret."""
    text, expected = BAD_TEXTS[case]
    path = tmp_path / "ring.json"
    path.write_text(text, encoding="utf-8")
    message = refusal(
        lambda: KeyRing.from_file(path) if source == "key ring file" else from_text(text),
        *(OTHER, THIRD, TEXT, to_text(THIRD), TWINS[0], to_text(TWINS[0])),
    )
    assert message == f"the {source} {expected}{ADVICE}"


class _Members(NamedTuple):
    """A JSON object that may hold a name twice."""

    pairs: list[tuple[str, Any]]


def _to_json(value: Any) -> str:
    if isinstance(value, _Members):
        members = ", ".join(f"{json.dumps(name)}: {_to_json(member)}" for name, member in value[0])
        return f"{{{members}}}"
    if isinstance(value, list):
        return f"[{', '.join(_to_json(member) for member in value)}]"  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name is there twice")
    return members


_WORDS: Final = st.sampled_from(["primary", "keys", "a", "b", TEXT, TEXT[:-1], "", "\ud800"])
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(_WORDS, inner), max_size=3).map(_Members)
        | st.lists(st.tuples(_WORDS, _WORDS), max_size=3).map(_Members)
    ),
    max_leaves=10,
)
_RINGS: Final = st.tuples(_WORDS, st.lists(st.tuples(_WORDS, _WORDS | _JSON), max_size=3)).map(
    lambda ring: _Members([("primary", ring[0]), ("keys", _Members(ring[1]))])
)


@given((_JSON | _RINGS).map(_to_json), st.none() | st.integers(0, 100))
@example(OBJECT, None)
def test_any_text_is_a_ring_or_refused_without_showing(text: str, end: int | None) -> None:
    """Whatever the text, whole or cut off, it is a ring or one refusal without a secret in it."""
    text = text[:end]
    rings = [{"primary": name, "keys": {name: TEXT}} for name in ("a", "b", "keys", "primary")]
    try:
        is_ring = json.loads(text, object_pairs_hook=_unique) in rings
    except (ValueError, RecursionError):
        is_ring = False
    if is_ring:
        assert from_text(text).primary.kid == Key(OTHER).kid
    else:
        refusal(lambda: from_text(text), TEXT)


@given(st.text())
def test_random_text_is_refused(text: str) -> None:
    """Random text is refused as a ring by a ConfigurationError and nothing else."""
    refusal(lambda: from_text(text))


# Where a ring is read from


def test_from_env_reads_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without further arguments a ring is read from CURSORKIT_KEYS."""
    monkeypatch.setenv("CURSORKIT_KEYS", KeyRing(Key(OTHER, name="a")).to_json())
    assert KeyRing.from_env().primary.kid == Key(OTHER).kid


def test_from_env_reads_another_variable() -> None:
    """The variable can be named, and the environment given instead of the process's own."""
    environ = {"MY_KEYS": KeyRing(Key(OTHER, name="a")).to_json()}
    assert KeyRing.from_env("MY_KEYS", environ=environ).primary.name == "a"


def test_an_unset_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable means no ring, never a random one; the variable is named."""
    monkeypatch.delenv("CURSORKIT_KEYS", raising=False)
    message = refusal(KeyRing.from_env)
    assert message.startswith("the environment variable CURSORKIT_KEYS is not set;")
    assert "the environment variable MY_KEYS is not set" in refusal(
        lambda: KeyRing.from_env("MY_KEYS", environ={})
    )


@pytest.mark.parametrize("misplaced", [TEXT, OBJECT])
def test_a_secret_in_place_of_the_variable_is_not_shown(misplaced: str) -> None:
    """A secret or a ring given as the variable's name is not shown."""
    message = refusal(lambda: KeyRing.from_env(misplaced, environ={"PATH": TEXT}), TEXT)
    assert message.startswith("the environment variable is not set;")


@pytest.mark.parametrize("as_text", [True, False])
def test_from_file_reads_a_ring(as_text: bool, tmp_path: Path) -> None:
    """A ring is read from a file given as a str or a Path; white space around it is fine."""
    path = tmp_path / "ring.json"
    path.write_text(f"\n {OBJECT}\n\n")
    assert KeyRing.from_file(str(path) if as_text else path).primary.kid == Key(OTHER).kid


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("absent.json", "cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
        (OBJECT * 10, "cannot be read: File name too long"),
        (TEXT, "cannot be read: No such file or directory"),
        (TEXT + "\0", "has a path that no file can have"),
        (TEXT + "\ud800", "has a path that no file can have"),
    ],
)
def test_an_unreadable_file_is_refused(
    path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read is refused with the reason, and its path is not shown."""
    monkeypatch.chdir(tmp_path)
    message = refusal(lambda: KeyRing.from_file(path), TEXT)
    assert message.startswith(f"the key ring file {problem};")


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """A file in another encoding is refused, and its bytes are not shown."""
    path = tmp_path / "ring.json"
    path.write_bytes(OBJECT.encode() + b"\xff")
    assert "the key ring file is not UTF-8" in refusal(lambda: KeyRing.from_file(path), TEXT)


@pytest.mark.parametrize("path", [None, 0, OBJECT.encode()])
def test_a_path_is_a_path(path: Any) -> None:
    """Anything but a path, a file descriptor too, is a TypeError that shows no value."""
    with pytest.raises(TypeError) as caught:
        KeyRing.from_file(path)
    assert TEXT[:8] not in str(caught.value)


# Ephemeral rings


@pytest.fixture
def fresh_process() -> Iterator[None]:
    """As if no ephemeral ring had been made in this process, before the test and after it."""
    forget = keys._warn_of_ephemeral_keys.cache_clear  # pyright: ignore[reportPrivateUsage]
    forget()
    yield
    forget()


@pytest.mark.usefixtures("fresh_process")
def test_ephemeral_warns_once_where_it_was_called() -> None:
    """The first ephemeral ring of a process warns at the caller's line, the next ones do not."""
    with pytest.warns(RuntimeWarning, match=r"cursors die with this process") as caught:
        KeyRing.ephemeral()
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KeyRing.ephemeral()


@pytest.mark.usefixtures("fresh_process")
def test_ephemeral_rings_are_random() -> None:
    """Each ephemeral ring has one key of its own, from the random source."""
    with pytest.warns(RuntimeWarning):
        first, second = KeyRing.ephemeral(), KeyRing.ephemeral()
    assert first.primary.kid != second.primary.kid
    given_ring = KeyRing.ephemeral(random=lambda _: OTHER)
    assert (given_ring.primary.name, given_ring.primary.kid) == ("ephemeral", Key(OTHER).kid)
    assert len(given_ring) == 1


def test_importing_keys_does_not_import_pydantic() -> None:
    """Only reading a ring's text form imports pydantic."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(keys.__file__).parents[2])!r})\n"
        "from cursorkit.keys import KeyRing\n"
        "before = 'pydantic' in sys.modules\n"
        f"KeyRing.from_env(environ={{'CURSORKIT_KEYS': {OBJECT!r}}})\n"
        "print(before, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
