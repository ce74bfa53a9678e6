"""The example with files does what it says: no URI gets out of its directory."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server import Server

from examples import filesystem_resources
from tests.mcp_kit import ERAS, INVALID_CURSOR, RING, ask, flipped, in_memory, refused, walk
from tests.skills_kit import write

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[1]

FILES: dict[str, str | bytes] = {
    "a.txt": "ä\r\n",
    "b/c d.txt": "c",
    "b/e.bin": b"\xff",
    "f": "f",
    "z/ü.md": "z",
}
HIDDEN: dict[str, str | bytes] = {".env": "secret", ".git/x": "secret"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with files, some with a dot, beside a secret."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root-2").mkdir()
    (tmp_path / "root-2" / "x").write_text("secret")
    directory = tmp_path / "root"
    write(directory, FILES | HIDDEN)
    return directory


def new_server(root: Path) -> Server[Any]:
    """Return the example's server."""
    return filesystem_resources.new_server(RING, root)


def listed(pages: list[dict[str, Any]]) -> list[str]:
    """Return the URIs of all resources of a walk."""
    return [resource["uri"] for page in pages for resource in page["resources"]]


async def read(client: Client, uri: str) -> bytes:
    """Return the bytes of a resource."""
    (contents,) = (await ask(client, "resources/read", {"uri": uri}))["contents"]
    text = contents.get("text")
    return base64.b64decode(contents["blob"]) if text is None else text.encode()


async def is_refused(client: Client, uri: str) -> bool:
    """Return whether a URI is refused as nothing that is there."""
    error = await refused(client, "resources/read", {"uri": uri})
    return error == {"code": -32602, "message": "Resource not found", "data": {"uri": uri}}


async def test_the_example_runs_as_a_program(root: Path) -> None:
    """Started as its docstring says, it serves the files to the official client."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    program = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "examples" / "filesystem_resources.py"), str(root)],
        env={**os.environ, "PYTHONPATH": path, "CURSORKIT_KEYS": RING.to_json()},
    )
    async with Client(program) as client:
        pages = await walk(client, "resources/list")
        assert await refused(client, "resources/list", {"cursor": ""}) == INVALID_CURSOR
        assert await read(client, listed(pages)[0]) == "ä\r\n".encode()
    assert [len(page["resources"]) for page in pages] == [3, 2]
    assert listed(pages) == [(root / path).as_uri() for path in FILES]


@pytest.mark.parametrize("era", ERAS)
async def test_every_file_that_is_listed_is_read(root: Path, era: str) -> None:
    """Text as text and bytes as bytes; a walk is the directory of its first page."""
    async with in_memory(new_server(root), era) as client:
        pages = await walk(client, "resources/list", between=(root / "0").touch)
        found = [await read(client, uri) for uri in listed(pages)]
        for forged in (flipped(pages[0]["nextCursor"]), "garbage", ""):
            assert await refused(client, "resources/list", {"cursor": forged}) == INVALID_CURSOR
        again = await walk(client, "resources/list")
    assert found == [
        content.encode() if isinstance(content, str) else content for content in FILES.values()
    ]
    assert listed(again) == [(root / "0").as_uri(), *listed(pages)]


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "/",
        "/b",
        "/nowhere",
        "/../secret",
        "/b/../../secret",
        "/%2e%2e/secret",
        "/b/..%2F..%2Fsecret",
        "-2/x",
        "/../root-2/x",
        "/.env",
        "/.git/x",
        "/b/../.env",
        "/a.txt?x",
        "/a.txt%00",
        "/%FF",
        "/" + "n" * 5000,
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_what_is_not_below_the_directory_is_refused(root: Path, era: str, tail: str) -> None:
    """Dots, encoded or not, other directories, hidden files, and what is no file at all."""
    async with in_memory(new_server(root), era) as client:
        assert await is_refused(client, root.as_uri() + tail)


@pytest.mark.parametrize(
    "uri",
    ["", "a.txt", "http://localhost{}", "file://evil.example{}", "file://127.0.0.1{}", "FILE:{}x",
     "file://localhost:80{}", "file://[::1{}", "file:///etc/passwd", "//etc/passwd", "file:a.txt"],
)  # fmt: skip
async def test_other_schemes_and_authorities_are_refused(root: Path, uri: str) -> None:
    """A file of another host is none of this server's, whatever its path."""
    async with in_memory(new_server(root), ERAS[0]) as client:
        assert await is_refused(client, uri.format(root / "a.txt"))


async def test_the_local_host_may_be_named(root: Path) -> None:
    """RFC 8089 allows it, and paths that are not canonical are made so."""
    async with in_memory(new_server(root), ERAS[0]) as client:
        assert await read(client, f"file://localhost{root}/f") == b"f"
        assert await read(client, f"file://{root}/b/../%66") == b"f"


async def test_links_are_followed_only_within_the_directory(root: Path) -> None:
    """A link that leads out, or on the way does, is neither listed nor read."""
    (root / "inside").symlink_to("f")
    (root / "out").symlink_to("../secret")
    (root / "passwd").symlink_to("/etc/passwd")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "hidden").symlink_to(".env")
    async with in_memory(new_server(root), ERAS[0]) as client:
        assert len(listed(await walk(client, "resources/list"))) == len(FILES)
        assert await read(client, (root / "inside").as_uri()) == b"f"
        for name in ("out", "passwd", "up/secret", "up/root/../secret", "loop", "hidden"):
            assert await is_refused(client, f"{root.as_uri()}/{name}")


async def test_a_special_file_is_refused_at_once(root: Path) -> None:
    """Nobody waits for the other end of a FIFO."""
    os.mkfifo(root / "fifo")
    async with in_memory(new_server(root), ERAS[0]) as client:
        assert await is_refused(client, (root / "fifo").as_uri())
        assert len(listed(await walk(client, "resources/list"))) == len(FILES)


def swap_file(root: Path) -> None:
    """Make a file a link that leads out."""
    (root / "b" / "c d.txt").unlink()
    (root / "b" / "c d.txt").symlink_to("../../secret")


def swap_directory(root: Path) -> None:
    """Make a directory on the way a link that leads out, to a file of the same name."""
    (root.parent / "root-2" / "c d.txt").write_text("secret")
    (root / "b").rename(root.parent / "moved")
    (root / "b").symlink_to("../root-2")


def swap_nothing(root: Path) -> None:
    """Remove a file."""
    (root / "b" / "c d.txt").unlink()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("swap", [swap_file, swap_directory, swap_nothing])
async def test_what_becomes_a_link_after_it_was_authorized_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, era: str, swap: Callable[[Path], None]
) -> None:
    """The file is opened name by name from the directory, and no name may be a link by then."""
    really = filesystem_resources.Files._read

    def swapped(files: filesystem_resources.Files, path: Path) -> bytes | None:
        swap(root)
        return really(files, path)

    monkeypatch.setattr(filesystem_resources.Files, "_read", swapped)
    async with in_memory(new_server(root), era) as client:
        assert await is_refused(client, (root / "b" / "c d.txt").as_uri())


async def test_a_name_that_cannot_be_shown_is_not_listed(root: Path) -> None:
    """What is not UTF-8, or would break lines, takes nothing from the others."""
    write(root, {os.fsdecode(b"\xff"): "", "a\nb": ""})
    async with in_memory(new_server(root), ERAS[0]) as client:
        assert len(listed(await walk(client, "resources/list"))) == len(FILES)
        assert await is_refused(client, f"{root.as_uri()}/%FF")
        assert await is_refused(client, f"{root.as_uri()}/a%0Ab")
