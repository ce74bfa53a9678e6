"""A tree of skills on disk, read without following a single link.

Each file is opened once, relative to the descriptor of its directory, and all that is said of it
comes from that one descriptor: what is swapped meanwhile is refused or seen anew, never mixed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from cursorkit.catalogs.skills.frontmatter import FrontmatterError, parse_frontmatter
from cursorkit.errors import NotFound, NotRegistered, SourceError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_FILES",
    "SKILL_FILE",
    "File",
    "Place",
    "Skill",
    "Tree",
    "refused",
]

T = TypeVar("T")

Place: TypeAlias = tuple[str, ...]
"""The names that lead from the root to a file or directory."""

SKILL_FILE: Final = "SKILL.md"
"""What makes a directory a skill."""

MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
"""The most files and bytes a skill that every client accepts (Skills extension, "Limits")."""

MAX_DEPTH: Final = 32
"""The most directories between the root and a file; each costs a descriptor."""

_MAX_KNOWN: Final = 65_536
_YOUNG: Final = 3_000_000_000
"""Nanoseconds for which a file may change once more without its times showing it: FAT counts in
steps of two seconds."""

_LOOKS: Final = 3
_ABSENT: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG}
)
"""Nothing of the kind that was to be opened has this name."""

_State: TypeAlias = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class File:
    """What one descriptor said of a file.

    Attributes:
        size: In bytes.
        sha256: Of its bytes, in hex.
        is_text: Whether it is UTF-8.
        frontmatter: Of a SKILL.md.
    """

    size: int
    sha256: str
    is_text: bool
    frontmatter: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Skill:
    """A directory with a SKILL.md.

    Attributes:
        place: Where it is.
        frontmatter: Of its SKILL.md.
        files: All files in it and below, in order, those of nested skills too.
    """

    place: Place
    frontmatter: Mapping[str, Any]
    files: list[tuple[Place, File]]


class _ChangedError(Exception):
    """What was there a moment ago is not, or is something else."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place


@dataclass(slots=True)
class _Budget:
    """What may still come in one skill."""

    skill: Place
    files: int = MAX_FILES
    directories: int = MAX_FILES
    size: int = MAX_BYTES

    def check_count(self, files: int, directories: int) -> None:
        """Take so many of each."""
        self.files -= files
        self.directories -= directories
        if self.files < 0 or self.directories < 0:
            raise refused(
                self.skill,
                f"holds more than {MAX_FILES} files, or more than {MAX_FILES} directories; remove"
                " what is not needed, or make several skills of it",
            )

    def take_bytes(self, size: int) -> None:
        """Take so many bytes, before they are read."""
        self.size -= size
        if self.size < 0:
            raise refused(
                self.skill,
                f"holds more than {MAX_BYTES} bytes; remove what is not needed, or make several"
                " skills of it",
            )


class Tree:
    """The skills below a directory. Nothing is kept but hashes of files that have not changed.

    Args:
        root: The directory. Links on the way to it are its owner's, and are followed.
        clock: Returns Unix seconds.
    """

    def __init__(self, root: str, clock: Callable[[], float]) -> None:
        self._root = root
        self._clock = clock
        self._known: dict[tuple[bool, _State], File] = {}

    def skills(self) -> list[Skill]:
        """Return all skills, by place.

        Raises:
            SourceError: If something is there that cannot be served.
        """

        def look() -> list[Skill]:
            found: list[Skill] = []
            with self._directory(()) as (fd, _):
                self._search(fd, (), found)
            return sorted(found, key=lambda skill: skill.place)

        return _steady(look)

    def skill(self, place: Place) -> Skill:
        """Return the skill in a directory.

        Raises:
            NotRegistered: If there is none.
            SourceError: If something is there that cannot be served.
        """

        def look() -> Skill:
            found: list[Skill] = []
            with self._directory(place) as (fd, _):
                if _is_skill(fd):
                    self._collect(fd, place, _Budget(place), found)
            # The outermost is found last.
            if not found or found[-1].place != place:
                raise NotRegistered("no skill is there")
            return found[-1]

        try:
            return _steady(look)
        except NotFound:
            raise NotRegistered("no skill is there") from None

    def children(self, place: Place) -> list[tuple[Place, File | None]]:
        """Return what is in a directory of a skill; None stands for a directory.

        Raises:
            NotFound: If a skill has no such directory; NotRegistered if it is none of a skill's.
            SourceError: If something is there that cannot be served.
        """

        def look() -> list[tuple[Place, File | None]]:
            with self._directory(place) as (fd, within):
                if not within:
                    raise NotRegistered("it is no directory of a skill")
                budget = _Budget(place)
                return [
                    (here, None if is_directory else self._file(fd, here, budget))
                    for here, is_directory in _content(fd, place, budget)
                ]

        return _steady(look)

    def read(self, place: Place) -> bytes:
        """Return the bytes of a file of a skill.

        Raises:
            NotFound: If a skill has no such file; NotRegistered if it is none of a skill's.
            SourceError: If it is larger than a skill may be, or cannot be read.
        """

        def look() -> bytes:
            with self._directory(place[:-1]) as (fd, within):
                if not within:
                    raise NotRegistered("it is no file of a skill")
                if not _is_regular(fd, place[-1]):
                    raise NotFound("the skill has no such file")
                with _regular(fd, place) as (file, status):
                    _Budget(place).take_bytes(status.st_size)
                    return _bytes(file, status, place)

        return _steady(look)

    @contextmanager
    def _directory(self, place: Place) -> Generator[tuple[int, bool]]:
        """Open a directory; give also whether it is a skill's, its own or one further up."""
        try:
            with ExitStack() as opened:
                fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                opened.callback(os.close, fd)
                within = False
                for depth, name in enumerate(place, 1):
                    absent = NotFound if within else NotRegistered
                    if not within and name.startswith("."):
                        raise absent("there is no such directory")
                    try:
                        fd = opened.enter_context(_opened(fd, place[:depth], os.O_DIRECTORY))
                    except _ChangedError:
                        raise absent("there is no such directory") from None
                    within = within or _is_skill(fd)
                yield fd, within
        except OSError as error:
            raise SourceError(
                f"the directory of the skills cannot be read: {error.strerror}"
            ) from None

    def _search(self, fd: int, place: Place, found: list[Skill]) -> None:
        """Find the skills in a directory that is none of a skill's, and below."""
        entries = _entries(fd)
        if SKILL_FILE in entries:
            if not place:
                raise refused((SKILL_FILE,), "makes one skill of all; give the directory above")
            self._collect(fd, place, _Budget(place), found)
            return
        for name, entry in entries.items():
            here = (*place, name)
            if name.startswith("."):
                continue
            if entry.is_symlink():
                raise _link(here)
            if entry.is_dir(follow_symlinks=False):
                with _opened(fd, _not_too_deep(here), os.O_DIRECTORY) as below:
                    self._search(below, here, found)

    def _collect(
        self, fd: int, place: Place, budget: _Budget, found: list[Skill]
    ) -> list[tuple[Place, File]]:
        """Return the files in a directory of a skill, and below; skills go to `found`."""
        files: list[tuple[Place, File]] = []
        frontmatter: Mapping[str, Any] | None = None
        for here, is_directory in _content(fd, place, budget):
            if is_directory:
                with _opened(fd, _not_too_deep(here), os.O_DIRECTORY) as below:
                    files += self._collect(below, here, budget, found)
                continue
            file = self._file(fd, here, budget)
            files.append((here, file))
            frontmatter = frontmatter or file.frontmatter
        if frontmatter is not None:
            if frontmatter["name"] != place[-1]:
                raise refused(
                    (*place, SKILL_FILE),
                    f"has the name {frontmatter['name']!r}, and its directory another; make them"
                    " the same",
                )
            found.append(Skill(place, frontmatter, files))
        return files

    def _file(self, fd: int, place: Place, budget: _Budget) -> File:
        is_skill = place[-1] == SKILL_FILE
        with _regular(fd, place) as (opened, status):
            budget.take_bytes(status.st_size)
            key = (is_skill, _state(status))
            file = self._known.get(key)
            if file is None:
                data = _bytes(opened, status, place)
                file = File(
                    len(data),
                    hashlib.sha256(data).hexdigest(),
                    _is_text(data),
                    _frontmatter(data, place) if is_skill else None,
                )
                if self._clock() * 1e9 - status.st_ctime_ns > _YOUNG:
                    if len(self._known) >= _MAX_KNOWN:
                        self._known.clear()
                    self._known[key] = file
        return file


def refused(place: Place, problem: str) -> SourceError:
    """Return the error that names a file or directory, and says what is wrong with it."""
    return SourceError(f"{'/'.join(place)!a} {problem}")


def _link(place: Place) -> SourceError:
    return refused(place, "is a symbolic link, and none is followed; put there what it leads to")


def _steady(look: Callable[[], T]) -> T:
    """Return what a look at the tree finds; look again where it changed under the first one."""
    place: Place = ()
    for _ in range(_LOOKS):
        try:
            return look()
        except _ChangedError as changed:
            place = changed.place
    raise refused(place, "changed each time it was looked at; try again when it is at rest")


@contextmanager
def _opened(at: int, place: Place, flags: int = 0) -> Generator[int]:
    """Open the last of a place's names in the directory `at`.

    Whatever fails here or in the body names the place.
    """
    fd = -1
    try:
        # Not blocking: who opens a FIFO would wait for its writer.
        flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(place[-1], flags, dir_fd=at)
        yield fd
    except OSError as error:
        if error.errno in _ABSENT:
            raise _ChangedError(place) from None
        problem = f"cannot be read: {error.strerror}; give the server the right to, or remove it"
        raise refused(place, problem) from None
    finally:
        if fd >= 0:
            os.close(fd)


@contextmanager
def _regular(at: int, place: Place) -> Generator[tuple[int, os.stat_result]]:
    with _opened(at, place) as fd:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise _ChangedError(place)
        yield fd, status


def _bytes(fd: int, status: os.stat_result, place: Place) -> bytes:
    parts: list[bytes] = []
    # One byte more than there should be, to see whether it has grown.
    left = status.st_size + 1
    while left and (part := os.read(fd, left)):
        parts.append(part)
        left -= len(part)
    if left != 1 or _state(os.fstat(fd)) != _state(status):
        raise _ChangedError(place)
    return b"".join(parts)


def _state(status: os.stat_result) -> _State:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _is_skill(fd: int) -> bool:
    return _is_regular(fd, SKILL_FILE)


def _is_regular(fd: int, name: str) -> bool:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode)


def _entries(fd: int, most: int | None = None) -> dict[str, os.DirEntry[str]]:
    """Return what is in a directory by name, in order; if that is more than `most`, a part."""
    found: list[os.DirEntry[str]] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            found.append(entry)
            if most is not None and len(found) > most:
                break
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def _content(fd: int, place: Place, budget: _Budget) -> list[tuple[Place, bool]]:
    """Return what is in a directory of a skill, and whether each is a directory."""
    content: list[tuple[Place, bool]] = []
    for name, entry in _entries(fd, budget.files + budget.directories).items():
        here = (*place, name)
        if entry.is_symlink():
            raise _link(here)
        is_directory = entry.is_dir(follow_symlinks=False)
        wanted = name != SKILL_FILE if is_directory else entry.is_file(follow_symlinks=False)
        if not wanted:
            raise refused(here, "is no regular file; a skill has only files and directories")
        content.append((here, is_directory))
    directories = sum(is_directory for _, is_directory in content)
    budget.check_count(len(content) - directories, directories)
    return content


def _not_too_deep(place: Place) -> Place:
    if len(place) > MAX_DEPTH:
        raise refused(place, f"is more than {MAX_DEPTH} directories deep; move it up")
    return place


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _frontmatter(data: bytes, place: Place) -> Mapping[str, Any]:
    try:
        return parse_frontmatter(data)
    except FrontmatterError as problem:
        message = str(problem)
    raise refused(place, message)
