"""Skills from a directory: what is listed, what is read, and what no trick gets out of it."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server import CacheHint

from cursorkit import (
    Binding,
    ConfigurationError,
    Key,
    KeyRing,
    MemoryStore,
    NotFound,
    NotRegistered,
    SignedCodec,
    SnapshotPaginator,
    SourceError,
)
from cursorkit.catalogs import Skills
from cursorkit.catalogs.skills import SkillCatalog, tree
from tests.skills_kit import catalog_of, digest, skill_md, uris, write, write_skills

pytestmark = pytest.mark.anyio


async def listed(catalog: SkillCatalog) -> list[str]:
    """Return the URIs of all skills."""
    return uris(await catalog.entries())


def refusal(root: Path) -> str:
    """Return why a directory cannot be served."""
    with pytest.raises(ConfigurationError) as caught:
        catalog_of(root)
    assert caught.value.__cause__ is None
    start = f"{os.fspath(root)!a} cannot be served as skills: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


class Reads:
    """Counts the files that are read to be hashed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[str] = []
        really: Callable[..., bytes] = tree._bytes

        def counting(fd: int, status: os.stat_result, place: tuple[str, ...]) -> bytes:
            self.places.append("/".join(place))
            return really(fd, status, place)

        monkeypatch.setattr(tree, "_bytes", counting)


# What is listed.


@pytest.mark.both_backends
async def test_an_entry_has_frontmatter_and_all_files(tmp_path: Path) -> None:
    """Each file has URI, digest and size, in order, those of directories too."""
    files: dict[str, str | bytes] = {
        "review/SKILL.md": skill_md("review", "license: MIT"),
        "review/a.bin": b"\xff\x00",
        "review/refs/deep/x.md": "x",
        "review/refs/empty": b"",
    }
    write(tmp_path, files)
    catalog = catalog_of(tmp_path)
    skills: Skills = catalog
    assert skills.method == "skills/list"
    assert await catalog.entries() == [
        {
            "uri": "skill://review/SKILL.md",
            "frontmatter": {"name": "review", "description": "Does it.", "license": "MIT"},
            "resources": [
                {"uri": f"skill://{path}", "digest": digest(content), "size": len(content)}
                for path, content in sorted(files.items())
            ],
        }
    ]


async def test_skills_are_found_at_any_depth_and_listed_by_place(tmp_path: Path) -> None:
    """Equal names at different places are legal; what has no SKILL.md is no skill."""
    write_skills(tmp_path, "b", "a", "acme/billing/refunds", "acme/support/refunds")
    write(tmp_path, {"README.md": "x", "acme/notes.txt": "x", "zeta/skill.md": "x"})
    assert await listed(catalog_of(tmp_path)) == [
        "skill://a/SKILL.md",
        "skill://acme/billing/refunds/SKILL.md",
        "skill://acme/support/refunds/SKILL.md",
        "skill://b/SKILL.md",
    ]


async def test_a_nested_skill_is_listed_and_part_of_the_one_around_it(tmp_path: Path) -> None:
    """Its files are in both entries; the enclosing skill comes first."""
    write_skills(tmp_path, "outer", "outer/parts/inner")
    write(tmp_path, {"outer/parts/inner/x.md": "x", "outer/y.md": "y"})
    outer, inner = await catalog_of(tmp_path).entries()
    assert uris([outer, inner]) == [
        "skill://outer/SKILL.md",
        "skill://outer/parts/inner/SKILL.md",
    ]
    assert uris(inner["resources"]) == [
        "skill://outer/parts/inner/SKILL.md",
        "skill://outer/parts/inner/x.md",
    ]
    assert uris(outer["resources"]) == [
        "skill://outer/SKILL.md",
        *uris(inner["resources"]),
        "skill://outer/y.md",
    ]


async def test_directories_with_a_dot_are_passed_over_outside_of_skills(tmp_path: Path) -> None:
    """Neither .git nor what is in it is looked at; in a skill, every file belongs to it."""
    write_skills(tmp_path, "a", ".hidden")
    write(tmp_path, {".git/HEAD": "x", "a/.config/x": "x"})
    (tmp_path / ".link").symlink_to("/")
    catalog = catalog_of(tmp_path)
    (entry,) = await catalog.entries()
    assert uris(entry["resources"]) == ["skill://a/.config/x", "skill://a/SKILL.md"]
    with pytest.raises(NotRegistered):
        await catalog.get("skill://.hidden/SKILL.md")
    with pytest.raises(NotRegistered):
        await catalog.read("skill://.hidden/SKILL.md")
    assert (await catalog.read("skill://a/.config/x"))["contents"][0]["text"] == "x"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("ü ñ.md", "%C3%BC%20%C3%B1.md"),
        ("a%2Fb#c?.md", "a%252Fb%23c%3F.md"),
        ("!(1)'~-_.md", "%21%281%29%27~-_.md"),
        ("日本.md", "%E6%97%A5%E6%9C%AC.md"),
        ("\n.md", "%0A.md"),
        ("...", "..."),
        ("a\\b", "a%5Cb"),
    ],
)
async def test_a_file_with_any_name_has_a_uri_and_is_read_by_it(
    tmp_path: Path, name: str, encoded: str
) -> None:
    """What a URI cannot hold is percent-encoded, and read again by what it stands for."""
    write_skills(tmp_path, "a")
    write(tmp_path, {f"a/{name}": "content"})
    catalog = catalog_of(tmp_path)
    (entry,) = await catalog.entries()
    assert f"skill://a/{encoded}" in uris(entry["resources"])
    contents = (await catalog.read(f"skill://a/{encoded}"))["contents"]
    assert contents[0]["uri"] == f"skill://a/{encoded}"
    assert contents[0]["text"] == "content"


async def test_an_empty_directory_has_no_skills(tmp_path: Path) -> None:
    """They may come later."""
    catalog = catalog_of(tmp_path)
    assert await catalog.entries() == []
    write_skills(tmp_path, "late")
    assert await listed(catalog) == ["skill://late/SKILL.md"]


async def test_the_settings_of_a_list_are_those_given(tmp_path: Path) -> None:
    """Page size and cache hint are the catalog's own."""
    hint = CacheHint(ttl_ms=5, scope="public")
    catalog = catalog_of(tmp_path, page_size=3, cache_hint=hint)
    assert (catalog.method, catalog.page_size, catalog.cache_hint) == ("skills/list", 3, hint)
    assert catalog_of(tmp_path).page_size is None
    with pytest.raises(ConfigurationError, match="page_size is 0"):
        catalog_of(tmp_path, page_size=0)


# What is refused.


@pytest.mark.parametrize("name", ["name", "Review", "review "])
async def test_a_name_that_is_not_the_directorys_is_refused(tmp_path: Path, name: str) -> None:
    """The message has the file, the name, and what to do."""
    write(tmp_path, {"team/review/SKILL.md": skill_md("other"), f"team/{name}/x": "x"})
    assert refusal(tmp_path) == (
        "'team/review/SKILL.md' has the name 'other', and its directory another; make them the same"
    )


async def test_bad_frontmatter_is_refused_with_its_file(tmp_path: Path) -> None:
    """A skill that cannot be read is no reason to list the others as if they were all."""
    write_skills(tmp_path, "a", "b")
    write(tmp_path, {"b/SKILL.md": "# no frontmatter\n"})
    assert refusal(tmp_path).startswith("'b/SKILL.md' does not begin with frontmatter; begin it")


async def test_a_bad_nested_skill_is_refused(tmp_path: Path) -> None:
    """A SKILL.md makes a skill wherever it is."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/template/SKILL.md": skill_md("your-name-here")})
    assert refusal(tmp_path).startswith("'a/template/SKILL.md' has the name 'your-name-here'")


async def test_a_directory_that_is_itself_a_skill_is_refused(tmp_path: Path) -> None:
    """Its name would not be in the URIs."""
    write(tmp_path, {"SKILL.md": skill_md(tmp_path.name)})
    assert refusal(tmp_path) == "'SKILL.md' makes one skill of all; give the directory above"
    (tmp_path / "SKILL.md").unlink()
    catalog = catalog_of(tmp_path)
    write(tmp_path, {"SKILL.md": skill_md("a")})
    for uri in ("skill://SKILL.md", "skill:/SKILL.md", "skill:///SKILL.md"):
        with pytest.raises(NotRegistered):
            await catalog.get(uri)


@pytest.mark.parametrize("target", ["a/SKILL.md", "/etc/passwd", "nowhere", "..", "."])
@pytest.mark.parametrize("place", ["a/link", "a/refs/link", "link", "team/link"])
async def test_a_link_is_refused_wherever_it_leads(tmp_path: Path, place: str, target: str) -> None:
    """In a skill and outside, to a file, a directory or nothing: the message names it."""
    write_skills(tmp_path, "a", "team/b")
    (tmp_path / "a" / "refs").mkdir()
    (tmp_path / place).symlink_to(target)
    assert refusal(tmp_path) == (
        f"{place!a} is a symbolic link, and none is followed; put there what it leads to"
    )


async def test_a_skill_md_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """It would make a skill of a file from elsewhere."""
    write_skills(tmp_path, "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "SKILL.md").symlink_to("../a/SKILL.md")
    assert refusal(tmp_path).startswith("'b/SKILL.md' is a symbolic link")


async def test_a_skill_md_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    """It is no file, so the directory around it is no skill."""
    (tmp_path / "a" / "SKILL.md").mkdir(parents=True)
    assert refusal(tmp_path).startswith("'a/SKILL.md' is no regular file")


def make_fifo(path: Path) -> None:
    """Make a file that would block who opens it."""
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    """Make a file that cannot be opened."""
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)


@pytest.mark.parametrize("make", [make_fifo, make_socket])
@pytest.mark.parametrize("name", ["x", "SKILL.md"])
async def test_a_special_file_is_refused_and_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], name: str
) -> None:
    """A FIFO or socket among the files is refused at once; nobody waits for its other end."""
    monkeypatch.chdir(tmp_path)
    write_skills(tmp_path, "a")
    (tmp_path / "a" / name).unlink(missing_ok=True)
    make(tmp_path / "a" / name)
    assert refusal(tmp_path) == (
        f"'a/{name}' is no regular file; a skill has only files and directories"
    )


async def test_a_special_file_outside_of_skills_does_not_matter(tmp_path: Path) -> None:
    """Nobody looks at it."""
    write_skills(tmp_path, "a")
    make_fifo(tmp_path / "fifo")
    assert await listed(catalog_of(tmp_path)) == ["skill://a/SKILL.md"]


async def test_upper_case_is_refused_only_where_uris_have_no_case(tmp_path: Path) -> None:
    """The first part of a URI is its authority, where A and a are the same."""
    write_skills(tmp_path, "team/Europe/a")
    assert await listed(catalog_of(tmp_path)) == ["skill://team/Europe/a/SKILL.md"]
    write_skills(tmp_path, "Asia/a")
    assert refusal(tmp_path) == (
        "'Asia' begins the URIs of skills, where upper and lower case are the same; rename it to"
        " lower case"
    )


@pytest.mark.parametrize("path", [b"a/\xff.md", b"\xff/b/SKILL.md"])
async def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path, path: bytes) -> None:
    """It has no URI. The message is ASCII."""
    write_skills(tmp_path, "a")
    write(tmp_path, {os.fsdecode(path): skill_md("b")})
    told = refusal(tmp_path)
    assert told.isascii()
    assert "has a name that is not UTF-8; rename it" in told


async def test_512_files_are_a_skill_and_one_more_is_too_many(tmp_path: Path) -> None:
    """Files in all directories count together; the message names the skill."""
    write_skills(tmp_path, "a")
    write(tmp_path, {f"a/d{number % 3}/{number}": "" for number in range(511)})
    (entry,) = await catalog_of(tmp_path).entries()
    assert len(entry["resources"]) == 512
    write(tmp_path, {"a/d1/more": ""})
    assert refusal(tmp_path).startswith("'a' holds more than 512 files, or more than 512 dir")


async def test_directories_are_limited_too(tmp_path: Path) -> None:
    """512 empty ones are taken; more would cost a look each, and no file counts them."""
    write_skills(tmp_path, "a")
    for number in range(512):
        (tmp_path / "a" / str(number)).mkdir()
    assert await listed(catalog_of(tmp_path)) == ["skill://a/SKILL.md"]
    (tmp_path / "a" / "more").mkdir()
    assert "more than 512 directories" in refusal(tmp_path)


async def test_a_directory_of_many_files_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More entries than a skill may have in all are refused before any is opened."""
    reads = Reads(monkeypatch)
    write_skills(tmp_path, "a")
    write(tmp_path, {f"a/{number}": "" for number in range(1100)})
    assert "holds more than 512 files" in refusal(tmp_path)
    assert reads.places == []


async def test_16_mib_are_a_skill_and_one_byte_more_is_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files count together, and what would be too many bytes is not read."""
    write_skills(tmp_path, "a")
    left = 16 * 1024 * 1024 - (tmp_path / "a" / "SKILL.md").stat().st_size
    write(tmp_path, {"a/b": b"", "a/refs/c": b"12345"})
    os.truncate(tmp_path / "a" / "b", left - 5)
    (entry,) = await catalog_of(tmp_path).entries()
    assert sum(file["size"] for file in entry["resources"]) == 16 * 1024 * 1024
    os.truncate(tmp_path / "a" / "refs" / "c", 6)
    reads = Reads(monkeypatch)
    assert refusal(tmp_path).startswith("'a' holds more than 16777216 bytes; remove")
    assert "a/refs/c" not in reads.places


@pytest.mark.parametrize("within", [True, False])
async def test_a_place_32_directories_down_is_deep_enough(tmp_path: Path, within: bool) -> None:
    """Deeper ones are refused, in a skill and outside."""
    if within:
        write_skills(tmp_path, "a")
    write(tmp_path, {"/".join(["a"] * 32) + "/x": ""})
    assert len(await catalog_of(tmp_path).entries()) == within
    write(tmp_path, {"/".join(["a"] * 33) + "/x": ""})
    assert "is more than 32 directories deep; move it up" in refusal(tmp_path)


async def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    """Nothing there, or a file: the message says which path was given."""
    assert refusal(tmp_path / "nowhere") == (
        "the directory of the skills cannot be read: No such file or directory"
    )
    write(tmp_path, {"file": ""})
    assert refusal(tmp_path / "file").endswith("cannot be read: Not a directory")


async def test_what_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without the right to read it is named, and what the system says of it."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/secret": ""})
    really = os.open

    def guarded(path: Any, *args: Any, **options: Any) -> int:
        if path == "secret":
            raise PermissionError(13, "Permission denied")
        return really(path, *args, **options)

    monkeypatch.setattr(os, "open", guarded)
    monkeypatch.setattr(os, "supports_dir_fd", {guarded})
    assert refusal(tmp_path) == (
        "'a/secret' cannot be read: Permission denied; give the server the right to, or remove it"
    )


async def test_a_system_that_cannot_open_safely_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without openat every path could be swapped under the reader."""
    monkeypatch.setattr(os, "supports_dir_fd", {os.stat})
    with pytest.raises(ConfigurationError, match="cannot open files without following links"):
        catalog_of(tmp_path)


async def test_links_on_the_way_to_the_root_are_followed_each_time(tmp_path: Path) -> None:
    """A release that is switched by a link is served at once, wherever the process is by then."""
    write_skills(tmp_path / "v1", "a")
    write_skills(tmp_path / "v2", "b")
    current = tmp_path / "current"
    current.symlink_to("v1")
    catalog = catalog_of(current)
    assert await listed(catalog) == ["skill://a/SKILL.md"]
    current.unlink()
    current.symlink_to("v2")
    assert await listed(catalog) == ["skill://b/SKILL.md"]


async def test_the_root_is_found_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is that of the moment when the catalog was made."""
    write_skills(tmp_path / "skills", "a")
    monkeypatch.chdir(tmp_path)
    catalog = catalog_of(Path("skills"))
    monkeypatch.chdir("/")
    assert await listed(catalog) == ["skill://a/SKILL.md"]


# What changes.


async def test_entries_are_as_they_are_on_disk_now(tmp_path: Path) -> None:
    """What is added, changed or removed shows in the next list, and in `get`."""
    write_skills(tmp_path, "a", "b")
    catalog = catalog_of(tmp_path)
    before = await catalog.get("skill://a/SKILL.md")
    write(tmp_path, {"a/new.md": "new"})
    write_skills(tmp_path, "c")
    (tmp_path / "b" / "SKILL.md").unlink()
    after = await catalog.get("skill://a/SKILL.md")
    assert await listed(catalog) == ["skill://a/SKILL.md", "skill://c/SKILL.md"]
    assert after["resources"] == [
        *before["resources"],
        {"uri": "skill://a/new.md", "digest": digest("new"), "size": 3},
    ]


async def test_what_breaks_later_is_an_error_until_it_is_mended(tmp_path: Path) -> None:
    """The list is refused, never shortened; other skills can still be asked for by URI."""
    write_skills(tmp_path, "a", "b")
    catalog = catalog_of(tmp_path)
    (tmp_path / "b" / "link").symlink_to("/")
    with pytest.raises(SourceError, match="'b/link' is a symbolic link"):
        await catalog.entries()
    with pytest.raises(SourceError, match="'b/link' is a symbolic link"):
        await catalog.get("skill://b/SKILL.md")
    with pytest.raises(SourceError, match="'b/link' is a symbolic link"):
        await catalog.directory("skill://b")
    assert (await catalog.get("skill://a/SKILL.md"))["uri"] == "skill://a/SKILL.md"
    (tmp_path / "b" / "link").unlink()
    assert len(await catalog.entries()) == 2


async def test_a_root_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """An empty list would tell clients that there are no skills."""
    write_skills(tmp_path / "skills", "a")
    catalog = catalog_of(tmp_path / "skills")
    (tmp_path / "skills").rename(tmp_path / "gone")
    with pytest.raises(SourceError, match="No such file"):
        await catalog.entries()
    with pytest.raises(SourceError, match="No such file"):
        await catalog.read("skill://a/SKILL.md")


async def test_listeners_hear_of_a_change_once(tmp_path: Path) -> None:
    """The look that finds another list calls them; equal lists and looks for one skill do not."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    heard: list[int] = []
    end = catalog.on_list_changed(lambda: heard.append(threading.get_ident()))
    await catalog.entries()
    assert catalog.refresh() is False
    assert heard == []
    write_skills(tmp_path, "b")
    await catalog.get("skill://b/SKILL.md")
    assert heard == []
    await catalog.entries()
    await catalog.version()
    assert heard == [threading.get_ident()]
    write(tmp_path, {"b/x": "x"})
    assert catalog.refresh() is True
    write(tmp_path, {"b/x": "y"})
    await catalog.version()
    assert len(heard) == 3
    end()
    write(tmp_path, {"b/x": "z"})
    await catalog.entries()
    assert len(heard) == 3


async def test_the_version_changes_with_the_list_and_never_comes_back(tmp_path: Path) -> None:
    """A list that is again what it was has a new version; two catalogs never share one."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    versions = [await catalog.version(), await catalog.version()]
    assert versions[0] == versions[1]
    for content in ("x", "y", "x"):
        write(tmp_path, {"a/x": content})
        versions.append(await catalog.version())
    assert len(set(versions)) == 4
    assert await catalog_of(tmp_path).version() not in versions


async def test_pages_of_a_catalog_follow_its_version(tmp_path: Path) -> None:
    """A paginator that is given the version sees the list of the disk with each first page."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    codec = SignedCodec(KeyRing(Key.generate()))
    paginator = SnapshotPaginator(codec, MemoryStore(), page_size=1)

    async def first() -> Any:
        return await paginator.page(
            None, catalog.entries, Binding("skills/list"), source_version=catalog.version
        )

    assert uris((await first()).items) == ["skill://a/SKILL.md"]
    write_skills(tmp_path, "0-a")
    assert uris((await first()).items) == ["skill://0-a/SKILL.md"]


async def test_a_file_that_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes are kept by device, inode, size and times: lists of a quiet disk read nothing."""
    write_skills(tmp_path, "a", "a/b")
    write(tmp_path, {"a/x": "x", "a/y": "x"})
    reads = Reads(monkeypatch)
    catalog = catalog_of(tmp_path, clock=lambda: time.time() + 60)
    assert sorted(reads.places) == ["a/SKILL.md", "a/b/SKILL.md", "a/x", "a/y"]
    reads.places.clear()
    before = await catalog.entries()
    assert before == [
        await catalog.get("skill://a/SKILL.md"),
        await catalog.get("skill://a/b/SKILL.md"),
    ]
    assert reads.places == []
    (tmp_path / "a" / "y").touch()
    assert await catalog.entries() == before
    assert reads.places == ["a/y"]


async def test_a_change_of_equal_size_and_time_is_seen(tmp_path: Path) -> None:
    """Whoever sets a file's time back cannot set back when that was done."""
    write_skills(tmp_path, "a")
    target = tmp_path / "a" / "x"
    target.write_text("before")
    status = target.stat()
    catalog = catalog_of(tmp_path, clock=lambda: time.time() + 60)
    for _ in range(10_000):
        target.write_text("after!")
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        if target.stat().st_ctime_ns != status.st_ctime_ns:
            break
    assert target.stat().st_mtime_ns == status.st_mtime_ns
    (entry,) = await catalog.entries()
    assert entry["resources"][1]["digest"] == digest("after!")


async def test_a_young_file_is_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For three seconds a file may change once more without its times showing it."""
    write_skills(tmp_path, "a")
    changed = (tmp_path / "a" / "SKILL.md").stat().st_ctime
    reads = Reads(monkeypatch)
    now = [changed + 2.9]
    catalog = catalog_of(tmp_path, clock=lambda: now[0])
    await catalog.entries()
    now[0] = changed + 3.1
    await catalog.entries()
    assert len(reads.places) == 3
    await catalog.entries()
    assert len(reads.places) == 3


async def test_hashes_are_kept_for_a_bounded_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files come and go, what is remembered of them does not grow without end."""
    monkeypatch.setattr(tree, "_MAX_KNOWN", 2)
    write_skills(tmp_path, "a", "b", "c", "d", "e")
    catalog = catalog_of(tmp_path, clock=lambda: time.time() + 60)
    assert len(await catalog.entries()) == 5
    assert len(catalog._tree._known) <= 2


async def test_two_names_of_one_file_are_hashed_each_as_what_they_are(tmp_path: Path) -> None:
    """A hard link to a SKILL.md under another name is an ordinary file, and the other way round."""
    write_skills(tmp_path, "a")
    os.link(tmp_path / "a" / "SKILL.md", tmp_path / "a" / "copy.md")
    os.link(tmp_path / "a" / "SKILL.md", tmp_path / "a" / "0.md")
    catalog = catalog_of(tmp_path, clock=lambda: time.time() + 60)
    (entry,) = await catalog.entries()
    assert len(entry["resources"]) == 3
    assert len({file["digest"] for file in entry["resources"]}) == 1


# What is read.


@pytest.mark.both_backends
async def test_a_file_is_read_as_it_was_hashed(tmp_path: Path) -> None:
    """Text keeps its BOM and line ends, bytes come as base64: encoded again, the digests match."""
    files: dict[str, str | bytes] = {
        "a/SKILL.md": skill_md("a"),
        "a/bom.md": "\ufeffone\r\ntwo\r\x00\n",
        "a/empty": b"",
        "a/latin.txt": "ä".encode("latin-1"),
        "a/pixel.png": b"\x89PNG\r\n",
    }
    write(tmp_path, files)
    catalog = catalog_of(tmp_path)
    (entry,) = await catalog.entries()
    for file in entry["resources"]:
        (contents,) = (await catalog.read(file["uri"]))["contents"]
        assert contents["uri"] == file["uri"]
        text = contents.get("text")
        data = base64.b64decode(contents["blob"]) if text is None else text.encode()
        assert data == _bytes(files[file["uri"].removeprefix("skill://")])
        assert (digest(data), len(data)) == (file["digest"], file["size"])


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


@pytest.mark.parametrize(
    ("name", "content", "mime_type"),
    [
        ("x.md", "x", "text/markdown"),
        ("x.MD", "x", "text/markdown"),
        ("x.py", "x", "text/x-python"),
        ("x.yaml", "x", "application/yaml"),
        ("x.json", b"\xff", "application/json"),
        ("x.png", b"\x89PNG", "image/png"),
        ("x.unheard", "x", "text/plain"),
        ("x.unheard", b"\xff", "application/octet-stream"),
        ("Makefile", "x", "text/plain"),
        (".png", b"\xff", "application/octet-stream"),
    ],
)
async def test_a_type_is_that_of_the_name_or_else_of_the_bytes(
    tmp_path: Path, name: str, content: str | bytes, mime_type: str
) -> None:
    """Directories and reads say the same type, and every node does."""
    write_skills(tmp_path, "a")
    write(tmp_path, {f"a/{name}": content})
    catalog = catalog_of(tmp_path)
    (contents,) = (await catalog.read(f"skill://a/{name}"))["contents"]
    children = {child["name"]: child for child in await catalog.directory("skill://a")}
    assert contents["mimeType"] == children[name]["mimeType"] == mime_type
    assert ("text" in contents) == (content not in {b"\xff", b"\x89PNG"})


async def test_a_directory_lists_its_children(tmp_path: Path) -> None:
    """Files with their types and sizes, a SKILL.md with name and description, no grandchildren."""
    write_skills(tmp_path, "a", "a/inner")
    write(tmp_path, {"a/x.md": "x", "a/refs/deep/y": "y"})
    (tmp_path / "a" / "void").mkdir()
    catalog = catalog_of(tmp_path)
    size = (tmp_path / "a" / "SKILL.md").stat().st_size
    directory = {"mimeType": "inode/directory"}
    assert await catalog.directory("skill://a") == [
        {
            "uri": "skill://a/SKILL.md",
            "name": "a",
            "description": "Does it.",
            "mimeType": "text/markdown",
            "size": size,
        },
        {"uri": "skill://a/inner", "name": "inner", **directory},
        {"uri": "skill://a/refs", "name": "refs", **directory},
        {"uri": "skill://a/void", "name": "void", **directory},
        {"uri": "skill://a/x.md", "name": "x.md", "mimeType": "text/markdown", "size": 1},
    ]
    assert uris(await catalog.directory("skill://a/refs")) == ["skill://a/refs/deep"]
    assert uris(await catalog.directory("skill://a/inner")) == ["skill://a/inner/SKILL.md"]
    assert await catalog.directory("skill://a/void") == []


async def test_a_directory_has_the_limits_of_a_skill(tmp_path: Path) -> None:
    """A directory that has grown too large for a skill is not listed, either."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    write(tmp_path, {f"a/{number}": "" for number in range(512)})
    with pytest.raises(SourceError, match="holds more than 512 files"):
        await catalog.directory("skill://a")


async def test_a_file_that_is_larger_than_a_skill_is_not_read(tmp_path: Path) -> None:
    """Whoever lets a log grow in a skill does not have the server read it all."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    write(tmp_path, {"a/log": b""})
    os.truncate(tmp_path / "a" / "log", 16 * 1024 * 1024 + 1)
    with pytest.raises(SourceError, match="holds more than 16777216 bytes"):
        await catalog.read("skill://a/log")


@pytest.mark.parametrize(
    "uri",
    [
        "skill://A/./x/../x.md",
        "SKILL://a/x.md",
        "skill://a/%78.md",
        "skill://a:/x.md",
        "skill://a/x%2emd",
    ],
)
async def test_a_uri_may_be_spelled_in_another_way(tmp_path: Path, uri: str) -> None:
    """What RFC 3986 says is the same is the same; the answer has the one normal form."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x.md": "x"})
    contents = (await catalog_of(tmp_path).read(uri))["contents"]
    assert contents[0]["uri"] == "skill://a/x.md"


FOREIGN = [
    "",
    "x",
    "a/SKILL.md",
    "/a/SKILL.md",
    "file:///a/SKILL.md",
    "skill:a/SKILL.md",
    "skill:/a/SKILL.md",
    "skill:///a/SKILL.md",
    "skill://b/SKILL.md",
    "skill://",
    "skill://SKILL.md",
    "skill://a/SKILL.md#x",
    "skill://a/SKILL.md?x",
    "skill://a/SKILL md",
    "skill://%2E%2E/SKILL.md",
    "skill://../SKILL.md",
    "skill://./SKILL.md",
    "skill://..%2Fsecret/SKILL.md",
    "skill://..%2Fsecret",
    "skill://dir%2F..%2F..%2Fsecret/SKILL.md",
    "skill://a%00/SKILL.md",
    "skill://a%2FSKILL.md",
    "skill://%FF/SKILL.md",
    "skill://[::1]/SKILL.md",
    "skill://secret/SKILL.md",
    "skill://secret",
    "skill://loose.md",
    "skill://dir/loose.md",
    "skill://dir",
    "skill://" + "a/" * 40 + "SKILL.md",
    "skill://" + "n" * 300 + "/SKILL.md",
]


@pytest.mark.parametrize("uri", FOREIGN)
async def test_a_uri_of_no_skill_is_left_to_others(tmp_path: Path, uri: str) -> None:
    """Other schemes, other places, queries, and every way out of the root."""
    root = tmp_path / "root"
    write_skills(root, "a")
    write_skills(tmp_path, "secret")
    write(root, {"loose.md": "x", "dir/loose.md": "x"})
    catalog = catalog_of(root)
    for ask in (catalog.read, catalog.get, catalog.directory):
        with pytest.raises(NotRegistered):
            await ask(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "skill://a/missing",
        "skill://a/refs",
        "skill://a/missing/x",
        "skill://a/SKILL.md/x",
        "skill://a/SKILL.md/x/y",
        "skill://a/refs/" + "n" * 300,
        "skill://a/refs/" + "n" * 300 + "/x",
        "skill://a/fifo",
        "skill://a/link",
        "skill://a/out/passwd",
        "skill://a/loop/SKILL.md",
    ],
)
async def test_a_file_that_a_skill_has_not_is_finally_not_found(tmp_path: Path, uri: str) -> None:
    """Nobody else is asked: missing files, directories, special files, what links lead to."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    write(tmp_path, {"a/refs/x": "x"})
    make_fifo(tmp_path / "a" / "fifo")
    (tmp_path / "a" / "link").symlink_to("SKILL.md")
    (tmp_path / "a" / "out").symlink_to("/etc")
    (tmp_path / "a" / "loop").symlink_to(".")
    with pytest.raises(NotFound) as caught:
        await catalog.read(uri)
    assert not isinstance(caught.value, NotRegistered)


@pytest.mark.parametrize("uri", ["skill://a/missing", "skill://a/SKILL.md", "skill://a/out"])
async def test_a_directory_that_a_skill_has_not_is_finally_not_found(
    tmp_path: Path, uri: str
) -> None:
    """A file is no directory, nor is a link to one."""
    write_skills(tmp_path, "a")
    catalog = catalog_of(tmp_path)
    (tmp_path / "a" / "out").symlink_to("/etc")
    with pytest.raises(NotFound) as caught:
        await catalog.directory(uri)
    assert not isinstance(caught.value, NotRegistered)


@pytest.mark.parametrize(
    "uri", ["skill://a", "skill://a/", "skill://a/x.md", "skill://a/refs/SKILL.md", "skill://b/"]
)
async def test_a_skill_is_asked_for_by_its_skill_md(tmp_path: Path, uri: str) -> None:
    """Its directory, its other files, and directories without one are no skills."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x.md": "x", "a/refs/y": "y"})
    with pytest.raises(NotRegistered):
        await catalog_of(tmp_path).get(uri)


# What is swapped under the reader.


async def test_a_file_swapped_for_a_link_after_listing_is_not_followed(tmp_path: Path) -> None:
    """Between `skills/list` and `resources/read` a file becomes a link out: it is gone."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    root = tmp_path / "root"
    write_skills(root, "a")
    write(root, {"a/x.md": "x", "a/refs/y.md": "y"})
    catalog = catalog_of(root)
    (entry,) = await catalog.entries()
    (root / "a" / "x.md").unlink()
    (root / "a" / "x.md").symlink_to(secret)
    (root / "a" / "refs").rename(tmp_path / "elsewhere")
    (root / "a" / "refs").symlink_to(tmp_path / "elsewhere")
    for file in entry["resources"][1:]:
        with pytest.raises(NotFound):
            await catalog.read(file["uri"])


async def test_a_file_swapped_for_another_after_listing_is_read_as_it_is(tmp_path: Path) -> None:
    """Its digest is not the listed one, which tells the client to ask for the entry again."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x.md": "before"})
    catalog = catalog_of(tmp_path)
    (entry,) = await catalog.entries()
    write(tmp_path, {"new": "after"})
    (tmp_path / "new").replace(tmp_path / "a" / "x.md")
    (contents,) = (await catalog.read("skill://a/x.md"))["contents"]
    assert digest(contents["text"]) != entry["resources"][1]["digest"]
    entry = await catalog.get("skill://a/SKILL.md")
    assert digest(contents["text"]) == entry["resources"][1]["digest"]


class Swap:
    """Swaps a file for something else at the moment when it is opened, so many times."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], object], times: int = 1
    ) -> None:
        self.left = times
        really = os.open

        def opened(path: Any, *args: Any, **options: Any) -> int:
            if path == name and self.left > 0:
                self.left -= 1
                swap()
            return really(path, *args, **options)

        monkeypatch.setattr(os, "open", opened)
        monkeypatch.setattr(os, "supports_dir_fd", {opened})


@pytest.mark.parametrize(
    ("name", "ask"),
    [("x", "list"), ("refs", "list"), ("x", "get"), ("refs", "get"), ("x", "directory")],
)
async def test_what_becomes_a_link_between_look_and_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ask: str
) -> None:
    """The second look sees the link; what it leads to is never opened."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x": "x", "a/refs/y": "y"})
    catalog = catalog_of(tmp_path)

    def swap() -> None:
        (tmp_path / "a" / name).rename(tmp_path / "moved")
        (tmp_path / "a" / name).symlink_to("/etc")

    Swap(monkeypatch, name, swap)
    calls: dict[str, Callable[[], Any]] = {
        "list": catalog.entries,
        "get": lambda: catalog.get("skill://a/SKILL.md"),
        "directory": lambda: catalog.directory("skill://a"),
    }
    with pytest.raises(SourceError, match=f"'a/{name}' is a symbolic link"):
        await calls[ask]()


@pytest.mark.parametrize("name", ["x", "refs"])
async def test_what_becomes_a_link_while_it_is_read_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The last look before the descriptor decides, for the file and for directories on the way."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/refs/x": "x"})
    catalog = catalog_of(tmp_path)
    target = tmp_path / "a" / ("refs/x" if name == "x" else "refs")

    def swap() -> None:
        target.rename(tmp_path / "moved")
        target.symlink_to(tmp_path / "moved")

    Swap(monkeypatch, name, swap)
    with pytest.raises(NotFound):
        await catalog.read("skill://a/refs/x")


@pytest.mark.parametrize("make", [make_fifo, Path.mkdir])
async def test_what_becomes_no_file_between_look_and_open_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    """What was opened is asked what it is, whatever the name said before; nothing blocks."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x": "x"})
    catalog = catalog_of(tmp_path)

    def swap() -> None:
        (tmp_path / "a" / "x").unlink()
        make(tmp_path / "a" / "x")

    Swap(monkeypatch, "x", swap)
    with pytest.raises(NotFound):
        await catalog.read("skill://a/x")


async def test_a_file_that_vanishes_while_it_is_listed_is_not_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that changes under a look is looked at again."""
    write_skills(tmp_path, "a", "b")
    write(tmp_path, {"a/x": "x"})
    catalog = catalog_of(tmp_path)
    Swap(monkeypatch, "x", (tmp_path / "a" / "x").unlink)
    (entry, _) = await catalog.entries()
    assert uris(entry["resources"]) == ["skill://a/SKILL.md"]


async def test_a_skill_that_vanishes_while_it_is_listed_is_not_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that loses its SKILL.md between two looks is no skill any more."""
    write_skills(tmp_path, "a", "b", "b/c")
    catalog = catalog_of(tmp_path)
    really: Callable[..., Any] = tree._content

    def content(fd: int, place: tuple[str, ...], budget: Any) -> Any:
        if place == ("b",):
            (tmp_path / "b" / "SKILL.md").unlink(missing_ok=True)
        return really(fd, place, budget)

    monkeypatch.setattr(tree, "_content", content)
    assert await listed(catalog) == ["skill://a/SKILL.md", "skill://b/c/SKILL.md"]
    write_skills(tmp_path, "b")
    with pytest.raises(NotRegistered):
        await catalog.get("skill://b/SKILL.md")


async def test_a_tree_that_never_rests_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three looks that all found it changing the list is given up."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x": "x"})
    catalog = catalog_of(tmp_path)

    def grow() -> None:
        with (tmp_path / "a" / "x").open("ab") as file:
            file.write(b"x")

    really: Callable[..., bytes] = tree._bytes

    def reading(fd: int, status: os.stat_result, place: tuple[str, ...]) -> bytes:
        if place[-1] == "x":
            grow()
        return really(fd, status, place)

    monkeypatch.setattr(tree, "_bytes", reading)
    with pytest.raises(SourceError, match="'a/x' changed each time it was looked at"):
        await catalog.entries()
    assert (tmp_path / "a" / "x").stat().st_size == 4
    with pytest.raises(SourceError, match="'a/x' changed each time it was looked at"):
        await catalog.read("skill://a/x")


@pytest.mark.parametrize("size", [0, 2])
async def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Shorter or longer than it was said to be, it is never hashed as it stands."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x": "x"})
    catalog = catalog_of(tmp_path)
    really: Callable[..., bytes] = tree._bytes
    left = [1]

    def reading(fd: int, status: os.stat_result, place: tuple[str, ...]) -> bytes:
        if place[-1] == "x" and left.pop() if left else False:
            os.truncate(tmp_path / "a" / "x", size)
        return really(fd, status, place)

    monkeypatch.setattr(tree, "_bytes", reading)
    (entry,) = await catalog.entries()
    assert entry["resources"][1]["size"] == size


async def test_a_file_that_is_overwritten_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is the same, but its times are not: half of each is never hashed."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x": "before"})
    catalog = catalog_of(tmp_path)
    really = os.read
    left = [1]

    def reading(fd: int, size: int) -> bytes:
        data = really(fd, size)
        before = os.fstat(fd)
        if data == b"before" and left.pop() if left else False:
            for _ in range(10_000):
                write(tmp_path, {"a/x": "after!"})
                if os.fstat(fd).st_ctime_ns != before.st_ctime_ns:
                    break
        return data

    monkeypatch.setattr(os, "read", reading)
    (entry,) = await catalog.entries()
    assert entry["resources"][1]["digest"] == digest("after!")


@pytest.mark.parametrize("said", [0, 3])
async def test_a_file_system_that_says_a_wrong_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: int
) -> None:
    """As some do of files that they make up: a digest of half a file helps nobody."""
    write_skills(tmp_path, "a")
    write(tmp_path, {"a/x": "xy"})
    catalog = catalog_of(tmp_path)
    really = os.fstat

    def telling(fd: int) -> os.stat_result:
        status = really(fd)
        if status.st_size != 2:
            return status
        fields = [*status]
        fields[6] = said
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", telling)
    with pytest.raises(SourceError, match="'a/x' changed each time it was looked at"):
        await catalog.entries()


def open_descriptors() -> int:
    """Return how many of the first thousand descriptors are open."""
    count = 0
    for descriptor in range(1000):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            count += 1
    return count


async def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    """Lists, reads and refusals close whatever they opened."""
    write_skills(tmp_path, "a", "a/b", "c")
    catalog = catalog_of(tmp_path)
    (tmp_path / "a" / "link").symlink_to("/")
    before = open_descriptors()
    for _ in range(3):
        for call in (
            catalog.entries(),
            catalog.get("skill://a/SKILL.md"),
            catalog.get("skill://c/SKILL.md"),
            catalog.directory("skill://a"),
            catalog.read("skill://a/b/SKILL.md"),
            catalog.read("skill://a/b/missing/x"),
        ):
            with contextlib.suppress(SourceError, NotFound):
                await call
    assert open_descriptors() == before
