"""The example with skills does what it says, as a program and in detail."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

from examples import skills_server
from tests.mcp_kit import (
    ERAS,
    INVALID_CURSOR,
    MODERN,
    RING,
    Tokens,
    access,
    ask,
    authenticated,
    flipped,
    in_memory,
    over_http,
    refused,
    served,
    walk,
)
from tests.skills_kit import skill_md, uris, write, write_skills

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with three skills for all, and one for a scope."""
    write_skills(tmp_path, "a", "b", "team/c")
    write(tmp_path, {"staff/SKILL.md": skill_md("staff", "metadata: {scope: staff}")})
    write(tmp_path, {"a/refs/x.md": "x"})
    return tmp_path


def listed(pages: list[dict[str, Any]]) -> list[str]:
    """Return the URIs of all skills of a walk."""
    return [uri for page in pages for uri in uris(page["skills"])]


async def test_the_example_runs_as_a_program(root: Path) -> None:
    """Started as its docstring says, it serves skills and files to the official client."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    program = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "examples" / "skills_server.py"), str(root)],
        env={**os.environ, "PYTHONPATH": path, "CURSORKIT_KEYS": RING.to_json()},
    )
    async with Client(program) as client:
        pages = await walk(client, "skills/list")
        read = await ask(client, "resources/read", {"uri": "skill://a/refs/x.md"})
        assert await refused(client, "skills/list", {"cursor": ""}) == INVALID_CURSOR
    assert [len(page["skills"]) for page in pages] == [2, 1]
    assert listed(pages) == ["skill://a/SKILL.md", "skill://b/SKILL.md", "skill://team/c/SKILL.md"]
    assert read["contents"][0]["text"] == "x"


@pytest.mark.parametrize("era", ERAS)
async def test_the_example_refuses_what_it_did_not_mint(root: Path, era: str) -> None:
    """A flipped byte, garbage and the empty string are one and the same error."""
    async with in_memory(skills_server.new_server(RING, root), era) as client:
        cursor = (await ask(client, "skills/list"))["nextCursor"]
        for forged in (flipped(cursor), "garbage", "", cursor + "="):
            assert await refused(client, "skills/list", {"cursor": forged}) == INVALID_CURSOR


async def test_a_skill_of_the_example_is_for_those_who_have_its_scope(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others neither see nor read it."""
    tokens = Tokens(staff=access("alice", "read", "staff"), guest=access("bob"))

    def with_tokens(name: str, **options: Any) -> MCPServer:
        return MCPServer(name, **options, **authenticated(tokens))

    monkeypatch.setattr(skills_server, "MCPServer", with_tokens)
    server = skills_server.new_server(RING, root)
    uri = {"uri": "skill://staff/SKILL.md"}
    async with (
        served(server.streamable_http_app()) as url,
        over_http(url, MODERN, token="staff") as staff,
        over_http(url, MODERN, token="guest") as guest,
    ):
        assert "skill://staff/SKILL.md" in listed(await walk(staff, "skills/list"))
        assert "skill://staff/SKILL.md" not in listed(await walk(guest, "skills/list"))
        assert await ask(staff, "resources/read", uri)
        for method in ("skills/get", "resources/read"):
            assert (await refused(guest, method, uri))["code"] == -32602
