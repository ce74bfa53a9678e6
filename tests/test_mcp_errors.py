"""What goes wrong inside never shows outside: one frozen message, on every revision."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pydantic
import pytest
from mcp import MCPError
from mcp.server import Server
from mcp.types import ListToolsResult

from cursorkit import ConfigurationError, EncodingError, InvalidCursorError, SourceError
from cursorkit.adapters.mcp import CursorPagination
from cursorkit.adapters.mcp.boundary import boundary
from tests.mcp_kit import (
    ERAS,
    HOSTS,
    INTERNAL_ERROR,
    Host,
    always,
    ask,
    in_memory,
    new_paginator,
    post,
    refused,
    served,
    tool,
)

pytestmark = pytest.mark.anyio

each_era = pytest.mark.parametrize("era", ERAS)
each_host = pytest.mark.parametrize("kind", HOSTS)


class _Model(pydantic.BaseModel):
    number: int


def _value_error() -> None:
    raise ValueError("SECRET")


def _group() -> None:
    raise ExceptionGroup("SECRET", [ValueError("SECRET"), MCPError(-32000, "SECRET")])


def _validation_error() -> None:
    _Model.model_validate({"number": "SECRET"})


def _recursion_error() -> None:
    _recursion_error()


def _mcp_error() -> None:
    raise MCPError(-32000, "SECRET", {"secret": "SECRET"})


def _source_error() -> None:
    raise SourceError("SECRET")


def _encoding_error() -> None:
    raise EncodingError("SECRET")


def _configuration_error() -> None:
    raise ConfigurationError("SECRET")


FAULTS = (
    _value_error,
    _group,
    _validation_error,
    _recursion_error,
    _source_error,
    _encoding_error,
    _configuration_error,
)

CALLBACKS = ("principal", "auth_epoch", "bind", "visible")


def failing(fault: Callable[[], None], *, is_async: bool) -> Callable[..., Any]:
    """Return a callback that fails."""

    def callback(*arguments: Any) -> None:
        fault()

    async def async_callback(*arguments: Any) -> None:
        fault()

    return async_callback if is_async else callback


@each_era
@each_host
@pytest.mark.parametrize("name", CALLBACKS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_callback_that_fails_is_an_internal_error(
    era: str, kind: str, name: str, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees nothing of it, whatever it raises, and the log has it."""
    for fault in (*FAULTS, _mcp_error):
        caplog.clear()
        host = Host(kind, 10, **{name: failing(fault, is_async=is_async)})
        async with in_memory(host.server, era) as client:
            assert await refused(client, "tools/list", {}) == INTERNAL_ERROR
        assert fault.__name__ in caplog.text
        assert caplog.records[0].name == "cursorkit"


@each_era
@each_host
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_list_handler_that_fails_is_an_internal_error(
    era: str, kind: str, fault: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees nothing of it, whatever it raises, and the log has it."""
    async with in_memory(Host(kind, source=fault).server, era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR
    assert fault.__name__ in caplog.text


OWN_WORD = {"code": -32000, "message": "SECRET", "data": {"secret": "SECRET"}}


@each_era
@each_host
async def test_an_mcp_error_of_a_first_page_is_the_hosts_own_word(era: str, kind: str) -> None:
    """Code, message and data reach the client unchanged."""
    async with in_memory(Host(kind, source=_mcp_error).server, era) as client:
        assert await refused(client, "tools/list", {}) == OWN_WORD


@each_era
@each_host
async def test_on_the_wire_an_error_has_no_text_and_no_data(era: str, kind: str) -> None:
    """Over HTTP, too, what a failing handler leads to is the frozen error, or the host's own."""
    faults = iter([*FAULTS, _mcp_error])

    def source() -> None:
        next(faults)()

    host = Host(kind, source=source)
    app = host.server.streamable_http_app(stateless_http=True, json_response=True)
    async with served(app) as url:
        answers = [await post(url, "tools/list", {}, era) for _ in (*FAULTS, _mcp_error)]
    errors = [*[INTERNAL_ERROR] * len(FAULTS), OWN_WORD]
    assert answers == [{"jsonrpc": "2.0", "id": 1, "error": error} for error in errors]


@each_era
@each_host
@pytest.mark.parametrize("fault", [*FAULTS, _mcp_error])
async def test_a_list_handler_that_fails_to_heal_is_an_internal_error(
    era: str, kind: str, fault: Callable[[], None]
) -> None:
    """A later page tells nothing of the handler below, an `MCPError` of its own included."""
    async with in_memory(Host(kind).server, era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
    healing = Host(kind, source=fault)
    async with in_memory(healing.server, era) as client:
        assert await refused(client, "tools/list", {"cursor": cursor}) == INTERNAL_ERROR
    assert healing.calls == 1


@each_era
@each_host
async def test_a_cursor_error_of_the_hosts_own_is_an_internal_error(era: str, kind: str) -> None:
    """Only the client's own cursor is refused as invalid: an upstream's is not its to mend."""

    def bind(ctx: Any, binding: Any) -> Any:
        raise InvalidCursorError("binding")

    async with in_memory(Host(kind, bind=bind).server, era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR


@each_era
@each_host
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("principal", 5),
        ("principal", b"alice"),
        ("principal", True),
        ("principal", "\ud800"),
        ("auth_epoch", 1),
        ("bind", None),
        ("visible", None),
        ("visible", [True]),
        ("visible", [1] * 10),
    ],
)
async def test_a_callback_of_another_type_is_an_internal_error(
    era: str, kind: str, name: str, value: Any
) -> None:
    """What a callback returns is checked: never "absent", never "shown"."""
    host = Host(kind, 10, **{name: always(value)})
    async with in_memory(host.server, era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR


@each_era
@each_host
async def test_two_tools_of_one_name_are_an_internal_error(
    era: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a list with a duplicate nothing is served, and the log says so."""
    host = Host(kind, source=lambda: [tool("a"), tool("b"), tool("a")])
    async with in_memory(host.server, era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR
    assert "item 2 has the key of an earlier item" in caplog.text


@each_era
async def test_a_list_that_is_paged_already_is_an_internal_error(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Paged twice a list would be cut short, so the log says what to do instead."""

    async def paged(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[tool("a"), tool("b")], next_cursor="more")

    server = Server("demo", on_list_tools=paged)
    server.middleware.append(CursorPagination(new_paginator(), audience="demo"))
    async with in_memory(server, era) as client:
        assert await refused(client, "tools/list", {}) == INTERNAL_ERROR
    assert "pages already" in caplog.text
    assert "page_sizes={'tools/list': None}" in caplog.text


@each_era
async def test_a_method_that_the_server_lacks_stays_unknown(era: str) -> None:
    """Without a list handler below, the SDK's own answer passes."""
    server = Server("demo")
    server.middleware.append(CursorPagination(new_paginator(), audience="demo"))
    async with in_memory(server, era) as client:
        error = await refused(client, "tools/list", {})
    assert error["code"] == -32601


@pytest.mark.both_backends
async def test_cancellation_passes() -> None:
    """A cancelled request ends as cancelled: nothing is logged, nothing is raised instead."""
    with anyio.CancelScope() as scope:
        with boundary("tools/list"):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        raise AssertionError("not cancelled")
    assert scope.cancelled_caught


@each_host
async def test_a_request_that_is_cancelled_logs_nothing(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that gives up while its page is made leaves no error behind."""
    entered = anyio.Event()

    async def visible(ctx: Any, items: Any) -> list[bool]:
        entered.set()
        await anyio.sleep_forever()
        raise AssertionError("never")

    host = Host(kind, visible=visible)
    async with in_memory(host.server, ERAS[0]) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, client, "tools/list")
        await entered.wait()
        tasks.cancel_scope.cancel()
    with caplog.at_level(logging.DEBUG, "cursorkit"):
        assert [record for record in caplog.records if record.name == "cursorkit"] == []
