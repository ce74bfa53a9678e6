"""What a cursor is bound to: whom it belongs to, what they may see, what they asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from mcp.server import MCPServer

from cursorkit import Binding
from cursorkit.adapters.mcp import CursorPagination, scopes_epoch
from cursorkit.adapters.mcp.binder import Binder
from tests.mcp_kit import (
    ERAS,
    HOSTS,
    INVALID_CURSOR,
    MODERN,
    Host,
    Tokens,
    access,
    always,
    ask,
    authenticated,
    full_server,
    in_memory,
    names,
    new_paginator,
    over_http,
    post,
    refused,
    served,
    walk,
)

pytestmark = pytest.mark.anyio

each_era = pytest.mark.parametrize("era", ERAS)
each_host = pytest.mark.parametrize("kind", HOSTS)


def with_users(tokens: Tokens, **options: Any) -> MCPServer:
    """Return a server of seven tools, three a page, that asks for access tokens."""
    pagination = CursorPagination(new_paginator(), audience="demo", page_size=3, **options)
    return full_server([pagination], **authenticated(tokens))


async def first_cursor(url: str, era: str, token: str) -> str:
    """Return the cursor of a user's second page."""
    answer = await post(url, "tools/list", {}, era, token=token)
    cursor: str = answer["result"]["nextCursor"]
    return cursor


@each_era
async def test_over_http_a_user_walks_and_another_cannot_go_on(era: str) -> None:
    """Each of two users walks their own list; one's cursor is refused from the other."""
    tokens = Tokens(a=access("alice"), b=access("bob"))
    async with (
        served(with_users(tokens).streamable_http_app()) as url,
        over_http(url, era, token="a") as alice,
        over_http(url, era, token="b") as bob,
    ):
        cursor = (await ask(alice, "tools/list"))["nextCursor"]
        assert await refused(bob, "tools/list", {"cursor": cursor}) == INVALID_CURSOR
        for user in (alice, bob):
            assert names(await walk(user)) == [f"n{number}" for number in range(7)]


@each_era
async def test_a_refreshed_token_goes_on(era: str) -> None:
    """A cursor is bound to client, issuer and subject, not to the token's text."""
    tokens = Tokens(old=access("alice"), new=access("alice"))
    app = with_users(tokens).streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        cursor = await first_cursor(url, era, "old")
        answer = await post(url, "tools/list", {"cursor": cursor}, era, token="new")
    assert names([answer["result"]]) == ["n3", "n4", "n5"]


@each_era
async def test_a_cursor_dies_when_the_tokens_scopes_change(era: str) -> None:
    """A grant more or less refuses the cursor; another order of the scopes does not."""
    tokens = Tokens(a=access("alice", "read", "write"))
    app = with_users(tokens).streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        cursor = await first_cursor(url, era, "a")
        tokens.known["a"] = access("alice", "write", "read", "read")
        same = await post(url, "tools/list", {"cursor": cursor}, era, token="a")
        tokens.known["a"] = access("alice", "read")
        less = await post(url, "tools/list", {"cursor": cursor}, era, token="a")
        tokens.known["a"] = access("alice", "read", "write", "admin")
        more = await post(url, "tools/list", {"cursor": cursor}, era, token="a")
    assert names([same["result"]]) == ["n3", "n4", "n5"]
    assert less["error"] == more["error"] == INVALID_CURSOR


async def test_without_an_epoch_a_cursor_outlives_its_grants() -> None:
    """`auth_epoch=None` takes the scopes out of the binding."""
    tokens = Tokens(a=access("alice", "read", "write"))
    app = with_users(tokens, auth_epoch=None).streamable_http_app(
        stateless_http=True, json_response=True
    )
    async with served(app) as url:
        cursor = await first_cursor(url, MODERN, "a")
        tokens.known["a"] = access("alice", "read")
        answer = await post(url, "tools/list", {"cursor": cursor}, MODERN, token="a")
    assert names([answer["result"]]) == ["n3", "n4", "n5"]


@each_era
async def test_users_of_a_client_without_subjects_are_one_principal_with_one_warning(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Where tokens name no subject their cursors are interchangeable, and the log says so once."""
    tokens = Tokens(a=access(None), b=access(None))
    app = with_users(tokens).streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        cursor = await first_cursor(url, era, "a")
        answer = await post(url, "tools/list", {"cursor": cursor}, era, token="b")
    assert names([answer["result"]]) == ["n3", "n4", "n5"]
    warnings = [record for record in caplog.records if record.name == "cursorkit"]
    assert len(warnings) == 1
    assert "no subject" in warnings[0].getMessage()
    assert "app" not in warnings[0].getMessage().split()


async def test_a_principal_of_the_hosts_own_needs_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever names principals by other means is not told about subjects."""
    tokens = Tokens(a=access(None))
    app = with_users(tokens, principal=always("alice")).streamable_http_app(
        stateless_http=True, json_response=True
    )
    async with served(app) as url:
        await first_cursor(url, MODERN, "a")
    assert [record for record in caplog.records if record.name == "cursorkit"] == []


@each_era
@each_host
async def test_callbacks_may_be_async(era: str, kind: str) -> None:
    """Principal, epoch, binder and `visible` may be coroutine functions, and are waited for."""

    async def principal(ctx: Any) -> str:
        return "alice"

    async def bind(ctx: Any, binding: Binding) -> Binding:
        assert (binding.principal, binding.auth_epoch) == ("alice", "alice")
        return binding.replace(partition="a")

    async def visible(ctx: Any, items: Sequence[Any]) -> list[bool]:
        return [item["name"] != "t04" for item in items]

    host = Host(kind, principal=principal, auth_epoch=principal, bind=bind, visible=visible)
    other = Host(kind, principal=principal, auth_epoch=principal, visible=visible)
    async with in_memory(host.server, era) as client:
        pages = await walk(client)
    async with in_memory(other.server, era) as client:
        error = await refused(client, "tools/list", {"cursor": pages[0]["nextCursor"]})
    assert len(names(pages)) == 9
    assert error == INVALID_CURSOR


@each_era
@each_host
async def test_the_binding_names_all_that_decides_on_the_list(era: str, kind: str) -> None:
    """A binder sees method, audience, principal, revision, epoch and the other params."""
    seen: list[Binding] = []

    def bind(ctx: Any, binding: Binding) -> Binding:
        seen.append(binding)
        return binding

    host = Host(kind, principal=always("alice"), auth_epoch=always("7"), bind=bind)
    async with in_memory(host.server, era) as client:
        await ask(client, "tools/list", {"filter": {"tag": "x"}, "_meta": {"example/y": 1}})
    assert seen == [
        Binding(
            "tools/list",
            audience="demo",
            principal="alice",
            protocol_version=era,
            auth_epoch="7",
            params={"filter": {"tag": "x"}},
        )
    ]


@each_era
@each_host
async def test_a_cursor_belongs_to_the_params_it_was_made_for(era: str, kind: str) -> None:
    """Another filter, one more or none refuses the cursor; `_meta` and progress do not matter."""
    wanted = {"filter": {"tag": "x"}}
    async with in_memory(Host(kind).server, era) as client:
        cursor = {"cursor": (await ask(client, "tools/list", wanted))["nextCursor"]}
        for others in ({}, {"filter": {"tag": "y"}}, {"filter": None}, {**wanted, "more": 1}):
            assert await refused(client, "tools/list", others | cursor) == INVALID_CURSOR
        page = await ask(client, "tools/list", {**wanted, **cursor, "_meta": {"example/y": 1}})
    assert names([page]) == ["t03", "t04", "t05"]


@each_era
@each_host
async def test_visible_is_asked_on_every_page(era: str, kind: str) -> None:
    """What is hidden at first is never counted; what is taken away in mid-walk drops out."""
    hidden = {"t01"}
    asked: list[list[str]] = []

    def visible(ctx: Any, items: Sequence[Any]) -> list[bool]:
        asked.append([item["name"] for item in items])
        return [item["name"] not in hidden for item in items]

    host = Host(kind, 8, visible=visible)
    async with in_memory(host.server, era) as client:
        pages = await walk(client, between=lambda: hidden.add("t05"))
    assert [names([page]) for page in pages] == [["t00", "t02", "t03"], ["t04", "t06"], ["t07"]]
    assert asked == [[f"t{number:02}" for number in range(8)], ["t04", "t05", "t06"], ["t07"]]
    assert host.calls == 1


@each_era
@each_host
async def test_visible_is_asked_for_a_single_page(era: str, kind: str) -> None:
    """A list that fits one page is filtered, too."""
    host = Host(kind, 3, visible=always([False, True, False]))
    async with in_memory(host.server, era) as client:
        assert names(await walk(client)) == ["t01"]


def test_scopes_without_a_token_are_no_epoch() -> None:
    """Where nobody is authenticated there is nothing that could change."""
    ctx: Any = None
    assert scopes_epoch(ctx) is None


def test_cursors_are_for_everybody_only_by_settings() -> None:
    """Any of principal, epoch and binder makes pages somebody's own."""
    off: dict[str, Any] = {"principal": None, "auth_epoch": None, "bind": None}
    assert Binder(audience="demo", **off).is_for_everybody
    for name in off:
        assert not Binder(audience="demo", **{**off, name: always(None)}).is_for_everybody
