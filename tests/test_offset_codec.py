"""What the unsigned codec says in its errors and in the log, having no key to fingerprint with."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import pytest

from cursorkit import (
    Binding,
    EncodingError,
    InvalidCursorError,
    Offset,
    OffsetCodec,
    Opaque,
)

BINDING = Binding("tools/list", principal="alice")
CODEC = OffsetCodec()


def shown(cursor: str) -> str:
    """Return what a line of the log shows of a cursor."""
    return f"list='tools/list' kid=- cursor={hashlib.sha256(cursor.encode()).hexdigest()[:8]}"


@pytest.mark.parametrize(
    ("position", "options", "problem"),
    [
        (Opaque(b""), {}, "OffsetCodec carries Offset only, not Opaque"),
        (5, {}, "OffsetCodec carries Offset only, not int"),
        (
            Offset(5),
            {"expires_at": 1},
            "OffsetCodec carries no expiry: anyone could rewrite it",
        ),
    ],
)
def test_what_cannot_be_minted_is_told(
    position: Any, options: dict[str, Any], problem: str
) -> None:
    """Whatever it was given, the message says what the codec carries."""
    with pytest.raises(EncodingError) as failure:
        CODEC.encode(position, BINDING, **options)
    assert str(failure.value) == problem


def test_the_log_compares_what_was_minted_with_what_was_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A minted cursor is a line at DEBUG, each refusal of it, early or late, one at WARNING."""
    with caplog.at_level(logging.DEBUG, "cursorkit"):
        cursor = CODEC.encode(Offset(5), BINDING)
        CODEC.decode(cursor, BINDING).refusal("range")
        with pytest.raises(InvalidCursorError):
            CODEC.decode(cursor, BINDING.replace(params={"tag": "new"}))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", f"minted cursor: {shown(cursor)}"),
        ("WARNING", f"refused cursor: reason=range {shown(cursor)}"),
        ("WARNING", f"refused cursor: reason=tag {shown(cursor)}"),
    ]


def test_a_cursor_of_more_than_4096_characters_is_not_read_unless_told() -> None:
    """It is refused for its length, whatever it holds."""
    for codec, limit in ((CODEC, 4096), (OffsetCodec(max_length=64), 64)):
        for length, reason in ((limit, "suite"), (limit + 1, "length")):
            with pytest.raises(InvalidCursorError) as failure:
                codec.decode("A" * length, BINDING)
            assert failure.value.reason == reason
