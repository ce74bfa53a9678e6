"""Imports point down, siblings are strangers, and an optional package has one place."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

LAYERS = (
    {"errors", "checks", "packing", "binding", "positions", "keys", "refusals", "adapters"},
    {"codecs", "stores", "items"},
    {"snapshots"},
    {"healing"},
    {"paginators"},
    {"catalogs", "walk"},
    {"adapters.mcp", "adapters.sqlalchemy"},
    {"adapters.fastmcp"},
    {"cli", "testing"},
)
"""The parts of the package, the ground first. `adapters` is the bare namespace of the three."""

GROUND = LAYERS[0]
PROTOCOLS = {"codecs.base", "stores.base"}
"""All that the layers up to the paginators see of codecs and stores; siblings too."""

PUBLIC_API = (GROUND | {"codecs", "stores", "items", "snapshots", "paginators"}) - {"adapters"}
"""What the package's own `__init__` may offer: nothing that needs an optional package."""

REQUIRED = {"anyio", "cryptography", "msgpack", "pydantic", "pydantic_core"}
OPTIONAL = {
    "fastmcp": {"adapters.fastmcp"},
    "httpx2": {"cli"},
    "mcp": {"adapters.mcp", "adapters.fastmcp", "cli"},
    "mcp_types": {"adapters.mcp", "adapters.fastmcp", "cli"},
    "pytest": {"testing"},
    "redis": {"stores.redis"},
    "rich": {"cli"},
    "sqlalchemy": {"adapters.sqlalchemy"},
    "starlette": {"cli"},
    "typer": {"cli"},
    "uvicorn": {"cli"},
    "yaml": {"catalogs.skills"},
}
"""Who may import what is not always installed. FastMCP and the demo are built on the MCP SDK."""


def source_modules() -> dict[str, Path]:
    """Return every module of the package by its name."""
    modules: dict[str, Path] = {}
    for path in sorted((SRC / "cursorkit").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


MODULES = source_modules()


def imported(module: str, source: str, modules: set[str], *, package: bool = False) -> set[str]:
    """Return what a module imports, wherever in its text: modules by their full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = module.split(".")[: None if package else -1]
                anchor = anchor[: len(anchor) - node.level + 1]
                base = ".".join([*anchor, base]).rstrip(".")
            names = {f"{base}.{alias.name}" for alias in node.names}
            found.update(names & modules)
            if names - modules:
                found.add(base)
    return found


def part_of(name: str) -> str | None:
    """Return the part, of those in `LAYERS`, that a name within cursorkit belongs to."""
    parts = [part for layer in LAYERS for part in layer if f"{name}.".startswith(f"{part}.")]
    return max(parts, key=len, default=None)


def height(part: str) -> int:
    """Return how high a part stands: 0 is the ground."""
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


def complaint(importer: str, target: str) -> str | None:
    """Return what is wrong with a module of cursorkit importing another, None if nothing is."""
    part, other = part_of(importer), part_of(target)
    if target == "":
        return "the package's root is for its users"
    if other is None:
        return "no such part in the picture"
    if importer == "":
        return None if other in PUBLIC_API else "the public API must stay light"
    if part is None:
        return "the importer is no part of the picture"
    if other == part:
        sibling = part in {"codecs", "stores"} and importer != part and target not in PROTOCOLS
        return "siblings never import each other, only their base" if sibling else None
    if other in GROUND and part in GROUND:
        return None
    if height(other) >= height(part):
        return "imports point down"
    if part in {"snapshots", "healing", "paginators"} and other in {"codecs", "stores"}:
        return None if target in PROTOCOLS else "of codecs and stores only their base is seen"
    return None


def violations(module: str, source: str, modules: set[str], *, package: bool = False) -> list[str]:
    """Return one line for each import in a module's source that breaks a rule."""
    lines: list[str] = []
    importer = module.removeprefix("cursorkit").lstrip(".")
    for target in sorted(imported(module, source, modules, package=package)):
        top = target.split(".")[0]
        if top == "cursorkit":
            problem = complaint(importer, target.removeprefix("cursorkit").lstrip("."))
        elif top in sys.stdlib_module_names or top in REQUIRED:
            problem = None
        elif not any(f"{importer}.".startswith(f"{place}.") for place in OPTIONAL.get(top, ())):
            problem = "an optional package has its own place"
        else:
            problem = None
        if problem:
            lines.append(f"{module} imports {target}: {problem}")
    return lines


@pytest.mark.parametrize("module", MODULES)
def test_every_import_of_the_package_follows_the_picture(module: str) -> None:
    """No module of the package imports upwards, sideways, or an optional package out of place."""
    path = MODULES[module]
    package = path.name == "__init__.py"
    source = path.read_text(encoding="utf-8")
    assert violations(module, source, set(MODULES), package=package) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """The modules can be put in one order in which each imports only earlier ones."""
    waiting = {
        module: imported(
            module,
            path.read_text(encoding="utf-8"),
            set(MODULES),
            package=path.name == "__init__.py",
        )
        & set(MODULES)
        for module, path in MODULES.items()
    }
    while ready := [module for module, needs in waiting.items() if not needs & set(waiting)]:
        for module in ready:
            del waiting[module]
    assert waiting == {}


FAKE = {
    "cursorkit",
    "cursorkit.errors",
    "cursorkit.codecs",
    "cursorkit.codecs.base",
    "cursorkit.codecs.signed",
    "cursorkit.stores",
    "cursorkit.stores.base",
    "cursorkit.stores.memory",
    "cursorkit.paginators.page",
    "cursorkit.adapters.mcp",
}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cursorkit.errors", "import cursorkit.codecs.base"),
        ("cursorkit.errors", "from cursorkit.codecs import base"),
        ("cursorkit.errors", "from cursorkit import codecs"),
        ("cursorkit.errors", "from . import codecs"),
        ("cursorkit.errors", "from .codecs.base import CursorCodec"),
        ("cursorkit.errors", "if TYPE_CHECKING:\n    from cursorkit.items import JsonItems"),
        ("cursorkit.errors", "def f():\n    import cursorkit.items"),
        ("cursorkit.errors", "from cursorkit import Offset"),
        ("cursorkit.errors", "import cursorkit"),
        ("cursorkit.errors", "import cursorkit.unheard_of"),
        ("cursorkit.unheard_of", "import cursorkit.errors"),
        ("cursorkit.codecs.expiring", "from cursorkit.codecs.signed import SignedCodec"),
        ("cursorkit.codecs.expiring", "from .signed import SignedCodec"),
        ("cursorkit.codecs.expiring", "from cursorkit.codecs import SignedCodec"),
        ("cursorkit.codecs.base", "from cursorkit.stores.base import SnapshotStore"),
        ("cursorkit.stores.tiered", "from cursorkit.stores.memory import MemoryStore"),
        ("cursorkit.items", "from cursorkit.stores.base import StoredObject"),
        ("cursorkit.snapshots", "from cursorkit.stores.memory import MemoryStore"),
        ("cursorkit.snapshots", "from cursorkit.paginators.page import Page"),
        ("cursorkit.paginators.snapshot", "from cursorkit.codecs.signed import SignedCodec"),
        ("cursorkit.paginators.snapshot", "from ..stores import memory"),
        ("cursorkit.walk", "import cursorkit.catalogs"),
        ("cursorkit.adapters.sqlalchemy", "import cursorkit.adapters.mcp"),
        ("cursorkit.adapters", "from cursorkit.adapters import mcp"),
        ("cursorkit.testing.codecs", "import cursorkit.cli"),
        ("cursorkit", "from cursorkit.adapters.mcp import CursorPagination"),
        ("cursorkit.stores.memory", "import redis.asyncio"),
        ("cursorkit.stores.base", "if TYPE_CHECKING:\n    from redis.asyncio import Redis"),
        ("cursorkit.items", "from mcp.types import Tool"),
        ("cursorkit.adapters.mcp", "import fastmcp"),
        ("cursorkit.adapters.mcp_tools", "import mcp"),
        ("cursorkit.keys", "import yaml"),
        ("cursorkit.paginators.offset", "import sqlalchemy"),
        ("cursorkit.keys", "import typer"),
        ("cursorkit.keys", "import numpy"),
    ],
)
def test_the_check_finds_what_breaks_a_rule(module: str, source: str) -> None:
    """Each source breaks one rule, and the check says so."""
    assert len(violations(module, source, FAKE)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cursorkit.codecs.signed", "from cursorkit.codecs.base import CursorCodec"),
        ("cursorkit.codecs.signed", "from cursorkit.codecs import base"),
        ("cursorkit.codecs.signed", "from .base import CursorCodec"),
        ("cursorkit.codecs.signed", "from ..errors import CursorError"),
        ("cursorkit.keys", "from cursorkit.errors import ConfigurationError"),
        ("cursorkit.snapshots", "from cursorkit.items import JsonItems"),
        ("cursorkit.paginators.snapshot", "from cursorkit.stores.base import SnapshotStore"),
        ("cursorkit.paginators.snapshot", "from cursorkit.paginators.page import Page"),
        ("cursorkit.adapters.fastmcp", "import fastmcp\nimport cursorkit.adapters.mcp"),
        ("cursorkit.adapters.mcp.lists", "from mcp.server import Server"),
        ("cursorkit.stores.redis", "import redis.asyncio"),
        ("cursorkit.cli", "import typer, rich.table, cursorkit.adapters.mcp"),
        ("cursorkit", "from cursorkit.stores.memory import MemoryStore"),
        ("cursorkit.keys", "import json, msgpack\nfrom cryptography.hazmat import primitives"),
    ],
)
def test_the_check_lets_pass_what_is_allowed(module: str, source: str) -> None:
    """Each source follows the rules, and the check is silent."""
    assert violations(module, source, FAKE) == []


def test_the_check_reads_the_imports_of_a_package() -> None:
    """In an `__init__`, a relative import starts from the package itself, not from its parent."""
    source = "from .signed import SignedCodec"
    assert imported("cursorkit.codecs", source, FAKE, package=True) == {"cursorkit.codecs.signed"}
    assert violations("cursorkit.codecs", source, FAKE, package=True) == []


def test_importing_cursorkit_loads_nothing_heavy() -> None:
    """A fresh interpreter that imports cursorkit loads no pydantic and no optional package."""
    program = "import sys, cursorkit; print(*{name.split('.')[0] for name in sys.modules})"
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(result.stdout.split())
    assert "cursorkit" in loaded
    assert loaded & {"pydantic", *OPTIONAL} == set()
