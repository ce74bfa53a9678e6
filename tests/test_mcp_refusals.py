"""Every refusal of a cursor is one and the same error, on every revision and transport."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cursorkit import (
    Binding,
    ExpiringCodec,
    Key,
    KeyRing,
    MemoryStore,
    Offset,
    OffsetCodec,
    Opaque,
    SignedCodec,
    SnapshotOffset,
)
from cursorkit.adapters.mcp import CursorPagination
from tests.mcp_kit import (
    ERAS,
    HOSTS,
    INVALID_CURSOR,
    LEGACY,
    LISTS,
    MODERN,
    RING,
    FakeClock,
    Host,
    always,
    ask,
    connected,
    flipped,
    full_server,
    in_memory,
    new_paginator,
    post,
    refused,
    served,
    walk,
)

pytestmark = pytest.mark.anyio

each_era = pytest.mark.parametrize("era", ERAS)
each_host = pytest.mark.parametrize("kind", HOSTS)

SHARED = MemoryStore()
"""One store for all hosts here: a cursor is refused although its snapshot is there."""


def host_of(kind: str, **options: Any) -> Host:
    """Return a host that shares key and store with every other one."""
    return Host(kind, paginator=new_paginator(store=SHARED), **options)


async def second_cursor(host: Host, era: str) -> str:
    """Return the cursor of a host's second page."""
    async with in_memory(host.server, era) as client:
        cursor: str = (await ask(client, "tools/list"))["nextCursor"]
        return cursor


def minted(era: str, position: Any, **changes: Any) -> str:
    """Return a cursor under the right key for a host's tools, or almost."""
    binding = Binding("tools/list", audience="demo", protocol_version=era).replace(**changes)
    return ExpiringCodec(SignedCodec(RING), ttl=600).encode(position, binding)


async def of_another_server(kind: str, era: str) -> str:
    """Return another audience's cursor."""
    return await second_cursor(host_of(kind, audience="other"), era)


async def of_another_principal(kind: str, era: str) -> str:
    """Return another principal's cursor."""
    return await second_cursor(host_of(kind, principal=always("mallory")), era)


async def of_another_epoch(kind: str, era: str) -> str:
    """Return a cursor of before a grant changed."""
    return await second_cursor(host_of(kind, auth_epoch=always("before")), era)


async def of_another_era(kind: str, era: str) -> str:
    """Return the cursor that the same server gave to a client of the other era."""
    return await second_cursor(host_of(kind), LEGACY if era == MODERN else MODERN)


async def of_another_endpoint(kind: str, era: str) -> str:
    """Return the cursor of the same server's prompts."""
    pagination = CursorPagination(new_paginator(store=SHARED), audience="demo", page_size=3)
    async with in_memory(full_server([pagination]), era) as client:
        cursor: str = (await ask(client, "prompts/list"))["nextCursor"]
        return cursor


async def of_a_locale(kind: str, era: str) -> str:
    """Return the cursor of a localized list."""

    def bind(ctx: Any, binding: Binding) -> Binding:
        return binding.replace(locale="de")

    return await second_cursor(host_of(kind, bind=bind), era)


async def with_a_flipped_byte(kind: str, era: str) -> str:
    """Return a good cursor with one character changed."""
    return flipped(await second_cursor(host_of(kind), era))


async def with_a_letter_more(kind: str, era: str) -> str:
    """Return a good cursor with a character at its end."""
    return await second_cursor(host_of(kind), era) + "A"


async def of_another_key(kind: str, era: str) -> str:
    """Return a cursor that is right but for its key."""
    ring = KeyRing(Key(bytes(32)))
    binding = Binding("tools/list", audience="demo", protocol_version=era)
    return SignedCodec(ring).encode(SnapshotOffset(bytes(32), 3, 3), binding, expires_at=2**40)


async def unsigned(kind: str, era: str) -> str:
    """Return a forged offset of the unsigned codec."""
    return OffsetCodec().encode(
        Offset(3), Binding("tools/list", audience="demo", protocol_version=era)
    )


async def of_todays_sdks(kind: str, era: str) -> str:
    """Return an offset as other servers write it."""
    return base64.urlsafe_b64encode(b'{"o": 3}').decode()


async def of_another_paginator(kind: str, era: str) -> str:
    """Return an authentic cursor of another kind."""
    return minted(era, Offset(3))


async def of_bytes(kind: str, era: str) -> str:
    """Return an authentic cursor that carries bytes."""
    return minted(era, Opaque(b"\x00" * 32))


async def of_a_lost_list(kind: str, era: str) -> str:
    """Return an authentic cursor to a list that is gone."""
    return minted(era, SnapshotOffset(bytes(32), 3, 3))


async def empty(kind: str, era: str) -> str:
    """Return the empty string, which is a cursor."""
    return ""


async def garbage(kind: str, era: str) -> str:
    """Return what nobody minted."""
    return "<script>alert(1)</script>\nFAKE LOG LINE"


async def very_long(kind: str, era: str) -> str:
    """Return a million characters."""
    return "A" * 1_000_000


FORGERIES: tuple[Callable[[str, str], Awaitable[str]], ...] = (
    of_another_server,
    of_another_principal,
    of_another_epoch,
    of_another_era,
    of_another_endpoint,
    of_a_locale,
    with_a_flipped_byte,
    with_a_letter_more,
    of_another_key,
    unsigned,
    of_todays_sdks,
    of_another_paginator,
    of_bytes,
    of_a_lost_list,
    empty,
    garbage,
    very_long,
)

NOT_TEXT: tuple[Any, ...] = (5, 0, True, False, 1.5, [], {}, ["x"], {"o": {"$gt": 0}})


@each_era
@each_host
@pytest.mark.parametrize("forged", FORGERIES)
async def test_a_wrong_cursor_is_an_invalid_cursor(
    era: str, kind: str, forged: Callable[[str, str], Awaitable[str]]
) -> None:
    """The client sees -32602, "Invalid cursor" and no data, and no page one."""
    cursor = await forged(kind, era)
    host = host_of(kind)
    async with in_memory(host.server, era) as client:
        good = await ask(client, "tools/list")
        error = await refused(client, "tools/list", {"cursor": cursor})
        after = await ask(client, "tools/list", {"cursor": good["nextCursor"]})
    assert error == INVALID_CURSOR
    assert after["tools"][0]["name"] == "t03"


@each_era
@each_host
async def test_on_the_wire_every_refusal_reads_the_same(era: str, kind: str) -> None:
    """Over HTTP the error object has a code and a message and nothing else."""
    cursors = [await forged(kind, era) for forged in FORGERIES]
    app = host_of(kind).server.streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        answers = [await post(url, "tools/list", {"cursor": cursor}, era) for cursor in cursors]
    expected = {"jsonrpc": "2.0", "id": 1, "error": INVALID_CURSOR}
    assert answers == [expected] * len(FORGERIES)


@each_era
@pytest.mark.parametrize("method", LISTS)
async def test_garbage_is_refused_by_every_list(era: str, method: str) -> None:
    """No list takes garbage for its first page."""
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3)
    async with in_memory(full_server([pagination]), era) as client:
        error = await refused(client, method, {"cursor": "bogus"})
    assert error == INVALID_CURSOR


@each_era
@pytest.mark.parametrize("kind", ["MCPServer", "middleware"])
async def test_through_the_middleware_a_cursor_that_is_no_text_is_an_invalid_cursor(
    era: str, kind: str
) -> None:
    """Numbers, booleans, arrays and objects get the same error, on the wire too."""
    host = host_of(kind)
    async with in_memory(host.server, era) as client:
        errors = [await refused(client, "tools/list", {"cursor": cursor}) for cursor in NOT_TEXT]
    assert errors == [INVALID_CURSOR] * len(NOT_TEXT)
    app = host.server.streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        answers = [await post(url, "tools/list", {"cursor": cursor}, era) for cursor in NOT_TEXT]
    assert [answer["error"] for answer in answers] == [INVALID_CURSOR] * len(NOT_TEXT)
    assert host.calls == 0


@each_era
@each_host
async def test_a_null_cursor_is_none(era: str, kind: str) -> None:
    """JSON's null asks for the first page, and gives the cursor that its absence gives."""
    async with in_memory(host_of(kind).server, era) as client:
        assert await ask(client, "tools/list", {"cursor": None}) == await ask(client, "tools/list")


@each_era
@each_host
async def test_a_cursor_dies_at_its_instant(era: str, kind: str) -> None:
    """By the injected clock a cursor works until its expiry, and is refused from then on."""
    clock = FakeClock(1_000_000)
    host = Host(kind, paginator=new_paginator(clock))
    async with in_memory(host.server, era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
        clock.now = 1_000_619.9  # a multiple of 60 seconds, 600 or more after the first page
        await ask(client, "tools/list", {"cursor": cursor})
        clock.now = 1_000_620
        assert await refused(client, "tools/list", {"cursor": cursor}) == INVALID_CURSOR


@each_era
@each_host
async def test_a_lost_snapshot_of_a_changed_list_is_an_invalid_cursor(era: str, kind: str) -> None:
    """Where the snapshot is gone and the list is another, the walk ends: no other list goes on."""
    first = Host(kind, 10)
    other = Host(kind, 9)
    async with in_memory(first.server, era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    async with in_memory(other.server, era) as client:
        assert await refused(client, "tools/list", {"cursor": cursor}) == INVALID_CURSOR


@each_era
@each_host
@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800"])
async def test_params_that_cannot_be_bound_are_an_invalid_cursor(
    era: str, kind: str, value: Any
) -> None:
    """A request whose other params have no canonical form is refused, and nothing is listed."""
    host = host_of(kind)
    async with in_memory(host.server, era) as client:
        error = await refused(client, "tools/list", {"filter": {"at": value}})
    assert error == INVALID_CURSOR
    assert host.calls == 0


@each_era
@each_host
async def test_the_log_says_why(era: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A refusal leaves one warning with its reason and list, and nothing of the cursor."""
    host = host_of(kind)
    cursor = flipped(await second_cursor(host, era))
    with caplog.at_level(logging.WARNING, "cursorkit"):
        async with in_memory(host.server, era) as client:
            await refused(client, "tools/list", {"cursor": cursor})
            await refused(client, "tools/list", {"filter": 2**64})
    tag, binding = (record.getMessage() for record in caplog.records)
    assert "reason=tag list='tools/list'" in tag
    assert "reason=binding list='tools/list'" in binding
    assert cursor not in caplog.text


@each_host
async def test_the_official_client_sees_the_error(kind: str) -> None:
    """An `MCPError` with this code makes clients drop what they keep and start again."""
    async with connected(host_of(kind).server, MODERN, "http") as client:
        assert await refused(client, "tools/list", {"cursor": "x"}) == INVALID_CURSOR
        assert len(await walk(client)) == 4


@each_era
async def test_params_of_a_client_do_not_make_a_request_dear(era: str) -> None:
    """A hundred thousand values are refused, with a cursor and without."""
    async with in_memory(Host("middleware").server, era) as client:
        for cursor in ({}, {"cursor": "x"}):
            params = {**cursor, "filter": [0] * 100_000}
            assert await refused(client, "tools/list", params) == INVALID_CURSOR
