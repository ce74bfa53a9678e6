"""Agent Skills from a directory: catalogs for the Skills extension of MCP.

Needs the extra ``cursorkit[skills]``.
"""

from __future__ import annotations

import base64
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from anyio.to_thread import run_sync

from cursorkit.catalogs.base import CacheHint, Listeners, Unsubscribe, WireEntry
from cursorkit.catalogs.skills.tree import (
    MAX_DEPTH,
    SKILL_FILE,
    File,
    Place,
    Skill,
    Tree,
    refused,
)
from cursorkit.catalogs.uris import normal_form
from cursorkit.checks import check_int
from cursorkit.errors import ConfigurationError, NotRegistered, SourceError
from cursorkit.positions import MAX_PAGE_SIZE

__all__ = ["SkillCatalog"]

_SCHEME: Final = "skill://"

_TYPES: Final = {
    ".css": "text/css",
    ".csv": "text/csv",
    ".gif": "image/gif",
    ".htm": "text/html",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".sh": "text/x-shellscript",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".zip": "application/zip",
}
"""The module `mimetypes` knows more, and not the same on every node."""


class SkillCatalog:
    """The Agent Skills below a directory, as they are on disk at that moment.

    A directory with a ``SKILL.md`` is a skill. Everything in it and below belongs to it, files
    whose names begin with a dot too, and a skill within a skill is listed besides. Elsewhere,
    directories whose names begin with a dot are passed over. ``team/review/SKILL.md`` has the URI
    ``skill://team/review/SKILL.md``.

    No link is followed. Whatever cannot be served (a link, a socket, a name that is not the
    directory's, more than 512 files or 16 MiB in a skill) is an error that names the file, never a
    list without it: at the start a `ConfigurationError`, later a `SourceError` of that request.

    The disk is looked at in a worker thread with each request that starts a walk, and files are
    hashed again only when they have changed. Made by `from_directory`.

    Attributes:
        method: ``"skills/list"``.
        page_size: Items a page, or None.
        cache_hint: What clients are told of caching, or None.
    """

    def __init__(
        self, tree: Tree, *, page_size: int | None = None, cache_hint: CacheHint | None = None
    ) -> None:
        if page_size is not None:
            check_int("page_size", page_size, 1, MAX_PAGE_SIZE)
        self.method = "skills/list"
        self.page_size = page_size
        self.cache_hint = cache_hint
        self._tree = tree
        self._listeners = Listeners()
        self._lock = threading.Lock()
        self._origin = secrets.token_hex(8)
        self._changes = 0
        self._seen = self._look()

    @classmethod
    def from_directory(
        cls,
        path: str | os.PathLike[str],
        *,
        page_size: int | None = None,
        cache_hint: CacheHint | None = None,
        clock: Callable[[], float] = time.time,
    ) -> SkillCatalog:
        """Return the catalog of the skills below a directory.

        Args:
            path: The directory. It may be reached by links, and they may be changed: each look
                begins with it.
            page_size: Items a page of the list, 1 to 10,000, of which at most 32 are taken; None
                takes the setting of all lists.
            cache_hint: What clients are told of caching the list.
            clock: Returns Unix seconds: a file that changed in the last three is always read.

        Raises:
            ConfigurationError: If a skill cannot be served, there is no such directory, the system
                cannot open files without following links, or `page_size` is out of range.
        """
        if os.open not in os.supports_dir_fd:
            raise ConfigurationError(
                "this system cannot open files without following links; serve skills from one that"
                " has POSIX's openat, or write a catalog of your own"
            )
        try:
            tree = Tree(os.path.abspath(path), clock)
            return cls(tree, page_size=page_size, cache_hint=cache_hint)
        except SourceError as error:
            message = f"{os.fspath(path)!a} cannot be served as skills: {error}"
        raise ConfigurationError(message)

    @property
    def version(self) -> Callable[[], Awaitable[str]]:
        """Looks at the disk, and returns another text after each change."""
        return self._version

    async def entries(self, context: Any = None) -> list[WireEntry]:
        """Return all skills as they are now, by place. They are the catalog's: do not change them.

        Raises:
            SourceError: If something is there that cannot be served.
        """
        del context
        found, _, changed = await run_sync(self._refreshed)
        if changed:
            self._listeners.notify()
        return found

    async def get(self, uri: str, context: Any = None) -> WireEntry:
        """Return the skill whose ``SKILL.md`` has this URI, as it is now.

        Raises:
            NotRegistered: If there is none.
            SourceError: If something is there that cannot be served.
        """
        del context
        *place, name = _place_of(uri)
        if name != SKILL_FILE:
            raise NotRegistered("a skill is named by the URI of its SKILL.md")
        return _entry(await run_sync(self._tree.skill, tuple(place)))

    async def directory(self, uri: str, context: Any = None) -> list[WireEntry]:
        """Return what is in a directory of a skill now, as resources, by name.

        Raises:
            NotFound: If a skill has no such directory; NotRegistered if it is none of a skill's.
            SourceError: If something is there that cannot be served.
        """
        del context
        children = await run_sync(self._tree.children, _place_of(uri))
        return [_resource(place, file) for place, file in children]

    async def read(self, uri: str, context: Any = None) -> WireEntry:
        """Return the contents of a file of a skill, as a result of ``resources/read``.

        UTF-8 comes as text, and is what was hashed if encoded again; all else as base64.

        Raises:
            NotFound: If a skill has no such file; NotRegistered if it is none of a skill's.
            SourceError: If it cannot be read.
        """
        del context
        place = _place_of(uri)
        data = await run_sync(self._tree.read, place)
        try:
            body = {"text": data.decode()}
        except UnicodeDecodeError:
            body = {"blob": base64.b64encode(data).decode()}
        mime_type = _mime_type(place[-1], is_text="text" in body)
        return {"contents": [{"uri": _uri_of(place), "mimeType": mime_type, **body}]}

    def refresh(self) -> bool:
        """Look at the disk now, and return whether the list has changed since the last look.

        For a watcher of files, say: listeners are called, as they are by `entries` and `version`.

        Raises:
            SourceError: If something is there that cannot be served.
        """
        _, _, changed = self._refreshed()
        if changed:
            self._listeners.notify()
        return changed

    def on_list_changed(self, callback: Callable[[], None]) -> Unsubscribe:
        """Have `callback` called after each look at the disk that found another list."""
        return self._listeners.subscribe(callback)

    async def _version(self) -> str:
        _, version, changed = await run_sync(self._refreshed)
        if changed:
            self._listeners.notify()
        return version

    def _refreshed(self) -> tuple[list[WireEntry], str, bool]:
        found = self._look()
        with self._lock:
            changed = found != self._seen
            self._seen = found
            self._changes += changed
            return found, f"{self._origin}-{self._changes}", changed

    def _look(self) -> list[WireEntry]:
        return [_entry(skill) for skill in self._tree.skills()]


def _entry(skill: Skill) -> WireEntry:
    root = _uri_of(skill.place)
    if normal_form(root) != root:
        raise refused(
            skill.place[:1],
            "begins the URIs of skills, where upper and lower case are the same; rename it to lower"
            " case",
        )
    return {
        "uri": f"{root}/{SKILL_FILE}",
        "frontmatter": skill.frontmatter,
        "resources": [
            {"uri": _uri_of(place), "digest": f"sha256:{file.sha256}", "size": file.size}
            for place, file in skill.files
        ],
    }


def _resource(place: Place, file: File | None) -> WireEntry:
    uri = _uri_of(place)
    if file is None:
        return {"uri": uri, "name": place[-1], "mimeType": "inode/directory"}
    frontmatter = file.frontmatter or {"name": place[-1]}
    described = {key: frontmatter[key] for key in ("name", "description") if key in frontmatter}
    mime_type = _mime_type(place[-1], is_text=file.is_text)
    return {"uri": uri, **described, "mimeType": mime_type, "size": file.size}


def _mime_type(name: str, *, is_text: bool) -> str:
    default = "text/plain" if is_text else "application/octet-stream"
    return _TYPES.get(os.path.splitext(name)[1].lower(), default)


def _uri_of(place: Place) -> str:
    try:
        return _SCHEME + "/".join(quote(name, safe="") for name in place)
    except UnicodeEncodeError:
        raise refused(place, "has a name that is not UTF-8; rename it") from None


def _place_of(uri: str) -> Place:
    """Return the place that a URI names, in any spelling of it.

    Raises:
        NotRegistered: If it cannot name one.
    """
    normal = normal_form(uri) or ""
    if not normal.startswith(_SCHEME) or "?" in normal:
        raise NotRegistered("it is no URI of a skill")
    try:
        place = tuple(
            unquote_to_bytes(name).decode() for name in normal.removeprefix(_SCHEME).split("/")
        )
    except UnicodeDecodeError:
        raise NotRegistered("it is no URI of a skill") from None
    if len(place) > MAX_DEPTH + 1 or not all(map(_is_name, place)):
        raise NotRegistered("it is no URI of a skill")
    return place


def _is_name(text: str) -> bool:
    return text not in {"", ".", ".."} and "/" not in text and "\0" not in text
