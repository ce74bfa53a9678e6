"""`docs/assurance.md`: what it names is there, and what it counts is counted right."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "assurance.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", TEXT)


def test_the_files_that_it_names_are_there() -> None:
    """Each path in it exists."""
    paths = {word for word in QUOTED if re.fullmatch(r"(tests|fuzz|docs)/[\w/.]+|\w+\.md", word)}
    assert len(paths) >= 6
    missing = {path for path in paths if not (ROOT / path).exists()}
    assert missing == {"tests/vectors/released/1.2.3"}  # an example


def test_the_commands_that_it_names_are_there() -> None:
    """Each `make` target is in the Makefile, and each module that it runs can be found."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {word.split()[1] for word in QUOTED if word.startswith("make ")}
    assert targets >= {"test", "fuzz", "timing", "mutants", "vectors"}
    assert {name for name in targets if f"\n{name}: " not in makefile} == set()
    modules = re.findall(r"python -m ([\w.]+)", TEXT)
    assert modules
    assert all((ROOT / f"{name.replace('.', '/')}.py").exists() for name in modules)


def test_the_targets_that_it_names_are_fuzzed() -> None:
    """The fuzz targets in its first table are in the table of targets."""
    from fuzz.targets import TARGETS

    named = {name for name in ("raw", "body", "replies", "tree") if f"`{name}`" in TEXT}
    assert named == {"raw", "body", "replies", "tree"}
    assert named <= TARGETS.keys()


@pytest.mark.parametrize("bad", [False, True])
def test_its_count_of_vectors_is_right(*, bad: bool) -> None:
    """All of them, and those that must fail."""
    found = re.search(r"\| vectors \| ([\d,]+), of which ([\d,]+) must fail \|", TEXT)
    assert found is not None
    files = (ROOT / "tests" / "vectors").glob("*.json")
    vectors = [each for path in files for each in json.loads(path.read_text())["vectors"]]
    count = sum(not each["valid"] for each in vectors) if bad else len(vectors)
    assert int(found[1 + bad].replace(",", "")) == count
