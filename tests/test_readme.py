"""The README's examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = dict(re.findall(r"<!-- run: (\w+) -->\n```python\n(.*?)```", README.read_text(), re.S))


def run(name: str) -> dict[str, Any]:
    # The name keeps `if __name__ == "__main__"` from starting a server.
    namespace: dict[str, Any] = {"__name__": f"readme_{name}"}
    exec(compile(EXAMPLES[name], f"README.md:{name}", "exec"), namespace)  # noqa: S102
    return namespace


def test_every_python_block_of_the_readme_is_run() -> None:
    """No example escapes the tests below."""
    blocks = README.read_text().count("```python")
    assert blocks == len(EXAMPLES) == 6


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["middleware", "lowlevel"])
@pytest.mark.filterwarnings("ignore:ephemeral keys:RuntimeWarning")
async def test_a_client_walks_the_example_server_in_pages_of_three(name: str) -> None:
    """Ten tools come in four pages, in order."""
    async with Client(run(name)["server"]) as client:
        pages: list[list[str]] = []
        cursor = None
        for _ in range(10):
            result = await client.list_tools(cursor=cursor)
            pages.append([tool.name for tool in result.tools])
            cursor = result.next_cursor
            if cursor is None:
                break
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    names = [name for page in pages for name in page]
    assert names == [f"tool-{number}" for number in range(10)]


@pytest.mark.filterwarnings("ignore:ephemeral keys:RuntimeWarning")
def test_the_handler_of_ones_own_refuses_a_stranger(capsys: pytest.CaptureFixture[str]) -> None:
    """The example walks, and prints the one message for another user's cursor."""
    example = run("own")
    assert capsys.readouterr().out == "Invalid or expired cursor\n"
    page, cursor = example["list_articles"](example["cursor"], "alice")
    assert page == ["article 3", "article 4", "article 5"]
    assert cursor is not None


def test_the_shared_store_of_the_readme_can_be_made() -> None:
    """The example needs no server to be constructed."""
    assert run("redis")["store"]


@pytest.mark.filterwarnings("ignore:ephemeral keys:RuntimeWarning")
def test_the_fastmcp_example_can_be_made() -> None:
    """The app takes the middleware; a second one is refused as everywhere."""
    assert run("fastmcp")["app"].name == "catalog"


@pytest.mark.filterwarnings("ignore:ephemeral keys:RuntimeWarning")
def test_the_snapshot_example_pages_and_hides(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints its first page; an order that changed hands is gone from the next."""
    example = run("snapshots")
    assert "'id': 2" in capsys.readouterr().out
    example["orders"][3]["owner"] = "bob"
    page = anyio.run(example["list_orders"], None, "alice")
    assert [order["id"] for order in page.items] == [0, 1, 2]
    following = anyio.run(example["list_orders"], page.next_cursor, "alice")
    assert [order["id"] for order in following.items] == [4, 5, 6]


def test_every_link_of_the_documents_leads_somewhere() -> None:
    """No page points at a file that is not there."""
    for document in [*README.parent.glob("*.md"), *README.parent.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"
