"""The benchmarks run, and print what they found with the goals beside it. No figure is asserted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

import pytest

from benchmarks import __main__ as everything
from benchmarks import bench_codec, bench_hosts, bench_pages, bench_store
from benchmarks.descriptors import descriptors
from benchmarks.harness import Measurement, Ratio, Report, best_times, show

CODEC: Final = ["--rounds", "1", "--loops", "1"]
PAGES: Final = ["--rounds", "1", "--lengths", "120", "360", "--principals", "3"]
STORE: Final = ["--rounds=1", "--length=300", "--principals=3", "--patience=0.2", "--cluster"]

Main = Callable[[list[str]], None]

EACH = pytest.mark.parametrize(
    ("main", "arguments"),
    [(bench_codec.main, CODEC), (bench_pages.main, PAGES), (bench_store.main, STORE)],
)


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep colours out of what is printed, whatever the CI asks for."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)


def small_report(*_: object, **__: object) -> Report:
    """Return a report with a figure of each unit, and a ratio of each verdict."""
    return Report(
        "small",
        {"seed": 1},
        ["msgpack"],
        [
            Measurement("group", "quick", 0.000_004),
            Measurement("group", "slow", 0.25),
            Measurement("stored", "much", 12_345, "bytes"),
        ],
        [Ratio("good", 1.5, 1.5), Ratio("bad", 1.51, 1.5), Ratio("without a goal", 9)],
    )


@EACH
def test_a_benchmark_prints_ratios_with_their_goals(
    main: Main, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark prints a table with a goal and a verdict, within 100 columns."""
    main(arguments)
    output = capsys.readouterr().out
    assert "≤ 1.20" in output or "≤ 1.50" in output
    assert " met" in output or " missed" in output
    assert max(map(len, output.splitlines())) <= 100


@EACH
def test_a_benchmark_prints_json(
    main: Main, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--json`, a benchmark prints one object with its stamp, figures and ratios."""
    main([*arguments, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["stamp"]["packages"].keys() >= {"cursorkit", "cryptography", "msgpack"}
    assert found["stamp"].keys() == {"python", "cpu", "cores", "system", "packages"}
    assert all(each["value"] > 0 for each in found["measurements"])
    assert all(math.isfinite(each["value"]) for each in found["ratios"])
    assert {each["met"] for each in found["ratios"]} <= {True, False, None}


def test_the_codec_is_held_against_both_goals() -> None:
    """The goals are those of FastMCP's unsigned cursor and of itsdangerous' timed serializer."""
    goals = [ratio.goal for ratio in bench_codec.run(rounds=1, loops=1, seed=1).ratios]
    assert goals == [1.5, 1.5, 1 / 4, 1 / 4, 2, 2, 1 / 3, 1 / 3]


def test_many_principals_store_what_one_does() -> None:
    """The storage that is measured does not grow with the principals who see the same list."""
    report = bench_pages.run(lengths=[120, 360], rounds=1, principals=3, seed=1)
    assert report.ratios[-1] == Ratio("bytes for 3 principals / for one", 1, 1)


def test_the_store_is_held_against_its_goals() -> None:
    """Each goal has its ratio; what the server counts, and not the clock, is as it must be."""
    settings = bench_store.Settings(rounds=1, length=300, principals=3, patience=0.2)
    report = bench_store.run(settings)
    goals = [ratio.goal for ratio in report.ratios if ratio.goal is not None]
    assert goals == [0, 1, 4, 1, 3, 3, 1.5, 1.5, 2.5, 45, *[1.2] * 6]
    trips = [ratio.value for ratio in report.ratios if ratio.name.startswith("round trips")]
    assert trips == [0, 1, 3]
    stored = [each.value for each in report.measurements if each.unit == "objects"]
    assert stored == [300 + 3, 300 + 3 * 3, 300 + 3 * 3]


def test_descriptors_are_seeded_and_distinct() -> None:
    """The same seed gives the same descriptors of about 1 kB, each with its own name."""
    found = descriptors(50, seed=7)
    assert found == descriptors(50, seed=7)
    assert found != descriptors(50, seed=8)
    assert len({each["name"] for each in found}) == 50
    assert 900 < len(json.dumps(found)) / 50 < 1200


def test_all_benchmarks_print_one_array(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m benchmarks --json` prints the reports of all benchmarks as one array."""
    monkeypatch.setattr(bench_codec, "run", small_report)
    monkeypatch.setattr(bench_pages, "run", small_report)
    monkeypatch.setattr(bench_store, "run", small_report)
    monkeypatch.setattr(bench_hosts, "run", small_report)
    everything.main(["--json"])
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["small"] * 4


def test_a_report_shows_units_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures carry a fitting unit; a goal is met at its very value, and missed above it."""
    show([small_report()], as_json=False)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert ["group", "quick", "4.00", "µs"] in rows
    assert ["slow", "250.0", "ms"] in rows
    assert ["stored", "much", "12,345", "bytes"] in rows
    assert ["good", "1.50", "≤", "1.50", "met"] in rows
    assert ["bad", "1.51", "≤", "1.50", "missed"] in rows
    assert ["without", "a", "goal", "9.00"] in rows


def test_every_contestant_runs_in_every_round() -> None:
    """Contestants take turns: each runs its loops in each round, and the best time is kept."""
    calls: list[str] = []
    best = best_times(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        rounds=20,
        loops=2,
        seed=1,
    )
    rounds = [calls[start : start + 4] for start in range(0, 80, 4)]
    assert len(calls) == 80
    assert all(each in (["a", "a", "b", "b"], ["b", "b", "a", "a"]) for each in rounds)
    assert len({tuple(each) for each in rounds}) == 2
    assert list(best) == ["a", "b"]
    assert all(0 <= seconds < math.inf for seconds in best.values())
