"""The examples do what they say, as programs and in detail."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent

from examples import custom_list_handler, lowlevel_server, mcp_server
from tests.mcp_kit import ERAS, INVALID_CURSOR, RING, ask, flipped, in_memory, names, refused, walk

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

SERVERS: dict[str, tuple[Any, list[str]]] = {
    "mcp_server": (mcp_server, ["add", "subtract", "multiply", "divide", "negate"]),
    "lowlevel_server": (lowlevel_server, ["lower", "reverse", "strip", "title", "upper"]),
    "custom_list_handler": (custom_list_handler, custom_list_handler.NAMES),
}
"""The examples that are MCP servers, three tools a page, and their tools."""

each_server = pytest.mark.parametrize("name", SERVERS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    """Nobody has to read more than 99 lines."""
    assert len(path.read_text(encoding="utf-8").splitlines()) < 100


@pytest.mark.anyio
@each_server
async def test_an_example_runs_as_a_program(name: str) -> None:
    """Started as its docstring says, it serves its pages to the official client."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    program = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "examples" / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": path, "CURSORKIT_KEYS": RING.to_json()},
    )
    async with Client(program) as client:
        pages = await walk(client)
        assert await refused(client, "tools/list", {"cursor": ""}) == INVALID_CURSOR
    assert [len(page["tools"]) for page in pages] == [3, 2]
    assert names(pages) == SERVERS[name][1]


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
@each_server
async def test_an_example_refuses_what_it_did_not_mint(name: str, era: str) -> None:
    """A flipped byte, garbage and the empty string are one and the same error."""
    async with in_memory(SERVERS[name][0].new_server(RING), era) as client:
        cursor = (await ask(client, "tools/list"))["nextCursor"]
        for forged in (flipped(cursor), "garbage", "", cursor + "="):
            assert await refused(client, "tools/list", {"cursor": forged}) == INVALID_CURSOR


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_of_the_examples_can_be_called(era: str) -> None:
    """Paging the lists takes nothing from the calls."""
    async with in_memory(mcp_server.new_server(RING), era) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    async with in_memory(lowlevel_server.new_server(RING), era) as client:
        result = await client.call_tool("reverse", {"text": "abc"})
    assert isinstance(result, CallToolResult)
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text == "cba"


@pytest.mark.anyio
async def test_removing_the_last_tool_seen_skips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The custom handler goes on after a name, whether its tool is still there or not."""
    server = custom_list_handler.new_server(RING)
    left = [name for name in custom_list_handler.NAMES if name != "cherry"]

    def remove() -> None:
        monkeypatch.setattr(custom_list_handler, "NAMES", left)

    async with in_memory(server, ERAS[0]) as client:
        pages = await walk(client, between=remove)
    assert names(pages) == ["apple", "banana", "cherry", "damson", "elderberry"]


def test_the_custom_handler_imports_no_paginator_and_no_adapter() -> None:
    """From cursorkit it takes the codec and what that takes, nothing else."""
    tree = ast.parse((ROOT / "examples" / "custom_list_handler.py").read_text(encoding="utf-8"))
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cursorkit")
        for alias in node.names
    }
    wanted = ["Binding", "CursorCodec", "CursorError", "ExpiringCodec", "KeyRing", "Keyset"]
    assert imported == {f"cursorkit.{name}" for name in [*wanted, "SignedCodec"]}
