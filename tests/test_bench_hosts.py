"""The benchmark of hosts runs, and holds its figures against both goals. None is asserted."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from benchmarks import bench_hosts

ARGUMENTS = ["--tools=120", "--rounds=1", "--sample=1"]


def test_it_prints_ratios_with_their_goals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints a table with each goal and a verdict, within 100 columns."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    bench_hosts.main(ARGUMENTS)
    output = capsys.readouterr().out
    assert "walk of 3 pages" in output
    assert "≤ 1.00" in output
    assert "≤ 2.00" in output
    assert max(map(len, output.splitlines())) <= 100


def test_it_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json` it prints its stamp, figures and ratios, and the computed walk is named so."""
    bench_hosts.main([*ARGUMENTS, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["stamp"]["packages"].keys() == {"cursorkit", "fastmcp", "mcp"}
    page = {each["name"]: each["value"] for each in found["measurements"][:3]}
    walks = {each["name"]: each["value"] for each in found["measurements"][3:]}
    own = "FastMCP with list_page_size=50"
    assert walks[f"{own}, computed"] == 3 * page[own]
    assert all(0 < value < math.inf for value in [*page.values(), *walks.values()])
    assert [ratio["goal"] for ratio in found["ratios"]] == [1, 2]
