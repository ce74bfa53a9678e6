"""What the tests of skills share: skills on disk, made in one line each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cursorkit.catalogs.skills import SkillCatalog


def skill_md(name: str, *more: str, description: str = "Does it.") -> str:
    """Return a SKILL.md with further lines of frontmatter."""
    lines = ["---", f"name: {name}", f"description: {description}", *more, "---", f"# {name}", ""]
    return "\n".join(lines)


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files by their paths below a directory, with the directories that they need."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def write_skills(root: Path, *paths: str) -> None:
    """Write a skill with nothing but its SKILL.md at each path."""
    write(root, {f"{path}/SKILL.md": skill_md(path.rpartition("/")[2]) for path in paths})


def digest(content: str | bytes) -> str:
    """Return the digest of a file as a skill's entry has it."""
    data = content.encode() if isinstance(content, str) else content
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def uris(skills: list[dict[str, Any]]) -> list[str]:
    """Return the URIs of entries."""
    return [skill["uri"] for skill in skills]


def catalog_of(root: Path, **options: Any) -> SkillCatalog:
    """Return the catalog of the skills below a directory."""
    return SkillCatalog.from_directory(root, **options)
