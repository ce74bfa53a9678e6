"""SECURITY.md: every threat names a test, and the test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| ([^|]*`[^|]*) \|$", (ROOT / "SECURITY.md").read_text(), re.M
)


def functions_of(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_table_is_read() -> None:
    """The pattern finds the threats: a table that was reformatted does not pass unread."""
    assert len(ROWS) >= 23


@pytest.mark.parametrize(("threat", "proofs"), ROWS, ids=[threat[:40] for threat, _ in ROWS])
def test_each_threat_has_its_test(threat: str, proofs: str) -> None:
    """A defence that is promised is a defence that is tested."""
    for name in re.findall(r"`([\w./]+\.py(?:::\w+)?)`", proofs):
        file, _, function = name.partition("::")
        path = ROOT / file if "/" in file else ROOT / "tests" / file
        assert path.is_file(), f"{threat}: {file}"
        assert not function or function in functions_of(path), f"{threat}: {name}"
