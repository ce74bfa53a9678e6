"""Cursors that must be refused, each in the same way, and the genuine one that must not."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from mcp import MCPError

from cursorkit.binding import Binding
from cursorkit.cli.demo.http import Connection
from cursorkit.cli.demo.report import Report
from cursorkit.cli.demo.servers import PAGE_SIZE, Clock
from cursorkit.codecs.base import to_text
from cursorkit.codecs.offset import OffsetCodec
from cursorkit.positions import Offset

__all__ = ["REFUSED", "Attempt", "Found", "attempts", "show_refusals", "try_cursors"]

REFUSED: Final = {"code": -32602, "message": "Invalid cursor"}
"""The error as it goes on the wire, complete: there is no data."""

_GENUINE: Final = "genuine"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A cursor that somebody sends to ``tools/list``.

    Attributes:
        name: What it is.
        cursor: Any JSON value.
        reason: What the server's log is to say; None if the cursor is to be accepted.
        user: Who sends it.
        now: When, in Unix seconds; None for now.
    """

    name: str
    cursor: object
    reason: str | None
    user: str = "alice"
    now: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What became of an attempt.

    Attributes:
        reply: The JSON-RPC reply as it came.
        client: What the official client made of it: "accepted", or code, message and data; None
            if it cannot send such a cursor.
        reasons: What the server's log says of the refusals, one each.
    """

    reply: dict[str, Any]
    client: object
    reasons: Sequence[str]


async def attempts(alice: Connection, era: str, foreign: str, clock: Clock) -> list[Attempt]:
    """Return every attempt in an era.

    Args:
        alice: A connection of hers.
        era: Its revision.
        foreign: A cursor of hers, of the other era.
        clock: The server's.
    """
    genuine = (await alice.client.list_tools()).next_cursor or ""
    prompts = (await alice.client.list_prompts()).next_cursor or ""
    expiry = clock.next_expiry
    forged = OffsetCodec().encode(Offset(100), Binding("tools/list", protocol_version=era))
    return [
        Attempt(_GENUINE, genuine, None),
        Attempt("one byte flipped", _flipped(genuine), "tag"),
        Attempt("a forged unsigned cursor", forged, "suite"),
        Attempt("another user's", genuine, "tag", user="bob"),
        Attempt("another endpoint's (prompts)", prompts, "tag"),
        Attempt("another protocol revision's", foreign, "tag"),
        Attempt("the empty string", "", "encoding"),
        Attempt("a number", 50, "type"),
        Attempt(f"{_GENUINE}, a second before expiry", genuine, None, now=expiry - 1),
        Attempt("expired, at that second", genuine, "expired", now=expiry),
    ]


def _flipped(cursor: str) -> str:
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[len(raw) // 2] ^= 0xFF
    return to_text(bytes(raw))


async def try_cursors(
    tried: Sequence[Attempt], connections: dict[str, Connection], clock: Clock
) -> list[Found]:
    """Send each cursor, raw and by the official client, and return what became of it."""
    found: list[Found] = []
    started = clock.now
    for attempt in tried:
        connection = connections[attempt.user]
        clock.now = started if attempt.now is None else attempt.now
        with _refusal_log() as reasons:
            reply = await connection.raw("tools/list", attempt.cursor)
            client = await _by_client(connection, attempt.cursor)
        found.append(Found(reply, client, reasons))
    clock.now = started
    return found


async def _by_client(connection: Connection, cursor: object) -> object:
    if not isinstance(cursor, str):
        return None
    try:
        await connection.client.list_tools(cursor=cursor)
    except MCPError as error:
        return error.code, error.message, error.data
    return "accepted"


class _Reasons(logging.Handler):
    """Keeps the reason of each refusal that is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        reason = re.search(r"\breason=(\w+)", record.getMessage())
        self.found.append(reason[1] if reason else record.levelname)


@contextmanager
def _refusal_log() -> Generator[list[str]]:
    """Read the server's log, and keep it off the screen."""
    logger = logging.getLogger("cursorkit")
    handler, propagated, level = _Reasons(), logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
        logger.setLevel(level)


def show_refusals(
    report: Report, tried: Sequence[Attempt], found: dict[str, Sequence[Found]]
) -> None:
    """Print a row for each attempt; what it claims is checked in each era."""
    table = report.table("cursor sent to tools/list", *found, "in the server's log")
    for number, attempt in enumerate(tried):
        by_era = {era: results[number] for era, results in found.items()}
        cells = [_outcome(report, attempt, era, each) for era, each in by_era.items()]
        table.add_row(attempt.name, *cells, _reason(report, attempt, by_era))
    report.console.print(table)


def _outcome(report: Report, attempt: Attempt, era: str, found: Found) -> str:
    error = found.reply.get("error")
    if attempt.reason is None:
        tools = found.reply.get("result", {}).get("tools", ())
        holds = len(tools) == PAGE_SIZE and found.client == "accepted"
        text = f"accepted: {len(tools)} tools" if error is None else f"refused: {error}"
        return report.cell(text, f"{attempt.name}, {era}: not accepted", holds)
    text = "accepted" if error is None else f"{error.get('code')} {error.get('message')}"
    holds = error == REFUSED
    if found.client is not None:
        holds = holds and found.client == (*REFUSED.values(), None)
    return report.cell(text, f"{attempt.name}, {era}: {text}, not as all others", holds)


def _reason(report: Report, attempt: Attempt, by_era: dict[str, Found]) -> str:
    """Return what the log says, once for each request."""
    said = {reason for found in by_era.values() for reason in found.reasons}
    holds = all(
        set(found.reasons) == ({attempt.reason} if attempt.reason else set())
        for found in by_era.values()
    )
    text = ", ".join(sorted(said))
    return report.cell(text, f"{attempt.name}: the log says {text or 'nothing'}", holds)
