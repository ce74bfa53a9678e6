"""The log tells a server's author why a cursor was refused, and tells nobody anything else."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from typing import Any, cast

import pytest

from cursorkit import (
    Binding,
    CursorCodec,
    CursorError,
    DecodedCursor,
    EncodingError,
    KeyRing,
    Keyset,
    Offset,
    Opaque,
    SignedCodec,
)
from cursorkit.binding import pae
from cursorkit.testing import FakeClock
from tests import independent
from tests.codecs_table import AUTHENTIC, CODECS, OLD, PRIMARY, RING, SECRET, Row
from tests.strategies import FIELDS

NOW = 1_800_000_000
BINDING = Binding(
    "tools/list",
    audience="catalog",
    partition="tenant-1",
    principal="alice",
    protocol_version="2026-07-28",
    locale="en",
    auth_epoch="epoch-1",
    params={"filter": "all"},
)
DATA = BINDING.associated_data
NAMES = (*FIELDS, "params")

every_codec = pytest.mark.parametrize("row", CODECS, ids=str)
every_authentic_codec = pytest.mark.parametrize("row", AUTHENTIC, ids=str)


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="cursorkit")


def words_of(line: str) -> dict[str, str]:
    """Return the words of a line by their names."""
    found = re.findall(r"""(\w+)=('[^']*'|"[^"]*"|\S+)""", line)
    assert re.sub(r"""(\w+)=('[^']*'|"[^"]*"|\S+)""", "", line).split() in (
        ["refused", "cursor:"],
        ["minted", "cursor:"],
    )
    return dict(found)


def refusal(
    caplog: pytest.LogCaptureFixture, codec: CursorCodec, cursor: str, binding: Binding = BINDING
) -> dict[str, str]:
    """Return the words of the only line that a refusal logs."""
    caplog.clear()
    with pytest.raises(CursorError) as caught:
        codec.decode(cursor, binding)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("cursorkit", logging.WARNING)
    words = words_of(record.getMessage())
    assert words["reason"] == caught.value.reason
    return words


def sha256(cursor: str) -> str:
    """Return what a line shows of a cursor."""
    return hashlib.sha256(cursor.encode()).hexdigest()[:8]


def fingerprint(secret: bytes, name: str, piece: bytes) -> str:
    """Return what a line shows of a field."""
    key = independent.hkdf(secret, b"fingerprint", 32)
    return hmac.digest(key, name.encode() + piece, "sha256")[:4].hex()


# What is in a line.


@every_authentic_codec
def test_a_refusal_logs_one_line_with_all_that_can_be_compared(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """One WARNING: reason, list, kid, hash of the cursor, a fingerprint of each field."""
    codec = row.make(FakeClock(NOW))
    cursor = row.forge(SECRET, independent.pack([1, NOW, 5]), DATA)
    assert refusal(caplog, codec, cursor) == {
        "reason": "expired",
        "list": "'tools/list'",
        "kid": PRIMARY.kid.hex(),
        "cursor": sha256(cursor),
        **{name: fingerprint(SECRET, name, piece) for name, piece in BINDING.pieces().items()},
    }


@every_authentic_codec
def test_a_minted_cursor_logs_the_same_words_at_debug(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """Minting logs one DEBUG line, and a refusal of that cursor the same words and a reason."""
    clock = FakeClock(NOW)
    codec = row.make(clock)
    cursor = codec.encode(Offset(5), BINDING, expires_at=NOW + 1)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("cursorkit", logging.DEBUG)
    minted = words_of(record.getMessage())
    clock.advance(1)
    refused = refusal(caplog, codec, cursor)
    assert refused == {"reason": "expired", **minted}


@every_codec
def test_what_is_accepted_logs_nothing(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """A good cursor leaves no line when it is decoded."""
    codec = row.make(FakeClock(NOW))
    cursor = codec.encode(Offset(5), BINDING)
    caplog.clear()
    codec.decode(cursor, BINDING).expect(Offset)
    assert caplog.records == []


@every_authentic_codec
@pytest.mark.parametrize("name", NAMES)
def test_two_lines_differ_in_the_field_that_differs(
    row: Row, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Between minting and refusing, only the fingerprint of the changed field is another."""
    codec = row.make(FakeClock(NOW))
    values: list[Any] = [{"filter": "none"}, {}] if name == "params" else ["other", ""]
    for value in values:
        caplog.clear()
        cursor = codec.encode(Offset(5), BINDING)
        minted = words_of(caplog.records[0].getMessage())
        refused = refusal(caplog, codec, cursor, BINDING.replace(**{name: value}))
        assert refused.pop("reason") == "tag"
        differing = {word for word, shown in refused.items() if minted[word] != shown}
        assert differing - {"list"} == {name}
        assert ("list" in differing) is (name == "purpose")


def test_an_absent_field_is_shown_as_absent(caplog: pytest.LogCaptureFixture) -> None:
    """A field without a value is a dash, and an empty one is not."""
    SignedCodec(RING).encode(Offset(5), Binding("", principal=""))
    words = words_of(caplog.records[0].getMessage())
    absent = {name for name in NAMES if words[name] == "-"}
    assert absent == set(NAMES) - {"purpose", "principal"}


def test_fields_of_one_value_have_different_fingerprints(caplog: pytest.LogCaptureFixture) -> None:
    """That two fields are equal does not show."""
    SignedCodec(RING).encode(Offset(5), Binding("a", audience="a", principal="a", locale="a"))
    words = words_of(caplog.records[0].getMessage())
    shown = [words[name] for name in ("purpose", "audience", "principal", "locale")]
    assert len(set(shown)) == 4


# The kid.


@every_authentic_codec
def test_the_kid_is_shown_only_if_it_is_the_rings(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """A verify-only key's kid is shown, with its fingerprints; an unknown one is not."""
    codec = row.make(FakeClock(NOW))
    body = independent.pack([1, NOW + 60, 5])
    for secret, kid in ((SECRET, PRIMARY.kid.hex()), (bytes(range(100, 132)), OLD.kid.hex())):
        words = refusal(caplog, codec, row.forge(secret, body, b"another binding"))
        assert (words["reason"], words["kid"]) == ("tag", kid)
        assert words["principal"] == fingerprint(secret, "principal", b"\x01alice")
    words = refusal(caplog, codec, row.forge(bytes(range(32, 64)), body, DATA))
    assert (words["reason"], words["kid"]) == ("key", "-")
    assert words["principal"] == fingerprint(SECRET, "principal", b"\x01alice")


def test_an_unsigned_cursor_has_no_kid_and_no_fingerprints(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a key there are no fingerprints: what an unkeyed hash hides can be guessed."""
    codec = CODECS[0].make(FakeClock())
    cursor = codec.encode(Offset(5), BINDING)
    minted = words_of(caplog.records[0].getMessage())
    assert minted == {"list": "'tools/list'", "kid": "-", "cursor": sha256(cursor)}
    words = refusal(caplog, codec, cursor, BINDING.replace(purpose="prompts/list"))
    assert words == {**minted, "reason": "tag", "list": "'prompts/list'"}


# One line, for every reason, through every composition.


@every_codec
def test_every_reason_is_logged_once(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever in a composition a cursor is refused, there is one line about it."""
    clock = FakeClock(NOW)
    codec = row.make(clock)
    good = codec.encode(Offset(5), BINDING)
    cases: dict[str, Any] = {
        "type": None,
        "length": "A" * 4097,
        "alphabet": good + "=",
        "encoding": good[:4] + "A",
        "suite": independent.text(b"\x91" + bytes(40)),
        "tag": good[:10] + "B" * 30 if codec.authenticates else independent.text(b"\x01" * 9),
    }
    if codec.authenticates:
        pack = independent.pack
        cases |= {
            "key": independent.text(row.suite + bytes(40)),
            "body": row.forge(SECRET, pack([1, NOW + 1, -5]), DATA),
            "expired": row.forge(SECRET, pack([1, NOW, 5]), DATA),
        }
    if codec.max_ttl is not None:
        cases["expiry"] = row.forge(SECRET, independent.pack([1, None, 5]), DATA)
    else:
        piece = BINDING.pieces()["params"]
        body = independent.pack([4, None, b""])
        unsigned = independent.unsigned(body, "tools/list", "2026-07-28", piece)
        cases["body"] = cases.get("body", unsigned)
    for reason, cursor in cases.items():
        assert refusal(caplog, codec, cursor)["reason"] == reason


STAMPING = [row for row in AUTHENTIC if row.make(FakeClock()).max_ttl is not None]


@pytest.mark.parametrize("row", STAMPING, ids=str)
def test_an_expiry_too_far_away_is_logged_once(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """What the inner codec accepts and the outer refuses has one line, with the cursor's key."""
    far = row.forge(SECRET, independent.pack([1, NOW + 10**6, 5]), DATA)
    words = refusal(caplog, row.make(FakeClock(NOW)), far)
    assert (words["reason"], words["kid"]) == ("expiry", PRIMARY.kid.hex())


@every_codec
@pytest.mark.parametrize("reason", ["kind", "range", "lost"])
def test_a_late_refusal_is_logged_like_an_early_one(
    row: Row, reason: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What a paginator refuses after decoding has one line, of the same words."""
    codec = row.make(FakeClock(NOW))
    cursor = codec.encode(Offset(5), BINDING)
    minted = words_of(caplog.records[0].getMessage())
    decoded = codec.decode(cursor, BINDING)
    caplog.clear()
    if reason == "kind":
        with pytest.raises(CursorError):
            decoded.expect(Opaque)
    else:
        assert decoded.refusal(reason).reason == reason
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert words_of(record.getMessage()) == {"reason": reason, **minted}


def test_a_refusal_without_its_cursor_is_logged_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A decoded cursor of a codec of one's own, which kept no origin, is refused and logged too."""
    with pytest.raises(CursorError):
        DecodedCursor(Offset(5)).expect(Keyset)
    (record,) = caplog.records
    assert words_of(record.getMessage()) == {
        "reason": "kind",
        "list": "-",
        "kid": "-",
        "cursor": "-",
    }


def test_what_cannot_be_minted_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An `EncodingError` is the server's own, and no cursor."""
    with pytest.raises(EncodingError):
        SignedCodec(RING).encode(Opaque(bytes(5000)), BINDING)
    assert caplog.records == []


@every_codec
def test_a_silenced_logger_changes_nothing(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """With the logger above WARNING, refusals are raised as ever and no line is made."""
    caplog.set_level(logging.ERROR, logger="cursorkit")
    codec = row.make(FakeClock(NOW))
    codec.encode(Offset(5), BINDING)
    with pytest.raises(CursorError):
        codec.decode("x", BINDING)
    assert caplog.records == []


# What is never in a line.

INJECTED = "x\nWARNING cursorkit: refused cursor: reason=tag kid=00000000\r\x1b[2J\x00\u2028"


@every_codec
@pytest.mark.parametrize(
    "cursor",
    [
        INJECTED,
        INJECTED * 20_000,
        "\udc80" * 30,
        "%s%n%(reason)s{0}",
        "unverified-bytes-of-a-client",
        "A" * 1_000_000,
    ],
    ids=["newline", "1 MB of newlines", "surrogates", "formats", "plain", "1 MB"],
)
def test_nothing_of_an_unverified_cursor_is_logged(
    row: Row, cursor: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A line is short, printable ASCII, and holds of a hostile cursor eight hex digits at most."""
    words = refusal(caplog, row.make(FakeClock(NOW)), cursor)
    assert re.fullmatch(r"[0-9a-f]{8}|-", words["cursor"])
    (record,) = caplog.records
    line = record.getMessage()
    assert re.fullmatch(r"[ -~]{60,400}", line)
    assert cursor[:20] not in line + repr(vars(record))
    assert record.exc_info is None
    assert record.stack_info is None


@every_authentic_codec
def test_nothing_of_the_binding_is_logged_but_the_list(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """No value of a field, nor an unkeyed hash of one, is in any line; the list's name is."""
    values = {name: f"value-of-{name}" for name in FIELDS[1:]}
    binding = Binding("tools/list", **values, params={"value-of-name": "value-of-params"})
    codec = row.make(FakeClock(NOW))
    codec.encode(Offset(5), binding)
    with pytest.raises(CursorError):
        codec.decode("x", binding)
    lines = "".join(record.getMessage() + repr(vars(record)) for record in caplog.records)
    assert "value-of" not in lines
    for value in values.values():
        for hashed in (value.encode(), b"\x01" + value.encode(), pae([value.encode()])):
            assert hashlib.sha256(hashed).hexdigest()[:8] not in lines


@every_codec
def test_a_newline_in_the_lists_name_is_escaped(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """The purpose is shown as a quoted ASCII literal, so it cannot begin another line or word."""
    for purpose in (INJECTED, "é\u202e", b"\xff\n", "it's kid=00000000"):
        caplog.clear()
        with pytest.raises(CursorError):
            row.make(FakeClock(NOW)).decode("x", Binding(cast(str, purpose)))
        (record,) = caplog.records
        assert re.fullmatch(r"[ -~]+", record.getMessage())
        assert f" list={purpose!a} kid=- " in record.getMessage()


@every_authentic_codec
def test_fingerprints_need_the_ring(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """Another ring gives other fingerprints: who reads the log cannot try values."""
    lines: list[dict[str, str]] = []
    for ring in (KeyRing(PRIMARY), KeyRing(OLD)):
        lines.append(refusal(caplog, row.make(FakeClock(NOW), ring=ring), "x"))
    assert all(lines[0][name] != lines[1][name] for name in NAMES)
