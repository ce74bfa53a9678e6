"""The Skills extension, asked by real clients: in memory and over HTTP, of both eras."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.skills import SkillsClientExtension
from mcp import MCPError, types
from mcp.server import CacheHint, MCPServer, Server
from pydantic import BaseModel

from cursorkit import (
    Binding,
    ConfigurationError,
    ExpiredCursorError,
    ExpiringCodec,
    MemoryStore,
    NotFound,
    NotRegistered,
    Page,
    SignedCodec,
    SnapshotPaginator,
)
from cursorkit.adapters.mcp import CursorPagination, SkillsExtension, serve
from cursorkit.adapters.mcp.client import list_all_skills
from cursorkit.catalogs import Listeners, ResourceCatalog, Skills
from tests.mcp_kit import (
    CACHE_FIELDS,
    ERAS,
    INTERNAL_ERROR,
    INVALID_CURSOR,
    LEGACY,
    MODERN,
    RING,
    FakeClock,
    Tokens,
    access,
    always,
    ask,
    authenticated,
    connected,
    flipped,
    in_memory,
    new_paginator,
    over_http,
    refused,
    served,
    walk,
)
from tests.skills_kit import catalog_of, digest, skill_md, uris, write, write_skills

pytestmark = pytest.mark.anyio

each_era = pytest.mark.parametrize("era", ERAS)

UNKNOWN_SKILL = {"code": -32602, "message": "Unknown skill"}
UNKNOWN_DIRECTORY = {"code": -32602, "message": "Unknown directory"}
NOBODY: dict[str, Any] = {"principal": None, "auth_epoch": None}

LETTERS = "abcdefg"


def extension_of(catalog: Skills, **options: Any) -> SkillsExtension:
    """Return the extension with three skills, and three children of a directory, a page."""
    options = {"page_size": 3, "directory_page_size": 3, "audience": "demo", **options}
    return SkillsExtension(catalog, options.pop("paginator", None) or new_paginator(), **options)


def mcp_server(extension: SkillsExtension, *middleware: Any, **options: Any) -> MCPServer:
    """Return an `MCPServer` with the extension."""
    return MCPServer(
        "demo",
        version="1.0",
        log_level="CRITICAL",
        extensions=[extension],
        middleware=[extension, *middleware],
        **options,
    )


def low_level(extension: SkillsExtension) -> Server[Any]:
    """Return a low-level server with the extension."""
    server: Server[Any] = Server("demo", version="1.0")
    extension.install(server)
    return server


def by_serve(extension: SkillsExtension) -> Server[Any]:
    """Return a low-level server that was given the catalog together with others."""
    server: Server[Any] = Server("demo", version="1.0")
    resources = ResourceCatalog()
    resources.add({"uri": "data://x", "name": "x"}, always("x"))
    catalogs: list[Any] = [extension._catalog, resources]
    serve(server, catalogs, new_paginator(), audience="demo", page_size=3)
    return server


HOSTS: dict[str, Callable[[SkillsExtension], Any]] = {
    "MCPServer": mcp_server,
    "low-level": low_level,
    "serve": by_serve,
}
each_host = pytest.mark.parametrize("kind", HOSTS)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory with seven skills, of which the first has some files."""
    directory = tmp_path / "skills"
    write_skills(directory, *LETTERS)
    write(directory, {"a/refs/x.md": "x\r\n", "a/pixel.png": b"\x89PNG\xff", "a/y.md": "y"})
    return directory


def skills_of(pages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of all pages."""
    return [skill for page in pages for skill in page["skills"]]


def letters_of(pages: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of all skills of a walk."""
    return "".join(skill["frontmatter"]["name"] for skill in skills_of(pages))


# What is served.


@each_era
@each_host
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_skills_are_walked_asked_for_and_read(
    root: Path, era: str, kind: str, transport: str
) -> None:
    """Every file of every listed skill can be read, and has the listed digest and size."""
    server = HOSTS[kind](extension_of(catalog_of(root)))
    async with connected(server, era, transport) as client:
        pages = await walk(client, "skills/list")
        assert [len(page["skills"]) for page in pages] == [3, 3, 1]
        assert letters_of(pages) == LETTERS
        for skill in skills_of(pages):
            answer = await ask(client, "skills/get", {"uri": skill["uri"]})
            assert answer["skill"] == skill
            for file in skill["resources"]:
                (contents,) = (await ask(client, "resources/read", {"uri": file["uri"]}))[
                    "contents"
                ]
                text = contents.get("text")
                data = base64.b64decode(contents["blob"]) if text is None else text.encode()
                assert (digest(data), len(data)) == (file["digest"], file["size"])
                assert contents["uri"] == file["uri"]
        directory = await walk(client, "resources/directory/read", {"uri": "skill://a"})
    assert [len(page["resources"]) for page in directory] == [3, 1]
    children = [child for page in directory for child in page["resources"]]
    assert uris(children) == [
        "skill://a/SKILL.md",
        "skill://a/pixel.png",
        "skill://a/refs",
        "skill://a/y.md",
    ]
    assert children[2] == {
        "uri": "skill://a/refs",
        "name": "refs",
        "mimeType": "inode/directory",
    }


@each_era
@each_host
async def test_results_have_the_fields_of_their_revision(root: Path, era: str, kind: str) -> None:
    """On 2026-07-28 each says it is complete, cacheable ones for how long; before, none does."""
    server = HOSTS[kind](extension_of(catalog_of(root)))
    async with in_memory(server, era) as client:
        results = {
            "list": (await walk(client, "skills/list"))[0],
            "last": (await walk(client, "skills/list"))[-1],
            "get": await ask(client, "skills/get", {"uri": "skill://a/SKILL.md"}),
            "read": await ask(client, "resources/read", {"uri": "skill://a/SKILL.md"}),
            "directory": await ask(client, "resources/directory/read", {"uri": "skill://a"}),
        }
    fields = {
        name: {field: result[field] for field in CACHE_FIELDS if field in result}
        for name, result in results.items()
    }
    stamps = {name: result.get("_meta") for name, result in results.items()}
    if era == LEGACY:
        assert set(map(str, fields.values())) == {"{}"}
        assert set(stamps.values()) == {None}
        return
    assert fields.pop("directory") == {"resultType": "complete"}
    whole = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert list(fields.values()) == [whole] * 4
    server_info = {"io.modelcontextprotocol/serverInfo": {"name": "demo", "version": "1.0"}}
    assert list(stamps.values()) == [server_info] * 5


@each_host
async def test_the_server_says_what_it_can(root: Path, kind: str) -> None:
    """The extension is declared with its directories, and resources with it."""
    async with in_memory(HOSTS[kind](extension_of(catalog_of(root))), MODERN) as client:
        found = (await ask(client, "server/discover"))["capabilities"]
        listed = await ask(client, "resources/list")
    assert found["extensions"] == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert "resources" in found
    assert uris(listed["resources"]) == (["data://x"] if kind == "serve" else [])


@each_host
async def test_fastmcps_client_lists_and_verifies_the_skills(root: Path, kind: str) -> None:
    """Another implementation of the extension accepts entries, digests, frontmatter and files."""
    write(root, {"a/SKILL.md": skill_md("a", "metadata: {version: '1.0', deep: [1, 2.5, null]}")})
    write_skills(root, "team/billing/refunds", "b/inner")
    server = HOSTS[kind](extension_of(catalog_of(root)))
    async with (
        served(server.streamable_http_app()) as url,
        FastMCPClient(url, extensions=[SkillsClientExtension()]) as client,
    ):
        skills = await list_all_skills(client)
        read = [await client.read_skill(skill.uri) for skill in skills]
    assert [skill.name for skill in read] == [
        *"ab", "inner", *"cdefg", "refunds",
    ]  # fmt: skip
    assert set(read[0].files) == {"SKILL.md", "refs/x.md", "pixel.png", "y.md"}


@each_era
@each_host
async def test_what_is_not_there_is_invalid(root: Path, era: str, kind: str) -> None:
    """-32602 for skills and directories; for files by revision, with the URI as data."""
    code = -32602 if era == MODERN else -32002
    async with in_memory(HOSTS[kind](extension_of(catalog_of(root))), era) as client:
        for uri in ("skill://z/SKILL.md", "skill://a", "skill://a/y.md", "file:///x", "no uri"):
            assert await refused(client, "skills/get", {"uri": uri}) == UNKNOWN_SKILL
        for uri in ("skill://z", "skill://a/y.md", "skill://a/z", "skill://a/", "no uri"):
            assert (
                await refused(client, "resources/directory/read", {"uri": uri}) == UNKNOWN_DIRECTORY
            )
        if kind != "MCPServer":
            error = await refused(client, "resources/read", {"uri": "no uri"})
            assert error["data"] == {"uri": "no uri"}
        for uri in ("skill://a/missing", "skill://a/refs", "skill://a/x/../../../etc/passwd"):
            assert await refused(client, "resources/read", {"uri": uri}) == {
                "code": code,
                "message": "Resource not found",
                "data": {"uri": uri},
            }


@each_era
@each_host
async def test_a_cursor_is_refused_wherever_it_is_not_from(root: Path, era: str, kind: str) -> None:
    """Forged, empty, no text, of another directory or another list: one error, and no data."""
    write(root, {f"b/refs/{number}": "" for number in range(7)})
    async with in_memory(HOSTS[kind](extension_of(catalog_of(root))), era) as client:
        skills = (await ask(client, "skills/list"))["nextCursor"]
        a, b = [
            (await ask(client, "resources/directory/read", {"uri": uri}))["nextCursor"]
            for uri in ("skill://a", "skill://b/refs")
        ]
        cursors: list[Any] = ["", "garbage", flipped(skills), a, 5, True, [], {}, skills + "="]
        for cursor in cursors:
            assert await refused(client, "skills/list", {"cursor": cursor}) == INVALID_CURSOR
        for cursor in ("", "garbage", flipped(a), b, skills, 5):
            params = {"uri": "skill://a", "cursor": cursor}
            assert await refused(client, "resources/directory/read", params) == INVALID_CURSOR
        null = await ask(client, "skills/list", {"cursor": None})
        assert null["nextCursor"] == skills


async def test_a_cursor_is_of_one_era(root: Path) -> None:
    """A walk that began on one revision does not go on on another."""
    extension = extension_of(catalog_of(root))
    async with in_memory(mcp_server(extension), MODERN) as client:
        cursor = (await ask(client, "skills/list"))["nextCursor"]
    async with in_memory(low_level(extension), LEGACY) as client:
        assert await refused(client, "skills/list", {"cursor": cursor}) == INVALID_CURSOR


async def test_a_page_has_32_skills_at_most(tmp_path: Path) -> None:
    """Whatever is set, by the extension or the catalog; the catalog's own size wins below that."""
    write_skills(tmp_path, *(f"s{number:02}" for number in range(70)))
    for size, own, expected in (
        (250, None, [32, 32, 6]),
        (32, 10_000, [32, 32, 6]),
        (3, 30, [30, 30, 10]),
    ):
        extension = extension_of(catalog_of(tmp_path, page_size=own), page_size=size)
        async with in_memory(low_level(extension), MODERN) as client:
            pages = await walk(client, "skills/list")
        assert [len(page["skills"]) for page in pages] == expected


async def test_a_manifest_is_never_split(tmp_path: Path) -> None:
    """Fewer skills come on a page of few bytes, each with all of its files."""
    write_skills(tmp_path, "a", "b")
    write(tmp_path, {f"{name}/{number}": "" for name in "ab" for number in range(200)})
    extension = extension_of(catalog_of(tmp_path), max_page_bytes=40_000)
    async with in_memory(low_level(extension), MODERN) as client:
        pages = await walk(client, "skills/list")
    assert [[len(skill["resources"]) for skill in page["skills"]] for page in pages] == [
        [201],
        [201],
    ]


# What changes.


@each_era
async def test_a_walk_keeps_the_entries_of_its_first_page(root: Path, era: str) -> None:
    """Files that change in mid-walk show in `skills/get`, in files and in the next walk."""
    extension = extension_of(catalog_of(root))
    before = await extension._catalog.get("skill://g/SKILL.md", None)

    def change() -> None:
        write(root, {"g/SKILL.md": skill_md("g", description="New."), "g/new.md": "new"})
        write_skills(root, "0-a")
        (root / "f").rename(root.parent / "f")
        (root.parent / "f").rename(root / "f")

    async with in_memory(low_level(extension), era) as client:
        pages = await walk(client, "skills/list", between=change)
        now = (await ask(client, "skills/get", {"uri": "skill://g/SKILL.md"}))["skill"]
        again = await walk(client, "skills/list")
        read = await ask(client, "resources/read", {"uri": "skill://g/new.md"})
    assert letters_of(pages) == LETTERS
    assert skills_of(pages)[-1] == before
    assert now["frontmatter"]["description"] == "New."
    assert uris(now["resources"]) == ["skill://g/SKILL.md", "skill://g/new.md"]
    assert skills_of(again)[-1] == now
    assert len(skills_of(again)) == 8
    assert read["contents"][0]["text"] == "new"


@each_era
async def test_a_directory_keeps_the_children_of_its_first_page(root: Path, era: str) -> None:
    """A file that comes or goes in mid-walk neither skips nor repeats another."""
    async with in_memory(low_level(extension_of(catalog_of(root))), era) as client:
        pages = await walk(
            client,
            "resources/directory/read",
            {"uri": "skill://a"},
            between=lambda: write(root, {"a/0": "new"}),
        )
    assert [len(page["resources"]) for page in pages] == [3, 1]
    assert pages[1]["resources"][0]["uri"] == "skill://a/y.md"


@each_era
async def test_without_a_store_a_walk_goes_on_while_nothing_changes(root: Path, era: str) -> None:
    """The disk is looked at again, and proves the same; else the cursor is refused."""
    codec = ExpiringCodec(SignedCodec(RING), ttl=600)
    extension = extension_of(catalog_of(root), paginator=SnapshotPaginator(codec, None))
    async with in_memory(mcp_server(extension), era) as client:
        pages = await walk(client, "skills/list")
        assert letters_of(pages) == LETTERS
        params = {"uri": "skill://a"}
        directory = (await walk(client, "resources/directory/read", params))[0]
        (root / "a").rename(root / "z")
        later = {**params, "cursor": directory["nextCursor"]}
        assert await refused(client, "resources/directory/read", later) == INVALID_CURSOR
        later = {"cursor": pages[0]["nextCursor"]}
        assert await refused(client, "skills/list", later) == INTERNAL_ERROR
        write(root, {"z/SKILL.md": skill_md("z")})
        assert await refused(client, "skills/list", later) == INVALID_CURSOR


async def test_a_walk_ends_with_its_cursors(root: Path) -> None:
    """After its ttl a cursor is refused as any other."""
    clock = FakeClock()
    extension = extension_of(catalog_of(root), paginator=new_paginator(clock))
    async with in_memory(low_level(extension), MODERN) as client:
        cursor = (await ask(client, "skills/list"))["nextCursor"]
        clock.now += 700
        assert await refused(client, "skills/list", {"cursor": cursor}) == INVALID_CURSOR


@each_era
@each_host
async def test_what_breaks_is_an_internal_error(
    root: Path, era: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client learns nothing of the disk; the log names the file."""
    caplog.set_level(logging.ERROR, "cursorkit")
    server = HOSTS[kind](extension_of(catalog_of(root)))
    (root / "a" / "link").symlink_to("/etc/passwd")
    (root / "b" / "SKILL.md").write_text("# broken")
    async with in_memory(server, era) as client:
        for method, uri in (
            ("skills/list", None),
            ("skills/get", "skill://a/SKILL.md"),
            ("skills/get", "skill://b/SKILL.md"),
            ("resources/directory/read", "skill://a"),
        ):
            params = {} if uri is None else {"uri": uri}
            assert await refused(client, method, params) == INTERNAL_ERROR
        good = await ask(client, "skills/get", {"uri": "skill://c/SKILL.md"})
    assert good["skill"]["uri"] == "skill://c/SKILL.md"
    assert "'a/link' is a symbolic link" in caplog.text
    assert "'b/SKILL.md' does not begin with frontmatter" in caplog.text


# Who may see what.


def hide(*names: str) -> Callable[[Any, Sequence[Any]], list[bool]]:
    """Return a `visible` that hides skills by name, and sees nothing but skills."""

    def visible(ctx: Any, skills: Sequence[Any]) -> list[bool]:
        assert ctx.method == "skills/list"
        return [skill["frontmatter"]["name"] not in names for skill in skills]

    return visible


@each_era
@each_host
async def test_a_hidden_skill_is_nowhere(root: Path, era: str, kind: str) -> None:
    """Neither in the list nor by URI, nor its directories and files, however they are spelled."""
    if kind == "serve":
        server: Any = Server("demo")
        options: dict[str, Any] = {"audience": "demo", "visible": hide("a", "c")}
        serve(server, [catalog_of(root)], new_paginator(), **options)
    else:
        server = HOSTS[kind](extension_of(catalog_of(root), visible=hide("a", "c")))
    async with in_memory(server, era) as client:
        assert letters_of(await walk(client, "skills/list")) == "bdefg"
        assert await refused(client, "skills/get", {"uri": "skill://a/SKILL.md"}) == UNKNOWN_SKILL
        for uri in ("skill://a", "skill://a/refs", "skill://A/refs", "skill://a/./refs"):
            error = await refused(client, "resources/directory/read", {"uri": uri})
            assert error == UNKNOWN_DIRECTORY
        for uri in ("skill://a/SKILL.md", "skill://a/refs/x.md", "skill://a/b/../y.md"):
            error = await refused(client, "resources/read", {"uri": uri})
            assert error["message"] == "Resource not found"
        assert await ask(client, "resources/read", {"uri": "skill://b/SKILL.md"})
        assert await ask(client, "resources/directory/read", {"uri": "skill://b"})


async def test_no_spelling_of_a_uri_gets_around_what_is_hidden(tmp_path: Path) -> None:
    """Dots that lead from a shown skill to a hidden one, and paths without end, find nothing."""
    write_skills(tmp_path, "team/open", "team/secret")
    extension = extension_of(catalog_of(tmp_path), visible=hide("secret"))
    async with in_memory(mcp_server(extension), MODERN) as client:
        for uri in (
            "skill://team/open/../secret/SKILL.md",
            "skill://team/open/%2e%2e/secret/SKILL.md",
            "skill://team/open/..%2Fsecret/SKILL.md",
            "skill://team/secret/SKILL.md?/open",
            "skill://team/%73ecret/SKILL.md",
            "skill://team/secret/" + "x/" * 100_000,
        ):
            error = await refused(client, "resources/read", {"uri": uri})
            assert error["code"] == -32602
            error = await refused(client, "resources/directory/read", {"uri": uri})
            assert error == UNKNOWN_DIRECTORY


async def test_a_nested_file_is_shown_with_any_skill_around_it(tmp_path: Path) -> None:
    """What is in the entry of a shown skill can be read, though a nested skill is hidden."""
    write_skills(tmp_path, "outer", "outer/inner")
    for hidden, shown in (("inner", True), ("outer", True), (("inner", "outer"), False)):
        names = [hidden] if isinstance(hidden, str) else hidden
        extension = extension_of(catalog_of(tmp_path), visible=hide(*names))
        async with in_memory(mcp_server(extension), MODERN) as client:
            params = {"uri": "skill://outer/inner/SKILL.md"}
            if shown:
                assert await ask(client, "resources/read", params)
            else:
                assert (await refused(client, "resources/read", params))["code"] == -32602


@each_era
async def test_a_skill_that_is_hidden_in_mid_walk_is_left_out(root: Path, era: str) -> None:
    """Access is asked for on every page; a page may be empty and have a next one."""
    hidden: list[str] = []

    def visible(ctx: Any, skills: Sequence[Any]) -> list[bool]:
        return hide(*hidden)(ctx, skills)

    extension = extension_of(catalog_of(root), visible=visible)
    async with in_memory(low_level(extension), era) as client:
        pages = await walk(client, "skills/list", between=lambda: hidden.extend("def"))
        assert [len(page["skills"]) for page in pages] == [3, 0, 1]
        hidden.clear()
        params: dict[str, Any] = {"uri": "skill://a"}
        cursor = (await ask(client, "resources/directory/read", params))["nextCursor"]
        hidden.append("a")
        params["cursor"] = cursor
        error = await refused(client, "resources/directory/read", params)
    assert error == UNKNOWN_DIRECTORY


async def test_cursors_are_the_principals(root: Path) -> None:
    """Another subject's cursor is refused, for skills and for directories."""
    tokens = Tokens(alice=access("alice"), bob=access("bob"))
    server = mcp_server(extension_of(catalog_of(root)), **authenticated(tokens))
    async with (
        served(server.streamable_http_app()) as url,
        over_http(url, MODERN, token="alice") as alice,
        over_http(url, MODERN, token="bob") as bob,
    ):
        for method, params in (
            ("skills/list", {}),
            ("resources/directory/read", {"uri": "skill://a"}),
        ):
            cursor = (await ask(alice, method, params))["nextCursor"]
            assert await ask(alice, method, {**params, "cursor": cursor})
            assert await refused(bob, method, {**params, "cursor": cursor}) == INVALID_CURSOR


@each_era
@pytest.mark.parametrize(
    "answer", [[True], [1] * 7, None, RuntimeError("SECRET"), MCPError(-32000, "SECRET")]
)
async def test_a_visible_that_fails_is_never_an_answer(root: Path, era: str, answer: Any) -> None:
    """Too few, no bools or whatever exception: an internal error, for each method."""

    def visible(ctx: Any, skills: Sequence[Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer * len(skills) if answer == [1] * 7 else answer

    async with in_memory(
        mcp_server(extension_of(catalog_of(root), visible=visible)), era
    ) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
        if answer == [True]:
            return
        uri = {"uri": "skill://a/SKILL.md"}
        assert await refused(client, "skills/get", uri) == INTERNAL_ERROR
        assert await refused(client, "resources/read", uri) == INTERNAL_ERROR
        directory = {"uri": "skill://a"}
        assert await refused(client, "resources/directory/read", directory) == INTERNAL_ERROR


# Hints for caches.


def in_partition(ctx: Any, binding: Binding) -> Binding:
    """Bind cursors to a partition."""
    return binding.replace(partition="x")


def every_one(ctx: Any, skills: Sequence[Any]) -> Sequence[Any]:
    """Choose all skills."""
    return skills


def one_page(ctx: Any, skills: Sequence[Any] | None, cursor: str | None) -> Page[Any]:
    """Put all skills on one page."""
    return Page(list(skills or ()))


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        (NOBODY, "public"),
        ({}, "private"),
        ({**NOBODY, "principal": always("alice")}, "private"),
        ({**NOBODY, "visible": hide()}, "private"),
        ({**NOBODY, "bind": in_partition}, "private"),
        ({**NOBODY, "select": every_one}, "private"),
        ({**NOBODY, "pages": one_page}, "private"),
    ],
)
async def test_cache_hints_are_the_catalogs_where_all_see_the_same(
    root: Path, options: dict[str, Any], scope: str
) -> None:
    """Public stays only what depends on nobody, the same on each page and for each skill."""
    catalog = catalog_of(root, cache_hint=CacheHint(ttl_ms=5000, scope="public"))
    async with in_memory(low_level(extension_of(catalog, **options)), MODERN) as client:
        pages = await walk(client, "skills/list")
        got = await ask(client, "skills/get", {"uri": "skill://a/SKILL.md"})
        read = await ask(client, "resources/read", {"uri": "skill://a/SKILL.md"})
    assert {page["cacheScope"] for page in [*pages, got]} == {scope}
    assert [page["ttlMs"] for page in pages] == [5000, 0, 0][: len(pages)]
    assert got["ttlMs"] == 5000
    assert (read["ttlMs"], read["cacheScope"]) == (0, "private")


# Variants.


def locale_of(ctx: Any) -> str | None:
    """Return the language that was asked for."""
    params: dict[str, Any] = ctx.params or {}
    locale: str | None = params.get("_meta", {}).get("com.example/locale")
    return locale


def variants(ctx: Any, skills: Sequence[Any]) -> list[Any]:
    """Choose of each skill that has two languages the one that was asked for."""
    wanted = locale_of(ctx) or "en"
    return [
        skill
        for skill in skills
        if skill["frontmatter"].get("metadata", {}).get("locale", wanted) == wanted
    ]


def by_locale(ctx: Any, binding: Binding) -> Binding:
    """Bind cursors to the language that was asked for."""
    return binding.replace(locale=locale_of(ctx))


@pytest.fixture
def translated(tmp_path: Path) -> Path:
    """Return a directory with four skills in two languages."""
    for locale in ("de", "en"):
        files = {
            f"{locale}/{name}/SKILL.md": skill_md(name, f"metadata: {{locale: {locale}}}")
            for name in "abcd"
        }
        write(tmp_path, files)
    return tmp_path


@each_era
async def test_variants_are_chosen_on_the_first_page_only(translated: Path, era: str) -> None:
    """A walk stays in its language, and its cursors with it; all variants can be asked for."""
    calls: list[str] = []

    def select(ctx: Any, skills: Sequence[Any]) -> Any:
        calls.append(ctx.method)
        return variants(ctx, skills)

    extension = extension_of(catalog_of(translated), select=select, bind=by_locale)
    async with in_memory(low_level(extension), era) as client:
        for locale in ("de", "en", "fr"):
            calls.clear()
            meta = {"_meta": {"com.example/locale": locale}}
            pages = await walk(client, "skills/list", meta)
            found = uris(skills_of(pages))
            assert found == [f"skill://{locale}/{n}/SKILL.md" for n in "abcd" if locale != "fr"]
            assert calls == ["skills/list"]
        meta = {"_meta": {"com.example/locale": "de"}}
        cursor = (await ask(client, "skills/list", meta))["nextCursor"]
        assert await refused(client, "skills/list", {"cursor": cursor}) == INVALID_CURSOR
        assert await ask(client, "skills/get", {"uri": "skill://en/a/SKILL.md"})


async def test_a_selection_sees_only_what_the_principal_may_see(translated: Path) -> None:
    """A hidden variant is not chosen, where the other one is shown."""

    def visible(ctx: Any, skills: Sequence[Any]) -> list[bool]:
        return [skill["uri"] != "skill://de/a/SKILL.md" for skill in skills]

    async def one_each(ctx: Any, skills: Sequence[Any]) -> list[Any]:
        first = {skill["frontmatter"]["name"]: skill for skill in reversed(skills)}
        return [skill for skill in skills if first[skill["frontmatter"]["name"]] == skill]

    extension = extension_of(catalog_of(translated), visible=visible, select=one_each)
    async with in_memory(low_level(extension), MODERN) as client:
        pages = await walk(client, "skills/list")
    assert uris(skills_of(pages)) == [
        "skill://de/b/SKILL.md",
        "skill://de/c/SKILL.md",
        "skill://de/d/SKILL.md",
        "skill://en/a/SKILL.md",
    ]


def altered(skill: dict[str, Any]) -> dict[str, Any]:
    """Return a skill in place with one more word in its description."""
    skill["frontmatter"]["description"] += " And more."
    return skill


WRONG: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "foreign": (lambda own: [*own, {**own[0], "uri": "skill://z/SKILL.md"}], "not the catalog's"),
    "altered": (lambda own: [altered(own[0])], "not the catalog's own"),
    "cut": (lambda own: [{**own[0], "resources": []}], "not the catalog's own"),
    "twice": (lambda own: [own[0], own[0]], "twice on one page"),
    "backwards": (lambda own: [own[1], own[0]], "another order"),
    "no skills": (lambda own: [7], "a model or a mapping with a text as uri"),
    "no uri": (lambda own: [{"uri": ["x"]}], "a model or a mapping with a text as uri"),
    "nothing": (lambda own: None, "TypeError"),
}


@each_era
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_selection_of_anything_else_is_refused(
    root: Path, era: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Foreign or altered skills, a skill twice, another order: nothing is served."""
    change, told = WRONG[wrong]

    def select(ctx: Any, skills: Sequence[Any]) -> Any:
        return change(list(skills))

    extension = extension_of(catalog_of(root), select=select)
    async with in_memory(low_level(extension), era) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
        own = await ask(client, "skills/get", {"uri": "skill://a/SKILL.md"})
    assert told in caplog.text
    assert own["skill"]["frontmatter"]["description"] == "Does it."


# Pages of the host's own.


def same(own: list[Any]) -> list[Any]:
    """Return what is given."""
    return own


class OwnPages:
    """Two skills a page; the cursor is the URI of the last one. Notes what it is given."""

    def __init__(self, change: Callable[[list[Any]], Any] = same) -> None:
        self.given: list[tuple[list[str] | None, str | None]] = []
        self.later: list[Any] = []
        self.change = change

    async def __call__(self, ctx: Any, skills: Sequence[Any] | None, cursor: str | None) -> Any:
        self.given.append((None if skills is None else uris(list(skills)), cursor))
        if skills is not None:
            self.later = json.loads(json.dumps(list(skills)))
            start = 0
        elif cursor not in uris(self.later):
            raise ExpiredCursorError
        else:
            start = uris(self.later).index(cursor) + 1
        page = self.later[start : start + 2]
        more = start + 2 < len(self.later)
        return Page(self.change(page), page[-1]["uri"] if more else None)


@each_era
@pytest.mark.parametrize("kind", ["MCPServer", "low-level"])
async def test_a_handler_of_ones_own_makes_the_pages(root: Path, era: str, kind: str) -> None:
    """It gets the selection once, then only its cursors; what it returns is served."""

    def select(ctx: Any, skills: Sequence[Any]) -> list[Any]:
        return [skill for skill in skills if "/c/" not in skill["uri"]]

    pages = OwnPages()
    extension = extension_of(catalog_of(root), pages=pages, visible=hide("b"), select=select)
    async with in_memory(HOSTS[kind](extension), era) as client:
        found = await walk(client, "skills/list")
        cursors: list[Any] = ["garbage", "", 5, []]
        for cursor in cursors:
            assert await refused(client, "skills/list", {"cursor": cursor}) == INVALID_CURSOR
    assert [len(page["skills"]) for page in found] == [2, 2, 1]
    assert letters_of(found) == "adefg"
    assert pages.given == [
        ([f"skill://{name}/SKILL.md" for name in "adefg"], None),
        (None, "skill://d/SKILL.md"),
        (None, "skill://f/SKILL.md"),
        (None, "garbage"),
        (None, ""),
    ]
    cached = [field in page for page in found for field in CACHE_FIELDS]
    assert set(cached) == {era == MODERN}


@each_era
async def test_access_is_asked_for_on_its_later_pages_too(root: Path, era: str) -> None:
    """A skill that was taken away since is dropped from what the handler returns."""
    hidden: list[str] = []

    def visible(ctx: Any, skills: Sequence[Any]) -> list[bool]:
        return hide(*hidden)(ctx, skills)

    extension = extension_of(catalog_of(root), pages=OwnPages(), visible=visible)
    async with in_memory(low_level(extension), era) as client:
        found = await walk(client, "skills/list", between=lambda: hidden.extend("cd"))
    assert [len(page["skills"]) for page in found] == [2, 0, 2, 1]


@each_era
@pytest.mark.parametrize("wrong", WRONG)
async def test_its_pages_hold_the_catalogs_own_entries_or_are_refused(
    root: Path, era: str, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On the first page and on later ones; the order is its own only later."""
    change, told = WRONG[wrong]
    pages = OwnPages(change)
    async with in_memory(low_level(extension_of(catalog_of(root), pages=pages)), era) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
        assert told in caplog.text
        pages.change = same
        cursor = (await ask(client, "skills/list"))["nextCursor"]
        pages.change = change
        if wrong == "backwards":
            found = await ask(client, "skills/list", {"cursor": cursor})
            assert uris(found["skills"]) == ["skill://d/SKILL.md", "skill://c/SKILL.md"]
        else:
            error = await refused(client, "skills/list", {"cursor": cursor})
            assert error == INTERNAL_ERROR


@each_era
@pytest.mark.parametrize(
    ("page", "told"),
    [
        ([], "pages returned a list, not a Page"),
        (None, "pages returned a NoneType, not a Page"),
        (Page([], ""), "a cursor that is no text, or empty"),
        (Page([], 5), "a cursor that is no text, or empty"),  # type: ignore[arg-type]
        (RuntimeError("SECRET"), "SECRET"),
    ],
)
async def test_a_page_that_is_none_is_refused(
    root: Path, era: str, page: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client learns that something failed, the log what."""

    def pages(ctx: Any, skills: Any, cursor: Any) -> Any:
        if isinstance(page, Exception):
            raise page
        return page

    async with in_memory(low_level(extension_of(catalog_of(root), pages=pages)), era) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
        assert await refused(client, "skills/list", {"cursor": "x"}) == INTERNAL_ERROR
    assert told in caplog.text


async def test_its_pages_have_32_skills_at_most(tmp_path: Path) -> None:
    """One more and nothing is served."""
    write_skills(tmp_path, *(f"s{number:02}" for number in range(40)))
    count = [32]

    def pages(ctx: Any, skills: Any, cursor: Any) -> Page[Any]:
        return Page(skills[: count[0]])

    extension = extension_of(catalog_of(tmp_path), pages=pages)
    async with in_memory(low_level(extension), MODERN) as client:
        assert len((await ask(client, "skills/list"))["skills"]) == 32
        count[0] = 33
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR


async def test_an_empty_page_of_its_own_may_have_a_next_one(root: Path) -> None:
    """The walk goes on; the hint for caches is clamped to what the page says of its cursor."""
    clock = FakeClock()
    catalog = catalog_of(root, cache_hint=CacheHint(ttl_ms=60_000))

    def pages(ctx: Any, skills: Any, cursor: Any) -> Page[Any]:
        return Page([], "next", int(clock.now) + 60) if cursor is None else Page([])

    extension = extension_of(catalog, pages=pages, paginator=new_paginator(clock))
    async with in_memory(low_level(extension), MODERN) as client:
        found = await walk(client, "skills/list")
    assert [(page["skills"], page["ttlMs"]) for page in found] == [([], 30_000), ([], 0)]


async def test_an_error_of_its_own_on_the_first_page_reaches_the_client(root: Path) -> None:
    """An `MCPError` is the host's word there, and an internal error on later pages."""

    def pages(ctx: Any, skills: Any, cursor: Any) -> Any:
        raise MCPError(-32000, "Closed on Sundays")

    async with in_memory(low_level(extension_of(catalog_of(root), pages=pages)), MODERN) as client:
        error = await refused(client, "skills/list", {})
        assert error == {"code": -32000, "message": "Closed on Sundays"}
        assert await refused(client, "skills/list", {"cursor": "x"}) == INTERNAL_ERROR


# Catalogs of the host's own.


class Entry(BaseModel):
    """A skill as a model of the host's own."""

    uri: str
    frontmatter: dict[str, Any]
    resources: str = "dynamic"


class OwnCatalog:
    """Two dynamic skills from nowhere, under a scheme of its own."""

    def __init__(self, *names: str) -> None:
        self.method = "skills/list"
        self.page_size = 1
        self.cache_hint = None
        self.version: str | None = None
        self.listed = 0
        self._entries: list[Any] = [
            Entry(uri=f"db://x/{name}/SKILL.md", frontmatter={"name": name, "description": "d"})
            for name in names
        ]
        self._entries[0] = MappingProxyType(self._entries[0].model_dump())

    async def entries(self, context: Any) -> AsyncIterator[Any]:
        self.listed += 1

        async def rows() -> AsyncIterator[Any]:
            for entry in self._entries:
                yield entry

        return rows()

    async def get(self, uri: str, context: Any) -> Any:
        for entry in self._entries:
            if dict(entry)["uri"] == uri:
                return entry
        raise NotRegistered("no row")

    async def directory(self, uri: str, context: Any) -> Any:
        return [types.Resource(uri=f"{uri}/SKILL.md", name="SKILL.md")]

    async def read(self, uri: str, context: Any) -> Any:
        if uri == "db://x/none":
            raise NotFound("no row")
        if not uri.startswith("db:"):
            raise NotRegistered("not of this database")
        contents = types.TextResourceContents(uri=uri, text=context.method)
        return types.ReadResourceResult(contents=[contents], _meta={"com.example/row": 7})

    def on_list_changed(self, callback: Callable[[], None]) -> Callable[[], None]:
        return Listeners().subscribe(callback)


@each_era
@each_host
async def test_a_catalog_of_ones_own_is_served(era: str, kind: str) -> None:
    """Models, mappings and async rows, skills without digests, and another scheme."""
    catalog = OwnCatalog("a", "b")
    async with in_memory(HOSTS[kind](extension_of(catalog)), era) as client:
        pages = await walk(client, "skills/list")
        got = await ask(client, "skills/get", {"uri": "db://x/b/SKILL.md"})
        read = await ask(client, "resources/read", {"uri": "db://x/b/SKILL.md"})
        directory = await ask(client, "resources/directory/read", {"uri": "db://x/b"})
        missing = await refused(client, "resources/read", {"uri": "db://x/none"})
    assert letters_of(pages) == "ab"
    assert [len(page["skills"]) for page in pages] == [1, 1]
    assert got["skill"] == skills_of(pages)[1]
    assert got["skill"]["resources"] == "dynamic"
    assert read["contents"][0]["text"] == "resources/read"
    assert read["_meta"]["com.example/row"] == 7
    assert uris(directory["resources"]) == ["db://x/b/SKILL.md"]
    assert missing["message"] == "Resource not found"


async def test_a_hidden_skill_of_such_a_catalog_is_hidden_as_well() -> None:
    """Its scheme does not matter for that."""
    extension = extension_of(OwnCatalog("a", "b"), visible=hide("a"))
    async with in_memory(mcp_server(extension), MODERN) as client:
        assert letters_of(await walk(client, "skills/list")) == "b"
        error = await refused(client, "resources/read", {"uri": "db://x/a/refs/y.md"})
        assert error["message"] == "Resource not found"
        assert await ask(client, "resources/read", {"uri": "db://x/b/refs/y.md"})


async def test_a_catalog_with_a_version_is_listed_once(root: Path) -> None:
    """While its version stays, first pages do not list again, unless a selection is asked for."""

    options: dict[str, Any]
    for options, count in (({}, 1), ({"select": every_one}, 3)):
        catalog = OwnCatalog("a", "b")
        catalog.version = "1"
        async with in_memory(low_level(extension_of(catalog, **options)), MODERN) as client:
            for _ in range(3):
                await ask(client, "skills/list")
        assert catalog.listed == count


@pytest.mark.parametrize("own", [True, False])
async def test_two_skills_with_one_uri_are_refused(own: bool) -> None:
    """Nothing is served from such a catalog; equal names are legal."""
    options: dict[str, Any] = {"pages": OwnPages()} if own else {}
    async with in_memory(
        low_level(extension_of(OwnCatalog("a", "a"), **options)), MODERN
    ) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
    same = OwnCatalog("a", "b")
    same._entries[1].frontmatter["name"] = "a"
    async with in_memory(low_level(extension_of(same)), MODERN) as client:
        assert letters_of(await walk(client, "skills/list")) == "aa"


# How it is put into a server.


def _done() -> str:
    return "done"


@each_era
async def test_what_is_no_skill_goes_on_to_the_server(root: Path, era: str) -> None:
    """Resources of the server's own can be read, and its errors are its own."""
    server = mcp_server(extension_of(catalog_of(root)))
    server.resource("data://x", name="x")(lambda: "own")
    server.add_tool(_done, name="tool")
    below = Server[Any]("demo")
    serve(below, [resources := ResourceCatalog()], new_paginator(), audience="demo")
    resources.add({"uri": "data://x", "name": "x"}, always("own"))
    extension_of(catalog_of(root)).install(below)
    for each in (server, below):
        async with in_memory(each, era) as client:
            read = await ask(client, "resources/read", {"uri": "data://x"})
            assert read["contents"][0]["text"] == "own"
            missing = await refused(client, "resources/read", {"uri": "data://y"})
            assert missing["data"] == {"uri": "data://y"}
            malformed = await refused(client, "resources/read", {"uri": 5})
            assert malformed["message"] == "Invalid request parameters"
            assert uris((await ask(client, "resources/list"))["resources"]) == ["data://x"]
    async with in_memory(server, era) as client:
        result = await client.call_tool("tool")
    assert isinstance(result, types.CallToolResult)
    assert isinstance(result.content[0], types.TextContent)
    assert result.content[0].text == "done"


async def test_skills_are_served_once(root: Path) -> None:
    """The SDK refuses a second extension, `install` a server that has the methods."""
    extension = extension_of(catalog_of(root))
    with pytest.raises(ValueError, match="already registered"):
        MCPServer("demo", extensions=[extension, extension_of(catalog_of(root))])
    server = low_level(extension)
    with pytest.raises(ConfigurationError, match="a handler for skills/list already"):
        extension_of(catalog_of(root)).install(server)


@each_era
async def test_a_forgotten_middleware_is_warned_of_once(
    root: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Skills whose files cannot be read are of no use; the log says what to do."""
    extension = extension_of(catalog_of(root))
    server = MCPServer("demo", log_level="CRITICAL", extensions=[extension])
    async with in_memory(server, era) as client:
        await walk(client, "skills/list")
    assert caplog.text.count("give the SkillsExtension to MCPServer as middleware, too") == 1
    caplog.clear()
    async with in_memory(mcp_server(extension_of(catalog_of(root))), era) as client:
        await walk(client, "skills/list")
    assert "SkillsExtension" not in caplog.text


@each_era
async def test_next_to_the_middleware_that_pages_one_of_them_does_it(
    root: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Paging twice is refused, and the log says how to turn it off."""
    paginator = new_paginator()
    both = CursorPagination(paginator, audience="demo", page_size=3)
    server = mcp_server(extension_of(catalog_of(root), paginator=paginator), both)
    async with in_memory(server, era) as client:
        assert await refused(client, "skills/list", {}) == INTERNAL_ERROR
    assert "page_sizes={'skills/list': None}" in caplog.text
    off: dict[str, int | None] = {"skills/list": None, "resources/directory/read": None}
    one = CursorPagination(paginator, audience="demo", page_size=3, page_sizes=off)
    server = mcp_server(extension_of(catalog_of(root), paginator=paginator), one)
    for number in range(4):
        server.add_tool(lambda: None, name=f"t{number}")
    async with in_memory(server, era) as client:
        assert letters_of(await walk(client, "skills/list")) == LETTERS
        directory = await walk(client, "resources/directory/read", {"uri": "skill://a"})
        assert [len(page["resources"]) for page in directory] == [3, 1]
        assert [len(page["tools"]) for page in await walk(client)] == [3, 1]


@pytest.mark.parametrize("error", [MCPError(-32601, "Method not found"), RuntimeError("broken")])
async def test_a_server_without_discovery_still_reads(root: Path, error: Exception) -> None:
    """Where the server's stamp cannot be had, a file is served without it."""

    async def no_discovery(ctx: Any, call_next: Any) -> Any:
        # A client that is told its server's version does not ask.
        if ctx.method == "server/discover":
            raise error
        return await call_next(ctx)

    server = mcp_server(extension_of(catalog_of(root)), no_discovery)
    async with in_memory(server, MODERN) as client:
        read = await ask(client, "resources/read", {"uri": "skill://a/y.md"})
    assert read["contents"][0]["text"] == "y"


@pytest.mark.parametrize(
    "options",
    [{"page_size": 0}, {"directory_page_size": 0}, {"audience": ""}, {"max_page_bytes": 0}],
)
async def test_a_setting_out_of_range_is_refused(root: Path, options: dict[str, Any]) -> None:
    """At construction, with the name of the setting."""
    with pytest.raises(ConfigurationError):
        extension_of(catalog_of(root), **options)


async def test_another_node_goes_on_with_a_walk(root: Path) -> None:
    """Nodes with the same files and a shared store serve each other's cursors."""
    store = MemoryStore()
    first = extension_of(catalog_of(root), paginator=new_paginator(store=store))
    second = extension_of(catalog_of(root), paginator=new_paginator(store=store))
    async with in_memory(low_level(first), MODERN) as client:
        page = await ask(client, "skills/list")
    async with in_memory(low_level(second), MODERN) as client:
        rest = await walk(client, "skills/list", {"cursor": page["nextCursor"]})
    assert letters_of([page, *rest]) == LETTERS
