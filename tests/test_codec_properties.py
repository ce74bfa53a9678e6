"""What holds of every codec for all positions, bindings and texts."""

from __future__ import annotations

import base64
import contextlib
import logging
import string
from collections.abc import Generator
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cursorkit import Binding, CursorError, EncodingError, InvalidCursorError, KeyRing, Offset
from cursorkit.positions import Position
from cursorkit.testing import FakeClock
from tests import independent
from tests.codecs_table import AUTHENTIC, CODECS, OLD, PRIMARY, SECRET, Row
from tests.strategies import FIELDS, binding_arguments, bindings, offsets, positions

BINDING = Binding("tools/list", principal="alice")
BASE64URL = string.ascii_letters + string.digits + "-_"

every_codec = pytest.mark.parametrize("row", CODECS, ids=str)
every_authentic_codec = pytest.mark.parametrize("row", AUTHENTIC, ids=str)


@contextlib.contextmanager
def logged() -> Generator[list[str]]:
    """Collect what the package logs: its lines, and all that its records hold."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage() + repr(vars(record)))

    collector = Collector()
    logger = logging.getLogger("cursorkit")
    logger.addHandler(collector)
    try:
        yield lines
    finally:
        logger.removeHandler(collector)


def texts() -> st.SearchStrategy[str]:
    """Return texts that a client may send: any, near a cursor, and of a cursor's header."""
    headers = [row.suite + kid for row in CODECS for kid in (PRIMARY.kid, OLD.kid, b"none")]
    parts = st.tuples(st.sampled_from(headers), st.binary(max_size=60))
    headed = parts.map(lambda pair: independent.text(b"".join(pair)))
    anything = st.text(st.characters(), max_size=80)  # surrogates too
    return st.one_of(anything, st.text(BASE64URL, max_size=80), headed)


@every_codec
@given(position=positions(), binding=bindings())
def test_a_cursor_denotes_what_it_was_minted_for(
    row: Row, position: Position, binding: Binding
) -> None:
    """decode∘encode is the identity on the positions that a codec carries."""
    codec = row.make(FakeClock())
    try:
        cursor = codec.encode(position, binding)
    except EncodingError:
        assert not codec.authenticates
        assert type(position) is not Offset
    else:
        decoded = codec.decode(cursor, binding)
        assert type(decoded.position) is type(position)
        assert repr(decoded.position) == repr(position)
        assert decoded.position == position
        assert codec.encode(position, binding) == cursor


@every_codec
@given(offset=offsets(), binding=bindings())
def test_an_accepted_cursor_is_the_only_one_of_its_state(
    row: Row, offset: Offset, binding: Binding
) -> None:
    """encode∘decode is the identity on the cursors of the primary key, a later clock or not."""
    clock = FakeClock()
    codec = row.make(clock)
    cursor = codec.encode(offset, binding)
    clock.advance(61)
    decoded = codec.decode(cursor, binding)
    assert codec.encode(decoded.position, binding, expires_at=decoded.expires_at) == cursor


@every_authentic_codec
@given(position=positions(), binding=bindings(), expires_at=st.integers(1, 300))
def test_the_holder_of_the_key_finds_no_second_spelling(
    row: Row, position: Position, binding: Binding, expires_at: int
) -> None:
    """A cursor made without cursorkit, under any key of the ring, is the one that its key mints."""
    clock = FakeClock()
    expires_at += int(clock.now)
    cursor = row.make(clock, ring=KeyRing(OLD, PRIMARY)).encode(
        position, binding, expires_at=expires_at
    )
    decoded = row.make(clock).decode(cursor, binding)
    assert decoded.expires_at == expires_at
    again = row.make(clock, ring=KeyRing(OLD)).encode(
        decoded.position, binding, expires_at=decoded.expires_at
    )
    assert again == cursor


@every_authentic_codec
@given(first=binding_arguments(), second=binding_arguments(), offset=offsets())
def test_a_cursor_decodes_under_no_other_binding(
    row: Row, first: dict[str, Any], second: dict[str, Any], offset: Offset
) -> None:
    """Two bindings share cursors only if they are equal, whatever their fields hold."""
    assume(Binding(**first) != Binding(**second))
    codec = row.make(FakeClock())
    cursor = codec.encode(offset, Binding(**first))
    with pytest.raises(InvalidCursorError) as caught:
        codec.decode(cursor, Binding(**second))
    assert caught.value.reason == "tag"


@every_authentic_codec
@given(offset=offsets(), name=st.sampled_from(FIELDS[1:]), value=st.text(max_size=8))
def test_changing_any_one_field_changes_the_cursor(
    row: Row, offset: Offset, name: str, value: str
) -> None:
    """Each field alone is enough to keep two cursors of one position apart."""
    codec = row.make(FakeClock())
    assume(getattr(BINDING, name) != value)
    cursor = codec.encode(offset, BINDING)
    other = BINDING.replace(**{name: value})
    assert codec.encode(offset, other) != cursor
    with pytest.raises(InvalidCursorError):
        codec.decode(cursor, other)


@every_codec
@given(text=texts())
def test_random_text_raises_nothing_but_a_cursor_error(row: Row, text: str) -> None:
    """Whatever text a client sends is refused, or the one cursor of what it denotes.

    Nothing of it is in the error or in what is logged, and there is one log line.
    """
    codec = row.make(FakeClock())
    with logged() as lines:
        try:
            decoded = codec.decode(text, BINDING)
        except CursorError as error:
            refusal = error
        else:
            assert not codec.authenticates
            assert codec.encode(decoded.position, BINDING) == text
            assert lines == []
            return
    assert str(refusal) == "Invalid or expired cursor"
    assert refusal.args == ("Invalid or expired cursor",)
    assert vars(refusal) == {"reason": refusal.reason}
    assert refusal.__cause__ is None
    assert refusal.__context__ is None
    (line,) = lines
    assert len(text) < 17 or (text not in line and repr(text)[1:-1] not in line)


@every_codec
@given(
    value=st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=60).map(bytearray),
        st.integers(),
        st.floats(),
        st.none(),
        st.booleans(),
        st.lists(st.text(max_size=3), max_size=3),
        st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    )
)
def test_random_values_raise_nothing_but_an_invalid_cursor(row: Row, value: object) -> None:
    """What is no str is an invalid cursor of reason "type", whatever it holds."""
    with pytest.raises(InvalidCursorError) as caught:
        row.make(FakeClock()).decode(cast(str, value), BINDING)
    assert caught.value.reason == "type"


@every_authentic_codec
@given(position=positions(), data=st.data())
def test_an_altered_cursor_is_refused(row: Row, position: Position, data: st.DataObject) -> None:
    """Cut, spliced with another cursor, or with characters replaced, a cursor is invalid."""
    codec = row.make(FakeClock())
    cursor = codec.encode(position, BINDING)
    other = codec.encode(data.draw(positions()), BINDING)
    begin = data.draw(st.integers(0, len(cursor)))
    end = data.draw(st.integers(begin, len(cursor)))
    middle = data.draw(st.text(BASE64URL, max_size=8) | st.just(other[begin:end]))
    altered = cursor[:begin] + middle + cursor[end:]
    assume(altered not in (cursor, other))
    with pytest.raises(InvalidCursorError):
        codec.decode(altered, BINDING)


@every_authentic_codec
@given(body=st.binary(max_size=60))
def test_a_signed_body_is_parsed_without_any_other_error(row: Row, body: bytes) -> None:
    """Random bytes, signed with the key, are refused or are the canonical form of a position."""
    codec = row.make(FakeClock())
    cursor = row.forge(SECRET, body, BINDING.associated_data)
    try:
        decoded = codec.decode(cursor, BINDING)
    except CursorError:
        return
    assert codec.encode(decoded.position, BINDING, expires_at=decoded.expires_at) == cursor


@every_authentic_codec
@given(position=positions(), wrong=st.binary(min_size=16, max_size=16))
def test_a_random_tag_is_refused(row: Row, position: Position, wrong: bytes) -> None:
    """A cursor whose last 16 bytes are guessed is refused, and so is one without a tag."""
    codec = row.make(FakeClock())
    cursor = codec.encode(position, BINDING)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for altered in (raw[:-16] + wrong, raw[:-16], raw + wrong):
        with pytest.raises(InvalidCursorError):
            codec.decode(independent.text(altered), BINDING)
